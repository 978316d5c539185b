//! Independent reference of the disciplines, written from the specification.
//!
//! This crate shares no code with the engine, and prefers simple code to fast code:
//! window-constraints are rationals, misses are charged one request period at a time, winners are
//! found by comparing every pair. The engine and the conformance traces are checked against it. A
//! [`Mutant`] is a deliberate fault; a trace is kept if it detects one.
//!
//! [`model`] holds the inputs and outputs, [`link`] the simulated link, [`overhead`] the bytes on
//! the wire, [`order`] the order of streams, [`window`] the rules of window-constraints, [`mutant`]
//! the faults. [`traces`], [`combinations`] and [`shares`] are the scenarios of the conformance
//! traces, [`kills`] the faults that they detect.
//!
//! [`fair`] covers fair queueing, round robins and the credit-aware schedulers, with exact tags;
//! [`vds`] covers virtual deadline scheduling and PD²; [`flow_queue`] flow queueing and queue
//! management.

pub mod combinations;
pub mod fair;
pub mod files;
pub mod flow_queue;
pub mod gated;
pub mod kills;
pub mod link;
pub mod model;
pub mod mutant;
pub mod order;
pub mod overhead;
pub mod shares;
pub mod traces;
pub mod vds;
pub mod window;

pub use gated::Gating;
pub use link::{run, run_gated};
pub use model::{Arrival, Decision, Discipline, Outcome, Row, Spec, StreamSpec};
pub use mutant::Mutant;
pub use overhead::{Framing, Overhead};
