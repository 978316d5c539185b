//! Deadline queues from the literature, measured in this process.
//!
//! | queue | implementation |
//! |---|---|
//! | [`Heap`] | the standard library's binary heap by (deadline, stream): exact |
//! | [`Cffs`] | Eiffel's hierarchical find-first-set queue; FIFO in a bucket of a packet time |
//! | [`Wheel`] | a timing wheel that scans slot after slot; FIFO in a slot |
//!
//! They keep deadlines only: no windows, no misses, no attributes of other streams. They are
//! measured on workloads without misses, where they do less work than a DWCS structure.

mod buckets;
mod cffs;
mod wheel;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) use cffs::Cffs;
pub(crate) use wheel::Wheel;

/// A queue of streams by deadline; each stream is queued at most once.
pub(crate) trait Queue {
    /// Returns a queue for `streams` streams with buckets of `width_ns`. Deadlines are at most
    /// `horizon_ns` after the first.
    fn new(streams: usize, horizon_ns: u64, width_ns: u64) -> Self;

    /// Inserts a stream, which must not be queued.
    fn push(&mut self, stream: u32, deadline_ns: u64);

    /// Removes the first stream and returns it with its deadline.
    fn pop(&mut self) -> Option<(u64, u32)>;
}

/// The standard library's binary heap.
pub(crate) struct Heap(BinaryHeap<Reverse<(u64, u32)>>);

impl Queue for Heap {
    fn new(streams: usize, _: u64, _: u64) -> Self {
        Self(BinaryHeap::with_capacity(streams))
    }

    #[inline]
    fn push(&mut self, stream: u32, deadline_ns: u64) {
        self.0.push(Reverse((deadline_ns, stream)));
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u32)> {
        self.0.pop().map(|Reverse(first)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    /// Pops and pushes like a scheduler; returns the deadlines in the order of removal.
    fn deadlines<Q: Queue>(streams: u32, width_ns: u64) -> Vec<u64> {
        let mut random = Random(7);
        let mut queue = Q::new(streams as usize, 3_000, width_ns);
        let periods: Vec<_> = (0..streams).map(|_| 1 + random.below(3_000)).collect();
        (0..).zip(&periods).for_each(|(stream, period_ns)| queue.push(stream, *period_ns));
        let mut popped = Vec::new();
        for _ in 0..20_000 {
            let (deadline_ns, stream) = queue.pop().expect("every popped stream is pushed again");
            queue.push(stream, deadline_ns + periods[stream as usize]);
            popped.push(deadline_ns);
        }
        let left: std::collections::BTreeSet<_> =
            std::iter::from_fn(|| queue.pop()).map(|(_, stream)| stream).collect();
        assert!(left.into_iter().eq(0..streams), "no stream is lost");
        popped
    }

    #[test]
    fn queues_are_ordered_by_bucket_and_exact_for_buckets_of_a_nanosecond() {
        for streams in [1, 3, 70, 500] {
            let exact = deadlines::<Heap>(streams, 1);
            assert!(exact.is_sorted());
            assert_eq!(exact, deadlines::<Cffs>(streams, 1));
            assert_eq!(exact, deadlines::<Wheel>(streams, 1));
            for popped in [deadlines::<Cffs>(streams, 64), deadlines::<Wheel>(streams, 64)] {
                let buckets: Vec<_> = popped.iter().map(|deadline_ns| deadline_ns / 64).collect();
                assert!(buckets.is_sorted());
            }
        }
    }
}
