//! The limit on restarts of a process that ends unexpectedly.

use std::time::{Duration, Instant};

/// The shortest time between two starts; bounds the restart rate.
const MIN_RESTART_INTERVAL: Duration = Duration::from_millis(50);

/// A process that ends sooner counts as failed; [`MAX_EARLY_EXITS`] consecutive failures end the
/// server.
pub(super) const MIN_UPTIME: Duration = Duration::from_secs(1);
pub(super) const MAX_EARLY_EXITS: u32 = 10;

/// The starts and early exits of one supervised process.
#[derive(Debug)]
pub(super) struct RestartLimit {
    started: Instant,
    early_exits: u32,
}

impl RestartLimit {
    /// Creates the limit for a process that starts now.
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), early_exits: 0 }
    }

    /// Records the end of the process. Returns whether it may start again.
    pub(super) fn record_exit(&mut self) -> bool {
        let early = self.started.elapsed() < MIN_UPTIME;
        self.early_exits = if early { self.early_exits + 1 } else { 0 };
        self.early_exits < MAX_EARLY_EXITS
    }

    /// Sleeps until the process may start again, calls `start` and records its success.
    ///
    /// # Errors
    /// Returns the error of `start`.
    pub(super) fn restart<T, E>(&mut self, start: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        std::thread::sleep(MIN_RESTART_INTERVAL.saturating_sub(self.started.elapsed()));
        let started = start()?;
        self.started = Instant::now();
        Ok(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_consecutive_early_exits_end_the_server() {
        let mut limit = RestartLimit::new();
        for _ in 1..MAX_EARLY_EXITS {
            assert!(limit.record_exit());
        }
        let mut late = RestartLimit { started: Instant::now() - MIN_UPTIME, ..limit };
        assert!(late.record_exit());
        late.started = Instant::now();
        for _ in 1..MAX_EARLY_EXITS {
            assert!(late.record_exit());
        }
        assert!(!late.record_exit());
    }
}
