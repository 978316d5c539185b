//! Released frames whose payload has not been read yet.
//!
//! They wait for it until their deadline and delay only later frames of the same client.

use std::collections::VecDeque;

use crate::scheduler::client::Descriptor;

/// The interval between checks of held frames, ns.
pub(crate) const CHECK_INTERVAL_NS: u64 = 1_000_000;

/// The held frames of all clients.
#[derive(Debug, Default)]
pub(crate) struct HeldFrames {
    /// The frames of each slot; `true` marks an optional one.
    queues: Vec<VecDeque<(Descriptor, bool)>>,
    frames: usize,
}

impl HeldFrames {
    /// Returns the number of held frames of all slots.
    pub(crate) fn len(&self) -> usize {
        self.frames
    }

    /// Returns the number of held frames of a slot.
    pub(crate) fn of(&self, slot: usize) -> usize {
        self.queues.get(slot).map_or(0, VecDeque::len)
    }

    /// Returns a slot's oldest frame and whether it is optional.
    pub(crate) fn front(&self, slot: usize) -> Option<(Descriptor, bool)> {
        self.queues.get(slot)?.front().copied()
    }

    /// Appends a frame to a slot. The caller bounds each client's queue.
    pub(crate) fn push(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        if self.queues.len() <= slot {
            self.queues.resize_with(slot + 1, VecDeque::new);
        }
        self.queues[slot].push_back((frame, optional));
        self.frames += 1;
    }

    /// Removes a slot's oldest frame.
    pub(crate) fn pop(&mut self, slot: usize) {
        if self.queues.get_mut(slot).and_then(VecDeque::pop_front).is_some() {
            self.frames -= 1;
        }
    }

    /// Removes all frames of a slot whose client has left.
    pub(crate) fn clear(&mut self, slot: usize) {
        if let Some(queue) = self.queues.get_mut(slot) {
            self.frames -= queue.len();
            queue.clear();
        }
    }

    /// Returns the number of slots that have held a frame.
    pub(crate) fn slots(&self) -> usize {
        self.queues.len()
    }
}
