//! [`SharedHistogram`]: times counted by one thread and read by others, without locks.
//!
//! Buckets are log-linear, as in an HDR histogram: 32 per power of two, so a bucket is at most
//! 3.2 % wide. Times below 32 ns are exact. Times of 68 s and above count in the last bucket.

use std::sync::atomic::{AtomicU64, Ordering};

/// The base-2 logarithm of the number of buckets per power of two.
const SUB_BITS: u32 = 5;
/// Times of 2^36 ns (68 s) and above count as this limit less one.
const LIMIT_BITS: u32 = 36;
/// The number of buckets.
const BUCKETS: usize = ((LIMIT_BITS - SUB_BITS + 1) << SUB_BITS) as usize;
/// The number of times that [`TimeCounts::by_power_of_two`] returns.
pub const POWERS: usize = LIMIT_BITS as usize + 1;

/// Returns the bucket of a time.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << LIMIT_BITS) - 1) as usize;
    let exponent = (ns | (1 << SUB_BITS)).ilog2() - SUB_BITS;
    ((exponent as usize) << SUB_BITS) + (ns >> exponent)
}

/// Returns the largest time of a bucket, ns.
fn longest_ns(bucket: usize) -> u64 {
    let exponent = (bucket >> SUB_BITS).saturating_sub(1);
    let first = (bucket - (exponent << SUB_BITS)) as u64;
    ((first + 1) << exponent) - 1
}

/// A histogram of times, which one thread counts and others read.
#[derive(Debug)]
pub struct SharedHistogram {
    sum_ns: AtomicU64,
    longest_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for SharedHistogram {
    fn default() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, sum_ns: AtomicU64::new(0), longest_ns: AtomicU64::new(0) }
    }
}

impl SharedHistogram {
    /// Counts a time. Only one thread may call it: two would lose counts.
    #[inline]
    pub fn record(&self, ns: u64) {
        // Plain loads and stores: an atomic addition is ten times as slow, and one thread writes.
        let bucket = &self.buckets[bucket(ns)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let sum_ns = self.sum_ns.load(Ordering::Relaxed).wrapping_add(ns);
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(ns, Ordering::Relaxed);
        }
    }
}

/// The counts of histograms at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeCounts {
    buckets: Box<[u64]>,
    sum_ns: u64,
    longest_ns: u64,
}

impl Default for TimeCounts {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), sum_ns: 0, longest_ns: 0 }
    }
}

impl TimeCounts {
    /// Adds the present counts of a histogram.
    pub fn add(&mut self, histogram: &SharedHistogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.load(Ordering::Relaxed));
        self.longest_ns = self.longest_ns.max(histogram.longest_ns.load(Ordering::Relaxed));
    }

    /// Returns what was counted after `earlier`, which has the same histograms. The longest time is
    /// that of its bucket, unless it is the longest of all.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Box<[u64]> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let sum_ns = self.sum_ns.wrapping_sub(earlier.sum_ns);
        let longest = buckets.iter().rposition(|count| *count > 0).map_or(0, longest_ns);
        Self { buckets, sum_ns, longest_ns: longest.min(self.longest_ns) }
    }

    /// Returns the number of times counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all times, ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the longest time, ns; 0 without any.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Returns the time that a share of `per_mille` thousandths of the times does not exceed, ns; 0
    /// without any time. It is at most 3.2 % too long.
    #[must_use]
    pub fn quantile_ns(&self, per_mille: u64) -> u64 {
        let count = u128::from(self.count());
        let rank = (count * u128::from(per_mille)).div_ceil(1_000).max(1);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += u128::from(*count);
            if below >= rank {
                return longest_ns(bucket).min(self.longest_ns);
            }
        }
        0
    }

    /// Returns the number of times below each power of two: element `n` counts times below 2^n ns.
    /// The last element counts all times.
    #[must_use]
    pub fn by_power_of_two(&self) -> [u64; POWERS] {
        let mut below = [0; POWERS];
        for (bucket, count) in self.buckets.iter().enumerate() {
            below[(longest_ns(bucket) + 1).next_power_of_two().ilog2() as usize] += count;
        }
        for power in 1..POWERS {
            below[power] += below[power - 1];
        }
        below
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut next_ns = 0;
        for at in 0..BUCKETS {
            assert_eq!(bucket(next_ns), at, "{next_ns} ns");
            assert_eq!(bucket(longest_ns(at)), at);
            assert!((longest_ns(at) - next_ns) * 32 <= next_ns, "bucket {at} is too wide");
            next_ns = longest_ns(at) + 1;
        }
        assert_eq!(next_ns, 1 << LIMIT_BITS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times_within_a_bucket() {
        let histogram = SharedHistogram::default();
        let mut times: Vec<u64> = (0..10_000u64).map(|at| at * at * 37 + at % 11).collect();
        times.iter().for_each(|ns| histogram.record(*ns));
        times.sort_unstable();
        let mut counts = TimeCounts::default();
        counts.add(&histogram);
        assert_eq!(counts.count(), 10_000);
        assert_eq!(counts.sum_ns(), times.iter().sum());
        assert_eq!(counts.longest_ns(), times[9_999]);
        for per_mille in [0, 1, 500, 900, 990, 999, 1_000] {
            let rank = usize::try_from((10 * per_mille).max(1)).unwrap();
            let (exact, shown) = (times[rank - 1], counts.quantile_ns(per_mille));
            assert!(
                shown >= exact && (shown - exact) * 32 <= exact,
                "{per_mille}: {exact} {shown}"
            );
        }
        let below = counts.by_power_of_two();
        for (power, count) in below.iter().enumerate() {
            let exact = times.iter().filter(|ns| **ns < 1 << power).count();
            assert_eq!(*count, exact as u64, "below 2^{power} ns");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_times() {
        let counts = TimeCounts::default();
        assert_eq!((counts.count(), counts.quantile_ns(990), counts.longest_ns()), (0, 0, 0));
        assert_eq!(counts.by_power_of_two(), [0; POWERS]);
    }

    #[test]
    fn counts_of_several_histograms_add_up_and_earlier_ones_subtract() {
        let histograms = [SharedHistogram::default(), SharedHistogram::default()];
        let counts = || {
            let mut counts = TimeCounts::default();
            histograms.iter().for_each(|histogram| counts.add(histogram));
            counts
        };
        histograms[0].record(1_000);
        histograms[1].record(2_000_000);
        let earlier = counts();
        assert_eq!((earlier.count(), earlier.longest_ns()), (2, 2_000_000));
        for ns in [3_000, 3_000, 3_000, 5_000] {
            histograms[1].record(ns);
        }
        let recent = counts().since(&earlier);
        assert_eq!((recent.count(), recent.sum_ns()), (4, 14_000));
        assert_eq!(recent.longest_ns(), longest_ns(bucket(5_000)));
        assert_eq!(recent.quantile_ns(500), longest_ns(bucket(3_000)));
    }

    #[test]
    fn times_beyond_the_limit_count_in_the_last_bucket() {
        let histogram = SharedHistogram::default();
        histogram.record(u64::MAX);
        let mut counts = TimeCounts::default();
        counts.add(&histogram);
        assert_eq!(counts.by_power_of_two()[POWERS - 1], 1);
        assert_eq!(counts.quantile_ns(500), (1 << LIMIT_BITS) - 1);
        assert_eq!(counts.longest_ns(), u64::MAX);
    }
}
