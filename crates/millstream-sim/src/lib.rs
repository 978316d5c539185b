//! Simulated realisations: the scheduler in exact integer time.
//!
//! [`link`] is one transmission link fed by the scenario's sources. It has no output of its own:
//! what happens goes to a [`Listener`], so a run needs memory for its backlog only.

pub mod link;

pub use link::{End, Listener, RunError};
