//! An indexed heap ordered by rank, and a second one by expiry if ranks are not ordered by expiry.

use alloc::vec::Vec;

use super::{IndexedHeap, Structure};
use crate::discipline::{Expiry, Rank};

/// An indexed 4-ary heap.
#[derive(Clone, Debug)]
pub struct Heap<R> {
    ranks: IndexedHeap<R>,
    /// Streams that expire, by expiry; used only for [`Expiry::Apart`].
    expiries: IndexedHeap<u64>,
}

impl<R> Default for Heap<R> {
    fn default() -> Self {
        Self { ranks: IndexedHeap::default(), expiries: IndexedHeap::default() }
    }
}

impl<R: Rank> Heap<R> {
    // Constants, so that nothing is compiled for the other kinds of ranks.
    const LEADS: bool = matches!(R::EXPIRY, Expiry::Leads);
    const APART: bool = matches!(R::EXPIRY, Expiry::Apart);
}

impl<R: Rank> Structure<R> for Heap<R> {
    fn reserve(&mut self, streams: usize) {
        self.ranks.reserve(streams);
        if Self::APART {
            self.expiries.reserve(streams);
        }
    }

    #[inline]
    fn insert(&mut self, stream: u32, rank: R) {
        self.ranks.insert(stream, rank);
        if Self::APART {
            match rank.expiry_ns() {
                u64::MAX => self.expiries.remove(stream),
                expiry_ns => self.expiries.insert(stream, expiry_ns),
            }
        }
    }

    #[inline]
    fn remove(&mut self, stream: u32) {
        self.ranks.remove(stream);
        if Self::APART {
            self.expiries.remove(stream);
        }
    }

    #[inline]
    fn first(&mut self) -> Option<u32> {
        self.ranks.first().map(|(_, stream)| stream)
    }

    #[inline]
    fn due(&self, now_ns: u64, out: &mut Vec<u32>) {
        if Self::LEADS {
            self.ranks.collect_while(|rank| rank.expiry_ns() <= now_ns, out);
        }
        if Self::APART {
            self.expiries.collect_until(now_ns, out);
        }
    }
}
