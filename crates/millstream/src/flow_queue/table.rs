//! A table of the hashes in use: sets of 8 entries, so that a search reads one cache line.

use alloc::vec::Vec;

/// The entries of a set: a hash is looked up in one set only.
const WAYS: u32 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Key {
    hash: u32,
    in_use: bool,
}

/// The hashes of flows or hosts; an entry's number is the number of the flow or host.
#[derive(Debug)]
pub(super) struct HashTable {
    keys: Vec<Key>,
}

impl HashTable {
    /// Returns a table of `entries`, rounded up to a multiple of 8 above 8; at least 1.
    pub(super) fn new(entries: u32) -> Self {
        let entries = entries.max(1);
        let entries = if entries <= WAYS { entries } else { entries.next_multiple_of(WAYS) };
        Self { keys: alloc::vec![Key::default(); entries as usize] }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the entry of a hash: its own, a free one of its set, or one that it shares.
    #[inline]
    pub(super) fn find(&self, hash: u32) -> u32 {
        // Below the number of entries.
        #[allow(clippy::cast_possible_truncation)]
        let first = hash % self.keys.len() as u32;
        let set = first - first % WAYS;
        let mut free = None;
        for (at, key) in (set..).zip(self.keys.iter().skip(set as usize).take(WAYS as usize)) {
            if !key.in_use {
                if at == first || free.is_none() {
                    free = Some(at);
                }
            } else if key.hash == hash {
                return at;
            }
        }
        free.unwrap_or(first)
    }

    #[inline]
    pub(super) fn is_in_use(&self, entry: u32) -> bool {
        self.keys[entry as usize].in_use
    }

    /// Makes an entry belong to `hash`.
    #[inline]
    pub(super) fn occupy(&mut self, entry: u32, hash: u32) {
        self.keys[entry as usize] = Key { hash, in_use: true };
    }

    /// Frees an entry.
    #[inline]
    pub(super) fn release(&mut self, entry: u32) {
        self.keys[entry as usize].in_use = false;
    }
}
