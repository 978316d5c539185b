//! Conversion of a scenario's sources into one feed of arrivals.
//!
//! Streams that name the same trace or capture share one pass over it. A separate thread reads each
//! of these files, so that parsing overlaps scheduling.

mod captured_flows;

use millstream_traffic::mpeg::{FrameKinds, FrameRate, Mpeg4Model, MpegFeed, Packets, VideoFile};
use millstream_traffic::{
    Backlog, CaptureCounts, CaptureFeed, CaptureWriter, Cbr, CsvTrace, Feed, Generator, Merge,
    OutputFile, PacketBytes, ParetoOnOff, Poisson, Random, ReadProgress, Threaded, TrackedFile,
    TrafficError,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::parse::parse;
use crate::scenario::Scenario;
use crate::source::{Pace, Source, VideoInput};

/// The interval between the frames of a live source whose stream has no period, ns.
const FRAME_NS: u64 = 40_000_000;

/// A capture among the inputs of a scenario.
pub struct CaptureInput {
    /// The path of the file.
    pub path: PathBuf,
    counts: Arc<CaptureCounts>,
}

/// The arrivals of a scenario.
pub struct Input {
    /// The arrivals of all streams in time order.
    pub feed: Box<dyn Feed>,
    /// The progress of reading its files.
    pub reading: Arc<ReadProgress>,
    captures: Vec<CaptureInput>,
    /// Whether a source computes its arrivals; those that read a file have their own thread.
    computes: bool,
}

impl Input {
    /// Computes the arrivals ahead of their use, in a thread of its own. On two processors a run
    /// then takes less time, and more processor time. No effect if no source computes arrivals.
    #[must_use]
    pub fn compute_ahead(mut self) -> Self {
        if self.computes {
            self.feed = Box::new(Threaded::new(self.feed));
        }
        self
    }

    /// Returns notes for the user about unmatched and reordered packets; call it after reading.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for CaptureInput { path, counts } in &self.captures {
            let path = path.display();
            let unmatched = counts.unmatched_packets.load(Ordering::Relaxed);
            if unmatched > 0 {
                let bytes = counts.unmatched_bytes.load(Ordering::Relaxed);
                notes.push(format!(
                    "{path}: {unmatched} packets ({bytes} bytes) match no stream and are ignored"
                ));
            }
            let reordered = counts.reordered_packets.load(Ordering::Relaxed);
            if reordered > 0 {
                notes.push(format!(
                    "{path}: {reordered} packets have a timestamp before an earlier packet's; they \
                     arrive at the latest time so far"
                ));
            }
        }
        notes
    }
}

impl Scenario {
    /// Returns the path of the input file that the scenario calls `file`.
    fn input_path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Returns the file, line and stream that name the input `path`.
    ///
    /// Settings of a run or a sweep change the text. The file then has other lines, so the line is
    /// left out.
    fn line_of_input(&self, path: &Path) -> Option<String> {
        let file = parse(&self.text).ok()?;
        file.stream.iter().find_map(|table| {
            let table = table.get_ref();
            let input = table.source.file.as_ref()?;
            if self.input_path(input.get_ref()) != path {
                return None;
            }
            let line = 1 + self.text.get(..input.span().start)?.matches('\n').count();
            let (name, scenario) = (table.name.get_ref(), &self.file);
            let has_line = std::fs::read_to_string(scenario).map_or(true, |text| text == self.text);
            let line = if has_line { format!(", line {line}") } else { String::new() };
            Some(format!("{scenario}{line}: the source of stream `{name}`"))
        })
    }

    /// Returns every file that the sources read.
    #[must_use]
    pub fn input_files(&self) -> BTreeSet<PathBuf> {
        let file = |source: &Source| match source {
            Source::Trace { file }
            | Source::Pcap { file, .. }
            | Source::Mpeg { input: VideoInput::File { file, .. }, .. } => {
                Some(self.input_path(file))
            }
            _ => None,
        };
        self.streams.iter().filter_map(|stream| file(&stream.source)).collect()
    }

