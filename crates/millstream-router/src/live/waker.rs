//! Wake-ups of a core's thread by its ports and by other cores.
//!
//! The sleeper announces itself, checks for work again, and only then polls. The waking thread
//! publishes work, then checks the announcement. One of the two fences comes first, so at least one
//! side sees the other. Waking a running core costs a fence and a load.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The waker of one core; any thread may wake it.
#[derive(Debug)]
pub(crate) struct Waker {
    asleep: AtomicBool,
    /// Whether an order is pending.
    ordered: AtomicBool,
    event: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { asleep: AtomicBool::new(false), ordered: AtomicBool::new(false), event })
    }

    /// Wakes the core if it sleeps or is about to, for what this thread published before.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.signal();
        }
    }

    #[cold]
    fn signal(&self) {
        // The write cannot block: the sleeper has drained the counter.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Marks an order as pending and wakes the core.
    pub(crate) fn order(&self) {
        self.ordered.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether orders are pending; clears the mark.
    #[inline]
    pub(crate) fn ordered(&self) -> bool {
        self.ordered.load(Ordering::Relaxed) && self.ordered.swap(false, Ordering::Acquire)
    }

    /// Announces a sleep; the caller must check for work again. Returns false with an order
    /// pending.
    pub(crate) fn announce(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.ordered.load(Ordering::Relaxed)
    }

    /// Ends the announced sleep and clears the event.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Returns the descriptor that becomes readable when the core is woken.
    pub(crate) fn event(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Sleeps until woken or for `for_ns`, less than 1 s; returns whether it was woken. Call
    /// [`announce`](Self::announce) first.
    pub(crate) fn wait(&self, for_ns: u64) -> bool {
        let mut wanted = [PollFd::from_borrowed_fd(self.event.as_fd(), PollFlags::IN)];
        let for_ns = for_ns.min(999_999_999).cast_signed();
        // An error counts as a time-out: the caller checks for work next in any case.
        let ready = poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: for_ns }));
        ready.is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    /// A lost wake-up makes a wait time out after a second.
    #[test]
    fn no_wake_is_lost() {
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
                    if mine.announce() && ball.load(Ordering::Acquire) == at {
                        slept += 1;
                        mine.wait(999_999_999);
                    }
                    mine.awake();
                }
            })
        };
        let slept: u64 = [player(0), player(1)].map(|of| of.join().unwrap()).iter().sum();
        assert!(slept > 0, "they never slept");
        assert!(ball.load(Ordering::Relaxed) >= TURNS);
    }

    #[test]
    fn an_order_is_seen_once_and_prevents_a_sleep() {
        let waker = Waker::new().unwrap();
        assert!(waker.announce());
        waker.order();
        assert!(!waker.announce());
        assert!(waker.ordered());
        assert!(!waker.ordered());
        assert!(waker.announce());
    }
}
