//! The garbage collection stage: drops the packets in passed segments, which are late (section
//! 5.4.3).
//!
//! Arrivals and decisions collect the segments that have passed, so that an arrival's slot matches
//! its stream's current window. With a delay ([`Sizes::collect_delay_ns`](super::Sizes)) they leave
//! a segment alone for this time, as a concurrent collector does. Drops are reported at the next
//! decision and count as waiting until then.

use super::memory::Memory;
use super::packets::END;
use super::records::Records;
use crate::packet::{Event, StreamId};
use crate::selector::Observer;

/// Drops that are not yet reported, in order: a list through their descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collector {
    first: u32,
    last: u32,
}

impl Collector {
    pub(super) const fn new() -> Self {
        Self { first: END, last: END }
    }

    /// Advances time to `now_ns` and collects the segments that have passed.
    #[inline]
    pub(super) fn collect<M: Memory>(&mut self, records: &mut Records<M>, now_ns: u64) {
        let Records { streams, packets, calendar, memory } = records;
        calendar.advance(now_ns, memory, |packet, memory| {
            let descriptor = packets.get_mut(packet);
            descriptor.violations = streams.missed(StreamId(descriptor.stream), now_ns);
            memory.sram(2);
            match self.last {
                END => self.first = packet,
                last => packets.get_mut(last).next = packet,
            }
            self.last = packet;
        });
    }

    /// Reports the dropped packets.
    #[inline]
    pub(super) fn report<M>(
        &mut self,
        records: &mut Records<M>,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) {
        while self.first != END {
            let dropped = records.take(self.first);
            self.first = dropped.next;
            observer.missed(StreamId(dropped.stream), now_ns, 1, dropped.violations);
            observer.dropped(&dropped.departure(now_ns, Event::DroppedLate));
        }
        self.last = END;
    }
}

#[cfg(test)]
mod tests {
    use super::super::receive::Receiver;
    use super::super::records::tests::{SIZES, records};
    use super::*;
    use crate::packet::{Departure, Packet};
    use alloc::vec::Vec;

    /// Misses and drops in order.
    #[derive(Default)]
    struct Heard {
        missed: Vec<(StreamId, u64, u64, u64)>,
        dropped: Vec<Departure>,
    }

    impl Observer for Heard {
        fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
            self.missed.push((stream, now_ns, missed, violations));
        }

        fn dropped(&mut self, departure: &Departure) {
            self.dropped.push(*departure);
        }
    }

    #[test]
    fn drops_wait_for_their_report_which_is_in_the_order_of_collection() {
        let mut records = records(&[(20, (0, 1), 9), (10, (1, 2), 9)]);
        let (mut receiver, mut collector) = (Receiver::new(&SIZES), Collector::new());
        for stream in [0, 1, 1] {
            let packet = Packet { bytes: 100 + stream, tag: 7 };
            receiver.receive(&mut records, 5, StreamId(stream), packet).unwrap();
        }
        // Deadlines are 25 ns, and 15 and 25 ns.
        collector.collect(&mut records, 20);
        collector.collect(&mut records, 39);
        let waiting = |records: &crate::hilq::records::Records<_>| {
            [0, 1].map(|stream| records.streams.waiting(StreamId(stream)))
        };
        assert_eq!((waiting(&records), records.packets.len()), ([1, 2], 3));
        assert_eq!(records.calendar.take_next(&mut ()), None);
        let mut heard = Heard::default();
        collector.report(&mut records, 40, &mut heard);
        assert_eq!((waiting(&records), records.packets.len()), ([0, 0], 0));
        // x' of stream 0 is 0; stream 1 may lose one of two.
        let missed = [(1, 0), (0, 1), (1, 1)];
        assert_eq!(heard.missed, missed.map(|(of, violated)| (StreamId(of), 40, 1, violated)));
        let dropped: Vec<_> = (heard.dropped.iter())
            .map(|of| (of.stream.0, of.packet, of.bytes, of.arrival_ns, of.deadline_ns, of.tag))
            .collect();
        assert_eq!(
            dropped,
            [(1, 0, 101, 5, Some(15), 7), (0, 0, 100, 5, Some(25), 7), (1, 1, 101, 5, Some(25), 7)]
        );
        assert!(heard.dropped.iter().all(|of| (of.time_ns, of.event) == (40, Event::DroppedLate)));
        collector.report(&mut records, 41, &mut heard);
        assert_eq!((heard.missed.len(), heard.dropped.len()), (3, 3), "reported once");
    }
}
