//! The kinds of source, their keys, and the validated sources.
//!
//! Only [`SourceKind::ALL`] assigns keys to kinds; validation, the JSON Schema and the error
//! messages derive from it.

use schemars::Schema;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;

use crate::error::{Problem, list, nearest};
use crate::file::SourceTable;
use crate::network::{Adaptive, Echo, Tcp, Web};

/// One kind of source.
#[derive(Debug)]
pub struct SourceKind {
    /// The value of `kind`.
    pub name: &'static str,
    /// A description in one line, shown in the schema and in error messages.
    pub summary: &'static str,
    /// The required keys.
    pub required: &'static [&'static str],
    /// Pairs of keys; the file must give exactly one of each pair.
    pub one_of: &'static [(&'static str, &'static str)],
    /// The optional keys.
    pub optional: &'static [&'static str],
}

impl SourceKind {
    /// All kinds of source.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "cbr",
            summary: "constant bit rate: equal packets at equal intervals",
            required: &["bytes"],
            one_of: &[("rate", "interval")],
            optional: &["start", "stop", "load", "from", "to"],
        },
        Self {
            name: "poisson",
            summary: "equal packets at random, independent times",
            required: &["bytes", "rate"],
            one_of: &[],
            optional: &["start", "stop"],
        },
        Self {
            name: "pareto",
            summary: "self-similar: superposed Pareto on/off sources",
            required: &["bytes", "rate"],
            one_of: &[],
            optional: &["peak-rate", "sources", "largest", "start", "stop"],
        },
        Self {
            name: "mpeg",
            summary: "video frames of a file (MPEG-1/2, H.264; ES, PS, TS, MP4) or of a model",
            required: &[],
            one_of: &[("file", "model")],
            optional: &[
                "rate",
                "frame-rate",
                "frames",
                "packet-bytes",
                "spread",
                "repeat",
                "payload",
                "start",
                "stop",
                "load",
            ],
        },
        Self {
            name: "live",
            summary: "video published to `millstream serve` by RTSP, WebRTC, RTMP or MPEG-TS",
            required: &["rate"],
            one_of: &[],
            optional: &[
                "burst",
                "codec",
                "audio",
                "audio-rate",
                "publish",
                "paths",
                "record",
                "wait",
                "udp",
                "udp-from",
                "udp-interface",
                "srt",
                "on-demand",
                "on-demand-start",
                "on-demand-close",
                "stop",
            ],
        },
        Self {
            name: "trace",
            summary: "rows of an arrivals CSV that have the stream's name",
            required: &["file"],
            one_of: &[],
            optional: &[],
        },
        Self {
            name: "pcap",
            summary: "packets of a pcap or pcapng capture that match a pcap-filter expression",
            required: &["file"],
            one_of: &[],
            optional: &["match"],
        },
        Self {
            name: "backlog",
            summary: "packets that all arrive at the start",
            required: &["packets", "bytes"],
            one_of: &[],
            optional: &["start"],
        },
        Self {
            name: "tcp",
            summary: "TCP connections, which react to losses, marks and delays",
            required: &["rtt"],
            one_of: &[],
            optional: &[
                "connections",
                "control",
                "recovery",
                "bytes",
                "initial-window",
                "receive-window",
                "pacing",
                "ecn",
                "hystart",
                "ack-every",
                "min-rto",
                "transfer",
                "pause",
                "interval",
                "rate",
                "start",
                "stop",
            ],
        },
        Self {
            name: "web",
            summary: "clients that load pages of many objects, over parallel TCP connections",
            required: &["rtt"],
            one_of: &[],
            optional: &[
                "clients",
                "html",
                "objects",
                "object",
                "request",
                "pause",
                "connections",
                "control",
                "recovery",
                "bytes",
                "initial-window",
                "receive-window",
                "pacing",
                "ecn",
                "hystart",
                "ack-every",
                "min-rto",
                "start",
                "stop",
            ],
        },
        Self {
            name: "echo",
            summary: "requests that the receiver answers, as ping sends them",
            required: &["bytes", "interval", "rtt"],
            one_of: &[],
            optional: &["start", "stop"],
        },
        Self {
            name: "adaptive",
            summary: "video that adapts its rate to what its receiver reports",
            required: &["rates", "rtt"],
            one_of: &[],
            optional: &["interval", "bytes", "start", "stop"],
        },
        Self {
            name: "generator",
            summary: "packets of random sizes at equal intervals, with a pause",
            required: &["packets", "bytes", "interval"],
            one_of: &[],
            optional: &["largest", "pause-after", "pause", "start"],
        },
    ];

    fn keys(&self) -> impl Iterator<Item = &'static str> {
        let pairs = self.one_of.iter().flat_map(|pair| [pair.0, pair.1]);
        self.required.iter().copied().chain(pairs).chain(self.optional.iter().copied())
    }

    /// Returns the table's kind after checking its keys; `None` if a key is missing or unknown.
    pub(crate) fn check(
        table: &SourceTable,
        span: &Range<usize>,
        problems: &mut Vec<Problem>,
    ) -> Option<&'static Self> {
        let name = table.kind.get_ref();
        let Some(kind) = Self::ALL.iter().find(|kind| kind.name == name) else {
            let names = || Self::ALL.iter().map(|kind| kind.name);
            let meant = nearest(name, names())
                .map_or(String::new(), |near| format!("did you mean `{near}`? "));
            problems.push(
                Problem::new(table.kind.span(), format!("unknown kind of source `{name}`"))
                    .help(format!("{meant}kinds: {}", list(names()))),
            );
            return None;
        };
        let before = problems.len();
        let present = table.present();
        for (key, key_span) in &present {
            if !kind.keys().any(|known| known == *key) {
                problems.push(
                    Problem::new(key_span.clone(), format!("a {name} source has no `{key}`"))
                        .help(format!("keys of {name}: {}", list(kind.keys()))),
                );
            }
        }
        let has = |key: &str| present.iter().any(|(present, _)| *present == key);
        for key in kind.required.iter().filter(|key| !has(key)) {
            problems.push(
                Problem::new(span.clone(), format!("this {name} source lacks `{key}`"))
                    .help(format!("{name}: {}; it needs {}", kind.summary, list(kind.needs()))),
            );
        }
        for (one, other) in kind.one_of.iter().filter(|(one, other)| has(one) == has(other)) {
            let message = format!("a {name} source needs either `{one}` or `{other}`");
            problems.push(Problem::new(span.clone(), message).label(if has(one) {
                "has both"
            } else {
                "has neither"
            }));
        }
        (problems.len() == before).then_some(kind)
    }

    fn needs(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().copied()
    }

    /// Adds the required and allowed keys of each kind to the schema of a source.
    pub(crate) fn narrow_schema(schema: &mut Schema) {
        let kinds: Vec<_> = Self::ALL.iter().map(|kind| kind.name).collect();
        let rules: Vec<_> = Self::ALL
            .iter()
            .map(|kind| {
                let allowed: Vec<_> = std::iter::once("kind").chain(kind.keys()).collect();
                let mut then = json!({
                    "description": kind.summary,
                    "required": kind.required,
                    "propertyNames": { "enum": allowed },
                });
                let pairs: Vec<_> = kind
                    .one_of
                    .iter()
                    .map(|(one, other)| {
                        json!({ "oneOf": [{ "required": [one] }, { "required": [other] }] })
                    })
                    .collect();
                if !pairs.is_empty() {
                    then["allOf"] = json!(pairs);
                }
                json!({ "if": { "properties": { "kind": { "const": kind.name } } }, "then": then })
            })
            .collect();
        if let Some(kind) = schema.pointer_mut("/properties/kind").and_then(|k| k.as_object_mut()) {
            kind.insert("enum".into(), json!(kinds));
        }
        schema.insert("allOf".into(), json!(rules));
    }
}

