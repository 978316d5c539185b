//! The filter of released frames, as the dispatcher uses it.

use crate::scheduler::frame_view::FrameView;
use crate::shared_memory::region::Region;

/// The verdict of a filter on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop,
    Pass,
    /// Send it as an optional frame.
    Loosen,
}

/// A filter of released frames; the data plane passes its instructions as one.
pub(crate) trait FrameFilter {
    /// Applies the changes that the host has announced in `region`. Runs once per step.
    fn update(&mut self, region: Region);

    /// Returns whether the filter wants to see the frames of a stream.
    fn filters(&self, stream: usize) -> bool;

    /// Returns the verdict on a frame of a stream.
    fn verdict_on(&mut self, stream: usize, frame: &FrameView) -> Verdict;
}
