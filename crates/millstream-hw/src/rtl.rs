//! The structure `rtl`: `rtl/src` verilated, driven decision by decision.
//!
//! ```text
//! Scheduler ──heads──> Selector ──offers, step──> msr_core, compiled by Verilator on first use
//!           <─winner──          <──list, drops──
//! ```
//!
//! The sources are part of this crate. [`build`] compiles them once for each number of streams and
//! caches the library. Time is 48 bits of nanoseconds, where a chip has 16 bits of ticks. `TimeW`
//! is the only change: scenario times are exact, and the departures are those of the software
//! structures.
//!
//! | module | what |
//! |---|---|
//! | [`build`] | from SystemVerilog to a shared library |
//! | [`model`] | bindings of one core: inputs, outputs, clock |
//! | [`card`] | bindings of one card around a core |
//! | [`selector`] | the core as an engine selector |

pub mod build;
pub mod card;
pub mod model;
pub mod selector;

pub use build::BuildError;
pub use selector::{FirstFault, RtlError, Selector, scheduler};
