//! The table of queue management, which paths of a router and streams of a link share.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::units::{Duration, Size};

/// Queue management: a name, or a table of its parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "\"codel\", \"pie\", \"red\", \"cobalt\", \"dualpi2\", \"none\", or a table such \
                 as { kind = \"codel\", target = \"5 ms\" }"
)]
pub(crate) enum AqmText {
    /// A name.
    Name(AqmName),
    /// The parameters.
    Table(Box<AqmTable>),
}

/// The name of a queue management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AqmName {
    /// Drops or marks some packets while they wait longer than `target` (CoDel, RFC 8289).
    #[default]
    Codel,
    /// Drops or marks arriving packets with a probability that keeps the wait at `target` (PIE,
    /// RFC 8033).
    Pie,
    /// Drops or marks arriving packets with a probability by the average length (Floyd and
    /// Jacobson, 1993).
    Red,
    /// CoDel, and drops of senders that do not react (COBALT of CAKE, LANMAN 2018).
    Cobalt,
    /// Two queues, one of low latency for L4S senders (DualPI2, RFC 9332); without `flows`.
    Dualpi2,
    /// Drops packets at a full queue only.
    None,
}

impl AqmName {
    /// Returns the name in a file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Codel => "codel",
            Self::Pie => "pie",
            Self::Red => "red",
            Self::Cobalt => "cobalt",
            Self::Dualpi2 => "dualpi2",
            Self::None => "none",
        }
    }
}

/// The parameters of a queue management.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AqmTable {
    /// The queue management; default "codel".
    #[serde(default)]
    pub(crate) kind: AqmName,
    /// codel, cobalt: the wait that a standing queue may have; default "5 ms". pie, dualpi2: the
    /// wait that the controller aims at; default "15 ms".
    pub(crate) target: Option<Duration>,
    /// codel, cobalt: about the longest round-trip time of the senders; default "100 ms".
    pub(crate) interval: Option<Duration>,
    /// codel, pie, red, cobalt: whether packets of ECN-capable senders are marked instead of
    /// dropped; default true.
    pub(crate) ecn: Option<bool>,
    /// pie: the interval of updates of the probability; default "15 ms".
    pub(crate) update: Option<Duration>,
    /// pie: the time without drops after an uncongested time; default "150 ms".
    pub(crate) max_burst: Option<Duration>,
    /// pie: whether drops are spread evenly; default false.
    pub(crate) derandomize: Option<bool>,
    /// red: the average length up to which no packet is dropped; default 30 kB.
    pub(crate) min: Option<Size>,
    /// red: the average length at which `max-percent` of the packets are dropped; default three
    /// times `min`.
    pub(crate) max: Option<Size>,
    /// red: the drop probability at `max`, from 1 to 100 percent; default 10.
    pub(crate) max_percent: Option<u32>,
    /// red: whether the probability grows to 1 between `max` and twice `max`, instead of at `max`;
    /// default true.
    pub(crate) gentle: Option<bool>,
    /// red: about the transmission time of a packet, by which the average decays while the queue
    /// is empty; default "120 us", 1,500 bytes at 100 Mbit/s.
    pub(crate) packet_time: Option<Duration>,
    /// dualpi2: the longest round-trip time of the senders, from which the gains follow; default
    /// "100 ms".
    pub(crate) rtt: Option<Duration>,
    /// dualpi2: the wait of L4S packets above which all are marked; default: a ramp from 0.8 ms to
    /// 1.2 ms.
    pub(crate) step: Option<Duration>,
    /// dualpi2: the coupling factor k, from 1 to 16; default 2.
    pub(crate) coupling: Option<u32>,
    /// dualpi2: the part of other packets while both queues have packets, from 1 to 99 percent;
    /// default 10.
    pub(crate) classic_percent: Option<u32>,
    /// dualpi2: serves both queues in the order of arrival, as if L4S packets had arrived earlier
    /// by this time, instead of by `classic-percent`.
    pub(crate) time_shift: Option<Duration>,
}
