//! ShareStreams, Figures 12 and 13 in the paper's order. The producers generate all frames, then
//! all arrival times are transferred to the card, and then the frames are played out.
//!
//! The reference model of the card makes the decisions, one tick a decision. The paper does not
//! give the producers' rate, and the order of service does not depend on it. So a run is played out
//! once, and its delays follow for each rate.

use std::path::Path;

use miette::{IntoDiagnostic, miette};
use millstream::StreamId;
use millstream_hw::end_system::scenario::settings;
use millstream_hw::{Load, Reference};
use millstream_scenario::{Scenario, Source};
use millstream_traffic::{Arrival, Feed, TrafficError};

use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};
use crate::sharestreams::bandwidth_tests;

/// Streams of the experiment.
pub(crate) const STREAMS: usize = 4;

/// Number of frames of a stream.
pub(crate) const FRAMES: usize = 64_000;

/// Number of frames before the producers' pause.
pub(crate) const BURST: usize = 4_000;

/// Rate of the transfer of arrival times, bytes/s: "over 60 MBytes/second".
const TRANSFER: u64 = 60_000_000;

/// Seeds of the frames' lengths.
const SEEDS: u64 = 10;

/// Longest time between two frames of a producer that is examined, µs.
const LONGEST_INTERVAL: f64 = 20.0;

/// Confidence of all intervals over seeds.
const CONFIDENCE: f64 = 0.95;

/// A frame: when it was generated, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) generated_ns: u64,
    pub(crate) bytes: u32,
}

/// The arrival times that the card receives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// The times of generation.
    Generated,
    /// One time for all frames.
    Equal,
}

/// The frames of each stream.
pub(crate) type Frames = Vec<Vec<Frame>>;

/// Returns the frames that the producers of `scenario` generate.
pub(crate) fn generate(scenario: &Scenario) -> miette::Result<Frames> {
    let mut frames = vec![Vec::new(); scenario.streams.len()];
    let mut input = millstream_scenario::open(scenario, false).into_diagnostic()?;
    while let Some(arrival) = input.feed.next_arrival().into_diagnostic()? {
        let frame = Frame { generated_ns: arrival.time_ns, bytes: arrival.bytes };
        frames[arrival.stream as usize].push(frame);
    }
    Ok(frames)
}

/// Returns the time at which all arrival times, 16 bits each, are on the card.
pub(crate) fn start_ns(frames: &Frames) -> u64 {
    let last_ns = frames.iter().filter_map(|frames| frames.last()).map(|last| last.generated_ns);
    let count: usize = frames.iter().map(Vec::len).sum();
    last_ns.max().unwrap_or(0) + (2 * count as u64 * 1_000_000_000).div_ceil(TRANSFER)
}

/// The feed of a card: all frames arrive when the transfer ends, one of each stream in turn.
pub(crate) struct Transferred(std::vec::IntoIter<Arrival>);

impl Transferred {
    pub(crate) fn new(frames: &Frames) -> Self {
        let time_ns = start_ns(frames);
        let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
        let mut arrivals = Vec::new();
        for number in 0..longest {
            for (stream, frames) in (0..).zip(frames) {
                if let Some(Frame { bytes, .. }) = frames.get(number).copied() {
                    arrivals.push(Arrival { time_ns, stream, bytes, flow: None, frame: None });
                }
            }
        }
        Self(arrivals.into_iter())
    }
}

impl Feed for Transferred {
    fn next_into(&mut self, next: &mut Option<Arrival>) -> Result<(), TrafficError> {
        *next = self.0.next();
        Ok(())
    }
}

