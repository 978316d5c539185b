//! `hilq-exact`: the HILQ paper's idea without its rounding, its horizon or its inaccuracy.
//!
//! DWCS, earliest deadline first, and nothing else, so that a stream's whole state is one cache line
//! and a decision touches little more than the lines of the streams that it changes. The schedule is
//! that of a scan. [`Calendar`] says how the first stream is found.

mod bitmap;
mod calendar;
mod width;

use alloc::vec::Vec;

use self::calendar::{Calendar, Line, Place};
use super::{Backlog, LAST_NS, NewHead, Observer, Select};
use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Discipline, Dwcs, DwcsOptions, EdfFirst, Head};
use crate::packet::StreamId;
use crate::structure::IndexedHeap;

/// DWCS, earliest deadline first, on a calendar of deadlines.
#[derive(Clone, Debug)]
pub struct HilqExact {
    dwcs: Dwcs<EdfFirst>,
    calendar: Calendar,
    /// Streams behind a closed gate, by deadline.
    parked: IndexedHeap<u64>,
    due: Vec<u32>,
    /// Streams whose head is late and to be dropped.
    dropping: Vec<u32>,
}

impl HilqExact {
    /// No streams yet.
    #[must_use]
    pub fn new(options: DwcsOptions) -> Self {
        Self {
            dwcs: Dwcs::new(options),
            calendar: Calendar::new(options),
            parked: IndexedHeap::default(),
            due: Vec::new(),
            dropping: Vec::new(),
        }
    }

    #[inline]
    fn line(&self, stream: StreamId) -> &Line {
        &self.calendar.lines[stream.index()]
    }

    #[inline]
    fn line_mut(&mut self, stream: StreamId) -> &mut Line {
        &mut self.calendar.lines[stream.index()]
    }

    /// Takes a stream from where it stands.
    #[inline(always)]
    fn displace(&mut self, stream: StreamId) {
        if self.line(stream).place() == Place::Parked {
            self.parked.remove(stream.0);
        }
        self.calendar.remove(stream.0);
    }

    /// Puts a backlogged stream behind its closed gate.
    #[cold]
    fn park(&mut self, stream: StreamId) {
        self.displace(stream);
        self.line_mut(stream).park();
        self.parked.place(stream.0, self.line(stream).state.deadline_ns());
    }

    /// The stream has a head, and its deadline.
    #[inline(always)]
    fn new_head(&mut self, stream: StreamId, new: NewHead<()>) {
        let dwcs = &mut self.dwcs;
        let line = &mut self.calendar.lines[stream.index()];
        line.set_head(new.head);
        dwcs.became_head(&mut line.state, new.head);
        if new.open {
            self.calendar.insert(stream.0);
        } else {
            self.park(stream);
        }
    }

    /// Charges what `stream` missed. Returns whether its head is to be dropped.
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

    /// Charges the streams outside the ring whose deadlines have passed.
    #[cold]
    fn charge_aside(&mut self, now_ns: u64, observer: &mut (impl Observer + ?Sized)) {
        let mut due = core::mem::take(&mut self.due);
        self.calendar.take_due_aside(now_ns, &mut due);
        self.parked.collect_while(|&deadline_ns| deadline_ns <= now_ns, &mut due);
        for stream in due.drain(..) {
            let parked = self.line(StreamId(stream)).place() == Place::Parked;
            if self.charge(stream, now_ns, observer) {
                self.dropping.push(stream);
            } else if parked {
                self.park(StreamId(stream));
            } else {
                self.calendar.insert(stream);
            }
        }
        self.due = due;
    }

    /// Drops the late heads of streams that have been charged, and those behind that are late too.
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
                self.follow(stream, next);
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
        self.calendar.lines.push(Line::new(self.dwcs.admit(contract)?));
        Ok(StreamId(number))
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
        !self.calendar.is_empty()
    }

    #[inline]
    fn active(&self, stream: StreamId) -> bool {
        self.line(stream).place() == Place::Placed
    }

    #[inline]
    fn head(&self, stream: StreamId) -> Option<Head> {
        let line = self.line(stream);
        (line.place() != Place::Absent).then(|| line.head())
    }

    #[inline]
    fn arrived(&mut self, _: StreamId, _: u32, _: bool) {}

    #[inline]
    fn became_backlogged(&mut self, stream: StreamId, new: NewHead<()>) {
        self.new_head(stream, new);
    }

    fn open(&mut self, stream: StreamId, _: Activation) {
        if self.line(stream).place() == Place::Parked {
            self.displace(stream);
            self.calendar.insert(stream.0);
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
        while let Some(bucket) = self.calendar.due_bucket(now_ns) {
            let mut slot = 0;
            while let Some(stream) = self.calendar.take_due(bucket, &mut slot, now_ns) {
                if self.charge(stream, now_ns, observer) {
                    self.calendar.lose(stream);
                    self.dropping.push(stream);
                } else {
                    self.calendar.put(stream);
                }
            }
            if self.calendar.leave(bucket) {
                break;
            }
        }
        self.calendar.advance(now_ns);
        if self.calendar.any_aside() || !self.parked.is_empty() {
            self.charge_aside(now_ns, observer);
        }
        if !self.dropping.is_empty() {
            self.drop_late(now_ns, backlog, observer);
        }
    }

    #[inline]
    fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog<()>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        self.charge_misses(now_ns, backlog, observer);
        self.calendar.first(backlog).map(StreamId)
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
    fn follow(&mut self, stream: StreamId, next: Option<NewHead<()>>) {
        self.displace(stream);
        if let Some(new) = next {
            self.new_head(stream, new);
        }
    }

    fn charge_extra(&mut self, _: StreamId, _: i64) -> bool {
        false
    }
}
