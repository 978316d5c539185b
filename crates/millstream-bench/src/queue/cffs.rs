//! A circular hierarchical find-first-set queue, after Eiffel (Saeed et al., NSDI 2019), written
//! from the paper.
//!
//! Two rings of buckets cover consecutive spans of time. Each ring has a tree of bitmaps: a bit is
//! set if any of the 64 bits below it is. Later deadlines go to the last bucket of the second ring.
//! When the first ring is empty, the rings swap.

use super::Queue;
use super::buckets::Buckets;

/// log2 of the bits of a word.
const WORD: u32 = 6;

/// One ring: its buckets and bitmaps, from one bit a bucket up to a single word.
struct Ring {
    levels: Vec<Vec<u64>>,
    buckets: Buckets,
}

impl Ring {
    fn new(buckets: usize, streams: usize) -> Self {
        let mut levels = vec![vec![0; buckets.div_ceil(64)]];
        while let Some(words) = levels.last().map(Vec::len).filter(|words| *words > 1) {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Self { levels, buckets: Buckets::new(buckets, streams) }
    }

    #[inline]
    fn push(&mut self, bucket: usize, stream: u32, deadline_ns: u64) {
        self.buckets.push(bucket, stream, deadline_ns);
        let mut at = bucket;
        for level in &mut self.levels {
            level[at >> WORD] |= 1 << (at % 64);
            at >>= WORD;
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u32)> {
        let mut bucket = 0;
        for level in self.levels.iter().rev() {
            let word = level[bucket];
            if word == 0 {
                return None;
            }
            bucket = bucket << WORD | word.trailing_zeros() as usize;
        }
        let popped = self.buckets.pop(bucket);
        if self.buckets.is_empty(bucket) {
            let mut at = bucket;
            for level in &mut self.levels {
                let word = &mut level[at >> WORD];
                *word &= !(1 << (at % 64));
                if *word != 0 {
                    break;
                }
                at >>= WORD;
            }
        }
        popped
    }
}

/// The queue of two rings.
pub(crate) struct Cffs {
    rings: [Ring; 2],
    /// Index of the first ring.
    now: usize,
    /// The first ring's first bucket, counted from time 0.
    first_bucket: u64,
    buckets: u64,
    shift: u32,
    len: usize,
}

impl Cffs {
    /// Returns the deadline's bucket, relative to the first ring's first.
    #[inline]
    fn relative_bucket(&self, deadline_ns: u64) -> u64 {
        (deadline_ns >> self.shift).saturating_sub(self.first_bucket)
    }
}

impl Queue for Cffs {
    fn new(streams: usize, horizon_ns: u64, width_ns: u64) -> Self {
        let shift = width_ns.ilog2();
        // Both rings together always cover `horizon_ns`.
        let buckets = ((horizon_ns >> shift) + 1).next_power_of_two();
        let size = usize::try_from(buckets).unwrap_or(usize::MAX);
        let rings = [Ring::new(size, streams), Ring::new(size, streams)];
        Self { rings, now: 0, first_bucket: 0, buckets, shift, len: 0 }
    }

    #[inline]
    fn push(&mut self, stream: u32, deadline_ns: u64) {
        self.len += 1;
        let relative_bucket = self.relative_bucket(deadline_ns);
        let (ring, bucket) = if relative_bucket < self.buckets {
            (self.now, relative_bucket)
        } else {
            (1 - self.now, (relative_bucket - self.buckets).min(self.buckets - 1))
        };
        // Less than the number of buckets, which fits in memory.
        #[allow(clippy::cast_possible_truncation)]
        self.rings[ring].push(bucket as usize, stream, deadline_ns);
    }

    #[inline]
    fn pop(&mut self) -> Option<(u64, u32)> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        if let Some(first) = self.rings[self.now].pop() {
            return Some(first);
        }
        self.now = 1 - self.now;
        self.first_bucket += self.buckets;
        self.rings[self.now].pop()
    }
}
