//! [`Clock`]: the CPU's time stamp counter in nanoseconds.

use std::sync::Arc;

/// A monotonic clock that starts at 0. Clones share the origin.
#[derive(Clone, Debug)]
pub struct Clock {
    counter: quanta::Clock,
    start: u64,
    by_hand: bool,
}

impl Default for Clock {
    fn default() -> Self {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        Self { counter, start, by_hand: false }
    }
}

impl Clock {
    /// A clock that advances only by its other half, in nanoseconds; for tests.
    #[must_use]
    pub fn by_hand() -> (Self, Arc<quanta::Mock>) {
        let (counter, hand) = quanta::Clock::mock();
        let start = counter.raw();
        (Self { counter, start, by_hand: true }, hand)
    }

    /// Returns nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.counter.delta_as_nanos(self.start, self.counter.raw())
    }

    /// Returns the CPU time of this thread, ns; `None` for a manual clock, which has no steal time.
    #[must_use]
    pub fn worked_ns(&self) -> Option<u64> {
        let worked = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let worked = (!self.by_hand).then(worked)?;
        Some(worked.tv_sec.cast_unsigned() * 1_000_000_000 + worked.tv_nsec.cast_unsigned())
    }

    /// Returns the counter's frequency, Hz.
    #[must_use]
    pub fn cycles_per_second(&self) -> u64 {
        let cycles = 1u64 << 40;
        let nanoseconds = u128::from(self.counter.delta_as_nanos(0, cycles).max(1));
        u64::try_from(u128::from(cycles) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
    }
}

/// A sample of wall-clock time and thread CPU time, to measure steal time.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    at_ns: u64,
    worked_ns: u64,
}

impl Worked {
    /// Takes a sample now.
    #[must_use]
    pub fn until_now(clock: &Clock) -> Self {
        Self { at_ns: clock.now_ns(), worked_ns: clock.worked_ns().unwrap_or(0) }
    }

    /// Returns the steal time since the last sample, ns, and takes a new one at `now_ns`. The
    /// result is at most `took_ns`, and 0 for a manual clock.
    pub fn stolen_ns(&mut self, clock: &Clock, now_ns: u64, took_ns: u64) -> u64 {
        let Some(worked_ns) = clock.worked_ns() else { return 0 };
        let then = std::mem::replace(self, Self { at_ns: now_ns, worked_ns });
        let passed_ns = now_ns.saturating_sub(then.at_ns);
        passed_ns.saturating_sub(worked_ns.saturating_sub(then.worked_ns)).min(took_ns)
    }
}
