//! A bounded queue between stages, and the contexts that wait for it.
//!
//! All packets of a run are equal, so a queue stores only their number.

use std::collections::VecDeque;

use super::microengine::ContextId;

/// A bounded queue of packets.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) waiting: usize,
    capacity: usize,
    /// Contexts that wait for a packet, longest wait first.
    consumers: VecDeque<ContextId>,
    /// Contexts that wait for room, longest wait first.
    producers: VecDeque<ContextId>,
}

impl Queue {
    pub(super) fn new(capacity: usize, waiting: usize) -> Self {
        let (consumers, producers) = (VecDeque::new(), VecDeque::new());
        Self { waiting, capacity, consumers, producers }
    }

    pub(super) fn full(&self) -> bool {
        self.waiting >= self.capacity
    }

    /// Adds a packet to a queue that is not full; returns the context that this wakes.
    pub(super) fn put(&mut self) -> Option<ContextId> {
        self.waiting += 1;
        self.consumers.pop_front()
    }

    /// Removes a packet from a queue that is not empty; returns the context that this wakes.
    pub(super) fn take(&mut self) -> Option<ContextId> {
        self.waiting -= 1;
        self.producers.pop_front()
    }

    pub(super) fn wait_for_packet(&mut self, context: ContextId) {
        self.consumers.push_back(context);
    }

    pub(super) fn wait_for_room(&mut self, context: ContextId) {
        self.producers.push_back(context);
    }
}
