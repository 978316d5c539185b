//! The scheduling stage: selection of the next packet (section 5.4.2).

use super::memory::Memory;
use super::records::Records;
use crate::discipline::Head;
use crate::packet::{Departure, Event, StreamId};

/// Removes the first packet of the first nonempty segment, and applies rule A to its stream. Passed
/// segments are collected.
#[inline]
pub(super) fn schedule<M: Memory>(records: &mut Records<M>, now_ns: u64) -> Option<Departure> {
    let packet = records.calendar.take_next(&mut records.memory)?;
    let sent = records.take(packet);
    let head = Head { arrival_ns: sent.arrival_ns, bytes: sent.bytes };
    records.streams.served(StreamId(sent.stream), head, now_ns);
    records.memory.sram(2);
    Some(sent.departure(now_ns, Event::Sent))
}

#[cfg(test)]
mod tests {
    use super::super::receive::Receiver;
    use super::super::records::tests::{SIZES, records};
    use super::*;
    use crate::packet::Packet;

    #[test]
    fn the_first_packet_leaves_with_its_attributes_and_its_stream_is_served() {
        let mut records = records(&[(20, (1, 2), 9), (20, (1, 3), 9)]);
        let mut receiver = Receiver::new(&SIZES);
        for stream in [0, 1] {
            let packet = Packet { bytes: 60 + stream, tag: 5 };
            receiver.receive(&mut records, 4, StreamId(stream), packet).unwrap();
        }
        // 1/3 goes before 1/2.
        let sent = schedule(&mut records, 6).unwrap();
        let expected = Departure {
            time_ns: 6,
            stream: StreamId(1),
            packet: 0,
            bytes: 61,
            arrival_ns: 4,
            deadline_ns: Some(24),
            event: Event::Sent,
            tag: 5,
        };
        assert_eq!(sent, expected);
        assert_eq!([0, 1].map(|of| records.streams.waiting(StreamId(of))), [1, 0]);
        // Rule A: 1/3 is 1/2 after a service.
        let head = Head { arrival_ns: 6, bytes: 1 };
        assert_eq!(records.streams.requested(StreamId(1), head).0.window(), (1, 2));
        assert_eq!(records.streams.requested(StreamId(0), head).0.window(), (1, 2));
        assert_eq!(schedule(&mut records, 6).unwrap().stream, StreamId(0));
        assert_eq!(schedule(&mut records, 6), None);
    }
}
