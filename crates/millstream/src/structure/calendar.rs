//! A calendar queue: streams by key in a ring of buckets, the first few in order.
//!
//! ```text
//! front   [a b c …]             the first streams in order; served from here
//! ring     0 3 1 0 0 2 1 0 …    buckets of streams by key, each a list without order
//!          ^ next               a bitmap finds the next occupied one
//! backup  a winner tree         streams beyond the ring or that overflow the front
//! ```
//!
//! Streams in the front precede those in the ring. If few are left, the front takes the next
//! occupied bucket. So a stream is ordered only among the few of its bucket, and the next streams
//! are known before the first one has its new key: in a tree or heap they are not.
//!
//! The width of buckets is a power of two and adapts to the keys: on average
//! [`STREAMS_PER_BUCKET`] streams are served from a bucket. Operations then take constant time on
//! average. If many keys are equal, or many are outside the ring, all streams are in the winner
//! tree, and a ring is tried again from time to time.
//!
//! Keys wrap around; the calendar holds their distances from `base`.

use alloc::vec::Vec;
use core::marker::PhantomData;

use super::front::{ENTRY_BITS, Front};
use super::winner_tree::{Cyclic, SPAN, base_before};
use super::{Bitmap, Structure, WinnerTree, ring_place};
use crate::discipline::{Expiry, Rank};

/// The number of streams that a bucket should have when it is served.
const STREAMS_PER_BUCKET: u64 = 4;

/// The minimum number of buckets.
const MIN_BUCKETS: usize = 1 << 8;

/// The maximum number of buckets, that of the bitmap.
const MAX_BUCKETS: usize = 1 << 24;

/// The minimum number of services between two reviews.
const REVIEW_INTERVAL: u64 = 1024;

/// The number of streams in the front from which it takes no further bucket. They are known before
/// they are served.
const AHEAD: usize = 8;

/// The greatest number of streams that the front takes from a bucket.
const TAKEN: usize = 64;

/// The binary logarithm of the greatest factor by which attempts with a ring become rarer.
const MAX_BACKOFF: u32 = 6;

/// No stream: the end of a list.
const NONE: u32 = u32::MAX;

/// Values of `before` that are not a stream: the location.
const ABSENT: u32 = u32::MAX - 1;
const IN_FRONT: u32 = u32::MAX - 2;
const IN_BACKUP: u32 = u32::MAX - 3;

/// One stream: its distance and its neighbours in the list of its bucket.
#[derive(Clone, Copy, Debug)]
struct Node {
    distance: u64,
    after: u32,
    /// The previous stream of the list, [`NONE`] for the first, or the location if it is no bucket.
    before: u32,
}

/// A key of the backup.
#[derive(Clone, Copy, Debug)]
struct Key(u64);

impl Cyclic for Key {
    fn bits(self) -> u64 {
        self.0
    }
}

/// The streams of least key, with insertion and removal by stream.
#[derive(Clone, Debug)]
pub struct Calendar<K> {
    nodes: Vec<Node>,
    /// The first stream of each bucket. The ring's length is a power of two.
    buckets: Vec<u32>,
    occupied: Bitmap,
    /// A bucket is 2^shift wide.
    shift: u32,
    base: u64,
    /// The first bucket of the ring, counted from the base. Earlier streams are in the front or in
    /// the backup.
    next: u64,
    front: Front,
    backup: WinnerTree<Key>,
    /// Number of streams.
    count: usize,
    /// All streams are in the backup: a ring did not suit their keys.
    is_tree: bool,
    /// The distance of the stream that was served last from the backup, or was the first of the
    /// front at the last review.
    reached: u64,
    review: Review,
    moving: Vec<u32>,
    key: PhantomData<K>,
}

/// What a review is based on.
#[derive(Clone, Copy, Debug, Default)]
struct Review {
    /// Services since the last review.
    served: u64,
    /// Streams that were put into the backup since then.
    outside: u64,
    /// `reached` at the last review.
    from: u64,
    /// The last review has rearranged a ring that did not suit.
    is_trial: bool,
    /// The binary logarithm of the factor by which the next attempt with a ring is later.
    backoff: u32,
}

impl<K> Default for Calendar<K> {
    fn default() -> Self {
        let mut calendar = Self {
            nodes: Vec::new(),
            buckets: alloc::vec![NONE; MIN_BUCKETS],
            occupied: Bitmap::default(),
            shift: 0,
            base: 0,
            next: 0,
            front: Front::default(),
            backup: WinnerTree::default(),
            count: 0,
            is_tree: false,
            reached: 0,
            review: Review::default(),
            moving: Vec::new(),
            key: PhantomData,
        };
        calendar.occupied.clear(MIN_BUCKETS);
        calendar
    }
}

