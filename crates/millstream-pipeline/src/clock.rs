//! The time source of a pipeline whose packets arrive as they are taken.

use std::time::Instant;

/// A monotonic time source that the scheduler reads once an iteration.
///
/// A closure that returns nanoseconds is a clock.
pub trait Clock {
    /// Returns nanoseconds since an arbitrary start. A smaller value than the last is taken as the
    /// last.
    fn now_ns(&mut self) -> u64;
}

impl<F: FnMut() -> u64> Clock for F {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        self()
    }
}

/// The operating system's monotonic clock, from 0 at its creation.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        // 584 years.
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
