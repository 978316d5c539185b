//! Validation of the `source` of a stream.

mod live;
mod reacting;
mod sizes;

pub(super) use live::udp::check_udp;
pub(super) use live::{check_paths, with_paths};

use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

use crate::error::Problem;
use crate::file::SourceTable;
use crate::file::media::PayloadName;
use crate::network::Echo;
use crate::source::{Pace, Source, SourceKind, VideoInput, VideoPayloadFormat};
use crate::units::{Duration, Rate};

/// The assumed packet length of a source without one in the file, bytes: an Ethernet frame.
const ASSUMED_LARGEST_BYTES: u32 = 1514;

/// A source that is validated as soon as it is parsed: its table has fifty keys, and a file may
/// have millions of sources.
#[derive(Debug, Deserialize)]
#[serde(from = "Spanned<SourceTable>")]
pub(crate) struct CheckedSource {
    /// The span of the table.
    pub(crate) span: Range<usize>,
    /// The source; `None` if it has problems.
    pub(super) source: Option<Source>,
    problems: Vec<Problem>,
    /// The largest packet, bytes; assumed if the file has no packet length.
    pub(super) largest_bytes: u32,
    /// The value of `load`.
    pub(super) load: Option<Box<Spanned<f64>>>,
    /// The values of `from` and `to`, if one of them is given.
    pub(super) virtual_link: Option<Box<[Option<Spanned<String>>; 2]>>,
    /// Whether the file has `start` or `stop`.
    pub(super) has_times: bool,
    /// Whether the file has `stop`.
    pub(super) stops: bool,
    /// The kind, if it is known.
    pub(super) kind: Option<&'static SourceKind>,
    /// The value of `file`.
    pub(crate) file: Option<Box<Spanned<String>>>,
}

impl From<Spanned<SourceTable>> for CheckedSource {
    fn from(table: Spanned<SourceTable>) -> Self {
        let mut problems = Vec::new();
        let (span, keys) = (table.span(), table.into_inner());
        let source = source(&keys, &span, &mut problems);
        let kind = SourceKind::ALL.iter().find(|kind| kind.name == keys.kind.get_ref());
        let largest = [&keys.largest, &keys.bytes, &keys.packet_bytes].into_iter().flatten().next();
        Self {
            span,
            source,
            problems,
            largest_bytes: largest.map_or(ASSUMED_LARGEST_BYTES, |bytes| *bytes.get_ref()),
            load: keys.load.map(Box::new),
            virtual_link: (keys.from.is_some() || keys.to.is_some())
                .then(|| Box::new([keys.from, keys.to])),
            has_times: keys.start.is_some() || keys.stop.is_some(),
            stops: keys.stop.is_some(),
            kind,
            file: keys.file.map(Box::new),
        }
    }
}

impl CheckedSource {
    /// Returns the source if it is valid in a scenario of this duration.
    pub(super) fn of_duration(
        &self,
        duration_ns: Option<u64>,
        problems: &mut Vec<Problem>,
    ) -> Option<Source> {
        problems.extend_from_slice(&self.problems);
        let source = self.source.as_ref()?;
        if duration_ns.is_none() && !source.ends() {
            problems.push(Problem::new(self.span.clone(), "this source never ends").help(
                "give the scenario a `duration`, for example duration = \"10 s\", or the source \
                 a `stop`",
            ));
            return None;
        }
        Some(source.clone())
    }
}

