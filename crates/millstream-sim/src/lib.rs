//! Simulated backends: run the scheduler in exact integer time.
//!
//! [`link`] simulates one transmission link fed by the scenario's sources. It writes no output:
//! events go to a [`Listener`], so a run needs memory only for its backlog. [`fabric`] simulates a
//! network of switches and its traffic, [`network`] links in series with sources that react.
//! [`network_processor`] models the machine on which HILQ was
//! measured.

pub mod fabric;
pub mod link;
pub mod network;
pub mod network_processor;

pub use link::{End, Listener, RunError};
