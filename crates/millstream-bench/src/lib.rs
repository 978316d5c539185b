//! Measures what a scheduling decision costs on this machine.
//!
//! ```text
//! workload   streams, how many are backlogged, how many request periods are missed
//! measure    one structure under one workload: percentiles of ns a step over several samples
//! queue      deadline queues from the literature, in this process
//! peer       another system on the same workload, in a process of its own
//! plan       which structures and which hardware keep up with a link
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
