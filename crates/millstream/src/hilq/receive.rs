//! The receiving stage: admission, and the slot of an arrival (section 5.4.1).

use super::Hilq;
use super::memory::Memory;
use super::packets::{Descriptor, END};
use crate::discipline::{Discipline, Head};
use crate::packet::{Departure, Event, Packet, StreamId};

/// Rejected arrivals. All of them leave as [`Event::DroppedFull`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Their stream's queue was full.
    pub queue: u64,
    /// There was no descriptor or element queue left.
    pub memory: u64,
    /// Their deadline was beyond the calendar's end.
    pub horizon: u64,
}

impl<M: Memory> Hilq<M> {
    /// Inserts an arriving packet into its slot, or drops it.
    #[inline]
    pub(super) fn receive(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<u64, Departure> {
        self.collect(now_ns);
        let entry = &mut self.streams[stream.index()];
        let number = entry.arrivals;
        entry.arrivals += 1;
        let full = entry.waiting >= entry.limit;
        let mut state = entry.state;
        self.memory.sram(1);
        let mut descriptor = Descriptor {
            stream: stream.0,
            bytes: packet.bytes,
            packet: number,
            arrival_ns: now_ns,
            deadline_ns: 0,
            tag: packet.tag,
            violations: 0,
            next: END,
        };
        let refused = |descriptor: Descriptor| {
            Err(Departure { deadline_ns: None, ..descriptor.departure(now_ns, Event::DroppedFull) })
        };
        if full {
            self.rejected.queue += 1;
            return refused(descriptor);
        }
        let head = Head { arrival_ns: now_ns, bytes: packet.bytes };
        self.rules.became_head(&mut state, head);
        descriptor.deadline_ns = self.rules.deadline_ns(&state).unwrap_or(u64::MAX);
        // Only the contract's first deadline can have passed.
        let segment = (descriptor.deadline_ns / self.sizes.segment_ns).max(self.current);
        if segment - self.current >= u64::from(self.sizes.segments) {
            self.rejected.horizon += 1;
            return refused(descriptor);
        }
        let slot = self.lookup.slot(state.window(), &mut self.memory);
        let Some(at) = self.packets.put(descriptor) else {
            self.rejected.memory += 1;
            return refused(descriptor);
        };
        if !self.calendar.insert(segment, slot, at, &mut self.memory) {
            self.packets.take(at);
            self.rejected.memory += 1;
            return refused(descriptor);
        }
        let entry = &mut self.streams[stream.index()];
        entry.state = state;
        entry.waiting += 1;
        self.memory.sram(1);
        self.waiting += 1;
        self.search = self.search.min(segment);
        Ok(number)
    }
}
