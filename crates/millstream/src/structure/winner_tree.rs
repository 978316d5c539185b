//! A winner tree of streams: every group of four entries has its first one in the level above.
//!
//! ```text
//! groups   root's group, its 4 children, their 16 children, …, [a b c d] [e f g h] …
//!          an entry is the first of a child; in the last level it is that of a stream, or absent
//! root     the first of the root's group
//! ```
//!
//! The children of group g are the groups 4 g + 1 to 4 g + 4. Only the last level is incomplete.
//!
//! A change follows one path from a leaf to the root. The path's addresses do not depend on the
//! comparisons, so its loads overlap; in a heap each load waits for the comparison before it. It
//! ends where a node's first entry remains.
//!
//! Keys wrap around, so a tree holds their distances from `base`; absent streams have the greatest
//! one. Groups are in the order of streams, and the first of the least distances is taken: of equal
//! keys the lowest stream.

use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::marker::PhantomData;

use super::Structure;
use crate::discipline::{Expiry, Rank};

/// A key that wraps around: two keys are ordered by the sign of their difference, and the keys of
/// a tree are less than 2⁶³ apart.
pub trait Cyclic: Copy {
    /// Returns the key as an integer.
    fn bits(self) -> u64;
}

const ARITY: usize = 4;

/// The distance of the first key from a new base.
const BEHIND: u64 = 1 << 62;

/// The greatest distance of a key from the base; a greater one is that of a key before the base.
pub(super) const SPAN: u64 = BEHIND + (1 << 63);

/// The distance of an absent stream: after all others.
const ABSENT: u64 = u64::MAX;

/// Returns a base before `key` and `first`, the first of the other keys.
pub(super) fn base_before(key: u64, first: Option<u64>) -> u64 {
    let earlier = first.filter(|first| first.wrapping_sub(key).cast_signed() < 0);
    earlier.unwrap_or(key).wrapping_sub(BEHIND)
}

/// The entry of no stream.
const NONE: Entry = Entry { distance: ABSENT, stream: u32::MAX };

/// Siblings: the distances of their first keys, and the streams of these.
#[derive(Clone, Copy, Debug)]
struct Group {
    distances: [u64; ARITY],
    streams: [u32; ARITY],
}

/// A stream and its key's distance from the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    distance: u64,
    stream: u32,
}

/// The streams of least key, with insertion and removal by stream.
#[derive(Clone, Debug)]
pub struct WinnerTree<K> {
    groups: Vec<Group>,
    /// The number of groups above the last level.
    inner: usize,
    root: Entry,
    base: u64,
    /// Number of streams.
    count: usize,
    key: PhantomData<K>,
}

impl<K> Default for WinnerTree<K> {
    fn default() -> Self {
        Self { groups: Vec::new(), inner: 0, root: NONE, base: 0, count: 0, key: PhantomData }
    }
}

