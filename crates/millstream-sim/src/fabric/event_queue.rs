//! The event queue: a wheel of buckets one nanosecond wide, and a heap for distant events.
//!
//! ```text
//! now                                   now + HORIZON
//!  |  bucket | bucket | bucket | … | bucket  |   heap …
//! ```
//!
//! Almost all events of a fabric lie within one packet transmission from now. Scheduling and taking
//! them costs a few instructions. Each bucket is a list in one arena, and a two-level bitmap finds
//! the next bucket that is not empty. Later events wait in a heap until the wheel reaches them. A
//! bucket holds one instant, so its events need no sorting; callers must treat them as
//! simultaneous.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of buckets of the wheel, hence its range in ns.
const HORIZON: u64 = 1 << 14;
const WORDS: usize = (HORIZON / 64) as usize;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    event: E,
    next: u32,
}

/// The events of an instant that are not taken yet: a list of entries.
#[must_use]
pub(crate) struct Instant(u32);

/// A queue of events in order of time.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    now_ns: u64,
    /// First entry of each bucket's list.
    buckets: Box<[u32]>,
    occupied: Box<[u64; WORDS]>,
    /// Bitmap of the words of `occupied` that are not 0.
    summary: [u64; WORDS / 64],
    entries: Vec<Entry<E>>,
    free: u32,
    overflow: BinaryHeap<Reverse<(u64, E)>>,
    len: usize,
}

impl<E: Copy + Ord> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            now_ns: 0,
            buckets: vec![NONE; WORDS * 64].into(),
            occupied: Box::new([0; WORDS]),
            summary: [0; WORDS / 64],
            entries: Vec::new(),
            free: NONE,
            overflow: BinaryHeap::new(),
            len: 0,
        }
    }

    /// Returns the last instant whose events were taken, ns.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the number of scheduled events.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Schedules `event` for `time_ns`, which lies after now.
    #[inline]
    pub(crate) fn schedule(&mut self, time_ns: u64, event: E) {
        debug_assert!(time_ns > self.now_ns, "{time_ns} ns is not after {} ns", self.now_ns);
        self.len += 1;
        if time_ns - self.now_ns < HORIZON {
            self.insert(time_ns, event);
        } else {
            self.overflow.push(Reverse((time_ns, event)));
        }
    }

    #[inline]
    fn insert(&mut self, time_ns: u64, event: E) {
        let bucket = (time_ns % HORIZON) as usize;
        let next = self.buckets[bucket];
        let place = if self.free == NONE {
            self.entries.push(Entry { event, next });
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 events wait")
        } else {
            let place = self.free;
            let entry = &mut self.entries[place as usize];
            self.free = entry.next;
            *entry = Entry { event, next };
            place
        };
        self.buckets[bucket] = place;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
    }

    /// Returns the time of the next events, ns.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let near = self.next_bucket().map(|bucket| {
            let ahead = (bucket as u64).wrapping_sub(self.now_ns) % HORIZON;
            self.now_ns + ahead
        });
        // Events in the heap lie beyond the wheel, unless the wheel has moved since.
        let overflow = self.overflow.peek().map(|&Reverse((time_ns, _))| time_ns);
        match (near, overflow) {
            (Some(near), Some(overflow)) => Some(near.min(overflow)),
            (near, overflow) => near.or(overflow),
        }
    }

    /// Advances to `time_ns` and returns the events of that instant, for [`take`](Self::take).
    ///
    /// `time_ns` must not exceed [`next_ns`](Self::next_ns).
    #[inline]
    pub(crate) fn advance_to(&mut self, time_ns: u64) -> Instant {
        self.now_ns = time_ns;
        while let Some(&Reverse((far_ns, event))) = self.overflow.peek() {
            if far_ns - time_ns >= HORIZON {
                break;
            }
            self.overflow.pop();
            self.insert(far_ns, event);
        }
        let bucket = (time_ns % HORIZON) as usize;
        let first = std::mem::replace(&mut self.buckets[bucket], NONE);
        if first == NONE {
            return Instant(NONE);
        }
        let word = &mut self.occupied[bucket / 64];
        *word &= !(1 << (bucket % 64));
        if *word == 0 {
            self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
        }
        Instant(first)
    }

    /// Takes an event of the current instant. Other events may be scheduled in between.
    #[inline]
    pub(crate) fn take(&mut self, instant: &mut Instant) -> Option<E> {
        if instant.0 == NONE {
            return None;
        }
        let place = instant.0;
        let entry = &mut self.entries[place as usize];
        let Entry { event, next } = *entry;
        entry.next = self.free;
        self.free = place;
        instant.0 = next;
        self.len -= 1;
        Some(event)
    }

    /// Returns the first bucket that is not empty, searching from now around the wheel.
    #[inline]
    fn next_bucket(&self) -> Option<usize> {
        let from = (self.now_ns % HORIZON) as usize;
        let word = from / 64;
        let rest = self.occupied[word] & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        self.word_from(word + 1).or_else(|| self.word_from(0)).map(|word| {
            // After the wrap to the first word, it holds only buckets before `from`.
            word * 64 + self.occupied[word].trailing_zeros() as usize
        })
    }

    /// Returns the first word that is not 0, from `word` to the end.
    #[inline]
    fn word_from(&self, word: usize) -> Option<usize> {
        let mut group = word / 64;
        if group >= self.summary.len() {
            return None;
        }
        let mut bits = self.summary[group] & (u64::MAX << (word % 64));
        while bits == 0 {
            group += 1;
            bits = *self.summary.get(group)?;
        }
        Some(group * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    use proptest::prelude::*;

    proptest! {
        /// The queue returns events like a sorted map, for any gaps.
        #[test]
        fn events_come_in_order(
            gaps in prop::collection::vec(
                (prop_oneof![1..200_u64, 16_000..17_000_u64, 1..300_000_u64], 0..3_usize), 1..200),
        ) {
            let mut event_queue = EventQueue::new();
            let mut expected = std::collections::BTreeMap::<u64, Vec<u32>>::new();
            let (mut number, mut taken) = (0, Vec::new());
            for (gap_ns, takes) in gaps {
                let time_ns = event_queue.now_ns() + gap_ns;
                event_queue.schedule(time_ns, number);
                expected.entry(time_ns).or_default().push(number);
                number += 1;
                for _ in 0..takes {
                    let Some((time_ns, mut events)) = expected.pop_first() else { break };
                    prop_assert_eq!(event_queue.next_ns(), Some(time_ns));
                    taken.clear();
                    let mut instant = event_queue.advance_to(time_ns);
                    taken.extend(iter::from_fn(|| event_queue.take(&mut instant)));
                    taken.sort_unstable();
                    events.sort_unstable();
                    prop_assert_eq!(&taken, &events);
                }
            }
            while let Some(time_ns) = event_queue.next_ns() {
                let mut events = expected.remove(&time_ns).unwrap_or_default();
                taken.clear();
                let mut instant = event_queue.advance_to(time_ns);
                taken.extend(iter::from_fn(|| event_queue.take(&mut instant)));
                taken.sort_unstable();
                events.sort_unstable();
                prop_assert_eq!(&taken, &events);
            }
            prop_assert!(expected.is_empty());
            prop_assert_eq!(event_queue.len(), 0);
        }
    }
}
