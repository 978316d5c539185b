//! Measures the cost of a scheduling decision on this machine.
//!
//! ```text
//! workload   streams, backlogged streams, missed request periods
//! measure    one structure under one workload: percentiles of ns a step over several samples
//! queue      deadline queues from the literature, in this process
//! peer       another system under an equal workload, in its own process
//! plan       structures and hardware that keep up with a link
//! ```
//!
//! Streams are DWCS, earliest deadline first. Times depend on the machine's state: compare within
//! one run.

mod measure;
mod peer;
mod pin;
pub mod plan;
mod queue;
mod workload;

pub use measure::{Measurement, Subject, measure};
pub use peer::measure_peer;
pub use pin::pin_to_one_core;
pub use workload::{Deadlines, Work, Workload};
