//! The streams of a reference model: their states and queues under a discipline.
//!
//! Every model charges, serves and removes heads in the same way. Models differ in how they find
//! the winner.

use std::collections::VecDeque;

use millstream::{
    Activation, Contract, ContractError, Discipline, Expiry, Head, Missed, Observer, Rank, StreamId,
};

use crate::model::{Attributes, Counters};

/// A stream's state and queue.
struct Slot<S> {
    state: S,
    queue: VecDeque<Head>,
    /// Whether its rank may have changed since [`Streams::take_changed`].
    changed: bool,
}

/// The streams under the discipline `D`.
pub(crate) struct Streams<D: Discipline> {
    discipline: D,
    slots: Vec<Slot<D::State>>,
    counts: Counters,
    window: fn(&D::State) -> (u32, u64),
}

impl<D: Discipline<Stamp = ()>> Streams<D> {
    /// Returns no streams; `window` returns the current x' and y' of a state.
    pub(crate) fn new(discipline: D, window: fn(&D::State) -> (u32, u64)) -> Self {
        Self { discipline, slots: Vec::new(), counts: Counters::default(), window }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = StreamId> + use<D> {
        (0..).map(StreamId).take(self.slots.len())
    }

    pub(crate) fn load(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let state = self.discipline.admit(contract)?;
        let stream = StreamId(u32::try_from(self.slots.len()).expect("fewer than 2^32 streams"));
        self.slots.push(Slot { state, queue: VecDeque::new(), changed: false });
        self.counts.add();
        Ok(stream)
    }

    pub(crate) fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32) {
        self.discipline.advance(now);
        let slot = &mut self.slots[stream.index()];
        let head = Head { arrival_ns: now, bytes };
        slot.queue.push_back(head);
        self.discipline.arrived(&mut slot.state, stream, bytes, true);
        if slot.queue.len() == 1 {
            slot.changed = true;
            self.discipline.became_head(&mut slot.state, head);
            self.discipline.activated(&mut slot.state, stream, head, (), Activation::Arrived);
        }
    }

    /// Advances the discipline's clock.
    pub(crate) fn advance(&mut self, now: u64) {
        self.discipline.advance(now);
    }

    /// Charges each request period of waiting heads that has ended by `now`.
    pub(crate) fn charge(&mut self, now: u64) {
        self.discipline.advance(now);
        if D::Rank::EXPIRY == Expiry::Never {
            return;
        }
        for stream in self.numbers() {
            while let Some(Missed { missed, violations, drop_head }) = self.expire(now, stream) {
                self.counts.missed(stream, now, missed, violations);
                if !drop_head {
                    break;
                }
                self.counts.count_drop(stream);
                self.remove_head(stream);
            }
        }
    }

    fn expire(&mut self, now: u64, stream: StreamId) -> Option<Missed> {
        let slot = &mut self.slots[stream.index()];
        let head = *slot.queue.front()?;
        let expired = self.discipline.rank(&slot.state, head).expiry_ns() <= now;
        slot.changed |= expired;
        expired.then(|| self.discipline.expired(&mut slot.state, now))
    }

    /// Serves the head of `stream` and removes it.
    ///
    /// # Panics
    /// Panics if the stream has no packet.
    pub(crate) fn serve(&mut self, now: u64, stream: StreamId) {
        let slot = &mut self.slots[stream.index()];
        let head = *slot.queue.front().expect("the winner has a packet");
        if self.discipline.served(&mut slot.state, stream, head, now) {
            self.counts.missed(stream, now, 1, 0);
        }
        self.remove_head(stream);
        self.counts.count_service(stream);
    }

    /// Removes the head of `stream`; its next packet becomes the head.
    fn remove_head(&mut self, stream: StreamId) {
        let slot = &mut self.slots[stream.index()];
        slot.changed = true;
        slot.queue.pop_front();
        match slot.queue.front() {
            Some(head) => {
                self.discipline.became_head(&mut slot.state, *head);
                let how = Activation::Next;
                self.discipline.activated(&mut slot.state, stream, *head, (), how);
            }
            None => self.discipline.deactivated(&mut slot.state, stream, false),
        }
    }

    /// Tells the discipline that no stream has a packet.
    pub(crate) fn idle(&mut self) {
        self.discipline.idle();
    }

    /// Returns the rank of the head of `stream`, if it has a packet.
    pub(crate) fn rank(&self, stream: StreamId) -> Option<D::Rank> {
        let slot = &self.slots[stream.index()];
        slot.queue.front().map(|head| self.discipline.rank(&slot.state, *head))
    }

    /// Returns whether the rank of `stream` may have changed since the last call.
    pub(crate) fn take_changed(&mut self, stream: StreamId) -> bool {
        std::mem::take(&mut self.slots[stream.index()].changed)
    }

    /// Returns the visible state of a stream.
    pub(crate) fn attributes(&self, stream: StreamId) -> Attributes {
        let slot = &self.slots[stream.index()];
        let deadline = self.discipline.deadline_ns(&slot.state).unwrap_or(0);
        let window = (self.window)(&slot.state);
        self.counts.attributes(stream, &slot.queue, deadline, window)
    }
}
