//! The records in memory that the three stages share.

use super::calendar::Calendar;
use super::packets::{Descriptor, Packets};
use super::sizes::Sizes;
use super::streams::Streams;
use crate::discipline::DwcsOptions;
use crate::packet::StreamId;

/// Streams, packets and the calendar. `M` counts the accesses to them.
#[derive(Clone, Debug)]
pub(super) struct Records<M> {
    pub(super) streams: Streams,
    pub(super) packets: Packets,
    pub(super) calendar: Calendar,
    pub(super) memory: M,
}

impl<M> Records<M> {
    /// Returns records without streams and packets.
    pub(super) fn new(options: DwcsOptions, sizes: &Sizes, memory: M) -> Self {
        Self {
            streams: Streams::new(options),
            packets: Packets::new(sizes.packets),
            calendar: Calendar::new(sizes),
            memory,
        }
    }

    /// Removes the descriptor of a packet and counts its departure.
    #[inline]
    pub(super) fn take(&mut self, packet: u32) -> Descriptor {
        let descriptor = self.packets.take(packet);
        self.streams.departed(StreamId(descriptor.stream));
        descriptor
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contract::{Contract, Late, Window};
    use crate::hilq::memory::Accesses;

    /// Four segments of 10 ns, memory for three packets.
    pub(crate) const SIZES: Sizes = Sizes {
        segments: 4,
        segment_ns: 10,
        basic_queues: 3,
        basic_packets: 2,
        extended_queues: 0,
        packets: 3,
        ..Sizes::PAPER
    };

    /// Records of streams with these periods, windows and queue limits.
    pub(crate) fn records(streams: &[(u64, (u32, u32), u32)]) -> Records<Accesses> {
        records_of(&SIZES, streams)
    }

    pub(crate) fn records_of(
        sizes: &Sizes,
        streams: &[(u64, (u32, u32), u32)],
    ) -> Records<Accesses> {
        let mut records = Records::new(DwcsOptions::default(), sizes, Accesses::default());
        for &(period_ns, (lost, of), limit) in streams {
            let contract = Contract::new().period_ns(period_ns).unwrap().late(Late::Drop);
            let contract = contract.window(Window::new(lost, of).unwrap()).queue(limit);
            records.streams.add(&contract).unwrap();
        }
        records
    }
}
