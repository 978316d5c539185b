//! A client of a live stream: which of the stream's frames are its own, and what becomes of those
//! it missed.
//!
//! Its frames are numbered from 0 like any client's, for its windows and its account; the row says
//! how far that is from the stream's numbers. It begins, and begins again after a pause, with the
//! next frame that a decoder can begin with.

use super::{Client, Descriptor};
use crate::live::frames::{Copied, FrameRing};
use crate::scheduler::optional_frames::Importance;
use crate::shared_memory::region::SessionField;
use crate::shared_memory::store::FrameRecord;

impl Client {
    /// The ring that its frames come from, by number, if they are of a live stream.
    pub(crate) fn ring(&self) -> Option<usize> {
        usize::try_from(self.media.live).ok()?.checked_sub(1)
    }

    /// The stream's number of a frame of this client; of a file, its own.
    pub(crate) fn stream_number(&self, frame: &Descriptor) -> u64 {
        frame.number.wrapping_add(self.row.get(SessionField::Offset))
    }

    /// Begins with the next frame that it can begin with.
    pub(super) fn join(&self, ring: &FrameRing) {
        self.row.set(SessionField::From, ring.head() + 1);
    }

    /// When its next frame is released, ns; `None` if that is not there yet. Frames that are not
    /// there any more are lost.
    pub(crate) fn next_live_ns(&mut self, ring: &FrameRing) -> Option<u64> {
        let from = self.row.get(SessionField::From);
        if from > 0 {
            let mut there = (from - 1).max(ring.oldest())..ring.head();
            let Some(entry) = there.find(|at| ring.frame(*at).is_some_and(|frame| frame.entry))
            else {
                self.row.set(SessionField::From, ring.head() + 1);
                return None;
            };
            self.row
                .set(SessionField::Offset, entry.wrapping_sub(self.row.get(SessionField::Next)));
            self.row.set(SessionField::From, 0);
        }
        loop {
            let next = self.row.get(SessionField::Next);
            let number = next.wrapping_add(self.row.get(SessionField::Offset));
            if let Some(frame) = ring.frame(number) {
                return Some(frame.release_ns);
            }
            // As much as can be gone at once; a number beyond all there are is not there yet.
            if number >= ring.head() {
                return None;
            }
            let gone = ring.oldest().saturating_sub(number).max(1);
            self.row.set(SessionField::Next, next + gone);
            self.miss(gone);
        }
    }

    /// The next frame, released at `at_ns`: it and whether it is optional; `None` if it is not
    /// there.
    pub(crate) fn release_live(
        &mut self,
        at_ns: u64,
        ring: &FrameRing,
    ) -> Option<(Descriptor, bool)> {
        let number = self.row.get(SessionField::Next);
        let frame = ring.frame(number.wrapping_add(self.row.get(SessionField::Offset)))?;
        let FrameRecord { importance, bytes, .. } = frame.record;
        self.row.set(SessionField::Next, number + 1);
        let deadline_ns = at_ns.saturating_add(self.media.deadline_ns);
        let optional = self.online.is_optional(number, Importance::from_number(importance));
        let descriptor = Descriptor { number, importance, bytes, release_ns: at_ns, deadline_ns };
        Some((descriptor, optional))
    }

    /// Copies a frame that was chosen, so that it stays whatever becomes of the ring; `None` if it
    /// is lost.
    pub(crate) fn take_live(
        &mut self,
        frame: &Descriptor,
        ring: &FrameRing,
        to: &mut Copied,
    ) -> Option<FrameRecord> {
        let found = ring.copy(self.stream_number(frame), to);
        if found.is_none() && self.taken {
            self.miss(1);
        }
        found.map(|found| found.record)
    }

    /// Goes on with what is there now: what came while nothing was released is lost.
    pub(super) fn catch_up_live(&mut self, ring: &FrameRing) {
        if self.row.get(SessionField::From) == 0 {
            let now = ring.head().wrapping_sub(self.row.get(SessionField::Offset));
            self.row.set(SessionField::Next, now.max(self.row.get(SessionField::Next)));
        }
    }

    fn miss(&mut self, frames: u64) {
        self.online.skip();
        self.row.add(SessionField::Lost, frames);
    }
}
