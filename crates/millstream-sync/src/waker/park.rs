//! Parks a stage's thread until another stage wakes it.
//!
//! Every stage has one waker. A stage that changes a ring wakes the stage at the ring's other end.

use std::time::Duration;

use crossbeam_utils::sync::{self as thread, Unparker};
use crossbeam_utils::{Backoff, CachePadded};

use super::Announcement;
use crate::atomic::Arc;

/// Wakes one stage; any thread may hold a clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<CachePadded<Shared>>);

#[derive(Debug)]
struct Shared {
    sleep: Announcement,
    unparker: Unparker,
}

impl Waker {
    /// Wakes the stage if it is parked or about to park. The stage sees all values that this thread
    /// published before the call.
    #[inline]
    pub fn wake(&self) {
        if self.0.sleep.take() {
            self.0.unparker.unpark();
        }
    }
}

/// The result of one check of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The awaited value.
    Done(T),
    /// Some work was done; check again at once.
    Progress,
    /// No work until another stage calls [`Waker::wake`].
    Idle,
    /// Like [`Idle`](Self::Idle), but for at most this duration.
    IdleFor(Duration),
}

/// Waits on behalf of one stage: spins, then yields, then parks.
#[derive(Debug)]
pub struct Parker {
    parker: thread::Parker,
    waker: Waker,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// Creates the parker of a stage that is awake.
    #[must_use]
    pub fn new() -> Self {
        let parker = thread::Parker::new();
        let shared = Shared { sleep: Announcement::new(), unparker: parker.unparker().clone() };
        Self { parker, waker: Waker(Arc::new(CachePadded::new(shared))) }
    }

    /// Returns the waker of this stage, for its neighbours.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Calls `step` until it returns [`Step::Done`], and waits while it returns `Idle`. Before a
    /// step returns `Idle` it must have flushed its wake-ups. Steps may call `drive` themselves.
    #[inline]
    pub fn drive<T>(&mut self, mut step: impl FnMut(&mut Self) -> Step<T>) -> T {
        let backoff = Backoff::new();
        loop {
            match step(self) {
                Step::Done(value) => return value,
                Step::Progress => backoff.reset(),
                // Under loom, spinning only multiplies equivalent interleavings.
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

    /// Announces a sleep, checks again, and parks if there is still no work.
    #[cold]
    fn check_and_park<T>(&mut self, step: &mut impl FnMut(&mut Self) -> Step<T>) -> Option<T> {
        self.waker.0.sleep.set();
        let found = step(self);
        // Do not park if another stage has woken this one, or a nested `drive` has withdrawn the
        // announcement.
        let asleep = self.waker.0.sleep.is_set();
        match found {
            Step::Idle if asleep => self.parker.park(),
            Step::IdleFor(time) if asleep => self.parker.park_timeout(time),
            _ => {}
        }
        self.waker.0.sleep.clear();
        if let Step::Done(value) = found { Some(value) } else { None }
    }
}
