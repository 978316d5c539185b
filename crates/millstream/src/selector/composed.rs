//! A selector that combines a discipline and a structure.
//!
//! A backlogged stream is in one of three locations:
//!
//! ```text
//! structure   may be served; found by rank
//! pending     before its virtual start (WF²Q, WF²Q+); found by start. A stream is moved here only
//!             when it is first by rank, because most streams have started by then
//! parked      its gate is closed (no credits, rate cap reached); deadlines still pass
//! ```
//!
//! # Invariants of the cached fields
//!
//! Debug builds check them after every event ([`Selector::check`]):
//!
//! - `placed` is the number of streams whose location is the structure; `pending` and `parked` hold
//!   the streams with those locations. `parked` is empty if ranks never expire.
//! - `first`, if set, is the first stream of the structure, and has started.
//! - `one_started` implies that an active stream has started, or that `outrun` is set: `leap` was
//!   called on the clock, but WF²Q's clock follows the fluid and ignores it.
//! - `outrun` does not affect the schedule. It only lets heads that are unlikely to have started
//!   skip the structure, from which [`Selector::first_started`] would move them.

use alloc::vec::Vec;

use super::{Backlog, LAST_NS, NewHead, Observer, Select};
use crate::contract::{Contract, ContractError};
use crate::discipline::{
    Activation, Discipline, Expiry, Head, Missed, Rank, Selection, Turn, Waiting,
};
use crate::packet::StreamId;
use crate::prefetch::prefetch_whole;
use crate::structure::{IndexedHeap, Structure, WinnerTree};
use crate::virtual_time::NearTag;

/// The maximum number of streams with which debug builds check invariants: a check visits every
/// stream.
#[cfg(debug_assertions)]
const CHECKED_STREAMS: usize = 32;

/// The distance, in decisions, at which a stream's slot and queue are prefetched.
const SLOT_AHEAD: usize = 6;

/// The distance, in decisions, at which a stream's head is prefetched.
const HEAD_AHEAD: usize = 3;

/// The location of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// None: the stream has no packets.
    Idle,
    Structure,
    Pending,
    Parked,
}

impl Location {
    fn is_active(self) -> bool {
        matches!(self, Self::Structure | Self::Pending)
    }
}

/// The outcome for a head whose deadline has passed.
enum Charged {
    Keep,
    Drop { deadline_ns: Option<u64> },
}

/// The selector's record of one stream. Aligned, so that it spans no more cache lines than needed.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot<S> {
    state: S,
    head: Head,
    location: Location,
}

/// A discipline on a structure.
#[derive(Clone, Debug)]
pub struct Selector<D: Discipline, S> {
    discipline: D,
    structure: S,
    slots: Vec<Slot<D::State>>,
    /// Number of streams in `structure`.
    placed: usize,
    /// Streams before their virtual start, by start.
    pending: WinnerTree<NearTag>,
    /// Streams behind a closed gate, by expiry.
    parked: IndexedHeap<u64>,
    /// Scratch: the streams of the current charge.
    due: Vec<u32>,
    /// Streams whose late head must be dropped, and its deadline.
    dropping: Vec<(StreamId, Option<u64>)>,
    /// `true` if an active stream has started; used only if heads wait for their virtual start.
    one_started: bool,
    /// The cached first stream of the structure, which has started; `None` if unknown.
    first: Option<StreamId>,
    /// `true` if no active stream had started when the clock was last checked: services are ahead
    /// of it, and most heads have not started.
    outrun: bool,
    /// The number of operations, which determines when checks run.
    #[cfg(debug_assertions)]
    operations: u32,
}

impl<D: Discipline, S: Structure<D::Rank>> Select for Selector<D, S> {
    type Stamp = D::Stamp;

    const LEAPS: bool = Self::REGULATED;

