//! Requests of other threads to a running router: stop, reload, report, kernel changes.
//!
//! The router reads one flag every few dozen steps. It takes a lock only if the flag is set.

use millstream_scenario::RouterScenario;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::PortError;
use crate::ids::CoreId;
use crate::live::core::part_of_core;
use crate::live::extension::Extensions;
use crate::live::netlink::Change;
use crate::live::report::Report;
use crate::net::filter::Filters;

/// A changed file with its extensions and filters, loaded while the router forwards.
pub(super) struct LoadedScenario {
    pub(super) scenario: RouterScenario,
    /// The extensions and filters of each core.
    pub(super) loaded: Vec<(Extensions, Filters)>,
}

impl LoadedScenario {
    pub(super) fn load(scenario: RouterScenario) -> Result<Self, PortError> {
        let load = |core| {
            let part = part_of_core(&scenario, core);
            Ok((Extensions::load(&part)?, Filters::load(&part)?))
        };
        let loaded = (0..scenario.cores).map(CoreId).map(load).collect::<Result<_, PortError>>()?;
        Ok(Self { scenario, loaded })
    }
}

#[derive(Default)]
struct Requests {
    /// The number of report requests so far.
    requested: u64,
    /// The number of report requests that the last report answers.
    answered: u64,
    /// Whether a pending request needs counters of one instant.
    consistent: bool,
    report: Option<Report>,
    reload: Option<Box<LoadedScenario>>,
    /// Changes of the kernel's tables, the oldest first.
    changes: VecDeque<Change>,
}

/// A handle to stop, reload and query a running router from other threads.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    request_pending: AtomicBool,
    requests: Mutex<Requests>,
    answered: Condvar,
}

impl Control {
    /// Stops the router: it stops receiving, drains and ends.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Requests a reload of `scenario`; the last request wins. Loads extensions and compiles
    /// filters here, while the router forwards.
    ///
    /// # Errors
    /// Fails if an extension cannot be loaded, or a filter is invalid.
    pub fn reload(&self, scenario: RouterScenario) -> Result<(), PortError> {
        let changed = LoadedScenario::load(scenario)?;
        self.requests().reload = Some(Box::new(changed));
        self.request_pending.store(true, Ordering::Release);
        Ok(())
    }

    /// Requests a report and waits for it. Returns `None` if the router does not answer within
    /// `timeout`, for example after its end.
    #[must_use]
    pub fn report(&self, timeout: Duration) -> Option<Report> {
        let mut report = self.request_report(timeout, true)?;
        report.measure_delays();
        Some(report)
    }

    /// Requests a report like [`report`](Self::report), without pausing the cores for it: counters
    /// of different cores may be some microseconds apart, and `unaccounted` is meaningless. `delay`
    /// is not computed.
    pub(super) fn sample(&self, timeout: Duration) -> Option<Report> {
        self.request_report(timeout, false)
    }

    fn request_report(&self, timeout: Duration, consistent: bool) -> Option<Report> {
        let until = Instant::now() + timeout;
        let mut requests = self.requests();
        requests.requested += 1;
        requests.consistent |= consistent;
        let ours = requests.requested;
        self.request_pending.store(true, Ordering::Release);
        while requests.answered < ours {
            let left = until.checked_duration_since(Instant::now())?;
            let waited = self.answered.wait_timeout(requests, left);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        requests.report.clone()
    }

    /// Queues changes of the kernel's tables for the router.
    pub(super) fn kernel_changed(&self, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.requests().changes.extend(changes);
            self.request_pending.store(true, Ordering::Release);
        }
    }

    /// Returns the number of changes that have not been taken yet.
    pub(super) fn changes_pending(&self) -> usize {
        self.requests().changes.len()
    }

    /// Takes the oldest changes, at most `most` of them. If more remain, it sets the flag again.
    pub(super) fn take_changes(&self, most: usize) -> Vec<Change> {
        let mut requests = self.requests();
        let count = requests.changes.len().min(most);
        let taken = requests.changes.drain(..count).collect();
        if !requests.changes.is_empty() {
            self.request_pending.store(true, Ordering::Release);
        }
        taken
    }

    /// Returns whether the router was told to stop.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns whether a request was made since the last call.
    pub(super) fn request_pending(&self) -> bool {
        self.request_pending.load(Ordering::Relaxed)
            && self.request_pending.swap(false, Ordering::Acquire)
    }

    /// Takes the pending reload, if any.
    pub(super) fn take_reload(&self) -> Option<Box<LoadedScenario>> {
        self.requests().reload.take()
    }

    /// Returns whether a report was requested, and whether it needs counters of one instant.
    pub(super) fn report_requested(&self) -> Option<bool> {
        let requests = self.requests();
        (requests.answered < requests.requested).then_some(requests.consistent)
    }

    /// Sends a report to every requester; `consistent`: its counters are those of one instant.
    /// Requests that came in the meantime and need that wait for the next report.
    pub(super) fn answer(&self, report: Report, consistent: bool) {
        let mut requests = self.requests();
        if requests.answered < requests.requested && consistent >= requests.consistent {
            requests.report = Some(report);
            requests.answered = requests.requested;
            requests.consistent = false;
            self.answered.notify_all();
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
