//! Streams by deadline: the first is found without looking at the others.
//!
//! ```text
//!  0 3 1 0 0 2 1 0 …   buckets of streams by deadline, in a ring      aside: a heap
//!  ^ start               bitmaps find the next one in use
//! ```
//!
//! All streams of an earlier bucket come before all of a later one, so the first is found by looking
//! at the few of the first bucket in use. What a bucket has no room for hangs from it as a chain (see
//! [`Chains`]) until it comes first. Aside stand the streams that have no place in the ring: their
//! deadline is before `start` or beyond the end, or their bucket came first and had a chain. Where
//! deadlines rarely fall together there are hardly any, and everything takes constant time; where they
//! do, a heap's, but of the streams of one bucket; at worst, a heap's of all streams.
//!
//! A bucket's width is a power of two, ns. It suits the deadlines that are seen: see [`Width`]. When
//! it has to change, or `start` has run away from the deadlines, all streams move, at most once for as
//! many insertions as there are streams.
//!
//! With many streams each line and bucket that is touched comes from memory. The ring says which
//! streams come next, and their lines say where they will go, so both are sent for in time.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::bitmap::Bitmap;
use super::bucket::Bucket;
use super::chains::{Chains, NO_CHAIN};
use super::width::Width;
use crate::discipline::{Discipline, Dwcs, DwcsOptions, DwcsRank, DwcsState, EdfFirst, Head};
use crate::packet::StreamId;
use crate::prefetch::prefetch;
use crate::selector::Backlog;
use crate::structure::IndexedHeap;

/// Values of `at` that are no bucket.
const ABSENT: u32 = u32::MAX;
const PARKED: u32 = u32::MAX - 1;
const ASIDE: u32 = u32::MAX - 2;
const AMONG_FEW: u32 = u32::MAX - 3;

/// A stream in a chain is at its place there with this bit; no place comes near [`AMONG_FEW`].
const CHAINED: u32 = 1 << 31;

/// From so many streams on their lines do not fit the caches near the core.
const PREFETCHED: usize = 2048;

/// How many buckets ahead lines are sent for.
const LOOK_AHEAD: u64 = 16;

/// How many streams later a line is taken to have come, and the bucket that its stream will go to is
/// sent for.
const IN_FLIGHT: usize = 8;

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has no packets, or is being moved.
    Absent,
    /// Its gate is closed.
    Parked,
    /// In the ring or aside.
    Placed,
}

/// One stream: all that a decision needs of it, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line {
    pub(super) state: DwcsState,
    /// The head's; meaningless without one.
    arrival_ns: u64,
    bytes: u32,
    /// The bucket, or where else it is.
    at: u32,
}

impl Line {
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
    pub(super) fn place(&self) -> Place {
        match self.at {
            ABSENT => Place::Absent,
            PARKED => Place::Parked,
            _ => Place::Placed,
        }
    }

    /// The stream, which was absent, stands among few.
    #[inline]
    pub(super) fn place_among_few(&mut self) {
        self.at = AMONG_FEW;
    }

    /// The stream, which stood among few, is absent.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.at = ABSENT;
    }

    /// The stream, which was absent, stands behind a closed gate.
    #[inline]
    pub(super) fn park(&mut self) {
        self.at = PARKED;
    }
}

