//! The Millstream engine: decides which packet a link sends next.
//!
//! A scheduler has three parts, each independent of the others:
//!
//! - a [`Discipline`] orders streams and updates their attributes at services and misses
//!   ([`Fifo`], [`StaticPriority`], [`Edf`], [`Dwcs`]);
//! - a [`Structure`] finds the first stream in that order ([`Scan`], [`Heap`], [`DualHeap`]);
//! - a backend supplies packets and time. It is another crate: the engine has no I/O, no clock, no
//!   threads and no floating point. The engine allocates only when streams or the largest backlog
//!   grow.
//!
//! [`Hilq`] is a separate scheduler: it approximates DWCS on a calendar.
//!
//! [`Scheduler`] combines a discipline and a structure with the streams' queues; its page has an
//! example with three streams. [`catalogue`] builds schedulers from names. [`bounds`] computes
//! theoretical guarantees from the streams' contracts, without a run.
//!
//! The path of a packet: `queue` (waits) → `selector` (charges misses, finds the first stream) →
//! `scheduler` (departs as a [`Departure`]).

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod aqm;
pub mod bounds;
pub mod catalogue;
mod contract;
pub mod discipline;
pub mod flow_queue;
mod gate;
mod hilq;
mod link;
mod link_clock;
mod packet;
pub mod prefetch;
mod queue;
mod scheduler;
pub mod selector;
mod stream_flows;
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
pub use link::{Framing, Link};
pub use packet::{Departure, Event, Packet, StreamCounters, StreamId};
pub use scheduler::Scheduler;
pub use selector::Observer;
pub use structure::{Calendar, DualHeap, Heap, IndexedHeap, Ring, Scan, Structure, WinnerTree};
pub use tree::{ClassId, Tree};
pub use virtual_time::Tag;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
