//! The sojourn and round-trip times in a report.

use millstream_sync::histogram::{SharedHistogram, TimeCounts};
use std::sync::Arc;

/// The times of a path since the start: sojourn times of its packets, from reception until the
/// device took them, or round-trip times. Quantiles are at most 3.2 % too long.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DelayReport {
    /// The number of packets or round trips measured.
    pub packets: u64,
    /// The sum of their times, ns.
    pub sum_ns: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The 99.9th percentile, ns.
    pub p999_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// The number of packets below each power of two: element n counts those below 2^n ns. The last
    /// element counts all packets.
    pub below_power_of_two: Vec<u64>,
}

/// The sojourn times of a path's packets in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecentDelay {
    /// The number of packets measured.
    pub packets: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// The 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

impl RecentDelay {
    /// Returns the times of `counts`; `None` without any.
    pub(crate) fn new(counts: &TimeCounts) -> Option<Self> {
        let packets = counts.count();
        (packets > 0).then(|| Self {
            packets,
            p50_ns: counts.quantile_ns(500),
            p99_ns: counts.quantile_ns(990),
            longest_ns: counts.longest_ns(),
        })
    }
}

impl From<&TimeCounts> for DelayReport {
    fn from(counts: &TimeCounts) -> Self {
        Self {
            packets: counts.count(),
            sum_ns: counts.sum_ns(),
            p50_ns: counts.quantile_ns(500),
            p99_ns: counts.quantile_ns(990),
            p999_ns: counts.quantile_ns(999),
            longest_ns: counts.longest_ns(),
            below_power_of_two: counts.by_power_of_two().to_vec(),
        }
    }
}

/// The histograms of a path: one for each core that sends its packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct DelaySources(pub(crate) Vec<Arc<SharedHistogram>>);

impl DelaySources {
    /// Returns the times so far; `None` without any.
    pub(crate) fn report(&self) -> Option<DelayReport> {
        let counts = self.counts();
        (counts.count() > 0).then(|| DelayReport::from(&counts))
    }

    /// Returns the sums of their counts now.
    pub(crate) fn counts(&self) -> TimeCounts {
        let mut counts = TimeCounts::default();
        self.0.iter().for_each(|histogram| counts.add(histogram));
        counts
    }
}
