//! The scheduling stage: selection of the next packet (section 5.4.2).

use super::Hilq;
use super::memory::Memory;
use super::packets::Descriptor;
use crate::discipline::{Discipline, Head};
use crate::packet::{Departure, Event, StreamId};

impl<M: Memory> Hilq<M> {
    /// Removes the first packet of the first nonempty segment, from the current one on. The search
    /// resumes where it stopped; an earlier arrival moves it back.
    #[inline]
    pub(super) fn schedule(&mut self, now_ns: u64) -> Option<Departure> {
        if self.waiting == self.collected.packets {
            return None;
        }
        while self.calendar.is_empty(self.search, &mut self.memory) {
            self.search += 1;
        }
        let packet = self.calendar.take_first(self.search, &mut self.memory)?;
        let sent = self.take(packet);
        let stream = StreamId(sent.stream);
        let Descriptor { arrival_ns, bytes, .. } = sent;
        let state = &mut self.streams[stream.index()].state;
        self.rules.served(state, stream, Head { arrival_ns, bytes }, now_ns);
        self.memory.sram(2);
        Some(sent.departure(now_ns, Event::Sent))
    }
}
