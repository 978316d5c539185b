//! How full a fabric's buffers are.
//!
//! ```text
//! backlog before the link ─> link ─> occupancy behind the link, in credits, until the transfer
//! ```
//!
//! What waits for a link is at its sender: at an end-point, or in a switch's output. Behind a link
//! the room that a packet takes of its channel is its own from the moment its transmission begins.

use super::crossbar::credits;
use super::level::Level;
use super::listener::{FabricListener, Passage, Step};
use super::simulation::Simulation;

/// How full a buffer was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// On average over the run.
    pub mean: f64,
    /// At most.
    pub most: u64,
}

/// Listens to a fabric: what waits for each link, and what is taken of the room behind it.
/// Memory: about 100 bytes a link and channel, and 16 for each packet under way.
#[derive(Clone, Debug)]
pub struct Buffers {
    channels: usize,
    waiting: Vec<Level>,
    taken: Vec<Level>,
}

impl Buffers {
    /// The buffers of `simulation`; what is taken behind a link is counted `by_channel`, or else
    /// all channels together as channel 0.
    #[must_use]
    pub fn of(simulation: &Simulation, by_channel: bool) -> Self {
        let links = simulation.topology().links().len();
        let channels = if by_channel { simulation.channels() } else { 1 };
        let taken = if simulation.has_crossbars() { links * channels } else { 0 };
        Self {
            channels,
            waiting: vec![Level::default(); links],
            taken: vec![Level::default(); taken],
        }
    }

    /// Bytes that waited for a link, from time 0 until `end_ns`.
    ///
    /// # Panics
    /// If there is no such link.
    #[must_use]
    pub fn waiting(&self, link: usize, end_ns: u64) -> Fill {
        let level = &self.waiting[link];
        Fill { mean: level.mean(end_ns), most: level.most() }
    }

    /// Credits taken of a channel's room behind a link, from time 0 until `end_ns`; `None` where
    /// there are no crossbars.
    ///
    /// # Panics
    /// If there is no such link or channel.
    #[must_use]
    pub fn taken(&self, link: usize, channel: usize, end_ns: u64) -> Option<Fill> {
        assert!(channel < self.channels && link < self.waiting.len(), "{link}, channel {channel}");
        let level = self.taken.get(link * self.channels + channel)?;
        Some(Fill { mean: level.mean(end_ns), most: level.most() })
    }

    fn taken_of(&mut self, link: u32, channel: u8) -> &mut Level {
        let channel = usize::from(channel).min(self.channels - 1);
        &mut self.taken[link as usize * self.channels + channel]
    }

    /// Takes note of a step. Each change of what waits for a link, or of what is taken behind it,
    /// is told: which link, whether it is what is taken, when, and how much it is then.
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
                let mut told = |time_ns, now| changed(link, false, time_ns, now);
                self.waiting[link as usize].come(passage.injected_ns, bytes, &mut told);
            }
            Step::Queued { link, time_ns } => {
                let mut told = |time_ns, now| changed(link, false, time_ns, now);
                self.waiting[link as usize].come(time_ns, bytes, &mut told);
            }
            Step::Crossed { from, channel, onto, begins_ns, ends_ns } => {
                let mut told = |time_ns, now| changed(onto, false, time_ns, now);
                self.waiting[onto as usize].come(begins_ns, bytes, &mut told);
                self.taken_of(from, channel).leave(ends_ns, room);
            }
            Step::Sent { link, channel, begins_ns, last, .. } => {
                let waiting = &mut self.waiting[link as usize];
                waiting.leave(begins_ns, bytes);
                if !self.taken.is_empty() {
                    // On a link that decides, this is now.
                    waiting.settle(begins_ns, &mut |time_ns, now| {
                        changed(link, false, time_ns, now);
                    });
                    if !last {
                        let mut told = |time_ns, now| changed(link, true, time_ns, now);
                        self.taken_of(link, channel).come(begins_ns, room, &mut told);
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
