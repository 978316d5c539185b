//! Generalized processor sharing: the fluid that WFQ and WF²Q imitate.
//!
//! The fluid serves every stream that has work at a rate in proportion to its weight, so its
//! virtual time runs at r/Σφ over the streams it has work for: those whose last packet's finish tag
//! lies ahead, whether or not the packet has left the real queue.
//!
//! ```text
//! until the work of the elapsed time is used up:
//!     f = the least last finish tag in the fluid;  to reach it takes (f − V)·Σφ
//!     enough work left:  V = f, that stream leaves the fluid
//!     else:              V += work / Σφ  (the remainder stays for the next time)
//! ```
//!
//! Source: Demers, Keshav and Shenker 1989; Parekh and Gallager 1993. Keeping the remainder makes
//! V short of the exact value by less than one unit at any time, however often it is asked.

use alloc::vec::Vec;

use crate::packet::StreamId;
use crate::structure::IndexedHeap;
use crate::virtual_time::{Clock, Kept, PerNanosecond, Tag};

/// The fluid's state.
#[derive(Clone, Debug)]
pub(super) struct Gps {
    clock: Clock,
    clock_ns: u64,
    work: PerNanosecond,
    /// Work done that has not moved the clock yet; less than Σφ.
    spare: u128,
    /// Streams the fluid has work for, by the finish tag of their last packet.
    fluid: IndexedHeap<Tag>,
    /// Σφ of those.
    weight: u128,
    weights: Vec<u32>,
}

impl Gps {
    pub(super) fn new(rate_bps: u64, origin: Tag) -> Self {
        Self {
            clock: Clock::starting_at(origin),
            clock_ns: 0,
            work: PerNanosecond::of_link(rate_bps, 1),
            spare: 0,
            fluid: IndexedHeap::default(),
            weight: 0,
            weights: Vec::new(),
        }
    }

    /// Virtual time.
    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// One more stream.
    pub(super) fn add_stream(&mut self, weight: u32) {
        self.weights.push(weight);
    }

    /// The stream's last packet finishes at `last`: the fluid has work for it until then.
    #[inline]
    pub(super) fn join(&mut self, stream: StreamId, last: Kept) {
        if !self.fluid.contains(stream.0) {
            self.weight += u128::from(self.weights[stream.index()]);
        }
        self.fluid.insert(stream.0, last.tag());
    }

    /// The fluid has no more work for the stream.
    #[inline]
    pub(super) fn leave(&mut self, stream: StreamId) {
        if self.fluid.contains(stream.0) {
            self.weight -= u128::from(self.weights[stream.index()]);
            self.fluid.remove(stream.0);
        }
    }

    /// The link's clock reaches `clock_ns`.
    #[inline]
    pub(super) fn advance(&mut self, clock_ns: u64) {
        let elapsed_ns = clock_ns.saturating_sub(self.clock_ns);
        self.clock_ns += elapsed_ns;
        if self.fluid.is_empty() {
            self.spare = 0;
            return;
        }
        let mut work = self.work.times(elapsed_ns).saturating_add(self.spare);
        while let Some((last, stream)) = self.fluid.first() {
            // A product beyond the range is more work than any but an endless time does.
            let needed = last.since(self.clock.now()).saturating_mul(self.weight);
            if needed > work {
                self.clock.advance(work / self.weight);
                self.spare = work % self.weight;
                return;
            }
            work -= needed;
            self.clock.reach(last);
            self.leave(StreamId(stream));
        }
        self.spare = 0;
    }
}
