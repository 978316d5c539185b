//! The charts of a link's report.
//!
//! A line is a series: one stream, or all streams beyond the first 23 together. The last bin of a
//! run is rarely full: its line ends with the run, and its rate is averaged over that shorter time.
//! A steady stream is therefore level to the end. The largest value selects the unit of times,
//! rates and delays, and the axis label shows it.

use std::ops::Range;

use crate::chart::{self, Chart, Line, Mark};
use crate::human;
use crate::recorder::Results;
use crate::series::{BINS, Bin, Series};
use crate::table::shortened;

/// A chart with its title and caption.
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) caption: String,
    /// The chart for screens and paper.
    pub(crate) wide: String,
    /// The chart for the screen of a telephone.
    pub(crate) narrow: String,
}

impl Figure {
    /// Draws lines.
    pub(crate) fn draw(
        title: &str,
        caption: String,
        chart: Chart,
        lines: &[Line],
        marks: &[Mark],
    ) -> Result<Self, String> {
        Self::in_both_sizes(title.to_owned(), caption, chart, (lines, &[], marks))
    }

    /// Draws lines with an error bar at each point.
    pub(crate) fn estimates(
        title: String,
        caption: String,
        chart: Chart,
        lines: &[Line],
        halves: &[Vec<f64>],
    ) -> Result<Self, String> {
        Self::in_both_sizes(title, caption, chart, (lines, halves, &[]))
    }

    fn in_both_sizes(
        title: String,
        caption: String,
        chart: Chart,
        (lines, halves, marks): (&[Line], &[Vec<f64>], &[Mark]),
    ) -> Result<Self, String> {
        let draw = |size, class| -> Result<String, String> {
            let svg = chart::drawn(&Chart { size, ..chart }, lines, halves, marks)?;
            Ok(svg.replacen("<svg ", &format!("<svg class=\"{class}\" "), 1))
        };
        Ok(Self { title, caption, wide: draw(WIDE, "wide")?, narrow: draw(NARROW, "narrow")? })
    }
}

/// The sizes of a chart, pixels.
const WIDE: (u32, u32) = (960, 300);
const NARROW: (u32, u32) = (400, 290);

/// A line breaks at gaps of more than the run's length divided by this.
const GAPS: u64 = 50;
/// The largest number of steps of a chart over time.
///
/// Steps have round widths of 1, 2 or 5 times a power of ten, so a run has 80 to 200 of them.
const STEPS: usize = 200;
/// The percentiles that the chart of tails marks, by the share of longer delays.
const MARKS: [Mark; 2] = [Mark { value: 1e-2, label: "p99" }, Mark { value: 1e-3, label: "p99.9" }];
/// The least mean number of the busiest stream's packets per step of the rate chart.
///
/// Bytes are counted when service starts, so a step shorter than a packet would exceed the link's
/// rate.
const PACKETS: u64 = 8;
/// The largest ratio of the longest to the shortest drawn delay; a logarithmic axis has no zero.
const DELAY_SPAN: u64 = 10_000;

const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
const RATES: [(f64, &str); 4] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

