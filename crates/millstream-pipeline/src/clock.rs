//! What time it is, for a pipeline whose packets arrive now.

use std::time::Instant;

/// Tells the scheduler the time, once a turn.
///
/// A closure that returns nanoseconds is a clock.
pub trait Clock {
    /// Nanoseconds since a start that the clock chooses. What would go backwards is taken as
    /// standing still.
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
