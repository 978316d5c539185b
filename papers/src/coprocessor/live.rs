//! The live server beside a live web server: Figures 6 to 10, and what offload adds to priority.
//!
//! `papers/coprocessor/live.py` writes `measured/live.csv`, a row a run. Runs of different cells
//! are paired by their round.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use millstream_report::chart::Line;

use super::judge::{interval, median, number};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};
use crate::experiment::{figure, measured};

/// Loads in % of all processors.
const LOADS: [u32; 5] = [0, 45, 60, 90, 100];

/// The cells of the 2 × 2, placement by scheduling class.
const CELLS: [&str; 4] = [HOST, HOST_REAL_TIME, NI, NI_REAL_TIME];
const HOST: &str = "host ordinary";
const HOST_REAL_TIME: &str = "host real-time";
const NI: &str = "ni ordinary";
const NI_REAL_TIME: &str = "ni real-time";

/// Other systems: name in the file, name on the page.
const OTHERS: [(&str, &str); 4] = [
    ("host-unpinned ordinary", "host, not pinned"),
    ("gstreamer ordinary", "GStreamer RTSP server"),
    ("live555 ordinary", "live555"),
    ("mediamtx ordinary", "MediaMTX"),
];

/// Clients of each run.
const CLIENTS: f64 = 10.0;

/// Columns of the file after system and class.
const LOAD: usize = 0;
const RUN: usize = 1;
const USED: usize = 2;
const STEAL: usize = 3;
const TRIES: usize = 4;
const FRAMES: usize = 5;
const LOST: usize = 6;
const ON_TIME: usize = 7;
const P50_US: usize = 8;
const P99_US: usize = 9;
const MAX_US: usize = 10;
const BYTES: usize = 11;
const REQUESTS: usize = 12;
const COLUMNS: usize = 13;

