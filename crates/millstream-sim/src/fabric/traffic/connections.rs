//! Constant-bit-rate connections of one class at one end-point.

use super::sequence::{Purpose, random};

/// Connections that send equal packets at one interval: whoever comes first in an interval comes
/// first in every one, so the next packet is the next connection's in a fixed ring.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    bytes: u32,
    interval_ns: u64,
    /// Phase and number of each connection, by phase.
    ring: Vec<(u64, u32)>,
    place: usize,
    /// When the present interval began.
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

    /// Time, connection within the class and bytes of the next packet.
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
