//! The HTML page of a sweep: settings, a table of estimates, and a chart of each chosen metric.
//!
//! If one setting is a quantity with several values, a chart has it on its horizontal axis and a
//! line for each stream and combination of the other settings. Otherwise it has a row for each
//! stream and combination. As in the other pages, there are neither scripts nor requests, and the
//! template engine escapes all text.

use askama::Template;
use std::io::{self, Write};

use crate::chart::{Chart, Line, colour, dashes};
use crate::figures::{Figure, in_page};
use crate::html::palettes;
use crate::human;
use crate::table::{print_safe, shortened};

/// The largest number of rows of the table.
const LISTED: usize = 2_000;
/// The largest number of lines of a chart, as in other pages.
const LINES: usize = 24;
/// The largest number of characters of a line's name.
const NAME: usize = 120;
/// The largest number of rows of a chart.
const ROWS: usize = 120;
/// The ratio of the largest to the smallest value from which an axis is logarithmic.
const LOGARITHMIC: f64 = 100.0;

/// An estimate of a metric for one stream at one combination of settings.
#[derive(Clone, Debug)]
pub struct SweepEstimate {
    /// The stream's name.
    pub stream: String,
    /// The combination of settings, of the settings that are not on the horizontal axis.
    pub settings: String,
    /// The value of the setting on the horizontal axis; `None` if there is no such setting.
    pub x: Option<f64>,
    /// The mean over the runs, in the unit of the chart.
    pub mean: f64,
    /// Half of the confidence interval; `None` for fewer than two runs.
    pub half: Option<f64>,
    /// Mean and interval as text.
    pub text: String,
}

/// A chart of one metric.
#[derive(Clone, Debug)]
pub struct SweepChart {
    /// The metric.
    pub title: String,
    /// The unit of the estimates; empty for counts.
    pub unit: String,
    /// The label of the horizontal axis: a setting with its unit; empty if there is none.
    pub x_label: String,
    /// The estimates, in the order of streams, then of combinations.
    pub estimates: Vec<SweepEstimate>,
}

/// The input of a sweep's page.
#[derive(Clone, Copy, Debug)]
pub struct SweepReportInput<'a> {
    /// The scenario's name.
    pub scenario_name: &'a str,
    /// The scenario file's text.
    pub scenario_text: &'a str,
    /// Facts of the whole sweep.
    pub facts: &'a [(&'static str, String)],
    /// The settings and their values.
    pub settings: &'a [(String, String)],
    /// What a mean and its interval are.
    pub caption: &'a str,
    /// The confidence level of the intervals, such as `95 %`.
    pub level: &'a str,
    /// The headings of the table.
    pub header: &'a [String],
    /// The rows of the table.
    pub rows: &'a [Vec<String>],
    /// The number of columns that name a row.
    pub keys: usize,
    /// The charts.
    pub charts: &'a [SweepChart],
    /// The notes for the reader.
    pub notes: &'a [String],
}

#[derive(Template)]
#[template(path = "sweep.html")]
struct Page<'a> {
    name: String,
    facts: &'a [(&'static str, String)],
    notes: Vec<String>,
    settings: Vec<(String, String)>,
    caption: &'a str,
    header: Vec<String>,
    key_columns: usize,
    rows: Vec<Vec<String>>,
    left_out: u64,
    colours: Vec<(&'static str, &'static str)>,
    /// The legend of the charts: name, colour and dashes.
    keys: Vec<(String, &'static str, &'static str)>,
    charts: Vec<Figure>,
    intervals: Vec<Intervals>,
    scenario: &'a str,
}

/// A chart with a row for each estimate.
struct Intervals {
    title: String,
    caption: String,
    rows: Vec<Row>,
    /// The ends of the axis.
    least: String,
    most: String,
}

/// A row of a chart; positions are per cent of the axis.
struct Row {
    /// The stream, in its first row.
    group: Option<String>,
    label: String,
    colour: &'static str,
    low: f64,
    wide: f64,
    mean: f64,
    text: String,
}

