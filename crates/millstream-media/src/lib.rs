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
//! A layer uses only layers above it in this table, and modules of its own row. `millstream-tidy`
//! checks the first four rows.
//!
//! | layer | does | may use, in addition to the engine |
//! |---|---|---|
//! | `rtp` | constants and contents of RTP packets | nothing |
//! | `shared_memory` | data structures that both sides map | `rtp`; no clock, no socket |
//! | `scheduler` | admission, lanes, dispatch | `rtp`, `shared_memory`; no clock, socket, file |
//! | `payload` | cuts frames into packets | `rtp`; no clock, socket, file |
//! | `wake_socket` | wake-ups of other processes | the system |
//! | `instruction` | WebAssembly filters of frames | all above; a thread and its socket |
//! | `data_plane`, `files::read_ahead` | event loop, reading of files | all above; the system |
//! | `recording` | writes live streams to files; a thread | all above; the system |
//! | `files`, `live`, `rtsp`, `pages`, `cluster` | session control | all above; the system |
//! | `http` | requests of browsers and players | all above |
//! | `hls` | parts and playlists of live streams; a thread | all above; the system |
//! | `webrtc` | requests and packets of browsers | all above; the system |
//! | `hooks` | events of streams; the process of their commands | all above; the system |
//! | `server` | composes session control, supervises the data plane | all above; the system |
//!
//! Session control and the data plane communicate only through shared memory, so either survives
//! the other. The data plane is a thread of the server or a separate process.
//!
//! Servers on several hosts share their clients (`cluster`). Host programs extend the running data
//! plane (`instruction`).
//!
//! [`MediaServer`] is the entry point; [`run_data_plane_process`] runs the separate data-plane
//! process.

mod cluster;
mod data_plane;
mod error;
mod files;
#[doc(hidden)]
pub mod frame_cost;
#[doc(hidden)]
pub mod fuzzing;
mod hls;
mod hooks;
mod http;
mod instruction;
mod live;
mod pages;
mod payload;
mod recording;
mod rtmp;
mod rtp;
mod rtsp;
mod scheduler;
mod server;
mod shared_memory;
mod srt;
mod wake_socket;
// The stand-in for peers uses less.
#[cfg_attr(not(feature = "webrtc"), allow(dead_code))]
mod webrtc;

pub use cluster::ClusterMoves;
pub use data_plane::placement::{
    ConfinementHooks, run_confined_data_plane, run_data_plane_process,
};
pub use error::MediaError;
pub use files::read_ahead::producer::frame_producer;
pub use files::title_admission::{TitleAdmission, admission_of};
pub use hooks::HookStatus;
pub use hooks::runner::run_hooks;
pub use instruction::api::InstructionStatus;
pub use live::ingest::Ingested;
pub use pages::recordings::RecordingEntry;
pub use pages::status::{
    ClientStatus, Cpu, HlsStatus, LiveStatus, Reading, RecordingStatus, RejectStatus, Status,
    WebRtcStatus, WindowStatus,
};
pub use rtsp::session::FrameCounts;
pub use server::{MediaServer, Report, ShutdownMode};

/// The former name of [`ShutdownMode`].
#[deprecated(note = "renamed to `ShutdownMode`")]
pub type Course = ShutdownMode;

/// The former name of [`ClusterMoves`].
#[deprecated(note = "renamed to `ClusterMoves`")]
pub type Moves = ClusterMoves;

/// The former name of [`FrameCounts`].
#[deprecated(note = "renamed to `FrameCounts`")]
pub type Account = FrameCounts;

/// The former name of [`ConfinementHooks`].
#[deprecated(note = "renamed to `ConfinementHooks`")]
pub type Confined = ConfinementHooks;

/// The former name of [`RejectStatus`].
#[deprecated(note = "renamed to `RejectStatus`")]
pub type RefusalStatus = RejectStatus;

/// The former name of [`run_data_plane_process`].
///
/// # Errors
/// See [`run_data_plane_process`].
#[deprecated(note = "renamed to `run_data_plane_process`")]
pub fn network_interface_processor() -> std::io::Result<()> {
    run_data_plane_process()
}

/// The former name of [`run_confined_data_plane`].
///
/// # Errors
/// See [`run_data_plane_process`].
#[deprecated(note = "renamed to `run_confined_data_plane`")]
pub fn confined_processor(confined: ConfinementHooks) -> std::io::Result<()> {
    run_confined_data_plane(confined)
}
