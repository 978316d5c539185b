//! A hierarchical bitmap of occupied positions: one bit per position, and one bit at the next level
//! for every word. That bit is set if any bit of the word is.
//!
//! ```text
//! level 2   1…
//! level 1   0110…                       one bit per word of level 0
//! level 0   00000000 01000100 00000001  one bit per position
//! ```

use alloc::vec::Vec;

/// The number of levels: 2²⁴ positions need one word at the top.
const LEVELS: usize = 4;

/// The binary logarithm of the number of bits of a word.
const WORD: usize = 6;

/// Returns the position of a bucket, counted from 0, in a ring of `places`, a power of two.
#[inline(always)]
pub(crate) fn ring_place(number: u64, places: usize) -> usize {
    // Masked by the number of places.
    #[allow(clippy::cast_possible_truncation)]
    let low = number as usize;
    low & (places - 1)
}

/// A set of positions below a fixed bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    /// The first word of each level, and the end of the last level.
    begins: [usize; LEVELS + 1],
}

impl Bitmap {
    /// Makes it an empty set of positions below `places`.
    pub(crate) fn clear(&mut self, places: usize) {
        self.begins = Self::begins(places);
        self.words.clear();
        self.words.resize(self.begins[LEVELS], 0);
    }

    /// Allocates memory for positions below `places`.
    pub(crate) fn reserve(&mut self, places: usize) {
        let words = Self::begins(places)[LEVELS];
        self.words.reserve(words.saturating_sub(self.words.len()));
    }

    /// Returns the first word of each level, and the end of the last level.
    fn begins(places: usize) -> [usize; LEVELS + 1] {
        let mut begins = [0; LEVELS + 1];
        let mut size = places;
        for level in 0..LEVELS {
            size = size.div_ceil(1 << WORD).max(1);
            begins[level + 1] = begins[level] + size;
        }
        begins
    }

    #[inline]
    pub(crate) fn set(&mut self, place: usize) {
        let word = &mut self.words[place >> WORD];
        let was = *word;
        *word |= 1 << (place & 63);
        if was == 0 {
            self.set_above(place);
        }
    }

    #[cold]
    fn set_above(&mut self, place: usize) {
        let mut at = place >> WORD;
        for level in 1..LEVELS {
            self.words[self.begins[level] + (at >> WORD)] |= 1 << (at & 63);
            at >>= WORD;
        }
    }

    #[inline]
    pub(crate) fn unset(&mut self, place: usize) {
        let word = &mut self.words[place >> WORD];
        *word &= !(1 << (place & 63));
        if *word == 0 {
            self.unset_above(place);
        }
    }

    #[cold]
    fn unset_above(&mut self, place: usize) {
        let mut at = place >> WORD;
        for level in 1..LEVELS {
            let word = &mut self.words[self.begins[level] + (at >> WORD)];
            *word &= !(1 << (at & 63));
            if *word != 0 {
                return;
            }
            at >>= WORD;
        }
    }

    /// Returns the first occupied position at or after `place`.
    #[inline]
    pub(crate) fn next(&self, place: usize) -> Option<usize> {
        let rest = self.words.get(place >> WORD)? >> (place & 63);
        if rest != 0 && place >> WORD < self.begins[1] {
            return Some(place + rest.trailing_zeros() as usize);
        }
        self.search(place)
    }

    /// Returns the distance from `place` to the next occupied position in a ring of `places`, a
    /// power of two; 0 if `place` is occupied.
    #[inline(always)]
    pub(crate) fn ahead(&self, place: usize, places: usize) -> Option<u64> {
        let found = match self.next(place) {
            None => self.next(0)?,
            Some(found) => found,
        };
        Some((found.wrapping_sub(place) & (places - 1)) as u64)
    }

    #[cold]
    fn search(&self, place: usize) -> Option<usize> {
        let mut at = place;
        for level in 0..LEVELS {
            let index = self.begins[level] + (at >> WORD);
            if index >= self.begins[level + 1] {
                return None;
            }
            let rest = self.words[index] >> (at & 63);
            if rest != 0 {
                return Some(self.descend(level, at + rest.trailing_zeros() as usize));
            }
            at = (at >> WORD) + 1;
        }
        None
    }

    /// Returns the first occupied position below the set bit `at` of `level`.
    #[inline]
    fn descend(&self, level: usize, mut at: usize) -> usize {
        for below in (0..level).rev() {
            at = (at << WORD) + self.words[self.begins[below] + at].trailing_zeros() as usize;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bitmap_equals_an_ordered_set(
            places in 1usize..20_000,
            changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200),
        ) {
            let mut bitmap = Bitmap::default();
            bitmap.clear(places);
            let mut set = BTreeSet::new();
            for (occupied, place) in changes {
                let place = place.index(places);
                if occupied {
                    bitmap.set(place);
                    set.insert(place);
                } else {
                    bitmap.unset(place);
                    set.remove(&place);
                }
                for from in [0, place, place + 1] {
                    prop_assert_eq!(bitmap.next(from), set.range(from..).next().copied());
                }
            }
        }
    }
}
