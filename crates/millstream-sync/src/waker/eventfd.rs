//! Wakes a core's thread from `poll(2)`, in which it may also wait for its ports.
//!
//! Beside work, other threads give a core *commands*: rare requests that end its sleep first.

use std::io;
#[cfg(not(loom))]
use std::os::fd::RawFd;

use super::Announcement;
use crate::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use event::Event;
#[cfg(loom)]
use stand_in::Event;

/// The waker of one core; any thread may wake it.
#[derive(Debug)]
pub struct Waker {
    sleep: Announcement,
    /// Whether a command is pending.
    command_pending: AtomicBool,
    event: Event,
}

impl Waker {
    /// Creates the waker of a core that runs.
    ///
    /// # Errors
    /// Fails if eventfd(2) fails.
    pub fn new() -> io::Result<Self> {
        let event = Event::new()?;
        Ok(Self { sleep: Announcement::new(), command_pending: AtomicBool::new(false), event })
    }

    /// Wakes the core if it sleeps or is about to, for what this thread published before.
    #[inline]
    pub fn wake(&self) {
        if self.sleep.take() {
            self.event.signal();
        }
    }

    /// Marks a command as pending and wakes the core.
    pub fn command(&self) {
        self.command_pending.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether commands are pending; clears the mark.
    #[inline]
    pub fn command_pending(&self) -> bool {
        self.command_pending.load(Ordering::Relaxed)
            && self.command_pending.swap(false, Ordering::Acquire)
    }

    /// Announces a sleep; the caller must check for work again. Returns false with a command
    /// pending.
    pub fn begin_sleep(&self) -> bool {
        self.sleep.set();
        !self.command_pending.load(Ordering::Relaxed)
    }

    /// Ends the announced sleep and clears the event.
    pub fn end_sleep(&self) {
        self.sleep.clear();
        self.event.clear();
    }

    /// Returns the descriptor that becomes readable when the core is woken.
    #[cfg(not(loom))]
    pub fn event(&self) -> RawFd {
        self.event.descriptor()
    }

    /// Sleeps until woken or for `for_ns`, less than 1 s; returns whether it was woken. Call
    /// [`begin_sleep`](Self::begin_sleep) first.
    pub fn wait(&self, for_ns: u64) -> bool {
        self.event.wait(for_ns.min(999_999_999))
    }
}

#[cfg(not(loom))]
mod event {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

    use crate::clock::system::timespec;

    /// An eventfd(2).
    #[derive(Debug)]
    pub(super) struct Event(OwnedFd);

    impl Event {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
        }

        #[cold]
        pub(super) fn signal(&self) {
            // The write cannot block: the sleeper has drained the counter.
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }

        pub(super) fn clear(&self) {
            let _ = rustix::io::read(&self.0, &mut [0; 8]);
        }

        pub(super) fn wait(&self, for_ns: u64) -> bool {
            let mut wanted = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
            // An error counts as a time-out: the caller checks for work next in any case.
            let ready = poll(&mut wanted, Some(&timespec(for_ns)));
            ready.is_ok_and(|ready| ready > 0)
        }

        pub(super) fn descriptor(&self) -> RawFd {
            self.0.as_raw_fd()
        }
    }
}

#[cfg(loom)]
mod stand_in {
    use std::io;

    use loom::sync::{Condvar, Mutex};

    /// Stands in for an eventfd: no wait times out, so a lost wake-up is a deadlock.
    #[derive(Debug)]
    pub(super) struct Event {
        signalled: Mutex<bool>,
        changed: Condvar,
    }

    impl Event {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self { signalled: Mutex::new(false), changed: Condvar::new() })
        }

        pub(super) fn signal(&self) {
            *self.signalled.lock().unwrap() = true;
            self.changed.notify_one();
        }

        pub(super) fn clear(&self) {
            *self.signalled.lock().unwrap() = false;
        }

        pub(super) fn wait(&self, _: u64) -> bool {
            let mut signalled = self.signalled.lock().unwrap();
            while !*signalled {
                signalled = self.changed.wait(signalled).unwrap();
            }
            true
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::{Arc, AtomicU64};
    use std::thread;

    /// A lost wake-up makes a wait time out after a second.
    #[test]
    fn no_wake_up_is_lost() {
        const TURNS: u64 = 20_000;
        let wakers = [(); 2].map(|()| Arc::new(Waker::new().unwrap()));
        let ball = Arc::new(AtomicU64::new(0));
        let player = |side: usize| {
            let (mine, theirs) = (Arc::clone(&wakers[side]), Arc::clone(&wakers[1 - side]));
            let ball = Arc::clone(&ball);
            thread::spawn(move || {
                let mut slept = 0;
                loop {
                    let at = ball.load(Ordering::Acquire);
                    if at >= TURNS {
                        return slept;
                    }
                    if at % 2 == side as u64 {
                        ball.store(at + 1, Ordering::Release);
                        theirs.wake();
                        continue;
                    }
                    if mine.begin_sleep() && ball.load(Ordering::Acquire) == at {
                        slept += 1;
                        mine.wait(999_999_999);
                    }
                    mine.end_sleep();
                }
            })
        };
        let slept: u64 = [player(0), player(1)].map(|of| of.join().unwrap()).iter().sum();
        assert!(slept > 0, "they never slept");
        assert!(ball.load(Ordering::Relaxed) >= TURNS);
    }

    #[test]
    fn a_command_is_seen_once_and_prevents_a_sleep() {
        let waker = Waker::new().unwrap();
        assert!(waker.begin_sleep());
        waker.command();
        assert!(!waker.begin_sleep());
        assert!(waker.command_pending());
        assert!(!waker.command_pending());
        assert!(waker.begin_sleep());
    }
}
