//! The TOML tables of a scenario file, before validation.
//!
//! These types define the format: `serde` parses them, and `schemars` derives the JSON Schema from
//! them. Values that validation can reject carry their span. The doc comments become the
//! descriptions in the schema, which editors and `docs/src/keys.md` show.

pub(crate) mod aqm;
pub(crate) mod fabric;
pub(crate) mod flows;
pub(crate) mod media;
pub(crate) mod network;
pub(crate) mod router;
pub(crate) mod sizes;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::file::aqm::AqmText;
use crate::file::fabric::FabricTable;
use crate::file::flows::FlowsTable;
use crate::file::media::{AudioCodecName, CodecName, MediaTable, PayloadName, SrtTable};
use crate::file::network::HopTable;
use crate::file::router::MatchTable;
use crate::file::sizes::SizesText;
use crate::network::{CongestionControl, Direction, LossRecovery};
use crate::overhead::{FramingName, Overhead};
use crate::source::SourceKind;
use crate::units::{Duration, Frequency, Rate, Size, WindowText};
use crate::validate::CheckedSource;

/// A Millstream scenario: streams, the scheduler, and the link or fabric that they share.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Millstream scenario")]
pub(crate) struct File {
    #[serde(default)]
    pub(crate) scenario: ScenarioTable,
    pub(crate) link: LinkTable,
    pub(crate) scheduler: SchedulerTable,
    /// A fabric of switches instead of a single link; `link` describes each of its links.
    #[schemars(with = "Option<FabricTable>")]
    pub(crate) fabric: Option<Spanned<FabricTable>>,
    /// Further links: a network. Packets pass `link` and the forward hops in file order; the
    /// acknowledgements and answers to them pass the return hops.
    #[serde(default)]
    #[schemars(with = "Vec<HopTable>")]
    pub(crate) hop: Vec<Spanned<HopTable>>,
    /// The settings of `millstream serve`, which serves the streams to players.
    #[schemars(with = "Option<MediaTable>")]
    pub(crate) media: Option<Spanned<MediaTable>>,
    /// The classes: the inner nodes of the tree whose root is the scheduler and whose leaves are
    /// the streams.
    #[serde(default)]
    #[schemars(with = "Vec<ClassTable>")]
    pub(crate) class: Vec<Spanned<ClassTable>>,
    /// The streams. Their order in the file breaks the remaining ties.
    #[serde(default)]
    #[schemars(with = "Vec<StreamTable>")]
    pub(crate) stream: Vec<Spanned<StreamTable>>,
}

/// The general settings of the run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ScenarioTable {
    /// The scenario's name; default: the file's name without its extension.
    pub(crate) name: Option<String>,
    /// The seed of all random numbers; default 1.
    pub(crate) seed: Option<u64>,
    /// The time when sources stop; queues then drain. Required if a source never ends by itself.
    pub(crate) duration: Option<Duration>,
}

/// The output link; in a fabric, every link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LinkTable {
    /// The line speed, for example "100 Mbit/s".
    pub(crate) rate: Rate,
    /// Bytes on the wire per packet in addition to its length, at least -64, or a name. A length
    /// includes the Ethernet header: "ethernet" is 24 (preamble, FCS and gap), "docsis" 4 (FCS).
    /// Names of ATM and PTM links also set `framing`. Default 0.
    #[serde(default)]
    pub(crate) overhead: Overhead,
    /// The division of packets on the wire: "atm" (cells of 53 bytes for every 48), "ptm" (65 for
    /// 64) or "none". Default: that of the name in `overhead`, or "none".
    #[schemars(with = "Option<FramingName>")]
    pub(crate) framing: Option<Spanned<FramingName>>,
    /// The credit-based flow control of the receiver; default: none.
    pub(crate) credits: Option<CreditsTable>,
    /// The propagation delay to the next hop or the receivers; default 0.
    pub(crate) delay: Option<Duration>,
    /// The probability that the link loses a packet, from 0 to below 1; default 0.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub(crate) loss: Option<Spanned<f64>>,
    /// The limit of waiting packets of all streams together; further arrivals are dropped.
    /// Default: unlimited.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) queue: Option<Spanned<u32>>,
}

