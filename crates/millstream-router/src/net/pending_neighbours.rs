//! Packets that wait until a neighbour's hardware address is known, bounded for each neighbour and in all.
//! Source: RFC 1122 section 2.3.2.2, RFC 4861 section 7.2.2.

use std::net::IpAddr;

/// The most packets that wait for one neighbour.
const EACH: usize = 32;
/// The most that wait in all.
const MOST: usize = 256;
/// Of all buffers, at most one in so many holds a packet that waits.
const BUFFERS: usize = 8;

/// Port and address of a neighbour.
pub(crate) type Neighbour = (usize, IpAddr);

/// All packets that wait, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Held {
    most: usize,
    /// For whom, the path, and the packet.
    waiting: Vec<(Neighbour, usize, u64)>,
    /// Paths and packets that wait no more.
    released: Vec<(usize, u64)>,
}

impl Held {
    /// Nothing waits; there are so many buffers.
    pub(crate) fn new(buffers: usize) -> Self {
        let most = MOST.min(buffers / BUFFERS);
        Self { most, waiting: Vec::new(), released: Vec::new() }
    }

    /// A packet of `path` waits from now on; `false` if there is no room for it.
    pub(crate) fn hold(&mut self, neighbour: Neighbour, path: usize, packet: u64) -> bool {
        let same = self.waiting.iter().filter(|of| of.0 == neighbour).count();
        let fits = same < EACH && self.waiting.len() + self.released.len() < self.most;
        if fits {
            self.waiting.push((neighbour, path, packet));
        }
        fits
    }

    /// Those that wait for a neighbour of which `done` holds wait no more.
    pub(crate) fn release(&mut self, mut done: impl FnMut(Neighbour) -> bool) {
        let released = self.waiting.extract_if(.., |of| done(of.0));
        self.released.extend(released.map(|(_, path, packet)| (path, packet)));
    }

    /// Each neighbour that packets wait for, once.
    pub(crate) fn neighbours(&self) -> Vec<Neighbour> {
        let mut neighbours: Vec<_> = self.waiting.iter().map(|of| of.0).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    /// Whether packets wait for a neighbour.
    #[inline]
    pub(crate) fn any(&self) -> bool {
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
        let mut held = Held::new(1 << 20);
        let host = |k: usize| (0, Ipv4Addr::from_bits(u32::try_from(k).unwrap()).into());
        for packet in 0..EACH as u64 {
            assert!(held.hold(host(1), 3, packet));
        }
        assert!(!held.hold(host(1), 3, 99), "too many for one neighbour");
        let more = (2..1_000).filter(|k| held.hold(host(*k), 4, 100)).count();
        assert_eq!(more, MOST - EACH);
        assert_eq!(held.neighbours().len(), 1 + more);
        held.release(|neighbour| neighbour == host(1));
        let mut back = Vec::new();
        held.take(&mut back);
        assert_eq!(back, (0..EACH as u64).map(|packet| (3, packet)).collect::<Vec<_>>());
        held.take(&mut back);
        assert_eq!(back.len(), EACH, "once");
        assert!(!Held::new(7).hold(host(1), 0, 0), "buffers are for other packets");
    }
}
