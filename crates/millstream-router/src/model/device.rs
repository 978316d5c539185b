//! Network devices in simulated time: a receive ring that a source fills, and a transmit ring that
//! the link empties.

use crate::ids::PathId;

const SECOND_NS: u128 = 1_000_000_000;

/// A receive ring and the source that fills it.
///
/// If the device interrupts, the handler moves each packet from the ring to a queue of the ring's
/// size. A packet that finds the queue full is dropped, after it has cost its interrupt.
#[derive(Clone, Debug)]
pub struct InputDevice {
    rate_pps: u64,
    phase_ns: u64,
    /// The number of packets that have arrived.
    arrived: u64,
    path: PathId,
    size: usize,
    /// The number of packets in the ring.
    ring: usize,
    /// The number of packets in the queue of the interrupt handler.
    announced: usize,
    lost: u64,
}

impl InputDevice {
    /// Creates a ring of `size` packets and a source of `rate_pps` packets/s for `path`. The first
    /// packet arrives at `phase_ns`.
    #[must_use]
    pub fn new(size: usize, rate_pps: u64, phase_ns: u64, path: PathId) -> Self {
        Self { rate_pps, phase_ns, arrived: 0, path, size, ring: 0, announced: 0, lost: 0 }
    }

    /// Returns the numbers of packets that arrived and that were lost, as of the last poll of the
    /// device.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.arrived, self.lost)
    }

    /// Returns the number of packets that wait to be read.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ring + self.announced
    }

    /// Returns the arrival time of the next packet, ns; `None` without a source.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if self.rate_pps == 0 {
            return None;
        }
        let after = u128::from(self.arrived) * SECOND_NS / u128::from(self.rate_pps);
        u64::try_from(u128::from(self.phase_ns) + after).ok()
    }

    fn fill(&mut self, now_ns: u64) {
        while let Some(at_ns) = self.next_ns()
            && at_ns <= now_ns
        {
            self.arrived += 1;
            if self.ring < self.size {
                self.ring += 1;
            } else {
                self.lost += 1;
            }
        }
    }

    /// Takes the oldest packet; returns its path.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<PathId> {
        self.fill(now_ns);
        let from = if self.announced > 0 { &mut self.announced } else { &mut self.ring };
        *from = from.checked_sub(1)?;
        Some(self.path)
    }

    /// Handles one interrupt: reads a packet into the handler's queue. Returns false if none has
    /// arrived.
    pub(super) fn interrupt(&mut self, now_ns: u64) -> bool {
        self.fill(now_ns);
        let Some(rest) = self.ring.checked_sub(1) else { return false };
        self.ring = rest;
        if self.announced < self.size {
            self.announced += 1;
        } else {
            self.lost += 1;
        }
        true
    }
}

/// A transmit ring and the link that empties it.
#[derive(Clone, Debug)]
pub struct OutputDevice {
    rate_pps: u64,
    size: u64,
    /// The time when the link has transmitted all packets of the ring, in 1/`rate_pps` ns.
    done: u128,
    /// The number of packets put into the ring so far.
    sent: u64,
}

impl OutputDevice {
    /// Creates a ring of `size` packets on a link of `rate_pps` packets/s.
    #[must_use]
    pub fn new(size: u64, rate_pps: u64) -> Self {
        Self { rate_pps, size, done: 0, sent: 0 }
    }

    /// Returns the number of packets put into the ring so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    fn scaled(&self, now_ns: u64) -> u128 {
        u128::from(now_ns) * u128::from(self.rate_pps)
    }

    pub(super) fn room(&self, now_ns: u64) -> usize {
        let waiting = self.done.saturating_sub(self.scaled(now_ns)).div_ceil(SECOND_NS);
        usize::try_from(u128::from(self.size).saturating_sub(waiting)).unwrap_or(usize::MAX)
    }

    /// Returns the time when the ring can hold another packet, ns; later than `now_ns`.
    pub(super) fn room_at_ns(&self, now_ns: u64) -> u64 {
        let left = self.done.saturating_sub(u128::from(self.size - 1) * SECOND_NS);
        let at_ns = left.div_ceil(u128::from(self.rate_pps.max(1)));
        u64::try_from(at_ns).unwrap_or(u64::MAX).max(now_ns + 1)
    }

    pub(super) fn put(&mut self, now_ns: u64) {
        self.done = self.done.max(self.scaled(now_ns)) + SECOND_NS;
        self.sent += 1;
    }
}
