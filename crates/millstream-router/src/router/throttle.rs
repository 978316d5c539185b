//! Throttles device processes: estimates the packets that wait on a device, and sets the sleep.
//!
//! The receive queue is on the device, where the scheduler cannot see it. The [`Estimator`]
//! averages the packets found per run, with weights. The [`Throttle`] suspends the process after
//! each run, never longer than the cap. The sleep grows while the estimate is below its target
//! range, and shrinks while it is above. That makes batches larger and returns unused cycles.
//! Source: Router paper, sections 3.3 and 3.4.

/// The number of fraction bits of the estimate.
const FRACTION_BITS: u32 = 8;
/// The weight of the newest observation: 1/2^2.
const WEIGHT_SHIFT: u32 = 2;
/// The smallest increase of the sleep, ns; a shorter sleep shrinks to 0.
const STEP_NS: u64 = 1_000;

/// Estimates the length of a queue that is seen only when it is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimator {
    /// Packets × 2^[`FRACTION_BITS`].
    average: u64,
}

impl Estimator {
    /// Records that a run found `packets` packets.
    #[inline]
    pub fn observe(&mut self, packets: u32) {
        let found = u64::from(packets) << FRACTION_BITS;
        // Rounds up in both directions: the average must reach a constant observation.
        self.average = if found > self.average {
            self.average + (found - self.average).div_ceil(1 << WEIGHT_SHIFT)
        } else {
            self.average - (self.average - found).div_ceil(1 << WEIGHT_SHIFT)
        };
    }

    /// Returns the estimate, in whole packets.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.average >> FRACTION_BITS
    }
}

/// The target of a throttle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottlePlan {
    /// x: the lower end of the target range, packets per run. Below it, the sleep grows.
    pub least: u32,
    /// y: the upper end of the target range, packets per run. Above it, the sleep shrinks.
    pub most: u32,
    /// The longest sleep, ns.
    pub cap_ns: u64,
}

/// Controls the sleep of a process between its runs.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    plan: ThrottlePlan,
    estimator: Estimator,
    sleep_ns: u64,
}

impl Throttle {
    /// Creates a throttle that does not sleep yet.
    #[must_use]
    pub fn new(plan: ThrottlePlan) -> Self {
        Self { plan, estimator: Estimator::default(), sleep_ns: 0 }
    }

    /// Records that a run found `packets` packets; returns how long the process sleeps now, ns.
    #[inline]
    pub fn ran(&mut self, packets: u32) -> u64 {
        self.estimator.observe(packets);
        let estimate = self.estimator.packets();
        if estimate < u64::from(self.plan.least) {
            self.sleep_ns =
                (self.sleep_ns + (self.sleep_ns / 4).max(STEP_NS)).min(self.plan.cap_ns);
        } else if estimate > u64::from(self.plan.most) {
            self.sleep_ns = if self.sleep_ns <= STEP_NS { 0 } else { self.sleep_ns / 2 };
        }
        self.sleep_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_settles_on_what_is_found() {
        for packets in [0, 1, 7, 1_000, u32::MAX] {
            let mut estimator = Estimator::default();
            estimator.observe(500);
            for _ in 0..200 {
                estimator.observe(packets);
            }
            assert_eq!(estimator.packets(), u64::from(packets));
        }
    }

    #[test]
    fn sleep_grows_to_the_cap_and_ends_under_load() {
        let mut throttle = Throttle::new(ThrottlePlan { least: 4, most: 8, cap_ns: 100_000 });
        let sleeps: Vec<u64> = (0..60).map(|_| throttle.ran(0)).collect();
        assert!(sleeps.is_sorted());
        assert_eq!(sleeps[59], 100_000);
        let sleeps: Vec<u64> = (0..60).map(|_| throttle.ran(16)).collect();
        assert!(sleeps.iter().rev().is_sorted());
        assert_eq!(sleeps[59], 0);
    }

    #[test]
    fn a_periodic_source_is_read_in_batches_of_the_target() {
        let mut throttle = Throttle::new(ThrottlePlan { least: 4, most: 8, cap_ns: 10_000_000 });
        let (interval_ns, mut now_ns, mut read) = (10_000, 0, 0);
        let mut last = 0;
        for _ in 0..200 {
            let arrived: u64 = now_ns / interval_ns;
            last = u32::try_from(arrived - read).unwrap();
            read = arrived;
            now_ns += 1_000 + throttle.ran(last);
        }
        assert!((4..=8).contains(&last), "{last}");
    }
}
