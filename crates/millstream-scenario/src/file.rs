//! The TOML tables of a scenario file, before validation.
//!
//! These types define the format: `serde` parses them, and `schemars` derives the JSON Schema from
//! them. Values that validation can reject carry their span. The doc comments become the
//! descriptions in the schema, which editors and `docs/src/keys.md` show.

pub(crate) mod fabric;
pub(crate) mod media;
pub(crate) mod router;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::file::fabric::FabricTable;
use crate::file::media::{CodecName, MediaTable, PayloadName};
use crate::source::SourceKind;
use crate::units::{Duration, Frequency, Rate, Size, WindowText};

/// A Millstream scenario: streams, the scheduler, and the link or fabric that they share.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Millstream scenario")]
pub(crate) struct File {
    #[serde(default)]
    pub(crate) scenario: ScenarioTable,
    pub(crate) link: LinkTable,
    pub(crate) scheduler: SchedulerTable,
    /// A fabric of switches in place of one link; each of its links is as `link` says.
    #[schemars(with = "Option<FabricTable>")]
    pub(crate) fabric: Option<Spanned<FabricTable>>,
    /// How `millstream serve` serves the streams to players.
    #[schemars(with = "Option<MediaTable>")]
    pub(crate) media: Option<Spanned<MediaTable>>,
    /// Classes: a tree above the streams; the scheduler is its root.
    #[serde(default)]
    #[schemars(with = "Vec<ClassTable>")]
    pub(crate) class: Vec<Spanned<ClassTable>>,
    /// The streams, in the order that breaks the last ties.
    #[serde(default)]
    #[schemars(with = "Vec<StreamTable>")]
    pub(crate) stream: Vec<Spanned<StreamTable>>,
}

/// The run as a whole.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ScenarioTable {
    /// The scenario's name; default: the file's.
    pub(crate) name: Option<String>,
    /// Where all randomness comes from; default 1.
    pub(crate) seed: Option<u64>,
    /// Sources stop here; queues then drain. Needed if a source never ends by itself.
    pub(crate) duration: Option<Duration>,
}

/// What packets leave through.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LinkTable {
    /// Line speed, for example "100 Mbps".
    pub(crate) rate: Rate,
    /// Bytes a packet takes on the wire beyond its length; Ethernet preamble + FCS + gap = 24.
    #[serde(default)]
    pub(crate) overhead: u32,
    /// A receiver with credit-based flow control at the link's end.
    pub(crate) credits: Option<CreditsTable>,
}

/// Credit-based flow control: each stream may have as much under way as its buffer holds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CreditsTable {
    /// The receiver's buffer for each stream, in credits of 64 bytes, for example "8704 B".
    pub(crate) buffer: Size,
    /// How long after a packet's transmission its credits are back; default 0.
    pub(crate) return_delay: Option<Duration>,
}

/// Who goes next.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SchedulerTable {
    /// How streams are ordered.
    #[schemars(with = "String", extend("enum" = discipline_names()))]
    pub(crate) discipline: Spanned<String>,
    /// How the first in that order is found; the schedule is the same on all but `hilq`.
    #[schemars(with = "Option<String>", extend("enum" = structure_names()))]
    pub(crate) structure: Option<Spanned<String>>,
    /// DWCS: the precedence.
    pub(crate) order: Option<OrderName>,
    /// DWCS: the updates of window-constraints.
    pub(crate) rules: Option<RulesName>,
    /// DWCS: which of two zero window-constraints comes first.
    pub(crate) zero_window: Option<ZeroWindowName>,
    /// Table scheduler: the turns, each a stream's name.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) table: Option<Vec<Spanned<String>>>,
    /// MinBW: the discipline that shares what the management channel leaves; default "scfq".
    pub(crate) algorithm: Option<AlgorithmName>,
    /// Structure rtl: what is around the core; default "core".
    #[schemars(with = "Option<RealisationName>")]
    pub(crate) realisation: Option<Spanned<RealisationName>>,
    /// End-system: the bus between host and card; default "pci-33".
    #[schemars(with = "Option<BusName>")]
    pub(crate) bus: Option<Spanned<BusName>>,
    /// End-system: the card's clock; default "23 MHz".
    #[schemars(with = "Option<Frequency>")]
    pub(crate) clock: Option<Spanned<Frequency>>,
    /// End-system: a tick of the card's time, which counts decisions; default: what 1,500 bytes
    /// take on the link.
    #[schemars(with = "Option<Duration>")]
    pub(crate) packet_time: Option<Spanned<Duration>>,
}

