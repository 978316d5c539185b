//! Frames of an interleaved client in the host: they count as sent or late when it reports them.
//!
//! The host reports outcomes in the order of the frames. Frames without an outcome are discarded if
//! the client leaves, and lost if the data plane dies. So each frame counts exactly once.

use std::collections::VecDeque;

use super::Descriptor;

/// The largest number of one client's frames in the host, unless its `queue` is longer.
///
/// A connection that keeps up has one or two.
const MAX_IN_HOST: usize = 64;

/// A frame that was handed to the host.
#[derive(Clone, Copy, Debug)]
struct ForwardedFrame {
    /// The number in the stream that the host reports the frame under.
    stream_number: u64,
    frame: Descriptor,
}

/// The frames of one client that wait for an outcome from the host, oldest first.
#[derive(Debug, Default)]
pub(super) struct HostFrames {
    frames: VecDeque<ForwardedFrame>,
}

impl HostFrames {
    /// Returns whether the host has the maximum number of frames of a client with this `queue`.
    pub(super) fn is_full(&self, queue: usize) -> bool {
        self.frames.len() >= MAX_IN_HOST.max(queue)
    }

    /// Appends a frame that was handed to the host.
    pub(super) fn push(&mut self, stream_number: u64, frame: Descriptor) {
        self.frames.push_back(ForwardedFrame { stream_number, frame });
    }

    /// Removes and returns the oldest frame if the host reports it under `stream_number`.
    pub(super) fn take(&mut self, stream_number: u64) -> Option<Descriptor> {
        let oldest = self.frames.front().filter(|frame| frame.stream_number == stream_number)?;
        let frame = oldest.frame;
        self.frames.pop_front();
        Some(frame)
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
    }
}
