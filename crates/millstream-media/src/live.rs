//! Live streams: video that somebody publishes while it is played.
//!
//! ```text
//! publisher ── RTP ──> reorder ──> assemble ── frames ──> ingest: cut, policed, released
//!                                                           │ frames: rings in shared memory
//! players <── RTP ── dispatch <── followers: who waits for a frame ──────┘
//! ```
//! The host takes a publisher's packets, puts frames together, cuts them into packets as those of
//! files are, and says when each is released; the processor reads what is released from a ring that
//! it cannot write.

pub(crate) mod assemble;
pub(crate) mod followers;
pub(crate) mod frames;
pub(crate) mod ingest;
pub(crate) mod police;
pub(crate) mod publishing;
pub(crate) mod reorder;
