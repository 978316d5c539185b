//! The front of a calendar queue: its first streams in order.
//!
//! An entry holds a distance from `origin`, signed, above the bits of the stream's number. So one
//! comparison of integers orders two streams by distance, then by number.

use alloc::vec::Vec;

/// The maximum sum of the bits of a bucket's width and of a stream's number: an entry holds both,
/// with a sign.
pub(crate) const ENTRY_BITS: u32 = 62;

/// The number of entries that are appended at once.
pub(crate) const APPENDED: usize = 8;

/// The maximum number of streams with which another one is inserted.
const INSERTED: usize = 32;

/// The number of served entries from which they are removed.
const SERVED: usize = 64;

/// The number of entries that the smaller network sorts.
const FEW: usize = 4;

/// The first streams in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Front {
    /// Entries before `begin` were served.
    entries: Vec<i64>,
    begin: usize,
    /// The entries from `begin` to this one have equal distances, ordered by another key.
    ordered_end: usize,
    origin: u64,
    stream_bits: u32,
    stream_mask: u32,
}

impl Front {
    /// Makes it an empty front of streams with numbers below `streams`.
    pub(crate) fn set_streams(&mut self, streams: usize) {
        self.clear();
        let bits = streams.next_power_of_two().ilog2().min(32);
        self.stream_bits = bits;
        self.stream_mask = u32::MAX.checked_shr(32 - bits).unwrap_or(0);
    }

    /// Allocates memory for [`INSERTED`] streams and `more` that are appended.
    pub(crate) fn reserve(&mut self, more: usize) {
        let entries = SERVED + INSERTED + APPENDED + more;
        self.entries.reserve(entries.saturating_sub(self.entries.len()));
    }

    /// Returns the bits of a stream's number.
    pub(crate) fn stream_bits(&self) -> u32 {
        self.stream_bits
    }

    /// Returns the stream of an entry.
    #[inline(always)]
    pub(crate) fn stream(&self, entry: i64) -> u32 {
        // The low bits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let low = entry as u32;
        low & self.stream_mask
    }

    /// Returns the distance of an entry.
    #[inline(always)]
    pub(crate) fn distance(&self, entry: i64) -> u64 {
        self.origin.wrapping_add((entry >> self.stream_bits).cast_unsigned())
    }

    /// Returns the entry of a stream. It is exact if the front [reaches](Self::reaches) the
    /// distance.
    #[inline(always)]
    pub(crate) fn entry(&self, distance: u64, stream: u32) -> i64 {
        let offset = distance.wrapping_sub(self.origin).cast_signed();
        (offset << self.stream_bits) | i64::from(stream)
    }

    /// Returns whether the entry of `distance` is exact.
    #[inline(always)]
    pub(crate) fn reaches(&self, distance: u64) -> bool {
        let entry = self.entry(distance, 0);
        // Offsets wrap: the last distance would otherwise precede the first.
        let is_ordered = (entry < 0) == (distance < self.origin);
        is_ordered & (self.distance(entry) == distance)
    }

