//! The switch fabric: end-points and switches connected by links with credit-based flow control.
//!
//! [`topology`] describes the connections and the routing, [`traffic`] the packets that end-points
//! inject. [`Simulation`] runs both, with the engine's scheduler at every link. Listeners observe
//! it: [`Statistics`] counts by class, [`TimeSeries`] over time, [`Buffers`] by link; [`Journeys`]
//! follows packets.

mod buffers;
mod crossbar;
mod error;
mod journeys;
mod listener;
mod occupancy;
mod packets;
mod parameters;
mod scenario;
mod simulation;
mod statistics;
mod time_series;
mod timeline;
pub mod topology;
pub mod traffic;

pub use buffers::{Buffers, Fill};
pub use error::FabricError;
pub use journeys::{
    Crossing, Hop, JOURNEYS_MOST, Journey, Journeys, SAMPLES_MOST, Sample, Sampled, Selection,
    Stage, StageKind, Transmission,
};
pub use listener::{Delivery, FabricListener, Passage, Step};
pub use parameters::{
    Arbiter, Buffering, Crossbar, Egress, Forwarding, LinkParameters, PORTS_MOST, Queueing,
    SwitchParameters,
};
pub use scenario::{PrepareError, Prepared, prepare, topology as topology_of};
pub use simulation::Simulation;
pub use statistics::{ClassStatistics, Statistics};
pub use time_series::{BINS, Bin, TimeSeries};

/// Deprecated alias of [`TimeSeries`].
#[deprecated(note = "renamed to `TimeSeries`")]
pub type Curves = TimeSeries;