/// Returns the time at which each frame's transmission starts, ns after the start of the play-out.
///
/// A frame's arrival time orders streams whose other attributes are equal. All producers run at the
/// same rate, so a frame's number has the same order. The first decision's tick follows the last
/// arrival time.
fn play_out(scenario: &Scenario, frames: &Frames, stamps: Stamps) -> miette::Result<Vec<Vec<u64>>> {
    let (settings, contracts) = settings(scenario);
    let mut reference = Reference::new(settings);
    let longest = frames.iter().map(Vec::len).max().unwrap_or(0) as u64;
    for contract in &contracts {
        let window = contract.terms().window;
        let byte = |value: u32| u8::try_from(value).into_diagnostic();
        let (x, y) = (byte(window.lost())?, byte(window.of())?);
        // A period is one decision on the card.
        let (deadline, period) = (longest + 1, 1);
        let load = Load { deadline, period, priority: 0, weight: 1, x, y, drop: 0, first: 1 };
        reference.load(&load).map_err(|error| miette!("{error}"))?;
    }
    for number in 0..longest {
        for (stream, frames) in (0..).zip(frames) {
            let frame = usize::try_from(number).ok().and_then(|number| frames.get(number));
            if let Some(Frame { bytes, .. }) = frame {
                let time = if stamps == Stamps::Equal { 0 } else { number };
                reference.enqueue(time, StreamId(stream), *bytes);
            }
        }
    }
    let mut sent: Vec<Vec<u64>> = vec![Vec::new(); frames.len()];
    let mut time_ns = 0;
    for tick in longest.. {
        let Some(stream) = reference.decide(tick) else { break };
        let sent = &mut sent[stream.index()];
        let bytes = frames[stream.index()][sent.len()].bytes;
        sent.push(time_ns);
        time_ns += scenario.link.transmission_ns(bytes);
    }
    Ok(sent)
}

/// The frames of a seed and their transmission.
pub(crate) struct Run {
    pub(crate) frames: Frames,
    sent: Vec<Vec<u64>>,
}

#[allow(clippy::cast_precision_loss)]
fn real(value: usize) -> f64 {
    value as f64
}

#[allow(clippy::cast_precision_loss)]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the mean of `values`.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = real(values.len().max(1));
    values.sum::<f64>() / count
}

impl Run {
    fn of(scenario: &Scenario, stamps: Stamps) -> miette::Result<Self> {
        let frames = generate(scenario)?;
        let sent = play_out(scenario, &frames, stamps)?;
        Ok(Self { frames, sent })
    }

    /// Returns the delays of a stream's frames, ms, if a producer makes a frame each `interval_us`;
    /// the pause is that of the scenario.
    pub(crate) fn delays(&self, stream: usize, interval_us: f64, pause_ms: f64) -> Vec<f64> {
        let generated = |number: usize| {
            let pause_ms = if number >= BURST { pause_ms } else { 0.0 };
            real(number) * interval_us / 1e3 + pause_ms
        };
        let count: usize = self.frames.iter().map(Vec::len).sum();
        #[allow(clippy::cast_precision_loss)]
        let transfer_ms = 2e3 * real(count) / TRANSFER as f64;
        let start_ms = generated(FRAMES - 1) + transfer_ms;
        let sent = self.sent[stream].iter().enumerate();
        sent.map(|(number, at)| start_ms + ms(*at) - generated(number)).collect()
    }

    /// Returns the frames of each stream that are sent before the first stream has sent all.
    pub(crate) fn backlogged(&self) -> Vec<usize> {
        let end = self.sent.iter().filter_map(|sent| sent.last()).min().copied().unwrap_or(0);
        self.sent.iter().map(|sent| sent.partition_point(|at| *at < end)).collect()
    }

    /// Returns the bytes of these frames.
    #[allow(clippy::cast_precision_loss)]
    fn bytes(&self) -> Vec<f64> {
        let each = |(count, frames): (usize, &Vec<Frame>)| {
            frames[..count].iter().map(|frame| u64::from(frame.bytes)).sum::<u64>() as f64
        };
        self.backlogged().into_iter().zip(&self.frames).map(each).collect()
    }

    /// Returns the percentage of frame numbers for which stream 4 waits least and stream 3 next.
    fn ordered(&self) -> f64 {
        let [one, two, three, four] = [0, 1, 2, 3].map(|stream| &self.sent[stream]);
        let is_ordered = |at: &usize| four[*at] < three[*at] && three[*at] < one[*at].min(two[*at]);
        100.0 * real((0..FRAMES).filter(is_ordered).count()) / real(FRAMES)
    }
}

