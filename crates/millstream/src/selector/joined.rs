//! Joins a discipline and a structure.
//!
//! A backlogged stream stands in one of three places:
//!
//! ```text
//! structure   may be chosen; found by rank
//! pending     its virtual start has not come (WF²Q and the like); found by start. Only streams
//!             that were first by rank are moved here: most start before they are
//! parked      its gate is closed (no credits, its rate cap reached); deadlines still pass
//! ```

use alloc::vec::Vec;

use super::{Backlog, LAST_NS, NewHead, Observer, Select};
use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Discipline, Expiry, Head, Missed, Rank, Visit};
use crate::packet::StreamId;
use crate::structure::{IndexedHeap, Structure};
use crate::virtual_time::NearTag;

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere: it has no packets.
    Idle,
    Structure,
    Pending,
    Parked,
}

/// What becomes of a head whose deadline has passed.
enum Charged {
    Keep,
    Drop { deadline_ns: Option<u64> },
}

/// One stream as the selector sees it.
#[derive(Clone, Copy, Debug)]
struct Slot<S> {
    state: S,
    head: Head,
    place: Place,
}

/// A discipline over a structure.
#[derive(Clone, Debug)]
pub struct Selector<D: Discipline, S> {
    discipline: D,
    structure: S,
    slots: Vec<Slot<D::State>>,
    /// Streams in `structure`.
    placed: usize,
    /// Streams whose virtual start has not come, by it.
    pending: IndexedHeap<NearTag>,
    /// Streams behind a closed gate, by expiry.
    parked: IndexedHeap<u64>,
    due: Vec<u32>,
    /// Streams whose head is late and to be dropped, and its deadline.
    dropping: Vec<(StreamId, Option<u64>)>,
    /// A stream is known that has started, where heads wait for their virtual start.
    one_started: bool,
    /// The first of the structure, which has started, unless something has changed since.
    first: Option<StreamId>,
    /// The clock had to leap of late: services outrun it, and most heads are yet to start.
    outrun: bool,
}

impl<D: Discipline, S: Structure<D::Rank>> Select for Selector<D, S> {
    type Stamp = D::Stamp;

