//! Parks a stage's thread until another stage wakes it; no wake-up is lost.
//!
//! Every stage has one waker. A stage that changes a ring wakes the stage at the ring's other end.
//! The parking stage sets a flag, *checks its rings again*, and only then parks. The waking stage
//! publishes, then reads the flag:
//!
//! ```text
//! parking stage                    waking stage
//!   asleep = true                    push (release)
//!   fence(SeqCst)                    fence(SeqCst)
//!   check the rings again            if asleep: asleep = false, unpark
//!   empty? park
//! ```
//!
//! The two fences are ordered. If the parking stage's comes first, the waking stage sees the flag.
//! Otherwise the second check sees the pushed value.
//! Every write of the flag is a read-modify-write, so that the writes have one total order.
//! While the stage is awake, `wake` costs a fence and a load of an unmodified cache line: no lock,
//! no system call.

use std::time::Duration;

use crossbeam_utils::sync::{self as thread, Unparker};
use crossbeam_utils::{Backoff, CachePadded};

use crate::sync::{Arc, AtomicBool, Ordering, fence};

/// Wakes one stage; any thread may hold a clone.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<CachePadded<Shared>>);

#[derive(Debug)]
struct Shared {
    asleep: AtomicBool,
    unparker: Unparker,
}

impl Waker {
    /// Wakes the stage if it is parked or about to park. The stage sees everything that this thread
    /// published before the call.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        // The swap lets one of several concurrent wakers unpark.
        if self.0.asleep.load(Ordering::Relaxed) && self.0.asleep.swap(false, Ordering::Relaxed) {
            self.0.unparker.unpark();
        }
    }
}

/// The result of one check of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// The awaited value.
    Done(T),
    /// Some work was done; check again at once.
    Progress,
    /// No work until another stage calls [`Waker::wake`].
    Idle,
    /// As [`Idle`](Self::Idle), but for at most this duration.
    IdleFor(Duration),
}

/// Waits on behalf of one stage: spins, then yields, then parks.
#[derive(Debug)]
pub(crate) struct Parker {
    parker: thread::Parker,
    waker: Waker,
}

impl Parker {
    pub(crate) fn new() -> Self {
        let parker = thread::Parker::new();
        let shared = Shared { asleep: AtomicBool::new(false), unparker: parker.unparker().clone() };
        Self { parker, waker: Waker(Arc::new(CachePadded::new(shared))) }
    }

    /// The waker of this stage, for its neighbours.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Calls `step` until it returns [`Step::Done`], and waits while it returns `Idle`. Before a
    /// step returns `Idle` it must have flushed its wake-ups. Steps may call `drive` themselves.
    #[inline]
    pub(crate) fn drive<T>(&mut self, mut step: impl FnMut(&mut Self) -> Step<T>) -> T {
        let backoff = Backoff::new();
        loop {
            match step(self) {
                Step::Done(value) => return value,
                Step::Progress => backoff.reset(),
                // Spinning under loom would only multiply equivalent interleavings.
                Step::Idle | Step::IdleFor(_) if !cfg!(loom) && !backoff.is_completed() => {
                    backoff.snooze();
                }
                Step::Idle | Step::IdleFor(_) => {
                    if let Some(value) = self.check_and_park(&mut step) {
                        return value;
                    }
                    backoff.reset();
                }
            }
        }
    }

    /// Sets the flag, checks again, and parks if there is still no work.
    #[cold]
    fn check_and_park<T>(&mut self, step: &mut impl FnMut(&mut Self) -> Step<T>) -> Option<T> {
        self.waker.0.asleep.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = step(self);
        // Do not park if another stage has woken this one, or a nested `drive` has cleared the
        // flag.
        let asleep = self.waker.0.asleep.load(Ordering::Relaxed);
        match found {
            Step::Idle if asleep => self.parker.park(),
            Step::IdleFor(time) if asleep => self.parker.park_timeout(time),
            _ => {}
        }
        self.waker.0.asleep.swap(false, Ordering::Relaxed);
        if let Step::Done(value) = found { Some(value) } else { None }
    }
}
