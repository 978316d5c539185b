//! The result of a sweep as a text table and as JSON: means over seeds with their intervals.

use millstream_report::{human, text_table};
use serde::Serialize;
use std::collections::BTreeMap;

use crate::grid::Grid;
use crate::interval::{CONFIDENCE, Interval};
use crate::outcome::{Cell, Column, Kind, Simulated, name_column};
use crate::run::SweepResult;
use crate::setting::display_value;
use crate::stop_rule::{StopRule, without_unit};

/// Columns of a link's sweep that the table shows.
const LINK: [&str; 6] =
    ["rate_bps", "delay_mean_ns", "delay_p99_ns", "delay_p999_ns", "dropped_late", "dropped_full"];

/// Columns of a network's sweep that the table shows.
const NETWORK: [&str; 6] =
    ["rate_bps", "delay_mean_ns", "delay_p99_ns", "goodput_bps", "rtt_p50_ns", "rtt_p99_ns"];

/// Columns of a fabric's sweep that the table shows.
const FABRIC: [&str; 4] = ["offered", "throughput", "delay_mean_ns", "delay_max_ns"];

/// The metrics of one stream at one point.
#[derive(Debug, Serialize)]
struct StreamMetrics {
    point: usize,
    settings: BTreeMap<String, toml::Value>,
    stream: String,
    /// Number of counted runs.
    runs: usize,
    /// Confidence level of the intervals, 0 to 1.
    confidence: f64,
    /// Estimate of each metric over the runs with a value; null if there are none.
    metrics: BTreeMap<&'static str, Option<Estimate>>,
}

#[derive(Debug, Serialize)]
struct Estimate {
    runs: usize,
    mean: f64,
    half_width: Option<f64>,
}

impl SweepResult {
    /// Returns the table: for each stream of each point, mean over seeds and half-width of the
    /// confidence interval. The headings of columns with intervals have the level, [`CONFIDENCE`].
    ///
    /// It also shows the metrics of `stop_rules`, even if the table omits them by default.
    ///
    /// A table of more than `width` columns has several blocks, each with settings and stream.
    #[must_use]
    pub fn table(&self, grid: &Grid, stop_rules: &[StopRule], width: Option<usize>) -> String {
        let settings: Vec<usize> = (0..grid.settings().len()).collect();
        let (header, rows) = self.cells(grid, &settings, &metrics(grid, stop_rules));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        text_table(&header, rows, grid.settings().len() + 1, width)
    }

    /// Returns the headings and the rows of the table: `settings`, stream, seeds and `metrics`.
    pub(crate) fn cells(
        &self,
        grid: &Grid,
        settings: &[usize],
        metrics: &[usize],
    ) -> (Vec<String>, Vec<Vec<String>>) {
        let mut header: Vec<String> =
            settings.iter().map(|at| grid.settings()[*at].place.clone()).collect();
        header.extend(["stream", "seeds"].map(str::to_owned));
        let mut rows = Vec::new();
        let mut has_intervals = vec![false; metrics.len()];
        self.by_stream(grid, |point, stream, runs| {
            let values = grid.values(point);
            let mut row: Vec<String> =
                settings.iter().map(|at| display_value(values[*at])).collect();
            row.extend([stream.to_owned(), runs.len().to_string()]);
            for (at, has_intervals) in metrics.iter().zip(&mut has_intervals) {
                let found = interval(runs, *at);
                *has_intervals |= found.is_some_and(|found| found.half_width.is_some());
                let column = &grid.columns()[*at];
                row.push(found.map_or("–".into(), |found| format_interval(column, found)));
            }
            rows.push(row);
        });
        header.extend(metrics.iter().zip(has_intervals).map(|(at, has_intervals)| {
            let heading = heading(grid.columns()[*at].name);
            // No-break spaces keep the level on one line.
            let level = level().replace(' ', "\u{a0}");
            if has_intervals { format!("{heading} ±\u{a0}{level}") } else { heading }
        }));
        (header, rows)
    }

