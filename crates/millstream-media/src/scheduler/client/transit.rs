//! Frames of an interleaved client in the host: they count as sent or late when the host says so.
//!
//! The host reports outcomes in the order of the frames. Frames without an outcome are discarded if
//! the client leaves, and lost if the data plane dies. So each frame counts exactly once.

use super::{Client, Descriptor};
use crate::shared_memory::region::SessionField;

/// The largest number of one client's frames in the host, unless its `queue` is longer.
///
/// A connection that keeps up has one or two.
const MOST: usize = 64;

/// A frame that was handed to the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedOn {
    /// The number in the stream that the host reports the frame under.
    stream_number: u64,
    frame: Descriptor,
}

impl Client {
    /// Returns whether the packets use the client's RTSP connection.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.row.is_interleaved()
    }

    /// Returns the client's key in messages between host and data plane.
    ///
    /// It is RTP source << 32 | session.
    pub(crate) fn called(&self) -> u64 {
        self.ssrc() << 32 | self.session as u64
    }

    /// Returns whether the host has as many frames of this client as it may have.
    pub(crate) fn is_choked(&self) -> bool {
        self.passed_on.len() >= MOST.max(self.media.queue as usize)
    }

    /// Records that a frame was handed to the host.
    pub(crate) fn passed_on(&mut self, frame: &Descriptor) {
        if self.taken {
            let stream_number = self.stream_number(frame);
            self.passed_on.push_back(PassedOn { stream_number, frame: *frame });
        }
    }

    /// Records the outcome of the oldest frame in the host: sent at `sent_ns`, or late if 0.
    pub(crate) fn settled(&mut self, stream_number: u64, sent_ns: u64) {
        let Some(oldest) = self.passed_on.front() else { return };
        if oldest.stream_number != stream_number {
            return;
        }
        let frame = oldest.frame;
        self.passed_on.pop_front();
        if sent_ns > 0 {
            return self.count_sent(&frame, sent_ns);
        }
        self.row.add(SessionField::Slow, 1);
        self.dropped(&frame, SessionField::Late);
    }
}
