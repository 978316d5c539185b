//! A backlog: packets that all arrive at once, as in the papers' scheduler experiments.
//!
//! Every stream is backlogged from the start until all its packets are served. A run then measures
//! the discipline alone: no decision depends on an arrival time. The memory use does not depend on
//! the number of packets, and a packet costs one counter update.

use crate::arrival::{Arrival, Feed, TrafficError};

/// A feed of equal packets that all arrive at one instant.
#[derive(Clone, Debug)]
pub struct Backlog {
    left: u64,
    arrival: Arrival,
}

impl Backlog {
    /// Creates `packets` packets of `bytes` bytes for `stream`, all at `start_ns`.
    #[must_use]
    pub fn new(stream: u32, packets: u64, bytes: u32, start_ns: u64) -> Self {
        let arrival = Arrival { time_ns: start_ns, stream, bytes, flow: None, frame: None };
        Self { left: packets, arrival }
    }
}

impl Feed for Backlog {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        *next = self.left.checked_sub(1).map(|left| {
            self.left = left;
            self.arrival.clone()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packets_arrive_at_the_start_for_any_length() {
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
