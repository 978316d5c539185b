//! Tests of the C library: through its functions, and from C programs.
#![allow(clippy::unwrap_used)]

#[path = "../../../millstream/tests/support/allocations.rs"]
mod allocations;
mod c_programs;
mod conformance;
mod driver;
mod header;
mod memory;
mod random_calls;
mod rules;
