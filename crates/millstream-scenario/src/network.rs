//! The validated network of a scenario: several links in series, and sources that react.

use millstream_traffic::SizeDistribution;

use crate::scenario::{Link, SchedulerConfig};

/// The direction in which packets pass the links of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first sender, by `[link]` and the forward hops.
    #[default]
    Forward,
    /// Back, by the return hops.
    Return,
}

impl Direction {
    /// Returns the other direction.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Return,
            Self::Return => Self::Forward,
        }
    }
}

/// The links of a network.
#[derive(Clone, Debug)]
pub struct Network {
    /// `[link]`, then the hops in file order. Packets pass those of their direction in this order.
    pub hops: Vec<Hop>,
}

/// A link of a network, with a scheduler that has all streams.
#[derive(Clone, Debug)]
pub struct Hop {
    /// The name; that of `[link]` is "link".
    pub name: String,
    /// The direction of the packets that pass it.
    pub direction: Direction,
    /// The link, without credits.
    pub link: Link,
    /// How it is shared among the streams; `None`: like `[link]`.
    pub scheduler: Option<SchedulerConfig>,
    /// The propagation delay from the end of a transmission to the next hop, ns.
    pub delay_ns: u64,
    /// The probability that the link loses a packet, in 2^-64.
    pub loss: u64,
    /// The limit of waiting packets of all streams; `None` without a limit.
    pub queue: Option<u32>,
}

/// A congestion control of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// NewReno's window (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// DCTCP (RFC 8257): reduces by the share of marked packets.
    Dctcp,
    /// As DCTCP, with ECT(1) and pacing, for the shallow queue of L4S (RFC 9330).
    Prague,
    /// BBRv3 (draft-ietf-ccwg-bbr): a model of the path, and pacing.
    Bbr,
}

/// How a TCP sender finds lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossRecovery {
    /// By the order in which packets were sent, also retransmissions; with tail loss probes (RFC
    /// 8985).
    #[default]
    Rack,
    /// By selective acknowledgements alone (RFC 6675): a lost retransmission waits for the timeout.
    Rfc6675,
}

/// TCP connections with the same parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// The number of connections, which begin one after another within a round trip. With
    /// `interval_ns`: the most at once. Of a `web` source: the most of a client.
    pub connections: u32,
    /// The congestion control.
    pub control: CongestionControl,
    /// How senders find lost packets.
    pub recovery: LossRecovery,
    /// The round-trip time without the links, ns. Half of it is between the last forward link and
    /// the receiver, the rest on the way back.
    pub rtt_ns: u64,
    /// The length of a full data packet, bytes, with its headers.
    pub bytes: u32,
    /// The initial window, packets.
    pub initial_window: u32,
    /// The receive window, packets.
    pub receive_window: u32,
    /// Whether packets are spaced at the rate of the window instead of sent at once.
    pub pacing: bool,
    /// Whether packets are ECN-capable.
    pub ecn: bool,
    /// Whether slow start ends when the round-trip time grows (HyStart++, RFC 9406).
    pub hystart: bool,
    /// The received packets per acknowledgement.
    pub ack_every: u32,
    /// The least retransmission timeout, ns.
    pub min_rto_ns: u64,
    /// The sizes of transfers; `None`: without end.
    pub transfer: Option<SizeDistribution>,
    /// The mean time between the beginnings of transfers, exponentially distributed, ns. They begin
    /// whether or not earlier ones have ended. `None`: each connection begins its own.
    pub interval_ns: Option<u64>,
    /// The mean time between the transfers of a connection, exponentially distributed, ns. `None`:
    /// one transfer.
    pub pause_ns: Option<u64>,
    /// When the first connection begins, ns.
    pub start_ns: u64,
    /// When senders stop, ns.
    pub stop_ns: u64,
}

impl Tcp {
    /// The headers of a packet, bytes: IPv4 without options, and TCP with timestamps. An
    /// acknowledgement without data has this length.
    pub const HEADER_BYTES: u32 = 52;
    /// The longest acknowledgement, bytes: with three ranges of selective acknowledgements.
    pub const LARGEST_ACK_BYTES: u32 = Self::HEADER_BYTES + 4 + 3 * 8;

    /// Returns the data of a full packet, bytes.
    #[must_use]
    pub fn segment_bytes(&self) -> u32 {
        self.bytes.saturating_sub(Self::HEADER_BYTES).max(1)
    }
}

/// Clients that load pages: a first object, then further objects over parallel connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Web {
    /// The parameters of each connection, without transfers. A client has up to `connections`.
    pub tcp: Tcp,
    /// The number of clients.
    pub clients: u32,
    /// The sizes of first objects.
    pub html: SizeDistribution,
    /// The number of further objects of a page.
    pub objects: u32,
    /// The sizes of further objects.
    pub object: SizeDistribution,
    /// The length of a request, bytes, with its headers.
    pub request_bytes: u32,
    /// The mean time between the end of a page and the next, exponentially distributed, ns.
    pub pause_ns: u64,
}

/// Video that adapts its rate to the reports of its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// The rates of its encodings in increasing order, bits/s; at least one, none is 0.
    pub rates_bps: Vec<u64>,
    /// The time between frames, ns.
    pub interval_ns: u64,
    /// The length of a packet, bytes; the last of a frame is shorter.
    pub bytes: u32,
    /// The round-trip time without the links, ns.
    pub rtt_ns: u64,
    /// When the first frame is sent, ns.
    pub start_ns: u64,
    /// When frames end, ns.
    pub stop_ns: u64,
}

impl Adaptive {
    /// The report of a receiver, bytes: IPv4, UDP and RTCP.
    pub const REPORT_BYTES: u32 = 80;
}

/// Requests that the receiver answers at once, as `ping` sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The length of a request and of its answer, bytes.
    pub bytes: u32,
    /// The time between requests, ns.
    pub interval_ns: u64,
    /// The round-trip time without the links, ns.
    pub rtt_ns: u64,
    /// When the first request is sent, ns.
    pub start_ns: u64,
    /// When requests end, ns.
    pub stop_ns: u64,
}