    /// Returns a writer of captures with the link type of this scenario's first capture.
    ///
    /// # Errors
    /// Fails if no source is a capture, or if the capture cannot be opened.
    pub fn capture_writer(&self, file: OutputFile) -> Result<CaptureWriter, TrafficError> {
        let capture = self.streams.iter().find_map(|stream| match &stream.source {
            Source::Pcap { file, .. } => Some(self.input_path(file)),
            _ => None,
        });
        let Some(capture) = capture else {
            return Err(TrafficError {
                path: None,
                place: None,
                message: "the scenario has no capture to write packets from".into(),
                help: Some("--pcap needs a stream whose source is kind = \"pcap\"".into()),
            });
        };
        Ok(CaptureFeed::open(&capture, &[], false)?.writer(file))
    }
}

/// Opens every source of `scenario`. `keep_frames` keeps the bytes of captured packets.
///
/// # Errors
/// Returns the first input that cannot be read, with the line of the stream that names it.
pub fn open(scenario: &Scenario, keep_frames: bool) -> Result<Input, TrafficError> {
    open_sources(scenario, keep_frames).map_err(|mut error| {
        if error.help.is_none()
            && let Some(path) = &error.path
        {
            error.help = scenario.line_of_input(path);
        }
        error
    })
}

fn open_sources(scenario: &Scenario, keep_frames: bool) -> Result<Input, TrafficError> {
    let mut feeds: Vec<Box<dyn Feed>> = Vec::new();
    let mut captures = Vec::new();
    let mut computes = false;
    let reading = Arc::<ReadProgress>::default();
    let mut videos = BTreeMap::new();
    // Each file gives one feed, at the position of its first stream.
    let mut shared: BTreeSet<&str> = BTreeSet::new();
    for (stream, table) in (0u32..).zip(&scenario.streams) {
        match &table.source {
            Source::Trace { file } => {
                if shared.insert(file) {
                    feeds.push(Box::new(Threaded::new(Box::new(trace(scenario, file, &reading)?))));
                }
            }
            Source::Pcap { file, .. } => {
                if shared.insert(file) {
                    let path = scenario.input_path(file);
                    let mut capture =
                        CaptureFeed::open(&path, &claims(scenario, file), keep_frames)?
                            .with_progress(Arc::clone(&reading));
                    if scenario.network.is_some() {
                        capture = capture.with_flows(captured_flows::of(scenario));
                    }
                    captures.push(CaptureInput { path, counts: capture.counts() });
                    feeds.push(Box::new(Threaded::new(Box::new(capture))));
                }
            }
            source => {
                computes = true;
                feeds.push(generator(scenario, stream, source, &mut videos)?);
            }
        }
    }
    Ok(Input { feed: Merge::of(feeds)?, reading, captures, computes })
}

fn trace(
    scenario: &Scenario,
    file: &str,
    reading: &Arc<ReadProgress>,
) -> Result<CsvTrace<TrackedFile>, TrafficError> {
    let mut streams = Vec::new();
    let mut other_streams = Vec::new();
    for (stream, table) in (0u32..).zip(&scenario.streams) {
        match &table.source {
            Source::Trace { file: other } if other == file => {
                streams.push((table.name.clone(), stream));
            }
            _ => other_streams.push(table.name.clone()),
        }
    }
    CsvTrace::open(&scenario.input_path(file), streams, other_streams, Arc::clone(reading))
}

/// Returns each stream of the capture with its filter expression, in file order.
///
/// The first matching stream takes a packet; a stream without an expression matches all packets.
fn claims(scenario: &Scenario, file: &str) -> Vec<(u32, Option<String>)> {
    (0u32..)
        .zip(&scenario.streams)
        .filter_map(|(stream, table)| match &table.source {
            Source::Pcap { file: other, filter } if other == file => Some((stream, filter.clone())),
            _ => None,
        })
        .collect()
}

