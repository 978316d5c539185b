//! A calendar queue: streams by deadline in a ring of buckets, the first few in order.
//!
//! ```text
//! front   [a b c …]             the first streams by deadline; served from here
//! ring     0 3 1 0 0 2 1 0 …    buckets of streams by deadline
//!          ^ next               bitmaps find the next occupied one
//! backup   heap                 other streams, by rank
//! ```
//!
//! Streams in the front precede those in the ring. If few are left, the front takes the next
//! occupied bucket. So a stream is ordered only among the few of its bucket, and the next streams
//! are known. When several streams share the first deadline, they are ordered by the rest of the
//! rank.
//!
//! Streams that overflow a bucket form its chain (see [`Chains`]) until the front takes the bucket.
//! The *backup heap* holds streams that are beyond the ring, do not fit into the front, or have the
//! deadline of many others. If deadlines rarely coincide, hardly any stream is in the backup heap,
//! and every operation takes constant time. If they often do, an operation takes the time of a heap
//! of one bucket's streams, at worst of all streams.
//!
//! A bucket's width is a power of two, ns, which adapts to the deadlines: see [`Width`]. When it
//! changes, all streams are reinserted. The number of insertions between two such moves is at least
//! the number of streams.
//!
//! With many streams, each stream entry, bucket, queue and head is a cache miss. So the calendar
//! prefetches the entries of the buckets behind the front and, when the front takes a stream, the
//! bucket of its next deadline: the stream is inserted there after a service or a miss. Queue and
//! head follow some decisions before a service, those of several streams where deadlines pass.

use alloc::vec::Vec;

use super::bucket::Bucket;
use super::chains::{Chains, NO_CHAIN};
use super::width::Width;
use crate::discipline::{Discipline, Dwcs, DwcsOptions, DwcsRank, DwcsState, EdfFirst, Head};
use crate::packet::StreamId;
use crate::prefetch::prefetch;
use crate::selector::Backlog;
use crate::structure::{Bitmap, ENTRY_BITS, Front, IndexedHeap, ring_place};

/// Values of `at` that are not the position in a chain.
const ABSENT: u32 = u32::MAX;
const PARKED: u32 = u32::MAX - 1;
const IN_BACKUP: u32 = u32::MAX - 2;
const AMONG_FEW: u32 = u32::MAX - 3;
/// In the front or in a bucket: the deadline tells which.
const PLACED: u32 = 0;

/// Marks the position of a chained stream; positions are far below [`AMONG_FEW`].
const CHAINED: u32 = 1 << 31;

/// The number of streams from which prefetching pays: their entries exceed the caches near the
/// core.
const PREFETCHED: usize = 2048;

/// The number of buckets behind the front for which entries of streams are prefetched.
const LOOK_AHEAD: u64 = 12;

/// The number of streams in the front from which it takes no further bucket.
const AHEAD: usize = 8;

/// The greatest number of streams that the front takes from a bucket.
const TAKEN: usize = 64;

/// The greatest number of streams in the front with equal deadlines.
const MOST_TIED: usize = 24;

/// The distance, in decisions, at which a stream's queue is prefetched.
const QUEUE_AHEAD: usize = 6;

/// The distance, in decisions, at which a stream's head is prefetched.
const HEAD_AHEAD: usize = 3;

/// The number of streams for which queue and head are prefetched at a decision if deadlines pass.
const LEAVING: usize = 3;

/// The location of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Not in the calendar: the stream has no packets, or is being moved.
    Absent,
    /// Not in the calendar: the stream's gate is closed.
    Parked,
    /// In the front, the ring or the backup heap; or among few.
    Placed,
}

/// One stream in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct StreamEntry {
    pub(super) state: DwcsState,
    /// The head's arrival, if there is a head.
    arrival_ns: u64,
    bytes: u32,
    /// The location, or the position in a chain.
    at: u32,
}

impl StreamEntry {
    pub(super) fn new(state: DwcsState) -> Self {
        Self { state, arrival_ns: 0, bytes: 0, at: ABSENT }
    }

    #[inline]
    pub(super) fn head(&self) -> Head {
        Head { arrival_ns: self.arrival_ns, bytes: self.bytes }
    }

