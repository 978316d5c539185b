//! A tree of minima that orders at most 64 streams by deadline.
//!
//! ```text
//! top       1 group of 4      the least of each group of the middle level
//! middle    4 groups of 4     the least of each group of leaves
//! leaves   16 groups of 4     a key per stream: deadline, then number; u64::MAX if absent
//! ```
//!
//! A changed key propagates to the top: each level takes the minimum of the key and its three
//! neighbours. The neighbours can be read before the key is known, so a level takes two cycles, and
//! no branch depends on keys. A decision has one unpredictable branch: whether another stream is
//! due. A decision on the calendar's buckets, which are empty or unordered, has five or six.
//!
//! A key with the first one's deadline is a neighbour of the first one's path at some level. So
//! nine keys show whether another stream has that deadline.

/// The maximum number of streams.
pub(super) const MOST: usize = 1 << STREAM_BITS;

/// Bits of a stream's number in a key. They leave 58 for the deadline: nine years.
const STREAM_BITS: u32 = 6;

/// The number of keys of a group.
const ARITY: usize = 4;

/// No stream.
const NONE: u64 = u64::MAX;

/// Marks an unknown second key; no second key is 0.
const UNKNOWN: u64 = 0;

/// The streams with active heads.
#[derive(Clone, Debug)]
pub(super) struct Few {
    leaves: [u64; MOST],
    middle: [u64; MOST / ARITY],
    top: [u64; ARITY],
    first: u64,
    /// The least of the three neighbours of the first key's path, by level.
    beside_first: [u64; 3],
    /// The least of `beside_first`, which is the second of all keys; [`UNKNOWN`] after a change.
    second: u64,
    /// The increment of each key per period; `u64::MAX`, which leads to no valid key, if none.
    steps: [u64; MOST],
    /// Levels in use above the leaves.
    levels: u32,
}

/// A deadline, and a stream's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    /// Returns the last possible key of a deadline at or before `now_ns`; `None` if no key fits.
    #[inline(always)]
    pub(super) fn last_due(now_ns: u64) -> Option<Self> {
        Few::fits(now_ns).then_some(Self(now_ns << STREAM_BITS | (NONE >> (64 - STREAM_BITS))))
    }

    #[inline(always)]
    pub(super) fn stream(self) -> u32 {
        // The low bits.
        #[allow(clippy::cast_possible_truncation)]
        let low = self.0 as u32;
        low % (1 << STREAM_BITS)
    }
}

/// Returns the least of the three neighbours of `at`.
#[inline(always)]
fn beside<const N: usize>(level: &[u64; N], at: usize) -> u64 {
    let other_pair = (at ^ 2) & (N - 2);
    let pair = level[other_pair].min(level[other_pair + 1]);
    pair.min(level[(at ^ 1) & (N - 1)])
}

/// Sets position `at` to `key`. Returns the least of it and its three neighbours.
#[inline(always)]
fn set_and_min<const N: usize>(level: &mut [u64; N], at: usize, key: u64) -> u64 {
    let beside = beside(level, at);
    level[at & (N - 1)] = key;
    key.min(beside)
}

impl Few {
    pub(super) fn new() -> Self {
        Self {
            leaves: [NONE; MOST],
            middle: [NONE; MOST / ARITY],
            top: [NONE; ARITY],
            first: NONE,
            beside_first: [NONE; 3],
            second: UNKNOWN,
            steps: [NONE; MOST],
            levels: 0,
        }
    }

    /// Adds the stream of this number. Its deadlines advance by `period_ns` when they pass; `None`
    /// if they do not.
    pub(super) fn add(&mut self, stream: u32, period_ns: Option<u64>) {
        let at = stream as usize;
        let fitting = period_ns.filter(|period_ns| Self::fits(*period_ns));
        self.steps[at] = fitting.map_or(NONE, |period_ns| period_ns << STREAM_BITS);
        self.levels = match at {
            0..4 => 0,
            4..16 => 1,
            _ => 2,
        };
        // Fills a level that this stream may have added.
        for at in 0..=at {
            self.set(at, self.leaves[at]);
        }
    }

    /// Returns whether a deadline fits into a key.
    #[inline(always)]
    pub(super) fn fits(deadline_ns: u64) -> bool {
        deadline_ns < NONE >> STREAM_BITS
    }

    /// Inserts `stream`, or moves it.
    #[inline(always)]
    pub(super) fn insert(&mut self, stream: u32, deadline_ns: u64) {
        self.set(stream as usize, deadline_ns << STREAM_BITS | u64::from(stream));
    }

    /// Removes `stream`.
    #[inline(always)]
    pub(super) fn remove(&mut self, stream: u32) {
        self.set(stream as usize, NONE);
    }

    #[inline(always)]
    fn set(&mut self, at: usize, key: u64) -> u64 {
        let mut least = set_and_min(&mut self.leaves, at, key);
        if self.levels > 0 {
            least = set_and_min(&mut self.middle, at / ARITY, least);
            if self.levels > 1 {
                least = set_and_min(&mut self.top, at / ARITY / ARITY, least);
            }
        }
        self.first = least;
        self.second = UNKNOWN;
        least
    }

    /// Returns whether there is no stream.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Returns the first key.
    #[inline(always)]
    pub(super) fn first(&self) -> Key {
        Key(self.first)
    }

