//! The x/y table: from a window-constraint to its slot (Figure 4).
//!
//! x'/y' is rounded to the nearest of the levels, 0, 0.02, … 0.98; halves are rounded up. Slots are
//! numbered by level, then by x'; the lower slot is served first. The paper's 0 to 1 in steps of
//! 0.02 are 51 values for its 50 levels: the last level includes those that round to 1. x' and y'
//! are clamped to the table. Streams with x' = 0 are unordered, whereas Table 1 orders them by y'.

use alloc::vec::Vec;

use super::memory::Memory;
use super::sizes::Sizes;

/// The slot of every window-constraint.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    numerators: u32,
    denominators: u32,
    /// The first slot of the level of x'/y', by y', then by x'.
    level_slots: Vec<u32>,
}

impl Lookup {
    pub(super) fn new(sizes: &Sizes) -> Self {
        let Sizes { numerators, denominators, levels, .. } = *sizes;
        let level_slot = |of: u32, lost: u32| level(lost.min(of), of, levels) * numerators;
        let row = |of| (0..numerators).map(move |lost| level_slot(of, lost));
        Self { numerators, denominators, level_slots: (0..denominators).flat_map(row).collect() }
    }

    /// Returns the slot of x'/y' = `lost`/`of`.
    #[inline]
    pub(super) fn slot(&self, (lost, of): (u32, u64), memory: &mut impl Memory) -> u32 {
        let largest = self.denominators - 1;
        let of = u32::try_from(of).map_or(largest, |of| of.min(largest));
        let lost = lost.min(self.numerators - 1);
        memory.sram(1);
        self.level_slots[(of * self.numerators + lost) as usize] + lost
    }
}

/// Returns the level nearest to `lost`/`of`; 0/0 is 0.
fn level(lost: u32, of: u32, levels: u32) -> u32 {
    match of {
        0 => 0,
        _ => ((2 * levels * lost + of) / (2 * of)).min(levels - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering;

    fn slot(lost: u32, of: u32) -> u32 {
        Lookup::new(&Sizes::PAPER).slot((lost, u64::from(of)), &mut ())
    }

    #[test]
    fn slots_are_in_the_order_of_table_1_up_to_rounding() {
        let windows: Vec<(u32, u32, u32)> = (0..30)
            .flat_map(|of| (0..=of.min(19)).map(move |lost| (lost, of, slot(lost, of))))
            .collect();
        let fraction = |(lost, of, _): (u32, u32, u32)| f64::from(lost) / f64::from(of.max(1));
        for &a in &windows {
            for &b in &windows {
                let order = a.2.cmp(&b.2);
                let (lower, higher) = (fraction(a), fraction(b));
                if higher - lower > 0.02 + 1e-9 && lower < 0.97 {
                    assert_eq!(order, Ordering::Less, "{a:?} must precede {b:?}");
                }
                let (level, other) = (a.2 / 20, b.2 / 20);
                if lower <= higher {
                    assert!(level <= other, "{a:?} must not follow {b:?}");
                }
                if level == other {
                    assert_eq!(order, a.0.cmp(&b.0), "a level is ordered by x: {a:?}, {b:?}");
                }
                if a.0 == 0 && b.0 == 0 {
                    assert_eq!(order, Ordering::Equal, "{a:?} and {b:?} must be equal");
                } else if a.0 * b.1 == b.0 * a.1 && a.1 > 0 && b.1 > 0 {
                    assert_eq!(level, other, "equal fractions: {a:?}, {b:?}");
                }
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_step_and_the_last_level_takes_one() {
        assert_eq!([slot(0, 0), slot(0, 1), slot(0, 29)], [0, 0, 0]);
        assert_eq!(slot(1, 2), 25 * 20 + 1);
        assert_eq!(slot(1, 29), 2 * 20 + 1, "0.034 is nearer to 0.04");
        assert_eq!([slot(1, 1), slot(19, 19)], [49 * 20 + 1, 999]);
    }

    #[test]
    fn what_is_beyond_the_table_counts_as_its_largest() {
        assert_eq!(slot(7, 1_000), slot(7, 29));
        assert_eq!(slot(1_000, 1_000), slot(19, 29));
        let lookup = Lookup::new(&Sizes::PAPER);
        assert_eq!(lookup.slot((0, u64::MAX), &mut ()), 0);
    }
}
