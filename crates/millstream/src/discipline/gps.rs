//! Generalized processor sharing: the fluid model that WFQ and WF²Q approximate.
//!
//! The fluid serves every stream that has work at a rate in proportion to its weight. Its virtual
//! time advances at r/Σφ over those streams. A stream has work while its last packet's finish tag
//! is ahead, even if the packet has left the real queue.
//!
//! ```text
//! until the work of the elapsed time is used up:
//!     f = the least last finish tag in the fluid;  to reach it takes (f − V)·Σφ
//!     enough work left:  V = f, that stream leaves the fluid
//!     else:              V += work / Σφ  (the remainder is kept for the next update)
//! ```
//!
//! Source: Demers, Keshav and Shenker 1989; Parekh and Gallager 1993. With the remainder kept, V is
//! less than one unit below the exact value, independent of the number of updates.

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
    /// Work that has not advanced the clock yet; less than Σφ.
    spare: u128,
    /// Streams with work in the fluid, by the finish tag of their last packet.
    fluid: IndexedHeap<Tag>,
    /// Σφ of those streams.
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

    /// Returns the clock of virtual time.
    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Adds a stream.
    pub(super) fn add_stream(&mut self, weight: u32) {
        self.weights.push(weight);
    }

    /// Allocates memory for the streams that were added.
    pub(super) fn reserve(&mut self) {
        self.fluid.reserve(self.weights.len());
    }

    /// Adds the stream to the fluid with work until `last`, the finish tag of its last packet.
    #[inline]
    pub(super) fn join(&mut self, stream: StreamId, last: Kept) {
        if !self.fluid.contains(stream.0) {
            self.weight += u128::from(self.weights[stream.index()]);
        }
        self.fluid.insert(stream.0, last.tag());
    }

    /// Removes the stream's work from the fluid.
    #[inline]
    pub(super) fn leave(&mut self, stream: StreamId) {
        if self.fluid.contains(stream.0) {
            self.weight -= u128::from(self.weights[stream.index()]);
            self.fluid.remove(stream.0);
        }
    }

    /// Advances the link's clock to `clock_ns`.
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
            // A saturated product is more work than the link can do in its lifetime.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit of virtual time is no multiple of their sum, so each step of the clock has a rest.
    const WEIGHTS: [u32; 2] = [7, 30];

    /// Returns a fluid with work of both streams for 2¹¹⁰ units.
    fn busy() -> Gps {
        let mut gps = Gps::new(1_000_000_000, Tag::from_bits(0));
        WEIGHTS.into_iter().for_each(|weight| gps.add_stream(weight));
        join(&mut gps);
        gps
    }

    fn join(gps: &mut Gps) {
        let last = gps.clock.keep(gps.clock.now().plus(1 << 110));
        (0..2).for_each(|stream| gps.join(StreamId(stream), last));
    }

    /// Returns the units by which the clock advances until `clock_ns`.
    fn advanced(gps: &mut Gps, clock_ns: u64) -> u128 {
        let before = gps.clock.now();
        gps.advance(clock_ns);
        gps.clock.now().since(before)
    }

    #[test]
    fn many_small_steps_equal_a_great_one() {
        let (mut stepping, mut leaping) = (busy(), busy());
        let steps: u128 = (1..=1000).map(|ns| advanced(&mut stepping, ns)).sum();
        assert_eq!(steps, advanced(&mut leaping, 1000));
        assert!(!steps.is_multiple_of(1000), "a step has a rest");
        assert_eq!(advanced(&mut stepping, 999), 0, "time does not go back");
    }

    #[test]
    fn a_rest_of_work_ends_with_the_busy_period() {
        for ns in 1..40 {
            let expected = advanced(&mut busy(), ns);
            let mut left = busy();
            left.advance(1);
            (0..2).for_each(|stream| left.leave(StreamId(stream)));
            assert_eq!((advanced(&mut left, 2), left.weight), (0, 0));
            join(&mut left);
            assert_eq!((advanced(&mut left, 2 + ns), left.weight), (expected, 37));

            let mut drained = busy();
            drained.advance(1);
            drained.advance(1 << 60);
            join(&mut drained);
            assert_eq!(advanced(&mut drained, (1 << 60) + ns), expected);
        }
    }
}
