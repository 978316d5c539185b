//! Simulated realisations: the scheduler in exact integer time.
//!
//! [`link`] is one transmission link fed by the scenario's sources. It has no output of its own:
//! what happens goes to a [`Listener`], so a run needs memory for its backlog only.
//! [`fabric`] is a network of switches and its traffic. [`network_processor`] is a model of the
//! machine on which HILQ was measured.

pub mod fabric;
pub mod link;
pub mod network_processor;

pub use link::{End, Listener, RunError};
