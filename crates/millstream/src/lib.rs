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
//! One scheduler is not made of these: [`Hilq`], which is nearly DWCS on a calendar.
//!
//! [`Scheduler`] joins the first two over the streams' queues; its page has an example that
//! schedules three streams. Whoever reads names from a file starts at [`catalogue`]; what
//! theory promises the streams before anything runs is in [`bounds`].
//!
//! The way of a packet: `queue` (waits) → `selector` (misses are charged, the first is found) →
//! `scheduler` (leaves as a [`Departure`]).

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod bounds;
pub mod catalogue;
mod contract;
pub mod discipline;
mod gate;
mod hilq;
mod link;
mod link_clock;
mod packet;
mod prefetch;
mod queue;
mod scheduler;
pub mod selector;
mod structure;
mod tree;
mod virtual_time;

pub use contract::{Contract, ContractError, Late, MaxRate, Terms, Window};
#[allow(deprecated)]
pub use discipline::Visit;
pub use discipline::{
    Activation, ByBacklog, ByRank, ByTurn, ByVirtualStart, Discipline, DueTime, Dwcs, DwcsOptions,
    Edf, EdfFirst, Expiry, Fifo, FluidFair, Head, Interleaved, LossFirst, Measure, Missed, Order,
    Owed, OwedOrder, Pd2, Rank, RanksByBacklog, RoundRobin, Rules, Scfq, Selection, SelfClocked,
    Sfq, Stamp, StaticPriority, Table, TakesTurns, Turn, Vds, VirtualClock, VirtualDeadline,
    VirtualStart, Waiting, Wf2q, Wf2qPlus, Wfq, Windowed, WindowedRank, WindowedState, ZeroWindow,
};
pub use gate::CREDIT_BYTES;
pub use hilq::{Accesses, Hilq, Memory, Rejected, Sizes};
pub use link::Link;
pub use packet::{Departure, Event, Packet, StreamId};
pub use scheduler::Scheduler;
pub use selector::Observer;
pub use structure::{DualHeap, Heap, IndexedHeap, Ring, Scan, Structure};
pub use tree::{ClassId, Tree};
pub use virtual_time::Tag;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