impl LinkTable {
    pub(crate) fn wire(&self) -> millstream::Link {
        self.overhead.link(self.rate, self.framing.as_ref())
    }
}

/// Credit-based flow control: a stream sends only what its buffer at the receiver can hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CreditsTable {
    /// The receiver's buffer for each stream, in whole credits of 64 bytes, for example "8704 B".
    pub(crate) buffer: Size,
    /// The delay from the end of a packet's transmission to the return of its credits; default 0.
    pub(crate) return_delay: Option<Duration>,
}

/// The scheduler of the link; with classes, the root of their tree.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SchedulerTable {
    /// The discipline, which orders the streams.
    #[schemars(with = "String", extend("enum" = discipline_names()))]
    pub(crate) discipline: Spanned<String>,
    /// The queue structure, which finds the first stream; default "auto". Only `hilq` changes the
    /// schedule.
    #[schemars(with = "Option<String>", extend("enum" = structure_names()))]
    pub(crate) structure: Option<Spanned<String>>,
    /// DWCS: the order of streams; default "edf-first".
    pub(crate) order: Option<OrderName>,
    /// DWCS: the update rules of window-constraints; default "standard".
    pub(crate) rules: Option<RulesName>,
    /// DWCS: the order of zero window-constraints; default "highest-denominator".
    pub(crate) zero_window: Option<ZeroWindowName>,
    /// Table scheduler: the turns in order, each the name of a stream or a class.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) table: Option<Vec<Spanned<String>>>,
    /// MinBW: the discipline of the bandwidth that the management channel leaves; default "scfq".
    pub(crate) algorithm: Option<AlgorithmName>,
    /// Structure `rtl`: the backend that contains the hardware core; default "core".
    #[schemars(with = "Option<RealisationName>")]
    pub(crate) realisation: Option<Spanned<RealisationName>>,
    /// End-system: the bus between host and card; default "pci-33".
    #[schemars(with = "Option<BusName>")]
    pub(crate) bus: Option<Spanned<BusName>>,
    /// End-system: the clock frequency of the card; default "23 MHz".
    #[schemars(with = "Option<Frequency>")]
    pub(crate) clock: Option<Spanned<Frequency>>,
    /// End-system: the tick of the card's clock counter, which counts decisions; default: the
    /// transmission time of 1,500 bytes.
    #[schemars(with = "Option<Duration>")]
    pub(crate) packet_time: Option<Spanned<Duration>>,
}

/// The backend that contains the hardware core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RealisationName {
    /// The core alone, as a queue structure of the simulated link's scheduler.
    Core,
    /// The end-system card, its host and the bus between them.
    EndSystem,
}

/// The bus between host and card.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) enum BusName {
    /// PCI with 33 MHz and 32 bits, as in the paper.
    #[serde(rename = "pci-33")]
    Pci33,
    /// PCI Express 3.0 with 4 lanes.
    #[serde(rename = "pcie-gen3-x4")]
    PcieGen3X4,
    /// Transfers cost nothing.
    #[serde(rename = "none")]
    None,
}

/// A class: it shares its service among the streams and classes that name it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClassTable {
    /// The class's name, unique among classes.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The parent class; default: the root.
    #[schemars(with = "Option<String>")]
    pub(crate) parent: Option<Spanned<String>>,
    /// The discipline, which orders its children.
    #[schemars(with = "String", extend("enum" = discipline_names()))]
    pub(crate) discipline: Spanned<String>,
    /// The queue structure, which finds the first child; default "auto". It does not change the
    /// schedule.
    #[schemars(with = "Option<String>", extend("enum" = structure_names()))]
    pub(crate) structure: Option<Spanned<String>>,
    /// DWCS: the order of children; default "edf-first".
    pub(crate) order: Option<OrderName>,
    /// DWCS: the update rules of window-constraints; default "standard".
    pub(crate) rules: Option<RulesName>,
    /// DWCS: the order of zero window-constraints; default "highest-denominator".
    pub(crate) zero_window: Option<ZeroWindowName>,
    /// Table scheduler: the turns in order, each the name of a child.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) table: Option<Vec<Spanned<String>>>,
    /// MinBW: the discipline of the bandwidth that the management channel leaves; default "scfq".
    pub(crate) algorithm: Option<AlgorithmName>,
    /// The request period T in its parent, as for a stream.
    #[schemars(with = "Option<Duration>")]
    pub(crate) period: Option<Spanned<Duration>>,
    /// The window-constraint x/y in its parent, as for a stream.
    pub(crate) window: Option<WindowText>,
    /// The deadline of its first packet in its parent, as for a stream.
    pub(crate) first_deadline: Option<Duration>,
    /// The weight in its parent, as for a stream.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Box<Spanned<u32>>>,
    /// The quantum in its parent, bytes, as for a stream.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) quantum: Option<Box<Spanned<u32>>>,
    /// The static priority in its parent, as for a stream.
    pub(crate) priority: Option<u32>,
    /// The rate cap of all its streams together, on the wire; default: none.
    #[schemars(with = "Option<Rate>")]
    pub(crate) max_rate: Option<Box<Spanned<Rate>>>,
    /// The depth of the token bucket of `max-rate`, on the wire; default: the largest packet.
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Box<Spanned<Size>>>,
}

