//! The scheduling class of session control while it receives a live stream.
//!
//! On a loaded host an ordinary thread waits milliseconds for a core, and with it every client of
//! the stream. So session control takes the class of the data plane while a stream is published. It
//! also answers requests in that class. A budget bounds what a flood of them takes from other
//! programs.

use millstream_scenario::Placement;

use crate::data_plane::placement::{enter_real_time_class, leave_real_time_class};

/// The divisor of the elapsed time that gives the part in the class: a tenth.
const PART: u64 = 10;

/// The most time in the class without a pause, ns; the last request may exceed it.
const BURST_NS: u64 = 10_000_000;

/// The time in the class that exceeds its part so far.
#[derive(Debug, Default)]
struct Budget {
    debt_ns: u64,
    /// When `debt_ns` was computed, ns.
    at_ns: u64,
}

impl Budget {
    /// Accounts `used_ns` in the class until `now_ns`. Returns whether the thread may have the
    /// class next. After a burst it may not until no debt is left, since each change takes system
    /// calls.
    fn spend(&mut self, has_class: bool, used_ns: u64, now_ns: u64) -> bool {
        let repaid_ns = now_ns.saturating_sub(self.at_ns) / PART;
        self.at_ns = now_ns;
        self.debt_ns = self.debt_ns.saturating_add(used_ns).saturating_sub(repaid_ns);
        if has_class { self.debt_ns < BURST_NS } else { self.debt_ns == 0 }
    }
}

/// The class of session control.
#[derive(Debug)]
pub(super) struct ReceptionClass {
    /// Whether the data plane has the class, and the system permits it.
    available: bool,
    held: bool,
    budget: Budget,
    /// Whether a stream is published.
    pub(super) wanted: bool,
}

impl ReceptionClass {
    /// Creates the state of a thread that has the ordinary class.
    pub(super) fn new(placement: Placement, has_media_thread: bool) -> Self {
        // This thread and the media thread leave a core to the data plane: no priority is higher.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let available = placement != Placement::Host && cores > 1 + usize::from(has_media_thread);
        Self { available, held: false, budget: Budget::default(), wanted: false }
    }

    /// Ends a part of the work that began at `began_ns`, and changes the class if necessary.
    pub(super) fn end_turn(&mut self, began_ns: u64, now_ns: u64) {
        if !self.available {
            return;
        }
        let used_ns = if self.held { now_ns.saturating_sub(began_ns) } else { 0 };
        let may_have = self.budget.spend(self.held, used_ns, now_ns);
        let wants = self.wanted && may_have;
        if wants == self.held {
            return;
        }
        let changed = if wants { enter_real_time_class() } else { leave_real_time_class() };
        match changed {
            Ok(()) => self.held = wants,
            Err(error) if wants => {
                eprintln!("live streams: no real-time priority: {error}");
                self.available = false;
            }
            // It tries again after the next turn.
            Err(_) => {}
        }
    }

    /// Leaves the class.
    pub(super) fn leave(&mut self) {
        self.held = self.held && leave_real_time_class().is_err();
    }
}

impl Drop for ReceptionClass {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flood_gets_a_tenth_of_the_time_in_the_class() {
        let (mut budget, mut has_class, mut used_ns) = (Budget::default(), true, 0);
        let turn_ns = 3 * MS;
        for turn in 1..=10_000 {
            let spent_ns = if has_class { turn_ns } else { 0 };
            used_ns += spent_ns;
            has_class = budget.spend(has_class, spent_ns, turn * turn_ns);
        }
        let part = used_ns / MS;
        assert!((2_800..=3_000 + (BURST_NS + turn_ns) / MS).contains(&part), "{part} of 30,000 ms");
    }

    #[test]
    fn a_long_turn_is_repaid_before_the_next() {
        let mut budget = Budget::default();
        assert!(!budget.spend(true, 50 * MS, 50 * MS));
        assert!(!budget.spend(false, 0, 499 * MS));
        assert!(budget.spend(false, 0, 501 * MS));
    }

    #[test]
    fn frames_stay_in_the_class() {
        let mut budget = Budget::default();
        // Each 40 ms a key frame takes 3 ms.
        assert!((1..1_000).all(|frame| budget.spend(true, 3 * MS, frame * 40 * MS)));
    }
}
