//! The hardware in `rtl/`: its reference model, and its use as a scheduling structure.
//!
//! A [`Reference`] is the engine's selector, a discipline on structure `scan`, with the queues that
//! the hardware keeps outside. After each step it exposes what the hardware exposes: every stream's
//! head, x', y', deadline and counters. Time is 64 bits of ticks; the hardware has the low 16 bits.
//!
//! The hardware charges misses at the end of a decision, for the time of the next. The engine
//! charges them at the start of the next. [`Reference::charge`] is this part of the engine's
//! decision, so that both are compared at the same point. It is idempotent.
//!
//! | module | what |
//! |---|---|
//! | [`model`] | the reference |
//! | [`block`] | the reference with several winners a decision |
//! | [`priority_queue`] | the reference on hardware priority queues, with their cycles |
//! | [`ffi`] | the reference for C, and so for Python's ctypes |
//! | [`rtl`] | the verilated hardware as the structure `rtl` |
//! | [`line_card`] | the verilated line card with a source and a link |
//! | [`end_system`] | the verilated end-system card with its host and a bus |

pub mod block;
pub mod end_system;
pub mod ffi;
pub mod line_card;
pub mod model;
pub mod priority_queue;
pub mod rtl;
mod streams;

pub use block::SortingNetwork;
pub use model::{Attributes, Load, Mode, Reference, Settings};

/// Deprecated alias of [`SortingNetwork`].
#[deprecated(note = "renamed to `SortingNetwork`")]
pub type Network = SortingNetwork;
