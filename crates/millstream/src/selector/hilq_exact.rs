//! `hilq-exact`: the HILQ paper's calendar without rounding and horizon.
//!
//! It supports only DWCS, earliest deadline first. So a stream's state is one cache line, and a
//! decision touches little more than the lines of the streams that it changes. Its schedule equals
//! that of [`Scan`](crate::Scan). [`Few`] finds the first of up to 64 streams, [`Calendar`] the
//! first of more.

mod bucket;
mod calendar;
mod chains;
mod few;
mod width;

use alloc::vec::Vec;

use self::calendar::{Calendar, Location, StreamEntry};
use self::few::{Few, Key};
use super::{Backlog, LAST_NS, NewHead, Observer, Select};
use crate::contract::{Contract, ContractError, Late};
use crate::discipline::{Activation, Discipline, Dwcs, DwcsOptions, EdfFirst, Head};
use crate::packet::StreamId;
use crate::structure::IndexedHeap;

/// DWCS, earliest deadline first: up to 64 streams in a tree, more on a calendar of deadlines.
#[derive(Clone, Debug)]
pub struct HilqExact {
    dwcs: Dwcs<EdfFirst>,
    calendar: Calendar,
    /// Replaces the calendar while there are at most 64 streams.
    few: Few,
    is_few: bool,
    /// Streams behind a closed gate, by deadline.
    parked: IndexedHeap<u64>,
    /// Scratch: the streams of the current charge.
    due: Vec<u32>,
    /// Streams whose late head must be dropped.
    dropping: Vec<u32>,
}

impl HilqExact {
    /// Returns a selector without streams.
    #[must_use]
    pub fn new(options: DwcsOptions) -> Self {
        Self {
            dwcs: Dwcs::new(options),
            calendar: Calendar::new(options),
            few: Few::new(),
            is_few: true,
            parked: IndexedHeap::default(),
            due: Vec::new(),
            dropping: Vec::new(),
        }
    }

    #[inline]
    fn line(&self, stream: StreamId) -> &StreamEntry {
        &self.calendar.lines[stream.index()]
    }

    #[inline]
    fn line_mut(&mut self, stream: StreamId) -> &mut StreamEntry {
        &mut self.calendar.lines[stream.index()]
    }

    /// Removes a stream from its location.
    #[inline(always)]
    fn remove(&mut self, stream: StreamId) {
        if self.line(stream).place() == Location::Parked {
            self.parked.remove(stream.0);
        } else if self.is_few {
            self.few.remove(stream.0);
        }
        if self.is_few {
            self.line_mut(stream).clear();
        } else {
            self.calendar.remove(stream.0);
        }
    }

    /// Inserts a stream that is absent, or moves it within `few`.
    #[inline(always)]
    fn insert(&mut self, stream: u32) {
        let line = &mut self.calendar.lines[stream as usize];
        let deadline_ns = line.state.deadline_ns();
        if self.is_few {
            line.place_among_few();
            if Few::fits(deadline_ns) {
                self.few.insert(stream, deadline_ns);
            } else {
                self.spread();
            }
        } else {
            self.calendar.insert(stream);
        }
    }

    /// Moves the first stream of `few`, which was served, to the deadline of its next head. Returns
    /// false without effect if the stream is not first or its next deadline is not one period
    /// later.
    #[inline(always)]
    fn defer_first(&mut self, stream: StreamId, new: NewHead<()>) -> bool {
        let line = &mut self.calendar.lines[stream.index()];
        if !new.open
            | !line.state.has_begun()
            | !self.few.defer_served(stream.0, new.head.arrival_ns)
        {
            return false;
        }
        line.set_head(new.head);
        self.dwcs.became_head(&mut line.state, new.head);
        true
    }

    /// Switches to the calendar: there are too many streams, or deadlines are too late, for the
    /// keys of `few`.
    #[cold]
    fn spread(&mut self) {
        self.is_few = false;
        self.calendar.make_ring();
        for stream in (0u32..).take(self.calendar.lines.len()) {
            if self.line(StreamId(stream)).place() == Location::Placed {
                self.line_mut(StreamId(stream)).clear();
                self.calendar.insert(stream);
            }
        }
    }

    /// Returns the first of the streams that share the earliest deadline.
    #[cold]
    fn first_tied(&self) -> Option<u32> {
        if self.few.is_empty() {
            return None;
        }
        self.few.tied().min_by_key(|stream| (self.calendar.rank(*stream), *stream))
    }

    /// Moves a backlogged stream whose gate is closed to `parked`.
    #[cold]
    fn park(&mut self, stream: StreamId) {
        self.remove(stream);
        self.line_mut(stream).park();
        self.parked.insert(stream.0, self.line(stream).state.deadline_ns());
    }

