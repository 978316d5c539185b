//! The hardware itself as the structure `rtl`: `rtl/src` verilated, driven decision by decision.
//!
//! ```text
//! Scheduler ──heads──> Selector ──offers, step──> msr_core, compiled by Verilator when first needed
//!           <─winner──          <──list, drops──
//! ```
//!
//! The sources are part of this crate; [`build`] translates them once for each number of streams
//! and keeps the result in a cache. Time is 48 bits of nanoseconds here, where a chip has 16 of
//! ticks: `TimeW` is the one thing that is changed, so that every scenario's times are exact and the
//! departures are those of the software structures.
//!
//! | module | what |
//! |---|---|
//! | [`build`] | from SystemVerilog to a shared library |
//! | [`model`] | one core: its inputs, outputs, clock |
//! | [`card`] | one card around a core, likewise |
//! | [`selector`] | the engine's view of it |

pub mod build;
pub mod card;
pub mod model;
pub mod selector;

pub use build::BuildError;
pub use selector::{RtlError, Selector, Trouble, scheduler};