/// Returns the mean delays of the first 4,000 frames and of the others, ms.
fn means(delays: &[f64]) -> (f64, f64) {
    let (first, rest) = delays.split_at(BURST);
    (mean(first.iter().copied()), mean(rest.iter().copied()))
}

/// Returns by how much the least delay of the first 4,000 frames exceeds the largest later one.
fn excess(delays: &[f64]) -> f64 {
    let (first, rest) = delays.split_at(BURST);
    let least = first.iter().copied().fold(f64::INFINITY, f64::min);
    least - rest.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the interval of a producer, µs, from which a stream's first 4,000 frames wait longer on
/// average. The difference of the means is linear in the interval.
fn break_even(run: &Run, stream: usize, pause_ms: f64) -> f64 {
    let difference = |interval_us| {
        let (first, rest) = means(&run.delays(stream, interval_us, pause_ms));
        first - rest
    };
    let (at_0, at_1) = (difference(0.0), difference(1.0));
    at_0 / (at_0 - at_1)
}

/// The result of all seeds.
pub(crate) struct Delays {
    pub(crate) claims: Vec<Claim>,
    /// Table rows by the producers' interval.
    pub(crate) table: String,
    /// The run with the scenario's own seed, and its interval and pause.
    pub(crate) own: Run,
    /// Percentage of frame numbers in the paper's order if all arrival times are equal.
    pub(crate) unstamped: f64,
    pub(crate) interval_us: f64,
    pub(crate) pause_ms: f64,
}

/// Formats an interval with `digits` digits.
fn shown(estimate: Estimate, digits: usize) -> String {
    let Estimate { value, low, high } = estimate;
    format!("{value:.digits$} [{low:.digits$}, {high:.digits$}]")
}

/// Plays out all seeds and judges Figures 12 and 13.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn delays(folder: &Path) -> miette::Result<Delays> {
    let scenario = Scenario::load(&folder.join("fig12-end-system.toml"))?;
    let Source::Generator { interval_ns, pause_ns, .. } = scenario.streams[0].source else {
        return Err(miette!("fig12-end-system.toml has no generator"));
    };
    let (interval_us, pause_ms) = (interval_ns as f64 / 1e3, pause_ns as f64 / 1e6);
    let mut runs = Vec::new();
    for seed in 1..=SEEDS {
        let mut seeded = scenario.clone();
        seeded.seed = seed;
        runs.push(Run::of(&seeded, Stamps::Generated)?);
    }
    let own = Run::of(&scenario, Stamps::Generated)?;
    let unstamped = Run::of(&scenario, Stamps::Equal)?.ordered();
    let mut claims = vec![
        Claim::given(
            "Fig 13: time between two frames of a producer",
            "not given",
            format!("{interval_us} µs"),
            Given::Input,
        ),
        Claim::given(
            "Fig 13: pause of a producer after 4,000 frames",
            "1 ms; elsewhere \"multi-ms\"",
            format!("{pause_ms} ms"),
            Given::Input,
        ),
        Claim::given(
            "Fig 13: lengths of frames",
            "64 to 1,500 bytes, distribution not given",
            "64 to 1,500 bytes, uniform",
            Given::Input,
        ),
    ];
    claims.extend(bandwidth_claims(&runs));
    claims.extend(delay_claims(&runs, interval_us, pause_ms));
    Ok(Delays { claims, table: table(&runs, pause_ms), own, unstamped, interval_us, pause_ms })
}

const OVER_SEEDS: &str = "mean of 10 seeds, 95 % by Student's t";

fn bandwidth_claims(runs: &[Run]) -> Vec<Claim> {
    let claim = |(at, (test, paper)): (usize, (Test, f64))| {
        let ratios: Vec<f64> =
            runs.iter().map(Run::bytes).map(|bytes| bytes[at] / bytes[0]).collect();
        let ratio = Estimate::mean(&ratios, CONFIDENCE);
        let relative = |value: f64| 100.0 * (value / paper - 1.0);
        let effect = format!(
            "{:+.2} % [{:+.2}, {:+.2}]; {OVER_SEEDS}",
            relative(ratio.value),
            relative(ratio.low),
            relative(ratio.high)
        );
        test.by(Evidence::Simulated, format!("{:.3}", ratio.value), ratio, effect)
    };
    (1..).zip(bandwidth_tests()).map(claim).collect()
}

