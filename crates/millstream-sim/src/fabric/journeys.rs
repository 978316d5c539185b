//! Journeys of selected packets through a fabric, stage by stage.
//!
//! ```text
//! injected                                                                        delivered
//!    | wait at source | link | wait at input | wait at output | link | … | last link  |
//! ```
//!
//! Stages follow the first byte under cut-through. A stage *link* lasts until the packet may cross
//! the switch behind the link, switch latency included. The stage *last link* lasts until the last
//! byte arrives, so the stages add up to the latency. A crossbar transfer adds no stage, since
//! transmission may begin together with it; [`Hop::crossing`] records it.
//!
//! Memory: at most [`JOURNEYS_MOST`] journeys with about 80 bytes per hop, [`SAMPLES_MOST`] buffer
//! samples, and 4 bytes for each packet in transit. Journeys and samples beyond the limits are only
//! counted.

use std::ops::{Range, RangeInclusive};

use super::buffers::Buffers;
use super::listener::{FabricListener, Passage, Step};
use super::simulation::Simulation;

/// The maximum number of journeys kept.
pub const JOURNEYS_MOST: usize = 10_000;
/// The maximum number of samples kept.
pub const SAMPLES_MOST: usize = 50_000;

/// The packets to follow. An empty list allows all values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Service classes.
    pub classes: Vec<u8>,
    /// Source end-points.
    pub sources: Vec<RangeInclusive<u32>>,
    /// Destination end-points.
    pub destinations: Vec<RangeInclusive<u32>>,
    /// Connection numbers at the source.
    pub connections: Vec<RangeInclusive<u32>>,
    /// Injection times, ns.
    pub time_ns: Range<u64>,
    /// Sampling interval: of each class, every `every`-th allowed packet from the first on; not 0.
    pub every: u64,
    /// Maximum number of packets followed per class.
    pub first: usize,
}

impl Selection {
    fn allows(&self, passage: &Passage) -> bool {
        let within = |ranges: &[RangeInclusive<u32>], number: u32| {
            ranges.is_empty() || ranges.iter().any(|range| range.contains(&number))
        };
        (self.classes.is_empty() || self.classes.contains(&passage.class))
            && self.time_ns.contains(&passage.injected_ns)
            && within(&self.sources, passage.source)
            && within(&self.destinations, passage.destination)
            && within(&self.connections, passage.connection)
    }
}

/// A transfer through a crossbar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Start of the transfer, ns.
    pub begins_ns: u64,
    /// End of the transfer, ns.
    pub ends_ns: u64,
}

/// A packet's transmission on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Start of the transmission, ns.
    pub begins_ns: u64,
    /// End of the transmission, ns.
    pub ends_ns: u64,
    /// Time at which the packet may cross the switch behind the link, or its last byte arrives, ns.
    pub through_ns: u64,
}

/// One link of a journey, with the wait and the crossbar transfer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The link, as an index in [`Topology::links`](super::topology::Topology::links).
    pub link: u32,
    /// Start of the wait for the link, ns.
    pub waits_ns: u64,
    /// The transfer through the crossbar before the link, if there is a crossbar.
    pub crossing: Option<Crossing>,
    /// The transmission, if it has begun.
    pub sent: Option<Transmission>,
}

/// The kind of a stage of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StageKind {
    /// The packet waits at its end-point for the first link.
    SourceWait,
    /// The packet waits in an input buffer, behind a link, for the crossbar.
    InputWait,
    /// The packet waits at an output for its link.
    OutputWait,
    /// The packet is on a link or passes through the switch behind it.
    Link,
    /// The packet is on the link to its destination, until its last byte arrives.
    LastLink,
}

/// A stage of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The kind of the stage.
    pub kind: StageKind,
    /// The link that the packet waits for or is on; for an input wait, the link it arrived on.
    pub link: u32,
    /// Start of the stage, ns.
    pub begins_ns: u64,
    /// End of the stage, ns.
    pub ends_ns: u64,
}

/// The journey of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Service class of the packet.
    pub class: u8,
    /// Source end-point.
    pub source: u32,
    /// Destination end-point.
    pub destination: u32,
    /// Connection number at the source.
    pub connection: u32,
    /// Packet length, bytes.
    pub bytes: u32,
    /// Injection time, ns.
    pub injected_ns: u64,
    /// Arrival time of the last byte, ns; `None` if it was unknown when the run ended.
    pub delivered_ns: Option<u64>,
    /// The links of its path, in order.
    pub hops: Vec<Hop>,
}

impl Journey {
    /// Returns the stages in order, each from the end of the previous one.
    ///
    /// Omits stages of zero length, and a wait that had not ended when the run ended.
    #[must_use]
    pub fn stages(&self) -> Vec<Stage> {
        let mut stages = Vec::new();
        let mut at_ns = self.injected_ns;
        let mut came_by = None;
        for (number, hop) in self.hops.iter().enumerate() {
            let mut stage = |kind, link, until_ns| {
                if until_ns > at_ns {
                    stages.push(Stage { kind, link, begins_ns: at_ns, ends_ns: until_ns });
                }
                at_ns = until_ns;
            };
            if let Some(link) = came_by {
                stage(StageKind::InputWait, link, hop.waits_ns);
            }
            let Some(sent) = hop.sent else { break };
            let first = came_by.is_none();
            let wait = if first { StageKind::SourceWait } else { StageKind::OutputWait };
            stage(wait, hop.link, sent.begins_ns);
            let last = self.delivered_ns.is_some() && number + 1 == self.hops.len();
            let on = if last { StageKind::LastLink } else { StageKind::Link };
            stage(on, hop.link, sent.through_ns);
            came_by = Some(hop.link);
        }
        stages
    }
}