/// Writes the page to `output`. The output is deterministic.
///
/// # Errors
/// Returns the errors of `output`.
pub fn write_sweep_report(output: &mut impl Write, input: &SweepReportInput) -> io::Result<()> {
    let cells = |row: &Vec<String>| row.iter().map(|cell| print_safe(cell)).collect();
    let names = input.charts.first().map(line_names).unwrap_or_default();
    let has_lines = (1..=LINES).contains(&names.len())
        && input.charts.iter().flat_map(|chart| &chart.estimates).all(|one| one.x.is_some());
    let (charts, intervals) = if has_lines {
        let drawn =
            input.charts.iter().map(|chart| lines(chart, input.level)).collect::<Result<_, _>>();
        (drawn.map_err(io::Error::other)?, Vec::new())
    } else {
        (Vec::new(), input.charts.iter().map(|chart| intervals(chart, input.level)).collect())
    };
    let key = |(at, name): (usize, &String)| (name_of_line(name), colour(at), dashes(at));
    let page = Page {
        name: print_safe(input.scenario_name),
        facts: input.facts,
        notes: input.notes.iter().map(|note| print_safe(note)).collect(),
        settings: input
            .settings
            .iter()
            .map(|(place, values)| (print_safe(place), print_safe(values)))
            .collect(),
        caption: input.caption,
        header: input.header.iter().map(|head| print_safe(head)).collect(),
        key_columns: input.keys,
        rows: input.rows.iter().take(LISTED).map(cells).collect(),
        left_out: input.rows.len().saturating_sub(LISTED) as u64,
        colours: palettes(),
        keys: names.iter().enumerate().map(key).collect(),
        charts,
        intervals,
        scenario: input.scenario_text,
    };
    let html = page.render().map_err(io::Error::other)?;
    output.write_all(html.as_bytes())
}

/// Returns the name of an estimate's line: its stream and the settings that are not on the axis.
fn line_name(estimate: &SweepEstimate) -> String {
    match estimate.settings.as_str() {
        "" => estimate.stream.clone(),
        settings => format!("{}, {settings}", estimate.stream),
    }
}

/// Returns a name that may be long: the settings at its end tell lines apart.
fn name_of_line(name: &str) -> String {
    print_safe(name).chars().take(NAME).collect()
}