/// What is around the hardware's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RealisationName {
    /// Nothing: the core is a structure of the simulated link's scheduler.
    Core,
    /// The end-system card, its host, and a bus between them.
    EndSystem,
}

/// The bus between host and card.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) enum BusName {
    /// PCI, 33 MHz and 32 bits, as the paper's.
    #[serde(rename = "pci-33")]
    Pci33,
    /// PCI Express 3.0, 4 lanes.
    #[serde(rename = "pcie-gen3-x4")]
    PcieGen3X4,
    /// Transfers cost nothing.
    #[serde(rename = "none")]
    None,
}

/// A class: it shares what it gets among the streams and classes that name it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClassTable {
    /// Unique among classes.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The class it stands in; default: the root.
    #[schemars(with = "Option<String>")]
    pub(crate) parent: Option<Spanned<String>>,
    /// How its children are ordered.
    #[schemars(with = "String", extend("enum" = discipline_names()))]
    pub(crate) discipline: Spanned<String>,
    /// How the first in that order is found; the schedule is the same.
    #[schemars(with = "Option<String>", extend("enum" = structure_names()))]
    pub(crate) structure: Option<Spanned<String>>,
    /// DWCS: the precedence.
    pub(crate) order: Option<OrderName>,
    /// DWCS: the updates of window-constraints.
    pub(crate) rules: Option<RulesName>,
    /// DWCS: which of two zero window-constraints comes first.
    pub(crate) zero_window: Option<ZeroWindowName>,
    /// Table scheduler: the turns, each a child's name.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) table: Option<Vec<Spanned<String>>>,
    /// MinBW: the discipline that shares what the management channel leaves; default "scfq".
    pub(crate) algorithm: Option<AlgorithmName>,
    /// In its parent, as for a stream.
    #[schemars(with = "Option<Duration>")]
    pub(crate) period: Option<Spanned<Duration>>,
    /// In its parent, as for a stream.
    pub(crate) window: Option<WindowText>,
    /// In its parent, as for a stream.
    pub(crate) first_deadline: Option<Duration>,
    /// In its parent, as for a stream.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Spanned<u32>>,
    /// In its parent, as for a stream.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) quantum: Option<Spanned<u32>>,
    /// In its parent, as for a stream.
    pub(crate) priority: Option<u32>,
    /// A cap on the rate of all its streams together, on the wire.
    #[schemars(with = "Option<Rate>")]
    pub(crate) max_rate: Option<Spanned<Rate>>,
    /// How much may go at once under `max-rate`; default: one packet.
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Spanned<Size>>,
}

/// The implementations of MinBW.
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

/// The precedence of DWCS.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OrderName {
    /// Earliest deadline, then lowest window-constraint.
    EdfFirst,
    /// Lowest window-constraint, then earliest deadline (1999).
    LossFirst,
}

/// The updates of DWCS.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RulesName {
    /// Rules A and B with the violation tag.
    Standard,
    /// The 1999 rules, for comparison only.
    Rtas99,
}

/// The order among zero window-constraints.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ZeroWindowName {
    /// Highest y' first (ShareStreams).
    HighestDenominator,
    /// Lowest y' first (the HILQ paper).
    LowestDenominator,
}

/// What becomes of late packets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LateName {
    /// Send them late.
    Send,
    /// Drop them.
    Drop,
}

/// One stream: a service contract and where its packets come from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StreamTable {
    /// Unique.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The class it stands in; default: the root.
    #[schemars(with = "Option<String>")]
    pub(crate) class: Option<Spanned<String>>,
    /// MinBW: this is the fabric management channel, which goes first.
    pub(crate) fmc: Option<bool>,
    /// T: the interval between deadlines of successive packets; needed by edf and dwcs.
    #[schemars(with = "Option<Duration>")]
    pub(crate) period: Option<Spanned<Duration>>,
    /// x/y: at most x of any y consecutive packets late or lost; default 0/0.
    pub(crate) window: Option<WindowText>,
    /// The deadline of the first packet; default: its arrival + period.
    pub(crate) first_deadline: Option<Duration>,
    /// What becomes of late packets; default "send".
    pub(crate) late: Option<LateName>,
    /// Fair queueing; positive; default 1.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) weight: Option<Spanned<u32>>,
    /// Deficit round robin, bytes; positive; default: weight × largest packet / smallest weight.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) quantum: Option<Spanned<u32>>,
    /// Static priority; 0 is served first.
    pub(crate) priority: Option<u32>,
    /// Waiting packets (not the one in service); arrivals beyond are dropped. Default unbounded.
    pub(crate) queue: Option<u32>,
    /// A cap on the stream's rate, on the wire.
    #[schemars(with = "Option<Rate>")]
    pub(crate) max_rate: Option<Spanned<Rate>>,
    /// How much may go at once under `max-rate`; default: one packet.
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Spanned<Size>>,
    /// Where the packets come from.
    #[schemars(with = "SourceTable")]
    pub(crate) source: Spanned<SourceTable>,
}

