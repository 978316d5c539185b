//! The report of a run: one HTML page with table and charts, without network access or scripts.
//!
//! All text of a scenario is untrusted. The template engine escapes all text of the page. Charts
//! contain names only in the description for screen readers, which the chart module escapes. As a
//! second line of defence, the content security policy of the page forbids scripts and all
//! requests.
//!
//! Charts are drawn once, in the colours of a light page; CSS rules on the colour attributes
//! replace them in a dark theme.

use askama::Template;
use std::io::{self, Write};

use crate::chart::{PALETTE, colour, dashes};
use crate::figures::{Figure, figures, name};
use crate::human;
use crate::network::{NetworkTable, tables};
use crate::recorder::{Results, StreamResults};
use crate::series::Series;
use crate::table::{bound_cells, cells, print_safe, print_safe_line, shortened};

/// The input of a report.
#[derive(Clone, Copy, Debug)]
pub struct ReportInput<'a> {
    /// The results of the run, including time series.
    pub results: &'a Results,
    /// The scenario's name.
    pub scenario_name: &'a str,
    /// The scenario file's text.
    pub scenario_text: &'a str,
    /// The name of the discipline.
    pub discipline: &'a str,
    /// The name of the queue structure.
    pub structure: &'a str,
    /// The rate of the link, bits/s.
    pub link_rate_bps: u64,
    /// The notes for the reader.
    pub notes: &'a [String],
}

/// The largest number of streams in the table.
const LISTED: usize = 200;
/// The largest number of characters of a name in its tooltip.
const TOOLTIP: usize = 400;
/// The palette on a dark page: the hues of [`PALETTE`] with lighter dark colours.
const DARK: [&str; PALETTE.len()] =
    ["#4AA3DF", "#F0803C", "#2BC49A", "#DD97BC", "#F0B23C", "#7CC7F2", "#B98BC9"];

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    name: String,
    facts: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    has_bounds: bool,
    left_out: u64,
    /// The light and dark colours of the lines.
    colours: Vec<(&'static str, &'static str)>,
    keys: Vec<LegendEntry>,
    charts: Vec<Figure>,
    sent_any: bool,
    /// The reason why charts are missing; empty if none is.
    no_charts_reason: &'static str,
    notes: Vec<String>,
    /// The links and sources of a network.
    tables: Vec<NetworkTable>,
    scenario: &'a str,
}

struct Row {
    name: String,
    full_name: String,
    colour: &'static str,
    dashes: &'static str,
    cells: [String; 13],
    /// The bound on the delay and its tightness.
    bounds: [String; 2],
    share: String,
}

/// An entry of the legend with its bar of the share chart.
struct LegendEntry {
    name: String,
    colour: &'static str,
    dashes: &'static str,
    /// The share of all bytes sent, per cent.
    share: String,
}

/// Returns every line colour with its counterpart on a dark page.
pub(crate) fn palettes() -> Vec<(&'static str, &'static str)> {
    PALETTE.into_iter().zip(DARK).collect()
}

/// Writes the page to `output`. The output is deterministic.
///
/// # Errors
/// Returns the errors of `output`.
pub fn write_report(output: &mut impl Write, input: &ReportInput) -> io::Result<()> {
    let results = input.results;
    let total = results.combined(0..results.streams.len());
    let page = Page {
        name: print_safe_line(input.scenario_name),
        facts: facts(input, &total),
        rows: rows(results, &total),
        has_bounds: !results.bounds.is_empty(),
        left_out: results.names.len().saturating_sub(LISTED) as u64,
        colours: palettes(),
        keys: keys(results, &total),
        charts: figures(results).map_err(io::Error::other)?,
        no_charts_reason: if total.sent == 0 {
            "Nothing was sent, so there are no rates and delays to draw."
        } else if results.series.is_none() {
            "Time series were not recorded, so there is nothing to draw."
        } else if results.end_ns == 0 {
            "The run has length zero, so there is nothing to draw."
        } else {
            ""
        },
        sent_any: total.sent_bytes > 0,
        notes: input.notes.iter().map(|note| print_safe(note)).collect(),
        tables: results.network.iter().flat_map(tables).collect(),
        scenario: input.scenario_text,
    };
    let html = page.render().map_err(io::Error::other)?;
    output.write_all(html.as_bytes())
}

fn facts(input: &ReportInput, total: &StreamResults) -> Vec<(&'static str, String)> {
    let results = input.results;
    vec![
        ("discipline", input.discipline.to_owned()),
        ("structure", input.structure.to_owned()),
        ("link", human::rate(input.link_rate_bps)),
        ("link busy", format!("{:.1} %", results.utilisation() * 100.0)),
        ("simulated time", human::time(results.end_ns)),
        ("packets sent", format!("{} of {}", total.sent, total.arrived)),
        ("violations", total.violations.to_string()),
    ]
}

/// Returns the index of the series that contains a stream.
fn series_of(results: &Results, stream: usize) -> usize {
    results.series.as_ref().map_or(stream, |series| stream.min(series.streams().len().max(1) - 1))
}

