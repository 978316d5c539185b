//! Superposed on/off sources with Pareto periods, packet by packet.
//!
//! While on, a source sends packets back to back at its peak rate. On and off periods are Pareto
//! with shapes 1.4 and 1.2, so that the sum is self-similar with H = (3 − 1.2)/2 = 0.9 (Willinger
//! and others 1997). The laws are cut at three decades and each source starts inside a period, as
//! seen at a random instant: without both, the load of a run strays far from the one asked for. It
//! still strays; whoever counts the packets says what it came to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::{BoundedPareto, Random};

const SHAPE_ON: f64 = 1.4;
const SHAPE_OFF: f64 = 1.2;
/// Mean packets in an on period.
const MEAN_BURST_PACKETS: f64 = 20.0;

/// How large packets are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketBytes {
    /// All alike: so many bytes, not 0.
    Fixed(u32),
    /// Independent, Pareto with the given shape (above 0) between two sizes: many small packets and
    /// a few large ones. One size is left if `most` is not above `least`.
    Pareto {
        /// The exponent: the smaller, the more large packets.
        shape: f64,
        /// The smallest size in bytes, not 0.
        least: u32,
        /// The largest size in bytes.
        most: u32,
    },
}

impl PacketBytes {
    /// From `least` to `most` bytes by a Pareto law of shape 1.4, that of on periods, or all of
    /// `least` bytes without a `most`.
    #[must_use]
    pub fn up_to(least: u32, most: Option<u32>) -> Self {
        match most {
            Some(most) => Self::Pareto { shape: SHAPE_ON, least, most },
            None => Self::Fixed(least),
        }
    }
}

/// [`PacketBytes`] made ready to be drawn from.
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

    /// How many bytes are left of the packet that is being sent at a random instant.
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
    /// When it is sent, ns.
    pub time_ns: u64,
    /// Which source sends it, from 0.
    pub source: u32,
    /// Its bytes.
    pub bytes: u32,
    /// Whether it is the first of its on period.
    pub first: bool,
}

/// When a source sends next (ns as ordered bits), its number, the end of its on period, and whether
/// the packet is the period's first.
type Next = Reverse<(u64, u32, u64, bool)>;

/// Endless packets of superposed on/off sources in time order.
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
    /// `sources` sources from `start_ns` on, each sending at `peak_rate_bps` while on, at a mean of
    /// `rate_bps` in all. A rate that is not below `sources` × `peak_rate_bps` is cut to about
    /// that (2 % less): the sources are all but always on. A rate of 0 is no packets.
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
        // Off periods of no length at all would have no law.
        let mean_off_ns = mean_on_ns * (1.0 / load - 1.0).max(1e-9);
        let mut superposed = Self {
            sizes,
            peak_rate_bps,
            on: BoundedPareto::with_mean(SHAPE_ON, mean_on_ns),
            off: BoundedPareto::with_mean(SHAPE_OFF, mean_off_ns),
            random,
            next: BinaryHeap::new(),
        };
        // Without load the off periods are endless.
        let sources = if load > 0.0 { sources } else { 0 };
        for source in 0..sources {
            let first = superposed.start(start_ns as f64, source, load);
            superposed.next.push(first);
        }
        superposed
    }

    /// The first packet of `source`, which is found inside a period: on with the probability
    /// `load`.
    fn start(&mut self, at_ns: f64, source: u32, load: f64) -> Next {
        if self.random.uniform() < load {
            let end = at_ns + self.on.residual(&mut self.random);
            self.first(at_ns, source, end)
        } else {
            let begin = at_ns + self.off.residual(&mut self.random);
            self.begin(begin, source)
        }
    }

    /// The first packet of the on period of `source` that begins at `at_ns`.
    fn begin(&mut self, at_ns: f64, source: u32) -> Next {
        let end = at_ns + self.on.sample(&mut self.random);
        self.first(at_ns, source, end)
    }

    /// The first packet of an on period comes as if the source had been sending before: sent at its
    /// very beginning, a period would hold half a packet too many on average.
    fn first(&mut self, from_ns: f64, source: u32, end_ns: f64) -> Next {
        let phase = self.sizes.residual(&mut self.random) * 8e9 / self.peak_rate_bps;
        next(from_ns + phase, source, end_ns, true)
    }

    /// The source that is first sends again as `next` says.
    fn replace_first(&mut self, next: Next) {
        if let Some(mut head) = self.next.peek_mut() {
            *head = next;
        }
    }
}

fn next(at_ns: f64, source: u32, end_ns: f64, first: bool) -> Next {
    // Bits of positive floats order like the floats.
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
            // Never before now: other sources have been served up to here.
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
    fn sizes_keep_between_their_bounds_and_have_the_laws_mean() {
        let mut random = Random::new(1, 0);
        let sizes = Sizes::new(SIZES);
        let drawn: Vec<u32> = (0..200_000).map(|_| sizes.sample(&mut random)).collect();
        assert!(drawn.iter().all(|bytes| (64..=2176).contains(bytes)));
        let mean = drawn.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.01, "{mean} not {}", sizes.mean());
    }

    #[test]
    fn bounds_that_leave_one_size_are_that_size() {
        for bytes in [
            PacketBytes::Fixed(100),
            PacketBytes::Pareto { shape: 1.4, least: 100, most: 100 },
            PacketBytes::Pareto { shape: 1.4, least: 100, most: 64 },
        ] {
            assert!(packets(bytes, 4_000_000, 1).take(1000).all(|packet| packet.bytes == 100));
        }
    }

    #[test]
    fn the_load_is_the_one_asked_for_whatever_the_sizes() {
        for bytes in [PacketBytes::Fixed(1000), SIZES] {
            let runs = 60;
            let sent: u64 = (0..runs)
                .flat_map(|seed| packets(bytes, 8_000_000, seed))
                .map(|packet| u64::from(packet.bytes))
                .sum();
            // 8 Mb/s for 20 s is 20 MB.
            let load = sent as f64 / runs as f64 / 20e6;
            assert!((load - 1.0).abs() < 0.05, "{load} of the load asked for");
        }
    }

    #[test]
    fn sources_that_cannot_carry_the_rate_are_always_on() {
        let sent: u64 = packets(PacketBytes::Fixed(1000), 64_000_000, 1)
            .map(|packet| u64::from(packet.bytes))
            .sum();
        // 16 sources of 2 Mb/s for 20 s.
        assert!((sent as f64 / 80e6 - 0.98).abs() < 0.01, "{sent}");
    }

    #[test]
    fn a_burst_keeps_to_its_sources_peak_rate() {
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
