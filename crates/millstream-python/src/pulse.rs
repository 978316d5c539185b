//! Looking up from a long run: signals, and whoever wants to know how far it is.
//!
//! A run is detached from the interpreter. Every so many decisions it looks at the clock, and every
//! 50 ms it attaches, handles Ctrl-C and calls back. Other threads that keep the interpreter busy
//! may make it wait some ms for that, so more often would slow it down.

use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Between two looks at the interpreter.
const INTERVAL: Duration = Duration::from_millis(50);

/// Decisions between two looks at the clock.
const STRIDE: u64 = 4096;

/// Looks up now and then.
pub(crate) struct Pulse {
    decisions: u64,
    last: Instant,
    progress: Option<Py<PyAny>>,
    /// What Ctrl-C or the callback raised: the run is to end.
    pub(crate) raised: Option<PyErr>,
}

impl Pulse {
    /// `progress` is called with the simulated time, ns.
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { decisions: 0, last: Instant::now(), progress, raised: None }
    }

    /// One more decision, at `now_ns`. Whether the run is to end.
    #[inline]
    pub(crate) fn beat(&mut self, now_ns: u64) -> bool {
        self.decisions += 1;
        self.decisions.is_multiple_of(STRIDE) && self.look_up(now_ns)
    }

    /// Many more decisions, until `now_ns`. Whether the run is to end.
    #[cold]
    pub(crate) fn look_up(&mut self, now_ns: u64) -> bool {
        if self.last.elapsed() >= INTERVAL {
            self.raised = Python::attach(|py| self.attached(py, now_ns)).err();
            self.last = Instant::now();
        }
        self.raised.is_some()
    }

    fn attached(&self, py: Python<'_>, now_ns: u64) -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = &self.progress {
            progress.call1(py, (now_ns,))?;
        }
        Ok(())
    }
}
