//! The HTML page of a sweep.

use millstream_report::{SweepChart, SweepEstimate, SweepReportInput, human, write_sweep_report};
use std::io::{self, Write};
use toml::Value;

use crate::grid::Grid;
use crate::interval::Interval;
use crate::outcome::{Column, Kind};
use crate::run::{Plan, SweepResult};
use crate::setting::{Setting, display_value};
use crate::table::{format_interval, heading, interval, level, metrics};

/// Metrics with a chart, after those of the stop rules.
const CHARTED: [&str; 5] =
    ["delay_mean_ns", "delay_p99_ns", "delay_p999_ns", "rate_bps", "throughput"];
/// Metrics of the page's table that the text table has no space for.
const ALSO_LISTED: [&str; 3] = ["delay_p99_ns", "delay_p999_ns", "delay_max_ns"];
/// The largest number of failed runs that are listed.
const FAILURES: usize = 20;
/// The least number of values of a setting on the horizontal axis.
const AXIS_VALUES: usize = 3;

const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
const RATES: [(f64, &str); 4] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

/// The setting on the horizontal axis. Its values have one unit.
struct Axis {
    /// The index of the setting.
    setting: usize,
    unit: String,
}

impl SweepResult {
    /// Writes a page with the settings, a table of means with intervals, and a chart of each metric
    /// of the plan's stop rules, of delays, and of the rate or the throughput.
    ///
    /// # Errors
    /// Fails if the page cannot be written.
    pub fn write_page(&self, out: &mut impl Write, grid: &Grid, plan: &Plan) -> io::Result<()> {
        let names = |at: &usize| grid.columns()[*at].name;
        let shown = metrics(grid, &plan.stop_rules);
        let listed = |at: &usize| shown.contains(at) || ALSO_LISTED.contains(&names(at));
        let listed: Vec<usize> = (0..grid.columns().len()).filter(listed).collect();
        // The page lists the settings, so a setting with one value needs no column.
        let varied: Vec<usize> =
            (0..grid.settings().len()).filter(|at| grid.settings()[*at].values.len() > 1).collect();
        let (header, rows) = self.cells(grid, &varied, &listed);
        let mut charted: Vec<usize> = plan.stop_rules.iter().map(|rule| rule.column()).collect();
        let all = 0..grid.columns().len();
        charted.extend(CHARTED.iter().filter_map(|name| all.clone().find(|at| names(at) == *name)));
        let mut seen = Vec::new();
        charted.retain(|at| {
            !seen.contains(at) && {
                seen.push(*at);
                true
            }
        });
        let axis = axis(grid.settings());
        let charts: Vec<SweepChart> =
            charted.iter().map(|column| self.chart(grid, *column, axis.as_ref())).collect();
        let settings: Vec<(String, String)> = grid
            .settings()
            .iter()
            .map(|setting| {
                let values: Vec<String> = setting.values.iter().map(display_value).collect();
                (setting.place.clone(), values.join(", "))
            })
            .collect();
        let mut facts = vec![
            ("combinations", grid.points().to_string()),
            ("seeds", seeds(&plan.seeds)),
            ("runs", self.progress.ended.to_string()),
        ];
        if !self.failures.is_empty() {
            facts.push(("failed runs", self.failures.len().to_string()));
        }
        let caption = format!(
            "Mean over the runs of a combination ± half of its {} confidence interval, by \
             Student's t.",
            level()
        );
        let input = SweepReportInput {
            scenario_name: grid.scenario_name(),
            scenario_text: grid.scenario_text(),
            facts: &facts,
            settings: &settings,
            caption: &caption,
            level: &level(),
            header: &header,
            keys: varied.len() + 1,
            rows: &rows,
            charts: &charts.into_iter().filter(|it| !it.estimates.is_empty()).collect::<Vec<_>>(),
            notes: &self.notes(),
        };
        write_sweep_report(out, &input)
    }

    /// Returns a note for each failed run.
    fn notes(&self) -> Vec<String> {
        let failure = |one: &crate::Failure| {
            format!("failed: {} seed {}: {}", one.settings, one.seed, one.why)
        };
        let mut notes: Vec<String> = self.failures.iter().take(FAILURES).map(failure).collect();
        if self.failures.len() > FAILURES {
            let more = (self.failures.len() - FAILURES) as u64;
            notes.push(format!("{} failed", human::count(more, "more run")));
        }
        notes
    }

