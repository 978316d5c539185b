//! Sets of packet numbers, as ranges: what a TCP receiver has, and what a sender knows of it.

/// A set of numbers, stored as ranges. Operations take time in the number of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Sorted `from..to`, with a gap between any two.
    ranges: Vec<(u32, u32)>,
    count: u32,
}

impl Ranges {
    /// Returns the size of the set.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds `from..to`; returns how many of these are new.
    pub(super) fn insert(&mut self, from: u32, to: u32) -> u32 {
        if from >= to {
            return 0;
        }
        let first = self.ranges.partition_point(|range| range.1 < from);
        let last = self.ranges.partition_point(|range| range.0 <= to);
        let Some(joined) = self.ranges.get(first..last).filter(|joined| !joined.is_empty()) else {
            self.ranges.insert(first, (from, to));
            self.count += to - from;
            return to - from;
        };
        let known: u32 = joined.iter().map(|range| range.1 - range.0).sum();
        let range = (from.min(joined[0].0), to.max(joined[joined.len() - 1].1));
        self.ranges[first] = range;
        self.ranges.drain(first + 1..last);
        let new = range.1 - range.0 - known;
        self.count += new;
        new
    }

    /// Removes the numbers below `edge`; returns how many it had.
    pub(super) fn remove_below(&mut self, edge: u32) -> u32 {
        let whole = self.ranges.partition_point(|range| range.1 <= edge);
        let mut removed: u32 = self.ranges.drain(..whole).map(|range| range.1 - range.0).sum();
        if let Some(range) = self.ranges.first_mut().filter(|range| range.0 < edge) {
            removed += edge - range.0;
            range.0 = edge;
        }
        self.count -= removed;
        removed
    }

    /// Returns how many numbers of `from..to` it has.
    pub(super) fn count_in(&self, from: u32, to: u32) -> u32 {
        let first = self.ranges.partition_point(|range| range.1 <= from);
        let of = |range: &(u32, u32)| range.1.min(to) - range.0.max(from);
        self.ranges[first..].iter().take_while(|range| range.0 < to).map(of).sum()
    }

    /// Returns the range with `number`.
    pub(super) fn containing(&self, number: u32) -> Option<(u32, u32)> {
        let at = self.ranges.partition_point(|range| range.1 <= number);
        self.ranges.get(at).copied().filter(|range| range.0 <= number)
    }

    /// Returns the first number from `from` that it does not have.
    pub(super) fn first_gap(&self, from: u32) -> u32 {
        self.containing(from).map_or(from, |range| range.1)
    }

    /// Returns the number that has `above` numbers of the set above it; `None` if it is smaller.
    pub(super) fn below_top(&self, mut above: u32) -> Option<u32> {
        for range in self.ranges.iter().rev() {
            let size = range.1 - range.0;
            if above < size {
                return Some(range.1 - 1 - above);
            }
            above -= size;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The ranges hold the same numbers as a set, after any operations.
        #[test]
        fn ranges_are_a_set(operations in prop::collection::vec((0..60_u32, 0..9_u32), 1..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (at, length) in operations {
                if length == 8 {
                    let below: Vec<u32> = set.range(..at / 2).copied().collect();
                    below.iter().for_each(|number| { set.remove(number); });
                    prop_assert_eq!(ranges.remove_below(at / 2) as usize, below.len());
                } else {
                    let before = set.len();
                    set.extend(at..at + length);
                    prop_assert_eq!(ranges.insert(at, at + length) as usize, set.len() - before);
                }
                prop_assert_eq!(ranges.count() as usize, set.len());
                prop_assert!(ranges.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
                for number in 0..70 {
                    prop_assert_eq!(ranges.containing(number).is_some(), set.contains(&number));
                    let gap = (number..).find(|number| !set.contains(number));
                    prop_assert_eq!(Some(ranges.first_gap(number)), gap);
                    prop_assert_eq!(
                        ranges.count_in(number, number + 7) as usize,
                        set.range(number..number + 7).count()
                    );
                }
                for above in 0..4 {
                    let expected = set.iter().rev().nth(above as usize).copied();
                    prop_assert_eq!(ranges.below_top(above), expected);
                }
            }
        }
    }
}
