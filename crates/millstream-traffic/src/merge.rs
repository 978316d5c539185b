//! Merges many feeds into one, in time order.
//!
//! At equal times, feeds keep the order in which they were given; arrivals of one feed keep their
//! order. The merge holds one arrival per feed, so memory grows with feeds, not with packets. An
//! arrival costs one replacement at the top of a heap. A feed's error follows its earlier arrivals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::arrival::{Arrival, Feed, TrafficError};

/// A merge of feeds by time.
pub struct Merge {
    feeds: Vec<Box<dyn Feed>>,
    heads: Vec<Option<Arrival>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// Error of a feed's lookahead; the next call returns it.
    failed: Option<TrafficError>,
}

impl Merge {
    /// Merges `feeds`. A single feed is returned as is.
    ///
    /// # Errors
    /// Returns the first error of any feed's first arrival.
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
        Ok(Box::new(Self { feeds, heads, order, failed: None }))
    }
}

impl Feed for Merge {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(mut first) = self.order.peek_mut() else {
            *next = None;
            return Ok(());
        };
        let at = first.0.1;
        let head = &mut self.heads[at];
        *next = head.take();
        if let Err(error) = self.feeds[at].next_into(head) {
            self.failed = Some(error);
            *head = None;
        }
        match head {
            Some(arrival) => first.0.0 = arrival.time_ns,
            None => drop(PeekMut::pop(first)),
        }
        Ok(())
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
        let mut next = Backlog::new(0, 1, 1, 0).next_arrival().unwrap();
        merged.next_into(&mut next).unwrap();
        assert_eq!(next, None, "the end replaces an arrival");
    }

    #[test]
    fn a_million_feeds_are_merged() {
        let feeds = (0..1_000_000u32).map(|stream| {
            let start_ns = u64::from(stream.wrapping_mul(2_654_435_761) >> 8);
            Box::new(Backlog::new(stream, 2, 64, start_ns)) as Box<dyn Feed>
        });
        let mut merged = Merge::of(feeds.collect()).unwrap();
        let (mut count, mut last) = (0, (0, 0));
        while let Some(arrival) = merged.next_arrival().unwrap() {
            let this = (arrival.time_ns, arrival.stream);
            assert!(last <= this, "{last:?} before {this:?}");
            (count, last) = (count + 1, this);
        }
        assert_eq!(count, 2_000_000);
    }

    #[test]
    fn an_error_follows_the_preceding_arrival() {
        struct Failing(u64);
        impl Feed for Failing {
            fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
                self.0 += 1;
                if self.0 > 1 {
                    return Err(TrafficError::new("broken"));
                }
                *next = Some(Arrival { time_ns: 7, stream: 0, bytes: 1, flow: None, frame: None });
                Ok(())
            }
        }
        let backlog = Backlog::new(1, 1, 1, 9);
        let mut merged = Merge::of(vec![Box::new(Failing(0)), Box::new(backlog)]).unwrap();
        assert_eq!(merged.next_arrival().unwrap().unwrap().time_ns, 7);
        assert_eq!(merged.next_arrival().unwrap_err().message, "broken");
        assert_eq!(merged.next_arrival().unwrap().unwrap().time_ns, 9);
        assert_eq!(merged.next_arrival().unwrap(), None);
    }
}
