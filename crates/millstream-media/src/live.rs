//! Live streams: video that is played while a publisher sends it.
//!
//! ```text
//! publisher ── RTP ──> reorder ──> assemble ── frames ──> ingest: packetize, police, release
//!                                                           │ frame rings in shared memory
//! players <── RTP ── dispatch <────────────────────────────┘
//! ```
//! The host receives a publisher's packets, assembles frames, packetizes them like those of files
//! and sets their release times. The data plane reads released frames from a ring that it maps
//! read-only.

pub(crate) mod assemble;
pub(crate) mod held;
pub(crate) mod ingest;
pub(crate) mod on_demand;
pub(crate) mod paths;
pub(crate) mod policer;
pub(crate) mod publishing;
pub(crate) mod reorder;
pub(crate) mod transport_stream;

/// Why a live stream or a recording cannot be played.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// There is none, or it has no publisher.
    Missing(String),
    /// It may be playable later: its publisher is awaited, all places are taken, or the server
    /// drains.
    Busy(String),
}
