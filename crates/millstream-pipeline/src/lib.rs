//! The engine among threads: producers enqueue while the scheduler decides and a collector
//! reclaims.
//!
//! ```text
//!  Producer ──ring──┐                                        drops
//!  Producer ──ring──┼─> Scheduling ──────────ring──────────────────> Collector
//!  Producer ──ring──┘   (owns the engine)                             ↑
//!                            └──ring──> Transmitter ──ring────────────┘
//!                         departures                finished
//! ```
//!
//! Each stage runs on one thread and is joined to the next by single-producer single-consumer
//! rings of fixed size, so the engine stays what it is: free of threads, owned by one. In the
//! steady state no stage takes a lock, allocates or calls the system for a packet; a stage with
//! nothing to do spins, yields, then sleeps until a neighbour rings its bell.
//!
//! [`Pipeline::new`] makes the stages. [`Scheduling::run`] takes packets as they come;
//! [`Scheduling::run_stamped`] merges them by their stamps and gives, whatever the threads do, the
//! schedule of one thread. When all [`Producer`]s are dropped, the stages drain and end one after
//! the other. Every packet that was [accepted](Producer::accepted) is then
//! [counted](Counts) as sent or dropped, or still waits in the scheduler that
//! [comes back](Ended).
//!
//! Source of the stages: the IXP1200 pipeline of receiving, scheduling and garbage-collecting
//! threads in the HILQ paper, section 5.4; here the stages share rings where there they shared the
//! queue, so that no update works on old values.

mod parker;
mod channel;
mod clock;
mod collector;
mod counters;
mod inputs;
#[cfg(all(test, loom))]
mod models;
mod packet_sender;
mod pipeline;
mod producer;
mod ring;
mod scheduling;
mod sync;
mod transmitter;

pub use clock::{Clock, Monotonic};
pub use collector::Collector;
pub use counters::{Counters, Counts};
pub use pipeline::{Pipeline, Sizes};
pub use producer::{OfferError, Producer};
pub use scheduling::{Ended, Scheduling};
pub use transmitter::{Progress, Transmitter};