/// Returns the bytes sent as a share of all, per cent.
// The page shows one decimal, so rounding to `f64` is not visible.
#[allow(clippy::cast_precision_loss)]
fn share(stream: &StreamResults, total: &StreamResults) -> f64 {
    100.0 * stream.sent_bytes as f64 / total.sent_bytes.max(1) as f64
}

fn rows(results: &Results, total: &StreamResults) -> Vec<Row> {
    let row = |(at, (name, stream)): (usize, (&String, &StreamResults))| Row {
        name: shortened(name),
        full_name: print_safe_line(name).chars().take(TOOLTIP).collect(),
        colour: colour(series_of(results, at)),
        dashes: dashes(series_of(results, at)),
        share: format!("{:.1}", share(stream, total)),
        cells: cells(stream, results.end_ns),
        bounds: bound_cells(results.bound(at)),
    };
    let streams = results.names.iter().zip(&results.streams).enumerate();
    let mut rows: Vec<Row> = streams.take(LISTED).map(row).collect();
    if results.streams.len() > 1 {
        rows.push(Row {
            name: "total".into(),
            full_name: String::new(),
            colour: "",
            dashes: "",
            share: format!("{:.1}", share(total, total)),
            cells: cells(total, results.end_ns),
            bounds: bound_cells(None),
        });
    }
    rows
}

fn keys(results: &Results, total: &StreamResults) -> Vec<LegendEntry> {
    let Some(series) = &results.series else { return Vec::new() };
    let key = |at| {
        let members = results.combined(Series::members(at, results.streams.len()));
        LegendEntry {
            name: name(results, at),
            colour: colour(at),
            dashes: dashes(at),
            share: format!("{:.1}", share(&members, total)),
        }
    };
    (0..series.streams().len()).map(key).collect()
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
            notes: &["a <b>note".into()],
        };
        write_report(&mut html, &input).unwrap();
        String::from_utf8(html).unwrap()
    }

    fn run(names: Vec<String>, event: Event, series: bool) -> Results {
        let streams = u32::try_from(names.len()).unwrap();
        let mut recorder = Recorder::new(names, RecorderOptions { series });
        for k in 0..100 {
            recorder.arrived(StreamId(k % streams), 0, 100);
            recorder.departed(&Departure {
                time_ns: u64::from(k) * 1_000_000,
                stream: StreamId(k % streams),
                packet: u64::from(k / streams),
                bytes: 100,
                arrival_ns: 0,
                deadline_ns: None,
                event,
                tag: 0,
            });
            recorder.missed(StreamId(0), u64::from(k), 1, 1);
        }
        recorder.finish(100_000_000)
    }

    #[test]
    fn names_are_escaped_and_the_page_is_self_contained() {
        let long = format!("{}end", "x".repeat(300));
        let names = vec![
            "<script>alert(1)</script>".into(),
            "\"&größe".into(),
            "'\" onload=alert(1) x='".into(),
            "\u{202e}\u{1b}</svg><img src=x>".into(),
            long.clone(),
        ];
        let html = page(&run(names, Event::Sent, true), "<i>name\u{202e}");
        for tag in ["<script", "<i>name", "<img", "<b>note", "\" onload", "' onload"] {
            assert!(!html.contains(tag), "{tag}");
        }
        assert!(!html.contains('\u{1b}') && !html.contains('\u{202e}'));
        assert!(html.contains(r"\u{202e}\u{1b}&#60;/svg") && html.contains(r"name\u{202e}"));
        assert!(html.contains("größe") && html.contains("note"));
        assert_eq!(html.matches(&long).count(), 1, "only in the tooltip");
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http:"));
        assert!(!html.contains("https:") && !html.contains("url(") && !html.contains(" src=\""));
        for title in
            ["Rate over time", "Delay distribution", "Delay tail", "Window violations over time"]
        {
            assert!(html.contains(title), "no {title}");
        }
        assert!(!html.contains("Drops over time"), "the run has no drops");
        assert!(html.contains("Share of sent bytes"));
    }

    #[test]
    fn report_is_deterministic() {
        let names = || (0..40).map(|k| format!("s{k}")).collect();
        let first = page(&run(names(), Event::Sent, true), "n");
        assert!(first == page(&run(names(), Event::Sent, true), "n"));
        assert!(first.contains("17 other streams"));
    }

    #[test]
    fn report_states_that_nothing_was_sent() {
        let recorder = Recorder::new(vec!["a".into()], RecorderOptions { series: true });
        assert!(page(&recorder.finish(0), "idle").contains("Nothing was sent"));
        let none = Recorder::new(Vec::new(), RecorderOptions { series: true });
        assert!(page(&none.finish(5), "idle").contains("Nothing was sent"));
        let dropped = page(&run(vec!["a".into()], Event::DroppedLate, true), "n");
        assert!(dropped.contains("Nothing was sent") && dropped.contains("Drops over time"));
        assert!(!dropped.contains("Rate over time") && !dropped.contains("Share of sent bytes"));
    }

    #[test]
    fn report_states_that_series_were_not_recorded() {
        let html = page(&run(vec!["a".into()], Event::Sent, false), "n");
        assert!(html.contains("were not recorded") && !html.contains("Nothing was sent"));
    }
}
