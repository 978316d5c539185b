//! The live router, judged, and Figures 7 to 9 of the live router and the model.
//!
//! `make paper-router` writes `measured/live.csv`, the quantities of each round, and
//! `measured/costs.csv`, the points of the figures. Each flow's rate in the figures is a fraction
//! of its offered load, so both share an axis. The model's value of each quantity is in
//! `model.csv`.

use miette::IntoDiagnostic as _;
use millstream_report::chart::Line;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::estimates::deviation;
use super::experiments::{Batching, RESERVED_PPS, best_effort, data_dependent, idle_ports};
use super::figures::{Curves, Points};
use super::machine::{POLL_NS, PaperMachine};
use super::statements::{highest, lowest};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Test};
use crate::experiment::{figure, measured};

/// The flows, and their offered loads in the paper, Kpps.
const FLOWS: [(&str, f64); 3] = [("A", 50.0), ("B", 90.0), ("C", 90.0)];
/// Columns after the batching mode: the cost of A's packets, µs of the paper's, and the first
/// flow's rate.
const COST: usize = 0;
const FIRST: usize = 1;
/// Figures 7, 8 and 9: their titles, and their names in the file.
const FIGURES: [(&str, &str); 3] = [
    ("Fig 7, live: simple batching", "simple batching"),
    ("Fig 8, live: no batching", "no batching"),
    ("Fig 9, live: batches of 30 µs", "batches of 30 µs"),
];
/// The experiments of `live.py`, whose tables are in `measured`, and their titles.
const TABLES: [(&str, &str); 9] = [
    ("overload", "Overload (Figure 5)"),
    ("interrupts", "Overload with interrupts"),
    ("shares", "Functions with reservations of 1:2:3"),
    ("reserved", "Best effort and two reserved flows (Figure 6; Kpps)"),
    ("batches", "Batches (Table 2)"),
    ("best-effort", "Unbalanced shares (Table 3)"),
    ("idle-ports", "Idle ports (section 4.2)"),
    ("batching", "From link-bound to CPU-bound (Figures 7, 8 and 9)"),
    ("data", "Packets of different cost (section 4.5)"),
];
/// The experiments whose results are rates by the clock, by the prefixes of their quantities. Other
/// processes on the router's core change them.
const BY_CLOCK: [(&str, &str); 5] = [
    ("fig6", "reserved"),
    ("fig7", "batching"),
    ("fig8", "batching"),
    ("fig9", "batching"),
    ("data", "data"),
];
/// The most time that the router may wait for its core in these experiments, %.
const MOST_WAITING: f64 = 2.0;
/// The share of a reserved flow's load that counts as all: 89.5 of 90 Kpps.
const ALL_OF_90: f64 = 89.5 / 90.0;
/// The same in section 4.5: 49.5 of 50 Kpps.
const ALL_OF_50: f64 = 49.5 / 50.0;

/// A statement about a quantity of `live.csv`: its name there, the statement, the paper's value,
/// the criterion, its values, and the value that the effect is relative to.
type Statement = (&'static str, &'static str, &'static str, &'static str, Allowed, f64);

const BOTH: &str = "the ratio of two printed rates, each ± 0.5 Kpps";
const KEPT: &str = "at least 89.5 of 90 Kpps";
const ORDER: &str = "an order; the text has no number";

/// Returns the ratios that two rates in Kpps permit, each ± 0.5.
fn ratio(one: f64, other: f64) -> Allowed {
    Allowed::Between((one - 0.5) / (other + 0.5), (one + 0.5) / (other - 0.5))
}

