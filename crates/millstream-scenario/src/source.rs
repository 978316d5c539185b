//! The kinds of source: which keys each has, and what they come to once validated.
//!
//! [`SourceKind::ALL`] is the one place that says which key belongs to which kind; validation, the
//! JSON Schema and the error messages derive from it.

use schemars::Schema;
use serde_json::json;
use std::ops::Range;

use crate::error::{Problem, list, nearest};
use crate::file::SourceTable;

/// One kind of source.
#[derive(Debug)]
pub struct SourceKind {
    /// The value of `kind`.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Keys it cannot do without.
    pub required: &'static [&'static str],
    /// Pairs of keys of which exactly one is needed.
    pub one_of: &'static [(&'static str, &'static str)],
    /// Keys it may have.
    pub optional: &'static [&'static str],
}

impl SourceKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "cbr",
            summary: "constant bit rate: equal packets at equal intervals",
            required: &["bytes"],
            one_of: &[("rate", "interval")],
            optional: &["start", "stop", "load"],
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
            summary: "video that somebody publishes to `millstream serve` (RTSP ANNOUNCE and \
             RECORD)",
            required: &["rate"],
            one_of: &[],
            optional: &["burst", "codec", "publish", "wait", "stop"],
        },
        Self {
            name: "trace",
            summary: "rows of an arrivals CSV whose stream is this one's name",
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
            summary: "packets that all wait from the start",
            required: &["packets", "bytes"],
            one_of: &[],
            optional: &["start"],
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

    /// Finds the table's kind and checks that it has that kind's keys and no others.
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

    /// Adds to the schema of a source what each kind requires and allows.
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
    /// The keys that were given, besides `kind`, with the spans of their values.
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
            largest "largest", load "load", burst "burst", codec "codec", publish "publish",
            wait "wait", pause_after "pause-after", pause "pause"
        )
        .into_iter()
        .flatten()
        .collect()
    }
}

/// How fast equal packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At this rate, bits/s.
    RateBps(u64),
    /// One every so many ns.
    IntervalNs(u64),
}

/// What the packets of a video file carry where it is served to players.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VideoCarrier {
    /// The video as it is, by its codec's own payload format.
    #[default]
    Elementary,
    /// The video in an MPEG transport stream.
    MpegTs,
}

/// Where video frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoInput {
    /// A file as written in the scenario, over and over if `repeat`.
    File {
        /// Its path, relative to the scenario file.
        file: String,
        /// Start over at the end.
        repeat: bool,
        /// What packets carry where it is served.
        payload: VideoCarrier,
    },
    /// The MPEG-4 model.
    Model {
        /// Mean rate, bits/s.
        rate_bps: u64,
        /// Frames a second.
        frame_rate: u32,
    },
}

/// Video that somebody publishes to the media server while it is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The most that may come for long, on the link, bits/s.
    pub rate_bps: u64,
    /// The most that may come at once, on the link, bytes: a token bucket's depth.
    pub burst_bytes: u32,
    /// What it is coded by.
    pub codec: millstream_traffic::mpeg::Codec,
    /// Names of those who may publish; `None`: whoever asks from a loopback address.
    pub publishers: Option<Vec<String>>,
    /// How long clients wait for a publisher that is gone, ns.
    pub wait_ns: u64,
    /// When it stops where it is simulated, ns; `u64::MAX`: never.
    pub stop_ns: u64,
}

/// Where a stream's packets come from; times in ns, `stop_ns` is `u64::MAX` without an end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Source {
    /// Equal packets at equal intervals.
    Cbr { bytes: u32, pace: Pace, start_ns: u64, stop_ns: u64 },
    /// Equal packets at independent, exponentially distributed times.
    Poisson { bytes: u32, rate_bps: u64, start_ns: u64, stop_ns: u64 },
    /// Superposed Pareto on/off sources.
    Pareto {
        /// The size of all packets, or of the least if `largest` says more.
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
        /// Subset of the letters I, P, B.
        frames: String,
        packet_bytes: Option<u32>,
        spread: bool,
        start_ns: u64,
        stop_ns: u64,
    },
    /// Video of a publisher; where it is simulated, equal frames at its rate.
    Live(Live),
    /// Rows of an arrivals CSV.
    Trace { file: String },
    /// Packets of a capture.
    Pcap { file: String, filter: Option<String> },
    /// Packets that wait from the start.
    Backlog { packets: u64, bytes: u32, start_ns: u64 },
    /// Packets of random sizes at equal intervals.
    Generator {
        packets: u64,
        bytes: u32,
        /// At least `bytes`.
        largest: u32,
        interval_ns: u64,
        /// Packets before the pause; `u64::MAX` if there is none.
        pause_after: u64,
        pause_ns: u64,
        start_ns: u64,
    },
}

impl Source {
    /// Whether the source ends without the scenario's duration.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::Cbr { stop_ns, .. }
            | Self::Poisson { stop_ns, .. }
            | Self::Pareto { stop_ns, .. } => *stop_ns != u64::MAX,
            Self::Live(Live { stop_ns, .. }) => *stop_ns != u64::MAX,
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
