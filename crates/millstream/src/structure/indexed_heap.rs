//! A d-ary heap of streams with an index of their positions.
//!
//! ```text
//! entries   [(key, stream) …]     children of i: 4i + 1 … 4i + 4
//! position  stream -> index in entries, or ABSENT
//! ```
//!
//! A node has four children: with 32-byte keys they span two or three cache lines, and the heap is
//! half as deep as a binary one. The heap holds the keys, so a comparison reads no other memory.
//! Equal keys are ordered by stream. Invariants: a parent's entry is never greater than a child's,
//! and `entries[position[s]].1 == s` for every stream s in the heap.

use alloc::vec::Vec;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// A min-heap of (key, stream) with removal and re-keying by stream.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    entries: Vec<(K, u32)>,
    position: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), position: Vec::new() }
    }
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// Returns the least key and its stream, of equal keys the lowest stream.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// Returns whether the heap is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of streams.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether `stream` is in the heap.
    #[inline]
    #[must_use]
    pub fn contains(&self, stream: u32) -> bool {
        self.position.get(stream as usize).is_some_and(|&at| at != ABSENT)
    }

    /// Allocates memory for the streams below `streams`.
    pub fn reserve(&mut self, streams: usize) {
        self.entries.reserve(streams.saturating_sub(self.entries.len()));
        self.position.reserve(streams.saturating_sub(self.position.len()));
    }

    /// Inserts `stream` at `key`, or moves it there. O(log n).
    #[inline]
    pub fn insert(&mut self, stream: u32, key: K) {
        if stream as usize >= self.position.len() {
            self.position.resize(stream as usize + 1, ABSENT);
        }
        let at = self.position[stream as usize];
        if at == ABSENT {
            self.entries.push((key, stream));
            self.sift_up(self.entries.len() - 1, (key, stream));
        } else {
            self.restore(at as usize, (key, stream));
        }
    }

    /// Calls [`insert`](Self::insert).
    #[deprecated(since = "0.2.0", note = "renamed to `insert`")]
    pub fn place(&mut self, stream: u32, key: K) {
        self.insert(stream, key);
    }

    /// Removes `stream`; no effect if it is not in the heap. O(log n).
    #[inline]
    pub fn remove(&mut self, stream: u32) {
        let Some(slot) = self.position.get_mut(stream as usize) else { return };
        let at = core::mem::replace(slot, ABSENT);
        if at == ABSENT {
            return;
        }
        if let Some(last) = self.entries.pop()
            && last.1 != stream
        {
            self.restore(at as usize, last);
        }
    }

    /// Removes every stream. O(n).
    pub fn clear(&mut self) {
        for (_, stream) in self.entries.drain(..) {
            self.position[stream as usize] = ABSENT;
        }
    }

    /// Removes every stream and appends it to `out`, in any order. O(n).
    pub fn drain_into(&mut self, out: &mut Vec<u32>) {
        for (_, stream) in self.entries.drain(..) {
            self.position[stream as usize] = ABSENT;
            out.push(stream);
        }
    }

    /// Appends every stream whose key satisfies `wanted`, which must hold for a prefix of the
    /// order. O(1 + found).
    #[inline]
    pub fn collect_while(&self, wanted: impl Fn(&K) -> bool, out: &mut Vec<u32>) {
        let Some((first, _)) = self.entries.first() else { return };
        if !wanted(first) {
            return;
        }
        // `out` is the work list: an index is replaced by its stream when it is expanded.
        let start = out.len();
        out.push(0);
        let mut next = start;
        while next < out.len() {
            let at = out[next] as usize;
            let children = ARITY * at + 1;
            let end = (children + ARITY).min(self.entries.len());
            for child in children..end {
                if wanted(&self.entries[child].0) {
                    out.push(index_u32(child));
                }
            }
            out[next] = self.entries[at].1;
            next += 1;
        }
    }

    /// Replaces the entry at `at` by `entry` and restores the heap.
    #[inline]
    fn restore(&mut self, at: usize, entry: (K, u32)) {
        if at > 0 && precedes(&entry, &self.entries[(at - 1) / ARITY]) {
            self.sift_up(at, entry);
        } else {
            self.sift_down(at, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, entry: (K, u32)) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !precedes(&entry, &self.entries[parent]) {
                break;
            }
            self.write(at, self.entries[parent]);
            at = parent;
        }
        self.write(at, entry);
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize, entry: (K, u32)) {
        loop {
            let children = ARITY * at + 1;
            let end = (children + ARITY).min(self.entries.len());
            if children >= end {
                break;
            }
            let least = match self.entries.get(children..children + ARITY) {
                Some(all) => {
                    let low = usize::from(precedes(&all[1], &all[0]));
                    let high = 2 + usize::from(precedes(&all[3], &all[2]));
                    children + if precedes(&all[high], &all[low]) { high } else { low }
                }
                None => (children + 1..end).fold(children, |least, child| {
                    if precedes(&self.entries[child], &self.entries[least]) { child } else { least }
                }),
            };
            if !precedes(&self.entries[least], &entry) {
                break;
            }
            self.write(at, self.entries[least]);
            at = least;
        }
        self.write(at, entry);
    }

    #[inline]
    fn write(&mut self, at: usize, entry: (K, u32)) {
        self.entries[at] = entry;
        self.position[entry.1 as usize] = index_u32(at);
    }
}