/// Returns the statements in the order of the page.
fn statements() -> [Statement; 19] {
    [
        (
            "overload polled",
            "Fig 5, live: polling: rate at 3.3 times the capacity relative to 1.5 times",
            "remains flat",
            "falls by at most 1 of 272 Kpps, the unit of Table 2's plateaus",
            Allowed::AtLeast(271.0 / 272.0),
            1.0,
        ),
        (
            "overload interrupt",
            "Fig 5, live: interrupts: rate at 3.3 times the capacity relative to 1.5 times",
            "receive livelock",
            ORDER,
            Allowed::Below(1.0),
            1.0,
        ),
        (
            "table2 batch of 1",
            "Table 2, live: rate with batches of 1 relative to 16",
            "227 / 272 = 0.83",
            BOTH,
            ratio(227.0, 272.0),
            227.0 / 272.0,
        ),
        (
            "table3 A without throttle",
            "Table 3, live: A at 1:10 without throttle relative to balanced",
            "101 / 101",
            BOTH,
            ratio(101.0, 101.0),
            1.0,
        ),
        (
            "table3 B without throttle",
            "Table 3, live: B at 1:10 without throttle relative to balanced",
            "56 / 56",
            BOTH,
            ratio(56.0, 56.0),
            1.0,
        ),
        (
            "table3 C without throttle",
            "Table 3, live: C at 1:10 without throttle relative to balanced",
            "35 / 38 = 0.92",
            BOTH,
            ratio(35.0, 38.0),
            35.0 / 38.0,
        ),
        (
            "table3 A input with the rest",
            "Table 3, live: A at 1:10, input with the remainder, relative to balanced",
            "101 / 101, with throttle",
            BOTH,
            ratio(101.0, 101.0),
            1.0,
        ),
        (
            "table3 B input with the rest",
            "Table 3, live: B at 1:10, input with the remainder, relative to balanced",
            "56 / 56, with throttle",
            BOTH,
            ratio(56.0, 56.0),
            1.0,
        ),
        (
            "table3 C input with the rest",
            "Table 3, live: C at 1:10, input with the remainder, relative to balanced",
            "38 / 38, with throttle",
            BOTH,
            ratio(38.0, 38.0),
            1.0,
        ),
        (
            "idle ports",
            "section 4.2, live: two idle ports, rate with estimator relative to without",
            "130 / 91 = 1.43",
            BOTH,
            ratio(130.0, 91.0),
            130.0 / 91.0,
        ),
        (
            "fig6 reserved",
            "Fig 6, live: least share of B's and C's load that is forwarded",
            "all",
            KEPT,
            Allowed::AtLeast(ALL_OF_90),
            1.0,
        ),
        (
            "fig7 reserved",
            "Fig 7, live: simple batching: least share of B's and C's load that is forwarded",
            "become idle at times",
            "less than 89.5 of 90 Kpps; the text has no number",
            Allowed::Below(ALL_OF_90),
            1.0,
        ),
        (
            "fig8 reserved",
            "Fig 8, live: no batching: least share of B's and C's load that is forwarded",
            "all",
            KEPT,
            Allowed::AtLeast(ALL_OF_90),
            1.0,
        ),
        (
            "fig9 reserved",
            "Fig 9, live: batches of 30 µs: least share of B's and C's load that is forwarded",
            "all",
            KEPT,
            Allowed::AtLeast(ALL_OF_90),
            1.0,
        ),
        (
            "fig9 total",
            "Fig 9, live: total rate relative to Fig 8, least of all costs of A",
            "higher",
            ORDER,
            Allowed::Above(1.0),
            1.0,
        ),
        (
            "data reserved",
            "section 4.5, live: queues of 128: least share of the reserved flow that is forwarded",
            "all",
            "at least 49.5 of 50 Kpps",
            Allowed::AtLeast(ALL_OF_50),
            1.0,
        ),
        (
            "data best effort",
            "section 4.5, live: best effort with 4 to 12 µs relative to 8 µs",
            "120 / 127 = 0.94",
            BOTH,
            ratio(120.0, 127.0),
            120.0 / 127.0,
        ),
        (
            "data queue of 1",
            "section 4.5, live: queues of 1: share of the reserved flow that is forwarded",
            "30 / 50 = 0.60",
            BOTH,
            ratio(30.0, 50.0),
            0.6,
        ),
        (
            "shares",
            "section 2.2, live: error of used CPU time at reservations of 1:2:3, %",
            "proportional",
            "the text has no number",
            Allowed::Unstated,
            f64::NAN,
        ),
    ]
}

