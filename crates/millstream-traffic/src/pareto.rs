//! Self-similar traffic: superposed on/off sources with Pareto periods.
//!
//! While on, a source sends packets at its peak rate; on and off periods are Pareto with shapes 1.4
//! and 1.2, so that their sum is self-similar with H = (3 − 1.2)/2 = 0.9 (Willinger and others
//! 1997). The laws are cut at three decades and each source starts inside a period, as seen at a
//! random instant: without both, the load of a run strays far from the one asked for. It still
//! strays; the summary's rates say what it came to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::random::{BoundedPareto, Random};

const SHAPE_ON: f64 = 1.4;
const SHAPE_OFF: f64 = 1.2;
/// Mean packets in an on period.
const MEAN_BURST_PACKETS: f64 = 20.0;

/// Superposed Pareto on/off sources.
#[derive(Clone, Debug)]
pub struct ParetoOnOff {
    stream: u32,
    bytes: u32,
    stop_ns: f64,
    interval_ns: f64,
    on: BoundedPareto,
    off: BoundedPareto,
    random: Random,
    /// When each source sends next (ns as ordered bits), its number, the end of its on period.
    next: BinaryHeap<Reverse<(u64, u32, u64)>>,
}

impl ParetoOnOff {
    /// `sources` on/off sources for `stream`, each sending packets of `bytes` bytes at
    /// `peak_rate_bps` while on, at a mean of `rate_bps` in all. `rate_bps` must be less than
    /// `sources` × `peak_rate_bps`.
    #[allow(clippy::too_many_arguments, clippy::cast_precision_loss)]
    #[must_use]
    pub fn new(
        stream: u32,
        bytes: u32,
        rate_bps: u64,
        peak_rate_bps: u64,
        sources: u32,
        start_ns: u64,
        stop_ns: u64,
        seed: u64,
    ) -> Self {
        let interval_ns = f64::from(bytes.max(1)) * 8e9 / peak_rate_bps.max(1) as f64;
        let mean_on_ns = MEAN_BURST_PACKETS * interval_ns;
        let load = rate_bps as f64 / (peak_rate_bps as f64 * f64::from(sources.max(1)));
        let mean_off_ns = mean_on_ns * (1.0 / load - 1.0).max(1e-9);
        let mut feed = Self {
            stream,
            bytes,
            stop_ns: stop_ns as f64,
            interval_ns,
            on: BoundedPareto::with_mean(SHAPE_ON, mean_on_ns),
            off: BoundedPareto::with_mean(SHAPE_OFF, mean_off_ns),
            random: Random::new(seed, stream),
            next: BinaryHeap::new(),
        };
        // Without load the off periods are endless.
        let sources = if load > 0.0 { sources } else { 0 };
        for source in 0..sources {
            let start = start_ns as f64;
            if feed.random.uniform() < load {
                let end = start + feed.on.residual(&mut feed.random);
                feed.push_first(start, source, end);
            } else {
                let begin = start + feed.off.residual(&mut feed.random);
                feed.begin(begin, source);
            }
        }
        feed
    }

    /// An on period of `source` begins.
    fn begin(&mut self, at_ns: f64, source: u32) {
        let end = at_ns + self.on.sample(&mut self.random);
        self.push_first(at_ns, source, end);
    }

    /// The first packet of an on period comes within an interval of `from_ns`: sent at its very
    /// beginning, a period would hold half a packet too many on average.
    fn push_first(&mut self, from_ns: f64, source: u32, end_ns: f64) {
        let phase = self.random.uniform() * self.interval_ns;
        self.push(from_ns + phase, source, end_ns);
    }

    fn push(&mut self, at_ns: f64, source: u32, end_ns: f64) {
        // Bits of positive floats order like the floats.
        self.next.push(Reverse((at_ns.to_bits(), source, end_ns.to_bits())));
    }
}

impl Feed for ParetoOnOff {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn next_arrival(&mut self) -> Result<Option<Arrival>, TrafficError> {
        while let Some(Reverse((at, source, end))) = self.next.pop() {
            let (at_ns, end_ns) = (f64::from_bits(at), f64::from_bits(end));
            if at_ns >= self.stop_ns {
                // Times only grow: this source is over.
                continue;
            }
            if at_ns < end_ns {
                self.push(at_ns + self.interval_ns, source, end_ns);
                let time_ns = at_ns as u64;
                let (stream, bytes) = (self.stream, self.bytes);
                return Ok(Some(Arrival { time_ns, stream, bytes, frame: None }));
            }
            let off = self.off.sample(&mut self.random);
            // Never before now: other sources have been served up to here.
            self.begin(at_ns.max(end_ns + off), source);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seed: u64) -> Vec<u64> {
        let stop = 100_000_000_000;
        let mut feed = ParetoOnOff::new(0, 1000, 8_000_000, 2_000_000, 16, 0, stop, seed);
        std::iter::from_fn(|| feed.next_arrival().unwrap()).map(|arrival| arrival.time_ns).collect()
    }

    #[test]
    fn times_never_decrease_and_the_load_is_near_the_one_asked_for() {
        let mut loads = Vec::new();
        for seed in 0..5 {
            let times = times(seed);
            assert!(times.is_sorted());
            assert!(times.iter().all(|time_ns| *time_ns < 100_000_000_000));
            // 8 Mb/s of 1000-byte packets for 100 s is 100,000 packets.
            loads.push(times.len());
        }
        let mean = loads.iter().sum::<usize>() / loads.len();
        assert!((80_000..120_000).contains(&mean), "{loads:?}");
    }

    #[test]
    fn the_mean_load_of_many_runs_is_the_one_asked_for() {
        let runs = 100;
        let packets: usize = (0..runs).map(|seed| times(seed).len()).sum();
        let mean = packets as f64 / runs as f64 / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean} of the load asked for");
    }

    #[test]
    fn no_rate_is_no_traffic() {
        for (rate, peak) in [(0, 1000), (0, 0)] {
            let mut feed = ParetoOnOff::new(0, 100, rate, peak, 4, 0, u64::MAX, 1);
            assert_eq!(feed.next_arrival().unwrap(), None);
        }
    }

    #[test]
    fn traffic_is_burstier_than_poisson_at_every_scale() {
        for window_ns in [100_000_000u64, 1_000_000_000] {
            let mut counts = vec![0f64; usize::try_from(100_000_000_000 / window_ns).unwrap()];
            for time_ns in times(1) {
                counts[usize::try_from(time_ns / window_ns).unwrap()] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let variance =
                counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
            assert!(variance / mean > 5.0, "index of dispersion {}", variance / mean);
        }
    }
}
