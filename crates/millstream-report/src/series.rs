//! Time series with a fixed number of bins. The bins get ten times as wide when the run outgrows
//! them.
//!
//! ```text
//! |a|b|…|j|k|l|…  time exceeds the last bin
//! |a+b+…+j|k+l+…|   |  ten neighbours merge: bins are ten times as wide, all counts are kept
//! ```
//!
//! The width of a bin is a power of ten, so that charts can group bins to round widths. A run of
//! more than 2 µs ends with 200 to 2,000 bins. Memory does not depend on the length of a run: when
//! time exceeds the last bin, neighbours are merged. Each of the first 23 streams has its own
//! series; all further streams share one.

use std::ops::Range;

/// The number of streams with their own series.
const OWN: usize = 23;
/// The number of bins of a series; a multiple of [`MERGED`].
pub(crate) const BINS: usize = 2_000;
/// The number of neighbours that merge into one bin.
const MERGED: usize = 10;

/// One bin of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// The bytes of packets whose service started.
    pub sent_bytes: u64,
    /// The number of missed deadlines.
    pub missed: u64,
    /// The number of violations among them.
    pub violations: u64,
    /// The number of packets dropped late, at a full queue or by queue management.
    pub dropped: u64,
    /// The round trips that a source measured, and the sum of their times, ns.
    pub round_trips: u64,
    /// See `round_trips`.
    pub round_trips_ns: u64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.missed += other.missed;
        self.violations += other.violations;
        self.dropped += other.dropped;
        self.round_trips += other.round_trips;
        self.round_trips_ns = self.round_trips_ns.saturating_add(other.round_trips_ns);
    }
}

/// The time series of a run.
#[derive(Clone, Debug)]
pub struct Series {
    width_ns: u64,
    streams: Vec<Vec<Bin>>,
}

impl Series {
    /// Returns empty series for `streams` streams.
    pub(crate) fn new(streams: usize) -> Self {
        let bins = vec![Bin::default(); BINS];
        Self { width_ns: 1, streams: vec![bins; streams.min(OWN + 1)] }
    }

    /// Returns the bin of `stream` at `time_ns`.
    #[inline]
    pub(crate) fn at(&mut self, stream: usize, time_ns: u64) -> &mut Bin {
        while time_ns / self.width_ns >= BINS as u64 {
            self.widen();
        }
        let bin = usize::try_from(time_ns / self.width_ns).unwrap_or(BINS - 1);
        &mut self.streams[stream.min(OWN)][bin]
    }

    #[cold]
    fn widen(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(MERGED as u64);
        for bins in &mut self.streams {
            for bin in 0..BINS {
                let mut merged = Bin::default();
                for part in bins.iter().skip(bin * MERGED).take(MERGED) {
                    merged.add(part);
                }
                bins[bin] = merged;
            }
        }
    }

    /// Returns the width of every bin, a power of ten, ns; bin k covers the time from k to k + 1
    /// widths.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns the series: one per stream; all streams beyond the first 23 share the last.
    #[must_use]
    pub fn streams(&self) -> &[Vec<Bin>] {
        &self.streams
    }

    /// Returns the name of series `index`, given the `names` of all streams; empty if the series
    /// does not exist.
    #[must_use]
    pub fn name(index: usize, names: &[String]) -> String {
        if Self::members(index, names.len()).len() > 1 {
            format!("{} other streams", names.len() - OWN)
        } else {
            names.get(index).cloned().unwrap_or_default()
        }
    }

    /// Returns the streams of series `index` in a run of `streams` streams.
    pub(crate) fn members(index: usize, streams: usize) -> Range<usize> {
        if index == OWN { OWN..streams.max(OWN) } else { index..index + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_bins_keeps_counts_and_times() {
        let mut series = Series::new(30);
        let times: Vec<u64> = (0..2000).map(|k| k * k * 31).collect();
        for (stream, time_ns) in times.iter().enumerate() {
            series.at(stream % 30, *time_ns).sent_bytes += 1;
        }
        assert_eq!(series.streams().len(), 24);
        let total: u64 = series.streams().iter().flatten().map(|bin| bin.sent_bytes).sum();
        assert_eq!(total, 2000);
        let width_ns = series.width_ns();
        let early: u64 = series.streams().iter().map(|bins| bins[0].sent_bytes).sum();
        assert_eq!(early, times.iter().filter(|time_ns| **time_ns < width_ns).count() as u64);
        let last = times[1999] / width_ns;
        assert!((BINS as u64 / 10..BINS as u64).contains(&last), "{last}");
    }

    #[test]
    fn streams_beyond_23_share_a_series() {
        let names: Vec<String> = (0..30).map(|k| format!("s{k}")).collect();
        assert_eq!(Series::name(22, &names), "s22");
        assert_eq!(Series::name(23, &names), "7 other streams");
        assert_eq!(Series::name(23, &names[..24]), "s23");
        assert_eq!(Series::name(24, &names[..24]), "");
        assert_eq!(Series::members(23, 30), 23..30);
        assert_eq!(Series::members(22, 30), 22..23);
    }

    #[test]
    fn the_largest_time_has_a_bin() {
        let mut series = Series::new(1);
        series.at(0, 5).dropped = 1;
        series.at(0, u64::MAX).dropped = 1;
        assert_eq!(series.streams()[0].iter().map(|bin| bin.dropped).sum::<u64>(), 2);
    }
}
