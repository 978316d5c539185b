//! What other threads ask of a router that runs.
//!
//! The router looks at one flag every few dozen runs; only if it is raised does it take a lock.

use millstream_scenario::RouterScenario;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::PortError;
use crate::live::core::part;
use crate::live::extension::Extensions;
use crate::live::netlink::Change;
use crate::live::report::Report;
use crate::net::filter::Filters;

/// A changed file, and what was made of it while the router forwards.
pub(super) struct Changed {
    pub(super) scenario: RouterScenario,
    /// For each core.
    pub(super) loaded: Vec<(Extensions, Filters)>,
}

impl Changed {
    pub(super) fn load(scenario: RouterScenario) -> Result<Self, PortError> {
        let load = |core| {
            let part = part(&scenario, core);
            Ok((Extensions::load(&part)?, Filters::load(&part)?))
        };
        let loaded = (0..scenario.cores).map(load).collect::<Result<_, PortError>>()?;
        Ok(Self { scenario, loaded })
    }
}

#[derive(Default)]
struct Requests {
    /// How many reports were asked for, and which of them the last one answers.
    asked: u64,
    answered: u64,
    report: Option<Report>,
    reload: Option<Box<Changed>>,
    /// Of the kernel's tables, the oldest first.
    changes: VecDeque<Change>,
}

/// Orders for a router, and its answers.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    attention: AtomicBool,
    requests: Mutex<Requests>,
    answered: Condvar,
}

impl Control {
    /// The router is to stop receiving, drain and end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Requests a reload of `scenario`; the last request wins. Loads extensions and compiles
    /// filters here, while the router forwards.
    ///
    /// # Errors
    /// If an extension cannot be loaded, or a filter is wrong.
    pub fn reload(&self, scenario: RouterScenario) -> Result<(), PortError> {
        let changed = Changed::load(scenario)?;
        self.requests().reload = Some(Box::new(changed));
        self.attention.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns a report; `None` without an answer within `patience`, as after the end.
    #[must_use]
    pub fn report(&self, patience: Duration) -> Option<Report> {
        let until = Instant::now() + patience;
        let mut requests = self.requests();
        requests.asked += 1;
        let ours = requests.asked;
        self.attention.store(true, Ordering::Release);
        while requests.answered < ours {
            let left = until.checked_duration_since(Instant::now())?;
            let waited = self.answered.wait_timeout(requests, left);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        requests.report.clone()
    }

    /// The kernel's tables have changed so.
    pub(super) fn kernel_changed(&self, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.requests().changes.extend(changes);
            self.attention.store(true, Ordering::Release);
        }
    }

    /// Changes that have not been taken yet.
    pub(super) fn changes_pending(&self) -> usize {
        self.requests().changes.len()
    }

    /// The oldest changes, `most` of them; if there are more, attention is asked for again.
    pub(super) fn take_changes(&self, most: usize) -> Vec<Change> {
        let mut requests = self.requests();
        let count = requests.changes.len().min(most);
        let taken = requests.changes.drain(..count).collect();
        if !requests.changes.is_empty() {
            self.attention.store(true, Ordering::Release);
        }
        taken
    }

    /// Whether the router was told to stop.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether anything was asked since this was called last.
    pub(super) fn attention(&self) -> bool {
        self.attention.load(Ordering::Relaxed) && self.attention.swap(false, Ordering::Acquire)
    }

    /// The order to reload, once.
    pub(super) fn take_reload(&self) -> Option<Box<Changed>> {
        self.requests().reload.take()
    }

    /// Returns whether a report was requested.
    pub(super) fn is_asked(&self) -> bool {
        let requests = self.requests();
        requests.answered < requests.asked
    }

    /// Sends a report to every requester.
    pub(super) fn answer(&self, report: impl FnOnce() -> Report) {
        let mut requests = self.requests();
        if requests.answered < requests.asked {
            requests.report = Some(report());
            requests.answered = requests.asked;
            self.answered.notify_all();
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
