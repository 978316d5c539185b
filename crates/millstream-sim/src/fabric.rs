//! The switch fabric: end-points and switches connected by links with credit-based flow control.
//!
//! [`topology`] describes the connections and the routing, [`traffic`] the packets that end-points
//! inject. [`Simulation`] runs both, with the engine's scheduler at every link. Listeners observe
//! it: [`Statistics`] counts by class, [`TimeSeries`] over time, [`Buffers`] by link; [`Journeys`]
//! follows packets.

mod bounds;
mod buffers;
mod crossbar;
mod error;
mod event_queue;
mod journeys;
mod listener;
mod occupancy;
mod packets;
mod parameters;
mod scenario;
mod simulation;
mod statistics;
mod time_series;
pub mod topology;
pub mod traffic;

pub use bounds::{NoFabricBound, delay_bounds};
pub use buffers::{Buffers, OccupancySummary};
pub use error::FabricError;
pub use journeys::{
    CrossbarTransfer, Hop, Journey, Journeys, MAX_JOURNEYS, MAX_SAMPLES, Sample, SampledQuantity,
    Selection, Stage, StageKind, Transmission,
};
pub use listener::{Delivery, FabricListener, PacketStep, Step};
pub use parameters::{
    Arbiter, Buffering, Crossbar, Egress, Forwarding, LinkParameters, MAX_PORTS, Queueing,
    SwitchParameters,
};
pub use scenario::{PrepareError, Prepared, prepare, topology as topology_of};
pub use simulation::{Replication, Simulation};
pub use statistics::{ClassStatistics, Statistics};
pub use time_series::{BINS, Bin, TimeSeries};

/// Deprecated alias of [`TimeSeries`].
#[deprecated(note = "renamed to `TimeSeries`")]
pub type Curves = TimeSeries;

/// Deprecated alias of [`PacketStep`].
#[deprecated(note = "renamed to `PacketStep`")]
pub type Passage = PacketStep;

/// Deprecated alias of [`CrossbarTransfer`].
#[deprecated(note = "renamed to `CrossbarTransfer`")]
pub type Crossing = CrossbarTransfer;

/// Deprecated alias of [`SampledQuantity`].
#[deprecated(note = "renamed to `SampledQuantity`")]
pub type Sampled = SampledQuantity;

/// Deprecated alias of [`OccupancySummary`].
#[deprecated(note = "renamed to `OccupancySummary`")]
pub type Fill = OccupancySummary;

/// Deprecated alias of [`MAX_JOURNEYS`].
#[deprecated(note = "renamed to `MAX_JOURNEYS`")]
pub const JOURNEYS_MOST: usize = MAX_JOURNEYS;

/// Deprecated alias of [`MAX_SAMPLES`].
#[deprecated(note = "renamed to `MAX_SAMPLES`")]
pub const SAMPLES_MOST: usize = MAX_SAMPLES;

/// Deprecated alias of [`MAX_PORTS`].
#[deprecated(note = "renamed to `MAX_PORTS`")]
pub const PORTS_MOST: u16 = MAX_PORTS;
