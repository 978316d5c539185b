//! The receiving stage: admission, and the slot of an arrival (section 5.4.1).

use super::lookup::Lookup;
use super::memory::Memory;
use super::packets::{Descriptor, END};
use super::records::Records;
use super::sizes::Sizes;
use super::streams::Arrival;
use crate::discipline::Head;
use crate::packet::{Departure, Event, Packet, StreamId};

/// The number of rejected arrivals, by reason. All of them leave as [`Event::DroppedFull`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The stream's queue was full.
    pub queue: u64,
    /// No descriptor or element queue was free.
    pub memory: u64,
    /// The deadline was beyond the calendar's end.
    pub horizon: u64,
}

/// The x/y table, and counters of rejected arrivals.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    lookup: Lookup,
    rejected: Rejected,
}

impl Receiver {
    pub(super) fn new(sizes: &Sizes) -> Self {
        Self { lookup: Lookup::new(sizes), rejected: Rejected::default() }
    }

    pub(super) fn rejected(&self) -> Rejected {
        self.rejected
    }

    /// Inserts an arriving packet into its slot, or drops it. Passed segments are collected.
    #[inline]
    pub(super) fn receive<M: Memory>(
        &mut self,
        records: &mut Records<M>,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<u64, Departure> {
        let Records { streams, packets, calendar, memory } = records;
        let Arrival { packet: number, is_full } = streams.arrived(stream);
        memory.sram(1);
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
        if is_full {
            self.rejected.queue += 1;
            return refused(descriptor);
        }
        let head = Head { arrival_ns: now_ns, bytes: packet.bytes };
        let (state, deadline_ns) = streams.requested(stream, head);
        descriptor.deadline_ns = deadline_ns;
        let Some(segment) = calendar.segment(deadline_ns) else {
            self.rejected.horizon += 1;
            return refused(descriptor);
        };
        let slot = self.lookup.slot(state.window(), memory);
        let Some(at) = packets.put(descriptor) else {
            self.rejected.memory += 1;
            return refused(descriptor);
        };
        if !calendar.insert(segment, slot, at, memory) {
            packets.take(at);
            self.rejected.memory += 1;
            return refused(descriptor);
        }
        streams.admitted(stream, state);
        memory.sram(1);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::tests::{SIZES, records, records_of};
    use super::*;

    #[test]
    fn each_rejection_has_its_reason_and_leaves_no_trace() {
        // Deadlines 15, 35 and 39 ns after an arrival; the calendar ends at 40 ns.
        let sizes = Sizes { basic_queues: 2, ..SIZES };
        let mut records = records_of(&sizes, &[(15, (1, 2), 9), (35, (0, 1), 1), (39, (1, 3), 9)]);
        let mut receiver = Receiver::new(&sizes);
        let mut receive = |stream: u32, now_ns| {
            let packet = Packet { bytes: 60 + stream, tag: 3 };
            let received = receiver.receive(&mut records, now_ns, StreamId(stream), packet);
            let Rejected { queue, memory, horizon } = receiver.rejected();
            if let Err(refused) = &received {
                let expected = Departure {
                    time_ns: now_ns,
                    stream: StreamId(stream),
                    bytes: 60 + stream,
                    arrival_ns: now_ns,
                    deadline_ns: None,
                    event: Event::DroppedFull,
                    tag: 3,
                    ..*refused
                };
                assert_eq!(*refused, expected);
            }
            (received.map_err(|refused| refused.packet), [queue, memory, horizon])
        };
        assert_eq!(receive(1, 0), (Ok(0), [0, 0, 0]));
        assert_eq!(receive(1, 0), (Err(1), [1, 0, 0]), "its queue is full");
        assert_eq!(receive(2, 1), (Err(0), [1, 0, 1]), "40 ns is beyond the calendar");
        assert_eq!(receive(2, 0), (Ok(1), [1, 0, 1]));
        // A rejected packet gives no deadline: the next one is due at 15 ns.
        assert_eq!(receive(0, 0), (Err(0), [1, 1, 1]), "no element queue is left");
        assert_eq!(records.packets.len(), 2);
        assert_eq!([0, 1, 2].map(|of| records.streams.waiting(StreamId(of))), [0, 1, 1]);
        let deadlines = [1, 0].map(|_| {
            let packet = records.calendar.take_next(&mut records.memory).unwrap();
            records.take(packet).deadline_ns
        });
        assert_eq!(deadlines, [35, 39]);
        assert_eq!(receiver.receive(&mut records, 0, StreamId(0), Packet::new(1)), Ok(1));
        let packet = records.calendar.take_next(&mut records.memory).unwrap();
        assert_eq!(records.packets.get_mut(packet).deadline_ns, 15);
    }

    #[test]
    fn an_arrival_without_a_descriptor_is_rejected() {
        let mut records = records(&[(15, (0, 1), 9)]);
        let mut receiver = Receiver::new(&SIZES);
        // All three descriptors are taken; the slots of a segment hold two packets each.
        records.packets.put(Descriptor::default()).unwrap();
        records.packets.put(Descriptor::default()).unwrap();
        let mut receive = || receiver.receive(&mut records, 0, StreamId(0), Packet::new(1));
        assert_eq!((receive().is_ok(), receive().is_ok()), (true, false));
        assert_eq!(receiver.rejected(), Rejected { memory: 1, ..Rejected::default() });
    }
}
