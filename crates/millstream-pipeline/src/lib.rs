//! Runs the engine on threads of its own: producers enqueue, the scheduler decides, a transmitter
//! sends and a collector reclaims.
//!
//! ```text
//!  Producer ──ring──┐                                        drops
//!  Producer ──ring──┼─> Scheduling ──────────ring──────────────────> Collector
//!  Producer ──ring──┘   (owns the engine)                             ↑
//!                            └──ring──> Transmitter ──ring────────────┘
//!                         departures                finished
//! ```
//!
//! Each stage runs on one thread. Single-producer single-consumer rings of fixed size join the
//! stages, so one thread owns the engine, which stays free of locks. In the steady state no stage
//! locks, allocates or makes a system call for a packet. A stage without work spins, yields, then
//! parks until a neighbour wakes it.
//!
//! [`Pipeline::new`] makes the stages. [`Scheduling::run`] takes packets as they come.
//! [`Scheduling::run_stamped`] merges them by their stamps: its schedule is that of a single
//! thread, whatever the timing of the threads. When all [`Producer`]s are dropped, the stages drain
//! and end in turn. Every [accepted](Producer::accepted) packet is then [counted](Counts) as sent
//! or dropped, or is still queued in the returned scheduler ([`Ended`]).
//!
//! Source of the stages: the IXP1200 pipeline of receiving, scheduling and garbage-collecting
//! threads in the HILQ paper, section 5.4. There the stages share the queue; here they share rings,
//! so that no update works on stale values.

mod channel;
mod clock;
mod collector;
mod counters;
mod inputs;
#[cfg(all(test, loom))]
mod models;
mod packet_sender;
mod parker;
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
