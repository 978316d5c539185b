//! The switch fabric: end-points and switches joined by links with credit-based flow control.
//!
//! [`topology`] is who is joined with whom and how packets find their way, [`traffic`] what
//! end-points inject; [`Simulation`] runs both, with the engine's scheduler at every link. Who
//! wants to know what happens listens: [`Statistics`] counts by class, [`Curves`] over time,
//! [`Buffers`] by link; [`Journeys`] follows packets.

mod buffers;
mod crossbar;
mod curves;
mod error;
mod journeys;
mod level;
mod listener;
mod packets;
mod parameters;
mod scenario;
mod simulation;
mod statistics;
mod timeline;
pub mod topology;
pub mod traffic;

pub use buffers::{Buffers, Fill};
pub use curves::{BINS, Bin, Curves};
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
