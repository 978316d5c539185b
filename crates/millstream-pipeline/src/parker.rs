//! How a thread sleeps until another has something for it, and no wake-up is lost.
//!
//! Every stage has one bell. Whoever changes a ring at one end rings the bell of the stage at the
//! other. The sleeper announces itself, *looks once more*, and only then parks; the ringer
//! publishes, then looks for the announcement:
//!
//! ```text
//! sleeper                          ringer
//!   asleep = true                    push (release)
//!   fence(SeqCst)                    fence(SeqCst)
//!   look at the rings again          if asleep: asleep = false, unpark
//!   nothing? park
//! ```
//!
//! Of the two fences one comes first. If it is the sleeper's, the ringer sees the announcement; if
//! it is the ringer's, the second look sees what was pushed. Every change of the announcement is a
//! read-modify-write, so that all of them stand in one order. While nobody sleeps a ring of the bell
//! is a fence and a load of a line that nobody writes: no lock and no system call.

use std::time::Duration;

use crossbeam_utils::sync::{Parker, Unparker};
use crossbeam_utils::{Backoff, CachePadded};

use crate::sync::{Arc, AtomicBool, Ordering, fence};

/// The bell of one stage; any thread may ring it.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<CachePadded<Shared>>);

#[derive(Debug)]
struct Shared {
    asleep: AtomicBool,
    unparker: Unparker,
}

impl Bell {
    /// Wakes the stage if it sleeps or is about to, for what this thread published before.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        // The swap lets one of several ringers unpark.
        if self.0.asleep.load(Ordering::Relaxed) && self.0.asleep.swap(false, Ordering::Relaxed) {
            self.0.unparker.unpark();
        }
    }
}

/// What one look at the rings found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// What was waited for.
    Done(T),
    /// Something was done; look again at once.
    Progress,
    /// Nothing to do until somebody rings.
    Idle,
    /// The same, but no longer than this.
    IdleFor(Duration),
}

/// A stage's own side of its bell: spins, then yields, then parks.
#[derive(Debug)]
pub(crate) struct Sleeper {
    parker: Parker,
    bell: Bell,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        let parker = Parker::new();
        let shared = Shared { asleep: AtomicBool::new(false), unparker: parker.unparker().clone() };
        Self { parker, bell: Bell(Arc::new(CachePadded::new(shared))) }
    }

    /// The bell that others are to ring.
    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Takes steps until one is done, sleeping in between while they are idle. Before a step says
    /// that it is idle it has rung for everything that it did. Steps may sleep themselves.
    #[inline]
    pub(crate) fn drive<T>(&mut self, mut step: impl FnMut(&mut Self) -> Step<T>) -> T {
        let backoff = Backoff::new();
        loop {
            match step(self) {
                Step::Done(value) => return value,
                Step::Progress => backoff.reset(),
                // A model need not spin: it would only be more of the same.
                Step::Idle | Step::IdleFor(_) if !cfg!(loom) && !backoff.is_completed() => {
                    backoff.snooze();
                }
                Step::Idle | Step::IdleFor(_) => {
                    if let Some(value) = self.look_and_park(&mut step) {
                        return value;
                    }
                    backoff.reset();
                }
            }
        }
    }

    /// The announcement, the second look, and sleep if there is still nothing.
    #[cold]
    fn look_and_park<T>(&mut self, step: &mut impl FnMut(&mut Self) -> Step<T>) -> Option<T> {
        self.bell.0.asleep.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = step(self);
        // Rung meanwhile, or a step that slept took the announcement back: not worth parking for.
        let still = self.bell.0.asleep.load(Ordering::Relaxed);
        match found {
            Step::Idle if still => self.parker.park(),
            Step::IdleFor(time) if still => self.parker.park_timeout(time),
            _ => {}
        }
        self.bell.0.asleep.swap(false, Ordering::Relaxed);
        if let Step::Done(value) = found { Some(value) } else { None }
    }
}