/// Validates a source, apart from its end.
fn source(keys: &SourceTable, span: &Range<usize>, problems: &mut Vec<Problem>) -> Option<Source> {
    let kind = SourceKind::check(keys, span, problems)?;
    let before = problems.len();
    let time = |value: &Option<Spanned<Duration>>| value.as_ref().map(|time| time.get_ref().0);
    let rate = |value: &Option<Spanned<Rate>>| value.as_ref().map(|rate| rate.get_ref().0);
    let start_ns = time(&keys.start).unwrap_or(0);
    let stop_ns = time(&keys.stop).unwrap_or(u64::MAX);
    let bytes = keys.bytes.as_ref().map_or(0, |bytes| *bytes.get_ref());
    let file = keys.file.as_ref().map(|file| file.get_ref().clone());
    positive(&keys.sources, "sources", problems);
    positive(&keys.largest, "largest", problems);
    positive(&keys.packet_bytes, "packet-bytes", problems);
    positive(&keys.frame_rate, "frame-rate", problems);
    if let Some(interval) = keys.interval.as_ref().filter(|interval| interval.get_ref().0 == 0) {
        problems.push(
            Problem::new(interval.span(), "an interval of 0: packets without end at one instant")
                .help("for packets that all arrive at once, use kind = \"backlog\""),
        );
    }
    if let (Some(stop), true) = (&keys.stop, stop_ns <= start_ns) {
        problems.push(Problem::new(stop.span(), "the source stops before it starts"));
    }
    let source = match kind.name {
        "cbr" => {
            if let Some(bytes) = keys.bytes.as_ref().filter(|b| *b.get_ref() == 0)
                && keys.rate.is_some()
            {
                let message = "packets of 0 bytes have no rate";
                problems.push(Problem::new(bytes.span(), message).help("give an `interval`"));
            }
            let pace = match rate(&keys.rate) {
                Some(rate_bps) => Pace::RateBps(rate_bps),
                None => Pace::IntervalNs(time(&keys.interval)?),
            };
            Source::Cbr { bytes, pace, start_ns, stop_ns }
        }
        "poisson" => {
            some_bytes(keys, problems);
            Source::Poisson { bytes, rate_bps: rate(&keys.rate)?, start_ns, stop_ns }
        }
        "pareto" => {
            some_bytes(keys, problems);
            let largest = largest(keys, bytes, problems);
            let rate_bps = rate(&keys.rate)?;
            let sources = keys.sources.as_ref().map_or(16, |sources| *sources.get_ref());
            let mean_bps = rate_bps.div_ceil(u64::from(sources.max(1)));
            let peak_rate_bps = rate(&keys.peak_rate).unwrap_or_else(|| mean_bps.saturating_mul(4));
            if let (Some(peak), true) = (&keys.peak_rate, peak_rate_bps <= mean_bps) {
                problems.push(Problem::new(
                    peak.span(),
                    format!("the peak rate must exceed each source's mean of {mean_bps} bit/s"),
                ));
            }
            Source::Pareto { bytes, largest, rate_bps, peak_rate_bps, sources, start_ns, stop_ns }
        }
        "mpeg" => Source::Mpeg {
            input: video_input(keys, span, problems)?,
            frames: frames(keys, problems),
            packet_bytes: keys.packet_bytes.as_ref().map(|bytes| *bytes.get_ref()),
            spread: keys.spread.as_ref().is_some_and(|spread| *spread.get_ref()),
            start_ns,
            stop_ns,
        },
        "live" => Source::Live(Box::new(live::live(keys, stop_ns, problems)?)),
        "trace" => Source::Trace { file: file? },
        "pcap" => {
            let filter = keys.r#match.as_ref().map(|expression| {
                if let Err(error) = millstream_traffic::validate_filter(expression.get_ref()) {
                    let message = format!("not a pcap-filter expression: {error}");
                    problems.push(
                        Problem::new(expression.span(), message)
                            .help("write it as for tcpdump, for example \"udp port 5004\""),
                    );
                }
                expression.get_ref().clone()
            });
            Source::Pcap { file: file?, filter }
        }
        "backlog" => {
            Source::Backlog { packets: *keys.packets.as_ref()?.get_ref(), bytes, start_ns }
        }
        "tcp" => Source::Tcp(Box::new(reacting::tcp(keys, (start_ns, stop_ns), problems)?)),
        "web" => Source::Web(Box::new(reacting::web(keys, (start_ns, stop_ns), problems)?)),
        "echo" => Source::Echo(Echo {
            bytes,
            interval_ns: time(&keys.interval)?,
            rtt_ns: time(&keys.rtt)?,
            start_ns,
            stop_ns,
        }),
        "adaptive" => Source::Adaptive(reacting::adaptive(keys, (start_ns, stop_ns), problems)?),
        "generator" => generator(keys, start_ns, problems)?,
        _ => return None,
    };
    (problems.len() == before).then_some(source)
}

/// Returns the `largest` size, and checks that it is at least `bytes`.
fn largest(keys: &SourceTable, bytes: u32, problems: &mut Vec<Problem>) -> Option<u32> {
    let largest = keys.largest.as_ref()?;
    if *largest.get_ref() < bytes {
        let message = format!("`largest` is below `bytes`, {bytes}");
        problems.push(Problem::new(largest.span(), message));
    }
    Some(*largest.get_ref())
}

