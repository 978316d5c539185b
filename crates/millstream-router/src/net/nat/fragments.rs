//! Packets that come in parts: only the first part has ports, the others go where it went.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Packets whose later parts are known at once; the oldest makes room.
const MOST: usize = 256;
/// How long later parts may take, ns.
const PATIENCE_NS: u64 = 30_000_000_000;

/// What the parts of a packet have in common, as they come: source, destination, protocol, identification.
pub(super) type Whole = (Ipv4Addr, Ipv4Addr, u8, u16);

/// What is written into each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// In place of the end that is translated.
    pub(super) to: Ipv4Addr,
    pub(super) identification: u16,
}

/// Translations of packets whose first part has come.
#[derive(Debug)]
pub(super) struct Parts {
    known: HashMap<Whole, (Change, u64)>,
    /// In the order in which they came, round.
    ring: Vec<Option<Whole>>,
    next: usize,
}

impl Parts {
    pub(super) fn new() -> Self {
        // With twice the room, the table never grows again.
        Self { known: HashMap::with_capacity(2 * MOST), ring: vec![None; MOST], next: 0 }
    }

    /// What is done to the parts of `whole`, if the first has come.
    pub(super) fn of(&self, whole: &Whole, now_ns: u64) -> Option<Change> {
        let (change, first_ns) = self.known.get(whole)?;
        (now_ns.saturating_sub(*first_ns) <= PATIENCE_NS).then_some(*change)
    }

    /// The first part of `whole` has come.
    pub(super) fn learn(&mut self, whole: Whole, change: Change, now_ns: u64) {
        if self.known.insert(whole, (change, now_ns)).is_some() {
            return;
        }
        if let Some(oldest) = self.ring[self.next].replace(whole) {
            self.known.remove(&oldest);
        }
        self.next = (self.next + 1) % MOST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(number: u16) -> Whole {
        (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 17, number)
    }

    #[test]
    fn the_last_ones_are_known_for_a_while() {
        let mut parts = Parts::new();
        let change = |identification| Change { to: Ipv4Addr::LOCALHOST, identification };
        for number in 0..1_000 {
            parts.learn(whole(number), change(number), 0);
            // The same first part again takes no room.
            parts.learn(whole(number), change(number + 1), 0);
        }
        for number in 0..1_000 {
            let expected = (number >= 1_000 - 256).then(|| change(number + 1));
            assert_eq!(parts.of(&whole(number), PATIENCE_NS), expected, "{number}");
            assert_eq!(parts.of(&whole(number), PATIENCE_NS + 1), None);
        }
        assert_eq!((parts.known.len(), parts.ring.len()), (MOST, MOST));
    }
}
