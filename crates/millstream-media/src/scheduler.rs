//! Which frame goes next: admission, lanes, clients and dispatch. No clock and no socket of its
//! own.

pub(crate) mod admission;
pub(crate) mod client;
pub(crate) mod demand;
pub(crate) mod dispatch;
pub(crate) mod held;
pub(crate) mod lane;
pub(crate) mod loss_sharing;
pub(crate) mod online_choice;
pub(crate) mod optional_frames;
