//! The live server under a live web load: Figures 6 to 10 from `measured/live.csv`.
//!
//! `make paper-coprocessor` writes the file.

use std::fmt::Write as _;
use std::path::Path;

use millstream_report::chart::Line;

use crate::claim::{Claim, Evidence};
use crate::experiment::{figure, measured};

/// Averaging time of bandwidth, s. It is the length of the film, whose rate varies.
const WINDOW: usize = 8;

/// Names of the loads in the files and in the figures.
const LOADS: [(&str, &str); 4] =
    [("0", "no load"), ("45", "45 %"), ("60", "60 %"), ("96", "> 90 %")];

/// Columns of `live.csv` after placement and load.
const TIME: usize = 0;
const USED: usize = 1;
const RATE: usize = 2;
const WORST: usize = 4;
/// Offset from s1's columns to s2's.
const NEXT: usize = 3;
const NEXT_RATE: usize = RATE + NEXT;

/// Columns of `live-summary.csv`.
const SUMMARY_USED: usize = 0;
const SUMMARY_RATE: usize = 1;
const P99: usize = 3;
const LOST: usize = 6;
const VIOLATIONS: usize = 7;

/// The measurements.
pub(super) struct Live {
    /// Placement and load, and the values of a second.
    seconds: Vec<(String, Vec<f64>)>,
    summary: Vec<(String, Vec<f64>)>,
}

impl Live {
    pub(super) fn read(folder: &Path) -> miette::Result<Self> {
        Ok(Self {
            seconds: measured(folder, "live.csv", 2)?,
            summary: measured(folder, "live-summary.csv", 2)?,
        })
    }

    fn line(&self, name: String, placement: &str, load: &str, column: usize) -> Line {
        let run = format!("{placement} {load}");
        let of_run = self.seconds.iter().filter(|(name, _)| *name == run);
        let points: Vec<_> = of_run.map(|(_, row)| (row[TIME], row[column])).collect();
        if !matches!(column, RATE | NEXT_RATE) {
            return Line { name, points };
        }
        let mean = |some: &[(f64, f64)]| {
            (some[WINDOW - 1].0, some.iter().map(|(_, rate)| rate).sum::<f64>() / WINDOW as f64)
        };
        Line { name, points: points.windows(WINDOW).map(mean).collect() }
    }

    /// Returns one line per load.
    fn lines(&self, placement: &str, column: usize) -> Vec<Line> {
        let named = |name: &str| if column == USED { name.into() } else { format!("s1, {name}") };
        let of = |(load, name): &(&str, &str)| self.line(named(name), placement, load, column);
        let mut lines: Vec<Line> = LOADS.iter().map(of).collect();
        if column != USED {
            lines.push(self.line("s2, > 90 %".to_owned(), placement, LOADS[3].0, column + NEXT));
        }
        lines
    }

    /// Returns the figures: file, title, drawing.
    pub(super) fn draw(&self) -> miette::Result<Vec<(String, String, String)>> {
        let (used, rate) =
            (("utilisation (%)", false), ("bandwidth of the last 8 s (kb/s)", false));
        let waits = ("queueing delay, worst of a second (ms)", true);
        [
            (
                "live-fig6",
                "Fig 6, live: utilisation of the machine",
                used,
                self.lines("host", USED),
            ),
            ("live-fig7", "Fig 7, live: bandwidth, host", rate, self.lines("host", RATE)),
            ("live-fig8", "Fig 8, live: queueing delay, host", waits, self.lines("host", WORST)),
            ("live-fig9", "Fig 9, live: bandwidth, NI", rate, self.lines("ni", RATE)),
            ("live-fig10", "Fig 10, live: queueing delay, NI", waits, self.lines("ni", WORST)),
        ]
        .into_iter()
        .map(|(file, title, axis, lines)| {
            let svg = figure(title, ("time (s)", false), axis, &lines)?;
            Ok((format!("{file}.svg"), title.to_owned(), svg))
        })
        .collect()
    }

    fn value(&self, placement: &str, load: usize, column: usize) -> f64 {
        let run = format!("{placement} {}", LOADS[load].0);
        let row = self.summary.iter().find(|(name, _)| *name == run);
        row.map_or(f64::NAN, |(_, row)| row[column])
    }

    /// Returns the paper's statements, tested on the live server.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |what: &str, paper: &str, ours: String, holds| {
            Claim::exactly(
                format!("Co-processor, {what}"),
                paper.to_owned(),
                ours,
                Evidence::Measured,
                holds,
            )
        };
        let change = |placement| {
            let rate = |load| self.value(placement, load, SUMMARY_RATE);
            let changes = [1, 2, 3].map(|load| (rate(load) / rate(0) - 1.0).abs() * 100.0);
            changes.into_iter().fold(0.0, f64::max)
        };
        let p99 = |placement| [0, 1, 2, 3].map(|load| self.value(placement, load, P99));
        let [ni, host] = ["ni", "host"].map(p99);
        let list = |values: [f64; 4]| values.map(|value| format!("{value:.2}")).join(", ");
        let grown = |values: [f64; 4]| values.into_iter().fold(0.0, f64::max) - values[0];
        let kept = |column| (0..4).map(|load| self.value("ni", load, column)).sum::<f64>();
        let [lost, violations] = [LOST, VIOLATIONS].map(kept);
        vec![
            claim(
                "Fig 9: NI, bandwidth under load",
                "unaffected",
                format!("changes by at most {:.2} %", change("ni")),
                change("ni") < 1.0,
            ),
            claim(
                "Fig 10: NI, queueing delay, p99 at the four loads",
                "unaffected",
                format!("{} ms", list(ni)),
                grown(ni) < 1.0,
            ),
            claim(
                "Fig 10: NI, frames lost and contracts violated at all loads",
                "not stated",
                format!("{lost} and {violations}"),
                lost + violations == 0.0,
            ),
            claim(
                "Fig 8: host, queueing delay, p99 at the four loads",
                "increases",
                format!("{} ms", list(host)),
                grown(host) > 1.0,
            ),
        ]
    }

    /// Returns all runs as a table.
    pub(super) fn summary(&self) -> String {
        let mut text = String::from(
            "\n| scheduler | web load requested | machine used (%) | kb/s a stream | p50 late (ms) \
             | p99 | worst | frames | lost | violations \
             |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for (name, row) in &self.summary {
            let (placement, load) = name.split_once(' ').unwrap_or((name, ""));
            let _ = writeln!(
                text,
                "| {placement} | {load} % | {:.0} | {:.0} | {:.3} | {:.3} | {:.3} | {} | {} | {} |",
                row[SUMMARY_USED],
                row[SUMMARY_RATE],
                row[P99 - 1],
                row[P99],
                row[P99 + 1],
                row[LOST - 1],
                row[LOST],
                row[VIOLATIONS],
            );
        }
        text
    }
}
