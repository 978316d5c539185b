//! Frame scheduling: admission, lanes, clients and dispatch.
//!
//! This layer has no clock, no socket and no file. The data plane passes the time, a
//! [`dispatch::PacketSender`] and a [`frame_filter::FrameFilter`]; session control passes the
//! demands for admission. The layer reads and writes frames, session rows and messages through
//! `shared_memory` and uses nothing else of the crate but the constants in `rtp`.

pub(crate) mod admission;
pub(crate) mod client;
pub(crate) mod demand;
pub(crate) mod dispatch;
pub(crate) mod followers;
pub(crate) mod frame_filter;
pub(crate) mod frame_view;
pub(crate) mod held_frames;
pub(crate) mod lane;
pub(crate) mod loss_sharing;
pub(crate) mod online_choice;
pub(crate) mod optional_frames;

/// The scheduling disciplines that the host can configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Schedule {
    Dwcs,
    Edf,
    Fifo,
}