    /// Sets the head of a stream and inserts or parks the stream.
    #[inline(always)]
    fn new_head(&mut self, stream: StreamId, new: NewHead<()>) {
        let dwcs = &mut self.dwcs;
        let line = &mut self.calendar.lines[stream.index()];
        line.set_head(new.head);
        dwcs.became_head(&mut line.state, new.head);
        if new.open {
            self.insert(stream.0);
        } else {
            self.park(stream);
        }
    }

    /// Charges the misses of `stream`. Returns whether its head must be dropped.
    #[inline(always)]
    fn charge(
        &mut self,
        stream: u32,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) -> bool {
        let line = &mut self.calendar.lines[stream as usize];
        let missed = self.dwcs.expired(&mut line.state, now_ns);
        observer.missed(StreamId(stream), now_ns, missed.missed, missed.violations);
        missed.drop_head
    }

    /// Charges the streams of `few` whose deadlines have passed.
    #[inline(always)]
    fn charge_few(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        let Some(last_due) = Key::last_due(now_ns) else { return self.spread() };
        let mut first = self.few.first();
        while first <= last_due {
            let drop_head = self.charge(first.stream(), now_ns, observer);
            // Finds the next stream before this stream's cache line arrives.
            first = match self.few.defer(first, last_due) {
                Some(first) => first,
                None => {
                    self.move_charged(first.stream(), drop_head);
                    if !self.is_few {
                        return;
                    }
                    self.few.first()
                }
            };
        }
    }

    /// Moves a charged stream of `few`, because its head is dropped or it missed several periods.
    #[cold]
    fn move_charged(&mut self, stream: u32, drop_head: bool) {
        if drop_head {
            self.few.remove(stream);
            self.calendar.lines[stream as usize].clear();
            self.dropping.push(stream);
        } else {
            self.insert(stream);
        }
    }

    /// Charges all passed deadlines in the calendar's front and ring, and fills the front.
    fn charge_near(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        while let Some(stream) = self.calendar.take_due(now_ns) {
            self.charge_taken(stream, now_ns, observer);
        }
        // Without the order that the front would give them.
        let mut due = core::mem::take(&mut self.due);
        while self.calendar.take_due_bucket(now_ns, &mut due) {
            for stream in due.drain(..) {
                self.charge_taken(stream, now_ns, observer);
            }
        }
        self.due = due;
        // Without a review: streams that are due would return to the ring.
        self.calendar.fill_front(now_ns, false);
        while let Some(stream) = self.calendar.take_due(now_ns) {
            self.charge_taken(stream, now_ns, observer);
            self.calendar.fill_front(now_ns, false);
        }
    }

    /// Charges a stream that was taken from the calendar, and reinserts it unless its head must be
    /// dropped.
    #[inline(always)]
    fn charge_taken(&mut self, stream: u32, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        if self.charge(stream, now_ns, observer) {
            self.calendar.lose(stream);
            self.dropping.push(stream);
        } else {
            let deadline_ns = self.calendar.lines[stream as usize].state.deadline_ns();
            self.calendar.reinsert(stream, deadline_ns);
        }
    }

    /// Charges all deadlines that have passed, then returns the first stream.
    #[inline(never)]
    fn charge_and_select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        let now_ns = now_ns.min(LAST_NS);
        self.calendar.review_if_due();
        self.charge_misses(now_ns, backlog, observer);
        if self.is_few {
            if self.few.is_tied() {
                return self.first_tied().map(StreamId);
            }
            return Some(StreamId(self.few.first().stream()));
        }
        // The calendar may have been rearranged.
        self.calendar.fill_front(now_ns, false);
        let first = self.calendar.first();
        self.calendar.prefetch(backlog, true);
        first.map(StreamId)
    }

    /// Charges all passed deadlines in the backup heap and behind closed gates.
    #[cold]
    fn charge_backup(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        let mut due = core::mem::take(&mut self.due);
        self.calendar.take_due_backup(now_ns, &mut due);
        self.parked.collect_until(now_ns, &mut due);
        for stream in due.drain(..) {
            let parked = self.line(StreamId(stream)).place() == Location::Parked;
            if self.charge(stream, now_ns, observer) {
                self.dropping.push(stream);
            } else if parked {
                self.park(StreamId(stream));
            } else {
                self.insert(stream);
            }
        }
        self.due = due;
    }

    /// Drops the late heads of charged streams, and the late packets behind them.
    #[cold]
    fn drop_late(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let mut dropping = core::mem::take(&mut self.dropping);
        dropping.sort_unstable();
        for stream in dropping.drain(..).map(StreamId) {
            loop {
                let deadline_ns = self.deadline_ns(stream);
                let next = backlog.drop_head(stream, now_ns, deadline_ns, observer);
                self.head_departed(stream, next);
                let deadline_ns = self.line(stream).state.deadline_ns();
                if next.is_none() || deadline_ns > now_ns {
                    break;
                }
                self.charge(stream.0, now_ns, observer);
            }
        }
        self.dropping = dropping;
    }
}