/// Returns the number of buckets for this number of streams.
fn buckets(streams: usize) -> usize {
    (2 * streams).next_power_of_two().clamp(MIN_BUCKETS, MAX_BUCKETS)
}

impl<K> Calendar<K> {
    /// Returns the bucket's place in the ring.
    #[inline(always)]
    fn index(&self, number: u64) -> usize {
        ring_place(number, self.buckets.len())
    }

    /// Inserts an absent stream at its distance.
    #[inline(always)]
    fn put(&mut self, stream: u32, distance: u64) {
        let number = distance >> self.shift;
        let ahead = number.wrapping_sub(self.next);
        if ahead < self.buckets.len() as u64 {
            self.link(stream, distance, self.index(number));
        } else {
            self.put_outside(stream, distance);
        }
    }

    /// Puts a stream into a bucket.
    #[inline(always)]
    fn link(&mut self, stream: u32, distance: u64, index: usize) {
        let after = core::mem::replace(&mut self.buckets[index], stream);
        self.nodes[stream as usize] = Node { distance, after, before: NONE };
        if let Some(follower) = self.nodes.get_mut(after as usize) {
            follower.before = stream;
        } else {
            self.occupied.set(index);
        }
    }

    /// Inserts a stream before or after the ring.
    #[inline(never)]
    fn put_outside(&mut self, stream: u32, distance: u64) {
        if distance >> self.shift < self.next && self.front.insert(distance, stream) {
            let node = &mut self.nodes[stream as usize];
            (node.distance, node.before) = (distance, IN_FRONT);
        } else {
            self.put_far(stream, distance);
        }
    }

    /// Inserts a stream beyond the ring, or one that the front cannot hold.
    #[inline(never)]
    fn put_far(&mut self, stream: u32, distance: u64) {
        let number = distance >> self.shift;
        if number >= self.next {
            // The ring may begin at the first stream.
            let first = self.first_bucket().min(number);
            if first > self.next && number - first < self.buckets.len() as u64 {
                self.next = first;
                return self.link(stream, distance, self.index(number));
            }
        }
        self.insert_backup(stream, distance);
        if self.needs_review() {
            self.review();
        }
    }

    /// Inserts a stream into the backup, or moves it there.
    #[inline]
    fn insert_backup(&mut self, stream: u32, distance: u64) {
        let node = &mut self.nodes[stream as usize];
        (node.distance, node.before) = (distance, IN_BACKUP);
        self.review.outside += 1;
        self.backup.insert(stream, Key(distance));
    }

    /// Returns the bucket of the first stream; the last number if there is none.
    fn first_bucket(&self) -> u64 {
        let front = self.front.first().map(|entry| self.front.stream(entry));
        let near = front.into_iter().chain(self.backup.first());
        let number = |stream| self.nodes[stream as usize].distance >> self.shift;
        near.map(number).chain(self.next_bucket()).min().unwrap_or(u64::MAX)
    }

    /// Takes a present stream from its location.
    #[inline(always)]
    fn leave(&mut self, stream: u32, before: u32) {
        if before == IN_FRONT && self.front.is_first(stream) {
            self.review.served += 1;
            self.front.remove_first();
        } else {
            self.leave_elsewhere(stream, before);
        }
    }

    /// Counts a service at `distance` from the backup.
    #[inline]
    fn served(&mut self, distance: u64) {
        self.reached = distance;
        self.review.served += 1;
    }

    /// Takes a stream that is not the first of the front.
    fn leave_elsewhere(&mut self, stream: u32, before: u32) {
        let Node { distance, after, .. } = self.nodes[stream as usize];
        if before == IN_BACKUP {
            if self.backup.first() == Some(stream) {
                self.served(distance);
            }
            return self.backup.remove(stream);
        }
        if before == IN_FRONT {
            return self.front.remove(stream);
        }
        if let Some(follower) = self.nodes.get_mut(after as usize) {
            follower.before = before;
        }
        if let Some(previous) = self.nodes.get_mut(before as usize) {
            previous.after = after;
            return;
        }
        let index = self.index(distance >> self.shift);
        self.buckets[index] = after;
        if after == NONE {
            self.occupied.unset(index);
        }
    }

