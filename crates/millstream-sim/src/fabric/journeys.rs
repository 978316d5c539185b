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
//! transmission may begin together with it; [`Hop::transfer`] records it.
//!
//! Memory: at most [`MAX_JOURNEYS`] journeys with about 80 bytes per hop, [`MAX_SAMPLES`] buffer
//! samples, and about 100 bytes per link. Journeys and samples beyond the limits are only
//! counted.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use super::buffers::Buffers;
use super::listener::{FabricListener, PacketStep, Step};
use super::simulation::Simulation;

/// The maximum number of journeys kept.
pub const MAX_JOURNEYS: usize = 10_000;
/// The maximum number of samples kept.
pub const MAX_SAMPLES: usize = 50_000;

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
    fn allows(&self, packet_step: &PacketStep) -> bool {
        let within = |ranges: &[RangeInclusive<u32>], number: u32| {
            ranges.is_empty() || ranges.iter().any(|range| range.contains(&number))
        };
        (self.classes.is_empty() || self.classes.contains(&packet_step.class))
            && self.time_ns.contains(&packet_step.injected_ns)
            && within(&self.sources, packet_step.source)
            && within(&self.destinations, packet_step.destination)
            && within(&self.connections, packet_step.connection)
    }
}

/// A transfer through a crossbar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossbarTransfer {
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
    pub ready_ns: u64,
}

/// One link of a journey, with the wait and the crossbar transfer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The link, as an index in [`Topology::links`](super::topology::Topology::links).
    pub link: u32,
    /// Start of the wait for the link, ns.
    pub wait_start_ns: u64,
    /// The transfer through the crossbar before the link, if there is a crossbar.
    pub transfer: Option<CrossbarTransfer>,
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
        let mut arrived_on = None;
        for (number, hop) in self.hops.iter().enumerate() {
            let mut stage = |kind, link, until_ns| {
                if until_ns > at_ns {
                    stages.push(Stage { kind, link, begins_ns: at_ns, ends_ns: until_ns });
                }
                at_ns = until_ns;
            };
            if let Some(link) = arrived_on {
                stage(StageKind::InputWait, link, hop.wait_start_ns);
            }
            let Some(sent) = hop.sent else { break };
            let first = arrived_on.is_none();
            let wait = if first { StageKind::SourceWait } else { StageKind::OutputWait };
            stage(wait, hop.link, sent.begins_ns);
            let last = self.delivered_ns.is_some() && number + 1 == self.hops.len();
            let on = if last { StageKind::LastLink } else { StageKind::Link };
            stage(on, hop.link, sent.ready_ns);
            arrived_on = Some(hop.link);
        }
        stages
    }
}

/// The quantity that a sample measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampledQuantity {
    /// Backlog of the link, bytes.
    BacklogBytes,
    /// Occupied credits of the input buffer behind the link, over all channels.
    OccupiedCredits,
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
    pub quantity: SampledQuantity,
    /// The level, in the unit of the quantity.
    pub amount: u64,
}

/// A listener that follows selected packets.
#[derive(Clone, Debug)]
pub struct Journeys {
    selection: Selection,
    journeys: Vec<Journey>,
    /// Index of the journey of each followed packet in transit.
    journey_index: HashMap<u64, usize>,
    /// Packets that the selection allows, per class.
    allowed: Vec<u64>,
    /// Packets followed, per class.
    followed_count: Vec<usize>,
    buffers: Buffers,
    /// Number of followed packets at each link.
    followed_at_link: Vec<u32>,
    samples: Vec<Sample>,
    samples_dropped: u64,
}

