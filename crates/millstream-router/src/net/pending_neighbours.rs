//! Queue of packets that wait for neighbour resolution, bounded per neighbour and in all.
//!
//! Source: RFC 1122 section 2.3.2.2, RFC 4861 section 7.2.2.
use crate::ids::{PacketHandle, PathId};
use crate::net::neighbours::NeighbourKey;

/// Packets per neighbour, at most.
const MAX_PER_NEIGHBOUR: usize = 32;
/// Packets in all, at most.
const MAX_PENDING: usize = 256;
/// At most one buffer in this many holds a pending packet.
const BUFFER_SHARE: usize = 8;

/// The pending packets, in arrival order.
#[derive(Debug)]
pub(crate) struct PendingNeighbours {
    limit: usize,
    /// Neighbour, path and packet.
    waiting: Vec<(NeighbourKey, PathId, PacketHandle)>,
    /// Path and packet of packets to forward.
    released: Vec<(PathId, PacketHandle)>,
}

impl PendingNeighbours {
    /// Creates an empty queue for a router with `buffers` buffers.
    pub(crate) fn new(buffers: usize) -> Self {
        let limit = MAX_PENDING.min(buffers / BUFFER_SHARE);
        Self { limit, waiting: Vec::new(), released: Vec::new() }
    }

    /// Queues a packet of `path`; returns `false` if the queue is full.
    pub(crate) fn hold(
        &mut self,
        neighbour: NeighbourKey,
        path: PathId,
        packet: PacketHandle,
    ) -> bool {
        let same = self.waiting.iter().filter(|entry| entry.0 == neighbour).count();
        let fits =
            same < MAX_PER_NEIGHBOUR && self.waiting.len() + self.released.len() < self.limit;
        if fits {
            self.waiting.push((neighbour, path, packet));
        }
        fits
    }

    /// Releases the packets of neighbours for which `done` returns true.
    pub(crate) fn release(&mut self, mut done: impl FnMut(NeighbourKey) -> bool) {
        let released = self.waiting.extract_if(.., |entry| done(entry.0));
        self.released.extend(released.map(|(_, path, packet)| (path, packet)));
    }

    /// Returns the neighbours that packets wait for, without duplicates.
    pub(crate) fn neighbours(&self) -> Vec<NeighbourKey> {
        let mut neighbours: Vec<_> = self.waiting.iter().map(|entry| entry.0).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    /// Returns whether packets wait.
    #[inline]
    pub(crate) fn has_packets(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Moves the released packets, with their paths, to `into`.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut Vec<(PathId, PacketHandle)>) {
        into.append(&mut self.released);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PortId;
    use std::net::Ipv4Addr;

    #[test]
    fn pending_packets_are_bounded_and_released_in_order() {
        let mut pending = PendingNeighbours::new(1 << 20);
        let host = |k: usize| (PortId(0), Ipv4Addr::from_bits(u32::try_from(k).unwrap()).into());
        let packets = || (0..MAX_PER_NEIGHBOUR as u64).map(PacketHandle::from_bits);
        let other = PacketHandle::from_bits(99);
        for packet in packets() {
            assert!(pending.hold(host(1), PathId(3), packet));
        }
        assert!(!pending.hold(host(1), PathId(3), other), "too many for one neighbour");
        let more = (2..1_000).filter(|k| pending.hold(host(*k), PathId(4), other)).count();
        assert_eq!(more, MAX_PENDING - MAX_PER_NEIGHBOUR);
        assert_eq!(pending.neighbours().len(), 1 + more);
        pending.release(|neighbour| neighbour == host(1));
        let mut back = Vec::new();
        pending.take(&mut back);
        assert!(back.iter().copied().eq(packets().map(|packet| (PathId(3), packet))));
        pending.take(&mut back);
        assert_eq!(back.len(), MAX_PER_NEIGHBOUR, "released once");
        assert!(
            !PendingNeighbours::new(7).hold(host(1), PathId(0), other),
            "one eighth of the buffers"
        );
    }
}
