//! The garbage collection stage: what is left in a passed segment has missed (section 5.4.3).
//!
//! Segments are collected as time passes, at arrivals and at decisions, so that an arrival's slot
//! is that of the window its stream then has. What was dropped is told at the next decision, and
//! counts as waiting until then.

use super::Hilq;
use super::memory::Memory;
use super::packets::END;
use crate::discipline::Discipline;
use crate::packet::{Event, StreamId};
use crate::selector::Observer;

/// Packets that were dropped and are not yet told, in the order in which they were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collected {
    first: u32,
    last: u32,
    pub(super) packets: u64,
}

impl Collected {
    pub(super) const NONE: Self = Self { first: END, last: END, packets: 0 };
}

impl<M: Memory> Hilq<M> {
    /// Time reaches `now_ns`: collects the segments that have passed since.
    #[inline]
    pub(super) fn collect(&mut self, now_ns: u64) {
        let reached = now_ns / self.sizes.segment_ns;
        while self.current < reached && self.waiting > self.collected.packets {
            while let Some(packet) = self.calendar.take_first(self.current, &mut self.memory) {
                self.drop_late(packet, now_ns);
            }
            self.current += 1;
        }
        self.current = self.current.max(reached);
        self.search = self.search.max(self.current);
    }

    /// Rule B for the stream of a packet that was left.
    fn drop_late(&mut self, packet: u32, now_ns: u64) {
        let descriptor = self.packets.get_mut(packet);
        let state = &mut self.streams[descriptor.stream as usize].state;
        descriptor.violations = self.rules.expired(state, now_ns).violations;
        self.memory.sram(2);
        let Collected { first, last, packets } = &mut self.collected;
        match *last {
            END => *first = packet,
            last => self.packets.get_mut(last).next = packet,
        }
        *last = packet;
        *packets += 1;
    }

    /// Tells of the packets that were dropped.
    #[inline]
    pub(super) fn tell(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        while self.collected.packets > 0 {
            let dropped = self.take(self.collected.first);
            self.collected.packets -= 1;
            self.collected.first = dropped.next;
            observer.missed(StreamId(dropped.stream), now_ns, 1, dropped.violations);
            observer.dropped(&dropped.departure(now_ns, Event::DroppedLate));
        }
        self.collected = Collected::NONE;
    }
}