/// A cell: placement and class, or another system; load.
type Cell = (&'static str, u32);

/// The measurements.
pub(super) struct Live {
    /// System and class, and the values of a run.
    runs: Vec<(String, Vec<f64>)>,
}

impl Live {
    pub(super) fn read(folder: &Path) -> miette::Result<Self> {
        let runs = measured(folder, "live.csv", 2)?;
        if runs.iter().any(|(_, row)| row.len() != COLUMNS) {
            return Err(miette::miette!("live.csv: a row does not have {COLUMNS} numbers"));
        }
        Ok(Self { runs })
    }

    /// Returns a quantity of the runs of a cell, by round.
    fn by_round(&self, (name, load): Cell, quantity: fn(&[f64]) -> f64) -> BTreeMap<u64, f64> {
        let of = |(run, row): &&(String, Vec<f64>)| run == name && row[LOAD] == f64::from(load);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let value = |(_, row): &(String, Vec<f64>)| (row[RUN] as u64, quantity(row));
        self.runs.iter().filter(of).map(value).collect()
    }

    fn estimate(&self, cell: Cell, quantity: fn(&[f64]) -> f64) -> Estimate {
        median(&self.by_round(cell, quantity).into_values().collect::<Vec<_>>())
    }

    /// Returns `by` of two cells' quantities in the same rounds: median and interval.
    fn paired(
        &self,
        [first, second]: [Cell; 2],
        quantity: fn(&[f64]) -> f64,
        by: fn(f64, f64) -> f64,
    ) -> (Estimate, usize) {
        let other = self.by_round(second, quantity);
        let pairs = self.by_round(first, quantity).into_iter();
        let of: Vec<f64> =
            pairs.filter_map(|(run, value)| Some(by(value, *other.get(&run)?))).collect();
        (median(&of), of.len())
    }

    /// Judges a difference of lateness (99th percentile, ms) between two cells.
    fn lateness(
        &self,
        what: String,
        paper: &str,
        criterion: &str,
        allowed: Allowed,
        cells: [Cell; 2],
    ) -> Claim {
        let (difference, pairs) = self.paired(cells, p99_ms, |first, second| first - second);
        let [first, second] = cells.map(|cell| self.estimate(cell, p99_ms).value);
        Test::new(format!("Co-processor, {what}"), paper, criterion, allowed).by(
            Evidence::Measured,
            format!("p99 late {} against {} ms", number(first, 2), number(second, 2)),
            difference,
            format!("{}, median of {pairs} pairs", interval(difference, 2, "ms", true)),
        )
    }

    /// Judges the bandwidth of a cell under load relative to no load.
    fn bandwidth(
        &self,
        what: String,
        paper: &str,
        (criterion, allowed): (&str, Allowed),
        (name, load): Cell,
    ) -> Claim {
        let (ratio, pairs) =
            self.paired([(name, load), (name, 0)], kbps, |loaded, without| loaded / without);
        let [loaded, without] = [load, 0].map(|load| self.estimate((name, load), kbps).value);
        let change = Estimate {
            value: (ratio.value - 1.0) * 100.0,
            low: (ratio.low - 1.0) * 100.0,
            high: (ratio.high - 1.0) * 100.0,
        };
        Test::new(format!("Co-processor, {what}"), paper, criterion, allowed).by(
            Evidence::Measured,
            format!("{} of {} kb/s", number(loaded, 0), number(without, 0)),
            ratio,
            format!("{}, median of {pairs} pairs", interval(change, 2, "%", true)),
        )
    }

    /// Returns the paper's statements about Figures 7 to 10, judged on the live server.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let mut claims = self.figures();
        claims.extend(self.offload());
        claims
    }

    fn figures(&self) -> Vec<Claim> {
        let [low, high] = [225.0 / 255.0, 235.0 / 245.0];
        let half = 5.0 / 260.0;
        let load = |asked: u32| {
            let used = self.estimate((HOST, asked), |row| row[USED]);
            let ours = interval(used, 0, "% used", false);
            let what = format!("Co-processor, Fig 6, live: {asked} %, utilisation");
            Claim::given(what, format!("{asked} %"), ours, Given::Input)
        };
        let mut claims = vec![
            load(45),
            load(60),
            self.bandwidth(
                "Fig 7, live: host, bandwidth at 45 %".to_owned(),
                "230 of 250 kb/s",
                ("ratio 0.882 to 0.959: rates to half a unit, 5 kb/s", Allowed::Between(low, high)),
                (HOST, 45),
            ),
            self.bandwidth(
                "Fig 7, live: host, bandwidth at 60 %".to_owned(),
                "below 125 of 250 kb/s",
                ("ratio below 0.5: \"less than\" half", Allowed::Below(0.5)),
                (HOST, 60),
            ),
        ];
        claims.push(self.lateness(
            "Fig 8, live: host, delay added at 45 %".to_owned(),
            "around 2 s",
            "within 10 %: \"around\"",
            Allowed::near(2_000.0, 10.0),
            [(HOST, 45), (HOST, 0)],
        ));
        claims.push(self.lateness(
            "Fig 8, live: host, delay added at 60 %".to_owned(),
            "20 s: 30,000 against 10,000 ms",
            "19 to 21 s: delays to half a unit, 500 ms each",
            Allowed::Between(19_000.0, 21_000.0),
            [(HOST, 60), (HOST, 0)],
        ));
        for load in [45, 60] {
            claims.push(self.lateness(
                format!("Fig 8, live: host, delay at {load} % against none"),
                "increases",
                "difference above 0: an order",
                Allowed::Above(0.0),
                [(HOST, load), (HOST, 0)],
            ));
        }
        for load in [60, 100] {
            claims.push(self.bandwidth(
                format!("Fig 9, live: NI (real-time), bandwidth at {load} %"),
                "unaffected",
                (
                    "ratio 0.981 to 1.019: 260 kb/s to half a unit, 5 kb/s",
                    Allowed::Between(1.0 - half, 1.0 + half),
                ),
                (NI_REAL_TIME, load),
            ));
        }
        for (name, of) in [(NI_REAL_TIME, "NI (real-time)"), (HOST, "host (ordinary)")] {
            claims.push(self.lateness(
                format!("Fig 10, live: {of}, delay added at 60 %, on the paper's scale"),
                if name == HOST { "affected" } else { "unaffected" },
                if name == HOST {
                    "more than 500 ms: delays to half a unit"
                } else {
                    "within 500 ms of 0: delays to half a unit"
                },
                if name == HOST { Allowed::Above(500.0) } else { Allowed::Between(-500.0, 500.0) },
                [(name, 60), (name, 0)],
            ));
        }
        for load in [45, 60, 90, 100] {
            claims.push(self.lateness(
                format!("Fig 10, live: NI (real-time), delay at {load} % against none"),
                "\"completely immune\"",
                "no increase: difference at most 0",
                Allowed::AtMost(0.0),
                [(NI_REAL_TIME, load), (NI_REAL_TIME, 0)],
            ));
        }
        claims
    }

    /// Returns what offload gives at equal class, and whether it gives more than priority.
    fn offload(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        let better = "difference above 0: an order";
        for (host, ni, class) in
            [(HOST, NI, "ordinary"), (HOST_REAL_TIME, NI_REAL_TIME, "real-time")]
        {
            for load in [45, 60, 90, 100] {
                claims.push(self.lateness(
                    format!("§4.2.3, live: offload at equal class ({class}), {load} %: host − NI"),
                    "the NI is better",
                    better,
                    Allowed::Above(0.0),
                    [(host, load), (ni, load)],
                ));
            }
        }
        for load in [45, 60, 90, 100] {
            claims.push(self.lateness(
                format!(
                    "§4.2.3, live: offload against priority, {load} %: real-time host − ordinary NI"
                ),
                "offload is the cause",
                better,
                Allowed::Above(0.0),
                [(HOST_REAL_TIME, load), (NI, load)],
            ));
        }
        for (ordinary, real_time, at) in [(HOST, HOST_REAL_TIME, "host"), (NI, NI_REAL_TIME, "NI")]
        {
            claims.push(self.lateness(
                format!("§4.2.3, live: priority at equal placement ({at}), 100 %"),
                "not tried",
                "none: the paper varies placement alone",
                Allowed::Unstated,
                [(ordinary, 100), (real_time, 100)],
            ));
        }
        claims
    }

    /// Returns the figures: file, title, drawing.
    pub(super) fn draw(&self) -> miette::Result<Vec<(String, String, String)>> {
        let line = |name: &'static str, quantity: fn(&[f64]) -> f64| {
            let points = LOADS.into_iter().filter_map(|load| {
                let estimate = self.estimate((name, load), quantity);
                (!estimate.value.is_nan()).then_some((f64::from(load), estimate.value))
            });
            Line { name: name.replace("ni ", "NI "), points: points.collect() }
        };
        let lines = |quantity: fn(&[f64]) -> f64| -> Vec<Line> {
            let of = CELLS.map(|name| line(name, quantity));
            of.into_iter().filter(|line| !line.points.is_empty()).collect()
        };
        let load = ("load asked (% of all processors)", false);
        [
            (
                "live-fig6",
                "Fig 6, live: utilisation of the machine",
                ("utilisation (%)", false),
                lines(|row| row[USED]),
            ),
            (
                "live-fig7-9",
                "Figs 7 and 9, live: bandwidth of a client",
                ("bandwidth (kb/s)", false),
                lines(kbps),
            ),
            (
                "live-fig8-10",
                "Figs 8 and 10, live: lateness, 99th percentile",
                ("lateness (ms)", true),
                lines(p99_ms),
            ),
        ]
        .into_iter()
        .filter(|(.., lines)| !lines.is_empty())
        .map(|(file, title, axis, lines)| {
            let svg = figure(title, load, axis, &lines)?;
            Ok((format!("{file}.svg"), title.to_owned(), svg))
        })
        .collect()
    }

    /// Returns the effects of placement and class on lateness (99th percentile) as a table.
    pub(super) fn effects(&self) -> String {
        let mut text = String::from(
            "\nWhat offload takes off the lateness (99th percentile, ms), and what priority takes \
             off:\n\n| load asked (%) | offload, both ordinary | offload, both real-time \
             | priority, both on the host | priority, both on the NI |\n|--:|--:|--:|--:|--:|\n",
        );
        // Element 0 counts comparisons of placements, element 1 of scheduling classes.
        let (mut compared, mut better) = ([0; 2], [0; 2]);
        for load in LOADS {
            let _ = write!(text, "| {load} |");
            for (before, after, by) in [
                (HOST, NI, 0),
                (HOST_REAL_TIME, NI_REAL_TIME, 0),
                (HOST, HOST_REAL_TIME, 1),
                (NI, NI_REAL_TIME, 1),
            ] {
                let cells = [(before, load), (after, load)];
                let (effect, _) = self.paired(cells, p99_ms, |before, after| before - after);
                compared[by] += u32::from(!effect.low.is_nan());
                better[by] += u32::from(effect.low > 0.0);
                let _ = write!(text, " {} |", interval(effect, 2, "", true));
            }
            text.push('\n');
        }
        let _ = write!(
            text,
            "\nOffload lowers the lateness in {} of {} comparisons at equal class (the interval is \
             above 0), priority in {} of {} at equal placement.\n",
            better[0], compared[0], better[1], compared[1]
        );
        text
    }

    /// Returns all cells as a table.
    pub(super) fn summary(&self) -> String {
        let mut text = String::from(
            "\n| data plane or server | load asked (%) | runs | used (%) | requests/s \
             | on time (%) | lost | p50 late (ms) | p99 late (ms) [95 %] | worst | kb/s a client \
             |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        let cells = CELLS.map(|name| (name, name)).into_iter().chain(OTHERS);
        for (name, shown) in cells {
            for load in LOADS {
                let cell = (name, load);
                let runs = self.by_round(cell, |row| row[FRAMES]).len();
                if runs == 0 {
                    continue;
                }
                let value = |quantity| self.estimate(cell, quantity).value;
                let worst = self.by_round(cell, |row| row[MAX_US] / 1e3).into_values();
                let lost: f64 = self.by_round(cell, |row| row[LOST]).into_values().sum();
                let _ = writeln!(
                    text,
                    "| {} | {load} | {runs} | {:.0} | {:.0} | {:.2} | {lost} | {:.3} | {} | {:.1} \
                     | {:.0} |",
                    shown.replace("ni ", "NI "),
                    value(|row| row[USED]),
                    value(|row| row[REQUESTS]),
                    value(|row| 100.0 * row[ON_TIME] / row[FRAMES]),
                    value(|row| row[P50_US] / 1e3),
                    interval(self.estimate(cell, p99_ms), 2, "", false),
                    worst.fold(0.0, f64::max),
                    value(kbps),
                );
            }
        }
        let steal = self.runs.iter().map(|(_, row)| row[STEAL]).fold(0.0, f64::max);
        let tries: f64 = self.runs.iter().map(|(_, row)| row[TRIES] - 1.0).sum();
        let idle: Vec<f64> = CELLS
            .into_iter()
            .flat_map(|name| self.by_round((name, 0), |row| row[USED]).into_values())
            .collect();
        let _ = writeln!(
            text,
            "\n{} runs; {tries} more were repeated for more than 2 % of steal time. The highest \
             steal time of a kept run is {steal:.1} %. Without load, media server, clients and \
             other work on the machine used {} % of it (median).",
            self.runs.len(),
            number(median(&idle).value, 0)
        );
        text
    }
}

