//! The calendar: a ring of segments, each with the slots of all window-constraints (Figure 3).

use alloc::vec;
use alloc::vec::Vec;

use super::elements::{Elements, Slot};
use super::index::Index;
use super::memory::Memory;
use super::sizes::Sizes;

/// Every segment. They are numbered by time, from time 0, modulo the size of the calendar.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    segments: u32,
    slots_of_segment: u32,
    slots: Vec<Slot>,
    indexes: Vec<Index>,
    elements: Elements,
}

impl Calendar {
    pub(super) fn new(sizes: &Sizes) -> Self {
        let (segments, slots_of_segment) = (sizes.segments, sizes.slots());
        Self {
            segments,
            slots_of_segment,
            slots: vec![Slot::default(); segments as usize * slots_of_segment as usize],
            indexes: vec![Index::default(); segments as usize],
            elements: Elements::new(sizes),
        }
    }

    /// Inserts `packet` into a slot; returns `false` if memory is exhausted.
    #[inline]
    pub(super) fn insert(
        &mut self,
        segment: u64,
        slot: u32,
        packet: u32,
        memory: &mut impl Memory,
    ) -> bool {
        let position = self.position(segment);
        let at = self.slot(position, slot);
        memory.sram(1);
        if !self.elements.push(&mut self.slots[at], packet, memory) {
            return false;
        }
        memory.sram(1);
        if self.slots[at].waiting == 1 {
            self.indexes[position].set(slot, memory);
        }
        true
    }

    /// Whether a segment is empty.
    #[inline]
    pub(super) fn is_empty(&self, segment: u64, memory: &mut impl Memory) -> bool {
        self.indexes[self.position(segment)].is_empty(memory)
    }

    /// Removes the first packet of a segment.
    #[inline]
    pub(super) fn take_first(&mut self, segment: u64, memory: &mut impl Memory) -> Option<u32> {
        let position = self.position(segment);
        let slot = self.indexes[position].first(memory)?;
        let at = self.slot(position, slot);
        memory.sram(1);
        let packet = self.elements.pop(&mut self.slots[at], memory);
        memory.sram(1);
        if self.slots[at].waiting == 0 {
            self.indexes[position].clear(slot, memory);
        }
        Some(packet)
    }

    /// Returns the basic and extended element queues in use.
    pub(super) fn queues_in_use(&self) -> (usize, usize) {
        self.elements.in_use()
    }

    #[inline]
    fn position(&self, segment: u64) -> usize {
        // Below `segments`, a u32.
        #[allow(clippy::cast_possible_truncation)]
        let position = (segment % u64::from(self.segments)) as usize;
        position
    }

    #[inline]
    fn slot(&self, position: usize, slot: u32) -> usize {
        position * self.slots_of_segment as usize + slot as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, VecDeque};
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes {
        segments: 3,
        levels: 7,
        numerators: 10,
        basic_packets: 1,
        basic_queues: 4,
        extended_queues: 2,
        extended_packets: 2,
        ..Sizes::PAPER
    };

    proptest! {
        #[test]
        fn a_calendar_is_a_map_of_queues(
            operations in proptest::collection::vec((0u64..6, 0u32..70, 0u32..3), 0..300),
        ) {
            let mut calendar = Calendar::new(&SIZES);
            let mut model: BTreeMap<(u64, u32), VecDeque<u32>> = BTreeMap::new();
            for (packet, (segment, slot, kind)) in (0..).zip(operations) {
                let position = segment % 3;
                if kind > 0 {
                    if calendar.insert(segment, slot, packet, &mut ()) {
                        model.entry((position, slot)).or_default().push_back(packet);
                    } else {
                        let packets: usize = model.values().map(VecDeque::len).sum();
                        prop_assert!(packets >= 3, "refused with {packets} packets");
                    }
                } else {
                    let first = model.range((position, 0)..(position + 1, 0)).next();
                    let first = first.map(|(at, _)| *at);
                    let expected = first.and_then(|at| {
                        let queue = model.get_mut(&at)?;
                        let packet = queue.pop_front();
                        if queue.is_empty() {
                            model.remove(&at);
                        }
                        packet
                    });
                    prop_assert_eq!(calendar.take_first(segment, &mut ()), expected);
                }
                for segment in 0..3 {
                    let empty = model.range((segment, 0)..(segment + 1, 0)).next().is_none();
                    prop_assert_eq!(calendar.is_empty(segment, &mut ()), empty);
                }
            }
        }
    }
}
