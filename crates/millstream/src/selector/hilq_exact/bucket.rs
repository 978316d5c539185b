//! A bucket: a few streams with close deadlines.

/// The capacity of a bucket in streams. With the count they fill half a cache line. One less than a
/// power of two, so it is also a mask.
const ROOM: usize = 7;

/// Bits of the number of streams, which is at most [`ROOM`].
const LEN_BITS: u32 = 3;

/// The unordered streams of one bucket, after a word with their count and the bucket's chain.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Bucket([u32; ROOM + 1]);

impl Bucket {
    pub(super) const EMPTY: Self = Self([0; ROOM + 1]);

    /// Returns the number of streams, without those of the chain.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.0[0] as usize & ROOM
    }

    /// Returns whether the bucket itself can hold one more stream.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len() < ROOM
    }

    /// Returns the chain of streams that overflowed the bucket.
    #[inline(always)]
    pub(super) fn chain(&self) -> u32 {
        self.0[0] >> LEN_BITS
    }

    #[inline]
    pub(super) fn set_chain(&mut self, chain: u32) {
        self.0[0] = chain << LEN_BITS | (self.0[0] % (1 << LEN_BITS));
    }

    /// Returns whether the bucket or its chain holds a stream.
    #[inline(always)]
    pub(super) fn in_use(&self) -> bool {
        self.0[0] != 0
    }

    /// Returns the stream at `slot`, which is below the length. The mask removes the bounds check.
    #[inline(always)]
    pub(super) fn at(&self, slot: usize) -> u32 {
        self.0[(slot + 1) & ROOM]
    }

    #[inline(always)]
    pub(super) fn push(&mut self, stream: u32) {
        self.0[0] += 1;
        self.0[self.len() & ROOM] = stream;
    }

    /// Removes a stream of the bucket.
    pub(super) fn remove(&mut self, stream: u32) {
        let slot = self.streams().position(|other| other == stream).unwrap_or(0);
        let last = self.0[self.len() & ROOM];
        self.0[0] -= 1;
        self.0[(slot + 1) & ROOM] = last;
    }

    /// Empties the bucket. Its chain must be kept by the caller.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.0[0] = 0;
    }

    #[inline(always)]
    pub(super) fn streams(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).map(|slot| self.at(slot))
    }
}
