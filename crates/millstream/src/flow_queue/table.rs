//! A table of the hashes in use: sets of 8 entries, so that a search reads one cache line.

use alloc::vec::Vec;

/// The entries of a set: a hash is looked up in one set only.
const WAYS: u32 = 8;

/// The entries of a set, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    hashes: [u32; WAYS as usize],
    /// The entries that are in use: the bit of each.
    in_use: u8,
}

/// The hashes of flows or hosts; an entry's number is the number of the flow or host.
#[derive(Debug)]
pub(super) struct HashTable {
    sets: Vec<Set>,
    entries: u32,
    /// The entries of a set that exist: the bit of each.
    ways: u8,
}

impl HashTable {
    /// Returns a table of `entries`, rounded up to a multiple of 8 above 8; at least 1.
    pub(super) fn new(entries: u32) -> Self {
        let entries = entries.max(1);
        let entries = if entries <= WAYS { entries } else { entries.next_multiple_of(WAYS) };
        let ways = u8::MAX >> (WAYS - entries.min(WAYS));
        let sets = entries.div_ceil(WAYS) as usize;
        Self { sets: alloc::vec![Set::default(); sets], entries, ways }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries as usize
    }

    /// Returns the entry of a hash: its own, a free one of its set, or one that it shares.
    #[inline]
    pub(super) fn find(&self, hash: u32) -> u32 {
        // Saves a division at the usual sizes.
        let first = if self.entries.is_power_of_two() {
            hash & (self.entries - 1)
        } else {
            hash % self.entries
        };
        let (start, own) = (first - first % WAYS, first % WAYS);
        let set = &self.sets[(first / WAYS) as usize];
        if set.in_use >> own & 1 == 1 && set.hashes[own as usize] == hash {
            return first;
        }
        let ways = set.hashes.iter().zip(0u32..);
        let same = ways.fold(0, |same, (of, way)| same | u8::from(*of == hash) << way);
        let free = !set.in_use & self.ways;
        match () {
            () if same & set.in_use != 0 => start + (same & set.in_use).trailing_zeros(),
            () if free >> own & 1 == 1 || free == 0 => first,
            () => start + free.trailing_zeros(),
        }
    }

    #[inline]
    pub(super) fn is_in_use(&self, entry: u32) -> bool {
        self.sets[(entry / WAYS) as usize].in_use >> (entry % WAYS) & 1 == 1
    }

    /// Makes an entry belong to `hash`.
    #[inline]
    pub(super) fn occupy(&mut self, entry: u32, hash: u32) {
        let set = &mut self.sets[(entry / WAYS) as usize];
        set.hashes[(entry % WAYS) as usize] = hash;
        set.in_use |= 1 << (entry % WAYS);
    }

    /// Frees an entry.
    #[inline]
    pub(super) fn release(&mut self, entry: u32) {
        self.sets[(entry / WAYS) as usize].in_use &= !(1 << (entry % WAYS));
    }
}
