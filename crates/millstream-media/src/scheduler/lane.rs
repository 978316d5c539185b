//! A lane of the dispatcher: the engine's discipline over the clients' queues of one frame class.
//!
//! A client's stream has the number of its slot in every lane. Each queue is a bounded ring buffer.
//! The engine sees only the heads; the frames stay in the lane.

use millstream::selector::{Backlog, NewHead, Observer, Select};
use millstream::{Contract, ContractError, Head, StreamId};
use std::collections::VecDeque;

use crate::scheduler::client::{Client, Descriptor};
use crate::shared_memory::region::SessionField;

/// The queues of one frame class, one per client.
#[derive(Debug)]
pub(crate) struct Lane<S> {
    selector: S,
    queues: Vec<VecDeque<Descriptor>>,
    waiting: usize,
}

/// The backlog of the lane as the selector sees it.
struct Heads<'a> {
    clients: &'a mut [Client],
    queues: &'a mut [VecDeque<Descriptor>],
    waiting: &'a mut usize,
}

impl Heads<'_> {
    fn head(&self, slot: usize) -> Option<NewHead<()>> {
        let frame = self.queues[slot].front()?;
        // The engine's deadline is the arrival + one period, independent of the previous frame's
        // deadline.
        let arrival_ns = frame.deadline_ns.saturating_sub(self.clients[slot].period_ns());
        let head = Head { arrival_ns, bytes: frame.bytes };
        Some(NewHead { head, stamp: (), open: true })
    }

    fn pop(&mut self, slot: usize) -> Option<Descriptor> {
        let frame = self.queues[slot].pop_front()?;
        *self.waiting -= 1;
        Some(frame)
    }
}

impl Backlog<()> for Heads<'_> {
    fn drop_head(
        &mut self,
        stream: StreamId,
        _now_ns: u64,
        _deadline_ns: Option<u64>,
        _observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<()>> {
        let slot = stream.index();
        let frame = self.pop(slot)?;
        self.clients[slot].dropped(&frame, SessionField::Late);
        self.head(slot)
    }
}

impl<S: Select<Stamp = ()>> Lane<S> {
    pub(crate) fn new(selector: S) -> Self {
        Self { selector, queues: Vec::new(), waiting: 0 }
    }

    /// Adds a stream for the next slot, with at most `limit` waiting frames.
    pub(crate) fn add(&mut self, contract: &Contract, limit: u32) -> Result<(), ContractError> {
        self.selector.add_stream(contract)?;
        self.queues.push(VecDeque::with_capacity(limit as usize));
        Ok(())
    }

    /// Returns the number of waiting frames of all slots.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of frames waiting in a slot.
    pub(crate) fn queued(&self, slot: usize) -> usize {
        self.queues[slot].len()
    }

    /// Returns a slot's oldest frame.
    pub(crate) fn front(&self, slot: usize) -> Option<Descriptor> {
        self.queues[slot].front().copied()
    }

    /// Returns whether a slot is empty.
    pub(crate) fn is_empty(&self, slot: usize) -> bool {
        self.queues[slot].is_empty()
    }

    /// Queues a frame of `slot`, or drops it if the queue is full.
    pub(crate) fn push(
        &mut self,
        now_ns: u64,
        slot: usize,
        frame: Descriptor,
        clients: &mut [Client],
    ) {
        if self.queues[slot].len() >= clients[slot].media.queue as usize {
            return clients[slot].dropped(&frame, SessionField::Full);
        }
        let stream = stream(slot);
        self.selector.advance(now_ns);
        self.queues[slot].push_back(frame);
        self.waiting += 1;
        if self.queues[slot].len() > 1 {
            let active = self.selector.active(stream);
            self.selector.arrived(stream, frame.bytes, active);
            return;
        }
        self.selector.arrived(stream, frame.bytes, true);
        let heads = Heads { clients, queues: &mut self.queues, waiting: &mut self.waiting };
        if let Some(head) = heads.head(slot) {
            self.selector.became_backlogged(stream, head);
        }
    }

    /// Returns the next frame and its slot, after it drops late frames.
    pub(crate) fn decide(
        &mut self,
        now_ns: u64,
        clients: &mut [Client],
    ) -> Option<(usize, Descriptor)> {
        self.selector.advance(now_ns);
        if self.waiting == 0 {
            self.selector.idle();
            return None;
        }
        let mut heads = Heads { clients, queues: &mut self.queues, waiting: &mut self.waiting };
        let stream = self.selector.select(now_ns, &mut heads, &mut ())?;
        let slot = stream.index();
        let frame = heads.pop(slot)?;
        if heads.clients[slot].is_overtaken(&frame) {
            // The dispatcher drops this frame: it must not count as service for the client.
            self.selector.resize(stream, 0);
        }
        self.selector.served(stream, now_ns);
        let next = heads.head(slot);
        self.selector.head_departed(stream, next);
        Some((slot, frame))
    }
}

/// Returns a slot's stream. Each slot has a session, so there are fewer than 2³² slots.
fn stream(slot: usize) -> StreamId {
    StreamId(u32::try_from(slot).unwrap_or(u32::MAX))
}
