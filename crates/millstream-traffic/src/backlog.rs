//! A backlog: packets that are all there at once, as the papers' scheduler experiments have them.
//!
//! Every stream is then backlogged from the start until it has been served, so that a run measures
//! the discipline alone: no decision depends on when a packet came.
//! Costs nothing a packet but a counter, however long the backlog.

use crate::arrival::{Arrival, Feed, TrafficError};

/// Equal packets that all arrive at one instant.
#[derive(Clone, Debug)]
pub struct Backlog {
    left: u64,
    arrival: Arrival,
}

impl Backlog {
    /// `packets` packets of `bytes` bytes for `stream`, all at `start_ns`.
    #[must_use]
    pub fn new(stream: u32, packets: u64, bytes: u32, start_ns: u64) -> Self {
        let arrival = Arrival { time_ns: start_ns, stream, bytes, frame: None };
        Self { left: packets, arrival }
    }
}

impl Feed for Backlog {
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        Ok(self.left.checked_sub(1).map(|left| {
            self.left = left;
            self.arrival.clone()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packets_arrive_at_the_start_whatever_their_length() {
        for bytes in [0, 65_535] {
            let mut feed = Backlog::new(2, 3, bytes, 9);
            for _ in 0..3 {
                let arrival = feed.next_arrival().unwrap().unwrap();
                assert_eq!((arrival.time_ns, arrival.stream, arrival.bytes), (9, 2, bytes));
            }
            assert_eq!(feed.next_arrival().unwrap(), None);
            assert_eq!(feed.next_arrival().unwrap(), None, "an ended feed stays ended");
        }
    }
}