/// The disciplines of MinBW for the bandwidth that the management channel leaves.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AlgorithmName {
    /// Weighted fair queueing.
    Wfq,
    /// Self-clocked fair queueing.
    Scfq,
    /// Deficit round robin.
    Drr,
}

/// The order of streams under DWCS.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OrderName {
    /// Earliest deadline, then lowest window-constraint.
    EdfFirst,
    /// Lowest window-constraint, then earliest deadline (1999).
    LossFirst,
}

/// The update rules of window-constraints under DWCS.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RulesName {
    /// Rules A and B with the violation tag.
    Standard,
    /// The 1999 rules, for comparison only.
    Rtas99,
}

/// The order of zero window-constraints under DWCS.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ZeroWindowName {
    /// Highest y' first (ShareStreams).
    HighestDenominator,
    /// Lowest y' first (the HILQ paper).
    LowestDenominator,
}

/// The treatment of late packets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LateName {
    /// Send them late.
    Send,
    /// Drop them.
    Drop,
}

/// A stream: its service contract and the source of its packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StreamTable {
    /// The stream's name, unique among streams.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The class that contains the stream; default: the root.
    #[schemars(with = "Option<String>")]
    pub(crate) class: Option<Box<Spanned<String>>>,
    /// MinBW and fabrics: whether the stream is the fabric management channel, which is served
    /// first; default false.
    pub(crate) fmc: Option<bool>,
    /// The request period T: the interval between the deadlines of successive packets. Required by
    /// edf, dwcs, vds and pd2.
    #[schemars(with = "Option<Duration>")]
    pub(crate) period: Option<Spanned<Duration>>,
    /// The window-constraint x/y: at most x of any y consecutive packets are late or lost; default
    /// 0/0, no constraint.
    pub(crate) window: Option<WindowText>,
    /// The deadline of the first packet; default: its arrival + period.
    pub(crate) first_deadline: Option<Duration>,
    /// The treatment of late packets; default "send".
    pub(crate) late: Option<LateName>,
    /// The weight: the share under fair queueing, or the packets of a turn under wrr and wirr;
    /// positive; default 1.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Box<Spanned<u32>>>,
    /// Deficit round robin: the bytes of a turn, on the wire; positive; default: weight × largest
    /// packet / smallest weight.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) quantum: Option<Box<Spanned<u32>>>,
    /// The static priority; 0 is served first; default 0.
    pub(crate) priority: Option<u32>,
    /// The limit of waiting packets, without the packet in service; further arrivals are dropped.
    /// Default: unlimited.
    pub(crate) queue: Option<u32>,
    /// The rate cap of the stream, on the wire; default: none.
    #[schemars(with = "Option<Rate>")]
    pub(crate) max_rate: Option<Box<Spanned<Rate>>>,
    /// The depth of the token bucket of `max-rate`, on the wire; default: the largest packet.
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Box<Spanned<Size>>>,
    /// Queues its packets by flow, so that a flow with few packets does not wait for the others
    /// (RFC 8290). `{}` selects the defaults. A flow is a connection of a `tcp` source, or all
    /// packets of another source. Default: one queue.
    #[schemars(with = "Option<FlowsTable>")]
    pub(crate) flows: Option<Box<Spanned<FlowsTable>>>,
    /// The queue management of each flow, or of the stream's queue without `flows`: a name or a
    /// table; default "codel" with `flows`, otherwise "none".
    #[schemars(with = "Option<AqmText>")]
    pub(crate) aqm: Option<Box<Spanned<AqmText>>>,
    /// The name of another stream. The packets use its contract and its queue. Default: their own.
    #[schemars(with = "Option<String>")]
    pub(crate) shares: Option<Box<Spanned<String>>>,
    /// In a network: the direction of its data; default "forward".
    #[schemars(with = "Option<Direction>")]
    pub(crate) direction: Option<Box<Spanned<Direction>>>,
    /// `millstream attach`: the packets of the stream, which match one of these tables. A packet
    /// belongs to the first stream, in file order, that it matches; the only stream without `match`
    /// takes all others. Simulations ignore it. Default: none.
    #[serde(default)]
    #[schemars(with = "Vec<MatchTable>")]
    pub(crate) r#match: Vec<Spanned<MatchTable>>,
    /// The source of the packets.
    #[schemars(with = "SourceTable")]
    pub(crate) source: CheckedSource,
}

