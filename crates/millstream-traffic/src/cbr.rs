//! Constant bit rate: equal packets at equal intervals.
//!
//! Packet k arrives at start + ⌊k × bits × 10⁹ / rate⌋. The interval need not be a whole number of
//! nanoseconds. Times are computed from k in 128-bit integers, so errors do not accumulate. An
//! interval of 0 (or packets of 0 bytes at a rate) would put infinitely many packets at one
//! instant; the scenario file rejects both.

use crate::arrival::{Arrival, Feed, TrafficError};

/// A feed of equal packets at equal intervals, from `start_ns` until before `stop_ns`.
#[derive(Clone, Debug)]
pub struct Cbr {
    stream: u32,
    bytes: u32,
    start_ns: u64,
    stop_ns: u64,
    /// The interval in ns, as a fraction.
    numerator: u128,
    denominator: u128,
    next: u64,
}

impl Cbr {
    /// Creates packets of `bytes` bytes for `stream` at `rate_bps` bits/s (not 0).
    #[must_use]
    pub fn with_rate(stream: u32, bytes: u32, rate_bps: u64, start_ns: u64, stop_ns: u64) -> Self {
        let numerator = u128::from(bytes) * 8_000_000_000;
        let denominator = u128::from(rate_bps.max(1));
        Self { stream, bytes, start_ns, stop_ns, numerator, denominator, next: 0 }
    }

    /// Creates packets of `bytes` bytes for `stream`, one every `interval_ns` (not 0).
    #[must_use]
    pub fn with_interval(
        stream: u32,
        bytes: u32,
        interval_ns: u64,
        start_ns: u64,
        stop_ns: u64,
    ) -> Self {
        let numerator = u128::from(interval_ns);
        Self { stream, bytes, start_ns, stop_ns, numerator, denominator: 1, next: 0 }
    }
}

impl Feed for Cbr {
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        let offset = u128::from(self.next) * self.numerator / self.denominator;
        let time = u128::from(self.start_ns) + offset;
        let Some(time_ns) = u64::try_from(time).ok().filter(|time_ns| *time_ns < self.stop_ns)
        else {
            return Ok(None);
        };
        self.next += 1;
        Ok(Some(Arrival {
            time_ns,
            stream: self.stream,
            bytes: self.bytes,
            flow: None,
            frame: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut feed: Cbr) -> Vec<u64> {
        std::iter::from_fn(|| feed.next_arrival().unwrap()).map(|arrival| arrival.time_ns).collect()
    }

    #[test]
    fn an_interval_with_fractional_nanoseconds_does_not_drift() {
        // 1000 bytes at 3 Mbit/s: 2,666,666.67 ns apart, three in 8 ms.
        let arrivals = times(Cbr::with_rate(0, 1000, 3_000_000, 5, 16_000_005));
        assert_eq!(arrivals, [5, 2_666_671, 5_333_338, 8_000_005, 10_666_671, 13_333_338]);
    }

    #[test]
    fn the_stop_is_exclusive_and_time_does_not_overflow() {
        assert_eq!(times(Cbr::with_interval(0, 1, 10, 0, 30)), [0, 10, 20]);
        let near_the_end = Cbr::with_interval(0, 1, u64::MAX / 2, 0, u64::MAX);
        assert_eq!(times(near_the_end), [0, u64::MAX / 2, u64::MAX - 1]);
    }
}
