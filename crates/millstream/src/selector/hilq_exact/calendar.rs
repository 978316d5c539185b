//! A calendar queue: streams by deadline in a ring of buckets.
//!
//! ```text
//!  0 3 1 0 0 2 1 0 …   buckets of streams by deadline, in a ring      backup heap
//!  ^ start               bitmaps find the next occupied one
//! ```
//!
//! All streams of an earlier bucket precede all of a later one, so the first stream is one of the
//! few in the first occupied bucket. Streams that overflow a bucket form its chain (see [`Chains`])
//! until the bucket is first. The *backup heap* holds streams outside the ring: their deadline is
//! before `start` or beyond the end, or their bucket was first and had a chain. If deadlines rarely
//! coincide, hardly any stream is in the backup heap, and every operation takes constant time. If
//! they often do, an operation takes the time of a heap of one bucket's streams, at worst of all
//! streams.
//!
//! A bucket's width is a power of two, ns, which adapts to the deadlines: see [`Width`]. When it
//! changes, or `start` is far from the deadlines, all streams are reinserted. The number of
//! insertions between two such moves is at least the number of streams.
//!
//! With many streams, each stream entry and bucket is a cache miss. The ring holds the next
//! streams, and their entries hold their next deadlines, so the calendar prefetches both.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::bucket::Bucket;
use super::chains::{Chains, NO_CHAIN};
use super::width::Width;
use crate::discipline::{Discipline, Dwcs, DwcsOptions, DwcsRank, DwcsState, EdfFirst, Head};
use crate::packet::StreamId;
use crate::prefetch::prefetch;
use crate::selector::Backlog;
use crate::structure::{Bitmap, IndexedHeap, ring_place};

/// Values of `at` that are not a bucket.
const ABSENT: u32 = u32::MAX;
const PARKED: u32 = u32::MAX - 1;
const ASIDE: u32 = u32::MAX - 2;
const AMONG_FEW: u32 = u32::MAX - 3;

/// Marks the position of a chained stream; positions are far below [`AMONG_FEW`].
const CHAINED: u32 = 1 << 31;

/// The number of streams from which prefetching pays: their entries exceed the caches near the
/// core.
const PREFETCHED: usize = 2048;

/// The number of buckets by which the prefetch of stream entries is ahead.
const LOOK_AHEAD: u64 = 16;

/// The number of prefetches after which a prefetched entry is assumed to be cached. The bucket of
/// its stream's next deadline is then prefetched.
const IN_FLIGHT: usize = 8;

