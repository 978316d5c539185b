//! Wakes threads of other processes by a counter in shared memory.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::clock::system::timespec;

/// A counter of wake-ups, in memory that the sleepers map, too. Any thread may wake them.
#[derive(Clone, Copy, Debug)]
pub struct Waker {
    wakes: &'static AtomicU32,
}

impl Waker {
    /// Creates a waker; its sleepers wait for a change of `wakes`.
    #[must_use]
    pub fn new(wakes: &'static AtomicU32) -> Self {
        Self { wakes }
    }

    /// Wakes all sleepers, for what this thread published before.
    pub fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::Release);
        // It is no error if no thread sleeps.
        let _ = futex::wake(self.wakes, futex::Flags::empty(), i32::MAX.unsigned_abs());
    }

    /// Returns the number of wake-ups, for a later [`wait`](Self::wait). Read it before the check
    /// for work.
    #[must_use]
    pub fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::Acquire)
    }

    /// Sleeps until the number of wake-ups differs from `wakes`, for at most `for_ns`.
    pub fn wait(&self, wakes: u32, for_ns: u64) {
        let time = timespec(for_ns);
        let _ = futex::wait(self.wakes, futex::Flags::empty(), wakes, Some(&time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    fn waker() -> Waker {
        Waker::new(Box::leak(Box::new(AtomicU32::new(u32::MAX))))
    }

    #[test]
    fn a_wake_before_the_wait_ends_it_at_once() {
        let waker = waker();
        let wakes = waker.wakes();
        waker.wake();
        let begun = Instant::now();
        waker.wait(wakes, 60_000_000_000);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_wake_ends_the_wait_of_every_sleeper() {
        let waker = waker();
        let begun = Instant::now();
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let wakes = u32::MAX;
                    while waker.wakes() == wakes {
                        waker.wait(wakes, 60_000_000_000);
                    }
                });
            }
            waker.wake();
        });
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_wait_ends_after_its_time() {
        let waker = waker();
        waker.wait(waker.wakes(), 1_000_000);
    }
}
