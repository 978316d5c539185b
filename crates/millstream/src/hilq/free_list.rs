//! Free lists of array entries. Allocation and release are O(1).

use alloc::vec::Vec;

/// The free entries among those numbered `from..from + count`.
#[derive(Clone, Debug)]
pub(super) struct FreeList(Vec<u32>);

impl FreeList {
    /// Returns a list of all entries; the lowest is allocated first.
    pub(super) fn new(from: u32, count: u32) -> Self {
        Self((from..from + count).rev().collect())
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        self.0.pop()
    }

    /// Releases an allocated entry.
    #[inline]
    pub(super) fn put(&mut self, entry: u32) {
        self.0.push(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
