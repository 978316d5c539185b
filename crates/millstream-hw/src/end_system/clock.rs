//! Simulated time in cycles, and arrival times as the card counts them: 16-bit packet-times.
//!
//! The card's time advances one tick a decision: it stops while no packet waits, and runs ahead
//! while packets are shorter than a packet-time. An arrival is stamped with the host's ticks since
//! the start, at least the card's time and at most `ahead` after it. A longer idle time is skipped.
//! The card's time is known from the last read. Since then it may have decided as many packets as
//! it holds and has space for.

/// Older stamps are raised to this distance from the card's time: half of the 16-bit window.
const MAX_AGE: u64 = 1 << 13;

/// The host's clock, in ticks of the card.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    packet_time_ns: u64,
    ahead: u64,
    /// Idle time skipped so far, ticks.
    skipped: u64,
    known: u64,
}

impl Clock {
    /// A clock with ticks of `packet_time_ns` (not 0), for periods of at most `longest` ticks.
    #[must_use]
    pub fn new(packet_time_ns: u64, longest: u64) -> Self {
        Self { packet_time_ns, ahead: (2 * longest).clamp(64, MAX_AGE), skipped: 0, known: 0 }
    }

    /// The known lower bound of the card's time.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Records the low 16 bits of a decision's time; returns all bits.
    pub fn seen(&mut self, time: u16) -> u64 {
        // Times are monotonic, and the last is less than 2^16 ticks old.
        let last = self.known.saturating_sub(1);
        let now = last + u64::from(time.wrapping_sub(low(last)));
        self.known = now + 1;
        now
    }

    /// The stamp of an arrival at `time_ns`, where the card may have made up to `decided` decisions
    /// that were not read.
    pub fn stamp(&mut self, time_ns: u64, decided: u64) -> u64 {
        let ticks = (time_ns / self.packet_time_ns).saturating_sub(self.skipped);
        let excess = ticks.saturating_sub(self.known + self.ahead);
        self.skipped += excess;
        (ticks - excess).max(self.known + decided)
    }

    /// The stamp as offered to the card now.
    #[must_use]
    pub fn offered(&self, stamp: u64) -> u64 {
        stamp.max(self.known.saturating_sub(MAX_AGE))
    }
}

/// The low 16 bits of a time, as the card stores it.
#[must_use]
pub fn low(time: u64) -> u16 {
    u16::try_from(time & 0xFFFF).expect("16 bits")
}

/// The start of a cycle: whole ns, and the remainder in units of 1/Hz ns.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    ns: u64,
    left: u64,
    hz: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Cycles {
    /// A clock of `hz` Hz, not 0, at time 0.
    #[must_use]
    pub fn new(hz: u64) -> Self {
        Self { ns: 0, left: 0, hz }
    }

    /// When the cycle starts, ns.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// The next cycle.
    pub fn tick(&mut self) {
        self.ns += SECOND / self.hz;
        self.left += SECOND % self.hz;
        if self.left >= self.hz {
            self.left -= self.hz;
            self.ns += 1;
        }
    }

    /// Jumps over the largest multiple of `step` cycles that ends by `until_ns`.
    pub fn jump(&mut self, until_ns: u64, step: u64) {
        let (second, hz) = (u128::from(SECOND), u128::from(self.hz));
        let away = u128::from(until_ns.saturating_sub(self.ns)) * hz;
        let cycles = away.saturating_sub(u128::from(self.left)) / second;
        let cycles = cycles / u128::from(step) * u128::from(step);
        let total = u128::from(self.left) + cycles * second;
        self.ns += u64::try_from(total / hz).expect("at most until_ns");
        self.left = u64::try_from(total % hz).expect("below hz");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_take_as_long_as_single_cycles() {
        for hz in [23_000_000, 33_333_333, 1_000_000_007] {
            let (mut walks, mut jumps) = (Cycles::new(hz), Cycles::new(hz));
            (0..1_000_000).for_each(|_| walks.tick());
            let exact = 1_000_000_000_000_000_u64 / hz;
            assert_eq!(walks.ns(), exact);
            jumps.jump(exact + 1, 4);
            assert!(jumps.ns() <= exact + 1 && jumps.ns() + 5 * 1_000_000_000 / hz > exact);
        }
    }

    #[test]
    fn stamps_follow_the_host_when_idle_and_the_card_when_it_is_ahead() {
        let mut clock = Clock::new(10, 1);
        assert_eq!([0, 9, 10, 55].map(|ns| clock.stamp(ns, 0)), [0, 0, 1, 5]);
        for time in 0..200 {
            assert_eq!(clock.seen(time), u64::from(time));
        }
        assert_eq!(clock.stamp(60, 0), 200);
        assert_eq!((clock.stamp(60, 7), clock.stamp(2_010, 0)), (207, 201));
    }

    #[test]
    fn idle_time_beyond_what_periods_need_is_forgotten() {
        let mut clock = Clock::new(1, 100);
        assert_eq!(clock.stamp(1_000_000, 0), 200);
        assert_eq!(clock.stamp(1_000_007, 0), 200);
        assert_eq!(clock.seen(200), 200);
        assert_eq!(clock.stamp(1_000_017, 0), 210);
    }

    #[test]
    fn times_are_unwrapped_and_old_stamps_raised() {
        let mut clock = Clock::new(1, 1);
        for time in (0..200_000_u64).step_by(40_000) {
            assert_eq!(clock.seen(low(time)), time);
        }
        assert_eq!((clock.known(), clock.offered(3)), (160_001, 160_001 - (1 << 13)));
        assert_eq!(clock.offered(160_000), 160_000);
    }
}