/// The quantity that a sample measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sampled {
    /// Backlog of the link, bytes.
    WaitingBytes,
    /// Occupied credits of the input buffer behind the link, over all channels.
    TakenCredits,
}

/// The fill level of a link's buffer from `time_ns` on.
///
/// Samples are taken while a followed packet waits for the link, is on it, or is in the input
/// buffer behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Start time of the level, ns.
    pub time_ns: u64,
    /// Link of the buffer.
    pub link: u32,
    /// The measured quantity.
    pub of: Sampled,
    /// The level, in the unit of the quantity.
    pub amount: u64,
}

const NOBODY: u32 = u32::MAX;

/// A listener that follows selected packets.
#[derive(Clone, Debug)]
pub struct Journeys {
    selection: Selection,
    journeys: Vec<Journey>,
    /// Index of the journey of each packet slot, or `NOBODY` (none).
    followed: Vec<u32>,
    /// Packets that the selection allows, per class.
    allowed: Vec<u64>,
    /// Packets followed, per class.
    taken: Vec<usize>,
    buffers: Buffers,
    /// Number of followed packets at each link.
    watched: Vec<u32>,
    samples: Vec<Sample>,
    samples_left_out: u64,
}

impl Journeys {
    /// Creates a recorder of packets of `simulation`, which has `classes` service classes.
    ///
    /// # Panics
    /// Panics if `selection.every` is 0.
    #[must_use]
    pub fn new(simulation: &Simulation, classes: u8, selection: Selection) -> Self {
        assert!(selection.every > 0, "every 0th packet is none");
        Self {
            selection,
            journeys: Vec::new(),
            followed: Vec::new(),
            allowed: vec![0; usize::from(classes)],
            taken: vec![0; usize::from(classes)],
            buffers: Buffers::of(simulation, false),
            watched: vec![0; simulation.topology().links().len()],
            samples: Vec::new(),
            samples_left_out: 0,
        }
    }

    /// Returns the journeys, in order of injection.
    #[must_use]
    pub fn journeys(&self) -> &[Journey] {
        &self.journeys
    }

    /// Returns the number of packets that the selection allows, ignoring `every` and `first`.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        self.allowed.iter().sum()
    }

    /// Returns the buffer samples, in time order for each link and quantity.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the number of samples dropped beyond [`SAMPLES_MOST`].
    #[must_use]
    pub fn samples_left_out(&self) -> u64 {
        self.samples_left_out
    }

    /// Starts a journey for an injected packet if the selection allows it and the limits permit.
    fn enters(&mut self, passage: &Passage) {
        let place = passage.packet as usize;
        if place >= self.followed.len() {
            self.followed.resize(place + 1, NOBODY);
        }
        self.followed[place] = NOBODY;
        if !self.selection.allows(passage) {
            return;
        }
        let class = usize::from(passage.class);
        let number = self.allowed[class];
        self.allowed[class] += 1;
        if !number.is_multiple_of(self.selection.every)
            || self.taken[class] >= self.selection.first
            || self.journeys.len() >= JOURNEYS_MOST
        {
            return;
        }
        self.taken[class] += 1;
        // At most `JOURNEYS_MOST` journeys exist, so the index fits.
        self.followed[place] = u32::try_from(self.journeys.len()).unwrap_or(NOBODY);
        self.journeys.push(Journey {
            class: passage.class,
            source: passage.source,
            destination: passage.destination,
            connection: passage.connection,
            bytes: passage.bytes,
            injected_ns: passage.injected_ns,
            delivered_ns: None,
            hops: Vec::new(),
        });
    }

    /// Records a step of a followed packet.
    fn steps(&mut self, journey: usize, passage: &Passage) {
        let journey = &mut self.journeys[journey];
        let watched = &mut self.watched;
        let mut waits = |hops: &mut Vec<Hop>, link: u32, waits_ns, crossing| {
            if let Some(before) = hops.last() {
                watched[before.link as usize] -= 1;
            }
            watched[link as usize] += 1;
            hops.push(Hop { link, waits_ns, crossing, sent: None });
        };
        let hops = &mut journey.hops;
        match passage.step {
            Step::Injected { link } => waits(hops, link, passage.injected_ns, None),
            Step::Queued { link, time_ns } => waits(hops, link, time_ns, None),
            Step::Crossed { onto, begins_ns, ends_ns, .. } => {
                let crossing = Crossing { begins_ns, ends_ns };
                waits(hops, onto, begins_ns, Some(crossing));
            }
            Step::Sent { link, begins_ns, ends_ns, through_ns, last, .. } => {
                if let Some(hop) = hops.last_mut() {
                    hop.sent = Some(Transmission { begins_ns, ends_ns, through_ns });
                }
                if last {
                    journey.delivered_ns = Some(through_ns);
                    self.followed[passage.packet as usize] = NOBODY;
                    self.watched[link as usize] -= 1;
                }
            }
        }
    }
}

impl FabricListener for Journeys {
    const STEPS: bool = true;

    #[inline]
    fn passed(&mut self, passage: &Passage) {
        if matches!(passage.step, Step::Injected { .. }) {
            self.enters(passage);
        }
        let Self { buffers, watched, samples, samples_left_out, .. } = self;
        buffers.follow(passage, |link, taken, time_ns, amount| {
            if watched[link as usize] == 0 {
                return;
            }
            if samples.len() >= SAMPLES_MOST {
                *samples_left_out += 1;
                return;
            }
            let of = if taken { Sampled::TakenCredits } else { Sampled::WaitingBytes };
            samples.push(Sample { time_ns, link, of, amount });
        });
        let journey = self.followed[passage.packet as usize];
        if journey != NOBODY {
            self.steps(journey as usize, passage);
        }
    }
}
