//! Tests of the simulated backends, in one program.

#![allow(clippy::unwrap_used)]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

mod conformance;
mod fabric_bounds;
mod fabric_simulation;
mod fabric_topology;
mod fabric_traffic;
mod network;
mod network_processor;
mod promises;