fn delay_claims(runs: &[Run], interval_us: f64, pause_ms: f64) -> Vec<Claim> {
    let by_seed = |value: &dyn Fn(&Run, usize) -> f64, fold: fn(f64, f64) -> f64| -> Vec<f64> {
        let of = |run| (0..STREAMS).map(|stream| value(run, stream)).reduce(fold);
        runs.iter().filter_map(of).collect()
    };
    let mut claims = Vec::new();

    let difference = |run: &Run, stream: usize| {
        let (first, rest) = means(&run.delays(stream, interval_us, pause_ms));
        first - rest
    };
    let least = Estimate::mean(&by_seed(&difference, f64::min), CONFIDENCE);
    let (first, rest) = means(&runs[0].delays(0, interval_us, pause_ms));
    claims.push(
        Test::new(
            format!(
                "Fig 13: the first 4,000 frames wait longer, producers' interval {interval_us} µs"
            ),
            "in each stream",
            "mean of the first 4,000 − mean of the rest > 0, the stream with the least",
            Allowed::Above(0.0),
        )
        .by(
            Evidence::Simulated,
            format!("stream 1, seed 1: {first:.1} ms, the rest {rest:.1} ms"),
            least,
            format!("{} ms; {OVER_SEEDS}", shown(least, 1)),
        ),
    );
    let at = |interval_us: f64| {
        let value = |run: &Run, stream: usize| excess(&run.delays(stream, interval_us, pause_ms));
        Estimate::mean(&by_seed(&value, f64::min), CONFIDENCE)
    };
    let (fast, slow) = (at(0.0), at(LONGEST_INTERVAL));
    let even = |stream| {
        let values: Vec<f64> = runs.iter().map(|run| break_even(run, stream, pause_ms)).collect();
        Estimate::mean(&values, CONFIDENCE)
    };
    let evens: Vec<String> =
        (0..STREAMS).map(|stream| format!("{:.2}", even(stream).value)).collect();
    claims.push(
        Test::new(
            "Fig 13: every one of the first 4,000 frames waits longer than every later frame",
            "in each stream; the producers' rate is not given",
            format!(
                "least of the first 4,000 − largest of the rest > 0 for all intervals of producers \
                 from 0 to {LONGEST_INTERVAL} µs"
            ),
            Allowed::Above(0.0),
        )
        .by(
            Evidence::Simulated,
            format!("true on average from intervals of {} µs on, streams 1 to 4", evens.join(", ")),
            Estimate { value: fast.value, low: fast.low, high: slow.high },
            format!(
                "{:.1} ms at 0 µs, {:+.1} ms at {LONGEST_INTERVAL} µs; {OVER_SEEDS}",
                fast.value, slow.value
            ),
        ),
    );

    let drop = |run: &Run, stream: usize| {
        let delays = run.delays(stream, interval_us, pause_ms);
        delays[BURST - 1] - delays[BURST]
    };
    let drop = Estimate::mean(&by_seed(&drop, f64::min), CONFIDENCE);
    claims.push(
        Test::new(
            "Fig 13: zig-zag of all streams at the pause",
            "a zig-zag",
            "the delay falls from frame 4,000 to 4,001, the stream with the least fall",
            Allowed::Above(0.0),
        )
        .by(
            Evidence::Simulated,
            format!("falls by {:.2} ms; the pause is an input", drop.value),
            drop,
            format!("{} ms; {OVER_SEEDS}", shown(drop, 3)),
        ),
    );

    let ordered: Vec<f64> = runs.iter().map(Run::ordered).collect();
    let ordered = Estimate::mean(&ordered, CONFIDENCE);
    claims.push(
        Test::new(
            "Fig 13: stream 4 waits least and stream 3 next",
            "across all frames",
            "true of 100 % of the frame numbers; does not depend on the producers' rate",
            Allowed::Equal(100.0),
        )
        .by(
            Evidence::Simulated,
            format!("{:.2} % of the frame numbers", ordered.value),
            ordered,
            format!("{} %; {OVER_SEEDS}", shown(ordered, 2)),
        ),
    );
    let more = |run: &Run| {
        let of = |stream| mean(run.delays(stream, interval_us, pause_ms).into_iter());
        of(2) / of(3)
    };
    let more: Vec<f64> = runs.iter().map(more).collect();
    let more = Estimate::mean(&more, CONFIDENCE);
    claims.push(
        Test::new(
            "Fig 13: mean delay of stream 3 over stream 4's",
            "slightly more",
            "none: no number, and it depends on the producers' rate",
            Allowed::Unstated,
        )
        .by(
            Evidence::Simulated,
            format!("{:.2} at {interval_us} µs", more.value),
            more,
            format!("× {}; {OVER_SEEDS}", shown(more, 2)),
        ),
    );
    claims
}

