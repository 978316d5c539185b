//! Many feeds as one, in time order.
//!
//! At equal times the feed that was given earlier comes first, and arrivals of one feed keep their
//! order. Each feed holds one arrival here, so memory grows with feeds, not with packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arrival::{Arrival, Feed, TrafficError};

/// Feeds merged by time.
pub struct Merge {
    feeds: Vec<Box<dyn Feed>>,
    heads: Vec<Option<Arrival>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Merge {
    /// Merges `feeds`. One feed is passed through.
    ///
    /// # Errors
    /// The first error of a feed's first arrival.
    pub fn of(mut feeds: Vec<Box<dyn Feed>>) -> Result<Box<dyn Feed>, TrafficError> {
        if feeds.len() == 1 {
            return Ok(feeds.remove(0));
        }
        let mut heads = Vec::with_capacity(feeds.len());
        let mut order = BinaryHeap::with_capacity(feeds.len());
        for (at, feed) in feeds.iter_mut().enumerate() {
            let head = feed.next_arrival()?;
            order.extend(head.as_ref().map(|arrival| Reverse((arrival.time_ns, at))));
            heads.push(head);
        }
        Ok(Box::new(Self { feeds, heads, order }))
    }
}

impl Feed for Merge {
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        let Some(Reverse((_, at))) = self.order.pop() else { return Ok(None) };
        let next = self.feeds[at].next_arrival()?;
        if let Some(arrival) = &next {
            self.order.push(Reverse((arrival.time_ns, at)));
        }
        Ok(std::mem::replace(&mut self.heads[at], next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backlog, Cbr};

    #[test]
    fn arrivals_come_by_time_then_by_feed() {
        let feeds: Vec<Box<dyn Feed>> = vec![
            Box::new(Cbr::with_interval(0, 1, 10, 5, 30)),
            Box::new(Backlog::new(1, 2, 1, 15)),
            Box::new(Cbr::with_interval(2, 1, 5, 10, 21)),
        ];
        let mut merged = Merge::of(feeds).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| merged.next_arrival().unwrap())
            .map(|arrival| (arrival.time_ns, arrival.stream))
            .collect();
        assert_eq!(all, [(5, 0), (10, 2), (15, 0), (15, 1), (15, 1), (15, 2), (20, 2), (25, 0)]);
    }
}