    /// Returns `key` one period later; `None` if that is not a valid key.
    #[inline(always)]
    fn next(&self, key: Key) -> Option<u64> {
        // The greatest step overflows, or with the key 0 leads to a deadline that does not fit.
        let next = key.0.checked_add(self.steps[key.stream() as usize])?;
        Self::fits(next >> STREAM_BITS).then_some(next)
    }

    /// Moves the stream of `first`, the first key, one period later and returns the new first key.
    /// `None` without effect if the moved key is not after `last_due`.
    #[inline(always)]
    pub(super) fn defer(&mut self, first: Key, last_due: Key) -> Option<Key> {
        let next = self.next(first).filter(|next| *next > last_due.0)?;
        Some(Key(self.set(first.stream() as usize, next)))
    }

    /// Returns whether another stream has the deadline of the first.
    #[inline(always)]
    pub(super) fn is_tied(&mut self) -> bool {
        let at = Key(self.first).stream() as usize;
        let mut beside_first = [beside(&self.leaves, at), NONE, NONE];
        if self.levels > 0 {
            beside_first[1] = beside(&self.middle, at / ARITY);
            if self.levels > 1 {
                beside_first[2] = beside(&self.top, at / ARITY / ARITY);
            }
        }
        self.beside_first = beside_first;
        self.second = beside_first[0].min(beside_first[1]).min(beside_first[2]);
        (self.second ^ self.first) >> STREAM_BITS == 0
    }

    /// Moves `stream` one period later after its head departed. Returns false without effect if the
    /// stream is not first, or its deadline is before the next head's arrival. Also returns false
    /// if a key changed since [`is_tied`](Self::is_tied), or the later deadline does not fit into a
    /// key.
    #[inline(always)]
    pub(super) fn defer_served(&mut self, stream: u32, arrival_ns: u64) -> bool {
        let first = Key(self.first);
        let other = first.stream() != stream;
        let early = self.first >> STREAM_BITS < arrival_ns;
        if other | early | (self.second == UNKNOWN) {
            return false;
        }
        let Some(next) = self.next(first) else { return false };
        let at = first.stream() as usize;
        // `is_tied` has read the siblings on the path.
        self.leaves[at] = next;
        let least = next.min(self.beside_first[0]);
        self.middle[at / ARITY] = least;
        self.top[at / ARITY / ARITY] = least.min(self.beside_first[1]);
        self.first = next.min(self.second);
        self.second = UNKNOWN;
        true
    }

    /// Returns the streams with the first one's deadline, in order.
    #[inline]
    pub(super) fn tied(&self) -> impl Iterator<Item = u32> {
        let is_tied = |key: u64| (key ^ self.first) >> STREAM_BITS == 0;
        let mut tied = 0_u64;
        for group in 0..1 << (2 * self.levels) {
            // Without a middle level there is one group of leaves.
            if self.levels == 0 || is_tied(self.middle[group]) {
                for at in group * ARITY..(group + 1) * ARITY {
                    tied |= u64::from(is_tied(self.leaves[at])) << at;
                }
            }
        }
        core::iter::from_fn(move || {
            let stream = tied.trailing_zeros();
            let rest = tied.checked_sub(1)?;
            tied &= rest;
            Some(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest deadline that a key holds.
    const LAST_NS: u64 = (NONE >> STREAM_BITS) - 1;

    #[test]
    fn the_first_is_the_least_of_all_whatever_changes() {
        let mut random = 1u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        for streams in [1u32, 4, 5, 16, 17, 64] {
            let mut few = Few::new();
            let mut deadlines = alloc::vec![None; streams as usize];
            (0..streams).for_each(|stream| few.add(stream, Some(7)));
            for _ in 0..5_000 {
                let at = below(streams.into());
                let stream = u32::try_from(at).unwrap();
                let deadline = &mut deadlines[usize::try_from(at).unwrap()];
                match below(4) {
                    0 => {
                        *deadline = None;
                        few.remove(stream);
                    }
                    1 if few.defer_served(stream, 0) => *deadline = deadline.map(|ns| ns + 7),
                    _ => {
                        let deadline_ns = below(60);
                        *deadline = Some(deadline_ns);
                        few.insert(stream, deadline_ns);
                    }
                }
                let all = || (0u32..).zip(&deadlines).filter_map(|(s, ns)| Some(((*ns)?, s)));
                assert_eq!(few.is_empty(), all().count() == 0);
                let Some((least_ns, first)) = all().min() else { continue };
                assert_eq!(few.first().stream(), first);
                let tied = || all().filter(|(ns, _)| *ns == least_ns).map(|(_, stream)| stream);
                assert_eq!(few.is_tied(), tied().count() > 1);
                assert!(few.tied().eq(tied()));
            }
        }
    }

    #[test]
    fn no_stream_is_deferred_to_where_there_is_no_key() {
        for stream in [0, 63] {
            for (deadline_ns, period_ns, key) in [
                (LAST_NS - 1, Some(1), true),
                (LAST_NS, Some(1), false),
                (0, Some(LAST_NS), true),
                (0, Some(LAST_NS + 1), false),
                (0, None, false),
            ] {
                let mut few = Few::new();
                (0..64).for_each(|stream| few.add(stream, period_ns));
                few.insert(stream, deadline_ns);
                let last_due = Key::last_due(deadline_ns).unwrap();
                assert_eq!(few.clone().defer(few.first(), last_due).is_some(), key);
                assert_eq!(few.first().stream(), stream);
                few.is_tied();
                assert_eq!(few.defer_served(stream, 0), key);
            }
        }
        assert!(Key::last_due(LAST_NS + 1).is_none());
    }
}
