//! The delays of one stream: a list of up to [`EXACT`] delays, then a histogram.
//!
//! Mean and maximum are always exact. Percentiles are exact up to [`EXACT`] delays. Beyond that,
//! the histogram keeps two significant digits: a percentile is never too low and at most 1 % too
//! high. The p-th percentile is the smallest delay that at least p % of the packets do not exceed.
//!
//! A histogram takes 512 bytes for each doubling of the longest delay beyond 256 ns. Only a stream
//! with more than [`EXACT`] delays allocates one; most of a million streams never do.

use hdrhistogram::Histogram;

/// The largest number of delays that are kept individually.
const EXACT: usize = 64;

/// The delays of one stream, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    few: Vec<u64>,
    many: Option<Box<Histogram<u32>>>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Delays {
    /// Records one delay, ns.
    #[inline]
    pub(crate) fn record(&mut self, delay_ns: u64) {
        self.count += 1;
        self.sum += u128::from(delay_ns);
        self.max = self.max.max(delay_ns);
        self.insert(delay_ns, 1);
    }

    /// Adds the delays of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        match &other.many {
            Some(histogram) => histogram.iter_recorded().for_each(|bucket| {
                // All histograms have equal bucket limits, so the end of the bucket is in the
                // corresponding bucket of this histogram.
                let packets = bucket.count_since_last_iteration();
                self.insert(bucket.value_iterated_to(), u32::try_from(packets).unwrap_or(u32::MAX));
            }),
            None => other.few.iter().for_each(|delay_ns| self.insert(*delay_ns, 1)),
        }
    }

    #[inline]
    fn insert(&mut self, delay_ns: u64, packets: u32) {
        match &mut self.many {
            Some(histogram) => record(histogram, delay_ns, packets),
            None => self.insert_exact(delay_ns, packets),
        }
    }

    fn insert_exact(&mut self, delay_ns: u64, packets: u32) {
        if self.few.len() + packets as usize <= EXACT {
            self.few.extend(std::iter::repeat_n(delay_ns, packets as usize));
        } else if let Ok(mut histogram) = Histogram::new(2) {
            // `Histogram::new` accepts two digits, so this branch is always taken.
            histogram.auto(true);
            self.few.iter().for_each(|delay_ns| record(&mut histogram, *delay_ns, 1));
            record(&mut histogram, delay_ns, packets);
            self.few = Vec::new();
            self.many = Some(Box::new(histogram));
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean_ns(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max
    }

    /// Returns the smallest delay that at least `per_mille` of 1,000 packets do not exceed, ns; 0
    /// without delays.
    pub(crate) fn percentile_ns(&self, per_mille: u32) -> u64 {
        if let Some(histogram) = &self.many {
            return histogram.value_at_quantile(f64::from(per_mille) / 1000.0).min(self.max);
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * per_mille as usize).div_ceil(1000).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0)
    }

    /// Returns points of the cumulative distribution: delay in ns, and share of packets up to it.
    // Shares are only drawn: their rounding error is less than a pixel.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn distribution(&self) -> Vec<(u64, f64)> {
        let total = self.count.max(1) as f64;
        let share = |(delay_ns, packets): (u64, u64)| (delay_ns, packets as f64 / total);
        self.cumulative().into_iter().map(share).collect()
    }

    /// Returns points of the complementary distribution: delay in ns, and share of packets with a
    /// longer delay. The last share is 0.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn tail(&self) -> Vec<(u64, f64)> {
        let total = self.count.max(1) as f64;
        // Subtracts integers: the small shares of a tail would be lost in `1 - share`.
        let share = |(delay_ns, packets): (u64, u64)| {
            (delay_ns, self.count.saturating_sub(packets) as f64 / total)
        };
        self.cumulative().into_iter().map(share).collect()
    }

    /// Returns rising delays in ns, each with the number of packets up to it.
    fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut below = 0u64;
        let mut points = Vec::new();
        let mut push = |delay_ns: u64, packets: u64| {
            below += packets;
            points.push((delay_ns, below));
        };
        match &self.many {
            Some(histogram) => histogram.iter_recorded().for_each(|bucket| {
                push(bucket.value_iterated_to().min(self.max), bucket.count_since_last_iteration());
            }),
            None => {
                let mut sorted = self.few.clone();
                sorted.sort_unstable();
                sorted.into_iter().for_each(|delay_ns| push(delay_ns, 1));
            }
        }
        points
    }
}

/// Records `packets` equal delays in a histogram that grows with its values.
#[inline]
fn record(histogram: &mut Histogram<u32>, delay_ns: u64, packets: u32) {
    if histogram.record_n(delay_ns, packets).is_err() {
        // Delays beyond 2^63 ns, about 300 years, are recorded as the largest supported value.
        histogram.saturating_record_n(delay_ns, packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns deterministic delays of many magnitudes.
    fn synthetic(count: usize, seed: u64) -> (Delays, Vec<u64>) {
        let mut state = seed;
        let mut delays = Delays::default();
        let mut all = Vec::new();
        for _ in 0..count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delay_ns = (state >> 40) * (state >> 60);
            delays.record(delay_ns);
            all.push(delay_ns);
        }
        (delays, all)
    }

    #[allow(clippy::cast_precision_loss)]
    fn check(delays: &Delays, mut all: Vec<u64>) {
        let count = all.len();
        all.sort_unstable();
        for per_mille in [10, 500, 990, 999, 1000] {
            let exact = all[(count * per_mille as usize).div_ceil(1000).max(1) - 1];
            let found = delays.percentile_ns(per_mille);
            let most = if count <= EXACT { exact } else { exact + exact / 100 + 1 };
            assert!((exact..=most).contains(&found), "{count} {per_mille}: {found} for {exact}");
        }
        let tail = delays.tail();
        assert!(tail.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 > pair[1].1));
        assert_eq!(tail.last().unwrap().1.to_bits(), 0);
        for (delay_ns, share) in tail {
            let longer = all.iter().filter(|other| **other > delay_ns).count();
            // Equal delays of a short list are separate points; the last of them counts.
            let exact = longer as f64 / count as f64;
            assert!(share >= exact - 1e-12 && (count <= EXACT || share - exact < 1e-12));
        }
        let sum: u128 = all.iter().map(|delay_ns| u128::from(*delay_ns)).sum();
        assert_eq!(u128::from(delays.mean_ns()), sum / count as u128);
        assert_eq!(delays.max_ns(), all[count - 1]);
        assert_eq!(delays.count(), count as u64);
        let (last_ns, share) = *delays.distribution().last().unwrap();
        assert!((share - 1.0).abs() < 1e-12 && last_ns == all[count - 1]);
    }

    #[test]
    fn percentiles_match_a_sorted_list_within_the_error_bound() {
        for count in [1, 2, 63, 64, 65, 5000] {
            let (delays, all) = synthetic(count, 7);
            check(&delays, all);
        }
    }

    #[test]
    fn absorbed_delays_match_recorded_ones() {
        for (first, second) in [(3, 4), (40, 40), (5000, 10), (10, 5000), (3000, 2000)] {
            let (mut delays, mut all) = synthetic(first, 1);
            let (other, others) = synthetic(second, 2);
            delays.merge(&other);
            all.extend(others);
            check(&delays, all);
        }
    }

    #[test]
    fn largest_delay_does_not_panic() {
        let mut delays = Delays::default();
        (0..100).for_each(|_| delays.record(u64::MAX));
        assert_eq!([delays.max_ns(), delays.mean_ns()], [u64::MAX; 2]);
        assert!(delays.percentile_ns(500) > u64::MAX / 4);
    }
}