/// Returns the largest unit that does not exceed `most`, or the smallest unit.
fn unit(units: &[(f64, &'static str); 4], most: f64) -> (f64, &'static str) {
    units.iter().find(|unit| most >= unit.0).copied().unwrap_or(units[3])
}

// Charts are a few hundred pixels wide: the rounding error is far below a pixel.
#[allow(clippy::cast_precision_loss)]
fn float(value: u64) -> f64 {
    value as f64
}

/// Returns the charts of a run; empty without time series or data.
pub(crate) fn figures(results: &Results) -> Result<Vec<Figure>, String> {
    let Some(series) = &results.series else { return Ok(Vec::new()) };
    if results.end_ns == 0 || series.streams().is_empty() {
        return Ok(Vec::new());
    }
    let mut figures = Vec::new();
    if results.streams.iter().any(|stream| stream.sent > 0) {
        figures.push(rates(results, series)?);
        figures.push(delays(results, series)?);
        figures.push(link_tails(results, series)?);
    }
    if series.streams().iter().flatten().any(|bin| bin.round_trips > 0) {
        figures.push(round_trips(results, series)?);
    }
    let steps = steps(series, results.end_ns, STEPS);
    let each = human::time(steps[0].end_ns - steps[0].start_ns);
    for Counted { title, caption, what, value } in COUNTED {
        if series.streams().iter().flatten().all(|bin| value(bin) == 0) {
            continue;
        }
        let drawn = lines_over_time(results, series, &steps, |step, bins| {
            float(bins[step.bins.clone()].iter().map(value).sum())
        });
        let label = format!("{what} per {each}");
        figures.push(over_time(title, caption.to_owned(), results.end_ns, &label, drawn)?);
    }
    Ok(figures)
}

/// A chart of event counts over time.
struct Counted {
    title: &'static str,
    caption: &'static str,
    what: &'static str,
    value: fn(&Bin) -> u64,
}

const COUNTED: [Counted; 3] = [
    Counted {
        title: "Deadlines missed over time",
        caption: "Request periods that ended with a packet still waiting.",
        what: "missed",
        value: |bin| bin.missed,
    },
    Counted {
        title: "Window violations over time",
        caption: "Misses with no loss left in the window.",
        what: "violations",
        value: |bin| bin.violations,
    },
    Counted {
        title: "Drops over time",
        caption: "Packets dropped late, at a full queue or by queue management.",
        what: "dropped",
        value: |bin| bin.dropped,
    },
];

/// An interval of a chart over time, drawn as a level line.
struct Step {
    start_ns: u64,
    end_ns: u64,
    bins: Range<usize>,
}

/// Returns at least one and at most `most` steps of a run, each a group of whole bins of a round
/// width.
///
/// The last step has all remaining bins and ends with the run. It is at least half as long as the
/// others: the rate in a shorter one depends on whether a packet happens to begin there.
fn steps(series: &Series, end_ns: u64, most: usize) -> Vec<Step> {
    let bin_ns = series.width_ns();
    let width_ns = round_width_ns(bin_ns, end_ns, most);
    let group = usize::try_from(width_ns / bin_ns).unwrap_or(BINS).clamp(1, BINS);
    let whole = end_ns / width_ns + u64::from(end_ns % width_ns >= width_ns.div_ceil(2));
    let count = usize::try_from(whole).unwrap_or(1).clamp(1, BINS.div_ceil(group));
    let start_ns = |step: usize| bin_ns.saturating_mul((step * group) as u64);
    (0..count)
        .map(|step| {
            let last = step + 1 == count;
            Step {
                start_ns: start_ns(step),
                end_ns: if last { end_ns } else { start_ns(step + 1) },
                bins: step * group..if last { BINS } else { (step + 1) * group },
            }
        })
        .collect()
}

/// Returns the least step of at least `bin_ns` that covers `end_ns` in at most `most` steps. A step
/// is 1, 2 or 5 times a power of ten.
fn round_width_ns(bin_ns: u64, end_ns: u64, most: usize) -> u64 {
    let mut power_ns = bin_ns;
    loop {
        for factor in [1, 2, 5] {
            let width_ns = power_ns.saturating_mul(factor);
            if end_ns.div_ceil(width_ns) <= most.max(1) as u64 {
                return width_ns;
            }
        }
        power_ns = power_ns.saturating_mul(10);
    }
}

/// Returns a line per series with two points per step, so that each step is level.
///
/// A series of zeros only has no points: its line would hide another one on the axis.
fn lines_over_time(
    results: &Results,
    series: &Series,
    steps: &[Step],
    value: impl Fn(&Step, &[Bin]) -> f64,
) -> Vec<Line> {
    let line = |(at, bins): (usize, &Vec<Bin>)| {
        let levels: Vec<f64> = steps.iter().map(|step| value(step, bins)).collect();
        let level = |(step, level): (&Step, f64)| {
            [(float(step.start_ns), level), (float(step.end_ns), level)]
        };
        let points = if levels.iter().all(|level| *level <= 0.0) {
            Vec::new()
        } else {
            steps.iter().zip(levels).flat_map(level).collect()
        };
        Line { name: name(results, at), points }
    };
    series.streams().iter().enumerate().map(line).collect()
}

/// Returns the name of a series in legends, shortened.
pub(crate) fn name(results: &Results, series: usize) -> String {
    shortened(&Series::name(series, &results.names))
}

/// Draws lines whose x values are in ns.
fn over_time(
    title: &'static str,
    caption: String,
    end_ns: u64,
    y_label: &str,
    mut drawn: Vec<Line>,
) -> Result<Figure, String> {
    let (scale, unit) = unit(&TIMES, float(end_ns));
    for point in drawn.iter_mut().flat_map(|line| &mut line.points) {
        point.0 /= scale;
    }
    Figure::draw(title, caption, in_page(&format!("time ({unit})"), y_label), &drawn, &[])
}

/// Returns a chart of a page, with linear axes.
pub(crate) fn in_page<'a>(x_label: &'a str, y_label: &'a str) -> Chart<'a> {
    let size = WIDE;
    Chart { title: "", x_label, y_label, x_log: false, y_log: false, standalone: false, size }
}

fn rates(results: &Results, series: &Series) -> Result<Figure, String> {
    let busiest = results.streams.iter().map(|stream| stream.sent).max().unwrap_or(0);
    let most = usize::try_from(busiest / PACKETS).unwrap_or(STEPS).clamp(1, STEPS);
    let steps = steps(series, results.end_ns, most);
    let mut drawn = lines_over_time(results, series, &steps, |step, bins| {
        let bytes: u64 = bins[step.bins.clone()].iter().map(|bin| bin.sent_bytes).sum();
        float(bytes) * 8e9 / float((step.end_ns - step.start_ns).max(1))
    });
    let points = || drawn.iter().flat_map(|line| &line.points);
    let (scale, unit) = unit(&RATES, points().map(|point| point.1).fold(0.0, f64::max));
    for point in drawn.iter_mut().flat_map(|line| &mut line.points) {
        point.1 /= scale;
    }
    let each = human::time(steps[0].end_ns - steps[0].start_ns);
    let caption = format!("Packets whose service started, by stream, averaged over {each}.");
    over_time("Rate over time", caption, results.end_ns, &format!("rate ({unit})"), drawn)
}

fn round_trips(results: &Results, series: &Series) -> Result<Figure, String> {
    let steps = steps(series, results.end_ns, STEPS);
    let mean_ns = |step: &Step, bins: &[Bin]| {
        let bins = &bins[step.bins.clone()];
        let count: u64 = bins.iter().map(|bin| bin.round_trips).sum();
        let sum_ns: u64 = bins.iter().map(|bin| bin.round_trips_ns).sum();
        (count > 0).then(|| float(sum_ns) / float(count))
    };
    // A step without a round trip has no mean: the line passes over it, and breaks at a longer
    // pause of the source.
    let longest_gap_ns = results.end_ns / GAPS;
    let line = |(at, bins): (usize, &Vec<Bin>)| {
        let (mut points, mut last_ns) = (Vec::new(), 0);
        for step in &steps {
            let Some(mean_ns) = mean_ns(step, bins) else { continue };
            if step.start_ns - last_ns > longest_gap_ns {
                points.push((float(step.start_ns), f64::NAN));
            }
            points.extend([step.start_ns, step.end_ns].map(|ns| (float(ns), mean_ns)));
            last_ns = step.end_ns;
        }
        Line { name: name(results, at), points }
    };
    let mut drawn: Vec<Line> = series.streams().iter().enumerate().map(line).collect();
    let points = || drawn.iter().flat_map(|line| &line.points);
    let (scale, unit) = unit(&TIMES, points().map(|point| point.1).fold(0.0, f64::max));
    for point in drawn.iter_mut().flat_map(|line| &mut line.points) {
        point.1 /= scale;
    }
    let each = human::time(steps[0].end_ns - steps[0].start_ns);
    let caption = format!("Measured by the sources of TCP and echo, the mean over {each}.");
    let label = format!("round trip ({unit})");
    over_time("Round-trip time over time", caption, results.end_ns, &label, drawn)
}

fn delays(results: &Results, series: &Series) -> Result<Figure, String> {
    let longest_ns = results.streams.iter().map(|s| s.delays.max_ns()).max().unwrap_or(0);
    let floor_ns = (longest_ns / DELAY_SPAN).max(1);
    let (scale, unit) = unit(&TIMES, float(longest_ns));
    let mut shortest_ns = u64::MAX;
    let mut line = |at: usize| {
        let together = results.combined(Series::members(at, results.streams.len()));
        let mut previous = 0.0;
        let mut points = Vec::new();
        for (delay_ns, share) in together.delays.distribution() {
            shortest_ns = shortest_ns.min(delay_ns);
            let delay = float(delay_ns.max(floor_ns)) / scale;
            points.extend([(delay, previous), (delay, share)]);
            previous = share;
        }
        // The line stays level to the right end: all delays are at most the longest one.
        if !points.is_empty() {
            points.push((float(longest_ns.max(floor_ns)) / scale, previous));
        }
        Line { name: name(results, at), points }
    };
    let drawn: Vec<Line> = (0..series.streams().len()).map(&mut line).collect();
    let mut caption =
        "Share of a stream's sent packets whose service started within the delay.".to_owned();
    if shortest_ns < floor_ns {
        caption +=
            &format!(" The axis has no zero: shorter delays are at {}.", human::time(floor_ns));
    }
    let label = format!("delay ({unit})");
    let chart = Chart { x_log: true, ..in_page(&label, "share of packets") };
    Figure::draw("Delay distribution", caption, chart, &drawn, &[])
}

fn link_tails(results: &Results, series: &Series) -> Result<Figure, String> {
    let tail = |at| Tail {
        name: name(results, at),
        points: results.combined(Series::members(at, results.streams.len())).delays.tail(),
    };
    let drawn: Vec<Tail> = (0..series.streams().len()).map(tail).collect();
    tails("sent", &drawn)
}

/// The tail of a stream's delays.
pub(crate) struct Tail {
    /// The name of the stream.
    pub(crate) name: String,
    /// Rising delays in ns, each with the share of packets with a longer delay, down to 0.
    pub(crate) points: Vec<(u64, f64)>,
}

/// Draws the tail of each stream's delay: the share of packets above a time, on logarithmic axes.
///
/// `counted` says which packets of a stream have a delay, for the caption.
pub(crate) fn tails(counted: &str, tails: &[Tail]) -> Result<Figure, String> {
    let ends = |pick: fn(&Tail) -> Option<&(u64, f64)>| tails.iter().filter_map(pick);
    let longest_ns = ends(|tail| tail.points.last()).map(|last| last.0).max().unwrap_or(0);
    let shortest_ns = ends(|tail| tail.points.first()).map(|first| first.0).min();
    let floor_ns = (longest_ns / DELAY_SPAN).max(1);
    let (scale, unit) = unit(&TIMES, float(longest_ns));
    let place = |delay_ns: u64| float(delay_ns.max(floor_ns)) / scale;
    let line = |tail: &Tail| {
        // The line begins at the left end: all packets exceed shorter delays.
        let mut points: Vec<_> = shortest_ns
            .filter(|_| !tail.points.is_empty())
            .map(|ns| (place(ns), 1.0))
            .into_iter()
            .collect();
        let mut previous = 1.0;
        for (delay_ns, share) in &tail.points {
            // A logarithmic axis has no zero: the line ends at the longest delay.
            points.extend([(place(*delay_ns), previous), (place(*delay_ns), *share)]);
            previous = *share;
        }
        Line { name: tail.name.clone(), points }
    };
    let drawn: Vec<Line> = tails.iter().map(line).collect();
    let label = format!("delay ({unit})");
    let chart = Chart { x_log: true, y_log: true, ..in_page(&label, "share above the delay") };
    let caption = format!(
        "Share of a stream's {counted} packets whose delay exceeds the time. A line crosses the \
         line p99 at its 99th percentile, and p99.9 at its 99.9th."
    );
    Figure::draw("Delay tail", caption, chart, &drawn, &MARKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, RecorderOptions};
    use millstream::{Departure, Event, StreamId};

    /// Returns a run with one packet of 125 bytes per µs: 1 Gbit/s.
    fn steady(streams: u32, packets: u64) -> Results {
        let names = (0..streams).map(|k| k.to_string()).collect();
        let mut recorder = Recorder::new(names, RecorderOptions { series: true });
        for packet in 0..packets {
            let stream = StreamId(u32::try_from(packet % u64::from(streams)).unwrap());
            recorder.departed(&Departure {
                time_ns: packet * 1000,
                stream,
                packet,
                bytes: 125,
                arrival_ns: 0,
                deadline_ns: None,
                event: Event::Sent,
                tag: 0,
            });
        }
        recorder.finish(packets * 1000)
    }

    #[test]
    fn steps_cover_the_run_and_every_bin_once() {
        for end_ns in [1, 1999, 2000, 2001, 200_000, 200_001, 12_345_678, u64::MAX] {
            let mut series = Series::new(1);
            series.at(0, end_ns);
            let steps = steps(&series, end_ns, STEPS);
            assert!(!steps.is_empty() && steps.len() <= STEPS);
            let (mut time_ns, mut bin) = (0, 0);
            for step in &steps {
                assert!(step.start_ns == time_ns && step.bins.start == bin);
                assert!(step.end_ns > step.start_ns, "{end_ns}");
                (time_ns, bin) = (step.end_ns, step.bins.end);
            }
            assert_eq!((time_ns, bin), (end_ns, BINS), "{end_ns}");
        }
    }

    #[test]
    fn short_and_long_runs_have_many_steps_of_a_round_width() {
        const MS: u64 = 1_000_000;
        let found = [50 * MS, 1_000 * MS, 3_600_000 * MS].map(|end_ns| {
            let mut series = Series::new(1);
            series.at(0, end_ns - 1);
            let steps = steps(&series, end_ns, STEPS);
            (steps.len(), human::time(steps[0].end_ns))
        });
        let expected =
            [(100, "500 µs"), (200, "5.00 ms"), (180, "20.0 s")].map(|(n, w)| (n, w.to_owned()));
        assert_eq!(found, expected);
        for end_ns in (0..60).map(|k| 1_234_567 * 3u64.pow(k / 3)) {
            let mut series = Series::new(1);
            series.at(0, end_ns - 1);
            let count = steps(&series, end_ns, STEPS).len();
            assert!((80..=STEPS).contains(&count), "{count} steps of {end_ns} ns");
        }
    }

    #[test]
    fn tails_are_marked_at_p99_and_end_at_the_longest_delay() {
        let results = steady(1, 10_000);
        let figure = link_tails(&results, results.series.as_ref().unwrap()).unwrap();
        for svg in [&figure.wide, &figure.narrow] {
            for text in ["p99\n", "p99.9\n", "\n0.001\n", "delay (ms)"] {
                assert!(svg.contains(text), "no {text}");
            }
        }
    }

    #[test]
    fn steady_stream_is_level_to_the_end() {
        let results = steady(1, 7_777);
        let series = results.series.as_ref().unwrap();
        let steps = steps(series, results.end_ns, STEPS);
        let drawn = lines_over_time(&results, series, &steps, |step, bins| {
            let bytes: u64 = bins[step.bins.clone()].iter().map(|bin| bin.sent_bytes).sum();
            float(bytes) * 8.0 / float(step.end_ns - step.start_ns)
        });
        for (_, rate) in &drawn[0].points {
            assert!((rate - 1.0).abs() < 0.02, "{rate}");
        }
    }

    #[test]
    fn streams_that_share_a_line_share_a_distribution() {
        let results = steady(40, 4_000);
        let shared = results.combined(Series::members(23, 40));
        assert_eq!(shared.delays.count(), 17 * 100);
        let svg = &figures(&results).unwrap()[1].wide;
        assert!(svg.contains("17 other streams") && svg.contains("delay (ms)"));
    }

    #[test]
    fn units_match_the_largest_value() {
        let found = [5.0, 2_000.0, 9.99e5, 3e12].map(|most| unit(&TIMES, most).1);
        assert_eq!(found, ["ns", "µs", "µs", "s"]);
        let svg = &figures(&steady(1, 100)).unwrap()[0].wide;
        assert!(svg.contains("rate (Gbit/s)") && svg.contains("time (µs)"), "{svg}");
    }
}
