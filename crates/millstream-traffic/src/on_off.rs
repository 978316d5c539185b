//! Superposed on/off sources with Pareto periods, packet by packet.
//!
//! While on, a source sends packets back to back at its peak rate. On and off periods have Pareto
//! distributions of shapes 1.4 and 1.2. The sum is therefore self-similar with H = (3 − 1.2)/2 =
//! 0.9 (Willinger and others 1997).
//!
//! The distributions are cut at three decades, and each source starts inside a period, in its
//! steady state. Without both measures a run's load deviates far from the requested rate. Some
//! deviation remains; count the packets to get the actual load.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::{BoundedPareto, Random};

const SHAPE_ON: f64 = 1.4;
const SHAPE_OFF: f64 = 1.2;
/// The mean number of packets in an on period.
const MEAN_BURST_PACKETS: f64 = 20.0;

/// The distribution of packet lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketBytes {
    /// All packets have this length in bytes, not 0.
    Fixed(u32),
    /// Independent lengths with a bounded Pareto distribution: many small packets and a few large
    /// ones.
    ///
    /// All packets have `least` bytes if `most` is not above it.
    Pareto {
        /// Shape, above 0: a smaller shape gives more large packets.
        shape: f64,
        /// The smallest length in bytes, not 0.
        least: u32,
        /// The largest length in bytes.
        most: u32,
    },
}

impl PacketBytes {
    /// Returns a Pareto distribution from `least` to `most` bytes, or the fixed length `least`
    /// without `most`.
    ///
    /// The shape is 1.4, like that of on periods.
    #[must_use]
    pub fn up_to(least: u32, most: Option<u32>) -> Self {
        match most {
            Some(most) => Self::Pareto { shape: SHAPE_ON, least, most },
            None => Self::Fixed(least),
        }
    }

    /// Returns the least length, bytes, at least 1.
    #[must_use]
    pub fn least(&self) -> u32 {
        match *self {
            Self::Fixed(least) | Self::Pareto { least, .. } => least.max(1),
        }
    }
}

/// A [`PacketBytes`] with precomputed distribution parameters.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    Fixed(u32),
    Pareto(BoundedPareto),
}

impl Sizes {
    fn new(bytes: PacketBytes) -> Self {
        match bytes {
            PacketBytes::Pareto { shape, least, most } if least < most => {
                let (least, most) = (f64::from(least.max(1)), f64::from(most));
                Self::Pareto(BoundedPareto::between(shape, least, most))
            }
            PacketBytes::Fixed(bytes) | PacketBytes::Pareto { least: bytes, .. } => {
                Self::Fixed(bytes.max(1))
            }
        }
    }

    fn mean(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(*bytes),
            Self::Pareto(law) => law.mean(),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn sample(&self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Pareto(law) => (law.sample(random) + 0.5) as u32,
        }
    }

    /// Draws the remaining bytes of the packet in transmission at a random instant.
    fn residual(&self, random: &mut Random) -> f64 {
        match self {
            Self::Fixed(bytes) => random.uniform() * f64::from(*bytes),
            Self::Pareto(law) => law.residual(random),
        }
    }
}

/// A packet of one of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOffPacket {
    /// Time at which it is sent, ns.
    pub time_ns: u64,
    /// Number of its source, from 0.
    pub source: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// Whether it is the first packet of its on period.
    pub first: bool,
}

/// A source's next packet: time, source number, end of its on period, whether it is the first.
///
/// Both times are the bits of a float in ns, which order like the float.
type Next = Reverse<(u64, u32, u64, bool)>;

/// An endless iterator over the packets of superposed on/off sources, in time order.
#[derive(Clone, Debug)]
pub struct OnOff {
    sizes: Sizes,
    peak_rate_bps: f64,
    on: BoundedPareto,
    off: BoundedPareto,
    random: Random,
    next: BinaryHeap<Next>,
}

impl OnOff {
    /// Creates `sources` sources that send from `start_ns` on, with a mean rate of `rate_bps` in
    /// all.
    ///
    /// While on, each sends at `peak_rate_bps`. A rate of `sources` × `peak_rate_bps` or more is
    /// limited to about 2 % below that; the sources are then almost always on. A rate of 0 sends no
    /// packets.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn new(
        bytes: PacketBytes,
        rate_bps: u64,
        peak_rate_bps: u64,
        sources: u32,
        start_ns: u64,
        random: Random,
    ) -> Self {
        let sizes = Sizes::new(bytes);
        let peak_rate_bps = peak_rate_bps.max(1) as f64;
        let mean_on_ns = MEAN_BURST_PACKETS * (sizes.mean() * 8e9 / peak_rate_bps);
        let load = rate_bps as f64 / (peak_rate_bps * f64::from(sources.max(1)));
        // A Pareto distribution needs a mean above 0, so off periods have a minimum mean.
        let mean_off_ns = mean_on_ns * (1.0 / load - 1.0).max(1e-9);
        let mut superposed = Self {
            sizes,
            peak_rate_bps,
            on: BoundedPareto::with_mean(SHAPE_ON, mean_on_ns),
            off: BoundedPareto::with_mean(SHAPE_OFF, mean_off_ns),
            random,
            next: BinaryHeap::new(),
        };
        // Without load the off periods are infinite, so no source ever sends.
        let sources = if load > 0.0 { sources } else { 0 };
        for source in 0..sources {
            let first = superposed.start(start_ns as f64, source, load);
            superposed.next.push(first);
        }
        superposed
    }

    /// Starts `source` at a random instant in its steady state, on with probability `load`; returns
    /// its first packet.
    fn start(&mut self, at_ns: f64, source: u32, load: f64) -> Next {
        if self.random.uniform() < load {
            let end = at_ns + self.on.residual(&mut self.random);
            self.first(at_ns, source, end)
        } else {
            let begin = at_ns + self.off.residual(&mut self.random);
            self.begin(begin, source)
        }
    }

    /// Returns the first packet of the on period of `source` that begins at `at_ns`.
    fn begin(&mut self, at_ns: f64, source: u32) -> Next {
        let end = at_ns + self.on.sample(&mut self.random);
        self.first(at_ns, source, end)
    }

    /// Returns the first packet of an on period, as if the source had been sending before.
    ///
    /// A packet sent at the very start of each period would add half a packet per period on
    /// average.
    fn first(&mut self, from_ns: f64, source: u32, end_ns: f64) -> Next {
        let phase = self.sizes.residual(&mut self.random) * 8e9 / self.peak_rate_bps;
        next(from_ns + phase, source, end_ns, true)
    }

    /// Replaces the entry of the source with the earliest packet by its next packet.
    fn replace_first(&mut self, next: Next) {
        if let Some(mut head) = self.next.peek_mut() {
            *head = next;
        }
    }
}