    const TRACKS_BACKLOG: bool = <D::Selection as Selection<D>>::RANKS_BY_BACKLOG;

    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.slots.len())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        let state = self.discipline.admit(contract)?;
        let head = Head { arrival_ns: 0, bytes: 0 };
        self.slots.push(Slot { state, head, location: Location::Idle });
        Ok(StreamId(number))
    }

    fn reserve(&mut self) {
        let streams = self.slots.len();
        self.discipline.reserve();
        self.structure.reserve(streams);
        if Self::REGULATED {
            self.pending.reserve(streams);
        }
        if Self::EXPIRES {
            self.parked.reserve(streams);
            self.dropping.reserve(streams.saturating_sub(self.dropping.len()));
        }
        self.due.reserve(streams.saturating_sub(self.due.len()));
    }

    fn streams(&self) -> usize {
        self.slots.len()
    }

    fn has_deadlines(&self) -> bool {
        Self::EXPIRES
    }

    #[inline(always)]
    fn advance(&mut self, clock_ns: u64) {
        self.discipline.advance(clock_ns);
        self.leap();
        self.debug_check();
    }

    // Without the leap: `first_regulated` does it if it is needed.
    #[inline(always)]
    fn advance_to_select(&mut self, clock_ns: u64) {
        self.discipline.advance(clock_ns);
    }

    #[inline]
    fn idle(&mut self) {
        self.discipline.idle();
    }

    #[inline]
    fn any_active(&self) -> bool {
        self.placed > 0 || !self.pending.is_empty()
    }

    #[inline]
    fn active(&self, stream: StreamId) -> bool {
        self.slots[stream.index()].location.is_active()
    }

    #[inline]
    fn head(&self, stream: StreamId) -> Option<Head> {
        let slot = &self.slots[stream.index()];
        (slot.location != Location::Idle).then_some(slot.head)
    }

    #[inline]
    fn arrived(&mut self, stream: StreamId, bytes: u32, active: bool) -> D::Stamp {
        let state = &mut self.slots[stream.index()].state;
        self.discipline.arrived(state, stream, bytes, active)
    }

    #[inline(always)]
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<D::Stamp>) {
        self.new_head(stream, new, Activation::Arrived);
        self.debug_check();
    }

    #[inline]
    fn backlog_changed(&mut self, stream: StreamId, waiting: Waiting) {
        let slot = &mut self.slots[stream.index()];
        D::Selection::backlog_changed(&mut self.discipline, &mut slot.state, waiting);
        if self.active(stream) {
            self.insert(stream);
        }
    }

    fn open(&mut self, stream: StreamId, how: Activation) {
        let slot = &mut self.slots[stream.index()];
        if slot.location == Location::Parked {
            let (head, stamp) = (slot.head, D::Stamp::default());
            self.discipline.activated(&mut slot.state, stream, head, stamp, how);
            self.insert(stream);
        }
        self.debug_check();
    }

    fn close(&mut self, stream: StreamId) {
        if self.active(stream) {
            let state = &mut self.slots[stream.index()].state;
            self.discipline.deactivated(state, stream, true);
            self.park(stream);
        }
        self.debug_check();
    }

    #[inline]
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        if !Self::EXPIRES {
            return;
        }
        let now_ns = now_ns.min(LAST_NS);
        let mut due = core::mem::take(&mut self.due);
        self.structure.due(now_ns, &mut due);
        self.parked.collect_until(now_ns, &mut due);
        for stream in due.drain(..).map(StreamId) {
            match self.charge(stream, now_ns, observer) {
                Charged::Drop { deadline_ns } => self.dropping.push((stream, deadline_ns)),
                Charged::Keep => self.reinsert_charged(stream),
            }
        }
        self.due = due;
        if !self.dropping.is_empty() {
            self.drop_late(now_ns, backlog, observer);
        }
    }

    // With virtual starts the common case is short enough to be inlined.
    #[inline(always)]
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        if Self::REGULATED {
            self.select_inlined(now_ns, backlog, observer)
        } else {
            self.select_called(now_ns, backlog, observer)
        }
    }

    #[inline]
    fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        self.discipline.deadline_ns(&self.slots[stream.index()].state)
    }

    #[inline]
    fn resize(&mut self, stream: StreamId, bytes: u32) {
        let slot = &mut self.slots[stream.index()];
        let estimate = core::mem::replace(&mut slot.head.bytes, bytes);
        if estimate != bytes {
            self.discipline.resized(&mut slot.state, estimate, bytes);
        }
    }

    #[inline]
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool {
        self.one_started = false;
        let slot = &mut self.slots[stream.index()];
        let head = slot.head;
        self.discipline.served(&mut slot.state, stream, head, now_ns)
    }

    #[inline(always)]
    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<D::Stamp>>) {
        match next {
            Some(new) => self.new_head(stream, new, Activation::Next),
            None => {
                let state = &mut self.slots[stream.index()].state;
                self.discipline.deactivated(state, stream, false);
                self.remove_inlined(stream);
            }
        }
        self.debug_check();
    }

    #[inline]
    fn is_alone(&self, stream: StreamId) -> bool {
        // False if each decision charges deadlines, takes turns or updates backlogs.
        !Self::EXPIRES
            && !Self::TAKES_TURNS
            && !Self::TRACKS_BACKLOG
            && self.placed + self.pending.len() == 1
            && self.active(stream)
    }

    #[inline]
    fn serve_alone(&mut self, stream: StreamId, now_ns: u64, next: NewHead<D::Stamp>) -> bool {
        let slot = &mut self.slots[stream.index()];
        if Self::REGULATED {
            let start = D::Selection::virtual_start(&self.discipline, &slot.state);
            self.outrun = !start.reached_by(D::Selection::virtual_time(&self.discipline));
            if self.outrun {
                D::Selection::leap(&mut self.discipline, start);
            }
        }
        let late = self.discipline.served(&mut slot.state, stream, slot.head, now_ns);
        slot.head = next.head;
        let (state, how) = (&mut slot.state, Activation::Next);
        self.discipline.became_head(state, next.head);
        self.discipline.activated(state, stream, next.head, next.stamp, how);
        late
    }

    #[inline]
    fn reinsert(&mut self, stream: StreamId) {
        self.one_started = false;
        self.insert_or_postpone(stream);
        self.debug_check();
    }

    fn charge_extra(&mut self, stream: StreamId, extra_bytes: i64) -> bool {
        self.one_started = false;
        let active = self.active(stream);
        let slot = &mut self.slots[stream.index()];
        let head = active.then_some(slot.head);
        let charged = self.discipline.charge(&mut slot.state, head, extra_bytes);
        if active {
            self.insert(stream);
        }
        self.debug_check();
        charged
    }
}

