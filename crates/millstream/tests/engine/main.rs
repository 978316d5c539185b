//! Tests of the engine by its public interface, in one program: disciplines, structures, trees.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod batches;
mod bounds;
mod capped;
mod differential;
mod fair;
mod gated;
mod golden;
mod hilq;
mod hilq_exact;
mod laws;
mod managed;
mod minbw;
mod support;
mod tree;
mod vds;