    const LEAPS: bool = D::REGULATED;

    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.slots.len())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        let state = self.discipline.admit(contract)?;
        let head = Head { arrival_ns: 0, bytes: 0 };
        self.slots.push(Slot { state, head, place: Place::Idle });
        Ok(StreamId(number))
    }

    fn streams(&self) -> usize {
        self.slots.len()
    }

    fn has_deadlines(&self) -> bool {
        D::Rank::EXPIRY != Expiry::Never
    }

    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        self.discipline.advance(clock_ns);
        self.leap();
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
        matches!(self.slots[stream.index()].place, Place::Structure | Place::Pending)
    }

    #[inline]
    fn head(&self, stream: StreamId) -> Option<Head> {
        let slot = &self.slots[stream.index()];
        (slot.place != Place::Idle).then_some(slot.head)
    }

    #[inline]
    fn arrived(&mut self, stream: StreamId, bytes: u32, active: bool) -> D::Stamp {
        let state = &mut self.slots[stream.index()].state;
        self.discipline.arrived(state, stream, bytes, active)
    }

    #[inline]
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<D::Stamp>) {
        self.new_head(stream, new, Activation::Arrived);
    }

    fn open(&mut self, stream: StreamId, how: Activation) {
        let slot = &mut self.slots[stream.index()];
        if slot.place == Place::Parked {
            let (head, stamp) = (slot.head, D::Stamp::default());
            self.discipline.activated(&mut slot.state, stream, head, stamp, how);
            self.place(stream);
        }
    }

    fn close(&mut self, stream: StreamId) {
        if self.active(stream) {
            let state = &mut self.slots[stream.index()].state;
            self.discipline.deactivated(state, stream, true);
            self.park(stream);
        }
    }

    #[inline]
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let now_ns = now_ns.min(LAST_NS);
        let mut due = core::mem::take(&mut self.due);
        self.structure.due(now_ns, &mut due);
        self.parked.collect_while(|&expiry_ns| expiry_ns <= now_ns, &mut due);
        for stream in due.drain(..).map(StreamId) {
            match self.charge(stream, now_ns, observer) {
                Charged::Drop { deadline_ns } => self.dropping.push((stream, deadline_ns)),
                Charged::Keep => self.replace(stream),
            }
        }
        self.due = due;
        if !self.dropping.is_empty() {
            self.drop_late(now_ns, backlog, observer);
        }
    }

    #[inline]
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<D::Stamp>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        if D::Rank::EXPIRY != Expiry::Never {
            self.charge_misses(now_ns, backlog, observer);
        }
        if D::REGULATED {
            return self.first_regulated();
        }
        if D::VISITS { self.first_visited() } else { self.structure.first().map(StreamId) }
    }

    #[inline]
    fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        self.discipline.deadline_ns(&self.slots[stream.index()].state)
    }

    #[inline]
    fn resize(&mut self, stream: StreamId, bytes: u32) {
        let slot = &mut self.slots[stream.index()];
        let extra = i64::from(bytes) - i64::from(slot.head.bytes);
        if extra != 0 {
            slot.head.bytes = bytes;
            self.discipline.resized(&mut slot.state, extra);
        }
    }

    #[inline]
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool {
        self.one_started = false;
        let slot = &mut self.slots[stream.index()];
        let head = slot.head;
        self.discipline.served(&mut slot.state, stream, head, now_ns)
    }

    #[inline]
    fn follow(&mut self, stream: StreamId, next: Option<NewHead<D::Stamp>>) {
        match next {
            Some(new) => self.new_head(stream, new, Activation::Next),
            None => {
                let slot = &mut self.slots[stream.index()];
                if slot.place != Place::Parked {
                    self.discipline.deactivated(&mut slot.state, stream, false);
                }
                self.displace(stream);
            }
        }
    }

    #[inline]
    fn is_alone(&self, stream: StreamId) -> bool {
        // Deadlines are charged and rounds are gone at each decision.
        D::Rank::EXPIRY == Expiry::Never
            && !D::VISITS
            && self.placed + self.pending.len() == 1
            && self.active(stream)
    }

    #[inline]
    fn serve_alone(&mut self, stream: StreamId, now_ns: u64, next: NewHead<D::Stamp>) -> bool {
        let slot = &mut self.slots[stream.index()];
        if D::REGULATED {
            let start = self.discipline.start(&slot.state);
            self.outrun = !start.reached_by(self.discipline.reached());
            if self.outrun {
                self.discipline.leap(start);
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
    fn settle(&mut self, stream: StreamId) {
        self.one_started = false;
        if D::REGULATED && self.outrun && !self.has_started(stream.0) {
            self.postpone(stream);
        } else {
            self.place(stream);
        }
    }

    fn charge_extra(&mut self, stream: StreamId, extra_bytes: i64) -> bool {
        self.one_started = false;
        let active = self.active(stream);
        let slot = &mut self.slots[stream.index()];
        let head = active.then_some(slot.head);
        let charged = self.discipline.charge(&mut slot.state, head, extra_bytes);
        if active {
            self.place(stream);
        }
        charged
    }
}

impl<D: Discipline, S: Structure<D::Rank>> Selector<D, S> {
    /// `discipline` on `structure`, without streams.
    #[must_use]
    pub fn new(discipline: D, structure: S) -> Self {
        Self {
            discipline,
            structure,
            slots: Vec::new(),
            placed: 0,
            pending: IndexedHeap::default(),
            parked: IndexedHeap::default(),
            due: Vec::new(),
            dropping: Vec::new(),
            one_started: false,
            first: None,
            outrun: false,
        }
    }

    /// The attributes of `stream` as the discipline keeps them, for those who hold another
    /// realisation against this one.
    ///
    /// # Panics
    /// If `stream` was not added.
    #[must_use]
    pub fn state(&self, stream: StreamId) -> &D::State {
        &self.slots[stream.index()].state
    }

    /// The first of the streams whose virtual start has come.
    #[inline]
    fn first_regulated(&mut self) -> Option<StreamId> {
        if self.placed == 0
            && let Some((_, stream)) = self.pending.first()
            && self.has_started(stream)
            && self.pending.only_first(|stream| self.has_started(stream))
        {
            return Some(StreamId(stream));
        }
        while let Some((_, stream)) = self.pending.first()
            && self.has_started(stream)
        {
            self.place(StreamId(stream));
        }
        match self.first_started() {
            None => self.first_pending(),
            first => first,
        }
    }

    /// The first stream of the structure, if it has started; those before it that have not are
    /// moved away.
    #[inline]
    fn first_started(&mut self) -> Option<StreamId> {
        if self.first.is_none() {
            self.first = loop {
                let stream = self.structure.first()?;
                if self.has_started(stream) {
                    break Some(StreamId(stream));
                }
                self.postpone(StreamId(stream));
            };
        }
        self.first
    }

    /// Whether the virtual start of a stream with an active head has come.
    #[inline]
    fn has_started(&self, stream: u32) -> bool {
        let start = self.discipline.start(&self.slots[stream as usize].state);
        start.reached_by(self.discipline.reached())
    }

    /// Lets a stream with an active head wait for its start.
    #[inline]
    fn postpone(&mut self, stream: StreamId) {
        let start = self.discipline.start(&self.slots[stream.index()].state).near();
        if self.slots[stream.index()].place != Place::Pending {
            self.displace(stream);
            self.slots[stream.index()].place = Place::Pending;
        }
        self.pending.place(stream.0, start);
    }

    /// Nobody has started: of those that start first, rather than an idle link, the first.
    #[cold]
    fn first_pending(&mut self) -> Option<StreamId> {
        let (earliest, _) = self.pending.first()?;
        self.due.clear();
        self.pending.collect_while(|start| *start <= earliest, &mut self.due);
        let rank = |stream: &u32| {
            let slot = &self.slots[*stream as usize];
            (self.discipline.rank(&slot.state, slot.head), *stream)
        };
        let first = self.due.iter().copied().min_by_key(rank);
        self.due.clear();
        first.map(StreamId)
    }

    /// Lets the discipline's clock pass a time in which nobody would have started.
    #[inline]
    fn leap(&mut self) {
        if !D::REGULATED || self.one_started {
            return;
        }
        let next = self.pending.first();
        // Once one has started, that stays so until it is served or held back.
        self.one_started = next.is_some_and(|(_, stream)| self.has_started(stream))
            || self.first_started().is_some();
        self.outrun = !self.one_started;
        if self.outrun
            && let Some((_, stream)) = self.pending.first()
        {
            let start = self.discipline.start(&self.slots[stream as usize].state);
            self.discipline.leap(start);
            self.one_started = true;
        }
    }

    /// Goes round until a stream's head is served.
    #[inline]
    fn first_visited(&mut self) -> Option<StreamId> {
        for _ in 0..=self.placed {
            if let Some(stream) = self.visit()? {
                return Some(stream);
            }
        }
        // A whole round without a service: quanta are small beside the packets. Rather than going
        // round that often, everybody's visits but the last round's are made at once.
        let needed = |slot: &Slot<D::State>| {
            (slot.place == Place::Structure)
                .then(|| self.discipline.visits_needed(&slot.state, slot.head))
        };
        let rounds = self.slots.iter().filter_map(needed).min().unwrap_or(1);
        for slot in self.slots.iter_mut().filter(|slot| slot.place == Place::Structure) {
            self.discipline.skip_visits(&mut slot.state, rounds - 1);
        }
        for _ in 0..=self.placed {
            if let Some(stream) = self.visit()? {
                return Some(stream);
            }
        }
        None
    }

    /// Visits the stream whose turn it is: `Some(None)` if it passes, `None` if there is none.
    #[inline]
    fn visit(&mut self) -> Option<Option<StreamId>> {
        let stream = StreamId(self.structure.first()?);
        let slot = &mut self.slots[stream.index()];
        let head = slot.head;
        Some(match self.discipline.visit(&mut slot.state, head) {
            Visit::Serve => Some(stream),
            Visit::Pass => {
                self.place(stream);
                None
            }
        })
    }

    /// Charges what `stream` missed.
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

    /// A stream that was charged goes where its rank now puts it.
    #[inline]
    fn replace(&mut self, stream: StreamId) {
        match self.slots[stream.index()].place {
            Place::Parked => self.park(stream),
            _ => self.place(stream),
        }
    }

    /// Drops the late heads of streams that have been charged, and those behind that are late too.
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
                self.follow(stream, next);
                let slot = &self.slots[stream.index()];
                let expiry_ns = self.discipline.rank(&slot.state, slot.head).expiry_ns();
                if next.is_none() || expiry_ns > now_ns {
                    break;
                }
                match self.charge(stream, now_ns, observer) {
                    Charged::Drop { deadline_ns: passed_ns } => deadline_ns = passed_ns,
                    Charged::Keep => {
                        self.replace(stream);
                        break;
                    }
                }
            }
        }
        self.dropping = dropping;
    }

    #[inline]
    fn new_head(&mut self, stream: StreamId, new: NewHead<D::Stamp>, how: Activation) {
        let slot = &mut self.slots[stream.index()];
        let was_active = matches!(slot.place, Place::Structure | Place::Pending);
        slot.head = new.head;
        self.discipline.became_head(&mut slot.state, new.head);
        if new.open {
            self.discipline.activated(&mut slot.state, stream, new.head, new.stamp, how);
            if D::REGULATED && self.outrun && !self.has_started(stream.0) {
                return self.postpone(stream);
            }
            self.place(stream);
        } else {
            if was_active {
                self.discipline.deactivated(&mut slot.state, stream, true);
            }
            self.park(stream);
        }
    }

    /// Puts a stream with an active head into the structure.
    #[inline]
    fn place(&mut self, stream: StreamId) {
        let slot = &mut self.slots[stream.index()];
        let rank = self.discipline.rank(&slot.state, slot.head);
        if slot.place != Place::Structure {
            self.displace(stream);
            self.slots[stream.index()].place = Place::Structure;
            self.placed += 1;
        }
        self.first = None;
        self.structure.place(stream.0, rank);
    }

    /// Puts a backlogged stream behind its closed gate.
    fn park(&mut self, stream: StreamId) {
        if self.slots[stream.index()].place != Place::Parked {
            self.displace(stream);
        }
        let slot = &mut self.slots[stream.index()];
        slot.place = Place::Parked;
        // Who never expires is not looked for.
        if D::Rank::EXPIRY != Expiry::Never {
            let rank = self.discipline.rank(&slot.state, slot.head);
            self.parked.place(stream.0, rank.expiry_ns());
        }
    }

    /// Takes a stream from where it stands.
    #[inline]
    fn displace(&mut self, stream: StreamId) {
        self.one_started = false;
        self.first = None;
        let slot = &mut self.slots[stream.index()];
        match core::mem::replace(&mut slot.place, Place::Idle) {
            Place::Idle => {}
            Place::Structure => {
                self.placed -= 1;
                self.structure.remove(stream.0);
            }
            Place::Pending => self.pending.remove(stream.0),
            Place::Parked => self.parked.remove(stream.0),
        }
    }
}