    /// Returns the first occupied bucket, counted from the base.
    #[inline(always)]
    fn next_bucket(&self) -> Option<u64> {
        let ahead = self.occupied.ahead(self.index(self.next), self.buckets.len())?;
        Some(self.next + ahead)
    }

    /// Moves the first occupied buckets of the ring to the front.
    fn top_up(&mut self) {
        if self.needs_review() {
            self.review();
        }
        while self.front.len() < AHEAD
            && self.count > self.front.len() + self.backup.len()
            && let Some(number) = self.next_bucket()
        {
            if self.front.is_empty() {
                self.front.restart(number << self.shift);
            } else if !self.front.reaches((number + 1) << self.shift) {
                break;
            }
            self.take(number);
        }
    }

    /// Moves a bucket, the first occupied one, to the end of the front.
    #[inline(always)]
    fn take(&mut self, number: u64) {
        let index = self.index(number);
        self.next = number + 1;
        self.occupied.unset(index);
        let mut stream = core::mem::replace(&mut self.buckets[index], NONE);
        let count = self.front.append(core::iter::from_fn(|| {
            let node = self.nodes.get_mut(stream as usize)?;
            node.before = IN_FRONT;
            Some((node.distance, core::mem::replace(&mut stream, node.after)))
        }));
        if stream == NONE {
            self.front.sort_appended(count);
        } else {
            self.take_many(count, stream);
        }
    }

    /// Moves the rest of a bucket, `stream` and those after it, to the end of the front, which has
    /// `taken` streams of the bucket. If there are too many, the last ones are moved to the backup.
    #[cold]
    fn take_many(&mut self, mut taken: usize, mut stream: u32) {
        while let Some(node) = self.nodes.get_mut(stream as usize) {
            let (distance, after) = (node.distance, node.after);
            if taken < TAKEN {
                node.before = IN_FRONT;
                self.front.push(distance, stream);
                taken += 1;
            } else {
                self.insert_backup(stream, distance);
            }
            stream = after;
        }
        self.front.sort_last(taken);
    }

    /// Returns the first of the front and the backup.
    #[cold]
    fn or_backup(&self, first: Option<i64>) -> Option<u32> {
        let rank = |stream: u32| (self.nodes[stream as usize].distance, stream);
        let first = first.map(|entry| rank(self.front.stream(entry)));
        first.into_iter().chain(self.backup.first().map(rank)).min().map(|(_, stream)| stream)
    }

    #[inline(always)]
    fn needs_review(&self) -> bool {
        let Review { served, outside, backoff, .. } = self.review;
        if served < REVIEW_INTERVAL {
            return false;
        }
        // A review may visit all of these.
        let visited = self.nodes.len().max(self.buckets.len() / 4) as u64;
        if self.is_tree { served >= visited << backoff } else { served + outside >= visited }
    }

    /// Adopts another width if the streams that were served suggest it, or a tree instead of a ring
    /// that does not suit.
    #[cold]
    fn review(&mut self) {
        if let Some(first) = self.front.first() {
            self.reached = self.front.distance(first);
        }
        let Review { served, outside, from, is_trial, mut backoff } = self.review;
        let advanced = self.reached.wrapping_sub(from).cast_signed().max(0).cast_unsigned();
        let wide = (advanced / served.max(1)).saturating_mul(STREAMS_PER_BUCKET);
        let shift = wide.checked_ilog2().unwrap_or(0).min(ENTRY_BITS - self.front.stream_bits());
        let suits = outside <= served / 4;
        let mut rearranges = shift.abs_diff(self.shift) > 1;
        if self.is_tree {
            (self.is_tree, rearranges) = (false, true);
        } else if suits {
            backoff = 0;
        } else {
            (self.is_tree, rearranges) = (is_trial, true);
            backoff = (backoff + u32::from(is_trial)).min(MAX_BACKOFF);
        }
        if rearranges {
            self.shift = shift;
            self.rearrange(0);
        }
        let is_trial = rearranges && !suits;
        self.review = Review { from: self.reached, is_trial, backoff, ..Review::default() };
    }

