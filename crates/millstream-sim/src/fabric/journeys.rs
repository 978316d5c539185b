//! Selected packets' journeys through a fabric, stage by stage.
//!
//! ```text
//! injected                                                                        delivered
//!    | wait at source | link | wait at input | wait at output | link | … | last link  |
//! ```
//!
//! Stages follow what comes through first, the head under cut-through: a stage *link* lasts until
//! the packet may cross the switch behind, the switch's latency included, and the last until the
//! last byte is there. So they add up to the latency. A transfer through a crossbar takes none of
//! the head's time, since transmission may begin with it; [`Hop::crossing`] has it.
//!
//! Memory: at most [`JOURNEYS_MOST`] journeys, with about 80 bytes a hop, [`SAMPLES_MOST`] samples
//! of buffers, and 4 bytes for each packet under way. What is not kept is counted.

use std::ops::{Range, RangeInclusive};

use super::buffers::Buffers;
use super::listener::{FabricListener, Passage, Step};
use super::simulation::Simulation;

/// The most journeys that are kept.
pub const JOURNEYS_MOST: usize = 10_000;
/// The most samples that are kept.
pub const SAMPLES_MOST: usize = 50_000;

/// Which packets are followed. An empty list allows all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Their service classes.
    pub classes: Vec<u8>,
    /// Where they are injected.
    pub sources: Vec<RangeInclusive<u32>>,
    /// Where they are going.
    pub destinations: Vec<RangeInclusive<u32>>,
    /// Their connections' numbers at their sources.
    pub connections: Vec<RangeInclusive<u32>>,
    /// When they are injected, ns.
    pub time_ns: Range<u64>,
    /// Of each class every so-manieth of what all this allows, beginning with the first; not 0.
    pub every: u64,
    /// Of each class so many.
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

/// A transfer through a crossbar, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// When it begins.
    pub begins_ns: u64,
    /// When it ends.
    pub ends_ns: u64,
}

/// A packet's transmission on a link, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When it begins.
    pub begins_ns: u64,
    /// When it ends.
    pub ends_ns: u64,
    /// When the packet may cross the switch behind the link, or its last byte is there.
    pub through_ns: u64,
}

/// One link of a journey, and what was before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The link, as a number in the order of
    /// [`Topology::links`](super::topology::Topology::links).
    pub link: u32,
    /// Since when it waited for the link, ns.
    pub waits_ns: u64,
    /// Its way through the crossbar before the link, if there is one.
    pub crossing: Option<Crossing>,
    /// Its transmission, if it has come to that.
    pub sent: Option<Transmission>,
}

/// What a packet does in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StageKind {
    /// Waits at its end-point for the first link.
    SourceWait,
    /// Waits in an input's buffer, behind a link, for the crossbar.
    InputWait,
    /// Waits at an output for its link.
    OutputWait,
    /// Is on a link and comes through the switch behind it.
    Link,
    /// Is on the link to its destination, until the last byte has arrived.
    LastLink,
}

/// A stage of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What it does.
    pub kind: StageKind,
    /// The link that it waits for, is on, or came by if it waits at an input.
    pub link: u32,
    /// When it begins, ns.
    pub begins_ns: u64,
    /// When it ends, ns.
    pub ends_ns: u64,
}

/// A packet's journey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Its service class.
    pub class: u8,
    /// Where it was injected.
    pub source: u32,
    /// Where it is going.
    pub destination: u32,
    /// Its connection's number at its source.
    pub connection: u32,
    /// Its length, bytes.
    pub bytes: u32,
    /// When it was injected, ns.
    pub injected_ns: u64,
    /// When its last byte arrives, ns; `None` if that was not known when the run ended.
    pub delivered_ns: Option<u64>,
    /// Its links.
    pub hops: Vec<Hop>,
}

impl Journey {
    /// Its stages, each from where the one before ends; those of no time are left out. A wait that
    /// had not ended when the run did is not there.
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

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sampled {
    /// Bytes that wait for the link.
    WaitingBytes,
    /// Credits that are taken of the room behind it, on all channels.
    TakenCredits,
}

/// How full a link's buffer is from `time_ns` on; taken while some followed packet waits for the
/// link, is on it, or is in the input behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, ns.
    pub time_ns: u64,
    /// The link.
    pub link: u32,
    /// What.
    pub of: Sampled,
    /// How much.
    pub amount: u64,
}

const NOBODY: u32 = u32::MAX;

/// Listens to a fabric and follows packets.
#[derive(Clone, Debug)]
pub struct Journeys {
    selection: Selection,
    journeys: Vec<Journey>,
    /// The journey of each packet's place.
    followed: Vec<u32>,
    /// How many packets of each class the selection allows, and how many of them were taken.
    allowed: Vec<u64>,
    taken: Vec<usize>,
    buffers: Buffers,
    /// How many followed packets are at each link.
    watched: Vec<u32>,
    samples: Vec<Sample>,
    samples_left_out: u64,
}

impl Journeys {
    /// Journeys of packets of `simulation`, which has so many classes.
    ///
    /// # Panics
    /// If the selection takes every 0th.
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

    /// The journeys, in order of injection.
    #[must_use]
    pub fn journeys(&self) -> &[Journey] {
        &self.journeys
    }

    /// Packets that the selection names, without regard to `every` and `first`.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        self.allowed.iter().sum()
    }

    /// How full buffers were on the way, in order of time for each link and quantity.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Samples beyond [`SAMPLES_MOST`].
    #[must_use]
    pub fn samples_left_out(&self) -> u64 {
        self.samples_left_out
    }

    /// A packet enters: is it followed?
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
        // Journeys are far fewer than 2^32.
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

    /// A step of a packet that is followed.
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
