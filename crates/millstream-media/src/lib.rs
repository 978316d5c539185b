//! The media server: RTSP clients whose frames the engine schedules.
//!
//! ```text
//!  players ── RTSP ──> session control          (server, connection, tls, rtsp, access, session, pages, …)
//!                        │ region: rows of words │ store: frames, sealed
//!                      processor                (processor: client, lane, dispatch, outlet)
//!  players <── RTP ──────┘
//! ```
//! A publisher's frames (`live`) go the same way as those of files.
//! Films that are not to be in memory are read while they play (`feed`), by the processor or a process beside it.
//! Session control and the processor share nothing but memory that either may lose the other from:
//! the processor is a thread of the server or a process of its own, and does not know which. Files are
//! read and cut into packets once (`library`, `packets`).
//!
//! Servers on several hosts share their clients (`cluster`). Host programs extend the processor while it runs
//! (`instruction`).
//!
//! [`MediaServer`] is the way in; [`network_interface_processor`] is what the other process runs.

mod clock;
mod cluster;
mod data_plane;
mod error;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod instruction;
mod live;
#[doc(hidden)]
pub mod measuring;
mod pages;
mod payload;
mod rtsp;
mod scheduler;
mod server;
mod shared_memory;

pub use cluster::ClusterMoves;
pub use data_plane::placement::{Confined, confined_processor, network_interface_processor};
pub use error::MediaError;
pub use files::read_ahead::producer::frame_producer;
pub use instruction::api::InstructionStatus;
pub use live::ingest::Ingested;
pub use pages::status::{
    ClientStatus, Cpu, LiveStatus, Reading, RefusalStatus, Status, WindowStatus,
};
pub use rtsp::session::Account;
pub use scheduler::admission::{TitleAdmission, admission_of};
pub use server::{MediaServer, Report, ShutdownMode};

/// The former name of [`ShutdownMode`].
#[deprecated(note = "renamed to `ShutdownMode`")]
pub type Course = ShutdownMode;

/// The former name of [`ClusterMoves`].
#[deprecated(note = "renamed to `ClusterMoves`")]
pub type Moves = ClusterMoves;
