//! Simulated time in cycles, and arrival times in the card's unit: 16-bit packet-times.
//!
//! The card's time advances one tick per decision. It stops while no packet waits, and runs ahead
//! while packets are shorter than a packet-time. An arrival is stamped with the host's ticks since
//! the start, at least the card's time and at most `ahead` after it. A longer idle time is skipped.
//! The card's time is known from the last read. Since then, the card may have decided all packets
//! that it holds, up to the space for winners.

/// Older stamps are raised to this distance from the card's time: half of the 16-bit window.
const MAX_AGE: u64 = 1 << 13;

/// The host's clock, in ticks of the card.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    packet_time_ns: u64,
    ahead: u64,
    /// Idle time skipped so far, ticks.
    skipped: u64,
    lower_bound: u64,
}

impl Clock {
    /// Creates a clock with ticks of `packet_time_ns` (not 0), for periods of at most `longest`
    /// ticks.
    #[must_use]
    pub fn new(packet_time_ns: u64, longest: u64) -> Self {
        Self { packet_time_ns, ahead: (2 * longest).clamp(64, MAX_AGE), skipped: 0, lower_bound: 0 }
    }

    /// Returns the known lower bound of the card's time.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }

    /// Records the low 16 bits of a decision's time; returns all bits.
    pub fn update(&mut self, time: u16) -> u64 {
        // Times are monotonic, and the last is less than 2^16 ticks old.
        let last = self.lower_bound.saturating_sub(1);
        let now = last + u64::from(time.wrapping_sub(low(last)));
        self.lower_bound = now + 1;
        now
    }

    /// Returns the stamp of an arrival at `time_ns`.
    ///
    /// The card may have made up to `decided` decisions that were not read.
    pub fn stamp(&mut self, time_ns: u64, decided: u64) -> u64 {
        let ticks = (time_ns / self.packet_time_ns).saturating_sub(self.skipped);
        let excess = ticks.saturating_sub(self.lower_bound + self.ahead);
        self.skipped += excess;
        (ticks - excess).max(self.lower_bound + decided)
    }

    /// Returns the stamp as offered to the card now.
    #[must_use]
    pub fn clamp(&self, stamp: u64) -> u64 {
        stamp.max(self.lower_bound.saturating_sub(MAX_AGE))
    }
}

/// Returns the low 16 bits of a time, as the card stores it.
#[must_use]
pub fn low(time: u64) -> u16 {
    u16::try_from(time & 0xFFFF).expect("16 bits")
}

/// The start of a cycle: whole ns, and the remainder in units of 1/Hz ns.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    ns: u64,
    remainder: u64,
    hz: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Cycles {
    /// Creates a clock of `hz` Hz, not 0, at time 0.
    #[must_use]
    pub fn new(hz: u64) -> Self {
        Self { ns: 0, remainder: 0, hz }
    }

    /// Returns the start of the cycle, ns.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// Advances to the next cycle.
    pub fn tick(&mut self) {
        self.ns += SECOND / self.hz;
        self.remainder += SECOND % self.hz;
        if self.remainder >= self.hz {
            self.remainder -= self.hz;
            self.ns += 1;
        }
    }

    /// Advances by the largest multiple of `step` cycles that ends by `until_ns`.
    pub fn jump(&mut self, until_ns: u64, step: u64) {
        let (second, hz) = (u128::from(SECOND), u128::from(self.hz));
        let away = u128::from(until_ns.saturating_sub(self.ns)) * hz;
        let cycles = away.saturating_sub(u128::from(self.remainder)) / second;
        let cycles = cycles / u128::from(step) * u128::from(step);
        let total = u128::from(self.remainder) + cycles * second;
        self.ns += u64::try_from(total / hz).expect("at most until_ns");
        self.remainder = u64::try_from(total % hz).expect("below hz");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_take_as_long_as_single_cycles() {
        for hz in [23_000_000, 33_333_333, 1_000_000_007] {
            let (mut ticking, mut jumping) = (Cycles::new(hz), Cycles::new(hz));
            (0..1_000_000).for_each(|_| ticking.tick());
            let exact = 1_000_000_000_000_000_u64 / hz;
            assert_eq!(ticking.ns(), exact);
            jumping.jump(exact + 1, 4);
            assert!(jumping.ns() <= exact + 1 && jumping.ns() + 5 * 1_000_000_000 / hz > exact);
        }
    }

    #[test]
    fn stamps_follow_the_host_when_idle_and_the_card_when_it_is_ahead() {
        let mut clock = Clock::new(10, 1);
        assert_eq!([0, 9, 10, 55].map(|ns| clock.stamp(ns, 0)), [0, 0, 1, 5]);
        for time in 0..200 {
            assert_eq!(clock.update(time), u64::from(time));
        }
        assert_eq!(clock.stamp(60, 0), 200);
        assert_eq!((clock.stamp(60, 7), clock.stamp(2_010, 0)), (207, 201));
    }

    #[test]
    fn idle_time_beyond_what_periods_need_is_forgotten() {
        let mut clock = Clock::new(1, 100);
        assert_eq!(clock.stamp(1_000_000, 0), 200);
        assert_eq!(clock.stamp(1_000_007, 0), 200);
        assert_eq!(clock.update(200), 200);
        assert_eq!(clock.stamp(1_000_017, 0), 210);
    }

    #[test]
    fn times_are_unwrapped_and_old_stamps_raised() {
        let mut clock = Clock::new(1, 1);
        for time in (0..200_000_u64).step_by(40_000) {
            assert_eq!(clock.update(low(time)), time);
        }
        assert_eq!((clock.lower_bound(), clock.clamp(3)), (160_001, 160_001 - (1 << 13)));
        assert_eq!(clock.clamp(160_000), 160_000);
    }
}
