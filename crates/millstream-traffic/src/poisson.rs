//! Poisson traffic: equal packets with independent, exponentially distributed gaps.

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::random::Random;

/// An iterator over the times of a Poisson process, ns, rounded down; empty for an infinite mean
/// gap.
#[derive(Clone, Debug)]
pub struct PoissonTimes {
    mean_gap_ns: f64,
    time_ns: f64,
    random: Random,
}

impl PoissonTimes {
    /// Creates a process after `start_ns` with a mean gap of `mean_gap_ns`.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn new(mean_gap_ns: f64, start_ns: u64, random: Random) -> Self {
        Self { mean_gap_ns, time_ns: start_ns as f64, random }
    }
}

impl Iterator for PoissonTimes {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.time_ns += self.mean_gap_ns * self.random.exponential();
        // Beyond 2^53 ns (104 days) times have the precision of a float.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.time_ns.is_finite().then_some(self.time_ns as u64)
    }
}

/// A feed of packets of `bytes` bytes at random times, from `start_ns` until before `stop_ns`.
#[derive(Clone, Debug)]
pub struct Poisson {
    stream: u32,
    bytes: u32,
    stop_ns: u64,
    times: PoissonTimes,
}

impl Poisson {
    /// Creates packets for `stream` with a mean rate of `rate_bps` bits/s (not 0).
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn new(
        stream: u32,
        bytes: u32,
        rate_bps: u64,
        start_ns: u64,
        stop_ns: u64,
        seed: u64,
    ) -> Self {
        let mean_gap_ns = f64::from(bytes) * 8e9 / rate_bps.max(1) as f64;
        let random = Random::new(seed, u64::from(stream));
        Self { stream, bytes, stop_ns, times: PoissonTimes::new(mean_gap_ns, start_ns, random) }
    }
}

impl Feed for Poisson {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        let (stream, bytes) = (self.stream, self.bytes);
        let time_ns = self.times.next().filter(|time_ns| *time_ns < self.stop_ns);
        *next = time_ns.map(|time_ns| Arrival { time_ns, stream, bytes, flow: None, frame: None });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_mean_and_variance_of_an_exponential_distribution() {
        // 100,000 packets of 10 µs each.
        let mut feed = Poisson::new(0, 1_250, 1_000_000_000, 0, 1_000_000_000, 7);
        let times: Vec<u64> = std::iter::from_fn(|| feed.next_arrival().unwrap())
            .map(|arrival| arrival.time_ns)
            .collect();
        assert!(times.is_sorted());
        assert!((99_000..101_000).contains(&times.len()), "{}", times.len());
        #[allow(clippy::cast_precision_loss)]
        let gaps = || times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 10_000.0);
        let squares: f64 = gaps().map(|gap| gap * gap).sum();
        #[allow(clippy::cast_precision_loss)]
        let second_moment = squares / gaps().count() as f64;
        assert!((second_moment - 2.0).abs() < 0.05, "{second_moment}");
    }
}
