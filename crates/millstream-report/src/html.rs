//! The report: one HTML page with table and charts that needs no network and no script.
//!
//! Everything that comes from a scenario is escaped by the template engine; charts carry no text
//! of the user's.

use askama::Template;
use std::io::{self, Write};

use crate::chart::{self, Chart, Line};
use crate::human;
use crate::recorder::Results;
use crate::series::{Bin, Series};
use crate::table::{cells, shortened};

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct ReportInput<'a> {
    /// What the run came to, time series included.
    pub results: &'a Results,
    /// The scenario's name.
    pub scenario_name: &'a str,
    /// The scenario file's text.
    pub scenario_text: &'a str,
    /// The discipline's name.
    pub discipline: &'a str,
    /// The structure's name.
    pub structure: &'a str,
    /// The link's rate, bits/s.
    pub link_rate_bps: u64,
    /// What the reader should know beside the numbers.
    pub notes: &'a [String],
}

/// Streams that the table lists.
const LISTED: usize = 200;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    name: &'a str,
    facts: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    left_out: usize,
    legend: Vec<(&'static str, String)>,
    charts: Vec<Figure>,
    notes: &'a [String],
    scenario: &'a str,
}

struct Row {
    name: String,
    colour: &'static str,
    cells: [String; 12],
    share: String,
}

struct Figure {
    title: &'static str,
    caption: &'static str,
    svg: String,
}

/// Writes the page to `output`.
///
/// # Errors
/// Those of `output`.
pub fn write_report(output: &mut impl Write, input: &ReportInput) -> io::Result<()> {
    let results = input.results;
    let page = Page {
        name: input.scenario_name,
        facts: facts(input),
        rows: rows(results),
        left_out: results.names.len().saturating_sub(LISTED),
        legend: legend(results),
        charts: charts(results).map_err(io::Error::other)?,
        notes: input.notes,
        scenario: input.scenario_text,
    };
    let html = page.render().map_err(io::Error::other)?;
    output.write_all(html.as_bytes())
}

fn facts(input: &ReportInput) -> Vec<(&'static str, String)> {
    let results = input.results;
    let sent: u64 = results.streams.iter().map(|stream| stream.sent).sum();
    let arrived: u64 = results.streams.iter().map(|stream| stream.arrived).sum();
    let violations: u64 = results.streams.iter().map(|stream| stream.violations).sum();
    vec![
        ("discipline", input.discipline.to_owned()),
        ("structure", input.structure.to_owned()),
        ("link", human::rate(input.link_rate_bps)),
        ("link busy", format!("{:.1} %", results.utilisation() * 100.0)),
        ("simulated time", human::time(results.end_ns)),
        ("packets sent", format!("{sent} of {arrived}")),
        ("violations", violations.to_string()),
    ]
}

/// Which series a stream is drawn in.
fn series_of(results: &Results, stream: usize) -> usize {
    results.series.as_ref().map_or(stream, |series| stream.min(series.streams().len().max(1) - 1))
}

#[allow(clippy::cast_precision_loss)]
fn rows(results: &Results) -> Vec<Row> {
    let total: u64 = results.streams.iter().map(|stream| stream.sent_bytes).sum();
    let row = |(at, (name, stream)): (usize, (&String, &crate::StreamResults))| Row {
        name: shortened(name),
        colour: chart::colour(series_of(results, at)),
        share: format!("{:.1}", 100.0 * stream.sent_bytes as f64 / total.max(1) as f64),
        cells: cells(stream, results.end_ns),
    };
    results.names.iter().zip(&results.streams).enumerate().take(LISTED).map(row).collect()
}

fn legend(results: &Results) -> Vec<(&'static str, String)> {
    let Some(series) = &results.series else { return Vec::new() };
    let entry = |at| (chart::colour(at), shortened(&Series::name(at, &results.names)));
    (0..series.streams().len()).map(entry).collect()
}

