//! Two-level bitmaps: which slots of a segment hold packets (Figure 5).
//!
//! Bit s of the level-two words is set if slot s does; bit w of the level-one word is set if
//! level-two word w is not 0. Two reads find the first slot for any number of packets.

use super::memory::Memory;

/// Bits of a word, and level-two words of a segment.
const BITS: u32 = 32;

/// The maximum number of slots of a segment.
pub(super) const SLOTS: u32 = BITS * BITS;

/// The bitmaps of one segment; level one is in the scratchpad, level two in SRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    level_one: u32,
    level_two: [u32; BITS as usize],
}

impl Index {
    #[inline]
    pub(super) fn set(&mut self, slot: u32, memory: &mut impl Memory) {
        let word = slot / BITS;
        self.level_two[word as usize] |= 1 << (slot % BITS);
        memory.sram(1);
        self.level_one |= 1 << word;
        memory.scratch(1);
    }

    #[inline]
    pub(super) fn clear(&mut self, slot: u32, memory: &mut impl Memory) {
        let word = slot / BITS;
        let bits = &mut self.level_two[word as usize];
        *bits &= !(1 << (slot % BITS));
        memory.sram(1);
        if *bits == 0 {
            self.level_one &= !(1 << word);
            memory.scratch(1);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self, memory: &mut impl Memory) -> bool {
        memory.scratch(1);
        self.level_one == 0
    }

    /// Returns the lowest slot that holds packets.
    #[inline]
    pub(super) fn first(&self, memory: &mut impl Memory) -> Option<u32> {
        if self.is_empty(memory) {
            return None;
        }
        let word = self.level_one.trailing_zeros();
        memory.sram(1);
        Some(word * BITS + self.level_two[word as usize].trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bitmaps_are_a_set_of_slots(
            operations in proptest::collection::vec((any::<bool>(), 0..SLOTS), 0..400),
        ) {
            let (mut index, mut model) = (Index::default(), BTreeSet::new());
            for (set, slot) in operations {
                if set {
                    index.set(slot, &mut ());
                    model.insert(slot);
                } else {
                    index.clear(slot, &mut ());
                    model.remove(&slot);
                }
                prop_assert_eq!(index.first(&mut ()), model.first().copied());
                prop_assert_eq!(index.is_empty(&mut ()), model.is_empty());
                for (word, bits) in (0..).zip(index.level_two) {
                    prop_assert_eq!(index.level_one >> word & 1 == 1, bits != 0);
                    let expected = model.range(word * BITS..(word + 1) * BITS);
                    prop_assert_eq!(bits, expected.fold(0, |bits, slot| bits | 1 << (slot % BITS)));
                }
            }
        }
    }
}
