//! The Millstream engine: whose packet goes next?
//!
//! The answer has three parts that know nothing of each other's insides:
//!
//! - a [`Discipline`] says how streams are ordered and what service and misses change
//!   ([`Fifo`], [`StaticPriority`], [`Edf`], [`Dwcs`]);
//! - a [`Structure`] finds the first in that order ([`Scan`], [`Heap`], [`DualHeap`]);
//! - a realisation brings packets and time. It lives outside: this crate has no I/O, no clock, no
//!   threads and no floating point, and allocates only when streams or the largest backlog grow.
//!
//! [`Scheduler`] joins the first two over the streams' queues; its page has an example that
//! schedules three streams. Whoever reads names from a file starts at [`catalogue`].
//!
//! The way of a packet: `queue` (waits) → `selector` (misses are charged, the first is found) →
//! `scheduler` (leaves as a [`Departure`]).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod catalogue;
mod contract;
mod discipline;
mod packet;
mod queue;
mod scheduler;
mod selector;
mod structure;

pub use contract::{Contract, ContractError, Late, Window};
pub use discipline::{
    Discipline, Dwcs, DwcsOptions, Edf, EdfFirst, Expiry, Fifo, Head, LossFirst, Missed, Order,
    Rank, Rules, StaticPriority, ZeroWindow,
};
pub use packet::{Departure, Event, Packet, StreamId};
pub use scheduler::Scheduler;
pub use selector::Observer;
pub use structure::{DualHeap, Heap, IndexedHeap, Scan, Structure};

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
