//! Element queues: the packets of one slot, first in, first out (section 5.3).
//!
//! ```text
//! slot: [first, waiting]
//!          |
//!       basic queue -> extended queue -> …      each of a fixed length, from a free list
//! ```
//!
//! A slot's first packet allocates a basic queue. If it is full, an extended one follows, which the
//! paper expects to be rare. Packets leave at the front. An emptied queue returns to its free list,
//! so the first queue may be an extended one.

use alloc::vec;
use alloc::vec::Vec;

use super::free_list::FreeList;
use super::memory::Memory;
use super::sizes::Sizes;

/// The packets of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// The slot's first element queue, if any packet waits.
    first: u32,
    /// The number of its packets.
    pub(super) waiting: u32,
}

/// The header of an element queue; `last` and `begin` are valid in a slot's first queue.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    /// The queue that follows, if more packets wait than this one holds.
    next: u32,
    /// The slot's last queue.
    last: u32,
    /// The position of its first packet.
    begin: u32,
}

/// Every element queue: the basic ones, then the extended ones.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    basics: u32,
    basic_packets: u32,
    extended_packets: u32,
    headers: Vec<Header>,
    packets: Vec<u32>,
    free_basic: FreeList,
    free_extended: FreeList,
}

impl Elements {
    pub(super) fn new(sizes: &Sizes) -> Self {
        let Sizes { basic_queues, basic_packets, extended_queues, extended_packets, .. } = *sizes;
        let basic = basic_queues as usize * basic_packets as usize;
        let extended = extended_queues as usize * extended_packets as usize;
        Self {
            basics: basic_queues,
            basic_packets,
            extended_packets,
            headers: vec![Header::default(); basic_queues as usize + extended_queues as usize],
            packets: vec![0; basic + extended],
            free_basic: FreeList::new(0, basic_queues),
            free_extended: FreeList::new(basic_queues, extended_queues),
        }
    }

    /// Appends `packet` to `slot`; returns `false` if no element queue is left.
    #[inline]
    pub(super) fn push(&mut self, slot: &mut Slot, packet: u32, memory: &mut impl Memory) -> bool {
        if slot.waiting == 0 {
            let Some(basic) = self.free_basic.take() else { return false };
            memory.sram(1);
            self.headers[basic as usize] = Header { next: basic, last: basic, begin: 0 };
            slot.first = basic;
        }
        let first = self.headers[slot.first as usize];
        let (mut queue, mut at) = (slot.first, first.begin + slot.waiting);
        if slot.waiting > 0 {
            memory.sram(1);
        }
        if let Some(beyond) = at.checked_sub(self.length(slot.first)) {
            (queue, at) = (first.last, beyond % self.extended_packets);
            if at == 0 {
                let Some(extended) = self.free_extended.take() else { return false };
                memory.sram(3);
                self.headers[queue as usize].next = extended;
                self.headers[slot.first as usize].last = extended;
                queue = extended;
            }
        }
        let element = self.element(queue, at);
        self.packets[element] = packet;
        memory.sram(1);
        slot.waiting += 1;
        true
    }

    /// Removes the first packet of `slot`, which has one.
    #[inline]
    pub(super) fn pop(&mut self, slot: &mut Slot, memory: &mut impl Memory) -> u32 {
        let queue = slot.first;
        let Header { next, last, begin } = self.headers[queue as usize];
        // One access reads it with the header, its neighbour.
        let packet = self.packets[self.element(queue, begin)];
        memory.sram(1);
        slot.waiting -= 1;
        if slot.waiting == 0 {
            self.put_back(queue, memory);
        } else if begin + 1 == self.length(queue) {
            self.put_back(queue, memory);
            slot.first = next;
            self.headers[next as usize].last = last;
            self.headers[next as usize].begin = 0;
            memory.sram(1);
        } else {
            self.headers[queue as usize].begin = begin + 1;
            memory.sram(1);
        }
        packet
    }

    fn put_back(&mut self, queue: u32, memory: &mut impl Memory) {
        let list = if queue < self.basics { &mut self.free_basic } else { &mut self.free_extended };
        list.put(queue);
        memory.sram(1);
    }

    /// Returns the capacity of a queue in packets.
    #[inline]
    fn length(&self, queue: u32) -> u32 {
        if queue < self.basics { self.basic_packets } else { self.extended_packets }
    }

    /// Returns the position of packet `at` of a queue.
    #[inline]
    fn element(&self, queue: u32, at: u32) -> usize {
        let basic = self.basics.min(queue) as usize * self.basic_packets as usize;
        let extended = queue.saturating_sub(self.basics) as usize * self.extended_packets as usize;
        basic + extended + at as usize
    }

    /// Returns the basic and extended element queues in use.
    pub(super) fn in_use(&self) -> (usize, usize) {
        let basics = self.basics as usize;
        let extended = self.headers.len() - basics;
        (basics - self.free_basic.len(), extended - self.free_extended.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes {
        basic_queues: 3,
        basic_packets: 2,
        extended_queues: 3,
        extended_packets: 3,
        ..Sizes::PAPER
    };

    proptest! {
        #[test]
        fn slots_are_queues_and_no_element_queue_is_lost(
            operations in proptest::collection::vec((0usize..5, 0u32..5), 0..400),
        ) {
            let mut elements = Elements::new(&SIZES);
            let mut slots = [Slot::default(); 5];
            let mut model: [VecDeque<u32>; 5] = Default::default();
            for (packet, (slot, kind)) in (0..).zip(operations) {
                if kind < 3 {
                    let (basic, extended) = elements.in_use();
                    let pushed = elements.push(&mut slots[slot], packet, &mut ());
                    if pushed {
                        model[slot].push_back(packet);
                    } else {
                        let used = if model[slot].is_empty() { basic } else { extended };
                        prop_assert_eq!(used, 3);
                    }
                } else if let Some(expected) = model[slot].pop_front() {
                    prop_assert_eq!(elements.pop(&mut slots[slot], &mut ()), expected);
                }
                for (slot, model) in slots.iter().zip(&model) {
                    prop_assert_eq!(slot.waiting as usize, model.len());
                }
                let (basic, extended) = elements.in_use();
                let filled = model.iter().filter(|model| !model.is_empty()).count();
                prop_assert!(basic <= filled && filled <= basic + extended);
            }
            for (slot, model) in slots.iter_mut().zip(&mut model) {
                while let Some(expected) = model.pop_front() {
                    prop_assert_eq!(elements.pop(slot, &mut ()), expected);
                }
            }
            prop_assert_eq!(elements.in_use(), (0, 0));
        }
    }
}