impl SourceTable {
    /// Returns the given keys except `kind`, with the spans of their values.
    fn present(&self) -> Vec<(&'static str, Range<usize>)> {
        macro_rules! given {
            ($($field:ident $key:literal),*) => {
                [$(self.$field.as_ref().map(|value| ($key, value.span()))),*]
            };
        }
        given!(
            bytes "bytes", rate "rate", interval "interval", start "start", stop "stop",
            packets "packets", file "file", r#match "match", model "model", frames "frames",
            frame_rate "frame-rate", packet_bytes "packet-bytes", spread "spread",
            repeat "repeat", payload "payload", peak_rate "peak-rate", sources "sources",
            largest "largest", load "load", from "from", to "to", burst "burst",
            codec "codec", audio "audio",
            audio_rate "audio-rate", publish "publish", record "record",
            wait "wait", pause_after "pause-after", pause "pause", connections "connections",
            control "control", recovery "recovery", rtt "rtt", initial_window "initial-window",
            receive_window "receive-window", pacing "pacing", ecn "ecn", hystart "hystart",
            ack_every "ack-every", min_rto "min-rto", transfer "transfer", rates "rates",
            clients "clients", html "html", objects "objects", object "object", request "request"
        )
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The pace of packets of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The rate, bits/s.
    RateBps(u64),
    /// The interval between packets, ns.
    IntervalNs(u64),
}

/// The payload of the packets in which a video file is served to players.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VideoPayloadFormat {
    /// The elementary stream, in the payload format of its codec.
    #[default]
    Elementary,
    /// An MPEG transport stream that contains the video.
    MpegTs,
}