/// Returns the model's values, by quantity.
#[allow(clippy::cast_precision_loss)]
fn simulated(curves: &Curves) -> Vec<(&'static str, f64)> {
    let machine = PaperMachine::printed();
    let most = |router: usize| highest(&curves.overhead[router]);
    // Of the loads in the table of overload, 1.5 and 3 times the capacity.
    let at = |line: &Points, load: usize| line[load].1;
    let overload = |way: usize| at(&curves.overload[way], 11) / at(&curves.overload[way], 7);
    let reserved = RESERVED_PPS as f64 / 1e3;
    let least =
        |lines: &[Points]| lines[1..].iter().map(lowest).fold(f64::MAX, f64::min) / reserved;
    let relative = |cost_ns, ideal, throttled| {
        best_effort(&machine, cost_ns, 10, throttled) / best_effort(&machine, cost_ns, ideal, false)
    };
    let idle = |on| idle_ports(&machine, POLL_NS, on).0;
    let costs = |batching: Batching| &curves.costs[batching as usize];
    let total = |lines: &[Points], at: usize| lines.iter().map(|line| line[at].1).sum::<f64>();
    let (single, bounded) = (costs(Batching::None), costs(Batching::Throttled));
    let more = (0..single[0].len()).map(|at| total(bounded, at) / total(single, at));
    let data = |varying, one_link, queue| data_dependent(1, varying, one_link, queue);
    let [fixed, varying] = [false, true].map(|varies| data(varies, false, 128));
    let shared = [false, true].map(|varies| data(varies, true, 128)[0]);
    let kept = [fixed[0], varying[0], shared[0], shared[1]].into_iter().fold(f64::MAX, f64::min);
    vec![
        ("overload polled", overload(0)),
        ("overload interrupt", overload(1)),
        ("table2 batch of 1", most(4) / most(3)),
        ("table3 A without throttle", relative(8_000, 5, false)),
        ("table3 B without throttle", relative(16_000, 10, false)),
        ("table3 C without throttle", relative(24_000, 15, false)),
        ("table3 A input with the rest", relative(8_000, 5, true)),
        ("table3 B input with the rest", relative(16_000, 10, true)),
        ("table3 C input with the rest", relative(24_000, 15, true)),
        ("idle ports", idle(true) / idle(false)),
        ("fig6 reserved", least(&curves.mix)),
        ("fig7 reserved", least(costs(Batching::Simple))),
        ("fig8 reserved", least(single)),
        ("fig9 reserved", least(bounded)),
        ("fig9 total", more.fold(f64::MAX, f64::min)),
        ("data reserved", kept / 50.0),
        ("data best effort", varying[1] / fixed[1]),
        ("data queue of 1", data(true, true, 1)[0] / 50.0),
    ]
}

/// Returns `model.csv`: the simulated value of each quantity that `live.py` measures.
pub(super) fn model(curves: &Curves) -> String {
    let mut text = String::from("quantity,value\n");
    for (quantity, value) in simulated(curves) {
        let _ = writeln!(text, "{quantity},{value:.4}");
    }
    text
}

/// The live router's results.
pub(super) struct Live {
    quantities: Vec<(String, Vec<f64>)>,
}

impl Live {
    pub(super) fn read(folder: &Path) -> miette::Result<Self> {
        Ok(Self { quantities: measured(folder, "live.csv", 1)? })
    }

    /// Returns the value of each round.
    fn rounds(&self, quantity: &str) -> Vec<f64> {
        let rows = self.quantities.iter().filter(|row| row.0 == quantity);
        rows.map(|(_, row)| row[1]).collect()
    }

    /// Returns the time that the router waited for its core, %, if that matters to the quantity.
    fn waiting(&self, quantity: &str) -> Option<f64> {
        let (_, name) = BY_CLOCK.iter().find(|of| quantity.starts_with(of.0))?;
        self.rounds(&format!("{name}: waiting for the core, percent")).first().copied()
    }

    /// Returns the claims; each result has the model's beside it.
    pub(super) fn claims(&self, curves: &Curves) -> Vec<Claim> {
        let model = simulated(curves);
        let claim = |(quantity, what, paper, criterion, allowed, base): Statement| {
            let rounds = self.rounds(quantity);
            if rounds.is_empty() {
                return None;
            }
            let of_model = model.iter().find(|one| one.0 == quantity);
            let beside = of_model.map_or(String::new(), |one| format!(" (model {:.3})", one.1));
            let waiting = self.waiting(quantity).filter(|percent| *percent > MOST_WAITING);
            let statement = (what, paper, criterion, allowed, base);
            Some(judged(statement, &rounds, waiting, &beside))
        };
        statements().into_iter().filter_map(claim).collect()
    }