/// Writes the mean delays of the first 4,000 frames and of the rest, by the producers' interval.
fn table(runs: &[Run], pause_ms: f64) -> String {
    let mut text = String::from(
        "| producers' interval (input) | stream 1 | stream 2 | stream 3 | stream 4 |\n\
         |---:|---:|---:|---:|---:|\n",
    );
    for interval_us in [0.0, 1.0, 2.0, 4.0, 8.0, 16.0] {
        let cell = |stream: usize| {
            let both: Vec<_> =
                runs.iter().map(|run| means(&run.delays(stream, interval_us, pause_ms))).collect();
            let first = mean(both.iter().map(|both| both.0));
            let rest = mean(both.iter().map(|both| both.1));
            format!(" {first:.1} / {rest:.1} |")
        };
        let cells: String = (0..STREAMS).map(cell).collect();
        text += &format!("| {interval_us} µs |{cells}\n");
    }
    let cell = |stream: usize| {
        let values: Vec<f64> = runs.iter().map(|run| break_even(run, stream, pause_ms)).collect();
        format!(" {} µs |", shown(Estimate::mean(&values, CONFIDENCE), 2))
    };
    let cells: String = (0..STREAMS).map(cell).collect();
    text += &format!("| break-even |{cells}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(sent_ns: Vec<u64>) -> Run {
        let frame = Frame { generated_ns: 0, bytes: 64 };
        Run { frames: vec![vec![frame; sent_ns.len()]], sent: vec![sent_ns] }
    }

    #[test]
    fn the_transfer_follows_the_last_frame() {
        let frame = |generated_ns| Frame { generated_ns, bytes: 64 };
        // Four arrival times, 8 bytes at 60 MB/s: 133.3 ns.
        let frames = vec![vec![frame(5), frame(9)], vec![frame(5), frame(7)]];
        assert_eq!(start_ns(&frames), 9 + 134);
        let mut feed = Transferred::new(&frames);
        let mut order = Vec::new();
        while let Some(arrival) = feed.next_arrival().expect("no input") {
            order.push((arrival.stream, arrival.time_ns));
        }
        assert_eq!(order, [(0, 143), (1, 143), (0, 143), (1, 143)]);
    }

    #[test]
    fn delays_follow_from_the_producers_rate() {
        // Frames leave every 2 µs.
        let run = run((0..FRAMES as u64).map(|number| 2_000 * number).collect());
        let transfer = 2e3 * 64_000.0 / 60e6;
        let fast = run.delays(0, 0.0, 0.0);
        assert!((fast[0] - transfer).abs() < 1e-9);
        assert!((fast[10] - transfer - 0.02).abs() < 1e-9);
        let paused = run.delays(0, 1.0, 1.0);
        assert!((paused[BURST - 1] - paused[BURST] - (1.0 + 0.001 - 0.002)).abs() < 1e-6);
        // Producers as slow as the play-out: all frames wait equally long, before the pause more.
        let (first, rest) = means(&run.delays(0, 2.0, 1.0));
        assert!((first - rest - 1.0).abs() < 1e-6);
        assert!((excess(&run.delays(0, 2.0, 1.0)) - 1.0).abs() < 1e-6);
        // 2 µs less the part of the pause: 1 ms over 32,000 frames.
        assert!((break_even(&run, 0, 1.0) - (2.0 - 1.0 / 32.0)).abs() < 1e-6);
    }
}
