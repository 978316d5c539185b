//! A backlog: packets that are all there at once, as the papers' scheduler experiments have them.

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