    /// Returns the first entry.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<i64> {
        self.get(0)
    }

    /// Returns the entry that is this number of places after the first.
    #[inline(always)]
    pub(crate) fn get(&self, places: usize) -> Option<i64> {
        self.entries.get(self.begin + places).copied()
    }

    /// Returns whether `stream` is the first.
    #[inline(always)]
    pub(crate) fn is_first(&self, stream: u32) -> bool {
        self.first().is_some_and(|first| self.stream(first) == stream)
    }

    /// Returns all entries.
    #[inline]
    pub(crate) fn entries(&self) -> &[i64] {
        &self.entries[self.begin..]
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.begin
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == self.begin
    }

    /// Removes all streams.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        (self.begin, self.ordered_end) = (0, 0);
    }

    /// Removes all streams and sets the origin.
    #[inline(always)]
    pub(crate) fn restart(&mut self, origin: u64) {
        self.clear();
        self.origin = origin;
    }

    /// Removes the first `count` streams.
    pub(crate) fn remove_many(&mut self, count: usize) {
        self.begin += count;
    }

    /// Removes the first stream.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self) {
        self.begin += 1;
    }

    /// Removes a stream that is not the first.
    #[cold]
    pub(crate) fn remove(&mut self, stream: u32) {
        self.ordered_end = 0;
        let mut held = self.entries[self.begin..].iter();
        if let Some(place) = held.position(|entry| self.stream(*entry) == stream) {
            self.entries.remove(self.begin + place);
        }
    }

    /// Inserts a stream. Returns false without effect if there are many streams or the distance is
    /// too far from the others.
    #[inline(always)]
    pub(crate) fn insert(&mut self, distance: u64, stream: u32) -> bool {
        if self.len() > INSERTED || !self.reaches(distance) {
            return false;
        }
        let entry = self.entry(distance, stream);
        self.forget_served();
        self.ordered_end = 0;
        let mut place = self.entries.len();
        self.entries.push(entry);
        while place > self.begin && self.entries[place - 1] > entry {
            self.entries.swap(place - 1, place);
            place -= 1;
        }
        true
    }

    /// Appends up to [`APPENDED`] streams, given with their distances. They are after all others.
    /// Returns their number. A call of [`sort_appended`](Self::sort_appended) must follow, or one
    /// of [`sort_last`](Self::sort_last) if the number is [`APPENDED`].
    #[inline(always)]
    pub(crate) fn append(&mut self, mut streams: impl Iterator<Item = (u64, u32)>) -> usize {
        self.forget_served();
        let begin = self.entries.len();
        self.entries.extend_from_slice(&[i64::MAX; APPENDED]);
        let mut count = 0;
        while count < APPENDED
            && let Some((distance, stream)) = streams.next()
        {
            self.entries[begin + count] = self.entry(distance, stream);
            count += 1;
        }
        count
    }

    /// Sorts the `count` streams that were just appended.
    #[inline(always)]
    pub(crate) fn sort_appended(&mut self, count: usize) {
        let begin = self.entries.len() - APPENDED;
        if count <= FEW {
            sort_first(&mut self.entries[begin..], sort_four);
        } else {
            sort_first(&mut self.entries[begin..], sort_eight);
        }
        self.entries.truncate(begin + count);
    }

    /// Appends a stream. A call of [`sort_last`](Self::sort_last) must follow.
    pub(crate) fn push(&mut self, distance: u64, stream: u32) {
        self.entries.push(self.entry(distance, stream));
    }

    /// Sorts the last `count` entries, which are after all others. Fast if they are almost in
    /// descending order: lists begin with the stream that was inserted last.
    pub(crate) fn sort_last(&mut self, count: usize) {
        let begin = self.entries.len() - count;
        self.entries[begin..].reverse();
        self.entries[begin..].sort_unstable();
    }

    /// Orders the first `count` streams, which have equal distances, by `key`, until one of the
    /// front is removed that is not the first, or one is inserted.
    pub(crate) fn order_first<K: Ord>(&mut self, count: usize, key: impl Fn(u32) -> K) {
        let (begin, mask) = (self.begin, self.stream_mask);
        self.ordered_end = begin + count;
        // The low bits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let key = |entry: &i64| key(*entry as u32 & mask);
        self.entries[begin..self.ordered_end].sort_unstable_by_key(key);
    }

    /// Returns whether the first stream is one of those that [`order_first`](Self::order_first)
    /// ordered.
    #[inline(always)]
    pub(crate) fn is_ordered(&self) -> bool {
        self.begin < self.ordered_end
    }

    /// Removes the served entries if there are many.
    #[inline(always)]
    fn forget_served(&mut self) {
        if self.begin >= SERVED {
            self.entries.drain(..self.begin);
            self.ordered_end = self.ordered_end.saturating_sub(self.begin);
            self.begin = 0;
        }
    }
}

#[inline(always)]
fn sort_two(a: i64, b: i64) -> (i64, i64) {
    (a.min(b), a.max(b))
}

/// Sorts the first `N` entries.
#[inline(always)]
fn sort_first<const N: usize>(entries: &mut [i64], sort: impl Fn([i64; N]) -> [i64; N]) {
    if let Some(first) = entries.first_chunk_mut() {
        *first = sort(*first);
    }
}

/// Sorts by a network of 5 comparators, without branches.
#[inline(always)]
fn sort_four([a, b, c, d]: [i64; 4]) -> [i64; 4] {
    let ((a, c), (b, d)) = (sort_two(a, c), sort_two(b, d));
    let ((a, b), (c, d)) = (sort_two(a, b), sort_two(c, d));
    let (b, c) = sort_two(b, c);
    [a, b, c, d]
}

/// Sorts by a network of 19 comparators, without branches.
#[inline(always)]
fn sort_eight([a, b, c, d, e, f, g, h]: [i64; 8]) -> [i64; 8] {
    let sort = sort_two;
    let ((a, c), (b, d), (e, g), (f, h)) = (sort(a, c), sort(b, d), sort(e, g), sort(f, h));
    let ((a, e), (b, f), (c, g), (d, h)) = (sort(a, e), sort(b, f), sort(c, g), sort(d, h));
    let ((a, b), (c, d), (e, f), (g, h)) = (sort(a, b), sort(c, d), sort(e, f), sort(g, h));
    let ((c, e), (d, f)) = (sort(c, e), sort(d, f));
    let ((b, e), (d, g)) = (sort(b, e), sort(d, g));
    let ((b, c), (d, e), (f, g)) = (sort(b, c), sort(d, e), sort(f, g));
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network sorts if it sorts all sequences of two values.
    #[test]
    fn the_networks_sort() {
        for bits in 0..1u32 << 8 {
            let values: [i64; 8] = core::array::from_fn(|at| i64::from(bits >> at & 1));
            let mut expected = values;
            expected.sort_unstable();
            assert_eq!(sort_eight(values), expected);
            let [a, b, c, d, ..] = values;
            let mut expected = [a, b, c, d];
            expected.sort_unstable();
            assert_eq!(sort_four([a, b, c, d]), expected);
        }
    }
}
