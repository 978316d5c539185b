//! The calendar: a ring of segments, each with the slots of all window-constraints (Figure 3).
//!
//! ```text
//! collected      current         search                 collected + segments
//!    |  late        |  empty       |  may hold packets        |  the horizon
//! ```
//!
//! Without a delay of the collector, `collected` is `current`.

use alloc::vec;
use alloc::vec::Vec;

use super::elements::{Elements, Slot};
use super::index::Index;
use super::memory::Memory;
use super::sizes::Sizes;

/// All segments. They are numbered by time, from time 0, modulo the size of the calendar.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    segments: u32,
    segment_ns: u64,
    slots_of_segment: u32,
    slots: Vec<Slot>,
    indexes: Vec<Index>,
    elements: Elements,
    collect_delay_ns: u64,
    /// The packets of all segments.
    packets: u64,
    /// The first segment that is not collected; all earlier ones are empty.
    collected: u64,
    /// The current segment; packets of earlier ones are late.
    current: u64,
    /// The first segment that may not be empty.
    search: u64,
}

impl Calendar {
    pub(super) fn new(sizes: &Sizes) -> Self {
        let (segments, slots_of_segment) = (sizes.segments, sizes.slots());
        Self {
            segments,
            segment_ns: sizes.segment_ns,
            slots_of_segment,
            slots: vec![Slot::default(); segments as usize * slots_of_segment as usize],
            indexes: vec![Index::default(); segments as usize],
            elements: Elements::new(sizes),
            collect_delay_ns: sizes.collect_delay_ns,
            packets: 0,
            collected: 0,
            current: 0,
            search: 0,
        }
    }

    /// Returns the segment of a deadline, the current one if it has passed; `None` if it is beyond
    /// the horizon.
    #[inline]
    pub(super) fn segment(&self, deadline_ns: u64) -> Option<u64> {
        // Only the contract's first deadline can have passed.
        let segment = (deadline_ns / self.segment_ns).max(self.current);
        (segment < self.horizon()).then_some(segment)
    }

    /// Returns the first segment beyond the calendar: its slots belong to the first segment that is
    /// not collected.
    #[inline]
    fn horizon(&self) -> u64 {
        self.collected.saturating_add(u64::from(self.segments))
    }

    /// Advances time to `now_ns`, and passes the packets of segments that passed the collector's
    /// delay ago to `late`.
    #[inline]
    pub(super) fn advance<M: Memory>(
        &mut self,
        now_ns: u64,
        memory: &mut M,
        mut late: impl FnMut(u32, &mut M),
    ) {
        let reached = now_ns / self.segment_ns;
        let collectable = match self.collect_delay_ns {
            0 => reached,
            delay_ns => now_ns.saturating_sub(delay_ns) / self.segment_ns,
        };
        while self.collected < collectable && self.packets > 0 {
            while let Some(packet) = self.take_first(self.collected, memory) {
                late(packet, memory);
            }
            self.collected += 1;
        }
        self.collected = self.collected.max(collectable);
        self.current = self.current.max(reached);
        self.search = self.search.max(self.current);
    }

