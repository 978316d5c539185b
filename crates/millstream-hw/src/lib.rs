//! The hardware in `rtl/`: the engine as its reference model, and the hardware as a structure.
//!
//! A [`Reference`] is the engine's own selector, a discipline on structure `scan`, with the queues
//! that the hardware has outside. It shows after each step what the hardware shows: every stream's
//! head, x', y', deadline and counters. Time is 64 bits of ticks; the hardware has its low 16 bits.
//!
//! The hardware charges misses when a decision ends, for the time of the next one; the engine when
//! the next one begins. [`Reference::charge`] is that part of the engine's decision on its own, so
//! that both can be compared at the same point; charging twice charges nothing.
//!
//! | module | what |
//! |---|---|
//! | [`model`] | the reference |
//! | [`block`] | the same, several winners a decision |
//! | [`ffi`] | the same for C, and so for Python's ctypes |
//! | [`rtl`] | the hardware itself, verilated, as the structure `rtl` |
//! | [`line_card`] | the line card, verilated, before a link |
//! | [`end_system`] | the end-system card, verilated, with its host and a bus |

pub mod block;
pub mod end_system;
pub mod ffi;
pub mod line_card;
pub mod model;
pub mod rtl;

pub use block::Network;
pub use model::{Attributes, Load, Mode, Reference, Settings};