impl<D: Discipline, S: Structure<D::Rank>> Selector<D, S> {
    /// `true` if ranks expire. A constant, so that nothing is compiled for those that do not.
    const EXPIRES: bool = !matches!(D::Rank::EXPIRY, Expiry::Never);

    /// `true` if heads wait for their virtual start.
    const REGULATED: bool = <D::Selection as Selection<D>>::REGULATED;

    /// `true` if the stream of least rank has the turn.
    const TAKES_TURNS: bool = <D::Selection as Selection<D>>::TAKES_TURNS;

    /// Returns a selector of `discipline` on `structure`, without streams.
    #[must_use]
    pub fn new(discipline: D, structure: S) -> Self {
        const { assert!(!(Self::TRACKS_BACKLOG && Self::EXPIRES)) };
        Self {
            discipline,
            structure,
            slots: Vec::new(),
            placed: 0,
            pending: WinnerTree::default(),
            parked: IndexedHeap::default(),
            due: Vec::new(),
            dropping: Vec::new(),
            one_started: false,
            first: None,
            outrun: false,
            #[cfg(debug_assertions)]
            operations: 0,
        }
    }

    /// Returns the discipline's state of `stream`, for tests that compare another implementation
    /// with this one.
    ///
    /// # Panics
    /// Panics if `stream` was not added.
    #[must_use]
    pub fn state(&self, stream: StreamId) -> &D::State {
        &self.slots[stream.index()].state
    }

    /// Prefetches what the decisions after this one need.
    #[inline(always)]
    fn prefetch(&self, backlog: &mut impl Backlog<D::Stamp>) {
        if let Some(stream) = self.structure.after_first(SLOT_AHEAD) {
            prefetch_whole(&self.slots, stream as usize);
            backlog.soon(StreamId(stream));
        }
        if let Some(stream) = self.structure.after_first(HEAD_AHEAD) {
            backlog.next(StreamId(stream));
        }
    }

    /// See [`select`](Select::select).
    #[inline]
    fn select_called(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        self.select_inlined(now_ns, backlog, observer)
    }

