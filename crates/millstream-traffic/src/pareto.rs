//! Self-similar traffic of one stream: superposed on/off sources with Pareto periods.

use crate::arrival::{Arrival, Feed, TrafficError};
use crate::on_off::{OnOff, PacketBytes};
use crate::random::Random;

/// A feed of superposed Pareto on/off sources; see [`OnOff`].
#[derive(Clone, Debug)]
pub struct ParetoOnOff {
    stream: u32,
    stop_ns: u64,
    sources: OnOff,
}

impl ParetoOnOff {
    /// Creates `sources` on/off sources for `stream`, with a mean rate of `rate_bps` in all.
    ///
    /// While on, a source sends packets of `bytes` bytes at `peak_rate_bps`. `rate_bps` must be
    /// less than `sources` × `peak_rate_bps`.
    #[allow(clippy::too_many_arguments)]
    #[must_use]
    pub fn new(
        stream: u32,
        bytes: PacketBytes,
        rate_bps: u64,
        peak_rate_bps: u64,
        sources: u32,
        start_ns: u64,
        stop_ns: u64,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed, u64::from(stream));
        let sources = OnOff::new(bytes, rate_bps, peak_rate_bps, sources, start_ns, random);
        Self { stream, stop_ns, sources }
    }
}

impl Feed for ParetoOnOff {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        let packet = self.sources.next().filter(|packet| packet.time_ns < self.stop_ns);
        let stream = self.stream;
        *next = packet.map(|packet| Arrival {
            time_ns: packet.time_ns,
            stream,
            bytes: packet.bytes,
            flow: None,
            frame: None,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seed: u64) -> Vec<u64> {
        let stop = 100_000_000_000;
        let mut feed =
            ParetoOnOff::new(0, PacketBytes::Fixed(1000), 8_000_000, 2_000_000, 16, 0, stop, seed);
        std::iter::from_fn(|| feed.next_arrival().unwrap()).map(|arrival| arrival.time_ns).collect()
    }

    #[test]
    fn times_never_decrease_and_the_load_is_near_the_requested_rate() {
        let mut loads = Vec::new();
        for seed in 0..5 {
            let times = times(seed);
            assert!(times.is_sorted());
            assert!(times.iter().all(|time_ns| *time_ns < 100_000_000_000));
            // 100 s at 8 Mbit/s in 1000-byte packets are 100,000 packets.
            loads.push(times.len());
        }
        let mean = loads.iter().sum::<usize>() / loads.len();
        assert!((80_000..120_000).contains(&mean), "{loads:?}");
    }

    #[test]
    fn the_mean_load_of_many_runs_matches_the_requested_rate() {
        let runs = 100;
        let packets: usize = (0..runs).map(|seed| times(seed).len()).sum();
        let mean = packets as f64 / runs as f64 / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean} of the requested load");
    }

    #[test]
    fn zero_rate_sends_no_packets() {
        for (rate, peak) in [(0, 1000), (0, 0)] {
            let mut feed =
                ParetoOnOff::new(0, PacketBytes::Fixed(100), rate, peak, 4, 0, u64::MAX, 1);
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