/// The source of a stream's packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(transform = SourceKind::narrow_schema)]
pub(crate) struct SourceTable {
    /// The kind of source.
    #[schemars(with = "String")]
    pub(crate) kind: Spanned<String>,
    /// The length of packets, bytes; the smallest length if `largest` is given.
    #[schemars(with = "Option<u32>")]
    pub(crate) bytes: Option<Spanned<u32>>,
    /// The mean rate. Live: the fill rate of the publisher's token bucket, on the link. TCP: the
    /// mean rate of the data that begins to be transferred, an alternative to `interval`.
    #[schemars(with = "Option<Rate>")]
    pub(crate) rate: Option<Spanned<Rate>>,
    /// The interval between packets; for cbr, an alternative to `rate`. TCP: the mean time between
    /// the beginnings of transfers, which do not wait for earlier ones (a Poisson process).
    #[schemars(with = "Option<Duration>")]
    pub(crate) interval: Option<Spanned<Duration>>,
    /// The time when the source starts; default 0.
    #[schemars(with = "Option<Duration>")]
    pub(crate) start: Option<Spanned<Duration>>,
    /// The time when the source stops; default: the scenario's duration.
    #[schemars(with = "Option<Duration>")]
    pub(crate) stop: Option<Spanned<Duration>>,
    /// The number of packets.
    #[schemars(with = "Option<u64>")]
    pub(crate) packets: Option<Spanned<u64>>,
    /// The input file, relative to the scenario file.
    #[schemars(with = "Option<String>")]
    pub(crate) file: Option<Spanned<String>>,
    /// A pcap-filter expression, as for tcpdump; default: all packets that no earlier stream
    /// matches.
    #[schemars(with = "Option<String>")]
    pub(crate) r#match: Option<Spanned<String>>,
    /// The statistical model of video: "mpeg4".
    #[schemars(with = "Option<String>", extend("enum" = ["mpeg4", null]))]
    pub(crate) model: Option<Spanned<String>>,
    /// The selected frame types: any of the letters I, P and B; default: all.
    #[schemars(with = "Option<String>", regex(pattern = "^[IPB]{1,3}$"))]
    pub(crate) frames: Option<Spanned<String>>,
    /// The frame rate of the model, frames per second; default 25.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) frame_rate: Option<Spanned<u32>>,
    /// The largest packet, bytes: longer frames are split; default: one packet per frame.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) packet_bytes: Option<Spanned<u32>>,
    /// Whether a frame's packets are spread over its frame time instead of arriving at once;
    /// default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) spread: Option<Spanned<bool>>,
    /// Whether the file restarts when it ends; default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) repeat: Option<Spanned<bool>>,
    /// The payload of the packets that `millstream serve` sends; default "elementary".
    #[schemars(with = "Option<PayloadName>")]
    pub(crate) payload: Option<Spanned<PayloadName>>,
    /// The rate of one on/off source while it is on; default: 4 × rate / sources.
    #[schemars(with = "Option<Rate>")]
    pub(crate) peak_rate: Option<Spanned<Rate>>,
    /// The number of superposed on/off sources; default 16.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) sources: Option<Spanned<u32>>,
    /// The largest packet, bytes. Lengths are from `bytes` to `largest`: Pareto-distributed with
    /// shape 1.4, or uniform for a generator. Default: all packets have `bytes`.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) largest: Option<Spanned<u32>>,
    /// In a fabric: the share of each end-point's link that its connections fill, from 0 to 1;
    /// default: one connection per end-point.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub(crate) load: Option<Spanned<f64>>,
    /// In a fabric: the only end-point that sends, such as "e0"; with `to`: one connection, a
    /// virtual link. Default: all end-points.
    #[schemars(with = "Option<String>", regex(pattern = "^e[0-9]+$"))]
    pub(crate) from: Option<Spanned<String>>,
    /// In a fabric: the end-point that receives, such as "e1"; with `from`.
    #[schemars(with = "Option<String>", regex(pattern = "^e[0-9]+$"))]
    pub(crate) to: Option<Spanned<String>>,
    /// Live: the depth of the publisher's token bucket, on the link; it limits the largest frame.
    /// Default: half a second of `rate`, at least "32 KB".
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Spanned<Size>>,
    /// Live: the codec of the published video; default "h264".
    #[schemars(with = "Option<CodecName>")]
    pub(crate) codec: Option<Spanned<CodecName>>,
    /// Live: the codec of the audio that may be published with the video; default: no audio.
    #[schemars(with = "Option<AudioCodecName>")]
    pub(crate) audio: Option<Spanned<AudioCodecName>>,
    /// Live: the rate of the audio, on the link, which is reserved for each client; default
    /// "192 kbit/s". Needs `audio`.
    #[schemars(with = "Option<Rate>")]
    pub(crate) audio_rate: Option<Spanned<Rate>>,
    /// Live: the names of `users` and `tokens` that may publish; default: any client on a loopback
    /// address.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) publish: Option<Spanned<Vec<String>>>,
    /// Live: the number of paths `STREAM/NAME` that may be published at once, each a stream of its
    /// own with this contract; default: the stream's name is the only path. Needs `[media]`.
    #[schemars(with = "Option<u32>", range(min = 1, max = 256))]
    pub(crate) paths: Option<Spanned<u32>>,
    /// Live: whether the server records the stream, as `recording` of `[media]` says; default
    /// false. Recordings have video of codec "h264", and audio of codec "aac" or "opus".
    #[schemars(with = "Option<bool>")]
    pub(crate) record: Option<Spanned<bool>>,
    /// Live: how long players wait for a disconnected publisher to return; default "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) wait: Option<Spanned<Duration>>,
    /// Live: the UDP address and port at which a publisher sends an MPEG transport stream; a group
    /// if it is a multicast address. Default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) udp: Option<Spanned<String>>,
    /// Live: the only address from which `udp` accepts packets; default: any. Packets show no user
    /// and no token.
    #[schemars(with = "Option<String>")]
    pub(crate) udp_from: Option<Spanned<String>>,
    /// Live: the address of the interface that joins the IPv4 group of `udp`; default: the
    /// system's choice.
    #[schemars(with = "Option<String>")]
    pub(crate) udp_interface: Option<Spanned<String>>,
    /// Live: the SRT connection that brings an MPEG transport stream, by the program
    /// srt-live-transmit; default: none.
    #[schemars(with = "Option<SrtTable>")]
    pub(crate) srt: Option<Spanned<SrtTable>>,
    /// Live: the program, and its arguments, that publishes the stream. It runs only while clients
    /// play or wait for the stream; default: none. No shell interprets them.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) on_demand: Option<Spanned<Vec<String>>>,
    /// Live: how long a player's request waits for the publisher that `on-demand` starts; default
    /// "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) on_demand_start: Option<Spanned<Duration>>,
    /// Live: how long the program of `on-demand` runs without players; default "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) on_demand_close: Option<Spanned<Duration>>,
    /// TCP: the number of connections; default 1. With `interval` or `rate`: the most at once;
    /// default 1,000; further transfers wait. Web: the most of a client, up to 64; default 6.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// TCP: the congestion control; default "cubic".
    #[schemars(with = "Option<CongestionControl>")]
    pub(crate) control: Option<Spanned<CongestionControl>>,
    /// TCP: how senders find lost packets; default "rack".
    #[schemars(with = "Option<LossRecovery>")]
    pub(crate) recovery: Option<Spanned<LossRecovery>>,
    /// TCP, echo and adaptive: the round-trip time without the links.
    #[schemars(with = "Option<Duration>")]
    pub(crate) rtt: Option<Spanned<Duration>>,
    /// Adaptive: the rates of the video's encodings, in increasing order.
    #[schemars(with = "Option<Vec<Rate>>")]
    pub(crate) rates: Option<Spanned<Vec<Rate>>>,
    /// TCP: the initial window, packets; default 10 (RFC 6928).
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) initial_window: Option<Spanned<u32>>,
    /// TCP: the window of the receiver; default "16 MiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) receive_window: Option<Spanned<Size>>,
    /// TCP: whether packets are spaced at the rate of the window; default false, with `control =
    /// "prague"` or "bbr" true.
    #[schemars(with = "Option<bool>")]
    pub(crate) pacing: Option<Spanned<bool>>,
    /// TCP: whether packets are ECN-capable; default false, with `control = "dctcp"` or "prague"
    /// true.
    #[schemars(with = "Option<bool>")]
    pub(crate) ecn: Option<Spanned<bool>>,
    /// TCP: whether slow start ends when the round-trip time grows (HyStart++, RFC 9406); default
    /// true.
    #[schemars(with = "Option<bool>")]
    pub(crate) hystart: Option<Spanned<bool>>,
    /// TCP: the number of packets that the receiver acknowledges together; default 2. One that
    /// waits alone is acknowledged after 40 ms.
    #[schemars(with = "Option<u32>", range(min = 1, max = 64))]
    pub(crate) ack_every: Option<Spanned<u32>>,
    /// TCP: the least retransmission timeout; default "200 ms".
    #[schemars(with = "Option<Duration>")]
    pub(crate) min_rto: Option<Spanned<Duration>>,
    /// TCP: the data of a transfer, a size or a distribution; default: without end.
    #[schemars(with = "Option<SizesText>")]
    pub(crate) transfer: Option<Spanned<SizesText>>,
    /// Web: the number of clients; default 1.
    #[schemars(with = "Option<u32>", range(min = 1, max = 10000))]
    pub(crate) clients: Option<Spanned<u32>>,
    /// Web: the size of a page's first object, or its distribution; default "18 kB".
    #[schemars(with = "Option<SizesText>")]
    pub(crate) html: Option<Spanned<SizesText>>,
    /// Web: the number of further objects of a page; default 70.
    #[schemars(with = "Option<u32>", range(max = 1000))]
    pub(crate) objects: Option<Spanned<u32>>,
    /// Web: the size of a further object, or its distribution; default: lognormal with a mean of
    /// "37600 B" and a `sigma` of 1.3.
    #[schemars(with = "Option<SizesText>")]
    pub(crate) object: Option<Spanned<SizesText>>,
    /// Web: the length of a request with its headers, bytes; default 500.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65535))]
    pub(crate) request: Option<Spanned<u32>>,
    /// The number of packets before the pause; default: no pause.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) pause_after: Option<Spanned<u32>>,
    /// Generator: the length of the pause in addition to the interval. TCP: the mean pause between
    /// the transfers of a connection, exponentially distributed; default: one transfer. Web: the
    /// mean time between a page and the next; default "30 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) pause: Option<Spanned<Duration>>,
}

fn discipline_names() -> Vec<&'static str> {
    millstream::catalogue::DISCIPLINES.iter().map(|row| row.name).collect()
}

fn structure_names() -> Vec<Option<&'static str>> {
    let named = millstream::catalogue::StructureName::ALL.iter().map(|structure| structure.name());
    std::iter::once("auto").chain(named).chain(["rtl"]).map(Some).chain([None]).collect()
}

/// Returns the JSON Schema (draft 2020-12) of the scenario file, pretty-printed.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(File);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