    #[inline]
    pub(super) fn set_head(&mut self, head: Head) {
        (self.arrival_ns, self.bytes) = (head.arrival_ns, head.bytes);
    }

    #[inline]
    pub(super) fn place(&self) -> Location {
        match self.at {
            ABSENT => Location::Absent,
            PARKED => Location::Parked,
            _ => Location::Placed,
        }
    }

    /// Marks the stream, which was absent, as a member of `Few`.
    #[inline]
    pub(super) fn place_among_few(&mut self) {
        self.at = AMONG_FEW;
    }

    /// Marks the stream, which was a member of `Few`, as absent.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.at = ABSENT;
    }

    /// Marks the stream, which was absent, as parked: its gate is closed.
    #[inline]
    pub(super) fn park(&mut self) {
        self.at = PARKED;
    }
}

/// All streams; those with active heads by deadline.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    pub(super) lines: Vec<StreamEntry>,
    /// The ring; its length is a power of two.
    buckets: Vec<Bucket>,
    occupied: Bitmap,
    /// The first bucket of the ring, counted from time 0.
    next: u64,
    front: Front,
    width: Width,
    chains: Chains,
    backup: IndexedHeap<DwcsRank<EdfFirst>>,
    placed: u32,
    /// The entries of streams in buckets before this one were prefetched.
    prefetched_until: u64,
    /// Orders streams with equal deadlines.
    dwcs: Dwcs<EdfFirst>,
    moving: Vec<u32>,
}

impl Calendar {
    pub(super) fn new(options: DwcsOptions) -> Self {
        Self {
            lines: Vec::new(),
            buckets: Vec::new(),
            occupied: Bitmap::default(),
            next: 0,
            front: Front::default(),
            width: Width::default(),
            chains: Chains::new(),
            backup: IndexedHeap::default(),
            placed: 0,
            prefetched_until: 0,
            dwcs: Dwcs::new(options),
            moving: Vec::new(),
        }
    }

    /// Makes the ring. Call before the first insertion; not needed while `Few` is in use.
    pub(super) fn make_ring(&mut self) {
        self.rearrange(true);
    }

    /// Adds a stream. Call [`make_ring`](Self::make_ring) first.
    pub(super) fn add_stream(&mut self, line: StreamEntry) {
        self.lines.push(line);
        if self.lines.len() > 1 << self.front.stream_bits() {
            self.rearrange(false);
        }
    }

    /// Enlarges the ring, which has no streams, to `buckets` buckets.
    fn enlarge_ring(&mut self, buckets: usize) {
        self.buckets.resize(buckets, Bucket::EMPTY);
        self.occupied.clear(buckets);
    }

    /// Allocates memory for the streams that were added.
    pub(super) fn reserve(&mut self) {
        let streams = self.lines.len();
        // Not above the number of streams, which is a u32.
        let buckets = Width::buckets(u32::try_from(streams).unwrap_or(u32::MAX));
        self.buckets.reserve(buckets.saturating_sub(self.buckets.len()));
        self.occupied.reserve(buckets);
        self.chains.reserve(streams);
        self.backup.reserve(streams);
        self.front.reserve(AHEAD + TAKEN);
        self.moving.reserve(streams.saturating_sub(self.moving.len()));
    }

    /// Returns whether prefetching pays with this number of streams.
    #[inline(always)]
    fn is_large(&self) -> bool {
        self.lines.len() >= PREFETCHED
    }