    /// Returns the measured tables of the page, and the steal time of each experiment.
    pub(super) fn tables(&self, folder: &Path) -> miette::Result<String> {
        let mut text = String::new();
        for (name, title) in TABLES {
            let steal = self.rounds(&format!("{name}: steal time, percent at most"));
            let steal = steal.first().copied().unwrap_or(f64::NAN);
            let table = folder.join("measured").join(format!("{name}.txt"));
            let table = fs::read_to_string(table).into_diagnostic()?;
            let _ = write!(text, "\n### {title}\n\nSteal time at most {steal:.1} %.\n\n{table}");
        }
        Ok(text)
    }
}

/// Judges the median of the rounds.
///
/// There is no verdict with fewer than six rounds, which have no 95 % interval, nor if the router
/// was `waiting` for its core, %.
fn judged(
    (what, paper, criterion, allowed, base): (&str, &str, &str, Allowed, f64),
    rounds: &[f64],
    waiting: Option<f64>,
    beside: &str,
) -> Claim {
    let of = Estimate::median(rounds);
    let kind = format!("{} rounds, median 95 %", rounds.len());
    let mut effect = if base.is_nan() {
        format!("[{:.2}, {:.2}], {kind}", of.low, of.high)
    } else {
        deviation(of, base, &kind)
    };
    if let Some(percent) = waiting {
        effect += &format!("; other processes had {percent:.0} % of the core");
    }
    let usable = rounds.len() >= 6 && waiting.is_none();
    let allowed = if usable { allowed } else { Allowed::Unstated };
    let test = Test::new(format!("Router, {what}"), paper, criterion, allowed);
    test.by(Evidence::Measured, format!("{:.3}{beside}", of.value), of, effect)
}

/// Returns the figures: file names, titles and drawings.
pub(super) fn draw(
    folder: &Path,
    curves: &Curves,
) -> miette::Result<Vec<(String, String, String)>> {
    let rows = measured(folder, "costs.csv", 1)?;
    let mut drawn = Vec::new();
    for (at, (title, batching)) in FIGURES.into_iter().enumerate() {
        let of_batching = || rows.iter().filter(|(name, _)| name == batching).map(|(_, row)| row);
        let mut lines = Vec::new();
        for (flow, (name, offered)) in FLOWS.into_iter().enumerate() {
            let model = curves.costs[at][flow].iter().map(|(us, kpps)| (*us, kpps / offered));
            let live = of_batching().map(|row| (row[COST], row[FIRST + flow]));
            lines.push(Line { name: format!("{name}, live"), points: live.collect() });
            lines.push(Line { name: format!("{name}, model"), points: model.collect() });
        }
        let axis = ("forwarded / offered", false);
        let svg = figure(title, ("cost of A's packets (µs of the paper's)", false), axis, &lines)?;
        drawn.push((format!("live-fig{}.svg", at + 7), title.to_owned(), svg));
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::{judged, ratio, statements};
    use crate::claim::{Allowed, Verdict};

    #[test]
    fn the_range_of_a_ratio_follows_from_both_roundings() {
        let Allowed::Between(low, high) = ratio(227.0, 272.0) else { panic!("a range") };
        assert!((low - 0.8312).abs() < 1e-4 && (high - 0.8379).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn a_live_verdict_needs_six_undisturbed_rounds() {
        let verdict = |rounds: &[f64]| {
            let allowed = Allowed::Above(0.5);
            judged(("a", "b", "c", allowed, 1.0), rounds, None, "").verdict()
        };
        let disturbed = judged(("a", "b", "c", Allowed::Above(0.5), 1.0), &[0.9; 6], Some(9.0), "");
        assert_eq!(disturbed.verdict(), Some(Verdict::CannotTell));
        assert_eq!(verdict(&[0.9; 5]), Some(Verdict::CannotTell));
        assert_eq!(verdict(&[0.9; 6]), Some(Verdict::Reproduced));
        assert_eq!(verdict(&[0.9, 0.9, 0.9, 0.9, 0.9, 0.4]), Some(Verdict::CannotTell));
    }

    #[test]
    fn no_quantity_is_judged_twice() {
        let mut names = statements().map(|of| of.0).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), statements().len());
    }
}
