//! Descriptors of waiting packets; the calendar holds their numbers.

use alloc::vec;
use alloc::vec::Vec;

use super::free_list::FreeList;
use crate::packet::{Departure, Event, StreamId};

/// No packet.
pub(super) const END: u32 = u32::MAX;

/// A waiting packet, or a drop that is not yet reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) stream: u32,
    pub(super) bytes: u32,
    pub(super) packet: u64,
    pub(super) arrival_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) tag: u64,
    /// For a dropped packet: 1 if its miss was a violation.
    pub(super) violations: u64,
    /// For a dropped packet: the packet dropped after it.
    pub(super) next: u32,
}

impl Descriptor {
    /// Returns the departure of the packet.
    pub(super) fn departure(&self, time_ns: u64, event: Event) -> Departure {
        Departure {
            time_ns,
            stream: StreamId(self.stream),
            packet: self.packet,
            bytes: self.bytes,
            arrival_ns: self.arrival_ns,
            deadline_ns: Some(self.deadline_ns),
            event,
            tag: self.tag,
        }
    }
}

/// Every descriptor.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    descriptors: Vec<Descriptor>,
    free: FreeList,
}

impl Packets {
    pub(super) fn new(packets: u32) -> Self {
        let descriptors = vec![Descriptor::default(); packets as usize];
        Self { descriptors, free: FreeList::new(0, packets) }
    }

    /// Returns how many descriptors are stored.
    pub(super) fn len(&self) -> u64 {
        (self.descriptors.len() - self.free.len()) as u64
    }

    /// Stores a descriptor; `None` if none is free.
    #[inline]
    pub(super) fn put(&mut self, descriptor: Descriptor) -> Option<u32> {
        let at = self.free.take()?;
        self.descriptors[at as usize] = descriptor;
        Some(at)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Descriptor {
        &mut self.descriptors[at as usize]
    }

    /// Removes and returns a descriptor.
    #[inline]
    pub(super) fn take(&mut self, at: u32) -> Descriptor {
        self.free.put(at);
        self.descriptors[at as usize]
    }
}