impl<K: Cyclic> WinnerTree<K> {
    /// Returns the stream of least key, of equal keys the lowest stream.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        (self.count > 0).then_some(self.root.stream)
    }

    /// Returns the stream after the first. O(log n).
    #[inline]
    #[must_use]
    pub fn second(&self) -> Option<u32> {
        // It lost to the first on the path of the first.
        let mut second = NONE;
        let mut place = Some(self.place(self.first()?));
        while let Some((at, own)) = place {
            let siblings = (0..ARITY).filter(|sibling| *sibling != own);
            let group = &self.groups[at];
            second = siblings.map(|sibling| group.entry(sibling)).fold(second, Entry::min);
            place = parent(at);
        }
        (second.distance != ABSENT).then_some(second.stream)
    }

    /// Returns whether there are no streams.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of streams.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether `stream` is present.
    #[inline]
    #[must_use]
    pub fn contains(&self, stream: u32) -> bool {
        let (at, own) = self.place(stream);
        self.groups.get(at).is_some_and(|group| group.distances[own] != ABSENT)
    }

    /// Makes leaves for the streams below `streams`.
    pub fn reserve(&mut self, streams: usize) {
        if streams <= self.leaves() {
            return;
        }
        let leaves = streams.div_ceil(ARITY);
        let (mut inner, mut width) = (0, 1);
        while width < leaves {
            inner += width;
            width *= ARITY;
        }
        let last = self.groups.split_off(self.inner);
        self.groups.clear();
        self.groups.reserve_exact(inner + leaves);
        self.groups.resize(inner, Group::EMPTY);
        self.groups.extend(last);
        self.groups.resize(inner + leaves, Group::EMPTY);
        self.inner = inner;
        self.recompute();
    }

    /// Inserts `stream` at `key`, or moves it there. O(log n).
    #[inline]
    pub fn insert(&mut self, stream: u32, key: K) {
        if stream as usize >= self.leaves() {
            self.grow(stream);
        }
        let mut distance = key.bits().wrapping_sub(self.base);
        if distance > SPAN {
            self.rebase(key.bits());
            distance = key.bits().wrapping_sub(self.base);
        }
        self.count += usize::from(!self.contains(stream));
        self.replay(Entry { distance, stream });
    }

    /// Removes `stream`; no effect if it is absent. O(log n).
    #[inline]
    pub fn remove(&mut self, stream: u32) {
        if self.contains(stream) {
            self.count -= 1;
            self.replay(Entry { distance: ABSENT, stream });
        }
    }

    /// Appends every stream that has the least key.
    pub fn collect_first(&self, out: &mut Vec<u32>) {
        if self.count > 0 {
            self.collect(0, self.root.distance, out);
        }
    }

    /// Appends the streams up to the distance `last` below the group `at`.
    fn collect(&self, at: usize, last: u64, out: &mut Vec<u32>) {
        for (own, distance) in self.groups[at].distances.iter().enumerate() {
            if *distance > last {
                continue;
            }
            match at.checked_sub(self.inner) {
                // Streams are below 2³².
                #[allow(clippy::cast_possible_truncation)]
                Some(leaf) => out.push((ARITY * leaf + own) as u32),
                None => self.collect(ARITY * at + 1 + own, last, out),
            }
        }
    }

    /// Returns the number of leaves.
    #[inline]
    fn leaves(&self) -> usize {
        ARITY * (self.groups.len() - self.inner)
    }

    /// Returns the group of a stream, and its place there.
    #[inline(always)]
    fn place(&self, stream: u32) -> (usize, usize) {
        (self.inner + stream as usize / ARITY, stream as usize % ARITY)
    }

    /// Sets the entry of a stream and repeats the comparisons from there to the root.
    #[inline]
    fn replay(&mut self, mut entry: Entry) {
        let (mut at, mut own) = self.place(entry.stream);
        loop {
            let group = &mut self.groups[at];
            if group.entry(own) == entry {
                return;
            }
            group.set(own, entry);
            entry = group.first();
            match parent(at) {
                Some(above) => (at, own) = above,
                None => break,
            }
        }
        self.root = entry;
    }

    /// Makes a leaf for `stream`, and at least twice as many leaves as before.
    #[cold]
    fn grow(&mut self, stream: u32) {
        self.reserve((stream as usize + 1).max(2 * self.leaves()));
    }

    /// Repeats all comparisons.
    fn recompute(&mut self) {
        for at in (0..self.groups.len()).rev() {
            let first = self.groups[at].first();
            match parent(at) {
                Some((above, own)) => self.groups[above].set(own, first),
                None => self.root = first,
            }
        }
    }

    /// Moves the base, so that it is before `key` and all others. O(n), once while keys advance by
    /// 2⁶².
    #[cold]
    fn rebase(&mut self, key: u64) {
        let is_present = self.root.distance != ABSENT;
        let first = is_present.then(|| self.base.wrapping_add(self.root.distance));
        let base = base_before(key, first);
        let moved = base.wrapping_sub(self.base);
        self.base = base;
        for group in &mut self.groups[self.inner..] {
            for distance in group.distances.iter_mut().filter(|distance| **distance != ABSENT) {
                *distance = distance.wrapping_sub(moved);
            }
        }
        self.recompute();
    }
}

/// Returns the group that has the first entry of the group `at`, and its place there.
#[inline(always)]
fn parent(at: usize) -> Option<(usize, usize)> {
    at.checked_sub(1).map(|child| (child / ARITY, child % ARITY))
}

impl Group {
    const EMPTY: Self = Self { distances: [ABSENT; ARITY], streams: [u32::MAX; ARITY] };

