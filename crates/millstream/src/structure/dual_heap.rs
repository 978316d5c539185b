//! A heap of deadlines and a heap of loss-tolerances, as in the papers' DWCS schedulers.
//!
//! The deadline heap holds every stream with a deadline and finds misses. The loss-tolerance heap
//! finds the winner. If the order compares deadlines first, it holds only the streams that share
//! the earliest deadline. A stream moves there when its deadline becomes the earliest. Otherwise it
//! holds all streams. Source: Co-processor paper, Figure 4(a); HILQ paper section 3.
//!
//! ```text
//! deadlines   3 3 3 5 8 9 …   ──earliest──>   tolerances   1/4 2/5 2/3
//! ```
//!
//! An insertion with an earlier deadline empties the loss-tolerance heap. Its streams are inserted
//! again when their deadline is the earliest, so the worst case is many equal deadlines with
//! frequent earlier insertions.

use alloc::vec::Vec;

use super::{IndexedHeap, Structure};
use crate::discipline::{Expiry, Rank};

/// A heap of deadlines and a heap of loss-tolerances.
#[derive(Clone, Debug)]
pub struct DualHeap<R> {
    deadlines: IndexedHeap<u64>,
    tolerances: IndexedHeap<R>,
    /// Each stream's rank for the loss-tolerance heap, if the order compares deadlines first.
    ranks: Vec<Option<R>>,
    /// The deadline of the streams in `tolerances`, if the order compares deadlines first.
    earliest_ns: u64,
    crossing: Vec<u32>,
}

impl<R> Default for DualHeap<R> {
    fn default() -> Self {
        Self {
            deadlines: IndexedHeap::default(),
            tolerances: IndexedHeap::default(),
            ranks: Vec::new(),
            earliest_ns: 0,
            crossing: Vec::new(),
        }
    }
}

impl<R: Rank> Structure<R> for DualHeap<R> {
    fn reserve(&mut self, streams: usize) {
        self.deadlines.reserve(streams);
        self.tolerances.reserve(streams);
        self.ranks.reserve(streams.saturating_sub(self.ranks.len()));
        self.crossing.reserve(streams.saturating_sub(self.crossing.len()));
    }

    #[inline]
    fn insert(&mut self, stream: u32, rank: R) {
        let deadline_ns = rank.expiry_ns();
        if R::EXPIRY != Expiry::Leads {
            self.tolerances.insert(stream, rank);
            if deadline_ns == u64::MAX {
                self.deadlines.remove(stream);
            } else {
                self.deadlines.insert(stream, deadline_ns);
            }
            return;
        }
        if stream as usize >= self.ranks.len() {
            self.ranks.resize(stream as usize + 1, None);
        }
        self.ranks[stream as usize] = Some(rank);
        self.deadlines.insert(stream, deadline_ns);
        if !self.tolerances.is_empty() {
            if deadline_ns < self.earliest_ns {
                self.tolerances.clear();
            } else if deadline_ns == self.earliest_ns {
                self.tolerances.insert(stream, rank);
            } else {
                self.tolerances.remove(stream);
            }
        }
    }

    #[inline]
    fn remove(&mut self, stream: u32) {
        self.deadlines.remove(stream);
        self.tolerances.remove(stream);
    }

    #[inline]
    fn first(&mut self) -> Option<u32> {
        if R::EXPIRY == Expiry::Leads
            && self.tolerances.is_empty()
            && let Some((earliest_ns, _)) = self.deadlines.first()
        {
            self.earliest_ns = earliest_ns;
            self.crossing.clear();
            self.deadlines.collect_until(earliest_ns, &mut self.crossing);
            for &stream in &self.crossing {
                if let Some(rank) = self.ranks[stream as usize] {
                    self.tolerances.insert(stream, rank);
                }
            }
        }
        self.tolerances.first().map(|(_, stream)| stream)
    }

    #[inline]
    fn due(&self, now_ns: u64, out: &mut Vec<u32>) {
        self.deadlines.collect_until(now_ns, out);
    }
}
