//! The delays of one stream: exact while they are few, a histogram beyond.
//!
//! Mean and maximum are always exact. Percentiles are exact up to [`EXACT`] delays; then the
//! histogram keeps two significant digits, so a percentile is at most 1 % too high. The p-th
//! percentile is the smallest delay that at least p % of the packets do not exceed.

use hdrhistogram::Histogram;

/// So many delays are kept one by one.
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
    /// Records one delay.
    #[inline]
    pub(crate) fn record(&mut self, delay_ns: u64) {
        self.count += 1;
        self.sum += u128::from(delay_ns);
        self.max = self.max.max(delay_ns);
        match &mut self.many {
            Some(histogram) => record(histogram, delay_ns),
            None => self.record_exactly(delay_ns),
        }
    }

    fn record_exactly(&mut self, delay_ns: u64) {
        self.few.push(delay_ns);
        if self.few.len() > EXACT
            && let Ok(mut histogram) = Histogram::new(2)
        {
            histogram.auto(true);
            self.few.drain(..).for_each(|delay_ns| record(&mut histogram, delay_ns));
            self.few = Vec::new();
            self.many = Some(Box::new(histogram));
        }
    }

    pub(crate) fn mean_ns(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max
    }

    /// The `percent`-th percentile, ns; 0 without delays.
    pub(crate) fn percentile_ns(&self, percent: u32) -> u64 {
        if let Some(histogram) = &self.many {
            return histogram.value_at_percentile(f64::from(percent)).min(self.max);
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0)
    }

    /// Points of the cumulative distribution: delay in ns, share of packets not above it.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn distribution(&self) -> Vec<(u64, f64)> {
        let total = self.count.max(1) as f64;
        let mut below = 0u64;
        let mut points = Vec::new();
        let mut push = |delay_ns: u64, packets: u64| {
            below += packets;
            points.push((delay_ns, below as f64 / total));
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

/// Records into a histogram that grows with its values.
#[inline]
fn record(histogram: &mut Histogram<u32>, delay_ns: u64) {
    if histogram.record(delay_ns).is_err() {
        // Beyond 2^63 ns, some 300 years: counts as the longest that is known.
        histogram.saturating_record(delay_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_equal_a_sorted_list_within_what_is_promised() {
        let mut state = 7u64;
        for count in [1usize, 2, 63, 64, 65, 5000] {
            let mut delays = Delays::default();
            let mut all = Vec::new();
            for _ in 0..count {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let delay_ns = (state >> 40) * (state >> 60);
                delays.record(delay_ns);
                all.push(delay_ns);
            }
            all.sort_unstable();
            for percent in [1, 50, 99, 100] {
                let exact = all[(count * percent as usize).div_ceil(100).max(1) - 1];
                let found = delays.percentile_ns(percent);
                let most = if count <= EXACT { exact } else { exact + exact / 100 + 1 };
                assert!((exact..=most).contains(&found), "{count} {percent}: {found} for {exact}");
            }
            let sum: u128 = all.iter().map(|delay_ns| u128::from(*delay_ns)).sum();
            assert_eq!(u128::from(delays.mean_ns()), sum / count as u128);
            assert_eq!(delays.max_ns(), all[count - 1]);
            let (last_ns, share) = *delays.distribution().last().unwrap();
            assert!((share - 1.0).abs() < 1e-12 && last_ns == all[count - 1]);
        }
    }
}
