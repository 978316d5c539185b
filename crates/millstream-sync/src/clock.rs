//! Clocks, all in integer nanoseconds.
//!
//! | clock | when |
//! |---|---|
//! | [`Monotonic`] | one thread's time, from 0, on any system |
//! | `system` | times that processes exchange, CPU times; feature `linux` |
//! | `tsc` | a time for every packet: reads a register of the CPU; feature `tsc` |

#[cfg(feature = "linux")]
pub mod system;
#[cfg(feature = "tsc")]
pub mod tsc;

use std::time::Instant;

/// A monotonic time source. A closure that returns nanoseconds is a clock.
pub trait Clock {
    /// Returns nanoseconds since an arbitrary start. A value below the previous one counts as the
    /// previous one.
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
        // 64 bits of ns last 584 years.
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
