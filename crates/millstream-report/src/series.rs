//! What happened over time, in a fixed number of bins whose width doubles as time goes on.
//!
//! ```text
//! |a|b|c|d|e|f|  time runs past the last bin
//! |a+b|c+d|e+f|   |   |   |  neighbours merge: nothing is lost, bins are twice as wide
//! ```
//!
//! Memory does not depend on the length of a run: when time runs past the last bin, neighbours are
//! merged. Only the first streams have a series of their own; the others share one.

use std::ops::Range;

/// Streams with a series of their own.
const OWN: usize = 23;
/// Bins; even, so that they merge in pairs.
pub(crate) const BINS: usize = 240;
/// The width at the start, ns.
const FIRST_WIDTH_NS: u64 = 1 << 10;

/// One bin of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes whose service started.
    pub sent_bytes: u64,
    /// Deadlines missed.
    pub missed: u64,
    /// Violations among them.
    pub violations: u64,
    /// Packets dropped, late or at a full queue.
    pub dropped: u64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.missed += other.missed;
        self.violations += other.violations;
        self.dropped += other.dropped;
    }
}

/// Time series of a run.
#[derive(Clone, Debug)]
pub struct Series {
    width_ns: u64,
    streams: Vec<[Bin; BINS]>,
}

impl Series {
    /// Empty series for so many streams.
    pub(crate) fn new(streams: usize) -> Self {
        Self {
            width_ns: FIRST_WIDTH_NS,
            streams: vec![[Bin::default(); BINS]; streams.min(OWN + 1)],
        }
    }

    /// The bin of `stream` at `time_ns`.
    #[inline]
    pub(crate) fn at(&mut self, stream: usize, time_ns: u64) -> &mut Bin {
        while time_ns / self.width_ns >= BINS as u64 {
            self.double();
        }
        let bin = usize::try_from(time_ns / self.width_ns).unwrap_or(BINS - 1);
        &mut self.streams[stream.min(OWN)][bin]
    }

    #[cold]
    fn double(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        for bins in &mut self.streams {
            for bin in 0..BINS {
                let mut merged = Bin::default();
                for half in [2 * bin, 2 * bin + 1] {
                    if let Some(half) = bins.get(half) {
                        merged.add(half);
                    }
                }
                bins[bin] = merged;
            }
        }
    }

    /// The width of every bin, ns; bin k covers the time from k widths to k + 1.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The series: one a stream, the last shared by all streams beyond the first 23.
    #[must_use]
    pub fn streams(&self) -> &[[Bin; BINS]] {
        &self.streams
    }

    /// What the series number `index` is called, `names` being those of all streams; empty if
    /// there is no such series.
    #[must_use]
    pub fn name(index: usize, names: &[String]) -> String {
        if Self::members(index, names.len()).len() > 1 {
            format!("{} other streams", names.len() - OWN)
        } else {
            names.get(index).cloned().unwrap_or_default()
        }
    }

    /// The streams of the series number `index`, when there are `streams` in all.
    pub(crate) fn members(index: usize, streams: usize) -> Range<usize> {
        if index == OWN { OWN..streams.max(OWN) } else { index..index + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_bins_loses_nothing_and_keeps_the_place() {
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
        assert!(
            times[1999] / width_ns < BINS as u64 && times[1999] / width_ns >= BINS as u64 / 2 - 1
        );
    }

    #[test]
    fn streams_beyond_the_first_share_a_series() {
        let names: Vec<String> = (0..30).map(|k| format!("s{k}")).collect();
        assert_eq!(Series::name(22, &names), "s22");
        assert_eq!(Series::name(23, &names), "7 other streams");
        assert_eq!(Series::name(23, &names[..24]), "s23");
        assert_eq!(Series::name(24, &names[..24]), "");
        assert_eq!(Series::members(23, 30), 23..30);
        assert_eq!(Series::members(22, 30), 22..23);
    }

    #[test]
    fn the_end_of_time_has_a_bin() {
        let mut series = Series::new(1);
        series.at(0, 5).dropped = 1;
        series.at(0, u64::MAX).dropped = 1;
        assert_eq!(series.streams()[0].iter().map(|bin| bin.dropped).sum::<u64>(), 2);
    }
}
