//! Classes without connections: superposed on/off sources and Poisson arrivals.

use millstream_traffic::{OnOff, PacketBytes, PoissonTimes, Random};

use super::sequence::{Purpose, other_end_point, random};

/// A set of on/off sources; all packets of an on period go to one end-point.
#[derive(Clone, Debug)]
pub(super) struct SelfSimilar {
    sources: OnOff,
    end_point: u32,
    end_points: u32,
    /// Destination of each source's current on period.
    destinations: Vec<u32>,
    random: Random,
}

impl SelfSimilar {
    pub(super) fn new(
        bytes: PacketBytes,
        rate_bps: u64,
        peak_rate_bps: u64,
        sources: u32,
        end_points: u32,
        (seed, end_point, class): (u64, u32, u8),
    ) -> Self {
        let times = random(seed, end_point, class, 0, Purpose::Times);
        Self {
            sources: OnOff::new(bytes, rate_bps, peak_rate_bps, sources, 0, times),
            end_point,
            end_points,
            destinations: vec![end_point; sources as usize],
            random: random(seed, end_point, class, 0, Purpose::Destination),
        }
    }

    /// Returns time, source, length and destination of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32, u32, u32)> {
        let packet = self.sources.next()?;
        let destination = &mut self.destinations[packet.source as usize];
        if packet.first {
            *destination = other_end_point(&mut self.random, self.end_point, self.end_points);
        }
        Some((packet.time_ns, packet.source, packet.bytes, *destination))
    }
}

/// Poisson arrivals of packets of one length.
#[derive(Clone, Debug)]
pub(super) struct Poisson {
    bytes: u32,
    end_point: u32,
    end_points: u32,
    /// Arrival times; there are none without load, since the gaps are infinite.
    times: PoissonTimes,
    destinations: Random,
}

impl Poisson {
    pub(super) fn new(
        bytes: u32,
        rate_bps: f64,
        end_points: u32,
        (seed, end_point, class): (u64, u32, u8),
    ) -> Self {
        let bytes = bytes.max(1);
        let times = random(seed, end_point, class, 0, Purpose::Times);
        Self {
            bytes,
            end_point,
            end_points,
            times: PoissonTimes::new(f64::from(bytes) * 8e9 / rate_bps, 0, times),
            destinations: random(seed, end_point, class, 0, Purpose::Destination),
        }
    }

    /// Returns time, length and destination of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32, u32)> {
        let time_ns = self.times.next()?;
        let destination = other_end_point(&mut self.destinations, self.end_point, self.end_points);
        Some((time_ns, self.bytes, destination))
    }
}