    /// Returns whether the calendar is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.placed == 0
    }

    /// Inserts an absent stream by the deadline of its head.
    pub(super) fn insert(&mut self, stream: u32) {
        let line = &mut self.lines[stream as usize];
        line.at = PLACED;
        let deadline_ns = line.state.deadline_ns();
        self.placed += 1;
        if self.placed == 1 {
            self.next = self.width.bucket(deadline_ns);
        }
        self.reinsert(stream, deadline_ns);
        if self.placed > self.width.room() {
            self.review();
        }
    }

    /// Inserts a stream with this deadline that was removed by [`remove_first`](Self::remove_first)
    /// or [`take_due`](Self::take_due).
    #[inline(always)]
    pub(super) fn reinsert(&mut self, stream: u32, deadline_ns: u64) {
        let number = self.width.bucket(deadline_ns);
        let ahead = number.wrapping_sub(self.next);
        if ahead < self.buckets.len() as u64 {
            let index = ring_place(number, self.buckets.len());
            let bucket = &mut self.buckets[index];
            if bucket.has_room() {
                bucket.push(stream);
                self.occupied.set(index);
                return self.width.record(ahead);
            }
        }
        self.insert_elsewhere(stream, deadline_ns);
    }

    /// Inserts a stream that is outside the ring or overflows its bucket.
    #[inline(never)]
    fn insert_elsewhere(&mut self, stream: u32, deadline_ns: u64) {
        let reach = self.buckets.len() as u64;
        let number = self.width.bucket(deadline_ns);
        self.width.record(number.saturating_sub(self.next));
        if number < self.next {
            if self.front.insert(deadline_ns, stream) {
                return;
            }
        } else if number - self.next < reach {
            let index = ring_place(number, self.buckets.len());
            let bucket = &mut self.buckets[index];
            if let Some((chain, place)) = self.chains.push(bucket.chain(), stream) {
                bucket.set_chain(chain);
                self.lines[stream as usize].at = CHAINED | place;
                return;
            }
        } else {
            // The ring may begin at its first stream.
            let first = self.next_bucket().map_or(number, |first| first.min(number));
            if number - first < reach {
                self.next = first;
                return self.reinsert(stream, deadline_ns);
            }
        }
        self.width.record_outside();
        self.insert_backup(stream);
    }

    fn insert_backup(&mut self, stream: u32) {
        self.lines[stream as usize].at = IN_BACKUP;
        let rank = self.rank(stream);
        self.backup.insert(stream, rank);
    }

    /// Removes a stream.
    #[inline]
    pub(super) fn remove(&mut self, stream: u32) {
        if self.remove_first(stream) {
            return self.lose(stream);
        }
        let at = core::mem::replace(&mut self.lines[stream as usize].at, ABSENT);
        if at >= PARKED {
            return;
        }
        self.placed -= 1;
        if at == IN_BACKUP {
            return self.backup.remove(stream);
        }
        let number = self.width.bucket(self.lines[stream as usize].state.deadline_ns());
        if number < self.next {
            return self.front.remove(stream);
        }
        let index = ring_place(number, self.buckets.len());
        let bucket = &mut self.buckets[index];
        if at & CHAINED == 0 {
            bucket.remove(stream);
        } else {
            let (chain, moved) = self.chains.remove(bucket.chain(), at & !CHAINED);
            bucket.set_chain(chain);
            if moved != stream {
                self.lines[moved as usize].at = at;
            }
        }
        if !bucket.in_use() {
            self.occupied.unset(index);
        }
    }

    /// Removes `stream` if it is the first of the front; returns whether it was. A call of
    /// [`reinsert`](Self::reinsert) must follow.
    #[inline(always)]
    pub(super) fn remove_first(&mut self, stream: u32) -> bool {
        let is_first = self.front.is_first(stream);
        if is_first {
            self.front.remove_first();
        }
        is_first
    }

    /// Returns the first stream if no other one needs to be considered: its deadline is after
    /// `now_ns`, no other one equals it, and the backup heap is empty. Call
    /// [`fill_front`](Self::fill_front) first.
    #[inline(always)]
    pub(super) fn clear_first(&self, now_ns: u64) -> Option<u32> {
        let first = self.front.first()?;
        let is_late = self.front.distance(first) <= now_ns;
        let is_clear = !(is_late | self.is_tied(first)) && self.backup.is_empty();
        is_clear.then(|| self.front.stream(first))
    }

    /// Returns whether the first two streams of the front have equal deadlines and are not ordered
    /// by rank.
    #[inline(always)]
    fn is_tied(&self, first: i64) -> bool {
        let deadline_ns = |entry| self.front.distance(entry);
        self.front.get(1).is_some_and(|second| deadline_ns(second) == deadline_ns(first))
            && !self.front.is_ordered()
    }

    /// Returns the first stream in the order of DWCS. Call [`fill_front`](Self::fill_front) first.
    pub(super) fn first(&mut self) -> Option<u32> {
        let entry = self.front.first();
        let first = match entry {
            Some(entry) if self.is_tied(entry) => self.first_tied(entry),
            _ => entry.map(|entry| self.front.stream(entry)),
        };
        if self.backup.is_empty() { first } else { self.or_backup(first) }
    }

    /// Returns the first of the streams in the front that have the deadline of `first`, and orders
    /// them by rank, which changes only with a service or a miss. If there are many, they are moved
    /// to the backup heap.
    fn first_tied(&mut self, first: i64) -> Option<u32> {
        let deadline_ns = self.front.distance(first);
        let is_tied = |entry: &&i64| self.front.distance(**entry) == deadline_ns;
        let tied = self.front.entries().iter().take_while(is_tied).count();
        if tied > MOST_TIED {
            for place in 0..tied {
                self.insert_backup(self.front.stream(self.front.entries()[place]));
            }
            self.front.remove_many(tied);
            return None;
        }
        let (lines, dwcs) = (&self.lines, &self.dwcs);
        self.front.order_first(tied, |stream| {
            let line = &lines[stream as usize];
            (dwcs.rank(&line.state, line.head()), stream)
        });
        self.front.first().map(|entry| self.front.stream(entry))
    }

    #[cold]
    fn or_backup(&self, first: Option<u32>) -> Option<u32> {
        let backup = self.backup.first();
        match (first, backup) {
            (Some(stream), Some(other)) => Some(other.min((self.rank(stream), stream)).1),
            (first, backup) => first.or(backup.map(|(_, stream)| stream)),
        }
    }

    #[inline]
    pub(super) fn rank(&self, stream: u32) -> DwcsRank<EdfFirst> {
        let line = &self.lines[stream as usize];
        self.dwcs.rank(&line.state, line.head())
    }

    /// Moves the first buckets of the ring to the front if the front holds few streams. Stops at a
    /// bucket of missed deadlines, and at one that begins after a stream of the backup heap.
    ///
    /// If `reviews`, a due review of the width is done first. It may move late streams, too, from
    /// the backup heap to the ring.
    #[inline(always)]
    pub(super) fn fill_front(&mut self, now_ns: u64, reviews: bool) {
        if self.front.len() < AHEAD && !self.is_ring_empty() {
            self.take_buckets(now_ns, reviews);
        }
    }

    #[inline(always)]
    fn is_ring_empty(&self) -> bool {
        self.placed as usize == self.front.len() + self.backup.len()
    }

    #[inline(never)]
    fn take_buckets(&mut self, now_ns: u64, reviews: bool) {
        if reviews & self.width.is_due() {
            self.review();
        }
        while self.front.len() < AHEAD
            && !self.is_ring_empty()
            && let Some(number) = self.next_bucket()
        {
            let (begin_ns, end_ns) = (self.width.begin_ns(number), self.width.end_ns(number));
            let is_before = |(rank, _): (DwcsRank<EdfFirst>, u32)| rank.deadline_ns() < begin_ns;
            // The backup heap is cheapest with the streams of one deadline.
            if begin_ns > now_ns && self.backup.first().is_some_and(is_before) {
                break;
            }
            if self.front.is_empty() {
                self.front.restart(begin_ns);
            }
            if (end_ns <= now_ns) | !self.front.reaches(end_ns) {
                return;
            }
            self.take_bucket(number);
        }
        if self.is_large() {
            self.prefetch_lines();
        }
    }

    /// Moves a bucket, the first occupied one, to the end of the front.
    #[inline(always)]
    fn take_bucket(&mut self, number: u64) {
        let index = ring_place(number, self.buckets.len());
        self.next = number + 1;
        self.occupied.unset(index);
        let bucket = &mut self.buckets[index];
        let chain = bucket.chain();
        let streams = bucket.streams();
        let deadline_ns = |stream: u32| self.lines[stream as usize].state.deadline_ns();
        let count = self.front.append(streams.map(|stream| (deadline_ns(stream), stream)));
        self.front.sort_appended(count);
        bucket.clear();
        if chain != NO_CHAIN {
            self.take_chain(chain, count);
        }
        if self.is_large() {
            self.prefetch_next_buckets(count);
        }
    }

    /// Prefetches the buckets of the next deadlines of the last `count` streams of the front.
    #[inline(always)]
    fn prefetch_next_buckets(&self, count: usize) {
        let entries = self.front.entries();
        for entry in &entries[entries.len().saturating_sub(count)..] {
            let line = &self.lines[self.front.stream(*entry) as usize];
            let number = self.width.bucket(line.state.next_deadline_ns());
            prefetch(&self.buckets, ring_place(number, self.buckets.len()));
        }
    }

    /// Moves the streams of a chain to the end of the front, which has `taken` streams of the
    /// bucket. Blocks of equal deadlines are moved to the backup heap, and if there are too many
    /// streams, the last ones.
    #[cold]
    fn take_chain(&mut self, mut chain: u32, mut taken: usize) {
        while chain != NO_CHAIN {
            let (streams, rest) = self.chains.pop_block(chain);
            chain = rest;
            let deadlines =
                streams.clone().map(|stream| self.lines[stream as usize].state.deadline_ns());
            let is_tied =
                deadlines.clone().max() == deadlines.clone().min() && deadlines.count() > 1;
            for stream in streams {
                if taken < TAKEN && !is_tied {
                    let line = &mut self.lines[stream as usize];
                    line.at = PLACED;
                    self.front.push(line.state.deadline_ns(), stream);
                    taken += 1;
                } else {
                    self.insert_backup(stream);
                }
            }
        }
        self.front.sort_last(taken);
    }

    /// Removes the streams of the first occupied bucket and appends them to `due`, if all deadlines
    /// of the bucket are at or before `now_ns`; returns whether it did. A call of
    /// [`reinsert`](Self::reinsert) or [`lose`](Self::lose) must follow for each.
    pub(super) fn take_due_bucket(&mut self, now_ns: u64, due: &mut Vec<u32>) -> bool {
        if self.is_ring_empty() {
            return false;
        }
        let Some(number) = self.next_bucket() else { return false };
        if self.width.end_ns(number) > now_ns {
            return false;
        }
        self.next = number + 1;
        self.empty_bucket(ring_place(number, self.buckets.len()), due);
        true
    }

    /// Removes the streams of a bucket and of its chain, and appends them to `streams`.
    fn empty_bucket(&mut self, index: usize, streams: &mut Vec<u32>) {
        self.occupied.unset(index);
        let bucket = core::mem::replace(&mut self.buckets[index], Bucket::EMPTY);
        streams.extend(bucket.streams());
        let mut chain = bucket.chain();
        while chain != NO_CHAIN {
            let (chained, rest) = self.chains.pop_block(chain);
            chain = rest;
            for stream in chained {
                self.lines[stream as usize].at = PLACED;
                streams.push(stream);
            }
        }
    }

    /// Removes the first stream of the front if its deadline is at or before `now_ns`. A call of
    /// [`reinsert`](Self::reinsert) or [`lose`](Self::lose) must follow.
    #[inline(always)]
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        let first = self.front.first().filter(|first| self.front.distance(*first) <= now_ns)?;
        self.front.remove_first();
        Some(self.front.stream(first))
    }

    /// Marks a stream that was taken out as absent.
    #[inline]
    pub(super) fn lose(&mut self, stream: u32) {
        self.lines[stream as usize].at = ABSENT;
        self.placed -= 1;
    }

    /// Returns whether any stream is in the backup heap.
    #[inline]
    pub(super) fn any_backup(&self) -> bool {
        !self.backup.is_empty()
    }

    /// Removes the streams of the backup heap with deadlines at or before `now_ns`, and appends
    /// them to `due`.
    pub(super) fn take_due_backup(&mut self, now_ns: u64, due: &mut Vec<u32>) {
        let begin = due.len();
        self.backup.collect_while(|rank| rank.deadline_ns() <= now_ns, due);
        let due = &due[begin..];
        if due.len() < self.backup.len() {
            due.iter().for_each(|stream| self.remove(*stream));
            return;
        }
        // All are due at once because deadlines coincide: no order needs to be restored.
        self.backup.clear();
        due.iter().for_each(|stream| self.lose(*stream));
    }

    /// Returns the first occupied bucket, counted from time 0.
    #[inline]
    fn next_bucket(&self) -> Option<u64> {
        let at = ring_place(self.next, self.buckets.len());
        Some(self.next + self.occupied.ahead(at, self.buckets.len())?)
    }

    /// Prefetches the entries of the streams that the front takes next.
    #[inline]
    fn prefetch_lines(&mut self) {
        self.prefetched_until = self.prefetched_until.max(self.next);
        while self.prefetched_until < self.next + LOOK_AHEAD {
            let bucket = &self.buckets[ring_place(self.prefetched_until, self.buckets.len())];
            self.prefetched_until += 1;
            bucket.streams().for_each(|stream| prefetch(&self.lines, stream as usize));
            if bucket.chain() != NO_CHAIN {
                self.prefetch_chain(bucket.chain());
            }
        }
    }

    /// Prefetches the queues and heads that the decisions after this one need. If deadlines have
    /// passed, `is_overloaded`, several streams leave the front at a decision.
    #[inline(always)]
    pub(super) fn prefetch(&self, backlog: &impl Backlog<()>, is_overloaded: bool) {
        if !self.is_large() {
            return;
        }
        let several = if is_overloaded { LEAVING } else { 1 };
        for place in QUEUE_AHEAD..QUEUE_AHEAD + several {
            if let Some(entry) = self.front.get(place) {
                backlog.soon(StreamId(self.front.stream(entry)));
            }
        }
        for place in HEAD_AHEAD..HEAD_AHEAD + several {
            if let Some(entry) = self.front.get(place) {
                backlog.next(StreamId(self.front.stream(entry)));
            }
        }
    }

    /// Prefetches the entries of a chain.
    #[cold]
    fn prefetch_chain(&self, chain: u32) {
        self.chains.streams(chain).for_each(|stream| prefetch(&self.lines, stream as usize));
    }

    /// Reviews the width of buckets if that is due: the front may never run out of streams while
    /// the others are in the backup heap. Do not call while misses are charged.
    #[inline]
    pub(super) fn review_if_due(&mut self) {
        if self.width.is_due() && !self.backup.is_empty() {
            self.review();
        }
    }

    /// Reviews the width of buckets.
    #[cold]
    fn review(&mut self) {
        if !self.width.suits(self.placed) {
            self.rearrange(true);
        }
        self.width.clear();
    }

    /// Reinserts every stream; adopts the suitable width if `adapts`.
    #[cold]
    fn rearrange(&mut self, adapts: bool) {
        let mut moving = core::mem::take(&mut self.moving);
        self.backup.drain_into(&mut moving);
        moving.extend(self.front.entries().iter().map(|entry| self.front.stream(*entry)));
        let mut index = 0;
        while let Some(found) = self.occupied.next(index) {
            self.empty_bucket(found, &mut moving);
            index = found;
        }
        self.front.set_streams(self.lines.len());
        self.width.limit(ENTRY_BITS - self.front.stream_bits());
        if adapts {
            let buckets = self.width.adapt(self.placed);
            if self.buckets.len() < buckets {
                self.enlarge_ring(buckets);
            }
        }
        let deadline = |stream: &u32| self.lines[*stream as usize].state.deadline_ns();
        let first_ns = moving.iter().map(deadline).min().unwrap_or(0);
        self.next = self.width.bucket(first_ns);
        self.prefetched_until = 0;
        for stream in moving.drain(..) {
            let line = &mut self.lines[stream as usize];
            line.at = PLACED;
            let deadline_ns = line.state.deadline_ns();
            // A far stream must not move the begin of the ring, which is still empty, to itself.
            if self.width.bucket(deadline_ns) - self.next < self.buckets.len() as u64 {
                self.reinsert(stream, deadline_ns);
            } else {
                self.insert_backup(stream);
            }
        }
        self.moving = moving;
    }
}
