//! The dispatcher's use of the frame cache: reports needed frames and waits for unread ones.
//!
//! The dispatcher holds a frame that is released before its bytes are read, until they arrive or
//! its deadline passes. The later frames of that client wait behind it; other clients are not
//! affected. A chosen frame is copied before its first packet leaves, so it is sent whole.

use millstream::selector::Select;

use super::Dispatch;
use crate::scheduler::client::Descriptor;
use crate::scheduler::frame_filter::FrameFilter;
use crate::scheduler::held_frames::CHECK_INTERVAL_NS;
use crate::shared_memory::frame_cache::{EntryState, FrameCache};
use crate::shared_memory::region::SessionField;
use crate::shared_memory::store::FrameRecord;

impl<S: Select<Stamp = ()>, F: FrameFilter> Dispatch<S, F> {
    /// Sets the cache for frames outside the store, and ends every earlier session's use of it.
    pub(crate) fn set_frame_cache(&mut self, cache: FrameCache) {
        for place in 0..cache.used() {
            cache.end(place);
        }
        self.frame_cache = Some(cache);
    }

    /// Returns the frame cache if the client of a slot plays from it.
    fn cache_of(&self, slot: usize) -> Option<FrameCache> {
        self.frame_cache.filter(|_| self.clients[slot].media.media_file != 0)
    }

    /// Requests read-ahead of a client's frames from its next frame on.
    pub(super) fn begin_reading(&mut self, slot: usize) {
        let Some(cache) = self.cache_of(slot) else { return };
        let client = &mut self.clients[slot];
        if !std::mem::replace(&mut client.reads, true) {
            cache.begin(client.session, client.media_number, client.row.get(SessionField::Next));
        }
    }

    /// Ends read-ahead for a client that has left, and clears its held frames.
    pub(super) fn end_reading(&mut self, session: usize, slot: usize) {
        if let Some(cache) = self.cache_of(slot) {
            cache.end(session);
            self.held.clear(slot);
        }
    }

    /// Returns whether a released frame must wait: it or an earlier frame of the client is unread.
    pub(super) fn is_unread(&self, slot: usize, frame: &Descriptor) -> bool {
        let Some(cache) = self.cache_of(slot) else { return false };
        let session = self.clients[slot].session;
        self.held.of(slot) > 0 || cache.entry_state(session, frame.number) != EntryState::Ready
    }

    /// Holds a frame until its bytes are read, or drops it if the client's queue is full.
    pub(super) fn hold(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        let client = &mut self.clients[slot];
        if self.held.of(slot) >= client.media.queue as usize {
            return client.dropped(&frame, SessionField::Full);
        }
        self.held.push(slot, frame, optional);
        self.next_check_ns = self.next_check_ns.min(self.time_ns + CHECK_INTERVAL_NS);
        self.release_held(slot);
    }

    /// Checks the held frames of all clients again.
    pub(super) fn check_held_frames(&mut self) {
        for slot in 0..self.held.slots() {
            self.release_held(slot);
        }
        self.next_check_ns =
            if self.held.len() > 0 { self.time_ns + CHECK_INTERVAL_NS } else { u64::MAX };
    }

    /// Queues or drops the held frames of one client that need not wait any more.
    fn release_held(&mut self, slot: usize) {
        let Some(cache) = self.cache_of(slot) else { return };
        while let Some((frame, optional)) = self.held.front(slot) {
            match cache.entry_state(self.clients[slot].session, frame.number) {
                EntryState::Ready => {
                    self.held.pop(slot);
                    self.enqueue(slot, frame, optional);
                }
                EntryState::Missing if self.time_ns < frame.deadline_ns => return,
                EntryState::Missing | EntryState::Failed => {
                    self.held.pop(slot);
                    self.clients[slot].dropped(&frame, SessionField::Unread);
                }
            }
            self.update_wanted(slot);
        }
    }

    /// Copies a chosen frame. Counts it as unread and returns `None` if it is not in the cache.
    pub(super) fn copy_cached(&mut self, slot: usize, frame: &Descriptor) -> Option<FrameRecord> {
        let cache = self.cache_of(slot);
        let client = &mut self.clients[slot];
        let record = client.frame(frame, &self.store);
        let to = self.copied.replace();
        let there =
            cache.is_some_and(|cache| cache.copy(client.session, frame.number, record.length, to));
        if !there {
            client.dropped(frame, SessionField::Unread);
        }
        self.update_wanted(slot);
        there.then_some(record)
    }

    /// Tells the reader the oldest frame that a client still needs.
    ///
    /// That is the oldest waiting frame minus a few earlier ones, which the host may still forward.
    pub(super) fn update_wanted(&mut self, slot: usize) {
        let Some(cache) = self.cache_of(slot) else { return };
        let client = &self.clients[slot];
        let held = self.held.front(slot).map(|(frame, _)| frame);
        let waiting = [self.mandatory.front(slot), self.optional.front(slot), held];
        let oldest = waiting.into_iter().flatten().map(|frame| frame.number).min();
        let oldest = oldest.unwrap_or_else(|| client.row.get(SessionField::Next));
        cache.advance_demand(client.session, oldest.saturating_sub(client.media.behind.into()));
    }
}
