//! Occupancy of a buffer: current, maximum, and time average.
//!
//! Additions are reported in time order. Removals are reported in time order too, possibly ahead of
//! time: they take effect when their time is reached.

use std::collections::VecDeque;

/// The occupancy of one buffer over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Occupancy {
    now: u64,
    max: u64,
    /// Integral of the level over time up to `since_ns`, amount × ns.
    area: u128,
    since_ns: u64,
    /// Scheduled removals: time in ns, amount.
    removals: VecDeque<(u64, u64)>,
}

impl Occupancy {
    /// Adds `amount` at `time_ns`. Calls `changed` with time and new level for this change and for
    /// every pending removal up to `time_ns`.
    #[inline]
    pub(super) fn add(&mut self, time_ns: u64, amount: u64, changed: &mut impl FnMut(u64, u64)) {
        self.apply_removals(time_ns, changed);
        self.advance(time_ns);
        self.now += amount;
        self.max = self.max.max(self.now);
        changed(time_ns, self.now);
    }

    /// Schedules the removal of `amount` at `time_ns`, which may lie in the future.
    #[inline]
    pub(super) fn schedule_removal(&mut self, time_ns: u64, amount: u64) {
        self.removals.push_back((time_ns, amount));
    }

    /// Applies scheduled removals up to `time_ns`, calling `changed` with time and new level.
    #[inline]
    pub(super) fn apply_removals(&mut self, time_ns: u64, changed: &mut impl FnMut(u64, u64)) {
        while let Some(&(leaves_ns, amount)) = self.removals.front()
            && leaves_ns <= time_ns
        {
            self.removals.pop_front();
            self.advance(leaves_ns);
            self.now -= amount;
            changed(leaves_ns, self.now);
        }
    }

    /// Returns the maximum level so far.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean level from time 0 to `end_ns`.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn mean(&self, end_ns: u64) -> f64 {
        let mut ended = self.clone();
        ended.apply_removals(end_ns, &mut |_, _| ());
        ended.advance(end_ns);
        ended.area as f64 / end_ns.max(1) as f64
    }

    #[inline]
    fn advance(&mut self, time_ns: u64) {
        self.area += u128::from(self.now) * u128::from(time_ns.saturating_sub(self.since_ns));
        self.since_ns = self.since_ns.max(time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduled_removals_take_effect_at_their_time() {
        let mut level = Occupancy::default();
        let mut changes = Vec::new();
        let mut changed = |time_ns, now| changes.push((time_ns, now));
        level.add(10, 100, &mut changed);
        level.schedule_removal(30, 100);
        level.add(20, 50, &mut changed);
        level.schedule_removal(60, 50);
        level.add(40, 7, &mut changed);
        assert_eq!(changes, [(10, 100), (20, 150), (30, 50), (40, 57)]);
        assert_eq!(level.max(), 150);
        // 100 from 10 to 20, 150 to 30, 50 to 40, 57 to 60, 7 to 100.
        let area = 1_000.0 + 1_500.0 + 500.0 + 1_140.0 + 280.0;
        assert!((level.mean(100) - area / 100.0).abs() < 1e-9);
        assert!((level.mean(40) - 30.0 * 100.0 / 40.0).abs() < 1e-9);
    }
}
