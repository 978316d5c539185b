//! Packets that wait until a neighbour's hardware address is known, bounded for each neighbour and in all.
//! Source: RFC 1122 section 2.3.2.2, RFC 4861 section 7.2.2.

use crate::net::neighbours::NeighbourKey;

/// The limit packets that wait for one neighbour.
const MAX_PER_NEIGHBOUR: usize = 32;
/// The limit that wait in all.
const MAX_PENDING: usize = 256;
/// Of all buffers, at limit one in so many holds a packet that waits.
const BUFFER_SHARE: usize = 8;

/// All packets that wait, in the order in which they came.
#[derive(Debug)]
pub(crate) struct PendingNeighbours {
    limit: usize,
    /// For whom, the path, and the packet.
    waiting: Vec<(NeighbourKey, usize, u64)>,
    /// Paths and packets that wait no more.
    released: Vec<(usize, u64)>,
}

impl PendingNeighbours {
    /// Nothing waits; there are so many buffers.
    pub(crate) fn new(buffers: usize) -> Self {
        let limit = MAX_PENDING.min(buffers / BUFFER_SHARE);
        Self { limit, waiting: Vec::new(), released: Vec::new() }
    }

    /// A packet of `path` waits from now on; `false` if there is no room for it.
    pub(crate) fn hold(&mut self, neighbour: NeighbourKey, path: usize, packet: u64) -> bool {
        let same = self.waiting.iter().filter(|entry| entry.0 == neighbour).count();
        let fits =
            same < MAX_PER_NEIGHBOUR && self.waiting.len() + self.released.len() < self.limit;
        if fits {
            self.waiting.push((neighbour, path, packet));
        }
        fits
    }

    /// Those that wait for a neighbour of which `done` holds wait no more.
    pub(crate) fn release(&mut self, mut done: impl FnMut(NeighbourKey) -> bool) {
        let released = self.waiting.extract_if(.., |entry| done(entry.0));
        self.released.extend(released.map(|(_, path, packet)| (path, packet)));
    }

    /// Each neighbour that packets wait for, once.
    pub(crate) fn neighbours(&self) -> Vec<NeighbourKey> {
        let mut neighbours: Vec<_> = self.waiting.iter().map(|entry| entry.0).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    /// Whether packets wait for a neighbour.
    #[inline]
    pub(crate) fn has_packets(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Paths and packets that wait no more, once.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut Vec<(usize, u64)>) {
        into.append(&mut self.released);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_waits_is_bounded_and_comes_back_in_order() {
        let mut pending = PendingNeighbours::new(1 << 20);
        let host = |k: usize| (0, Ipv4Addr::from_bits(u32::try_from(k).unwrap()).into());
        for packet in 0..MAX_PER_NEIGHBOUR as u64 {
            assert!(pending.hold(host(1), 3, packet));
        }
        assert!(!pending.hold(host(1), 3, 99), "too many for one neighbour");
        let more = (2..1_000).filter(|k| pending.hold(host(*k), 4, 100)).count();
        assert_eq!(more, MAX_PENDING - MAX_PER_NEIGHBOUR);
        assert_eq!(pending.neighbours().len(), 1 + more);
        pending.release(|neighbour| neighbour == host(1));
        let mut back = Vec::new();
        pending.take(&mut back);
        assert_eq!(
            back,
            (0..MAX_PER_NEIGHBOUR as u64).map(|packet| (3, packet)).collect::<Vec<_>>()
        );
        pending.take(&mut back);
        assert_eq!(back.len(), MAX_PER_NEIGHBOUR, "once");
        assert!(!PendingNeighbours::new(7).hold(host(1), 0, 0), "buffers are for other packets");
    }
}
