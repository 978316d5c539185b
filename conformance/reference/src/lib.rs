//! The disciplines once more, slowly, from the specification.
//!
//! This crate shares no code with the engine. Window-constraints are rationals, misses are charged
//! one request period at a time, winners are found by comparing every pair: it is meant to be
//! obviously right, and it is what the engine and the conformance traces are checked against. With
//! a [`Mutant`] it is wrong in one deliberate way; a trace is worth keeping if it tells one apart.
//!
//! [`model`] holds the inputs and outputs, [`link`] the simulated link, [`order`] who comes first,
//! [`window`] the rules that change window-constraints, [`mutant`] the faults, [`traces`] and
//! [`combinations`] and [`shares`] the scenarios of the conformance traces, [`kills`] which faults
//! they tell apart.
//!
//! [`fair`] is the same for fair queueing, the rounds and the credit-aware schedulers, with tags
//! that are exact; [`vds`] is virtual deadline scheduling.

pub mod combinations;
pub mod fair;
pub mod gated;
pub mod kills;
pub mod link;
pub mod model;
pub mod mutant;
pub mod order;
pub mod shares;
pub mod traces;
pub mod vds;
pub mod window;

pub use gated::Gating;
pub use link::{run, run_gated};
pub use model::{Arrival, Decision, Discipline, Outcome, Row, Spec, StreamSpec};
pub use mutant::Mutant;