fn generator(keys: &SourceTable, start_ns: u64, problems: &mut Vec<Problem>) -> Option<Source> {
    let bytes = *keys.bytes.as_ref()?.get_ref();
    let largest = largest(keys, bytes, problems).unwrap_or(bytes);
    positive(&keys.pause_after, "pause-after", problems);
    match (&keys.pause_after, &keys.pause) {
        (Some(after), None) => problems.push(
            Problem::new(after.span(), "`pause-after` without `pause`")
                .help("give its length, for example pause = \"1 ms\""),
        ),
        (None, Some(pause)) => problems.push(
            Problem::new(pause.span(), "`pause` without `pause-after`")
                .help("give the packets before it, for example pause-after = 4000"),
        ),
        _ => {}
    }
    Some(Source::Generator {
        packets: *keys.packets.as_ref()?.get_ref(),
        bytes,
        largest,
        interval_ns: keys.interval.as_ref()?.get_ref().0,
        pause_after: keys.pause_after.as_ref().map_or(u64::MAX, |after| (*after.get_ref()).into()),
        pause_ns: keys.pause.as_ref().map_or(0, |pause| pause.get_ref().0),
        start_ns,
    })
}

fn video_input(
    keys: &SourceTable,
    span: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<VideoInput> {
    if let Some(file) = &keys.file {
        for (key, span) in [
            ("rate", keys.rate.as_ref().map(Spanned::span)),
            ("frame-rate", keys.frame_rate.as_ref().map(Spanned::span)),
        ] {
            if let Some(span) = span {
                let message = format!("`{key}` is for models; a video file has its own");
                problems.push(Problem::new(span, message));
            }
        }
        let repeat = keys.repeat.as_ref().is_some_and(|repeat| *repeat.get_ref());
        let payload = match keys.payload.as_ref().map(Spanned::get_ref) {
            Some(PayloadName::MpegTs) => VideoPayloadFormat::MpegTs,
            Some(PayloadName::Elementary) | None => VideoPayloadFormat::Elementary,
        };
        return Some(VideoInput::File { file: file.get_ref().clone(), repeat, payload });
    }
    let model = keys.model.as_ref()?;
    if model.get_ref() != "mpeg4" {
        let message = format!("unknown video model `{}`", model.get_ref());
        problems.push(Problem::new(model.span(), message).help("models: `mpeg4`"));
    }
    if let Some(repeat) = &keys.repeat {
        problems.push(Problem::new(repeat.span(), "a model never ends; `repeat` is for files"));
    }
    if let Some(payload) = &keys.payload {
        problems
            .push(Problem::new(payload.span(), "a model is not served; `payload` is for files"));
    }
    let Some(rate) = &keys.rate else {
        problems.push(Problem::new(span.clone(), "a video model needs its mean `rate`"));
        return None;
    };
    let frame_rate = keys.frame_rate.as_ref().map_or(25, |frame_rate| *frame_rate.get_ref());
    Some(VideoInput::Model { rate_bps: rate.get_ref().0, frame_rate })
}

fn frames(keys: &SourceTable, problems: &mut Vec<Problem>) -> String {
    let Some(frames) = &keys.frames else { return "IPB".into() };
    let text = frames.get_ref();
    if text.is_empty() || !text.chars().all(|letter| "IPB".contains(letter)) {
        let message = format!("`{text}` does not name frame types");
        problems.push(Problem::new(frames.span(), message).help("any of the letters I, P and B"));
    }
    text.clone()
}

/// Checks that packets are not empty: a source of empty packets has no rate.
fn some_bytes(keys: &SourceTable, problems: &mut Vec<Problem>) {
    if let Some(bytes) = keys.bytes.as_ref().filter(|bytes| *bytes.get_ref() == 0) {
        problems.push(Problem::new(bytes.span(), "packets of 0 bytes have no rate"));
    }
}

fn positive(value: &Option<Spanned<u32>>, key: &str, problems: &mut Vec<Problem>) {
    if let Some(value) = value.as_ref().filter(|value| *value.get_ref() == 0) {
        let message = format!("`{key}` is 0; it must be an integer from 1 to {}", u32::MAX);
        problems.push(Problem::new(value.span(), message));
    }
}