    /// Moves the base by `moved` and reinserts every stream. O(n).
    #[cold]
    fn rearrange(&mut self, moved: u64) {
        let mut moving = core::mem::take(&mut self.moving);
        let held = |(stream, node): (u32, &Node)| (node.before != ABSENT).then_some(stream);
        moving.extend((0u32..).zip(&self.nodes).filter_map(held));
        let mut first = u64::MAX;
        for stream in &moving {
            let node = &mut self.nodes[*stream as usize];
            if node.before == IN_BACKUP {
                self.backup.remove(*stream);
            }
            node.distance = node.distance.wrapping_sub(moved);
            first = first.min(node.distance);
        }
        self.front.clear();
        self.buckets.fill(NONE);
        let buckets = buckets(moving.len()).max(self.buckets.len());
        self.buckets.resize(buckets, NONE);
        self.occupied.clear(buckets);
        self.next = first >> self.shift;
        self.reached = self.reached.wrapping_sub(moved);
        self.review.from = self.review.from.wrapping_sub(moved);
        for stream in moving.drain(..) {
            let distance = self.nodes[stream as usize].distance;
            let number = distance >> self.shift;
            if !self.is_tree && number - self.next < buckets as u64 {
                self.link(stream, distance, self.index(number));
            } else {
                self.insert_backup(stream, distance);
            }
        }
        self.moving = moving;
    }

    /// Moves the base, so that it is before `key` and all others. O(n), once while keys advance by
    /// 2⁶².
    #[cold]
    fn rebase(&mut self, key: u64) {
        let present = self.nodes.iter().filter(|node| node.before != ABSENT);
        let first = present.map(|node| node.distance).min();
        let base = base_before(key, first.map(|distance| self.base.wrapping_add(distance)));
        let moved = base.wrapping_sub(self.base);
        self.base = base;
        self.rearrange(moved);
    }

    /// Inserts a stream, or moves it, while all streams are in the backup.
    #[inline(never)]
    fn insert_into_tree(&mut self, stream: u32, key: u64) {
        let Node { distance: last, before, .. } = self.nodes[stream as usize];
        if before == ABSENT {
            self.count += 1;
        } else if self.backup.first() == Some(stream) {
            self.served(last);
        }
        let mut distance = key.wrapping_sub(self.base);
        if distance > SPAN {
            self.backup.remove(stream);
            self.nodes[stream as usize].before = ABSENT;
            self.rebase(key);
            distance = key.wrapping_sub(self.base);
        }
        if self.count == 1 {
            self.restart(distance);
        }
        self.insert_backup(stream, distance);
        if self.needs_review() {
            self.review();
        }
    }

    /// Begins at `distance`, where the only stream is inserted: no other one is in the front or in
    /// the ring.
    #[inline]
    fn restart(&mut self, distance: u64) {
        self.next = distance >> self.shift;
        self.reached = distance;
        (self.review.from, self.review.served, self.review.outside) = (distance, 0, 0);
    }

    /// Makes nodes for the streams below `streams`.
    #[cold]
    fn enlarge(&mut self, streams: usize) {
        if streams > self.nodes.len() {
            self.nodes.resize(streams, Node { distance: 0, after: NONE, before: ABSENT });
            self.front.set_streams(streams);
            self.shift = self.shift.min(ENTRY_BITS - self.front.stream_bits());
            self.rearrange(0);
        }
    }
}

impl<K: Rank + Cyclic> Structure<K> for Calendar<K> {
    fn reserve(&mut self, streams: usize) {
        self.enlarge(streams);
        let buckets = buckets(streams);
        self.buckets.reserve(buckets.saturating_sub(self.buckets.len()));
        self.occupied.reserve(buckets);
        self.moving.reserve(streams.saturating_sub(self.moving.len()));
        self.front.reserve(AHEAD + TAKEN);
        self.backup.reserve(streams);
    }

    #[inline(always)]
    fn insert(&mut self, stream: u32, rank: K) {
        let key = rank.bits();
        if stream as usize >= self.nodes.len() {
            self.enlarge((stream as usize + 1).max(2 * self.nodes.len()));
        }
        if self.is_tree {
            return self.insert_into_tree(stream, key);
        }
        let before = self.nodes[stream as usize].before;
        if before == ABSENT {
            self.count += 1;
        } else {
            self.leave(stream, before);
        }
        let mut distance = key.wrapping_sub(self.base);
        if distance > SPAN {
            self.nodes[stream as usize].before = ABSENT;
            self.rebase(key);
            distance = key.wrapping_sub(self.base);
        }
        if self.count == 1 {
            self.restart(distance);
        }
        self.put(stream, distance);
    }

    #[inline(always)]
    fn remove(&mut self, stream: u32) {
        let Some(node) = self.nodes.get(stream as usize) else { return };
        let before = node.before;
        if before != ABSENT {
            self.count -= 1;
            self.leave(stream, before);
            self.nodes[stream as usize].before = ABSENT;
        }
    }

