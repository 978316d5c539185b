//! Constant-bit-rate connections of one class at one end-point.

use super::sequence::{Purpose, random};

/// A set of connections that send equal packets at a common interval.
///
/// Their order is equal in every interval, so the next packet belongs to the next connection in a
/// fixed ring.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    bytes: u32,
    interval_ns: u64,
    /// Phase in ns and number of each connection, by phase.
    ring: Vec<(u64, u32)>,
    /// Index in `ring` of the next connection.
    place: usize,
    /// Start of the current interval, ns.
    interval_start_ns: u64,
}

impl Connections {
    pub(super) fn new(
        bytes: u32,
        interval_ns: u64,
        count: u32,
        (seed, end_point, class): (u64, u32, u8),
    ) -> Self {
        let interval_ns = interval_ns.max(1);
        let mut ring: Vec<(u64, u32)> = (0..count)
            .map(|connection| {
                let mut random = random(seed, end_point, class, connection, Purpose::Times);
                (random.below(interval_ns), connection)
            })
            .collect();
        ring.sort_unstable();
        Self { bytes: bytes.max(1), interval_ns, ring, place: 0, interval_start_ns: 0 }
    }

    /// Creates one connection with its first packet at `start_ns`.
    pub(super) fn one(bytes: u32, interval_ns: u64, start_ns: u64) -> Self {
        Self {
            bytes: bytes.max(1),
            interval_ns: interval_ns.max(1),
            ring: vec![(0, 0)],
            place: 0,
            interval_start_ns: start_ns,
        }
    }

    /// Returns time, connection within the class and length of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u32, u32)> {
        let (phase_ns, connection) = *self.ring.get(self.place)?;
        let time_ns = self.interval_start_ns.checked_add(phase_ns)?;
        self.place += 1;
        if self.place == self.ring.len() {
            self.place = 0;
            self.interval_start_ns = self.interval_start_ns.saturating_add(self.interval_ns);
        }
        Some((time_ns, connection, self.bytes))
    }
}
