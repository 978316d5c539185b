//! Buffer occupancy of a fabric.
//!
//! ```text
//! backlog before the link ─> link ─> occupancy behind the link, in credits, until the transfer
//! ```
//!
//! The backlog of a link is at its sender: at an end-point, or in a switch's output. Behind a link,
//! a packet occupies credits of its channel's input buffer from the start of its transmission.

use super::crossbar::credits;
use super::listener::{FabricListener, Passage, Step};
use super::occupancy::Occupancy;
use super::simulation::Simulation;

/// The occupancy of a buffer over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Time average over the run.
    pub mean: f64,
    /// Maximum over the run.
    pub most: u64,
}

/// A listener that records the backlog of each link and the occupancy of the input behind it.
///
/// Memory: about 100 bytes per link and channel, and 16 bytes per packet in transit.
#[derive(Clone, Debug)]
pub struct Buffers {
    channels: usize,
    waiting: Vec<Occupancy>,
    taken: Vec<Occupancy>,
}

impl Buffers {
    /// Creates a recorder for the buffers of `simulation`.
    ///
    /// With `by_channel`, the occupancy behind a link is counted per channel; otherwise channel 0
    /// counts all channels.
    #[must_use]
    pub fn of(simulation: &Simulation, by_channel: bool) -> Self {
        let links = simulation.topology().links().len();
        let channels = if by_channel { simulation.channels() } else { 1 };
        let taken = if simulation.has_crossbars() { links * channels } else { 0 };
        Self {
            channels,
            waiting: vec![Occupancy::default(); links],
            taken: vec![Occupancy::default(); taken],
        }
    }

    /// Returns the backlog of a link in bytes, from time 0 to `end_ns`.
    ///
    /// # Panics
    /// Panics if there is no such link.
    #[must_use]
    pub fn waiting(&self, link: usize, end_ns: u64) -> Fill {
        let level = &self.waiting[link];
        Fill { mean: level.mean(end_ns), most: level.most() }
    }

    /// Returns the credits occupied behind a link, in one channel's input buffer, from time 0 to
    /// `end_ns`. Returns `None` in a fabric without crossbars.
    ///
    /// # Panics
    /// Panics if there is no such link or channel.
    #[must_use]
    pub fn taken(&self, link: usize, channel: usize, end_ns: u64) -> Option<Fill> {
        assert!(channel < self.channels && link < self.waiting.len(), "{link}, channel {channel}");
        let level = self.taken.get(link * self.channels + channel)?;
        Some(Fill { mean: level.mean(end_ns), most: level.most() })
    }

    fn taken_of(&mut self, link: u32, channel: u8) -> &mut Occupancy {
        let channel = usize::from(channel).min(self.channels - 1);
        &mut self.taken[link as usize * self.channels + channel]
    }

    /// Records a step. Calls `changed` for each change of a link's backlog or of the occupancy
    /// behind it.
    ///
    /// The arguments of `changed` are: the link, whether the amount is the occupancy behind it, the
    /// time in ns, and the new amount.
    #[inline]
    pub(super) fn follow(
        &mut self,
        passage: &Passage,
        mut changed: impl FnMut(u32, bool, u64, u64),
    ) {
        let bytes = u64::from(passage.bytes);
        let room = u64::from(credits(passage.bytes));
        match passage.step {
            Step::Injected { link } => {
                let mut report = |time_ns, now| changed(link, false, time_ns, now);
                self.waiting[link as usize].come(passage.injected_ns, bytes, &mut report);
            }
            Step::Queued { link, time_ns } => {
                let mut report = |time_ns, now| changed(link, false, time_ns, now);
                self.waiting[link as usize].come(time_ns, bytes, &mut report);
            }
            Step::Crossed { from, channel, onto, begins_ns, ends_ns } => {
                let mut report = |time_ns, now| changed(onto, false, time_ns, now);
                self.waiting[onto as usize].come(begins_ns, bytes, &mut report);
                self.taken_of(from, channel).leave(ends_ns, room);
            }
            Step::Sent { link, channel, begins_ns, last, .. } => {
                let waiting = &mut self.waiting[link as usize];
                waiting.leave(begins_ns, bytes);
                if !self.taken.is_empty() {
                    // A link with crossbars decides now, so `begins_ns` is the current time.
                    waiting.settle(begins_ns, &mut |time_ns, now| {
                        changed(link, false, time_ns, now);
                    });
                    if !last {
                        let mut report = |time_ns, now| changed(link, true, time_ns, now);
                        self.taken_of(link, channel).come(begins_ns, room, &mut report);
                    }
                }
            }
        }
    }
}

impl FabricListener for Buffers {
    const STEPS: bool = true;

    #[inline]
    fn passed(&mut self, passage: &Passage) {
        self.follow(passage, |_, _, _, _| ());
    }
}
