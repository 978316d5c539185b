//! Wakers: a thread sleeps until another thread wakes it, and no wake-up is lost.
//!
//! | waker | for a sleeper that waits for |
//! |---|---|
//! | [`park`] | rings only |
//! | `eventfd` | rings, and descriptors in the same `poll(2)`; feature `linux` |
//! | `futex` | shared memory that another process writes; feature `linux` |
//!
//! The first two announce a sleep in a flag. The sleeper sets the flag, *checks for work again*,
//! and only then sleeps. The waking thread publishes work, then reads the flag:
//!
//! ```text
//! sleeper                          waking thread
//!   asleep = true                    publish work (release)
//!   fence(SeqCst)                    fence(SeqCst)
//!   check for work again             if asleep: asleep = false, wake
//!   none? sleep
//! ```
//!
//! The two fences are ordered. If the sleeper's comes first, the waking thread sees the flag.
//! Otherwise the second check sees the published work. While the sleeper runs, a wake-up costs a
//! fence and a load of an unmodified cache line: no lock, no system call.
//!
//! The third needs no flag: the kernel compares a counter with the value that the sleeper read.

#[cfg(any(feature = "linux", loom))]
pub mod eventfd;
#[cfg(all(feature = "linux", not(loom)))]
pub mod futex;
pub mod park;

use crate::atomic::{AtomicBool, Ordering, fence};

/// The announcement of a sleep. Every write is a read-modify-write, so that it reads the last one.
#[derive(Debug)]
struct Announcement(AtomicBool);

impl Announcement {
    /// Creates the announcement of a sleeper that runs.
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Announces a sleep: the caller must check for work again before it sleeps.
    fn set(&self) {
        self.0.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Returns whether the sleep is still announced: no thread has woken the sleeper.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Withdraws the announcement.
    fn clear(&self) {
        self.0.swap(false, Ordering::Relaxed);
    }

    /// Returns whether the caller must wake the sleeper for data published before the call. It
    /// returns true to only one of several concurrent callers.
    #[inline]
    fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}
