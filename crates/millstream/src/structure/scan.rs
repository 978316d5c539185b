//! A linear scan over all streams: the reference for the schedules of all other structures.

use alloc::vec::Vec;

use super::Structure;
use crate::discipline::{Expiry, Rank};

/// Ranks by stream number, scanned at each decision.
#[derive(Clone, Debug)]
pub struct Scan<R> {
    ranks: Vec<Option<R>>,
}

impl<R> Default for Scan<R> {
    fn default() -> Self {
        Self { ranks: Vec::new() }
    }
}

impl<R: Rank> Structure<R> for Scan<R> {
    fn reserve(&mut self, streams: usize) {
        self.ranks.reserve(streams.saturating_sub(self.ranks.len()));
    }

    #[inline]
    fn insert(&mut self, stream: u32, rank: R) {
        let at = stream as usize;
        if at >= self.ranks.len() {
            self.ranks.resize(at + 1, None);
        }
        self.ranks[at] = Some(rank);
    }

    #[inline]
    fn remove(&mut self, stream: u32) {
        if let Some(rank) = self.ranks.get_mut(stream as usize) {
            *rank = None;
        }
    }

    #[inline]
    fn first(&mut self) -> Option<u32> {
        let placed =
            (0u32..).zip(&self.ranks).filter_map(|(stream, rank)| Some((rank.as_ref()?, stream)));
        placed.min_by(|a, b| a.0.cmp(b.0)).map(|(_, stream)| stream)
    }

    #[inline]
    fn due(&self, now_ns: u64, out: &mut Vec<u32>) {
        if R::EXPIRY == Expiry::Never {
            return;
        }
        let expired = |rank: &Option<R>| rank.is_some_and(|rank| rank.expiry_ns() <= now_ns);
        out.extend((0u32..).zip(&self.ranks).filter(|(_, rank)| expired(rank)).map(|(s, _)| s));
    }
}
