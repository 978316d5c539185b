//! An exact simulation of links in series, with packets that react.
//!
//! ```text
//! sender ─> [link] ─> hop ─> … ─ rtt/2 ─> receiver
//!   ^                                        │ acknowledgements, answers
//!   └──────── rtt/2 ─ hop <─ hop <───────────┘
//! ```
//!
//! Each link has a scheduler with all streams of the scenario, decides as in [`link`](crate::link),
//! and passes a packet on at the end of its transmission and propagation delay. Sources that do not
//! react arrive at the first link of their direction. The senders of a `tcp` source react to
//! acknowledgements, the clients of a `web` source request objects on connections of their own, an
//! `echo` source measures round trips, and an `adaptive` source follows the reports of its
//! receiver.
//!
//! Events of one instant are processed in this order: timers and arrivals in the order in which
//! they were scheduled, arrivals of the feed, decisions.
//!
//! Not modelled: short segments except the last of a transfer or object, and limited reassembly
//! buffers.

mod adaptive;
mod bbr;
mod connection;
mod control;
mod hop;
mod hystart;
mod packets;
mod rack;
mod ranges;
mod receiver;
mod report;
mod round_trip;
mod sender;
mod simulation;

pub use report::{Completions, HopReport, NetworkReport, Pages, SIZE_CLASSES, SourceReport, Times};

use millstream_scenario::{Network, Scenario};
use millstream_traffic::Feed;

use crate::link::{End, Listener, RunError};

/// Runs `scenario` on the links of `network` until all packets have left them and no sender has
/// more.
///
/// # Errors
/// Returns the first unreadable input or failed output; the listener has received all earlier
/// events.
pub fn run(
    scenario: &Scenario,
    network: &Network,
    feed: &mut dyn Feed,
    listener: &mut dyn Listener,
) -> Result<End, RunError> {
    simulation::Simulation::new(scenario, network, listener).run(feed)
}
