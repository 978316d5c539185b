//! Live streams: video that is played while a publisher sends it.
//!
//! ```text
//! publisher ── RTP ──> reorder ──> assemble ── frames ──> ingest: packetize, police, release
//!                                                           │ frame rings in shared memory
//! players <── RTP ── dispatch <── followers ────────────────┘
//! ```
//! The host receives a publisher's packets, assembles frames, packetizes them like those of files
//! and sets their release times. The data plane reads released frames from a ring that it maps
//! read-only. Followers are sessions that wait for the next frame.

pub(crate) mod assemble;
pub(crate) mod followers;
pub(crate) mod frames;
pub(crate) mod ingest;
pub(crate) mod police;
pub(crate) mod publishing;
pub(crate) mod reorder;
