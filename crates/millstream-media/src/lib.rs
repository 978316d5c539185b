//! The media server: serves RTSP clients and schedules their frames with the engine.
//!
//! ```text
//!  players ── RTSP ──> session control          (server, rtsp, pages, cluster)
//!                        │ shared_memory: region (session fields), store (sealed frames)
//!                      data plane               (data_plane, scheduler)
//!  players <── RTP ──────┘
//! ```
//! A publisher's frames (`live`) take the path of frames from files. The data plane or a producer
//! process reads files that are not kept in memory ahead of playback (`files::read_ahead`).
//! `files::library` reads and packetises files once.
//!
//! Session control and the data plane communicate only through shared memory, so either survives
//! the other. The data plane is a thread of the server or a separate process.
//!
//! Servers on several hosts share their clients (`cluster`). Host programs extend the running data
//! plane (`instruction`).
//!
//! [`MediaServer`] is the entry point; [`network_interface_processor`] runs the separate data-plane
//! process.

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