/// The location of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Not in the calendar: the stream has no packets, or is being moved.
    Absent,
    /// Not in the calendar: the stream's gate is closed.
    Parked,
    /// In the ring or in the backup heap.
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
    /// The bucket, the position in a chain or another location.
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
    start: u64,
    /// A lower bound of the first occupied bucket.
    earliest: u64,
    width: Width,
    chains: Chains,
    backup: IndexedHeap<DwcsRank<EdfFirst>>,
    placed: u32,
    /// The slot of the first stream in its bucket.
    first_slot: usize,
    /// The entries of streams in buckets before this one were prefetched.
    prefetched_until: u64,
    /// The last streams whose entries were prefetched, in a ring.
    prefetched: [u32; IN_FLIGHT],
    prefetched_at: usize,
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
            start: 0,
            earliest: 0,
            width: Width::default(),
            chains: Chains::new(),
            backup: IndexedHeap::default(),
            placed: 0,
            first_slot: 0,
            prefetched_until: 0,
            prefetched: [0; IN_FLIGHT],
            prefetched_at: 0,
            dwcs: Dwcs::new(options),
            moving: Vec::new(),
        }
    }

    /// Makes the ring. Call before the first insertion; not needed while `Few` is in use.
    pub(super) fn make_ring(&mut self) {
        let buckets = self.width.adapt(0);
        self.enlarge_ring(buckets);
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
        self.moving.reserve(streams.saturating_sub(self.moving.len()));
    }

    /// Returns whether the calendar is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.placed == 0
    }

    /// Inserts an absent stream by the deadline of its head.
    #[inline(always)]
    pub(super) fn insert(&mut self, stream: u32) {
        self.placed += 1;
        let number = self.number(stream);
        self.width.record(number.saturating_sub(self.earliest));
        self.insert_into(stream, number);
        if self.width.needs_review(self.placed) {
            self.review();
        }
    }

    /// Reinserts a stream that was taken out of its bucket.
    #[inline(always)]
    pub(super) fn put(&mut self, stream: u32) {
        self.insert_into(stream, self.number(stream));
    }

    /// Returns the bucket of the stream's deadline, counted from time 0.
    #[inline(always)]
    fn number(&self, stream: u32) -> u64 {
        self.width.bucket(self.lines[stream as usize].state.deadline_ns())
    }

    #[inline(always)]
    fn insert_into(&mut self, stream: u32, number: u64) {
        let line = &mut self.lines[stream as usize];
        let ahead = number.wrapping_sub(self.start);
        if ahead < self.buckets.len() as u64 {
            let index = ring_place(number, self.buckets.len());
            let bucket = &mut self.buckets[index];
            if bucket.has_room() {
                bucket.push(stream);
                line.at = narrow(index);
                self.occupied.set(index);
                self.earliest = self.earliest.min(number);
                return;
            }
            if let Some((chain, place)) = self.chains.push(bucket.chain(), stream) {
                bucket.set_chain(chain);
                line.at = CHAINED | place;
                self.earliest = self.earliest.min(number);
                return;
            }
        }
        self.insert_backup(stream);
    }

    #[cold]
    fn insert_backup(&mut self, stream: u32) {
        let number = self.number(stream);
        let reach = self.buckets.len() as u64;
        if number.saturating_sub(self.start) >= reach
            && number.saturating_sub(self.earliest) < reach
        {
            // All deadlines are in the future: the ring may begin at its first occupied bucket.
            self.start = self.earliest;
            return self.put(stream);
        }
        self.lines[stream as usize].at = ASIDE;
        let inside = number.wrapping_sub(self.start) < reach;
        self.width.record_backup(inside);
        let rank = self.rank(stream);
        self.backup.insert(stream, rank);
    }

    /// Removes a stream.
    #[inline(always)]
    pub(super) fn remove(&mut self, stream: u32) {
        let line = &mut self.lines[stream as usize];
        let at = core::mem::replace(&mut line.at, ABSENT);
        if at >= PARKED {
            return;
        }
        self.placed -= 1;
        let Some(bucket) = self.buckets.get_mut(at as usize) else {
            return self.remove_overflowed(stream, at);
        };
        let mut slot = self.first_slot;
        if slot >= bucket.len() || bucket.at(slot) != stream {
            slot = bucket.streams().position(|other| other == stream).unwrap_or(0);
        }
        bucket.take(slot);
        if !bucket.in_use() {
            self.occupied.unset(at as usize);
        }
    }

    /// Removes a stream whose location `at` is not a bucket.
    fn remove_overflowed(&mut self, stream: u32, at: u32) {
        if at >= AMONG_FEW {
            return self.backup.remove(stream);
        }
        let index = ring_place(self.number(stream), self.buckets.len());
        let bucket = &mut self.buckets[index];
        let (chain, moved) = self.chains.remove(bucket.chain(), at & !CHAINED);
        bucket.set_chain(chain);
        if moved != stream {
            self.lines[moved as usize].at = at;
        }
        if !bucket.in_use() {
            self.occupied.unset(index);
        }
    }

    /// Moves the streams of a bucket's chain to the backup heap. Those with deadlines at or before
    /// `now_ns` are removed and appended to `due`.
    #[cold]
    pub(super) fn unchain(&mut self, index: usize, now_ns: Option<u64>, due: &mut Vec<u32>) {
        let mut chain = self.buckets[index].chain();
        while chain != NO_CHAIN {
            let (streams, rest) = self.chains.pop_block(chain);
            chain = rest;
            for stream in streams {
                let rank = self.rank(stream);
                if now_ns.is_some_and(|now_ns| rank.deadline_ns() <= now_ns) {
                    self.lose(stream);
                    due.push(stream);
                } else {
                    self.lines[stream as usize].at = ASIDE;
                    self.backup.insert(stream, rank);
                }
            }
        }
        self.buckets[index].set_chain(NO_CHAIN);
        if !self.buckets[index].in_use() {
            self.occupied.unset(index);
        }
    }

    /// Returns the first stream in the order of DWCS.
    #[inline(always)]
    pub(super) fn first(&mut self, backlog: &impl Backlog<()>) -> Option<u32> {
        let first = match self.next_bucket() {
            None => None,
            Some(number) => {
                if self.lines.len() >= PREFETCHED {
                    self.prefetch_ahead(number, backlog);
                }
                let index = ring_place(number, self.buckets.len());
                if self.is_chained(index) {
                    self.unchain(index, None, &mut Vec::new());
                }
                self.first_of(index)
            }
        };
        if self.backup.is_empty() { first } else { self.or_backup(first) }
    }

    #[cold]
    fn or_backup(&self, first: Option<u32>) -> Option<u32> {
        let backup = self.backup.first();
        match (first, backup) {
            (Some(stream), Some(other)) => Some(other.min((self.rank(stream), stream)).1),
            (first, backup) => first.or(backup.map(|(_, stream)| stream)),
        }
    }

    /// Returns the first stream of a bucket without its chain.
    #[inline(always)]
    fn first_of(&mut self, index: usize) -> Option<u32> {
        let bucket = &self.buckets[index];
        if bucket.len() == 0 {
            return None;
        }
        let mut first = bucket.at(0);
        let mut slot = 0;
        let mut least_ns = self.lines[first as usize].state.deadline_ns();
        for at in 1..bucket.len() {
            let stream = bucket.at(at);
            let deadline_ns = self.lines[stream as usize].state.deadline_ns();
            let mut precedes = deadline_ns < least_ns;
            if deadline_ns == least_ns {
                precedes = (self.rank(stream), stream) < (self.rank(first), first);
            }
            slot = select_unpredictable(precedes, at, slot);
            first = select_unpredictable(precedes, stream, first);
            least_ns = least_ns.min(deadline_ns);
        }
        self.first_slot = slot;
        Some(first)
    }

    /// Returns whether a bucket has a chain.
    #[inline(always)]
    pub(super) fn is_chained(&self, index: usize) -> bool {
        self.buckets[index].chain() != NO_CHAIN
    }

    #[inline]
    pub(super) fn rank(&self, stream: u32) -> DwcsRank<EdfFirst> {
        let line = &self.lines[stream as usize];
        self.dwcs.rank(&line.state, line.head())
    }

    /// Returns the index of the first occupied bucket, if it begins at or before `now_ns`.
    #[inline(always)]
    pub(super) fn due_bucket(&mut self, now_ns: u64) -> Option<usize> {
        let now = self.width.bucket(now_ns);
        if self.earliest > now {
            return None;
        }
        let number = self.next_bucket().filter(|number| *number <= now)?;
        Some(ring_place(number, self.buckets.len()))
    }

    /// Removes the next due stream from a bucket, from `slot` on: its deadline is at or before
    /// `now_ns`. A call of [`put`](Self::put) or [`lose`](Self::lose) must follow.
    #[inline(always)]
    pub(super) fn take_due(&mut self, index: usize, slot: &mut usize, now_ns: u64) -> Option<u32> {
        let bucket = &mut self.buckets[index];
        while *slot < bucket.len() {
            if self.lines[bucket.at(*slot) as usize].state.deadline_ns() <= now_ns {
                return Some(bucket.take(*slot));
            }
            *slot += 1;
        }
        None
    }

    /// Ends the removals from a bucket. Returns whether it still has streams, all due later.
    #[inline(always)]
    pub(super) fn leave(&mut self, index: usize) -> bool {
        let left = self.buckets[index].in_use();
        if !left {
            self.occupied.unset(index);
        }
        left
    }

    /// Advances time to `now_ns`, at which no stream in the ring is due.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.start = self.start.max(self.width.bucket(now_ns));
        self.earliest = self.earliest.max(self.start);
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
    fn next_bucket(&mut self) -> Option<u64> {
        let at = ring_place(self.earliest, self.buckets.len());
        if self.buckets[at].in_use() {
            return Some(self.earliest);
        }
        self.earliest += self.occupied.ahead(at, self.buckets.len())?;
        Some(self.earliest)
    }

    /// Prefetches the entries of the next streams, and the next buckets of streams before them.
    #[inline]
    fn prefetch_ahead(&mut self, number: u64, backlog: &impl Backlog<()>) {
        self.prefetched_until = self.prefetched_until.max(number + 1);
        while self.prefetched_until < number + LOOK_AHEAD {
            let index = ring_place(self.prefetched_until, self.buckets.len());
            self.prefetched_until += 1;
            for slot in 0..self.buckets[index].len() {
                self.prefetch_stream(self.buckets[index].at(slot), backlog);
            }
            if self.is_chained(index) {
                self.prefetch_chain(index, backlog);
            }
        }
    }

    #[inline(always)]
    fn prefetch_stream(&mut self, stream: u32, backlog: &impl Backlog<()>) {
        prefetch(&self.lines, stream as usize);
        backlog.soon(StreamId(stream));
        self.prefetched_at = (self.prefetched_at + 1) % IN_FLIGHT;
        let prefetched = core::mem::replace(&mut self.prefetched[self.prefetched_at], stream);
        let target = self.lines[prefetched as usize].state.next_deadline_ns();
        prefetch(&self.buckets, ring_place(self.width.bucket(target), self.buckets.len()));
        backlog.next(StreamId(prefetched));
    }

    /// Prefetches the entries of a bucket's chain. Their next buckets are near those of the other
    /// streams.
    #[cold]
    fn prefetch_chain(&self, index: usize, backlog: &impl Backlog<()>) {
        for stream in self.chains.streams(self.buckets[index].chain()) {
            prefetch(&self.lines, stream as usize);
            backlog.soon(StreamId(stream));
        }
    }

    /// Reviews the width of buckets.
    #[cold]
    fn review(&mut self) {
        if !self.width.suits(self.placed) {
            self.rearrange();
        }
        self.width.clear();
    }

    /// Adopts the suitable width and reinserts every stream.
    #[cold]
    fn rearrange(&mut self) {
        let mut moving = core::mem::take(&mut self.moving);
        self.backup.drain_into(&mut moving);
        let mut index = 0;
        while let Some(found) = self.occupied.next(index) {
            let bucket = core::mem::replace(&mut self.buckets[found], Bucket::EMPTY);
            moving.extend(bucket.streams());
            let mut chain = bucket.chain();
            while chain != NO_CHAIN {
                let (streams, rest) = self.chains.pop_block(chain);
                moving.extend(streams);
                chain = rest;
            }
            self.occupied.unset(found);
            index = found;
        }
        let buckets = self.width.adapt(self.placed);
        if self.buckets.len() < buckets {
            self.enlarge_ring(buckets);
        }
        let deadline = |stream: &u32| self.lines[*stream as usize].state.deadline_ns();
        let first_ns = moving.iter().map(deadline).min().unwrap_or(0);
        self.start = self.width.bucket(first_ns);
        self.earliest = self.start;
        self.prefetched_until = 0;
        for stream in moving.drain(..) {
            self.put(stream);
        }
        self.moving = moving;
    }
}

/// Narrows an index of buckets, which are at most 2²⁴.
#[inline]
fn narrow(index: usize) -> u32 {
    #[allow(clippy::cast_possible_truncation)]
    let narrow = index as u32;
    narrow
}
