//! Frame scheduling: admission, lanes, clients and dispatch. Has no clock and no socket: callers
//! pass the time and a [`dispatch::PacketSender`].

pub(crate) mod admission;
pub(crate) mod client;
pub(crate) mod demand;
pub(crate) mod dispatch;
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
