//! An RTSP player for tests and benchmarks: RTSP by `rtsp-types`, RTP by `rtp-types`.
//!
//! [`Player`] keeps the packets of one session; [`receive`] records those of many sessions at one
//! socket, with arrival times from which [`lateness`] and [`delays`] follow. The times of a
//! [`StampedSocket`] are the kernel's. Errors panic: a test shows them.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod arrivals;
mod player;

pub use arrivals::{Arrival, Datagram, FrameArrival, StampedSocket, delays, lateness, receive};
pub use player::{Player, ReceivedFrame};

/// The former name of [`ReceivedFrame`].
#[deprecated(note = "renamed to `ReceivedFrame`")]
pub type Seen = ReceivedFrame;
