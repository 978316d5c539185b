//! The inputs and outputs of the reference.

use num_rational::BigRational;

use crate::Row;
use crate::overhead::Overhead;

/// A discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Weighted fair queueing by the GPS clock; WFQ-CA if streams have credits.
    Wfq,
    /// Self-clocked fair queueing.
    Scfq,
    /// Start-time fair queueing.
    Sfq,
    /// Worst-case fair weighted fair queueing by the GPS clock.
    Wf2q,
    /// Worst-case fair weighted fair queueing by its own clock.
    Wf2qPlus,
    /// Virtual clock.
    VirtualClock,
    /// Deficit round robin.
    Drr,
    /// Weighted round robin: deficit round robin in packets.
    Wrr,
    /// Weighted interleaved round robin.
    Wirr,
    /// A table of stream numbers.
    Table(Vec<u32>),
}

impl Discipline {
    /// Returns every discipline with its name in scenario files; the table holds `entries`.
    #[must_use]
    pub fn all(entries: &[u32]) -> [(&'static str, Self); 10] {
        [
            ("wfq", Self::Wfq),
            ("wf2q", Self::Wf2q),
            ("wf2q+", Self::Wf2qPlus),
            ("scfq", Self::Scfq),
            ("sfq", Self::Sfq),
            ("virtual-clock", Self::VirtualClock),
            ("drr", Self::Drr),
            ("wrr", Self::Wrr),
            ("wirr", Self::Wirr),
            ("table", Self::Table(entries.into())),
        ]
    }

    /// Returns the discipline called `name` in scenario files.
    #[must_use]
    pub fn parse(name: &str, entries: &[u32]) -> Option<Self> {
        Self::all(entries).into_iter().find(|known| known.0 == name).map(|known| known.1)
    }

    /// Returns its name in scenario files.
    ///
    /// # Panics
    /// Never: [`all`](Self::all) lists every discipline.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let same = |known: &Self| core::mem::discriminant(known) == core::mem::discriminant(self);
        let known = Self::all(&[]).into_iter().find(|known| same(&known.1));
        known.expect("every discipline is listed").0
    }
}

/// A stream's share and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// φ; for WRR and WIRR in packets per round.
    pub weight: u64,
    /// DRR's quantum, bytes on the wire.
    pub quantum: u64,
    /// Maximum number of waiting packets.
    pub queue: Option<u32>,
    /// The initial credits; `None` if they are not limited.
    pub credits: Option<u64>,
    /// A token bucket: rate, bits/s, and burst, bytes on the wire.
    pub shaper: Option<(u64, u64)>,
    /// Whether the stream has absolute priority and is not part of the discipline; one stream at
    /// most.
    pub fmc: bool,
}

impl StreamSpec {
    /// Returns a stream of this weight and quantum, without limits.
    #[must_use]
    pub fn new(weight: u64, quantum: u64) -> Self {
        Self { weight, quantum, queue: None, credits: None, shaper: None, fmc: false }
    }
}

/// A return of credits to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditReturn {
    /// Time of the return, ns.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// Number of credits; ignored by a stream without a credit limit.
    pub credits: u64,
}

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The discipline.
    pub discipline: Discipline,
    /// Link rate, bits/s.
    pub rate_bps: u64,
    /// Bytes on the wire beyond a packet's length.
    pub overhead: Overhead,
    /// The streams in file order.
    pub streams: Vec<StreamSpec>,
    /// The returns of credits, in time order.
    pub credit_returns: Vec<CreditReturn>,
}

/// A packet put in service and its tags, in bytes per unit of weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Start of the service, ns.
    pub time_ns: u64,
    /// The stream's number.
    pub stream: u32,
    /// The packet's number among the stream's arrivals, from 0.
    pub packet: u64,
    /// S, in the disciplines that have one.
    pub start_tag: Option<BigRational>,
    /// F, in the disciplines that have one.
    pub finish_tag: Option<BigRational>,
    /// V at this instant, with this packet in service: this F in SCFQ, this S in SFQ. At a service
    /// of the FMC stream it is the last V computed. It is 0 in disciplines without a clock.
    pub virtual_time: BigRational,
    /// DRR's and WRR's deficit after this packet; a stream that then leaves the ring loses it.
    pub deficit: Option<u64>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The departures, in order.
    pub rows: Vec<Row>,
    /// The services, in order.
    pub services: Vec<Service>,
    /// The end of the last transmission, ns.
    pub end_ns: u64,
}
