//! Frames whose time has come and whose bytes have not: they wait for them until their deadline,
//! and hold up their own client's later frames alone.

use std::collections::VecDeque;

use crate::scheduler::client::Descriptor;

/// How often what is held is looked at again, ns.
pub(crate) const AGAIN_NS: u64 = 1_000_000;

/// What is held of all clients.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By slot: frames, and whether they are optional.
    queues: Vec<VecDeque<(Descriptor, bool)>>,
    frames: usize,
}

impl Held {
    /// Frames that are held.
    pub(crate) fn len(&self) -> usize {
        self.frames
    }

    /// Frames of a slot that are held.
    pub(crate) fn of(&self, slot: usize) -> usize {
        self.queues.get(slot).map_or(0, VecDeque::len)
    }

    /// A slot's oldest.
    pub(crate) fn front(&self, slot: usize) -> Option<(Descriptor, bool)> {
        self.queues.get(slot)?.front().copied()
    }

    /// Holds a frame; whoever calls sees to it that a client's queue is bounded.
    pub(crate) fn push(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        if self.queues.len() <= slot {
            self.queues.resize_with(slot + 1, VecDeque::new);
        }
        self.queues[slot].push_back((frame, optional));
        self.frames += 1;
    }

    /// Lets a slot's oldest go.
    pub(crate) fn pop(&mut self, slot: usize) {
        if self.queues.get_mut(slot).and_then(VecDeque::pop_front).is_some() {
            self.frames -= 1;
        }
    }

    /// Lets all of a slot go: its client has left.
    pub(crate) fn clear(&mut self, slot: usize) {
        if let Some(queue) = self.queues.get_mut(slot) {
            self.frames -= queue.len();
            queue.clear();
        }
    }

    /// Slots that there may be something of.
    pub(crate) fn slots(&self) -> usize {
        self.queues.len()
    }
}