/// All streams, those with heads that may be chosen by deadline.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    pub(super) lines: Vec<Line>,
    /// A power of two of them.
    buckets: Vec<Bucket>,
    occupied: Bitmap,
    /// The number of the bucket, counted from time 0, at which the ring begins.
    start: u64,
    /// No bucket before this one is in use.
    earliest: u64,
    width: Width,
    chains: Chains,
    aside: IndexedHeap<DwcsRank<EdfFirst>>,
    placed: u32,
    /// Which of its bucket's streams was found first.
    first_slot: usize,
    /// The lines of streams in buckets before this one have been sent for.
    looked: u64,
    /// The last streams whose lines were sent for, in a ring.
    sent_for: [u32; IN_FLIGHT],
    sent_for_at: usize,
    /// For the order of windows.
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
            aside: IndexedHeap::default(),
            placed: 0,
            first_slot: 0,
            looked: 0,
            sent_for: [0; IN_FLIGHT],
            sent_for_at: 0,
            dwcs: Dwcs::new(options),
            moving: Vec::new(),
        }
    }

    /// Makes the ring, before which no stream is placed: few streams need none.
    pub(super) fn make_ring(&mut self) {
        let buckets = self.width.adapt(0);
        self.buckets = alloc::vec![Bucket::EMPTY; buckets];
        self.occupied = Bitmap::with_places(buckets);
    }

    /// Whether no stream is placed.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.placed == 0
    }

    /// Places a stream that is absent by the deadline of its head.
    #[inline(always)]
    pub(super) fn insert(&mut self, stream: u32) {
        self.placed += 1;
        let number = self.number(stream);
        self.width.record(number.saturating_sub(self.earliest));
        self.put_into(stream, number);
        if self.width.needs_review(self.placed) {
            self.review();
        }
    }

    /// The same for one that was taken out of its bucket.
    #[inline(always)]
    pub(super) fn put(&mut self, stream: u32) {
        self.put_into(stream, self.number(stream));
    }

    /// The bucket that the stream's deadline falls into, counted from time 0.
    #[inline(always)]
    fn number(&self, stream: u32) -> u64 {
        self.width.bucket(self.lines[stream as usize].state.deadline_ns())
    }

    #[inline(always)]
    fn put_into(&mut self, stream: u32, number: u64) {
        let line = &mut self.lines[stream as usize];
        let ahead = number.wrapping_sub(self.start);
        if ahead < self.buckets.len() as u64 {
            let index = index(number, self.buckets.len());
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
        self.put_aside(stream);
    }

    #[cold]
    fn put_aside(&mut self, stream: u32) {
        let number = self.number(stream);
        let reach = self.buckets.len() as u64;
        if number.saturating_sub(self.start) >= reach
            && number.saturating_sub(self.earliest) < reach
        {
            // Deadlines run ahead of time: the ring may begin where it is first in use.
            self.start = self.earliest;
            return self.put(stream);
        }
        self.lines[stream as usize].at = ASIDE;
        let inside = number.wrapping_sub(self.start) < reach;
        self.width.record_aside(inside);
        let rank = self.rank(stream);
        self.aside.insert(stream, rank);
    }

    /// Takes a stream out, wherever it stands.
    #[inline(always)]
    pub(super) fn remove(&mut self, stream: u32) {
        let line = &mut self.lines[stream as usize];
        let at = core::mem::replace(&mut line.at, ABSENT);
        if at >= PARKED {
            return;
        }
        self.placed -= 1;
        let Some(bucket) = self.buckets.get_mut(at as usize) else {
            return self.remove_elsewhere(stream, at);
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

    /// Takes a stream out that stood at `at`, which is no bucket.
    fn remove_elsewhere(&mut self, stream: u32, at: u32) {
        if at >= AMONG_FEW {
            return self.aside.remove(stream);
        }
        let index = index(self.number(stream), self.buckets.len());
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

    /// Moves the streams of a bucket's chain aside, but takes those out whose deadlines are at or before
    /// `now_ns`, and appends them to `due`.
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
                    self.aside.insert(stream, rank);
                }
            }
        }
        self.buckets[index].set_chain(NO_CHAIN);
        if !self.buckets[index].in_use() {
            self.occupied.unset(index);
        }
    }

    /// The first stream in the order of DWCS.
    #[inline(always)]
    pub(super) fn first(&mut self, backlog: &impl Backlog<()>) -> Option<u32> {
        let first = match self.next_bucket() {
            None => None,
            Some(number) => {
                if self.lines.len() >= PREFETCHED {
                    self.look_ahead(number, backlog);
                }
                let index = index(number, self.buckets.len());
                if self.is_chained(index) {
                    self.unchain(index, None, &mut Vec::new());
                }
                self.first_of(index)
            }
        };
        if self.aside.is_empty() { first } else { self.or_aside(first) }
    }

    #[cold]
    fn or_aside(&self, first: Option<u32>) -> Option<u32> {
        let aside = self.aside.first();
        match (first, aside) {
            (Some(stream), Some(other)) => Some(other.min((self.rank(stream), stream)).1),
            (first, aside) => first.or(aside.map(|(_, stream)| stream)),
        }
    }

    /// The first stream of a bucket, its chain left out.
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

    /// Whether a bucket has a chain.
    #[inline(always)]
    pub(super) fn is_chained(&self, index: usize) -> bool {
        self.buckets[index].chain() != NO_CHAIN
    }

    #[inline]
    pub(super) fn rank(&self, stream: u32) -> DwcsRank<EdfFirst> {
        let line = &self.lines[stream as usize];
        self.dwcs.rank(&line.state, line.head())
    }

    /// The first bucket in use, if it begins at or before `now_ns`: its place in the ring.
    #[inline(always)]
    pub(super) fn due_bucket(&mut self, now_ns: u64) -> Option<usize> {
        let now = self.width.bucket(now_ns);
        if self.earliest > now {
            return None;
        }
        let number = self.next_bucket().filter(|number| *number <= now)?;
        Some(index(number, self.buckets.len()))
    }

    /// Takes the next stream out of a bucket, from `slot` on, whose deadline is at or before
    /// `now_ns`. It is to be [`put`](Self::put) back or [`lose`](Self::lose)d.
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

    /// Nothing more is taken out of a bucket. Returns whether streams are left, all due later.
    #[inline(always)]
    pub(super) fn leave(&mut self, index: usize) -> bool {
        let left = self.buckets[index].in_use();
        if !left {
            self.occupied.unset(index);
        }
        left
    }

    /// Time reaches `now_ns`; no stream in the ring is due.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.start = self.start.max(self.width.bucket(now_ns));
        self.earliest = self.earliest.max(self.start);
    }

    /// A stream that was taken is placed no more.
    #[inline]
    pub(super) fn lose(&mut self, stream: u32) {
        self.lines[stream as usize].at = ABSENT;
        self.placed -= 1;
    }

    /// Whether streams stand aside.
    #[inline]
    pub(super) fn any_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Takes out the streams aside whose deadlines are at or before `now_ns`.
    pub(super) fn take_due_aside(&mut self, now_ns: u64, due: &mut Vec<u32>) {
        let begin = due.len();
        self.aside.collect_while(|rank| rank.deadline_ns() <= now_ns, due);
        let due = &due[begin..];
        if due.len() < self.aside.len() {
            due.iter().for_each(|stream| self.remove(*stream));
            return;
        }
        // Where deadlines fall together all are due at once, and nothing is to be kept in order.
        self.aside.clear();
        due.iter().for_each(|stream| self.lose(*stream));
    }

    /// The first bucket in use, counted from time 0.
    #[inline]
    fn next_bucket(&mut self) -> Option<u64> {
        let at = index(self.earliest, self.buckets.len());
        if self.buckets[at].in_use() {
            return Some(self.earliest);
        }
        let found = match self.occupied.next(at) {
            None => self.occupied.next(0)?,
            Some(found) => found,
        };
        let ahead = found.wrapping_sub(at) & (self.buckets.len() - 1);
        self.earliest += ahead as u64;
        Some(self.earliest)
    }

    /// Sends for the lines of streams that come soon, and for the buckets that streams which come
    /// still sooner will go to.
    #[inline]
    fn look_ahead(&mut self, number: u64, backlog: &impl Backlog<()>) {
        self.looked = self.looked.max(number + 1);
        while self.looked < number + LOOK_AHEAD {
            let index = index(self.looked, self.buckets.len());
            self.looked += 1;
            for slot in 0..self.buckets[index].len() {
                self.send_for(self.buckets[index].at(slot), backlog);
            }
            if self.is_chained(index) {
                self.send_for_chained(index, backlog);
            }
        }
    }

    #[inline(always)]
    fn send_for(&mut self, stream: u32, backlog: &impl Backlog<()>) {
        prefetch(&self.lines, stream as usize);
        backlog.soon(StreamId(stream));
        self.sent_for_at = (self.sent_for_at + 1) % IN_FLIGHT;
        let sent_for = core::mem::replace(&mut self.sent_for[self.sent_for_at], stream);
        let target = self.lines[sent_for as usize].state.next_deadline_ns();
        prefetch(&self.buckets, index(self.width.bucket(target), self.buckets.len()));
        backlog.next(StreamId(sent_for));
    }

    /// Sends for the lines of a bucket's chain. They go where the bucket's other streams go, nearly.
    #[cold]
    fn send_for_chained(&self, index: usize, backlog: &impl Backlog<()>) {
        for stream in self.chains.streams(self.buckets[index].chain()) {
            prefetch(&self.lines, stream as usize);
            backlog.soon(StreamId(stream));
        }
    }

    /// Looks whether buckets still suit.
    #[cold]
    fn review(&mut self) {
        if !self.width.suits(self.placed) {
            self.rearrange();
        }
        self.width.clear();
    }

    /// Moves every stream to where it belongs by the width that suits now.
    #[cold]
    fn rearrange(&mut self) {
        let mut moving = core::mem::take(&mut self.moving);
        self.aside.drain_into(&mut moving);
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
            self.buckets = alloc::vec![Bucket::EMPTY; buckets];
            self.occupied = Bitmap::with_places(buckets);
        }
        let deadline = |stream: &u32| self.lines[*stream as usize].state.deadline_ns();
        let first_ns = moving.iter().map(deadline).min().unwrap_or(0);
        self.start = self.width.bucket(first_ns);
        self.earliest = self.start;
        self.looked = 0;
        for stream in moving.drain(..) {
            self.put(stream);
        }
        self.moving = moving;
    }
}

/// Where a bucket counted from time 0 stands among so many, a power of two.
#[inline]
fn index(number: u64, buckets: usize) -> usize {
    // Masked by the number of buckets.
    #[allow(clippy::cast_possible_truncation)]
    let low = number as usize;
    low & (buckets - 1)
}

/// An index of buckets, of which there are at most 2²⁴.
#[inline]
fn narrow(index: usize) -> u32 {
    #[allow(clippy::cast_possible_truncation)]
    let narrow = index as u32;
    narrow
}
