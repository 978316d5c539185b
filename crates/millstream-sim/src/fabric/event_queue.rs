//! The event queue: a wheel of buckets one nanosecond wide, and a heap for distant events.
//!
//! ```text
//! now                                   now + HORIZON
//!  |  bucket | bucket | bucket | … | bucket  |   heap …
//! ```
//!
//! Almost all events of a fabric lie within one packet transmission from now. Scheduling and taking
//! them costs a few instructions. Each bucket is a list of chunks in one arena, and a two-level
//! bitmap finds the next bucket that is not empty. A chunk is a cache line. In a large fabric each
//! line of a list is a cache miss, and its address is in the line before. Later events wait in a
//! heap until the wheel reaches them. A bucket holds one instant, so its events need no sorting;
//! callers must treat them as simultaneous.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::select_unpredictable;

use millstream::prefetch::prefetch;

/// The number of buckets of the wheel, hence its range in ns.
const HORIZON: u64 = 1 << 14;
const WORDS: usize = (HORIZON / 64) as usize;

/// The events of a chunk: with 12 bytes each, a chunk is a cache line.
const CHUNK: u32 = 5;

/// Events of one instant. Only the first chunk of a list is not full.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk<E> {
    events: [E; CHUNK as usize],
    /// The rest of the list, or the next free chunk.
    next: List,
}

/// A list of chunks: the place of the first one times eight, plus the number of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List(u32);

impl List {
    const EMPTY: Self = Self(u32::MAX);

    #[inline]
    fn place(self) -> usize {
        (self.0 >> 3) as usize
    }

    #[inline]
    fn events(self) -> u32 {
        self.0 & 7
    }
}

/// The events of an instant that are not taken yet.
#[must_use]
pub(crate) struct Instant(List);

/// A queue of events in order of time.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    now_ns: u64,
    buckets: Box<[List]>,
    occupied: Box<[u64; WORDS]>,
    /// Bitmap of the words of `occupied` that are not 0.
    summary: [u64; WORDS / 64],
    chunks: Vec<Chunk<E>>,
    free: List,
    overflow: BinaryHeap<Reverse<(u64, E)>>,
    len: usize,
}

impl<E: Copy + Ord> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            now_ns: 0,
            buckets: vec![List::EMPTY; WORDS * 64].into(),
            occupied: Box::new([0; WORDS]),
            summary: [0; WORDS / 64],
            chunks: Vec::new(),
            free: List::EMPTY,
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
        let list = self.buckets[bucket];
        if self.free == List::EMPTY {
            self.free = self.add_chunk(event);
        }
        // Branchless: the lengths of lists are unpredictable. An empty list counts as full.
        let free = self.free;
        let full = list.events() >= CHUNK;
        let longer = select_unpredictable(full, free, List(list.0.wrapping_add(1)));
        let chunk = &mut self.chunks[longer.place()];
        chunk.events[longer.events() as usize - 1] = event;
        let next = chunk.next;
        chunk.next = select_unpredictable(full, list, next);
        self.free = select_unpredictable(full, next, free);
        self.buckets[bucket] = longer;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
    }

    /// Adds a chunk, and returns the list of it with one event.
    #[cold]
    fn add_chunk(&mut self, event: E) -> List {
        let place = u32::try_from(self.chunks.len()).ok();
        // The greatest place would be that of `List::EMPTY`.
        let place = place.filter(|place| *place < u32::MAX >> 3);
        let place = place.expect("fewer than 2^29 chunks of events wait");
        self.chunks.push(Chunk { events: [event; CHUNK as usize], next: List::EMPTY });
        List(place << 3 | 1)
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
    #[inline(always)]
    #[allow(clippy::inline_always)]
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
        prefetch(&self.chunks, self.buckets[(bucket + 1) % (WORDS * 64)].place());
        let list = std::mem::replace(&mut self.buckets[bucket], List::EMPTY);
        if list == List::EMPTY {
            return Instant(list);
        }
        let word = &mut self.occupied[bucket / 64];
        *word &= !(1 << (bucket % 64));
        if *word == 0 {
            self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
        }
        Instant(list)
    }

    /// Takes an event of the current instant. Other events may be scheduled in between.
    #[inline]
    pub(crate) fn take(&mut self, instant: &mut Instant) -> Option<E> {
        let list = instant.0;
        if list == List::EMPTY {
            return None;
        }
        self.len -= 1;
        let (place, last) = (list.place(), list.events() - 1);
        let chunk = &self.chunks[place];
        let (event, next) = (chunk.events[last as usize], chunk.next);
        prefetch(&self.chunks, next.place());
        let used_up = last == 0;
        instant.0 = select_unpredictable(used_up, next, List(list.0 - 1));
        self.chunks[place].next = select_unpredictable(used_up, self.free, next);
        self.free = select_unpredictable(used_up, list, self.free);
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
