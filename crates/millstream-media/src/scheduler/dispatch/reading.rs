//! The dispatcher's side of films that are read ahead of need: what is wanted of the shelf, and
//! frames that are released before their bytes are there.
//!
//! Such a frame is held until its bytes come or its deadline passes, and its client's later ones
//! behind it; other clients' go their way. A frame that was chosen is copied before its first
//! packet goes, so it goes whole.

use millstream::selector::Select;

use super::Dispatch;
use crate::files::read_ahead::frame_cache::{EntryState, FrameCache};
use crate::scheduler::client::Descriptor;
use crate::scheduler::held::AGAIN_NS;
use crate::shared_memory::region::SessionField;
use crate::shared_memory::store::FrameRecord;

impl<S: Select<Stamp = ()>> Dispatch<S> {
    /// Films' frames that are not in the store are taken from `shelf`, where nothing is wanted by
    /// now.
    pub(crate) fn take_from(&mut self, shelf: FrameCache) {
        for place in 0..shelf.used() {
            shelf.end(place);
        }
        self.shelf = Some(shelf);
    }

    /// The shelf, if the client of a slot plays from it.
    fn shelf_of(&self, slot: usize) -> Option<FrameCache> {
        self.shelf.filter(|_| self.clients[slot].media.film != 0)
    }

    /// From now on what a client plays is read.
    pub(super) fn begin_reading(&mut self, slot: usize) {
        let Some(shelf) = self.shelf_of(slot) else { return };
        let client = &mut self.clients[slot];
        if !std::mem::replace(&mut client.reads, true) {
            shelf.begin(client.session, client.media_number, client.row.get(SessionField::Next));
        }
    }

    /// A client has left.
    pub(super) fn end_reading(&mut self, session: usize, slot: usize) {
        if let Some(shelf) = self.shelf_of(slot) {
            shelf.end(session);
            self.held.clear(slot);
        }
    }

    /// Whether the bytes of a frame that is released are not there yet, or those of one before it.
    pub(super) fn is_away(&self, slot: usize, frame: &Descriptor) -> bool {
        let Some(shelf) = self.shelf_of(slot) else { return false };
        let session = self.clients[slot].session;
        self.held.of(slot) > 0 || shelf.stands(session, frame.number) != EntryState::There
    }

    /// Holds a frame until its bytes are there.
    pub(super) fn hold(&mut self, slot: usize, frame: Descriptor, optional: bool) {
        let client = &mut self.clients[slot];
        if self.held.of(slot) >= client.media.queue as usize {
            return client.dropped(&frame, SessionField::Full);
        }
        self.held.push(slot, frame, optional);
        self.again_ns = self.again_ns.min(self.time_ns + AGAIN_NS);
        self.let_go(slot);
    }

    /// Looks whether bytes have come of frames that are held.
    pub(super) fn look_again(&mut self) {
        for slot in 0..self.held.slots() {
            self.let_go(slot);
        }
        self.again_ns = if self.held.len() > 0 { self.time_ns + AGAIN_NS } else { u64::MAX };
    }

    /// Lets go what need not be held any more, of one client.
    fn let_go(&mut self, slot: usize) {
        let Some(shelf) = self.shelf_of(slot) else { return };
        while let Some((frame, optional)) = self.held.front(slot) {
            match shelf.stands(self.clients[slot].session, frame.number) {
                EntryState::There => {
                    self.held.pop(slot);
                    self.enqueue(slot, frame, optional);
                }
                EntryState::Away if self.time_ns < frame.deadline_ns => return,
                EntryState::Away | EntryState::Failed => {
                    self.held.pop(slot);
                    self.clients[slot].dropped(&frame, SessionField::Unread);
                }
            }
            self.tell_wanted(slot);
        }
    }

    /// Copies a frame that was chosen; `None`, and it is counted, if it is not there.
    pub(super) fn take_read(&mut self, slot: usize, frame: &Descriptor) -> Option<FrameRecord> {
        let shelf = self.shelf_of(slot);
        let client = &mut self.clients[slot];
        let record = client.frame(frame, &self.store);
        let to = self.copied.replace();
        let there =
            shelf.is_some_and(|shelf| shelf.copy(client.session, frame.number, record.length, to));
        if !there {
            client.dropped(frame, SessionField::Unread);
        }
        self.tell_wanted(slot);
        there.then_some(record)
    }

    /// Tells the reader which frames a client wants no more: those before the oldest that waits,
    /// but for the last few, which the host may still have to pass on.
    pub(super) fn tell_wanted(&mut self, slot: usize) {
        let Some(shelf) = self.shelf_of(slot) else { return };
        let client = &self.clients[slot];
        let held = self.held.front(slot).map(|(frame, _)| frame);
        let waiting = [self.mandatory.front(slot), self.optional.front(slot), held];
        let oldest = waiting.into_iter().flatten().map(|frame| frame.number).min();
        let oldest = oldest.unwrap_or_else(|| client.row.get(SessionField::Next));
        shelf.want_from(client.session, oldest.saturating_sub(client.media.behind.into()));
    }
}