fn next(at_ns: f64, source: u32, end_ns: f64, first: bool) -> Next {
    // The bit patterns of positive floats have the order of the floats.
    Reverse((at_ns.to_bits(), source, end_ns.to_bits(), first))
}

impl Iterator for OnOff {
    type Item = OnOffPacket;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn next(&mut self) -> Option<OnOffPacket> {
        loop {
            let Reverse((at, source, end, first)) = *self.next.peek()?;
            let (at_ns, end_ns) = (f64::from_bits(at), f64::from_bits(end));
            if at_ns < end_ns {
                let bytes = self.sizes.sample(&mut self.random);
                let next_ns = at_ns + f64::from(bytes) * 8e9 / self.peak_rate_bps;
                self.replace_first(next(next_ns, source, end_ns, false));
                return Some(OnOffPacket { time_ns: at_ns as u64, source, bytes, first });
            }
            let off = self.off.sample(&mut self.random);
            // Never before `at_ns`: packets of other sources up to this time have been returned.
            let begin = self.begin(at_ns.max(end_ns + off), source);
            self.replace_first(begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: PacketBytes = PacketBytes::Pareto { shape: 1.4, least: 64, most: 2176 };

    fn packets(bytes: PacketBytes, rate_bps: u64, seed: u64) -> impl Iterator<Item = OnOffPacket> {
        OnOff::new(bytes, rate_bps, 2_000_000, 16, 0, Random::new(seed, 0))
            .take_while(|packet| packet.time_ns < 20_000_000_000)
    }

    #[test]
    fn sizes_stay_within_bounds_and_have_the_mean_of_the_distribution() {
        let mut random = Random::new(1, 0);
        let sizes = Sizes::new(SIZES);
        let drawn: Vec<u32> = (0..200_000).map(|_| sizes.sample(&mut random)).collect();
        assert!(drawn.iter().all(|bytes| (64..=2176).contains(bytes)));
        let mean = drawn.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.01, "{mean} not {}", sizes.mean());
    }

    #[test]
    fn bounds_that_allow_one_size_give_that_size() {
        for bytes in [
            PacketBytes::Fixed(100),
            PacketBytes::Pareto { shape: 1.4, least: 100, most: 100 },
            PacketBytes::Pareto { shape: 1.4, least: 100, most: 64 },
        ] {
            assert!(packets(bytes, 4_000_000, 1).take(1000).all(|packet| packet.bytes == 100));
        }
    }

    #[test]
    fn the_load_matches_the_requested_rate_for_all_sizes() {
        for bytes in [PacketBytes::Fixed(1000), SIZES] {
            let runs = 60;
            let sent: u64 = (0..runs)
                .flat_map(|seed| packets(bytes, 8_000_000, seed))
                .map(|packet| u64::from(packet.bytes))
                .sum();
            // 20 s at 8 Mbit/s are 20 MB.
            let load = sent as f64 / runs as f64 / 20e6;
            assert!((load - 1.0).abs() < 0.05, "{load} of the requested load");
        }
    }

    #[test]
    fn sources_that_cannot_carry_the_rate_are_always_on() {
        let sent: u64 = packets(PacketBytes::Fixed(1000), 64_000_000, 1)
            .map(|packet| u64::from(packet.bytes))
            .sum();
        // 16 sources of 2 Mbit/s for 20 s.
        assert!((sent as f64 / 80e6 - 0.98).abs() < 0.01, "{sent}");
    }

    #[test]
    fn a_burst_is_sent_at_the_peak_rate() {
        let mut last: [Option<OnOffPacket>; 16] = [None; 16];
        for packet in packets(SIZES, 8_000_000, 1) {
            let before = last[packet.source as usize].replace(packet);
            if let Some(before) = before.filter(|_| !packet.first) {
                let gap_ns = packet.time_ns - before.time_ns;
                assert!(gap_ns.abs_diff(u64::from(before.bytes) * 4000) <= 1, "{gap_ns}");
            }
        }
        assert!(last.iter().all(Option::is_some));
    }
}
