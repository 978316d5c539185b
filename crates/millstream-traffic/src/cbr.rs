//! Constant bit rate: equal packets at equal intervals.
//!
//! Packet k arrives at start + ⌊k × bits × 10⁹ / rate⌋. The interval need not be a whole number of
//! nanoseconds: the remainders of the division are added up, so errors do not accumulate. An
//! interval of 0 (or packets of 0 bytes at a rate) would put infinitely many packets at one
//! instant; the scenario file rejects both.

use crate::arrival::{Arrival, Feed, TrafficError};

/// A feed of equal packets at equal intervals, from `start_ns` until before `stop_ns`.
#[derive(Clone, Debug)]
pub struct Cbr {
    stream: u32,
    bytes: u32,
    /// Time of the next packet, ns; `None` if it does not fit in 64 bits.
    next_ns: Option<u64>,
    stop_ns: u64,
    /// The interval, ns, is `whole_ns` and `remainder / denominator`; `None` if it does not fit.
    whole_ns: Option<u64>,
    remainder: u64,
    denominator: u64,
    /// The fraction of a nanosecond by which the next packet is later than `next_ns`, of
    /// `denominator`.
    fraction: u64,
}

impl Cbr {
    /// Creates packets of `bytes` bytes for `stream` at `rate_bps` bits/s (not 0).
    #[must_use]
    pub fn with_rate(stream: u32, bytes: u32, rate_bps: u64, start_ns: u64, stop_ns: u64) -> Self {
        let denominator = rate_bps.max(1);
        let numerator = u128::from(bytes) * 8_000_000_000;
        let whole_ns = u64::try_from(numerator / u128::from(denominator)).ok();
        // Less than the denominator.
        #[allow(clippy::cast_possible_truncation)]
        let remainder = (numerator % u128::from(denominator)) as u64;
        let next_ns = Some(start_ns);
        Self { stream, bytes, next_ns, stop_ns, whole_ns, remainder, denominator, fraction: 0 }
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
        let (next_ns, whole_ns) = (Some(start_ns), Some(interval_ns));
        let (remainder, denominator, fraction) = (0, 1, 0);
        Self { stream, bytes, next_ns, stop_ns, whole_ns, remainder, denominator, fraction }
    }

    /// Returns the time of the packet after that at `time_ns`, and updates the fraction.
    #[inline]
    fn after(&mut self, time_ns: u64) -> Option<u64> {
        // Both are less than the denominator.
        let left = self.denominator - self.remainder;
        let carries = self.fraction >= left;
        self.fraction = if carries { self.fraction - left } else { self.fraction + self.remainder };
        time_ns.checked_add(self.whole_ns?)?.checked_add(u64::from(carries))
    }
}

impl Feed for Cbr {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        let Some(time_ns) = self.next_ns.filter(|time_ns| *time_ns < self.stop_ns) else {
            *next = None;
            return Ok(());
        };
        self.next_ns = self.after(time_ns);
        let (stream, bytes) = (self.stream, self.bytes);
        *next = Some(Arrival { time_ns, stream, bytes, flow: None, frame: None });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(feed: Cbr) -> Vec<u64> {
        times_until(feed, usize::MAX)
    }

    /// Returns the times of at most `most` packets.
    fn times_until(mut feed: Cbr, most: usize) -> Vec<u64> {
        let arrivals = std::iter::from_fn(|| feed.next_arrival().unwrap());
        arrivals.map(|arrival| arrival.time_ns).take(most).collect()
    }

    #[test]
    fn an_interval_with_fractional_nanoseconds_does_not_drift() {
        // 1000 bytes at 3 Mbit/s: 2,666,666.67 ns apart, three in 8 ms.
        let arrivals = times(Cbr::with_rate(0, 1000, 3_000_000, 5, 16_000_005));
        assert_eq!(arrivals, [5, 2_666_671, 5_333_338, 8_000_005, 10_666_671, 13_333_338]);
    }

    /// Times are those of the formula at the top, for any rate.
    #[test]
    fn times_are_those_of_the_exact_quotients() {
        for (bytes, rate_bps) in [
            (1, 1),
            (64, 999_999_937),
            (1_500, 7),
            (1_538, 9_999_999_999),
            (u32::MAX, 3),
            (u32::MAX, u64::MAX),
            (9_000, 1 << 63),
        ] {
            let times = times_until(Cbr::with_rate(0, bytes, rate_bps, 11, u64::MAX), 5_000);
            let bits = u128::from(bytes) * 8_000_000_000;
            let exact = (0..5_000u128).map(|k| 11 + k * bits / u128::from(rate_bps));
            let exact = exact.map_while(|ns| u64::try_from(ns).ok().filter(|ns| *ns < u64::MAX));
            assert!(times.into_iter().eq(exact), "{bytes} bytes at {rate_bps}");
        }
    }

    #[test]
    fn the_stop_is_exclusive_and_time_does_not_overflow() {
        assert_eq!(times(Cbr::with_interval(0, 1, 10, 0, 30)), [0, 10, 20]);
        let near_the_end = Cbr::with_interval(0, 1, u64::MAX / 2, 0, u64::MAX);
        assert_eq!(times(near_the_end), [0, u64::MAX / 2, u64::MAX - 1]);
    }
}
