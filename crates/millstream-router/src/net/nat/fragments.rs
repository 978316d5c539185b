//! Fragments of translated packets: only the first fragment has ports, and later ones follow it.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Fragmented packets tracked at once; a new one replaces the oldest.
const MAX_ENTRIES: usize = 256;
/// Lifetime of an entry, ns.
const EXPIRY_NS: u64 = 30_000_000_000;

/// Key of the fragments of one packet: source, destination, protocol, identification.
pub(super) type FragmentKey = (Ipv4Addr, Ipv4Addr, u8, u16);

/// Fields to write into each fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Translation {
    /// Replaces the address of the translated end.
    pub(super) to: Ipv4Addr,
    pub(super) identification: u16,
}

/// Translations of packets whose first fragment has passed.
#[derive(Debug)]
pub(super) struct Fragments {
    known: HashMap<FragmentKey, (Translation, u64)>,
    /// Keys in insertion order, as a ring.
    ring: Vec<Option<FragmentKey>>,
    next: usize,
}

impl Fragments {
    pub(super) fn new() -> Self {
        // Twice the capacity prevents rehashing.
        Self {
            known: HashMap::with_capacity(2 * MAX_ENTRIES),
            ring: vec![None; MAX_ENTRIES],
            next: 0,
        }
    }

    /// Returns the translation of `key` unless it has expired.
    pub(super) fn get(&self, key: &FragmentKey, now_ns: u64) -> Option<Translation> {
        let (translation, first_ns) = self.known.get(key)?;
        (now_ns.saturating_sub(*first_ns) <= EXPIRY_NS).then_some(*translation)
    }

    /// Adds the translation of a packet whose first fragment has passed.
    pub(super) fn insert(&mut self, key: FragmentKey, translation: Translation, now_ns: u64) {
        if self.known.insert(key, (translation, now_ns)).is_some() {
            return;
        }
        if let Some(oldest) = self.ring[self.next].replace(key) {
            self.known.remove(&oldest);
        }
        self.next = (self.next + 1) % MAX_ENTRIES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u16) -> FragmentKey {
        (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 17, number)
    }

    #[test]
    fn the_last_256_entries_expire_after_30_s() {
        let mut fragments = Fragments::new();
        let translation = |identification| Translation { to: Ipv4Addr::LOCALHOST, identification };
        for number in 0..1_000 {
            fragments.insert(key(number), translation(number), 0);
            // A repeated first fragment takes no second entry.
            fragments.insert(key(number), translation(number + 1), 0);
        }
        for number in 0..1_000 {
            let expected = (number >= 1_000 - 256).then(|| translation(number + 1));
            assert_eq!(fragments.get(&key(number), EXPIRY_NS), expected, "{number}");
            assert_eq!(fragments.get(&key(number), EXPIRY_NS + 1), None);
        }
        assert_eq!((fragments.known.len(), fragments.ring.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }
}