    fn chart(&self, grid: &Grid, column: usize, axis: Option<&Axis>) -> SweepChart {
        let of = &grid.columns()[column];
        let mut found: Vec<(usize, String, Interval)> = Vec::new();
        self.by_stream(grid, |point, stream, runs| {
            if let Some(interval) = interval(runs, column) {
                found.push((point, stream.to_owned(), interval));
            }
        });
        let largest = found.iter().map(|(_, _, one)| one.mean).fold(0.0, f64::max);
        let (scale, unit) = unit(of, largest);
        // Rows of one stream are adjacent, so that its combinations can be compared.
        let mut streams: Vec<String> = Vec::new();
        for (_, stream, _) in &found {
            if !streams.contains(stream) {
                streams.push(stream.clone());
            }
        }
        let place = |stream: &String| streams.iter().position(|other| other == stream);
        found.sort_by_key(|(point, stream, _)| (place(stream), *point));
        let estimate = |(point, stream, interval): (usize, String, Interval)| SweepEstimate {
            stream,
            settings: varied(grid, point, axis),
            x: axis.and_then(|axis| quantity(grid.values(point)[axis.setting])).map(|it| it.0),
            mean: interval.mean / scale,
            half: interval.half_width.map(|half| half / scale),
            text: format_interval(of, interval),
        };
        SweepChart {
            title: title(&heading(of.name)),
            unit: unit.to_owned(),
            x_label: axis.map_or(String::new(), |axis| {
                let place = &grid.settings()[axis.setting].place;
                if axis.unit.is_empty() {
                    place.clone()
                } else {
                    format!("{place} ({})", axis.unit)
                }
            }),
            estimates: found.into_iter().map(estimate).collect(),
        }
    }
}

/// Returns a heading with a capital letter, unless it begins with a symbol such as `p99`.
fn title(heading: &str) -> String {
    let mut rest = heading.chars();
    match (rest.next(), heading.chars().nth(1)) {
        (Some(first), Some(second)) if second.is_alphabetic() => {
            first.to_uppercase().chain(rest).collect()
        }
        _ => heading.to_owned(),
    }
}

/// Returns the unit in which a chart shows a metric up to `largest`, and its scale.
fn unit(column: &Column, largest: f64) -> (f64, &'static str) {
    let of = |units: &[(f64, &'static str); 4]| {
        units.iter().find(|unit| largest >= unit.0).copied().unwrap_or(units[3])
    };
    match column.kind {
        Kind::Share => (0.01, "%"),
        _ if column.name.ends_with("_ns") => of(&TIMES),
        _ if column.name.ends_with("_bps") => of(&RATES),
        _ => (1.0, ""),
    }
}

/// Returns the settings of a point that vary and are not on the axis.
fn varied(grid: &Grid, point: usize, axis: Option<&Axis>) -> String {
    let settings = grid.settings().iter().zip(grid.values(point)).enumerate();
    let varied = settings.filter(|(at, (setting, _))| {
        setting.values.len() > 1 && axis.is_none_or(|axis| axis.setting != *at)
    });
    let varied: Vec<_> = varied.map(|(_, varied)| varied).collect();
    let several = varied.len() > 1;
    let one = |(setting, value): (&Setting, &Value)| {
        // The last part of a place tells settings apart.
        let name = setting.place.rsplit('.').next().unwrap_or(&setting.place);
        if several { format!("{name} {}", display_value(value)) } else { display_value(value) }
    };
    varied.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the setting with the most values among those with quantities of one unit.
fn axis(settings: &[Setting]) -> Option<Axis> {
    let axes = settings.iter().enumerate().filter_map(|(setting, of)| {
        let quantities: Option<Vec<(f64, String)>> = of.values.iter().map(quantity).collect();
        let quantities = quantities.filter(|all| all.len() >= AXIS_VALUES)?;
        let unit = quantities[0].1.clone();
        quantities.iter().all(|one| one.1 == unit).then_some(Axis { setting, unit })
    });
    axes.max_by_key(|axis| settings[axis.setting].values.len())
}

/// Returns a value's number and unit; `None` if it is not a quantity.
#[allow(clippy::cast_precision_loss)]
fn quantity(value: &Value) -> Option<(f64, String)> {
    match value {
        Value::Integer(number) => Some((*number as f64, String::new())),
        Value::Float(number) => Some((*number, String::new())),
        Value::String(text) => {
            let text = text.trim();
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            let unit = text[end..].trim();
            // `1/4` and `2001:db8::1` are not quantities.
            let is_unit =
                unit.is_empty() || unit.starts_with(|c: char| c.is_alphabetic() || c == '%');
            let number = text[..end].parse().ok()?;
            is_unit.then(|| (number, unit.to_owned()))
        }
        _ => None,
    }
}

/// Returns the number of seeds and, for few, the seeds.
fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [one] => format!("seed {one}"),
        [first, .., last] if seeds.windows(2).all(|pair| pair[0] + 1 == pair[1]) => {
            format!("{} ({first} to {last})", seeds.len())
        }
        _ => seeds.len().to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_the_most_quantities_of_one_unit() {
        let axis = |texts: &[&str]| {
            let settings: Vec<Setting> = texts.iter().map(|text| text.parse().unwrap()).collect();
            axis(&settings).map(|axis| (axis.setting, axis.unit))
        };
        assert_eq!(axis(&["a.b=fifo,drr,wfq"]), None);
        assert_eq!(axis(&["a.b=1,2"]), None);
        assert_eq!(axis(&["a.b=1/2,1/3,1/4"]), None);
        assert_eq!(axis(&["a.b=1 ms,2 s,3 s"]), None);
        assert_eq!(
            axis(&["a.b=1,2,3", "c.d=9 Mbit/s,10 Mbit/s,11.5 Mbit/s,12 Mbit/s"]),
            Some((1, "Mbit/s".to_owned()))
        );
    }
}
