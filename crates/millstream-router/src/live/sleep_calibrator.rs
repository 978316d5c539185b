//! Shortens sleeps by the measured wake-up delay, so that they end in time.
//!
//! Linux wakes a thread some microseconds late; in a virtual machine, tens of microseconds. The
//! calibrator learns the delay and shortens sleeps by it; the thread spins for the rest.

/// The shortest sleep that is requested, ns.
const SHORTEST_NS: u64 = 5_000;
/// The longest wake-up delay that is learned, ns. A longer one means that the thread was preempted.
const LATEST_NS: u64 = 40_000;

/// An estimate of how late sleeps end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SleepCalibrator {
    late_ns: u64,
}

impl Default for SleepCalibrator {
    fn default() -> Self {
        Self { late_ns: 10_000 }
    }
}

impl SleepCalibrator {
    /// Returns the length of a sleep that ends in `for_ns`, or soon after if it `may_be_late`, ns.
    /// `None` means that the thread must spin.
    pub(crate) fn length_ns(&mut self, for_ns: u64, may_be_late: bool) -> Option<u64> {
        let in_time_ns = for_ns.saturating_sub(self.late_ns);
        let ask_ns = if may_be_late { in_time_ns.max(SHORTEST_NS) } else { in_time_ns };
        let ask_ns = Some(ask_ns).filter(|ask_ns| (SHORTEST_NS..=for_ns).contains(ask_ns));
        if ask_ns.is_none() {
            // Decays the estimate while sleeping is skipped; otherwise it never recovers.
            self.late_ns = self.late_ns.saturating_sub(1);
        }
        ask_ns
    }

    /// Records a sleep. A longer delay weighs 1/4, a shorter one 1/16: waking early is safe.
    pub(crate) fn record_sleep(&mut self, asked_ns: u64, took_ns: u64) {
        let late_ns = took_ns.saturating_sub(asked_ns).min(LATEST_NS);
        self.late_ns = if late_ns > self.late_ns {
            self.late_ns + (late_ns - self.late_ns).div_ceil(4)
        } else {
            self.late_ns - (self.late_ns - late_ns) / 16
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_end_in_time_once_the_delay_is_learned() {
        for late_ns in [0, 3_000, 28_000, LATEST_NS] {
            let mut sleep_calibrator = SleepCalibrator::default();
            for _ in 0..200 {
                let ask_ns = sleep_calibrator.length_ns(50_000, false).unwrap();
                sleep_calibrator.record_sleep(ask_ns, ask_ns + late_ns);
            }
            let ends_ns = sleep_calibrator.length_ns(50_000, false).unwrap() + late_ns;
            assert!((49_900..=50_000).contains(&ends_ns), "{late_ns}: {ends_ns}");
        }
    }

    #[test]
    fn preemption_is_not_learned_as_a_late_wake_up() {
        let mut sleep_calibrator = SleepCalibrator::default();
        for _ in 0..100 {
            sleep_calibrator.record_sleep(10_000, 5_000_000);
        }
        assert_eq!(sleep_calibrator.length_ns(50_000, false), Some(50_000 - LATEST_NS));
    }

    #[test]
    fn a_sleep_that_may_end_late_has_the_shortest_length_at_least() {
        let mut sleep_calibrator = SleepCalibrator::default();
        sleep_calibrator.record_sleep(10_000, 40_000);
        assert_eq!(sleep_calibrator.length_ns(20_000, true), Some(SHORTEST_NS));
        assert_eq!(
            sleep_calibrator.length_ns(60_000, true),
            sleep_calibrator.length_ns(60_000, false)
        );
        assert_eq!(sleep_calibrator.length_ns(SHORTEST_NS - 1, true), None, "too short to sleep");
    }

    #[test]
    fn the_estimate_decays_while_sleeps_are_skipped() {
        let mut sleep_calibrator = SleepCalibrator::default();
        sleep_calibrator.record_sleep(10_000, u64::MAX);
        let tries = (1..100_000).find(|_| sleep_calibrator.length_ns(15_000, false).is_some());
        assert!(tries.is_some_and(|tries| tries > 1_000), "{tries:?}");
    }
}
