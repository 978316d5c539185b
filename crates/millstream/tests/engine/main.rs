//! Tests of the engine through its public API, in one program: disciplines, structures, trees.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod batches;
mod bounds;
mod capped;
mod catalogue;
mod differential;
mod fair;
mod flow_trees;
mod flows;
mod gated;
mod golden;
mod hilq;
mod hilq_exact;
mod laws;
mod lives;
mod managed;
mod many_streams;
mod minbw;
mod reports;
mod support;
mod tree;
mod vds;
