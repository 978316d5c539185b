//! The garbage collection stage: what is left in a passed segment has missed (section 5.4.3).

use super::Hilq;
use super::memory::Memory;
use crate::discipline::Discipline;
use crate::packet::{Event, StreamId};
use crate::selector::Observer;

impl<M: Memory> Hilq<M> {
    /// Time reaches `now_ns`: drops every packet of the segments that have passed since.
    #[inline]
    pub(super) fn collect(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        let reached = now_ns / self.sizes.segment_ns;
        while self.waiting > 0 && self.current < reached {
            while let Some(packet) = self.calendar.take_first(self.current, &mut self.memory) {
                let dropped = self.take(packet);
                let stream = StreamId(dropped.stream);
                let state = &mut self.streams[stream.index()].state;
                let missed = self.rules.expired(state, now_ns);
                self.memory.sram(2);
                observer.missed(stream, now_ns, missed.missed, missed.violations);
                observer.dropped(&dropped.departure(now_ns, Event::DroppedLate));
            }
            self.current += 1;
        }
        self.pass(now_ns);
    }

    /// Time reaches `now_ns`, and all segments that have passed since are empty.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64) {
        self.current = self.current.max(now_ns / self.sizes.segment_ns);
        self.search = self.search.max(self.current);
    }
}