impl IndexedHeap<u64> {
    /// Appends the streams with keys up to `last`. O(1 + found).
    #[inline]
    pub fn collect_until(&self, last: u64, out: &mut Vec<u32>) {
        if self.entries.first().is_some_and(|(first, _)| *first <= last) {
            self.collect_some(last, out);
        }
    }

    /// See [`collect_until`](Self::collect_until). Compiled once for all disciplines.
    #[inline(never)]
    fn collect_some(&self, last: u64, out: &mut Vec<u32>) {
        self.collect_while(|key| *key <= last, out);
    }
}

/// Returns whether `a` precedes `b`: by key, then by stream.
#[inline]
fn precedes<K: Ord>(a: &(K, u32), b: &(K, u32)) -> bool {
    // Branchless: the outcome is unpredictable.
    (a.0 < b.0) | ((a.0 == b.0) & (a.1 < b.1))
}

/// Returns an index into the entries: below the number of streams, which is a u32.
#[allow(clippy::cast_possible_truncation)]
fn index_u32(index: usize) -> u32 {
    index as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// A full-period generator, so that the test needs no dependency.
    struct Lcg(u64);

    impl Lcg {
        fn below(&mut self, bound: u32) -> u32 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
        }
    }

    #[test]
    fn a_heap_equals_an_ordered_set_through_random_changes() {
        let mut random = Lcg(1);
        let mut heap = IndexedHeap::default();
        let mut keys = [None; 60];
        for step in 0..20_000 {
            let stream = random.below(60);
            if random.below(3) == 0 {
                heap.remove(stream);
                keys[stream as usize] = None;
            } else {
                let key = (random.below(20), stream);
                heap.insert(stream, key);
                keys[stream as usize] = Some(key);
            }
            if step % 5_000 == 4_999 {
                heap.clear();
                keys = [None; 60];
            }
            let set: BTreeSet<_> = keys.iter().flatten().copied().collect();
            assert_eq!(heap.first().map(|(key, _)| key), set.first().copied());
            assert_eq!(heap.is_empty(), set.is_empty());
            assert_eq!(heap.contains(stream), keys[stream as usize].is_some());
            let bound = random.below(20);
            let mut found = alloc::vec![99];
            heap.collect_while(|key| key.0 <= bound, &mut found);
            let expected: BTreeSet<_> =
                set.iter().filter(|key| key.0 <= bound).map(|key| key.1).collect();
            assert_eq!(found[0], 99, "earlier entries of the list remain");
            assert_eq!(found.len(), expected.len() + 1);
            assert_eq!(found[1..].iter().copied().collect::<BTreeSet<_>>(), expected);
        }
    }
}
