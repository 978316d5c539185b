//! A model of the Intel IXP1200 network processor, on which HILQ was measured.
//!
//! ```text
//!            SRAM  SDRAM  scratchpad  hash unit      one command at a time each
//!              │     │        │          │
//! wire ─> receive buffer ─> 2 engines ─> 1 engine ─> 2 engines ─> wire
//!                            receive     schedule     transmit
//! ```
//!
//! Source: *Efficient implementation of a packet scheduling algorithm (DWCS) on high-speed
//! programmable network processors* (MMNS 2002), sections 4 and 6.
//!
//! [`Machine`] is a discrete-event model in integer microengine cycles. It has engines with four
//! hardware contexts, memories that serve one command at a time, and bounded queues between stages.
//! A context runs a [`Program`] of [`Operation`]s. [`pipeline`] builds the paper's receive,
//! schedule and transmit programs, [`experiment`] runs its Figures 6, 7 and 8. [`constants`] lists
//! all numbers of the model with their sources.

pub mod constants;
pub mod experiment;
mod latency;
mod machine;
mod memory;
mod microengine;
pub mod pipeline;
mod port;
mod program;
mod queue;
mod scheduler;

pub use latency::Latency;
pub use machine::{Machine, MachineConfig, Totals};
pub use memory::Memory;
pub use port::{line_rate_bits_per_s, wire_cycles};
pub use program::{Commands, Operation, Program, QueueId, Source, Trace, Unit};
pub use scheduler::{Cost, Counted, Scheduler};

/// Deprecated alias of [`MachineConfig`].
#[deprecated(note = "renamed to `MachineConfig`")]
pub type Parts = MachineConfig;
