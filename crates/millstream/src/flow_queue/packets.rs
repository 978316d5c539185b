//! The packets of the queues of a stream: linked lists in one allocation, which is reused.

use alloc::vec::Vec;

use super::FlowPacket;
use crate::aqm::{Backlog, Candidate};

/// End of a list.
pub(super) const END: u32 = u32::MAX;

/// A queue of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketList {
    head: u32,
    tail: u32,
    backlog: Backlog,
}

impl PacketList {
    /// A queue without packets.
    pub(super) const EMPTY: Self =
        Self { head: END, tail: END, backlog: Backlog { packets: 0, bytes: 0 } };

    #[inline]
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == END
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: FlowPacket,
    next: u32,
    mark: bool,
}

/// The packets of all queues of a stream.
#[derive(Debug)]
pub(super) struct Packets {
    entries: Vec<Entry>,
    /// The first of the free entries.
    free: u32,
    backlog: Backlog,
    largest_bytes: u32,
}

impl Packets {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), free: END, backlog: Backlog::default(), largest_bytes: 0 }
    }

    /// Allocates memory for `packets` packets.
    pub(super) fn reserve(&mut self, packets: usize) {
        self.entries.reserve(packets.saturating_sub(self.entries.len()));
    }

    /// Returns the packets in all queues.
    #[inline]
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Returns the largest packet that was ever appended, bytes.
    #[inline]
    pub(super) fn largest_bytes(&self) -> u32 {
        self.largest_bytes
    }

    /// Appends a packet; `mark`: it must be marked when it leaves.
    #[inline]
    pub(super) fn push(&mut self, list: &mut PacketList, packet: FlowPacket, mark: bool) {
        let entry = Entry { packet, next: END, mark };
        let place = if self.free == END {
            // At most the limit of packets and one, which are below END.
            #[allow(clippy::cast_possible_truncation)]
            let place = self.entries.len() as u32;
            self.entries.push(entry);
            place
        } else {
            let place = self.free;
            self.free = self.entries[place as usize].next;
            self.entries[place as usize] = entry;
            place
        };
        if list.head == END {
            list.head = place;
        } else {
            self.entries[list.tail as usize].next = place;
        }
        list.tail = place;
        let bytes = packet.packet.bytes;
        for backlog in [&mut list.backlog, &mut self.backlog] {
            backlog.packets += 1;
            backlog.bytes += u64::from(bytes);
        }
        self.largest_bytes = self.largest_bytes.max(bytes);
    }

    /// Removes the first packet of a queue; returns it and whether it must be marked.
    #[inline]
    pub(super) fn pop(&mut self, list: &mut PacketList) -> Option<(FlowPacket, bool)> {
        let place = list.head;
        if place == END {
            return None;
        }
        let entry = &mut self.entries[place as usize];
        let (packet, mark) = (entry.packet, entry.mark);
        list.head = entry.next;
        entry.next = self.free;
        self.free = place;
        for backlog in [&mut list.backlog, &mut self.backlog] {
            backlog.packets -= 1;
            backlog.bytes -= u64::from(packet.packet.bytes);
        }
        Some((packet, mark))
    }

    /// Returns the first packet of a queue.
    #[inline]
    pub(super) fn first(&self, list: &PacketList) -> Option<&FlowPacket> {
        (list.head != END).then(|| &self.entries[list.head as usize].packet)
    }

    /// Returns the first packet of a queue as queue management sees it at `now_ns`.
    #[inline]
    pub(super) fn candidate(&self, list: &PacketList, now_ns: u64) -> Option<Candidate> {
        let FlowPacket { packet, arrival_ns, ecn, .. } = self.first(list)?;
        Some(Candidate {
            sojourn_ns: now_ns.saturating_sub(*arrival_ns),
            backlog_bytes: self.backlog.bytes - u64::from(packet.bytes),
            is_last: list.backlog.packets == 1,
            can_mark: ecn.is_capable(),
            largest_bytes: self.largest_bytes,
        })
    }
}