    #[inline(always)]
    fn first(&mut self) -> Option<u32> {
        if self.is_tree {
            return self.backup.first();
        }
        if self.front.len() < AHEAD {
            self.top_up();
        }
        let first = self.front.first();
        if self.backup.is_empty() {
            first.map(|entry| self.front.stream(entry))
        } else {
            self.or_backup(first)
        }
    }

    #[inline(always)]
    fn after_first(&self, places: usize) -> Option<u32> {
        self.front.get(places).map(|entry| self.front.stream(entry))
    }

    fn due(&self, _: u64, _: &mut Vec<u32>) {
        const { assert!(matches!(K::EXPIRY, Expiry::Never)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Near(u64);

    impl Cyclic for Near {
        fn bits(self) -> u64 {
            self.0
        }
    }

    impl Ord for Near {
        fn cmp(&self, other: &Self) -> Ordering {
            self.0.wrapping_sub(other.0).cast_signed().cmp(&0)
        }
    }

    impl PartialOrd for Near {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Rank for Near {}

    /// Checks that every present stream is in the location that its node tells, and the others in
    /// none.
    fn check(calendar: &Calendar<Near>) {
        let front = calendar.front.entries();
        assert!(front.is_sorted());
        let in_front = |stream| {
            let mut held = front.iter().filter(|entry| calendar.front.stream(**entry) == stream);
            held.next().map(|entry| (calendar.front.distance(*entry), held.count()))
        };
        let mut listed = alloc::vec![false; calendar.nodes.len()];
        for (index, first) in calendar.buckets.iter().enumerate() {
            let (mut before, mut stream) = (NONE, *first);
            assert_eq!(calendar.occupied.next(index) == Some(index), stream != NONE);
            while let Some(node) = calendar.nodes.get(stream as usize) {
                assert_eq!(node.before, before);
                let number = node.distance >> calendar.shift;
                assert_eq!(calendar.index(number), index);
                assert!(number.wrapping_sub(calendar.next) < calendar.buckets.len() as u64);
                listed[stream as usize] = true;
                (before, stream) = (stream, node.after);
            }
        }
        let mut count = 0;
        for (stream, node) in (0u32..).zip(&calendar.nodes) {
            let is_in_front = node.before == IN_FRONT;
            assert_eq!(in_front(stream), is_in_front.then_some((node.distance, 0)), "{stream}");
            let is_in_backup = node.before == IN_BACKUP;
            assert_eq!(calendar.backup.contains(stream), is_in_backup, "{stream}");
            let is_absent = node.before == ABSENT;
            assert_eq!(listed[stream as usize], !is_in_front & !is_in_backup & !is_absent);
            count += usize::from(!is_absent);
        }
        assert_eq!(calendar.count, count);
    }

    /// The keys of a reference, and their order.
    #[derive(Default)]
    struct Reference(Vec<Option<Near>>);

    impl Reference {
        fn set(&mut self, stream: u32, key: Option<Near>) {
            let stream = stream as usize;
            self.0.resize(self.0.len().max(stream + 1), None);
            self.0[stream] = key;
        }

        fn first(&self) -> Option<u32> {
            let present = (0u32..).zip(&self.0).filter_map(|(stream, key)| Some(((*key)?, stream)));
            present.min().map(|(_, stream)| stream)
        }
    }

    /// One step of a test.
    #[derive(Clone, Debug)]
    enum Step {
        /// Serves this many streams; each gets a key this much later, or leaves if 0.
        Serve(u8, u64),
        /// Inserts or moves a stream to a key this much after the least.
        Insert(u32, i64),
        Remove(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let scale = prop_oneof![Just(0u32), Just(8), Just(20), Just(35), Just(50)];
        let near = (scale.clone(), 0u64..300).prop_map(|(scale, ahead)| ahead << scale);
        let any = (scale, -9i64..300).prop_map(|(scale, ahead)| ahead << scale);
        let step = prop_oneof![
            3 => (1u8..40, near).prop_map(|(count, ahead)| Step::Serve(count, ahead)),
            4 => (0u32..120, any).prop_map(|(stream, ahead)| Step::Insert(stream, ahead)),
            1 => (0u32..120).prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 1..100)
    }

    proptest! {
        #[test]
        fn the_first_stream_is_that_of_a_scan(origin in any::<u64>(), steps in steps()) {
            let mut calendar = Calendar::default();
            let mut reference = Reference::default();
            let mut least = origin;
            for step in steps {
                match step {
                    Step::Serve(count, ahead) => {
                        for _ in 0..count {
                            let first = reference.first();
                            prop_assert_eq!(calendar.first(), first);
                            let Some(first) = first else { break };
                            prop_assert!(!calendar.backup.is_empty()
                                || calendar.after_first(0) == Some(first));
                            least = reference.0[first as usize].unwrap().0;
                            let key = (ahead > 0).then_some(Near(least.wrapping_add(ahead)));
                            match key {
                                Some(key) => calendar.insert(first, key),
                                None => calendar.remove(first),
                            }
                            reference.set(first, key);
                        }
                    }
                    Step::Insert(stream, ahead) => {
                        let key = Near(least.wrapping_add_signed(ahead));
                        calendar.insert(stream, key);
                        reference.set(stream, Some(key));
                    }
                    Step::Remove(stream) => {
                        calendar.remove(stream);
                        reference.set(stream, None);
                    }
                }
                check(&calendar);
            }
        }
    }

    /// Keys advance by 2⁵⁷ a step and wrap around 150 times. Each is changed or removed every 37
    /// steps, so keys are less than 2⁶³ apart.
    #[test]
    fn the_order_is_that_of_keys_that_wrap_around() {
        const STREAMS: u32 = 37;
        let mut random = 1u64;
        let mut calendar = Calendar::default();
        let mut reference = Reference::default();
        let mut now = u64::MAX - 5;
        for step in 0..20_000u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now = now.wrapping_add(1 << 57);
            // 7 and 37 have no common divisor: every stream is changed, in another order.
            let stream = 7 * step % STREAMS;
            let high = random >> 32;
            if high.is_multiple_of(4) {
                calendar.remove(stream);
                reference.set(stream, None);
            } else {
                let key = Near(now.wrapping_add(high % 5).wrapping_sub((high % 3) << 59));
                calendar.insert(stream, key);
                reference.set(stream, Some(key));
            }
            assert_eq!(calendar.first(), reference.first(), "step {step}");
        }
    }

    const STREAMS: u32 = 4_000;

    /// The distance of a stream's next key under weights 1 to 7. Services are 62,500 apart.
    fn spread(stream: u32) -> u64 {
        1_000_000_000 / u64::from(1 + stream % 7)
    }

    /// Returns a calendar of [`STREAMS`] streams after 400,000 services from `origin` on. Stream 0
    /// is far behind the others. Their first keys have `phases` different phases.
    fn loaded(origin: u64, ahead: fn(u32) -> u64, phases: u32) -> Calendar<Near> {
        let mut calendar = Calendar::default();
        calendar.reserve(STREAMS as usize);
        calendar.insert(0, Near(origin + (1 << 60)));
        for stream in 1..STREAMS {
            let phase = u64::from(stream * 2_503 % phases);
            calendar.insert(stream, Near(origin + ahead(stream) / u64::from(phases) * phase));
        }
        serve(&mut calendar, ahead);
        calendar
    }

    /// Serves 400,000 streams.
    fn serve(calendar: &mut Calendar<Near>, ahead: fn(u32) -> u64) {
        let mut last = (0, 0);
        for _ in 0..400_000 {
            let first = calendar.first().unwrap();
            let now = calendar.nodes[first as usize].distance;
            assert!(last < (now, first), "{last:?} {now} {first}");
            last = (now, first);
            calendar.insert(first, Near(calendar.base.wrapping_add(now) + ahead(first)));
        }
        check(calendar);
    }

    #[test]
    fn a_ring_suits_streams_whose_keys_are_spread() {
        for origin in [0, 1 << 50, 1 << 61] {
            let calendar = loaded(origin, spread, 4_099);
            assert!(!calendar.is_tree);
            // 2¹⁷ is the width for 62,500; one twice as wide is kept.
            assert!(calendar.shift.abs_diff(17) <= 1, "{origin} {}", calendar.shift);
            assert_eq!(calendar.backup.len(), 1, "{origin}");
        }
    }

    #[test]
    fn a_tree_suits_equal_keys_until_they_are_spread() {
        let mut calendar = loaded(0, spread, 1);
        assert!(calendar.is_tree);
        serve(&mut calendar, |stream| 1_000_000_000 + u64::from(stream * 2_503 % 4_099) * 9_973);
        serve(&mut calendar, spread);
        assert!(!calendar.is_tree);
        assert_eq!(calendar.backup.len(), 1);
    }
}
