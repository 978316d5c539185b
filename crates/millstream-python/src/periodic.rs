//! Periodic work during a long run: signals and the progress callback.
//!
//! A run is detached from the interpreter. It reads the clock every 4,096 decisions. Every 50 ms it
//! attaches, handles Ctrl-C and calls the callback. Other threads may delay the attachment by
//! milliseconds, so a shorter interval would slow the run.

use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Interval between attachments to the interpreter.
const INTERVAL: Duration = Duration::from_millis(50);

/// Decisions between two reads of the clock.
const DECISIONS_PER_CHECK: u64 = 4096;

/// Attaches to the interpreter periodically.
pub(crate) struct PeriodicTask {
    decisions: u64,
    last: Instant,
    progress: Option<Py<PyAny>>,
    /// The exception of Ctrl-C or the callback, which ends the run.
    pub(crate) raised: Option<PyErr>,
}

impl PeriodicTask {
    /// Creates the periodic work; `progress` is called with the simulated time, ns.
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { decisions: 0, last: Instant::now(), progress, raised: None }
    }

    /// Counts a decision at `now_ns`. Returns whether the run must end.
    #[inline]
    pub(crate) fn count_decision(&mut self, now_ns: u64) -> bool {
        self.decisions += 1;
        self.decisions.is_multiple_of(DECISIONS_PER_CHECK) && self.poll(now_ns)
    }

    /// Counts many decisions up to `now_ns`. Returns whether the run must end.
    #[cold]
    pub(crate) fn poll(&mut self, now_ns: u64) -> bool {
        if self.last.elapsed() >= INTERVAL {
            self.raised = Python::attach(|py| self.run_attached(py, now_ns)).err();
            self.last = Instant::now();
        }
        self.raised.is_some()
    }

    fn run_attached(&self, py: Python<'_>, now_ns: u64) -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = &self.progress {
            progress.call1(py, (now_ns,))?;
        }
        Ok(())
    }
}