    /// See [`select`](Select::select).
    #[inline(always)]
    fn select_inlined(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        self.charge_misses(now_ns, backlog, observer);
        self.prefetch(backlog);
        let selected = if Self::REGULATED {
            self.first_regulated()
        } else if Self::TAKES_TURNS {
            self.first_by_turn()
        } else {
            self.structure.first().map(StreamId)
        };
        self.debug_check();
        selected
    }

    /// Returns the first stream that has started.
    #[inline(always)]
    fn first_regulated(&mut self) -> Option<StreamId> {
        if self.pending.is_empty()
            && let Some(stream) = self.structure.first()
            && self.has_started(stream)
        {
            return Some(StreamId(stream));
        }
        self.first_after_leap()
    }

    /// Makes the clock leap if no active stream has started, then returns the first that has.
    #[inline(never)]
    fn first_after_leap(&mut self) -> Option<StreamId> {
        self.leap();
        if !self.pending.is_empty()
            && let Some(alone) = self.move_started()
        {
            return Some(alone);
        }
        match self.first_started() {
            None => self.first_pending(),
            first => first,
        }
    }

    /// Moves pending streams that have started into the structure. Returns the only one that may
    /// be served, if there is no other, without moving it.
    fn move_started(&mut self) -> Option<StreamId> {
        if self.placed == 0
            && let Some(stream) = self.pending.first()
            && self.has_started(stream)
            && self.pending.second().is_none_or(|stream| !self.has_started(stream))
        {
            return Some(StreamId(stream));
        }
        while let Some(stream) = self.pending.first()
            && self.has_started(stream)
        {
            self.insert(StreamId(stream));
        }
        None
    }

    /// Returns the first stream of the structure that has started, and moves the streams before it
    /// to `pending`.
    #[inline(always)]
    fn first_started(&mut self) -> Option<StreamId> {
        if self.first.is_none() {
            let stream = self.structure.first()?;
            self.first = if self.has_started(stream) {
                Some(StreamId(stream))
            } else {
                self.postpone_to_started(StreamId(stream))
            };
        }
        self.first
    }

    /// Moves `stream`, the first of the structure, and those behind it to `pending`, up to the
    /// first one that has started; returns that.
    fn postpone_to_started(&mut self, mut stream: StreamId) -> Option<StreamId> {
        loop {
            self.postpone(stream);
            stream = StreamId(self.structure.first()?);
            if self.has_started(stream.0) {
                return Some(stream);
            }
        }
    }

    /// Returns whether a stream with an active head has reached its virtual start.
    #[inline]
    fn has_started(&self, stream: u32) -> bool {
        let state = &self.slots[stream as usize].state;
        let start = D::Selection::virtual_start(&self.discipline, state);
        start.reached_by(D::Selection::virtual_time(&self.discipline))
    }

    /// Moves a stream with an active head to `pending`.
    #[inline]
    fn postpone(&mut self, stream: StreamId) {
        let state = &self.slots[stream.index()].state;
        let start = D::Selection::virtual_start(&self.discipline, state).near();
        let slot = &mut self.slots[stream.index()];
        let from = core::mem::replace(&mut slot.location, Location::Pending);
        if from != Location::Pending {
            self.leave(stream, from);
        }
        self.pending.insert(stream.0, start);
    }

    /// Returns the first by rank of the streams with the least start. Called if no stream has
    /// started: the link would idle otherwise.
    #[cold]
    fn first_pending(&mut self) -> Option<StreamId> {
        self.due.clear();
        self.pending.collect_first(&mut self.due);
        let rank = |stream: &u32| {
            let slot = &self.slots[*stream as usize];
            (self.discipline.rank(&slot.state, slot.head), *stream)
        };
        let first = self.due.iter().copied().min_by_key(rank);
        self.due.clear();
        first.map(StreamId)
    }

    /// Makes the discipline's clock leap to the least start if no active stream has started. The
    /// common case, in which it is known that one has, is inlined.
    #[inline(always)]
    fn leap(&mut self) {
        if Self::REGULATED && !self.one_started {
            self.leap_unless_started();
        }
    }

