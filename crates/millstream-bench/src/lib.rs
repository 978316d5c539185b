//! What a scheduling decision costs on this machine.
//!
//! ```text
//! workload   streams, how many of them wait, how many request periods are missed
//! measure    one structure under one workload: percentiles of ns a step over several samples
//! queue      queues by deadline as others build them, in this program
//! peer       another system on the same work, in a program of its own
//! plan       which of these, and which hardware, keeps up with a link
//! ```
//!
//! Streams are DWCS, earliest deadline first. Times are this machine's now: compare within one run.

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