impl Select for HilqExact {
    type Stamp = ();

    fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.calendar.lines.len())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        let line = StreamEntry::new(self.dwcs.admit(contract)?);
        if !self.is_few {
            self.calendar.add_stream(line);
        } else {
            self.calendar.lines.push(line);
            if number as usize == few::MOST {
                self.spread();
            } else {
                let sent = contract.late == Late::Send;
                self.few.add(number, contract.period_ns.filter(|_| sent).map(u64::from));
            }
        }
        Ok(StreamId(number))
    }

    fn reserve(&mut self) {
        let streams = self.calendar.lines.len();
        self.calendar.reserve();
        self.parked.reserve(streams);
        self.due.reserve(streams.saturating_sub(self.due.len()));
        self.dropping.reserve(streams.saturating_sub(self.dropping.len()));
    }

    fn streams(&self) -> usize {
        self.calendar.lines.len()
    }

    fn has_deadlines(&self) -> bool {
        true
    }

    #[inline]
    fn advance(&mut self, _: u64) {}

    #[inline]
    fn idle(&mut self) {}

    fn any_active(&self) -> bool {
        if self.is_few { !self.few.is_empty() } else { !self.calendar.is_empty() }
    }

    #[inline]
    fn active(&self, stream: StreamId) -> bool {
        self.line(stream).place() == Location::Placed
    }

    #[inline]
    fn head(&self, stream: StreamId) -> Option<Head> {
        let line = self.line(stream);
        (line.place() != Location::Absent).then(|| line.head())
    }

    #[inline]
    fn arrived(&mut self, _: StreamId, _: u32, _: bool) {}

    #[inline]
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<()>) {
        self.new_head(stream, new);
    }

    fn open(&mut self, stream: StreamId, _: Activation) {
        if self.line(stream).place() == Location::Parked {
            self.remove(stream);
            self.insert(stream.0);
        }
    }

    fn close(&mut self, stream: StreamId) {
        if self.active(stream) {
            self.park(stream);
        }
    }

    #[inline]
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let now_ns = now_ns.min(LAST_NS);
        if self.is_few {
            self.charge_few(now_ns, observer);
        }
        if !self.is_few {
            self.charge_near(now_ns, observer);
        }
        if self.calendar.any_backup() | !self.parked.is_empty() {
            self.charge_backup(now_ns, observer);
        }
        if !self.dropping.is_empty() {
            self.drop_late(now_ns, backlog, observer);
        }
    }

    #[inline(always)]
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        // Without effect if `few` is in use: the calendar is then empty.
        self.calendar.fill_front(now_ns, true);
        if self.parked.is_empty()
            && let Some(stream) = self.calendar.clear_first(now_ns)
        {
            self.calendar.prefetch(backlog, false);
            return Some(StreamId(stream));
        }
        self.charge_and_select(now_ns, backlog, observer)
    }

    #[inline]
    fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        Some(self.line(stream).state.deadline_ns())
    }

    fn resize(&mut self, stream: StreamId, bytes: u32) {
        let line = self.line_mut(stream);
        line.set_head(Head { bytes, ..line.head() });
    }

    #[inline]
    fn served(&mut self, stream: StreamId, now_ns: u64) -> bool {
        let line = &mut self.calendar.lines[stream.index()];
        let head = line.head();
        self.dwcs.served(&mut line.state, stream, head, now_ns)
    }

    #[inline(always)]
    fn head_departed(&mut self, stream: StreamId, next: Option<NewHead<()>>) {
        if let Some(new) = next {
            if self.is_few {
                if self.defer_first(stream, new) {
                    return;
                }
            } else if new.open && self.calendar.remove_first(stream.0) {
                let line = &mut self.calendar.lines[stream.index()];
                line.set_head(new.head);
                self.dwcs.became_head(&mut line.state, new.head);
                let deadline_ns = line.state.deadline_ns();
                return self.calendar.reinsert(stream.0, deadline_ns);
            }
        }
        self.remove(stream);
        if let Some(new) = next {
            self.new_head(stream, new);
        }
    }

    fn charge_extra(&mut self, _: StreamId, _: i64) -> bool {
        false
    }
}