    /// See [`leap`](Self::leap).
    fn leap_unless_started(&mut self) {
        let next = self.pending.first();
        // A stream that has started stays so until it is served or its gate closes.
        self.one_started =
            next.is_some_and(|stream| self.has_started(stream)) || self.first_started().is_some();
        self.outrun = !self.one_started;
        if self.outrun
            && let Some(stream) = self.pending.first()
        {
            let state = &self.slots[stream as usize].state;
            let start = D::Selection::virtual_start(&self.discipline, state);
            D::Selection::leap(&mut self.discipline, start);
            self.one_started = true;
        }
    }

    /// Gives the turn to one stream after another until one is served.
    #[inline]
    fn first_by_turn(&mut self) -> Option<StreamId> {
        for _ in 0..=self.placed {
            if let Some(stream) = self.turn()? {
                return Some(stream);
            }
        }
        // A round without a service: quanta are small relative to packets. All turns before the
        // last round are skipped at once.
        let needed = |slot: &Slot<D::State>| {
            (slot.location == Location::Structure)
                .then(|| D::Selection::turns_needed(&self.discipline, &slot.state, slot.head))
        };
        let rounds = self.slots.iter().filter_map(needed).min().unwrap_or(1);
        for slot in self.slots.iter_mut().filter(|slot| slot.location == Location::Structure) {
            D::Selection::skip_turns(&mut self.discipline, &mut slot.state, rounds - 1);
        }
        for _ in 0..=self.placed {
            if let Some(stream) = self.turn()? {
                return Some(stream);
            }
        }
        None
    }

    /// Gives the turn to the first stream. Returns `Some(None)` if its turn passes, `None` if there
    /// is no stream.
    #[inline]
    fn turn(&mut self) -> Option<Option<StreamId>> {
        let stream = StreamId(self.structure.first()?);
        let slot = &mut self.slots[stream.index()];
        let head = slot.head;
        Some(match D::Selection::turn(&mut self.discipline, &mut slot.state, head) {
            Turn::Serve => Some(stream),
            Turn::Pass => {
                self.insert(stream);
                None
            }
        })
    }

    /// Charges the misses of `stream`.
    #[inline]
    fn charge(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) -> Charged {
        let slot = &mut self.slots[stream.index()];
        loop {
            let deadline_ns = self.discipline.deadline_ns(&slot.state);
            let Missed { missed, violations, drop_head } =
                self.discipline.expired(&mut slot.state, now_ns);
            if missed > 0 || violations > 0 {
                observer.missed(stream, now_ns, missed, violations);
            }
            if drop_head {
                return Charged::Drop { deadline_ns };
            }
            let expiry_ns = self.discipline.rank(&slot.state, slot.head).expiry_ns();
            if expiry_ns > now_ns {
                return Charged::Keep;
            }
        }
    }

    /// Reinserts a stream whose misses were charged.
    #[inline]
    fn reinsert_charged(&mut self, stream: StreamId) {
        match self.slots[stream.index()].location {
            Location::Parked => self.park(stream),
            _ => self.insert(stream),
        }
    }

    /// Drops the late heads of charged streams, and the late packets behind them.
    #[cold]
    fn drop_late(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let mut dropping = core::mem::take(&mut self.dropping);
        dropping.sort_unstable();
        for (stream, mut deadline_ns) in dropping.drain(..) {
            loop {
                let next = backlog.drop_head(stream, now_ns, deadline_ns, observer);
                self.head_departed(stream, next);
                let slot = &self.slots[stream.index()];
                let expiry_ns = self.discipline.rank(&slot.state, slot.head).expiry_ns();
                if next.is_none() || expiry_ns > now_ns {
                    break;
                }
                match self.charge(stream, now_ns, observer) {
                    Charged::Drop { deadline_ns: passed_ns } => deadline_ns = passed_ns,
                    Charged::Keep => {
                        self.reinsert_charged(stream);
                        break;
                    }
                }
            }
        }
        self.dropping = dropping;
    }

    #[inline(always)]
    fn new_head(&mut self, stream: StreamId, new: NewHead<D::Stamp>, how: Activation) {
        let slot = &mut self.slots[stream.index()];
        let was_active = slot.location.is_active();
        slot.head = new.head;
        self.discipline.became_head(&mut slot.state, new.head);
        if new.open {
            self.discipline.activated(&mut slot.state, stream, new.head, new.stamp, how);
            self.insert_or_postpone(stream);
        } else {
            if was_active {
                self.discipline.deactivated(&mut slot.state, stream, true);
            }
            self.park(stream);
        }
    }