fn generator(
    scenario: &Scenario,
    stream: u32,
    source: &Source,
    videos: &mut BTreeMap<PathBuf, Arc<VideoFile>>,
) -> Result<Box<dyn Feed>, TrafficError> {
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let seed = scenario.seed;
    Ok(match source {
        Source::Cbr { bytes, pace, start_ns, stop_ns } => {
            let stop_ns = until_ns.min(*stop_ns);
            Box::new(match pace {
                Pace::RateBps(rate_bps) => {
                    Cbr::with_rate(stream, *bytes, *rate_bps, *start_ns, stop_ns)
                }
                Pace::IntervalNs(interval_ns) => {
                    Cbr::with_interval(stream, *bytes, *interval_ns, *start_ns, stop_ns)
                }
            })
        }
        Source::Poisson { bytes, rate_bps, start_ns, stop_ns } => {
            let stop_ns = until_ns.min(*stop_ns);
            Box::new(Poisson::new(stream, *bytes, *rate_bps, *start_ns, stop_ns, seed))
        }
        Source::Pareto { bytes, largest, rate_bps, peak_rate_bps, sources, start_ns, stop_ns } => {
            Box::new(ParetoOnOff::new(
                stream,
                PacketBytes::up_to(*bytes, *largest),
                *rate_bps,
                *peak_rate_bps,
                *sources,
                *start_ns,
                until_ns.min(*stop_ns),
                seed,
            ))
        }
        Source::Mpeg { input, frames, packet_bytes, spread, start_ns, stop_ns } => {
            let kinds = FrameKinds::new(frames);
            let packets = Packets { largest_bytes: *packet_bytes, spread: *spread };
            let times = (*start_ns, until_ns.min(*stop_ns));
            Box::new(match input {
                VideoInput::File { file, repeat, .. } => {
                    let path = scenario.input_path(file);
                    let video = match videos.get(&path) {
                        Some(video) => Arc::clone(video),
                        None => {
                            let video = Arc::new(VideoFile::open(&path)?);
                            videos.insert(path, Arc::clone(&video));
                            video
                        }
                    };
                    MpegFeed::from_file(stream, video, *repeat, kinds, packets, times)
                }
                VideoInput::Model { rate_bps, frame_rate } => {
                    #[allow(clippy::cast_precision_loss)]
                    let mean_bytes = *rate_bps as f64 / 8.0 / f64::from(*frame_rate);
                    let model = Mpeg4Model::new(mean_bytes, seed, u64::from(stream));
                    let rate = FrameRate { frames: *frame_rate, seconds: 1 };
                    MpegFeed::from_model(stream, model, rate, kinds, packets, times)
                }
            })
        }
        Source::Live(live) => {
            let period_ns = scenario.streams[stream as usize].period_ns.unwrap_or(FRAME_NS).max(1);
            let bits = u128::from(live.rate_bps) * u128::from(period_ns) / 1_000_000_000;
            let bytes = u32::try_from(bits / 8).unwrap_or(u32::MAX).clamp(1, live.burst_bytes);
            Box::new(Cbr::with_interval(stream, bytes, period_ns, 0, until_ns.min(live.stop_ns)))
        }
        Source::Backlog { packets, bytes, start_ns } => {
            Box::new(Backlog::new(stream, *packets, *bytes, *start_ns))
        }
        Source::Generator {
            packets,
            bytes,
            largest,
            interval_ns,
            pause_after,
            pause_ns,
            start_ns,
        } => Box::new(Generator {
            stream,
            packets: *packets,
            bytes: *bytes,
            largest: *largest,
            time_ns: *start_ns,
            interval_ns: *interval_ns,
            pause_after: *pause_after,
            pause_ns: *pause_ns,
            random: Random::new(seed, u64::from(stream)),
        }),
        // The network's simulation generates their packets.
        Source::Tcp(_) | Source::Web(_) | Source::Echo(_) | Source::Adaptive(_) => {
            Box::new(Backlog::new(stream, 0, 0, 0))
        }
        Source::Trace { .. } | Source::Pcap { .. } => {
            unreachable!("files are opened by their first stream")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_computed_ahead_are_the_same() {
        let text = r#"
            scenario.duration = "20 ms"
            link.rate = "1 Gbit/s"
            scheduler.discipline = "fifo"
            [[stream]]
            name = "a"
            source = { kind = "cbr", bytes = 100, rate = "300 Mbit/s" }
            [[stream]]
            name = "b"
            source = { kind = "poisson", bytes = 100, rate = "300 Mbit/s" }
        "#;
        let scenario = Scenario::parse("s.toml", text, Path::new("")).unwrap();
        let arrivals = |mut input: Input| {
            std::iter::from_fn(|| input.feed.next_arrival().unwrap()).collect::<Vec<_>>()
        };
        let direct = arrivals(open(&scenario, false).unwrap());
        assert!((14_000..16_000).contains(&direct.len()), "{}", direct.len());
        assert_eq!(arrivals(open(&scenario, false).unwrap().compute_ahead()), direct);
    }
}