    #[inline]
    fn entry(&self, place: usize) -> Entry {
        Entry { distance: self.distances[place], stream: self.streams[place] }
    }

    #[inline]
    fn set(&mut self, place: usize, entry: Entry) {
        self.distances[place] = entry.distance;
        self.streams[place] = entry.stream;
    }

    /// Returns the first entry of least distance.
    #[inline(always)]
    fn first(&self) -> Entry {
        let [a, b, c, d] = self.distances;
        // Branchless: the outcomes are unpredictable.
        let (low, low_place) = (b < a, usize::from(b < a));
        let (high, high_place) = (d < c, 2 + usize::from(d < c));
        let low = select_unpredictable(low, b, a);
        let high = select_unpredictable(high, d, c);
        let place = select_unpredictable(high < low, high_place, low_place);
        let distance = select_unpredictable(high < low, high, low);
        Entry { distance, stream: self.streams[place] }
    }
}

impl<R: Rank + Cyclic> Structure<R> for WinnerTree<R> {
    fn reserve(&mut self, streams: usize) {
        WinnerTree::reserve(self, streams);
    }

    #[inline]
    fn insert(&mut self, stream: u32, rank: R) {
        WinnerTree::insert(self, stream, rank);
    }

    #[inline]
    fn remove(&mut self, stream: u32) {
        WinnerTree::remove(self, stream);
    }

    #[inline]
    fn first(&mut self) -> Option<u32> {
        WinnerTree::first(self)
    }

    fn due(&self, _: u64, _: &mut Vec<u32>) {
        const { assert!(matches!(R::EXPIRY, Expiry::Never)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Key(u64);

    impl Cyclic for Key {
        fn bits(self) -> u64 {
            self.0
        }
    }

    /// Keys advance by 2⁵⁷ a step and wrap around 1,500 times. Each is changed or removed every 37
    /// steps, so keys are less than 2⁶³ apart.
    #[test]
    fn the_order_is_that_of_keys_that_wrap_around() {
        const STREAMS: u32 = 37;
        let mut random = 1u64;
        let mut tree = WinnerTree::default();
        let mut keys = [None; STREAMS as usize];
        let mut now = u64::MAX - 5;
        for step in 0..200_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now = now.wrapping_add(1 << 57);
            // 7 and 37 have no common divisor: every stream is changed, in another order.
            let stream = 7 * step % STREAMS;
            let high = random >> 32;
            if high.is_multiple_of(4) {
                tree.remove(stream);
                keys[stream as usize] = None;
            } else {
                // Some keys are equal, some before the last base.
                let key = now.wrapping_add(high % 5).wrapping_sub((high % 3) << 59);
                tree.insert(stream, Key(key));
                keys[stream as usize] = Some(key);
            }
            let mut order: Vec<_> = (0u32..)
                .zip(keys)
                .filter_map(|(stream, key)| Some((key?.wrapping_sub(now).cast_signed(), stream)))
                .collect();
            order.sort_unstable();
            let expected = |at: usize| order.get(at).map(|(_, stream)| *stream);
            assert_eq!((tree.first(), tree.second()), (expected(0), expected(1)), "step {step}");
            assert_eq!((tree.len(), tree.is_empty()), (order.len(), order.is_empty()));
            assert_eq!(tree.contains(stream), keys[stream as usize].is_some());
            let mut firsts = Vec::new();
            tree.collect_first(&mut firsts);
            let least = order.first().map(|(key, _)| *key);
            let expected = order.iter().filter(|(key, _)| Some(*key) == least);
            assert!(firsts.iter().copied().eq(expected.map(|(_, stream)| *stream)), "step {step}");
        }
    }

    #[test]
    fn a_larger_tree_keeps_the_order() {
        let mut tree = WinnerTree::default();
        for stream in (0..1_000).rev() {
            tree.insert(stream, Key(u64::from(stream / 2)));
            assert_eq!(tree.first(), Some(stream));
        }
        tree.reserve(5_000);
        let mut left = Vec::new();
        while let Some(stream) = tree.first() {
            left.push(stream);
            tree.remove(stream);
        }
        assert!(left.into_iter().eq(0..1_000));
    }
}
