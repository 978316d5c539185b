//! Buffer occupancy of a fabric.
//!
//! ```text
//! backlog before the link ─> link ─> occupancy behind the link, in credits, until the transfer
//! ```
//!
//! The backlog of a link is at its sender: at an end-point, or in a switch's output. Behind a link,
//! a packet occupies credits of its channel's input buffer from the start of its transmission.

use super::crossbar::credits;
use super::listener::{FabricListener, PacketStep, Step};
use super::occupancy::Occupancy;
use super::simulation::Simulation;

/// The occupancy of a buffer over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OccupancySummary {
    /// Time average over the run.
    pub mean: f64,
    /// Maximum over the run.
    pub max: u64,
}

/// A listener that records the backlog of each link and the occupancy of the input behind it.
///
/// Memory: about 100 bytes per link and channel, and 16 bytes per packet in transit.
#[derive(Clone, Debug)]
pub struct Buffers {
    channels: usize,
    backlog: Vec<Occupancy>,
    occupied: Vec<Occupancy>,
}

impl Buffers {
    /// Creates a recorder for the buffers of `simulation`.
    ///
    /// With `by_channel`, the occupancy behind a link is counted per channel; otherwise channel 0
    /// counts all channels.
    #[must_use]
    pub fn for_simulation(simulation: &Simulation, by_channel: bool) -> Self {
        let links = simulation.topology().links().len();
        let channels = if by_channel { simulation.channels() } else { 1 };
        let occupied = if simulation.has_crossbars() { links * channels } else { 0 };
        Self {
            channels,
            backlog: vec![Occupancy::default(); links],
            occupied: vec![Occupancy::default(); occupied],
        }
    }

    /// Returns the backlog of a link in bytes, from time 0 to `end_ns`.
    ///
    /// # Panics
    /// Panics if `link` is out of range.
    #[must_use]
    pub fn backlog(&self, link: usize, end_ns: u64) -> OccupancySummary {
        let level = &self.backlog[link];
        OccupancySummary { mean: level.mean(end_ns), max: level.max() }
    }

    /// Deprecated alias of [`occupied`](Self::occupied).
    #[deprecated(note = "renamed to `occupied`")]
    #[must_use]
    pub fn taken(&self, link: usize, channel: usize, end_ns: u64) -> Option<OccupancySummary> {
        self.occupied(link, channel, end_ns)
    }

    /// Returns the credits occupied behind a link, in one channel's input buffer, from time 0 to
    /// `end_ns`. Returns `None` in a fabric without crossbars.
    ///
    /// # Panics
    /// Panics if `link` or `channel` is out of range.
    #[must_use]
    pub fn occupied(&self, link: usize, channel: usize, end_ns: u64) -> Option<OccupancySummary> {
        assert!(channel < self.channels && link < self.backlog.len(), "{link}, channel {channel}");
        let level = self.occupied.get(link * self.channels + channel)?;
        Some(OccupancySummary { mean: level.mean(end_ns), max: level.max() })
    }

    fn occupied_of(&mut self, link: u32, channel: u8) -> &mut Occupancy {
        let channel = usize::from(channel).min(self.channels - 1);
        &mut self.occupied[link as usize * self.channels + channel]
    }

    /// Records a step. Calls `changed` for each change of a link's backlog or of the occupancy
    /// behind it.
    ///
    /// The arguments of `changed` are: the link, whether the amount is the occupancy behind it, the
    /// time in ns, and the new amount.
    #[inline]
    pub(super) fn record(
        &mut self,
        packet_step: &PacketStep,
        mut changed: impl FnMut(u32, bool, u64, u64),
    ) {
        let bytes = u64::from(packet_step.bytes);
        let amount = u64::from(credits(packet_step.bytes));
        match packet_step.step {
            Step::Injected { link } => {
                let mut report = |time_ns, now| changed(link, false, time_ns, now);
                self.backlog[link as usize].add(packet_step.injected_ns, bytes, &mut report);
            }
            Step::Queued { link, time_ns } => {
                let mut report = |time_ns, now| changed(link, false, time_ns, now);
                self.backlog[link as usize].add(time_ns, bytes, &mut report);
            }
            Step::Crossed { from, channel, onto, begins_ns, ends_ns } => {
                let mut report = |time_ns, now| changed(onto, false, time_ns, now);
                self.backlog[onto as usize].add(begins_ns, bytes, &mut report);
                self.occupied_of(from, channel).schedule_removal(ends_ns, amount);
            }
            Step::Sent { link, channel, begins_ns, last, .. } => {
                let backlog = &mut self.backlog[link as usize];
                backlog.schedule_removal(begins_ns, bytes);
                if !self.occupied.is_empty() {
                    // A link with crossbars decides now, so `begins_ns` is the current time.
                    backlog.apply_removals(begins_ns, &mut |time_ns, now| {
                        changed(link, false, time_ns, now);
                    });
                    if !last {
                        let mut report = |time_ns, now| changed(link, true, time_ns, now);
                        self.occupied_of(link, channel).add(begins_ns, amount, &mut report);
                    }
                }
            }
        }
    }
}

impl FabricListener for Buffers {
    const STEPS: bool = true;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        self.record(packet_step, |_, _, _, _| ());
    }
}