/// The source of video frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoInput {
    /// A video file.
    File {
        /// The path as written in the scenario, relative to the scenario file.
        file: String,
        /// Whether the source restarts at the end of the file.
        repeat: bool,
        /// The payload of its packets when it is served.
        payload: VideoPayloadFormat,
    },
    /// The MPEG-4 model.
    Model {
        /// Mean rate, bits/s.
        rate_bps: u64,
        /// Frames per second.
        frame_rate: u32,
    },
}

/// Video that a client publishes to the media server while other clients play it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The fill rate of the publisher's token bucket, on the link, bits/s.
    pub rate_bps: u64,
    /// The depth of the publisher's token bucket, on the link, bytes.
    pub burst_bytes: u32,
    /// The codec of the video.
    pub codec: millstream_traffic::mpeg::Codec,
    /// The audio that may be published with the video.
    pub audio: Option<LiveAudio>,
    /// The names of `users` and `tokens` that may publish; `None` allows any client on a loopback
    /// address.
    pub publishers: Option<Vec<String>>,
    /// Whether it is recorded, by [`Media::recording`](crate::Media::recording).
    pub record: bool,
    /// How long players wait for a disconnected publisher to return, ns.
    pub wait_ns: u64,
    /// Where it receives a transport stream.
    pub udp: Option<UdpInput>,
    /// The SRT connection that brings a transport stream.
    pub srt: Option<SrtInput>,
    /// The program that publishes it while clients play.
    pub on_demand: Option<OnDemand>,
    /// Its place among the paths of the file's stream, if that has `paths`.
    pub path: Option<LivePath>,
    /// The time when it stops in a simulation, ns; `u64::MAX` for never.
    pub stop_ns: u64,
}

/// The place of a [`Live`] stream among the paths of a stream of the file. Each path is a stream of
/// its own in the scenario; `millstream serve` names it when it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePath {
    /// The name of the file's stream: `cam` for paths `cam/NAME`.
    pub stream: String,
    /// The number of the path, from 0.
    pub number: u32,
    /// The number of paths that are published at once.
    pub count: u32,
}

/// Where a [`Live`] stream receives a transport stream over UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpInput {
    /// The address and port; a multicast address is a group to join.
    pub address: SocketAddr,
    /// The only address of a sender; `None` for any.
    pub from: Option<IpAddr>,
    /// The address of the interface that joins an IPv4 group; `None` for the system's choice.
    pub interface: Option<Ipv4Addr>,
}

/// The SRT connection that brings a [`Live`] stream's transport stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrtInput {
    /// The address and port that waits for the sender, or that is called.
    pub address: SocketAddr,
    /// Whether the server calls the sender.
    pub is_caller: bool,
    /// The time in which lost packets are sent again, ms.
    pub latency_ms: u64,
    /// The file of the passphrase, relative to the scenario's folder.
    pub passphrase: Option<PathBuf>,
    /// The stream id that a caller sends.
    pub streamid: Option<String>,
}