/// Returns the 99th percentile of lateness, ms.
fn p99_ms(row: &[f64]) -> f64 {
    row[P99_US] / 1e3
}

/// Returns the bandwidth of a client, kbit/s.
fn kbps(row: &[f64]) -> f64 {
    row[BYTES] * 8.0 / 1e3 / CLIENTS
}

#[cfg(test)]
mod tests {
    use super::{HOST, Live, NI, P99_US};
    use crate::claim::{Claim, Verdict};

    /// Runs of host and NI at 60 % with these lateness values, µs, in rounds from 1.
    fn live(host: &[f64], ni: &[f64]) -> Live {
        let row = |name: &str, run: u32, late_us: f64| {
            let mut row = vec![1.0; super::COLUMNS];
            (row[super::LOAD], row[super::RUN], row[P99_US]) = (60.0, f64::from(run), late_us);
            (name.to_owned(), row)
        };
        let of = |name: &'static str, late: &[f64]| -> Vec<_> {
            (1..).zip(late).map(|(run, late)| row(name, run, *late)).collect()
        };
        Live { runs: [of(HOST, host), of(NI, ni)].concat() }
    }

    fn verdict(live: &Live) -> (Verdict, String) {
        let claims = live.claims();
        let is = |claim: &&Claim| claim.cells()[0].contains("equal class (ordinary), 60 %");
        let claim = claims.iter().find(is).expect("the claim");
        (claim.verdict().expect("a verdict"), claim.cells()[5].clone())
    }

    #[test]
    fn the_effect_of_placement_is_judged_by_pairs_of_a_round() {
        let six = [5e3, 6e3, 7e3, 8e3, 9e3, 10e3];
        let lower = six.map(|late| late - 1e3);
        let (of, effect) = verdict(&live(&six, &lower));
        assert_eq!(of, Verdict::Reproduced);
        assert_eq!(effect, "+1.00 [+1.00, +1.00] ms, median of 6 pairs");
        assert_eq!(verdict(&live(&lower, &six)).0, Verdict::Differs);
        // The host is better in one round.
        let mixed = [4e3, 5e3, 6e3, 7e3, 8e3, 11e3];
        assert_eq!(verdict(&live(&six, &mixed)).0, Verdict::CannotTell);
    }

    #[test]
    fn fewer_than_six_pairs_cannot_tell() {
        let (of, effect) = verdict(&live(&[5e3; 6], &[4e3; 5]));
        assert_eq!(of, Verdict::CannotTell);
        assert_eq!(effect, "+1.00 ms (fewer than 6 runs), median of 5 pairs");
        assert_eq!(verdict(&live(&[], &[])).0, Verdict::CannotTell);
    }
}