    /// Returns a JSON array with all metrics of each stream of each point.
    #[must_use]
    pub fn json(&self, grid: &Grid) -> String {
        let mut lines = Vec::new();
        self.by_stream(grid, |point, stream, runs| {
            let numbers = grid.columns().iter().enumerate();
            let numbers = numbers.filter(|(_, column)| column.kind != Kind::Text);
            let places = grid.settings().iter().map(|setting| setting.place.clone());
            lines.push(StreamMetrics {
                point,
                settings: places.zip(grid.values(point).into_iter().cloned()).collect(),
                stream: stream.to_owned(),
                runs: runs.len(),
                confidence: CONFIDENCE,
                metrics: numbers
                    .map(|(at, column)| {
                        let estimate =
                            interval(runs, at).map(|Interval { runs, mean, half_width }| {
                                Estimate { runs, mean, half_width }
                            });
                        (column.name, estimate)
                    })
                    .collect(),
            });
        });
        serde_json::to_string_pretty(&lines).unwrap_or_default() + "\n"
    }

    /// Calls `call` for each stream of each point with its rows, one per run.
    pub(crate) fn by_stream(&self, grid: &Grid, mut call: impl FnMut(usize, &str, &[&Vec<Cell>])) {
        let name = name_column(grid.columns());
        for runs in self.runs.chunk_by(|one, other| one.point == other.point) {
            let streams = runs.iter().map(|run| run.rows.len()).max().unwrap_or(0);
            for at in 0..streams {
                let rows: Vec<&Vec<Cell>> =
                    runs.iter().filter_map(|run| run.rows.get(at)).collect();
                if let Some(Cell::Text(stream)) = rows.first().map(|row| &row[name]) {
                    call(runs[0].point, stream, &rows);
                }
            }
        }
    }
}

/// Returns the metrics of a table, as indices of columns.
pub(crate) fn metrics(grid: &Grid, stop_rules: &[StopRule]) -> Vec<usize> {
    let shown_always: &[&str] = match grid.simulated() {
        Simulated::Link => &LINK,
        Simulated::Network => &NETWORK,
        Simulated::Fabric => &FABRIC,
    };
    let wanted = |at: &usize| {
        shown_always.contains(&grid.columns()[*at].name)
            || stop_rules.iter().any(|rule| rule.column() == *at)
    };
    (0..grid.columns().len()).filter(wanted).collect()
}

/// Returns the heading of a metric, such as `p99 delay`: without the unit, which each cell has.
pub(crate) fn heading(name: &str) -> String {
    let words = without_unit(name).replace('_', " ");
    match words.split_once(' ') {
        Some((of @ ("delay" | "jitter"), "p999")) => format!("p99.9 {of}"),
        Some((of @ ("delay" | "jitter" | "transfer"), statistic)) => format!("{statistic} {of}"),
        Some(("rtt", statistic)) => format!("{statistic} RTT"),
        _ => words,
    }
}

/// Returns the confidence level as text.
pub(crate) fn level() -> String {
    format!("{:.0} %", CONFIDENCE * 100.0)
}

pub(crate) fn interval(rows: &[&Vec<Cell>], column: usize) -> Option<Interval> {
    let values: Vec<f64> = rows.iter().filter_map(|row| row[column].number()).collect();
    Interval::of(&values)
}

/// Formats a mean and its half-width, such as `12.3 ms ± 120 µs`.
pub(crate) fn format_interval(column: &Column, interval: Interval) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rounded = |value: f64| value.round() as u64;
    let one = |value: f64| match column.kind {
        Kind::Share => format!("{:.2} %", value * 100.0),
        _ if column.name.ends_with("_ns") => human::time(rounded(value)),
        _ if column.name.ends_with("_bps") => human::rate(rounded(value)),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    };
    match interval.half_width {
        Some(half) => format!("{} ± {}", one(interval.mean), one(half)),
        None => one(interval.mean),
    }
}
