//! Runs the engine on threads: producers enqueue, the scheduler decides, a transmitter sends, a
//! collector reclaims.
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
//! [`Pipeline::new`] creates the stages. [`Scheduling::run`] takes packets in order of arrival.
//! [`Scheduling::run_stamped`] merges them by their stamps; its schedule is that of a single thread
//! and does not depend on the threads' timing. When all [`Producer`]s are dropped, the stages drain
//! and end in turn. Every [accepted](Producer::accepted) packet is then [counted](Counts) as sent
//! or dropped, or is still queued in the returned scheduler ([`Ended`]).
//!
//! Source of the stages: the IXP1200 pipeline of receiving, scheduling and garbage-collecting
//! threads in the HILQ paper, section 5.4. Its stages share the queue. Here stages share only
//! rings, so no update works on stale values.

mod collector;
mod counters;
mod inputs;
#[cfg(all(test, loom))]
mod models;
mod packet_sender;
mod pipeline;
mod producer;
mod scheduling;
mod transmitter;

pub use collector::Collector;
pub use counters::{Counters, Counts};
pub use millstream_sync::clock::{Clock, Monotonic};
pub use pipeline::{Pipeline, Sizes};
pub use producer::{OfferError, Producer};
pub use scheduling::{Ended, Scheduling};
pub use transmitter::{Progress, Transmitter};