    /// Inserts `packet` into a slot of a segment between the current one and the horizon; returns
    /// `false` if memory is exhausted.
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
        self.packets += 1;
        self.search = self.search.min(segment);
        true
    }

    /// Removes the first packet of the first nonempty segment. The search resumes where it stopped;
    /// an earlier arrival moves it back.
    #[inline]
    pub(super) fn take_next(&mut self, memory: &mut impl Memory) -> Option<u32> {
        if self.packets == 0 {
            return None;
        }
        // Packets that await their collection count, so there may be none to send.
        while self.search < self.horizon() {
            if !self.is_empty(self.search, memory) {
                return self.take_first(self.search, memory);
            }
            self.search += 1;
        }
        None
    }

    /// Returns whether a segment is empty.
    #[inline]
    fn is_empty(&self, segment: u64, memory: &mut impl Memory) -> bool {
        self.indexes[self.position(segment)].is_empty(memory)
    }

    /// Removes the first packet of a segment.
    #[inline]
    fn take_first(&mut self, segment: u64, memory: &mut impl Memory) -> Option<u32> {
        let position = self.position(segment);
        let slot = self.indexes[position].first(memory)?;
        let at = self.slot(position, slot);
        memory.sram(1);
        let packet = self.elements.pop(&mut self.slots[at], memory);
        memory.sram(1);
        if self.slots[at].waiting == 0 {
            self.indexes[position].clear(slot, memory);
        }
        self.packets -= 1;
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

    fn calendar() -> Calendar {
        Calendar::new(&Sizes { segments: 4, segment_ns: 10, ..Sizes::PAPER })
    }

    /// Returns the packets of passed segments, in the order in which they are collected.
    fn passed(calendar: &mut Calendar, now_ns: u64) -> Vec<u32> {
        let mut passed = Vec::new();
        calendar.advance(now_ns, &mut (), |packet, ()| passed.push(packet));
        passed
    }

    #[test]
    fn a_deadline_is_in_its_segment_up_to_the_horizon() {
        let mut calendar = calendar();
        assert_eq!([0, 9, 10, 39].map(|at| calendar.segment(at)), [0, 0, 1, 3].map(Some));
        assert_eq!(calendar.segment(40), None);
        assert_eq!(passed(&mut calendar, 25), []);
        // The first deadline of a contract may have passed.
        assert_eq!([0, 19, 20, 59].map(|at| calendar.segment(at)), [2, 2, 2, 5].map(Some));
        assert_eq!(calendar.segment(60), None);
    }

    #[test]
    fn packets_of_passed_segments_are_late_by_segment_slot_and_arrival() {
        let mut calendar = calendar();
        for (packet, (segment, slot)) in (0..).zip([(1, 7), (0, 9), (1, 3), (1, 7), (2, 0), (0, 2)])
        {
            assert!(calendar.insert(segment, slot, packet, &mut ()));
        }
        assert_eq!(passed(&mut calendar, 9), []);
        assert_eq!(passed(&mut calendar, 10), [5, 1]);
        assert_eq!(passed(&mut calendar, 20), [2, 0, 3]);
        assert_eq!(calendar.take_next(&mut ()), Some(4));
        assert_eq!((calendar.take_next(&mut ()), passed(&mut calendar, u64::MAX)), (None, vec![]));
        assert_eq!(calendar.segment(u64::MAX), Some(u64::MAX / 10));
    }

    #[test]
    fn late_packets_keep_their_segment_until_the_delay_has_passed() {
        let sizes = Sizes { segments: 4, segment_ns: 10, collect_delay_ns: 5, ..Sizes::PAPER };
        let mut calendar = Calendar::new(&sizes);
        assert!(calendar.insert(0, 3, 1, &mut ()) && calendar.insert(2, 3, 2, &mut ()));
        assert_eq!(passed(&mut calendar, 14), []);
        // The slots of segment 4 still belong to segment 0.
        assert_eq!((calendar.segment(39), calendar.segment(40)), (Some(3), None));
        assert_eq!((calendar.take_next(&mut ()), calendar.take_next(&mut ())), (Some(2), None));
        assert_eq!(passed(&mut calendar, 15), [1]);
        assert_eq!((calendar.segment(49), calendar.segment(50)), (Some(4), None));
        assert!(calendar.insert(4, 0, 3, &mut ()));
        assert_eq!((calendar.take_next(&mut ()), calendar.take_next(&mut ())), (Some(3), None));
    }

    #[test]
    fn the_search_resumes_where_it_stopped_and_goes_back_for_an_earlier_packet() {
        let mut calendar = calendar();
        assert!(calendar.insert(3, 0, 30, &mut ()) && calendar.insert(3, 0, 31, &mut ()));
        assert_eq!((calendar.take_next(&mut ()), calendar.search), (Some(30), 3));
        assert!(calendar.insert(1, 5, 15, &mut ()) && calendar.insert(2, 4, 24, &mut ()));
        assert_eq!(calendar.search, 1);
        let rest = core::iter::from_fn(|| calendar.take_next(&mut ()));
        assert_eq!(rest.collect::<Vec<_>>(), [15, 24, 31]);
        assert_eq!(passed(&mut calendar, 25), []);
        assert_eq!((calendar.current, calendar.search), (2, 3));
        assert_eq!(passed(&mut calendar, 99), []);
        assert_eq!((calendar.current, calendar.search), (9, 9));
    }
}
