//! The garbage collection stage: packets left in a passed segment are late (section 5.4.3).
//!
//! Arrivals and decisions collect the segments that have passed, so that an arrival's slot is that
//! of its stream's current window. Drops are reported at the next decision and count as waiting
//! until then.

use super::Hilq;
use super::memory::Memory;
use super::packets::END;
use crate::discipline::Discipline;
use crate::packet::{Event, StreamId};
use crate::selector::Observer;

/// Drops that are not yet reported, in order.
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
    /// Advances time to `now_ns` and collects the segments that have passed.
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

    /// Applies rule B to the stream of a late packet.
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

    /// Reports the dropped packets.
    #[inline]
    pub(super) fn report_drops(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
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
