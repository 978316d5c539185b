//! [`Clock`]: the CPU's time stamp counter in nanoseconds.

use std::sync::Arc;

use super::system::thread_cpu_ns;

/// A monotonic clock that starts at 0. Clones share the origin.
#[derive(Clone, Debug)]
pub struct Clock {
    counter: quanta::Clock,
    start: u64,
    mock: bool,
}

impl Default for Clock {
    fn default() -> Self {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        Self { counter, start, mock: false }
    }
}

impl Clock {
    /// Returns a mock clock and the handle that advances it, in nanoseconds; for tests.
    #[must_use]
    pub fn mock() -> (Self, Arc<quanta::Mock>) {
        let (counter, mock) = quanta::Clock::mock();
        let start = counter.raw();
        (Self { counter, start, mock: true }, mock)
    }

    /// Returns nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.counter.delta_as_nanos(self.start, self.counter.raw())
    }

    /// Returns the CPU time of this thread, ns; `None` for a mock clock, which has no steal time.
    #[inline]
    #[must_use]
    pub fn thread_cpu_ns(&self) -> Option<u64> {
        (!self.mock).then(thread_cpu_ns)
    }

    /// Returns the counter's frequency, Hz.
    #[must_use]
    pub fn cycles_per_second(&self) -> u64 {
        let cycles = 1u64 << 40;
        let nanoseconds = u128::from(self.counter.delta_as_nanos(0, cycles).max(1));
        u64::try_from(u128::from(cycles) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
    }
}

impl super::Clock for Clock {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        Self::now_ns(self)
    }
}

/// A sample of wall-clock time and thread CPU time, to measure steal time.
#[derive(Clone, Copy, Debug)]
pub struct CpuTimeSample {
    at_ns: u64,
    thread_cpu_ns: u64,
}

impl CpuTimeSample {
    /// Takes a sample now.
    #[inline]
    #[must_use]
    pub fn capture(clock: &Clock) -> Self {
        Self { at_ns: clock.now_ns(), thread_cpu_ns: clock.thread_cpu_ns().unwrap_or(0) }
    }

    /// Returns the steal time since the last sample, ns, and takes a new one at `now_ns`. The
    /// result is at most `took_ns`, and 0 for a mock clock.
    #[inline]
    pub fn take_steal_ns(&mut self, clock: &Clock, now_ns: u64, took_ns: u64) -> u64 {
        let Some(thread_cpu_ns) = clock.thread_cpu_ns() else { return 0 };
        let then = std::mem::replace(self, Self { at_ns: now_ns, thread_cpu_ns });
        let passed_ns = now_ns.saturating_sub(then.at_ns);
        passed_ns.saturating_sub(thread_cpu_ns.saturating_sub(then.thread_cpu_ns)).min(took_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mock_clock_starts_at_0_and_its_clones_advance_together() {
        let (clock, mock) = Clock::mock();
        let clone = clock.clone();
        assert_eq!(clock.now_ns(), 0);
        mock.increment(1_500);
        assert_eq!((clock.now_ns(), clone.now_ns()), (1_500, 1_500));
    }

    #[test]
    fn a_mock_clock_has_no_steal_time() {
        let (clock, mock) = Clock::mock();
        let mut sample = CpuTimeSample::capture(&clock);
        mock.increment(1_000);
        assert_eq!(sample.take_steal_ns(&clock, clock.now_ns(), 1_000), 0);
    }

    #[test]
    fn steal_time_is_at_most_the_measured_time() {
        let clock = Clock::default();
        let mut sample = CpuTimeSample::capture(&clock);
        // A sleeping thread uses no CPU time, like one that was preempted.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let now_ns = clock.now_ns();
        assert_eq!(sample.take_steal_ns(&clock, now_ns, 1_000), 1_000);
    }
}
