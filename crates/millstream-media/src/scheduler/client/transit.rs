//! Frames of an interleaved client that the host has: they are sent or late when the host says so.
//!
//! The host tells outcomes in the order in which it was given the frames. What it has not told when
//! the client leaves is discarded, and lost if the processor dies: so every frame is counted once.

use super::{Client, Descriptor};
use crate::shared_memory::region::SessionField;

/// Frames that the host may have of one client, where its `queue` is not longer. A connection that
/// keeps up has one or two.
const MOST: usize = 64;

/// A frame that was passed on to the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedOn {
    /// Its number in the stream, by which the host calls it.
    stream_number: u64,
    frame: Descriptor,
}

impl Client {
    /// Whether its packets go by its RTSP connection.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.row.is_interleaved()
    }

    /// What tells it from every other client in messages between host and processor: RTP source <<
    /// 32 | session.
    pub(crate) fn called(&self) -> u64 {
        self.ssrc() << 32 | self.session as u64
    }

    /// Whether the host has so many of its frames that it is given no more.
    pub(crate) fn is_choked(&self) -> bool {
        self.passed_on.len() >= MOST.max(self.media.queue as usize)
    }

    /// The host has a frame.
    pub(crate) fn passed_on(&mut self, frame: &Descriptor) {
        if self.taken {
            let stream_number = self.stream_number(frame);
            self.passed_on.push_back(PassedOn { stream_number, frame: *frame });
        }
    }

    /// The host tells what became of the oldest frame that it has: on its way at `sent_ns`, or late
    /// if that is 0.
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