#[allow(clippy::cast_precision_loss)]
fn charts(results: &Results) -> Result<Vec<Figure>, String> {
    let Some(series) = &results.series else { return Ok(Vec::new()) };
    if results.end_ns == 0 {
        return Ok(Vec::new());
    }
    let width_s = series.width_ns() as f64 / 1e9;
    let bins = usize::try_from(results.end_ns / series.width_ns()).unwrap_or(usize::MAX);
    // One step a bin: two points, so that a bin is flat and not a slope.
    // `group` bins are drawn as one, where single bins would be a thicket.
    let steps = |group: usize, value: &dyn Fn(&Bin) -> u64| -> Vec<Line> {
        let line = |(at, stream): (usize, &[Bin; 240])| {
            let step = |(k, bins): (usize, &[Bin])| {
                let total = bins.iter().map(value).sum::<u64>() as f64;
                let start = (k * group) as f64 * width_s;
                [(start, total), (start + group as f64 * width_s, total)]
            };
            let shown = &stream[..bins.saturating_add(1).min(stream.len())];
            let points = shown.chunks(group).enumerate().flat_map(step);
            Line { name: Series::name(at, &results.names), points: points.collect() }
        };
        series.streams().iter().enumerate().map(line).collect()
    };
    let total =
        |value: fn(&Bin) -> u64| -> u64 { series.streams().iter().flatten().map(value).sum() };
    let over_time = |y_label| Chart {
        title: "",
        x_label: "time (s)",
        y_label,
        x_log: false,
        y_log: false,
        alone: false,
        size: (960, 300),
    };
    let mut figures = vec![Figure {
        title: "Rate over time",
        caption: "Bytes whose service started, by stream.",
        svg: chart::lines(
            &over_time("rate (Mb/s)"),
            &rates(steps(RATE_GROUP, &|bin| bin.sent_bytes), RATE_GROUP as f64 * width_s),
        )?,
    }];
    let distributions: Vec<Line> = (0..series.streams().len())
        .map(|at| Line {
            name: Series::name(at, &results.names),
            points: distribution(results, at),
        })
        .collect();
    figures.push(Figure {
        title: "Delay distribution",
        caption: "Share of a stream's sent packets whose service started within the delay.",
        svg: chart::lines(
            &Chart { x_label: "delay (ms)", x_log: true, ..over_time("share of packets") },
            &distributions,
        )?,
    });
    for (title, caption, label, value) in [
        (
            "Deadlines missed over time",
            "Request periods that ended with a packet still waiting.",
            "missed",
            (|bin| bin.missed) as fn(&Bin) -> u64,
        ),
        (
            "Window violations over time",
            "Misses of streams whose window allowed no more.",
            "violations",
            |bin| bin.violations,
        ),
        ("Drops over time", "Packets dropped late or at a full queue.", "dropped", |bin| {
            bin.dropped
        }),
    ] {
        if total(value) > 0 {
            let svg = chart::lines(&over_time(label), &steps(1, &value))?;
            figures.push(Figure { title, caption, svg });
        }
    }
    Ok(figures)
}

/// Bins that make one step of the rate chart.
const RATE_GROUP: usize = 4;

/// Bytes in `seconds` as Mb/s.
fn rates(mut lines: Vec<Line>, seconds: f64) -> Vec<Line> {
    for line in &mut lines {
        line.points.iter_mut().for_each(|point| point.1 *= 8e-6 / seconds);
    }
    lines
}

/// The distribution of a stream that has a series of its own, delay in ms.
#[allow(clippy::cast_precision_loss)]
fn distribution(results: &Results, at: usize) -> Vec<(f64, f64)> {
    let mut previous = 0.0;
    let mut points = Vec::new();
    for (delay_ns, share) in results.streams[at].delays.distribution() {
        let delay_ms = delay_ns.max(1000) as f64 / 1e6;
        points.extend([(delay_ms, previous), (delay_ms, share)]);
        previous = share;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, RecorderOptions};
    use millstream::{Departure, Event, StreamId};

    fn page(results: &Results, name: &str) -> String {
        let mut html = Vec::new();
        let input = ReportInput {
            results,
            scenario_name: name,
            scenario_text: "name = \"</pre><script>\"",
            discipline: "dwcs",
            structure: "scan",
            link_rate_bps: 1_000_000,
            notes: &["a note".into()],
        };
        write_report(&mut html, &input).unwrap();
        String::from_utf8(html).unwrap()
    }

    #[test]
    fn hostile_names_are_text_and_the_page_stands_alone() {
        let names = vec!["<script>alert(1)</script>".into(), "\"&größe".into()];
        let mut recorder = Recorder::new(names, RecorderOptions { series: true });
        for k in 0..100 {
            recorder.arrived(StreamId(k % 2), 0, 100);
            recorder.departed(&Departure {
                time_ns: u64::from(k) * 1_000_000,
                stream: StreamId(k % 2),
                packet: u64::from(k / 2),
                bytes: 100,
                arrival_ns: 0,
                deadline_ns: None,
                event: Event::Sent,
                tag: 0,
            });
            recorder.missed(StreamId(0), u64::from(k), 1, 1);
        }
        let html = page(&recorder.finish(100_000_000), "<i>name");
        assert!(!html.contains("<script") && !html.contains("<i>name"));
        assert!(html.contains("größe") && html.contains("a note"));
        assert!(
            !html.contains("http://") || !html.replace("http://www.w3.org", "").contains("http")
        );
        for title in ["Rate over time", "Delay distribution", "Window violations over time"] {
            assert!(html.contains(title), "no {title}");
        }
        assert!(!html.contains("Drops over time"), "there were none");
    }

    #[test]
    fn a_run_in_which_nothing_was_sent_says_so() {
        let recorder = Recorder::new(vec!["a".into()], RecorderOptions { series: true });
        assert!(page(&recorder.finish(0), "idle").contains("Nothing was sent"));
    }
}
