//! An arena of the packets in the fabric.

use millstream::prefetch::prefetch;

use super::traffic::Injection;

pub(crate) const NONE: u32 = u32::MAX;

/// A packet in transit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketState {
    pub(crate) injected_ns: u64,
    /// Earliest time at which its last byte can leave the current switch, ns.
    pub(crate) tail_ns: u64,
    pub(crate) bytes: u32,
    pub(crate) source: u32,
    pub(crate) destination: u32,
    /// Number of its connection at the source.
    pub(crate) connection: u32,
    /// Number of the packet at its source; wraps around.
    pub(crate) number: u32,
    /// The packet behind it in a switch queue, or the next slot of the free list.
    next: u32,
    pub(crate) class: u8,
    /// Virtual channel on the link that it arrived on.
    pub(crate) channel: u8,
}

/// An arena of packets; freed slots are reused.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    packets: Vec<PacketState>,
    free: Option<u32>,
    alive: usize,
}

impl Packets {
    /// Inserts packet `number` of `source`; returns its slot.
    #[inline]
    pub(crate) fn insert(&mut self, source: u32, number: u32, injection: &Injection) -> u32 {
        let packet = PacketState {
            injected_ns: injection.time_ns,
            tail_ns: 0,
            bytes: injection.bytes,
            source,
            destination: injection.destination,
            connection: injection.connection,
            number,
            next: NONE,
            class: injection.class,
            channel: 0,
        };
        self.insert_state(packet)
    }

    /// Inserts a copy of a packet with another destination; returns its slot.
    pub(crate) fn copy(&mut self, slot: u32, destination: u32) -> u32 {
        let packet = PacketState { destination, next: NONE, ..*self.get(slot) };
        self.insert_state(packet)
    }

    /// Inserts a packet; returns its slot.
    #[inline]
    pub(crate) fn insert_state(&mut self, packet: PacketState) -> u32 {
        self.alive += 1;
        if let Some(slot) = self.free {
            let next = self.packets[slot as usize].next;
            self.free = (next != NONE).then_some(next);
            self.packets[slot as usize] = packet;
            return slot;
        }
        self.packets.push(packet);
        u32::try_from(self.packets.len() - 1).expect("fewer than 2^32 packets are in transit")
    }

    /// Removes a packet that has left the fabric and frees its slot.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        self.alive -= 1;
        self.packets[slot as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(slot);
    }

    /// Returns the number of packets that wait at end-points or are in the fabric.
    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    /// Prefetches the packet in `slot`.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.packets, slot as usize);
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &PacketState {
        &self.packets[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut PacketState {
        &mut self.packets[slot as usize]
    }
}

/// A queue of packets, linked through the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: u32, packets: &mut Packets) {
        packets.get_mut(slot).next = NONE;
        if self.head == NONE {
            self.head = slot;
        } else {
            packets.get_mut(self.tail).next = slot;
        }
        self.tail = slot;
    }

    #[inline]
    pub(crate) fn pop(&mut self, packets: &Packets) -> Option<u32> {
        let slot = self.head()?;
        self.head = packets.get(slot).next;
        Some(slot)
    }
}