impl Journeys {
    /// Creates a recorder of packets of `simulation`, which has `classes` service classes.
    ///
    /// # Panics
    /// Panics if `selection.every` is 0.
    #[must_use]
    pub fn new(simulation: &Simulation, classes: u8, selection: Selection) -> Self {
        assert!(selection.every > 0, "the sampling interval is 0");
        Self {
            selection,
            journeys: Vec::new(),
            journey_index: HashMap::new(),
            allowed: vec![0; usize::from(classes)],
            followed_count: vec![0; usize::from(classes)],
            buffers: Buffers::for_simulation(simulation, false),
            followed_at_link: vec![0; simulation.topology().links().len()],
            samples: Vec::new(),
            samples_dropped: 0,
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

    /// Deprecated alias of [`samples_dropped`](Self::samples_dropped).
    #[deprecated(note = "renamed to `samples_dropped`")]
    #[must_use]
    pub fn samples_left_out(&self) -> u64 {
        self.samples_dropped()
    }

    /// Returns the number of samples dropped beyond [`MAX_SAMPLES`].
    #[must_use]
    pub fn samples_dropped(&self) -> u64 {
        self.samples_dropped
    }

    /// Starts a journey for an injected packet if the selection allows it and the limits permit.
    fn start_journey(&mut self, packet_step: &PacketStep) {
        if !self.selection.allows(packet_step) {
            return;
        }
        let class = usize::from(packet_step.class);
        let number = self.allowed[class];
        self.allowed[class] += 1;
        if !number.is_multiple_of(self.selection.every)
            || self.followed_count[class] >= self.selection.first
            || self.journeys.len() >= MAX_JOURNEYS
        {
            return;
        }
        self.followed_count[class] += 1;
        self.journey_index.insert(packet_step.packet, self.journeys.len());
        self.journeys.push(Journey {
            class: packet_step.class,
            source: packet_step.source,
            destination: packet_step.destination,
            connection: packet_step.connection,
            bytes: packet_step.bytes,
            injected_ns: packet_step.injected_ns,
            delivered_ns: None,
            hops: Vec::new(),
        });
    }

    /// Records a step of a followed packet.
    fn record_step(&mut self, journey: usize, packet_step: &PacketStep) {
        let journey = &mut self.journeys[journey];
        let followed_at_link = &mut self.followed_at_link;
        let mut waits = |hops: &mut Vec<Hop>, link: u32, wait_start_ns, transfer| {
            if let Some(before) = hops.last() {
                followed_at_link[before.link as usize] -= 1;
            }
            followed_at_link[link as usize] += 1;
            hops.push(Hop { link, wait_start_ns, transfer, sent: None });
        };
        let hops = &mut journey.hops;
        match packet_step.step {
            Step::Injected { link } => waits(hops, link, packet_step.injected_ns, None),
            Step::Queued { link, time_ns } => waits(hops, link, time_ns, None),
            Step::Crossed { onto, begins_ns, ends_ns, .. } => {
                let transfer = CrossbarTransfer { begins_ns, ends_ns };
                waits(hops, onto, begins_ns, Some(transfer));
            }
            Step::Sent { link, begins_ns, ends_ns, ready_ns, last, .. } => {
                if let Some(hop) = hops.last_mut() {
                    hop.sent = Some(Transmission { begins_ns, ends_ns, ready_ns });
                }
                if last {
                    journey.delivered_ns = Some(ready_ns);
                    self.journey_index.remove(&packet_step.packet);
                    self.followed_at_link[link as usize] -= 1;
                }
            }
        }
    }
}

impl FabricListener for Journeys {
    const STEPS: bool = true;

    #[inline]
    fn on_step(&mut self, packet_step: &PacketStep) {
        if matches!(packet_step.step, Step::Injected { .. }) {
            self.start_journey(packet_step);
        }
        let Self { buffers, followed_at_link, samples, samples_dropped, .. } = self;
        buffers.record(packet_step, |link, behind_link, time_ns, amount| {
            if followed_at_link[link as usize] == 0 {
                return;
            }
            if samples.len() >= MAX_SAMPLES {
                *samples_dropped += 1;
                return;
            }
            let quantity = if behind_link {
                SampledQuantity::OccupiedCredits
            } else {
                SampledQuantity::BacklogBytes
            };
            samples.push(Sample { time_ns, link, quantity, amount });
        });
        // Most runs follow few packets, for a short time.
        if !self.journey_index.is_empty()
            && let Some(&journey) = self.journey_index.get(&packet_step.packet)
        {
            self.record_step(journey, packet_step);
        }
    }
}
