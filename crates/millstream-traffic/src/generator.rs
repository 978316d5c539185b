//! A frame generator: packets of random sizes at equal intervals, with one pause, as ShareStreams'
//! producers fill the queues of an end-system.

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::random::Random;

/// So many packets, one every `interval_ns`, and after the first `pause_after` of them nothing for
/// `pause_ns` more. Sizes from `bytes` to `largest` are all alike.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Its stream.
    pub stream: u32,
    /// Packets still to come.
    pub packets: u64,
    /// The smallest.
    pub bytes: u32,
    /// The largest; at least `bytes`.
    pub largest: u32,
    /// When the next one comes, ns.
    pub time_ns: u64,
    /// Time from one to the next, ns.
    pub interval_ns: u64,
    /// Packets until the pause.
    pub pause_after: u64,
    /// How long it is beyond the interval, ns.
    pub pause_ns: u64,
    /// Where the sizes come from.
    pub random: Random,
}

impl Feed for Generator {
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        if self.packets == 0 {
            return Ok(None);
        }
        self.packets -= 1;
        let more = self.random.below(u64::from(self.largest - self.bytes) + 1);
        // Below `largest`, which is of 32 bits.
        let bytes = self.bytes + u32::try_from(more).unwrap_or(0);
        let arrival = Arrival { time_ns: self.time_ns, stream: self.stream, bytes, frame: None };
        self.time_ns = self.time_ns.saturating_add(self.interval_ns);
        self.pause_after = self.pause_after.saturating_sub(1);
        if self.pause_after == 0 {
            self.time_ns = self.time_ns.saturating_add(std::mem::take(&mut self.pause_ns));
        }
        Ok(Some(arrival))
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
    fn the_pause_comes_once_and_sizes_are_random_and_repeatable() {
        let arrivals = all(generator(1));
        let times: Vec<u64> = arrivals.iter().map(|arrival| arrival.time_ns).collect();
        assert_eq!(times, [5, 15, 125, 135, 145, 155]);
        assert!(arrivals.iter().all(|a| a.stream == 3 && (64..=1500).contains(&a.bytes)));
        assert_eq!(all(generator(1)), arrivals);
        assert_ne!(all(generator(2)), arrivals);
    }

    #[test]
    fn sizes_are_alike_over_all_that_is_allowed() {
        let many = Generator { packets: 30_000, largest: 66, ..generator(1) };
        let sizes = all(many);
        for bytes in 64..=66 {
            let count = sizes.iter().filter(|arrival| arrival.bytes == bytes).count();
            assert!(count.abs_diff(10_000) < 500, "{count} of {bytes} bytes");
        }
    }
}
