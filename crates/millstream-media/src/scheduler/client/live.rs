//! A client of a live stream: its mapping to the stream's frames, and the count of missed ones.
//!
//! A client numbers its frames from 0 for its loss windows and its counters. The row holds the
//! offset to the stream's numbers. After a start or a pause, the client begins at the next entry
//! frame, a frame at which a decoder can start.

use super::{Client, Descriptor, ReportTime};
use crate::rtp::low_u32;
use crate::shared_memory::importance::Importance;
use crate::shared_memory::live_frames::{FrameBuffer, FrameRing};
use crate::shared_memory::region::SessionField;
use crate::shared_memory::store::FrameRecord;

impl Client {
    /// Returns the number of the ring with the client's frames, or `None` if it plays a file.
    pub(crate) fn ring(&self) -> Option<usize> {
        usize::try_from(self.media.live).ok()?.checked_sub(1)
    }

    /// Returns a frame's number in the live stream; for a file, the client's own number.
    pub(crate) fn stream_number(&self, frame: &Descriptor) -> u64 {
        frame.number.wrapping_add(self.row.get(SessionField::Offset))
    }

    /// Makes the client begin at the next entry frame.
    pub(super) fn join(&self, ring: &FrameRing) {
        self.row.set(SessionField::From, ring.head() + 1);
    }

    /// Returns the next frame's release time, ns, or `None` if it has not arrived.
    ///
    /// Frames that the ring has already overwritten are lost.
    pub(crate) fn next_live_ns(&mut self, ring: &FrameRing) -> Option<u64> {
        let from = self.row.get(SessionField::From);
        if from > 0 {
            let mut candidates = (from - 1).max(ring.oldest())..ring.head();
            let Some(entry) =
                candidates.find(|at| ring.frame(*at).is_some_and(|frame| frame.entry))
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
            // Skips all overwritten frames at once. A number at or beyond the head has not arrived.
            if number >= ring.head() {
                return None;
            }
            let skipped = ring.oldest().saturating_sub(number).max(1);
            self.row.set(SessionField::Next, next + skipped);
            self.miss(skipped);
        }
    }

    /// Releases the next frame of a live stream at `at_ns`.
    ///
    /// Returns the frame and whether it is optional, or `None` if it is not in the ring.
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

    /// Copies a chosen frame, so that the ring may overwrite it. Returns `None` if it is lost.
    pub(crate) fn take_live(
        &mut self,
        frame: &Descriptor,
        ring: &FrameRing,
        to: &mut FrameBuffer,
    ) -> Option<FrameRecord> {
        let found = ring.copy(self.stream_number(frame), to);
        if found.is_none() && self.taken {
            self.miss(1);
        }
        if let Some(found) = found {
            let base = low_u32(self.row.get(SessionField::TimestampBase));
            let rtp_time = base.wrapping_add(found.record.display);
            self.live_instant = ReportTime { rtp_time, at_ns: found.captured_ns };
        }
        found.map(|found| found.record)
    }

    /// Moves the client to the stream's head; the frames that arrived without a release are lost.
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