/// Where a stream's packets come from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(transform = SourceKind::narrow_schema)]
pub(crate) struct SourceTable {
    /// What kind of source.
    #[schemars(with = "String")]
    pub(crate) kind: Spanned<String>,
    /// Packet length.
    #[schemars(with = "Option<u32>")]
    pub(crate) bytes: Option<Spanned<u32>>,
    /// Mean rate.
    #[schemars(with = "Option<Rate>")]
    pub(crate) rate: Option<Spanned<Rate>>,
    /// Time between packets, in place of a rate.
    #[schemars(with = "Option<Duration>")]
    pub(crate) interval: Option<Spanned<Duration>>,
    /// When the source starts; default 0.
    #[schemars(with = "Option<Duration>")]
    pub(crate) start: Option<Spanned<Duration>>,
    /// When the source stops; default: the scenario's duration.
    #[schemars(with = "Option<Duration>")]
    pub(crate) stop: Option<Spanned<Duration>>,
    /// How many packets.
    #[schemars(with = "Option<u64>")]
    pub(crate) packets: Option<Spanned<u64>>,
    /// An input file, relative to the scenario file.
    #[schemars(with = "Option<String>")]
    pub(crate) file: Option<Spanned<String>>,
    /// A pcap-filter expression, as for tcpdump; default: every packet no earlier stream matched.
    #[schemars(with = "Option<String>")]
    pub(crate) r#match: Option<Spanned<String>>,
    /// A statistical model of video: "mpeg4".
    #[schemars(with = "Option<String>", extend("enum" = ["mpeg4", null]))]
    pub(crate) model: Option<Spanned<String>>,
    /// Which frames: any of the letters I, P and B; default all.
    #[schemars(with = "Option<String>", regex(pattern = "^[IPB]{1,3}$"))]
    pub(crate) frames: Option<Spanned<String>>,
    /// Frames per second of the model; default 25.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) frame_rate: Option<Spanned<u32>>,
    /// Split frames into packets of at most this many bytes; default: one packet a frame.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) packet_bytes: Option<Spanned<u32>>,
    /// Spread a frame's packets over its frame time; default: all at once.
    #[schemars(with = "Option<bool>")]
    pub(crate) spread: Option<Spanned<bool>>,
    /// Start the file over when it ends; default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) repeat: Option<Spanned<bool>>,
    /// What the packets of `millstream serve` carry: the video itself, "elementary" (default), or
    /// wrapped in a transport stream, "mpeg-ts", which every player of television understands.
    #[schemars(with = "Option<PayloadName>")]
    pub(crate) payload: Option<Spanned<PayloadName>>,
    /// Rate of one on/off source while it is on; default 4 × rate / sources.
    #[schemars(with = "Option<Rate>")]
    pub(crate) peak_rate: Option<Spanned<Rate>>,
    /// How many on/off sources are superposed; default 16.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) sources: Option<Spanned<u32>>,
    /// Sizes from `bytes` to this, by a Pareto law of shape 1.4 or, of a generator, all alike;
    /// default: all are of `bytes`.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) largest: Option<Spanned<u32>>,
    /// In a fabric: each end-point has as many of these as make up this share of its link, from 0
    /// to 1; default: one.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub(crate) load: Option<Spanned<f64>>,
    /// Live: bytes on the link that may come at once, and so the largest frame; default: half a
    /// second of `rate`, at least "32 KB".
    #[schemars(with = "Option<Size>")]
    pub(crate) burst: Option<Spanned<Size>>,
    /// Live: what the publisher's video is coded by; default "h264".
    #[schemars(with = "Option<CodecName>")]
    pub(crate) codec: Option<Spanned<CodecName>>,
    /// Live: who may publish, names of `users` and `tokens`; default: whoever asks from a loopback
    /// address.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) publish: Option<Spanned<Vec<String>>>,
    /// Live: how long clients wait for a publisher that is gone to return; default "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) wait: Option<Spanned<Duration>>,
    /// Packets before the pause; default: there is none.
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub(crate) pause_after: Option<Spanned<u32>>,
    /// How long the pause is.
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