/// Returns the names of a chart's lines in the order of their first estimates.
fn line_names(chart: &SweepChart) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for estimate in &chart.estimates {
        let name = line_name(estimate);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the ends of all intervals of a chart, and whether its axis is logarithmic.
fn span(chart: &SweepChart) -> (f64, f64, bool) {
    let half = |one: &SweepEstimate| one.half.unwrap_or(0.0);
    let low = chart.estimates.iter().map(|one| one.mean - half(one)).fold(f64::INFINITY, f64::min);
    let high = chart.estimates.iter().map(|one| one.mean + half(one)).fold(0.0, f64::max);
    (low, high, low > 0.0 && high / low > LOGARITHMIC)
}

fn caption(level: &str, logarithmic: bool) -> String {
    let axis = if logarithmic { ", on a logarithmic axis" } else { "" };
    format!("Mean over the runs with its {level} confidence interval{axis}.")
}

fn lines(chart: &SweepChart, level: &str) -> Result<Figure, String> {
    let (mut drawn, mut halves) = (Vec::new(), Vec::new());
    for name in line_names(chart) {
        let mut ours: Vec<_> =
            chart.estimates.iter().filter(|one| line_name(one) == name).collect();
        ours.sort_by(|one, other| one.x.unwrap_or(0.0).total_cmp(&other.x.unwrap_or(0.0)));
        let point = |one: &&SweepEstimate| (one.x.unwrap_or(0.0), one.mean);
        drawn.push(Line { name: name_of_line(&name), points: ours.iter().map(point).collect() });
        halves.push(ours.iter().map(|one| one.half.unwrap_or(0.0)).collect());
    }
    let mut label = match chart.unit.as_str() {
        "" => chart.title.clone(),
        unit => format!("{} ({unit})", chart.title),
    };
    if chart.estimates.iter().any(|one| one.half.is_some()) {
        label += &format!(" ± {level}");
    }
    let y_log = span(chart).2;
    let axes = Chart { y_log, ..in_page(&chart.x_label, &label) };
    Figure::estimates(chart.title.clone(), caption(level, y_log), axes, &drawn, &halves)
}

fn intervals(chart: &SweepChart, level: &str) -> Intervals {
    let (low, high, logarithmic) = span(chart);
    // Positions have one decimal of a per cent, a pixel of the widest page.
    let place = |value: f64| {
        let share = match (high > 0.0, logarithmic) {
            (false, _) => 0.0,
            (true, false) => value.max(0.0) / high,
            (true, true) => (value.max(low) / low).ln() / (high / low).ln(),
        };
        (share * 1000.0).round() / 10.0
    };
    let mut streams: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for one in chart.estimates.iter().take(ROWS) {
        let is_first = !streams.contains(&one.stream.as_str());
        if is_first {
            streams.push(&one.stream);
        }
        let stream = streams.iter().position(|stream| *stream == one.stream).unwrap_or(0);
        let half = one.half.unwrap_or(0.0);
        let from = place(one.mean - half);
        rows.push(Row {
            group: (is_first && !one.settings.is_empty()).then(|| shortened(&one.stream)),
            label: match one.settings.as_str() {
                "" => shortened(&one.stream),
                settings => print_safe(settings),
            },
            colour: colour(stream),
            low: from,
            wide: ((place(one.mean + half) - from) * 10.0).round() / 10.0,
            mean: place(one.mean),
            text: one.text.clone(),
        });
    }
    let left_out = chart.estimates.len().saturating_sub(ROWS) as u64;
    let mut caption = caption(level, logarithmic);
    if left_out > 0 {
        caption += &format!(" The table also has {}.", human::count(left_out, "further row"));
    }
    let end = |value: f64| {
        let digits = if value >= 100.0 || value == 0.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", chart.unit).trim_end().to_owned()
    };
    let least = if logarithmic { low } else { 0.0 };
    Intervals { title: chart.title.clone(), caption, rows, least: end(least), most: end(high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(with_x: bool) -> String {
        let mut estimates = Vec::new();
        for stream in ["<script>", "bulk\u{202e}"] {
            for (at, rate) in ["10 Mbit/s", "20 Mbit/s", "30 Mbit/s"].into_iter().enumerate() {
                let x = f64::from(u32::try_from(at).unwrap() + 1) * 10.0;
                estimates.push(SweepEstimate {
                    stream: stream.into(),
                    settings: if with_x { String::new() } else { format!("link.rate={rate}") },
                    x: with_x.then_some(x),
                    mean: 100.0 / x,
                    half: Some(1.0),
                    text: "5.0 ms ± 1.0 ms".into(),
                });
            }
        }
        let chart = SweepChart {
            title: "delay mean".into(),
            unit: "ms".into(),
            x_label: "link.rate (Mbit/s)".into(),
            estimates,
        };
        let mut html = Vec::new();
        let input = SweepReportInput {
            scenario_name: "s",
            scenario_text: "a = \"<b>\"",
            facts: &[("runs", "6".into())],
            settings: &[("link.rate".into(), "10 Mbit/s, 20 Mbit/s, 30 Mbit/s".into())],
            caption: "means",
            level: "95 %",
            header: &["stream".into()],
            rows: &[vec!["<script>".into()]],
            keys: 1,
            charts: &[chart],
            notes: &[],
        };
        write_sweep_report(&mut html, &input).unwrap();
        String::from_utf8(html).unwrap()
    }

    #[test]
    fn a_quantity_is_the_axis_of_a_line_chart() {
        let html = page(true);
        assert!(html.contains("delay mean (ms) ± 95 %") && html.contains("link.rate (Mbit/s)"));
        assert!(!html.contains("<script") && !html.contains('\u{202e}'));
        assert!(html == page(true), "not deterministic");
    }

    #[test]
    fn other_settings_are_rows_with_intervals() {
        let html = page(false);
        assert_eq!(html.matches("<circle").count(), 6);
        assert!(html.contains("with its 95 % confidence interval"), "{html}");
        assert_eq!(html.matches("class=\"group\"").count(), 2);
        // The mean 10 of 0 to 11, and its interval from 9 to 11.
        assert!(html.contains("cx=\"90.9%\""), "{html}");
        assert!(html.contains("x=\"81.8%\" y=\"4\" width=\"18.2%\""), "{html}");
        assert!(html.contains("<span>0 ms</span><span>11.00 ms</span>"), "{html}");
    }
}
