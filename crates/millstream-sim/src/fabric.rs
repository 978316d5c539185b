//! The switch fabric: end-points and switches joined by links with credit-based flow control.
//!
//! [`topology`] is who is joined with whom and how packets find their way, [`traffic`] what
//! end-points inject; [`Simulation`] runs both, with the engine's scheduler at every link; [`Statistics`] listens.

mod crossbar;
mod error;
mod listener;
mod packets;
mod parameters;
mod scenario;
mod simulation;
mod statistics;
mod timeline;
pub mod topology;
pub mod traffic;

pub use error::FabricError;
pub use listener::{Delivery, FabricListener};
pub use parameters::{
    Arbiter, Buffering, Crossbar, Egress, Forwarding, LinkParameters, PORTS_MOST, Queueing,
    SwitchParameters,
};
pub use scenario::{PrepareError, Prepared, prepare, topology as topology_of};
pub use simulation::Simulation;
pub use statistics::{ClassStatistics, Statistics};
