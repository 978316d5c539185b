//! A frame generator: packets of random sizes at equal intervals, with one pause.
//!
//! It models the producers of ShareStreams, which fill the queues of an end-system.

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::random::Random;

/// A feed of packets, one every `interval_ns`, with an extra pause of `pause_ns` after the first
/// `pause_after`.
///
/// Sizes are uniform from `bytes` to `largest`.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Stream of the packets.
    pub stream: u32,
    /// Number of packets left.
    pub packets: u64,
    /// Smallest size, bytes.
    pub bytes: u32,
    /// Largest size, bytes; at least `bytes`.
    pub largest: u32,
    /// Time of the next packet, ns.
    pub time_ns: u64,
    /// Time between packets, ns.
    pub interval_ns: u64,
    /// Number of packets until the pause.
    pub pause_after: u64,
    /// Length of the pause in addition to the interval, ns.
    pub pause_ns: u64,
    /// Random sequence of the sizes.
    pub random: Random,
}

impl Feed for Generator {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        if self.packets == 0 {
            *next = None;
            return Ok(());
        }
        self.packets -= 1;
        let more = self.random.below(u64::from(self.largest - self.bytes) + 1);
        // At most `largest`, which has 32 bits.
        let bytes = self.bytes + u32::try_from(more).unwrap_or(0);
        let (time_ns, stream) = (self.time_ns, self.stream);
        *next = Some(Arrival { time_ns, stream, bytes, flow: None, frame: None });
        self.time_ns = self.time_ns.saturating_add(self.interval_ns);
        self.pause_after = self.pause_after.saturating_sub(1);
        if self.pause_after == 0 {
            self.time_ns = self.time_ns.saturating_add(std::mem::take(&mut self.pause_ns));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(seed: u64) -> Generator {
        Generator {
            stream: 3,
            packets: 6,
            bytes: 64,
            largest: 1500,
            time_ns: 5,
            interval_ns: 10,
            pause_after: 2,
            pause_ns: 100,
            random: Random::new(seed, 3),
        }
    }

    fn all(mut feed: Generator) -> Vec<Arrival> {
        std::iter::from_fn(|| feed.next_arrival().unwrap()).collect()
    }

    #[test]
    fn the_pause_occurs_once_and_sizes_are_random_and_repeatable() {
        let arrivals = all(generator(1));
        let times: Vec<u64> = arrivals.iter().map(|arrival| arrival.time_ns).collect();
        assert_eq!(times, [5, 15, 125, 135, 145, 155]);
        assert!(arrivals.iter().all(|a| a.stream == 3 && (64..=1500).contains(&a.bytes)));
        assert_eq!(all(generator(1)), arrivals);
        assert_ne!(all(generator(2)), arrivals);
    }

    #[test]
    fn sizes_are_uniform_over_the_allowed_range() {
        let many = Generator { packets: 30_000, largest: 66, ..generator(1) };
        let sizes = all(many);
        for bytes in 64..=66 {
            let count = sizes.iter().filter(|arrival| arrival.bytes == bytes).count();
            assert!(count.abs_diff(10_000) < 500, "{count} of {bytes} bytes");
        }
    }
}
