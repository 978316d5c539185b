//! The C scheduler makes the engine's decisions.

#![allow(clippy::unwrap_used)]

mod engine;
mod filter;
mod traces;
