//! Joins a discipline and a structure: whose head goes next, with no queues in sight.
//!
//! A selector is told when a stream gets a head, is asked for a winner, and is told what follows.
//! Where packets wait is behind [`Backlog`]: the queues of a [`Scheduler`](crate::Scheduler), or
//! the children of a class in a tree.
//!
//! Eligibility is a gate beside the order: a stream that is backlogged but may not be chosen now
//! (no credits, its rate cap reached) stands in `parked` instead of the structure. Its deadlines
//! still pass and are charged.

use alloc::vec::Vec;

use crate::contract::{Contract, ContractError};
use crate::discipline::{Discipline, Expiry, Head, Missed, Rank};
use crate::packet::{Departure, StreamId};
use crate::structure::{IndexedHeap, Structure};

/// Is told what happens to packets that are not sent, while a decision is made.
pub trait Observer {
    /// Deadlines of `stream` passed, or a packet is sent late.
    fn missed(&mut self, stream: StreamId, now_ns: u64, missed: u64, violations: u64) {
        let _ = (stream, now_ns, missed, violations);
    }

    /// A packet was dropped because its deadline passed.
    fn dropped(&mut self, departure: &Departure) {
        let _ = departure;
    }
}

/// Nobody listens.
impl Observer for () {}

/// Where the selector's streams keep their packets.
pub(crate) trait Backlog {
    /// Drops the head-of-line packet of `stream` and returns the next head.
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<Head>;
}

/// One stream as the selector sees it.
#[derive(Clone, Copy, Debug)]
struct Slot<S> {
    state: S,
    head: Head,
    backlogged: bool,
    eligible: bool,
}

/// A discipline over a structure.
#[derive(Clone, Debug)]
pub(crate) struct Selector<D: Discipline, S> {
    discipline: D,
    structure: S,
    slots: Vec<Slot<D::State>>,
    /// Backlogged streams that are not eligible, by expiry.
    parked: IndexedHeap<u64>,
    due: Vec<u32>,
}

impl<D: Discipline, S: Structure<D::Rank>> Selector<D, S> {
    pub(crate) fn new(discipline: D, structure: S) -> Self {
        Self {
            discipline,
            structure,
            slots: Vec::new(),
            parked: IndexedHeap::default(),
            due: Vec::new(),
        }
    }

    pub(crate) fn add_stream(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let number = u32::try_from(self.slots.len())
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or(ContractError::TooManyStreams)?;
        let state = self.discipline.admit(contract)?;
        let head = Head { arrival_ns: 0, bytes: 0 };
        self.slots.push(Slot { state, head, backlogged: false, eligible: true });
        Ok(StreamId(number))
    }

    pub(crate) fn streams(&self) -> usize {
        self.slots.len()
    }

    /// `stream`, idle until now, got a head-of-line packet.
    #[inline]
    pub(crate) fn became_backlogged(&mut self, stream: StreamId, head: Head) {
        let slot = &mut self.slots[stream.index()];
        slot.head = head;
        slot.backlogged = true;
        self.discipline.became_head(&mut slot.state, head);
        self.place(stream);
    }

    /// Opens or closes the gate of `stream`.
    pub(crate) fn set_eligible(&mut self, stream: StreamId, eligible: bool) {
        let slot = &mut self.slots[stream.index()];
        if slot.eligible == eligible {
            return;
        }
        slot.eligible = eligible;
        if slot.backlogged {
            if eligible {
                self.parked.remove(stream.0);
            } else {
                self.structure.remove(stream.0);
            }
            self.place(stream);
        }
    }

    /// Charges every deadline that has passed, in stream order, then finds the first stream.
    #[inline]
    pub(crate) fn select(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<StreamId> {
        if D::Rank::EXPIRY != Expiry::Never {
            self.charge_misses(now_ns, backlog, observer);
        }
        self.structure.first().map(StreamId)
    }

    /// The deadline of the stream's head, ns.
    #[inline]
    pub(crate) fn deadline_ns(&self, stream: StreamId) -> Option<u64> {
        self.discipline.deadline_ns(&self.slots[stream.index()].state)
    }

    /// The head of `stream` is served; `next` is the head after it. Returns whether it was late.
    #[inline]
    pub(crate) fn served(&mut self, stream: StreamId, now_ns: u64, next: Option<Head>) -> bool {
        let slot = &mut self.slots[stream.index()];
        let late = self.discipline.served(&mut slot.state, slot.head, now_ns);
        self.next_head(stream, next);
        late
    }

    #[inline]
    fn charge_misses(
        &mut self,
        now_ns: u64,
        backlog: &mut impl Backlog,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let mut due = core::mem::take(&mut self.due);
        self.structure.due(now_ns, &mut due);
        self.parked.collect_while(|&expiry_ns| expiry_ns <= now_ns, &mut due);
        due.sort_unstable();
        for stream in due.drain(..).map(StreamId) {
            self.charge(stream, now_ns, backlog, observer);
        }
        self.due = due;
    }

    fn charge(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        backlog: &mut impl Backlog,
        observer: &mut (impl Observer + ?Sized),
    ) {
        loop {
            let slot = &mut self.slots[stream.index()];
            let deadline_ns = self.discipline.deadline_ns(&slot.state);
            let Missed { missed, violations, drop_head } =
                self.discipline.expired(&mut slot.state, now_ns);
            observer.missed(stream, now_ns, missed, violations);
            if !drop_head {
                break;
            }
            let Some(head) = backlog.drop_head(stream, now_ns, deadline_ns, observer) else {
                return self.next_head(stream, None);
            };
            slot.head = head;
            self.discipline.became_head(&mut slot.state, head);
            if self.discipline.rank(&slot.state, head, stream).expiry_ns() > now_ns {
                break;
            }
        }
        self.place(stream);
    }

    #[inline]
    fn next_head(&mut self, stream: StreamId, next: Option<Head>) {
        match next {
            Some(head) => self.became_backlogged(stream, head),
            None => {
                self.slots[stream.index()].backlogged = false;
                self.structure.remove(stream.0);
                self.parked.remove(stream.0);
            }
        }
    }

    /// Puts a backlogged stream where it belongs.
    #[inline]
    fn place(&mut self, stream: StreamId) {
        let slot = &self.slots[stream.index()];
        let rank = self.discipline.rank(&slot.state, slot.head, stream);
        if slot.eligible {
            self.structure.place(stream.0, rank);
        } else {
            self.parked.place(stream.0, rank.expiry_ns());
        }
    }
}