    /// Inserts a stream with a new active head. While `outrun` is set, a stream that has not
    /// started is put into `pending` at once: [`first_started`](Self::first_started) would move it
    /// there before it could be served, so the schedule is the same either way.
    #[inline]
    fn insert_or_postpone(&mut self, stream: StreamId) {
        if Self::REGULATED && self.outrun && !self.has_started(stream.0) {
            self.postpone(stream);
        } else {
            self.insert_inlined(stream);
        }
    }

    /// Inserts a stream with an active head into the structure, or moves it to its new rank.
    #[inline]
    fn insert(&mut self, stream: StreamId) {
        self.insert_inlined(stream);
    }

    /// See [`insert`](Self::insert).
    #[inline(always)]
    fn insert_inlined(&mut self, stream: StreamId) {
        let slot = &mut self.slots[stream.index()];
        let rank = self.discipline.rank(&slot.state, slot.head);
        let from = core::mem::replace(&mut slot.location, Location::Structure);
        if from != Location::Structure {
            self.leave(stream, from);
            self.placed += 1;
        }
        self.first = None;
        self.structure.insert(stream.0, rank);
    }

    /// Moves a backlogged stream whose gate is closed to `parked`.
    fn park(&mut self, stream: StreamId) {
        if self.slots[stream.index()].location != Location::Parked {
            self.remove(stream);
        }
        let slot = &mut self.slots[stream.index()];
        slot.location = Location::Parked;
        if Self::EXPIRES {
            let rank = self.discipline.rank(&slot.state, slot.head);
            self.parked.insert(stream.0, rank.expiry_ns());
        }
    }

    /// Removes a stream from its location.
    fn remove(&mut self, stream: StreamId) {
        self.remove_inlined(stream);
    }

    /// See [`remove`](Self::remove).
    #[inline(always)]
    fn remove_inlined(&mut self, stream: StreamId) {
        self.one_started = false;
        let slot = &mut self.slots[stream.index()];
        let from = core::mem::replace(&mut slot.location, Location::Idle);
        self.leave(stream, from);
    }

    /// Removes a stream from `from`, which was its location.
    #[inline(always)]
    fn leave(&mut self, stream: StreamId, from: Location) {
        match from {
            Location::Idle => {}
            Location::Structure => {
                self.first = None;
                self.placed -= 1;
                self.structure.remove(stream.0);
            }
            Location::Pending | Location::Parked => self.leave_aside(stream, from),
        }
    }

    /// Removes a stream that was not in the structure.
    #[inline(never)]
    fn leave_aside(&mut self, stream: StreamId, from: Location) {
        if from == Location::Pending {
            self.pending.remove(stream.0);
        } else {
            self.parked.remove(stream.0);
        }
    }

    /// Checks the invariants of a small selector in debug builds: after each of its first 999
    /// operations, then after every 16th to keep long simulations fast.
    #[inline(always)]
    fn debug_check(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.operations = self.operations.wrapping_add(1);
            let is_checked = self.operations < 1_000 || self.operations.is_multiple_of(16);
            if is_checked && self.slots.len() <= CHECKED_STREAMS {
                self.check();
            }
        }
    }

    /// Checks the invariants of the cached fields: see the module.
    ///
    /// # Panics
    /// Panics if one does not hold.
    #[cfg(debug_assertions)]
    fn check(&mut self) {
        let mut placed = 0;
        let mut any_started = false;
        for (stream, slot) in (0u32..).zip(&self.slots) {
            let Slot { location, .. } = *slot;
            placed += usize::from(location == Location::Structure);
            assert_eq!(self.pending.contains(stream), location == Location::Pending);
            let is_parked = Self::EXPIRES && location == Location::Parked;
            assert_eq!(self.parked.contains(stream), is_parked);
            any_started |= Self::REGULATED && location.is_active() && self.has_started(stream);
        }
        assert_eq!(self.placed, placed, "the number of streams in the structure is wrong");
        if let Some(first) = self.first {
            assert_eq!(self.structure.first(), Some(first.0), "the cached first stream is wrong");
            assert!(self.has_started(first.0), "the cached first stream has not started");
        }
        assert!(!self.one_started || any_started || self.outrun, "no active stream has started");
    }
}