/// The program that publishes a [`Live`] stream while clients play it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemand {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// How long a request of a player waits for the publisher, ns.
    pub start_ns: u64,
    /// How long the program runs without players, ns.
    pub close_ns: u64,
}

/// Audio of a [`Live`] stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAudio {
    /// The codec.
    pub codec: LiveAudioCodec,
    /// The fill rate of the publisher's token bucket, on the link, bits/s.
    pub rate_bps: u64,
}

/// The codec of published audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveAudioCodec {
    /// AAC.
    Aac,
    /// Opus.
    Opus,
    /// MPEG-1 or MPEG-2 audio.
    Mpeg,
    /// G.711 µ-law.
    Pcmu,
    /// G.711 A-law.
    Pcma,
}

/// The source of a stream's packets; times in ns, `stop_ns` is `u64::MAX` without an end.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Source {
    /// Packets of equal size at equal intervals.
    Cbr { bytes: u32, pace: Pace, start_ns: u64, stop_ns: u64 },
    /// Packets of equal size at independent, exponentially distributed intervals.
    Poisson { bytes: u32, rate_bps: u64, start_ns: u64, stop_ns: u64 },
    /// Superposed Pareto on/off sources.
    Pareto {
        /// The size of all packets; the size of the smallest if `largest` is given.
        bytes: u32,
        largest: Option<u32>,
        rate_bps: u64,
        peak_rate_bps: u64,
        sources: u32,
        start_ns: u64,
        stop_ns: u64,
    },
    /// Video frames.
    Mpeg {
        input: VideoInput,
        /// The selected frame types, a subset of the letters I, P and B.
        frames: String,
        packet_bytes: Option<u32>,
        spread: bool,
        start_ns: u64,
        stop_ns: u64,
    },
    /// Video of a publisher; in a simulation, frames of equal size at its rate.
    Live(Box<Live>),
    /// Rows of an arrivals CSV file.
    Trace { file: String },
    /// Packets of a pcap or pcapng capture.
    Pcap { file: String, filter: Option<String> },
    /// TCP connections.
    Tcp(Box<Tcp>),
    /// Pages.
    Web(Box<Web>),
    /// Requests and answers.
    Echo(Echo),
    /// Adaptive video.
    Adaptive(Adaptive),
    /// Packets that all arrive at `start_ns`.
    Backlog { packets: u64, bytes: u32, start_ns: u64 },
    /// Packets of random sizes at equal intervals.
    Generator {
        packets: u64,
        bytes: u32,
        /// The size of the largest packet, at least `bytes`.
        largest: u32,
        interval_ns: u64,
        /// The number of packets before the pause; `u64::MAX` without a pause.
        pause_after: u64,
        pause_ns: u64,
        start_ns: u64,
    },
}

impl Source {
    /// Returns whether its packets depend on what happens to earlier ones.
    #[must_use]
    pub fn reacts(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Web(_) | Self::Echo(_) | Self::Adaptive(_))
    }

    /// Returns whether the source ends by itself, without the scenario's duration.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::Cbr { stop_ns, .. }
            | Self::Poisson { stop_ns, .. }
            | Self::Pareto { stop_ns, .. }
            | Self::Echo(Echo { stop_ns, .. })
            | Self::Adaptive(Adaptive { stop_ns, .. }) => *stop_ns != u64::MAX,
            Self::Tcp(tcp) => {
                let repeats = tcp.pause_ns.is_some() || tcp.interval_ns.is_some();
                tcp.stop_ns != u64::MAX || (tcp.transfer.is_some() && !repeats)
            }
            Self::Live(live) => live.stop_ns != u64::MAX,
            Self::Web(web) => web.tcp.stop_ns != u64::MAX,
            Self::Mpeg { input, stop_ns, .. } => {
                *stop_ns != u64::MAX || matches!(input, VideoInput::File { repeat: false, .. })
            }
            Self::Trace { .. }
            | Self::Pcap { .. }
            | Self::Backlog { .. }
            | Self::Generator { .. } => true,
        }
    }
}
