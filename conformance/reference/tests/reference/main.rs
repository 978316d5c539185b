//! Tests of the reference, in one program: golden examples, semantics, shares, mutants.

#![allow(clippy::unwrap_used)]

mod fair_golden;
mod fair_semantics;
mod fair_tags;
mod golden;
mod mutants;
mod semantics;
mod shares;
mod vds;
