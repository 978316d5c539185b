//! The paper's statements, their criteria, and the verdicts of our runs.
//!
//! The figures did not survive in our copy of the paper, so every criterion comes from its text:
//!
//! ```text
//! an order ("worse", "grows")     the paired difference over the seeds is above 0
//! "all", "proportional"           within 0.5 % of 100 % ("all" has no decimals), 10 % of the ratio
//! "similar", "constant", "around" within 10 %
//! no amount ("slightly", "low")   cannot tell
//! ```
//!
//! Runs with equal seeds have equal traffic, so differences between schedulers, classes or loads
//! are taken seed by seed. A statement about several comparisons is true if it is true of all of
//! them. Their intervals hold together with 95 %.

use miette::miette;
use std::path::Path;

use super::gaps::{self, Orders};
use super::interval::{absolute, confidence_of_each, greatest, least, mean};
use super::network::{CLASSES, SCHEDULERS};
use super::results::{FULL_LOAD, LOADS, PAPER_SCHEDULERS, Point, Quantity, Results};
use super::{BE, BK, CL, EE, JITTER_US, MAX_US, MEAN_US, THROUGHPUT_SHARE, VI, VO, as_f64};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test, Verdict};

const NC: usize = 0;
const WFQ: usize = 0;
const SCFQ: usize = 1;
const DRR: usize = 2;
const QOS: [usize; 3] = [VO, VI, CL];
const BEST_EFFORT: [usize; 3] = [EE, BE, BK];

/// Tolerance of "all", %: half a unit of the last digit of 100 %.
const ALL: f64 = 0.5;
/// Tolerance of "similar", "constant", "around" and "proportional", %.
const ABOUT: f64 = 10.0;

/// The delivered share of the injected bytes, %.
const DELIVERED: Quantity = |row| 100.0 * as_f64(row.throughput) / as_f64(row.offered);
/// The highest planned load.
const LAST_LOAD: u32 = LOADS[LOADS.len() - 1];
/// The lowest load of Table II, %: no best effort.
const LEAST_LOAD: f64 = 61.9375;

/// Two points; the first minus the second is judged.
type Pair = (Point, Point);

fn point(scheduler: usize, load: u32, class: usize, quantity: Quantity) -> Point {
    Point { scheduler, load, class, quantity }
}

/// Returns the pair of two schedulers.
fn schedulers(one: usize, other: usize, load: u32, class: usize, quantity: Quantity) -> Pair {
    (point(one, load, class, quantity), point(other, load, class, quantity))
}

/// Returns the pair of two classes.
fn classes(one: usize, other: usize, scheduler: usize, load: u32, quantity: Quantity) -> Pair {
    (point(scheduler, load, one, quantity), point(scheduler, load, other, quantity))
}

/// Returns the pairs of two loads: each of the paper's schedulers and each of `of` classes.
fn loads(one: u32, other: u32, of: [usize; 3], quantity: Quantity) -> Vec<Pair> {
    let pair = |scheduler, class| {
        (point(scheduler, one, class, quantity), point(scheduler, other, class, quantity))
    };
    (0..PAPER_SCHEDULERS).flat_map(|scheduler| of.map(|class| pair(scheduler, class))).collect()
}

/// Returns `SCFQ-CA, VO, load 1.00`.
fn name(of: Point) -> String {
    format!("{}, {}, load {:.2}", SCHEDULERS[of.scheduler], CLASSES[of.class], hundredths(of.load))
}

fn hundredths(load: u32) -> f64 {
    f64::from(load) / 100.0
}

/// Formats a percentage with its interval, in steps that show both.
fn percent(of: Estimate) -> String {
    let digits = usize::from(of.value.abs() < 10.0) + usize::from(of.value.abs() < 1.0);
    format!("{:+.digits$} % [{:+.digits$}, {:+.digits$}]", of.value, of.low, of.high)
}

/// Returns the kind of the interval of one of `count` means over `runs` runs.
fn interval_kind(runs: usize, count: usize) -> String {
    let all = if count == 1 { String::new() } else { format!(" for all {count}") };
    format!("t, 95 %{all}, n = {runs}")
}

/// How the differences of pairs are judged.
#[derive(Clone, Copy)]
enum Rule {
    /// The first mean is above the second.
    Above,
    /// The first mean is not above the second.
    NotAbove,
    /// The two are within [`ABOUT`] % of each other.
    Similar,
}

impl Rule {
    fn criterion(self, count: usize) -> String {
        let of = if count == 1 { "difference".to_owned() } else { format!("{count} differences") };
        match self {
            Self::Above => format!("{of} > 0"),
            Self::NotAbove => format!("{of} ≤ 0"),
            Self::Similar => format!("{of} within ±{ABOUT} %"),
        }
    }

    fn allowed(self) -> Allowed {
        match self {
            Self::Above => Allowed::Above(0.0),
            Self::NotAbove => Allowed::AtMost(0.0),
            Self::Similar => Allowed::AtMost(ABOUT),
        }
    }

    /// Returns the quantity that decides a statement about all of `of`.
    fn tested(self, of: &[Estimate]) -> Estimate {
        match self {
            Self::Above => least(of.iter().copied()),
            Self::NotAbove => greatest(of.iter().copied()),
            Self::Similar => greatest(of.iter().copied().map(absolute)),
        }
    }

    /// Returns how far an estimate supports the rule; the least one is shown.
    ///
    /// An estimate that contradicts the rule supports it less than one that leaves it open.
    fn support(self, of: Estimate) -> (u8, f64) {
        let rank = match self.allowed().judge(self.tested(&[of])) {
            Verdict::Differs => 0,
            Verdict::CannotTell => 1,
            Verdict::Reproduced => 2,
        };
        let value = match self {
            Self::Above => of.value,
            Self::NotAbove => -of.value,
            Self::Similar => -of.value.abs(),
        };
        (rank, value)
    }
}

/// The runs and the collected claims.
struct Judge<'a> {
    results: &'a Results,
    claims: Vec<Claim>,
}

impl Judge<'_> {
    /// Returns the number of runs of `of`. Runs have seeds from 1 on, so a pair has the lesser one.
    fn runs(&self, of: Point) -> usize {
        self.results.rows(of.scheduler, of.load, of.class).len()
    }

    /// Adds a statement about a load without runs.
    fn not_run(&mut self, what: &str, paper: &str, load: u32) {
        let test = Test::new(what, paper, "needs runs", Allowed::Unstated);
        let ours = format!("load {:.2} not run", hundredths(load));
        self.claims.push(test.by(Evidence::Simulated, ours, Estimate::exact(f64::NAN), "none"));
    }

    /// Adds a statement about the differences of all pairs.
    ///
    /// Our column shows both means of the pair that supports the statement least, the effect their
    /// difference.
    fn pairs(&mut self, what: &str, paper: &str, rule: Rule, pairs: &[Pair]) {
        let tried = self.results.loads();
        let mut loads = pairs.iter().flat_map(|(one, other)| [one.load, other.load]);
        if let Some(load) = loads.find(|load| !tried.contains(load)) {
            return self.not_run(what, paper, load);
        }
        let confidence = confidence_of_each(pairs.len());
        let differences: Vec<Estimate> = pairs
            .iter()
            .map(|(one, other)| self.results.paired(*one, *other, confidence))
            .collect();
        let weakest = (0..pairs.len())
            .min_by(|a, b| {
                let [a, b] = [a, b].map(|at| rule.support(differences[*at]));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            })
            .expect("a statement has a pair");
        let (one, other) = pairs[weakest];
        let value = |of| self.results.mean(of, confidence).value;
        let least = if pairs.len() == 1 { "" } else { "least support: " };
        let ours = format!(
            "{least}{:.1} ({}), {:.1} ({})",
            value(one),
            name(one),
            value(other),
            name(other)
        );
        let runs = self.runs(one).min(self.runs(other));
        let kind = interval_kind(runs, pairs.len());
        let effect = format!("{}, {kind}", percent(differences[weakest]));
        let test = Test::new(what, paper, rule.criterion(pairs.len()), rule.allowed());
        self.claims.push(test.by(Evidence::Simulated, ours, rule.tested(&differences), effect));
    }

    /// Adds a statement that classes get all bandwidth that they inject, at every load.
    fn all_delivered(&mut self, what: &str, of: &[usize]) {
        let tried = self.results.loads();
        let points: Vec<Point> = (0..PAPER_SCHEDULERS)
            .flat_map(|scheduler| tried.iter().map(move |load| (scheduler, *load)))
            .flat_map(|(scheduler, load)| of.iter().map(move |class| (scheduler, load, *class)))
            .map(|(scheduler, load, class)| point(scheduler, load, class, DELIVERED))
            .collect();
        let confidence = confidence_of_each(points.len());
        let missing = |of: &Point| {
            let delivered = self.results.mean(*of, confidence);
            Estimate {
                value: delivered.value - 100.0,
                low: delivered.low - 100.0,
                high: delivered.high - 100.0,
            }
        };
        let missing: Vec<Estimate> = points.iter().map(missing).collect();
        let worst = (0..points.len())
            .max_by(|a, b| missing[*a].value.abs().total_cmp(&missing[*b].value.abs()))
            .expect("a statement has a point");
        let test = Test::new(
            what,
            "all (100 %)",
            format!("{} values within 100 ± {ALL} %", points.len()),
            Allowed::AtMost(ALL),
        );
        let ours = format!("{:.2} % ({})", 100.0 + missing[worst].value, name(points[worst]));
        let kind = interval_kind(self.runs(points[worst]), points.len());
        let effect = format!("{}, {kind}", percent(missing[worst]));
        let tested = greatest(missing.into_iter().map(absolute));
        self.claims.push(test.by(Evidence::Simulated, ours, tested, effect));
    }

    /// Adds the ratio of two classes' throughput at the highest load, for all schedulers.
    fn proportion(&mut self, (one, other): (usize, usize), weights: f64) {
        let load = LAST_LOAD;
        let what = format!(
            "MinBW, Fig 4 and summary: throughput of {} over that of {} at load {:.2}",
            CLASSES[one],
            CLASSES[other],
            hundredths(load)
        );
        let paper = format!("proportional to priority: weights {weights}");
        if !self.results.loads().contains(&load) {
            return self.not_run(&what, &paper, load);
        }
        let confidence = confidence_of_each(PAPER_SCHEDULERS);
        let ratios: Vec<Estimate> = (0..PAPER_SCHEDULERS)
            .map(|scheduler| {
                let (one, other) = classes(one, other, scheduler, load, THROUGHPUT_SHARE);
                let of = self.results.paired(one, other, confidence);
                // The difference in % of the second class, as a deviation from the weights' ratio.
                let deviation = |percent: f64| 100.0 * ((1.0 + percent / 100.0) / weights - 1.0);
                Estimate {
                    value: deviation(of.value),
                    low: deviation(of.low),
                    high: deviation(of.high),
                }
            })
            .collect();
        let shown: Vec<String> = ratios
            .iter()
            .zip(SCHEDULERS)
            .map(|(of, name)| format!("{:.2} ({name})", weights * (1.0 + of.value / 100.0)))
            .collect();
        let worst = ratios.iter().max_by(|a, b| a.value.abs().total_cmp(&b.value.abs()));
        let effect = worst.map_or(String::new(), |of| {
            let runs = point(WFQ, load, one, THROUGHPUT_SHARE);
            let kind = interval_kind(self.runs(runs), PAPER_SCHEDULERS);
            format!("{} of {weights}, {kind}", percent(*of))
        });
        let test = Test::new(
            what,
            paper,
            format!("{PAPER_SCHEDULERS} ratios within ±{ABOUT} % of {weights}"),
            Allowed::AtMost(ABOUT),
        );
        let tested = greatest(ratios.iter().copied().map(absolute));
        self.claims.push(test.by(Evidence::Simulated, shown.join(", "), tested, effect));
    }

    /// Returns the share of best effort's injected bytes that arrives, %, by seed.
    fn best_effort_delivered(&self, scheduler: usize, load: u32) -> Vec<f64> {
        let rows = BEST_EFFORT.map(|class| self.results.rows(scheduler, load, class));
        let sum = |run: usize, of: Quantity| rows.iter().map(|rows| of(&rows[run])).sum::<f64>();
        let offered: Quantity = |row| as_f64(row.offered);
        (0..rows[0].len())
            .map(|run| 100.0 * sum(run, |row| as_f64(row.throughput)) / sum(run, offered))
            .collect()
    }

    /// Adds the load at which best effort stops getting all that it injects.
    ///
    /// It is above the highest load at which every scheduler delivers all, and at most the lowest
    /// load at which one does not. Below Table II's first load there is no best effort.
    fn saturation(&mut self) {
        let tried = self.results.loads();
        let confidence = confidence_of_each(PAPER_SCHEDULERS * tried.len());
        let delivered = |load: u32| {
            let of = (0..PAPER_SCHEDULERS)
                .map(|scheduler| mean(&self.best_effort_delivered(scheduler, load), confidence));
            least(of)
        };
        let short = tried.iter().copied().find(|load| delivered(*load).high < 100.0 - ALL);
        let full = tried.into_iter().filter(|load| short.is_none_or(|short| *load < short));
        let full = full.filter(|load| delivered(*load).low >= 100.0 - ALL).max();
        let low = full.map_or(LEAST_LOAD, f64::from);
        let high = short.map_or(f64::INFINITY, f64::from);
        let tested = Estimate { value: f64::midpoint(low, high), low, high };
        let test = Test::new(
            "MinBW, Fig 4: load from which best effort gets less than it injects",
            "around 85 %",
            format!("within ±{ABOUT} % of 85 %; all arrives means {} % or more", 100.0 - ALL),
            Allowed::near(85.0, ABOUT),
        );
        let ours = format!("above {low} %, at most {high} %");
        let effect = format!("{:+.0} to {:+.0} points, bracket of loads", low - 85.0, high - 85.0);
        self.claims.push(test.by(Evidence::Simulated, ours, tested, effect));
    }
}

/// Returns the paper's statements and our results; `folder` holds the measured costs.
pub(super) fn statements(results: &Results, folder: &Path) -> miette::Result<Vec<Claim>> {
    let mut judge = Judge { results, claims: given(results) };
    virtual_time(&mut judge.claims)?;
    control(&mut judge);
    quality_of_service(&mut judge);
    best_effort(&mut judge);
    costs(&mut judge.claims, &folder.join("cost.md"))?;
    Ok(judge.claims)
}

/// Returns the settings of the experiment, which have no verdict.
fn given(results: &Results) -> Vec<Claim> {
    let input = |what: &str, paper: &str, ours: String| {
        Claim::given(format!("MinBW, {what}"), paper, ours, Given::Input)
    };
    let offered = |class, load| {
        let share: Quantity = |row| as_f64(row.offered) / 1e4;
        results.mean(point(WFQ, load, class, share), 0.95).value
    };
    let tried = results.loads();
    let (first, last) = (tried[0], tried[tried.len() - 1]);
    let connections = [NC, VO, VI, CL].map(|class| format!("{:.2}", offered(class, FULL_LOAD)));
    let best_effort = BEST_EFFORT
        .map(|class| format!("{:.1} to {:.1}", offered(class, first), offered(class, last)));
    let seeds = tried.iter().map(|load| {
        let runs = results.rows(WFQ, *load, NC).len();
        format!("{runs} at {:.2}", hundredths(*load))
    });
    let seeds: Vec<String> = seeds.collect();
    vec![
        input("Table I: service classes", "NC, VO, VI, CL, EE, BE, BK", CLASSES.join(", ")),
        input(
            "Table II: injected NC, VO, VI and CL, % of the links",
            "1, 20.3125, 20.3125, 20.3125",
            format!("{} admitted", connections.join(", ")),
        ),
        input(
            "Table II: injected EE, BE and BK, % of the links, lowest to highest load",
            "0 to 25.4 each",
            best_effort.join(", "),
        ),
        input(
            "Table II: weights of VO, VI, CL, EE, BE and BK, in 64ths",
            "17, 13, 13, 6, 2, 1",
            super::network::WEIGHTS.map(|weight| weight.to_string()).join(", "),
        ),
        input(
            "Section VI: seeds of each load",
            "10",
            format!("{}; each has a window of {} ms", seeds.join(", "), super::window_ms()),
        ),
    ]
}

/// Judges Figure 1.
fn virtual_time(claims: &mut Vec<Claim>) -> miette::Result<()> {
    let Orders { packets, differ, differ_in_real_time, gaps } = gaps::compare(20_000)?;
    let test = Test::new(
        "MinBW, Fig 1: WFQ-CA's order of service with gaps of the management channel",
        "that of t′, which leaves the gaps out",
        "no position differs from a link without gaps and arrivals at t′",
        Allowed::Equal(0.0),
    );
    #[allow(clippy::cast_precision_loss)]
    let tested = Estimate::exact(differ as f64);
    claims.push(test.by(
        Evidence::Simulated,
        format!("{differ} of {packets} positions differ, {gaps} gaps"),
        tested,
        format!("exact; {differ_in_real_time} differ if virtual time does not stop in gaps"),
    ));
    Ok(())
}

/// Judges Figure 2.
fn control(judge: &mut Judge<'_>) {
    judge.all_delivered(
        "MinBW, Fig 2: throughput of NC at every load, of its injected traffic",
        &[NC],
    );
    for (what, quantity) in [("mean", MEAN_US as Quantity), ("maximum", MAX_US)] {
        let pairs: Vec<Pair> = judge
            .results
            .loads()
            .iter()
            .flat_map(|load| {
                [(SCFQ, WFQ), (DRR, WFQ), (DRR, SCFQ)]
                    .map(|(one, other)| schedulers(one, other, *load, NC, quantity))
            })
            .collect();
        judge.pairs(
            &format!("MinBW, Fig 2: {what} latency (µs) of NC under the schedulers, every load"),
            "similar",
            Rule::Similar,
            &pairs,
        );
    }
    for (scheduler, name) in SCHEDULERS.iter().enumerate().take(PAPER_SCHEDULERS) {
        judge.pairs(
            &format!(
                "MinBW, Figs 2 and 3: mean latency (µs) of NC and VO under {name} at load 1.00"
            ),
            "NC worse: it is bursty",
            Rule::Above,
            &[classes(NC, VO, scheduler, FULL_LOAD, MEAN_US)],
        );
    }
}

/// Judges Figure 3.
fn quality_of_service(judge: &mut Judge<'_>) {
    judge.all_delivered(
        "MinBW, Fig 3: throughput of VO, VI and CL at every load, of their injected traffic",
        &QOS,
    );
    let (first, last) = (LOADS[0], LAST_LOAD);
    for (what, quantity) in [("mean latency", MEAN_US as Quantity), ("maximum jitter", JITTER_US)] {
        judge.pairs(
            &format!(
                "MinBW, Fig 3: {what} (µs) of VO, VI and CL, load 1.00 against {:.2}",
                hundredths(first)
            ),
            "grows",
            Rule::Above,
            &loads(FULL_LOAD, first, QOS, quantity),
        );
        judge.pairs(
            &format!(
                "MinBW, Fig 3: {what} (µs) of VO, VI and CL, load {:.2} against 1.00",
                hundredths(last)
            ),
            "more or less constant",
            Rule::Similar,
            &loads(last, FULL_LOAD, QOS, quantity),
        );
    }
    for class in QOS {
        let name = CLASSES[class];
        let mut pair = |what: &str, paper: &str, rule, one, other, quantity| {
            judge.pairs(
                &format!("MinBW, Fig 3: {what} (µs) of {name} at load 1.00"),
                paper,
                rule,
                &[schedulers(one, other, FULL_LOAD, class, quantity)],
            );
        };
        let latency = "mean latency";
        pair(latency, "SCFQ-CA worse than WFQ-CA", Rule::Above, SCFQ, WFQ, MEAN_US);
        pair(latency, "DRR-CA worse than SCFQ-CA", Rule::Above, DRR, SCFQ, MEAN_US);
        for (what, quantity) in [("maximum latency", MAX_US as Quantity), ("jitter", JITTER_US)] {
            pair(what, "SCFQ-CA and WFQ-CA similar", Rule::Similar, SCFQ, WFQ, quantity);
            pair(what, "DRR-CA and WFQ-CA similar", Rule::Similar, DRR, WFQ, quantity);
        }
    }
    let tried = judge.results.loads();
    let below: Vec<Pair> = (0..PAPER_SCHEDULERS)
        .flat_map(|scheduler| tried.iter().map(move |load| (scheduler, *load)))
        .flat_map(|(scheduler, load)| {
            [VI, CL].map(|other| classes(other, VO, scheduler, load, MEAN_US))
        })
        .collect();
    judge.pairs(
        "MinBW, Fig 3: mean latency (µs) of VI and CL against VO, every load",
        "VO better",
        Rule::Above,
        &below,
    );
    for (scheduler, paper, rule) in [
        (WFQ, "VI not worse than CL", Rule::NotAbove),
        (SCFQ, "VI not worse than CL", Rule::NotAbove),
        (DRR, "VI worse than CL", Rule::Above),
    ] {
        judge.pairs(
            &format!(
                "MinBW, Fig 3: mean latency (µs) of VI and CL under {} at load 1.00",
                SCHEDULERS[scheduler]
            ),
            paper,
            rule,
            &[classes(VI, CL, scheduler, FULL_LOAD, MEAN_US)],
        );
    }
}

/// Judges Figure 4.
fn best_effort(judge: &mut Judge<'_>) {
    judge.saturation();
    for (what, quantity, (first, second)) in [
        ("throughput (% of the links)", THROUGHPUT_SHARE as Quantity, ((EE, BE), (BE, BK))),
        ("mean latency (µs)", MEAN_US, ((BE, EE), (BK, BE))),
    ] {
        let pairs: Vec<Pair> = (0..PAPER_SCHEDULERS)
            .flat_map(|scheduler| [FULL_LOAD, LAST_LOAD].map(|load| (scheduler, load)))
            .flat_map(|(scheduler, load)| {
                [first, second].map(|(one, other)| classes(one, other, scheduler, load, quantity))
            })
            .collect();
        judge.pairs(
            &format!("MinBW, Fig 4: {what} of EE, BE and BK from load 1.00 on"),
            "EE best, BK worst",
            Rule::Above,
            &pairs,
        );
    }
    judge.proportion((EE, BE), 3.0);
    judge.proportion((BE, BK), 2.0);
    let tried = judge.results.loads();
    let growth: Vec<Pair> =
        tried.windows(2).flat_map(|of| loads(of[1], of[0], BEST_EFFORT, MEAN_US)).collect();
    judge.pairs(
        "MinBW, Fig 4: mean latency (µs) of EE, BE and BK at each load against the load before",
        "grows",
        Rule::Above,
        &growth,
    );
}

/// Judges section IV's order of complexity by the instructions counted in `cost.md`.
fn costs(claims: &mut Vec<Claim>, file: &Path) -> miette::Result<()> {
    let text =
        std::fs::read_to_string(file).map_err(|error| miette!("{}: {error}", file.display()))?;
    let cost = |scheduler: usize| {
        instructions(&text, SCHEDULERS[scheduler])
            .ok_or_else(|| miette!("{}: no row of {}", file.display(), SCHEDULERS[scheduler]))
    };
    for (one, other, paper) in [
        (WFQ, SCFQ, "WFQ-CA has the highest complexity"),
        (SCFQ, DRR, "SCFQ-CA is more complex than DRR-CA, the simplest"),
    ] {
        let (first, second) = (cost(one)?, cost(other)?);
        let test = Test::new(
            format!(
                "MinBW, section IV: instructions of a decision, {} and {}",
                SCHEDULERS[one], SCHEDULERS[other]
            ),
            paper,
            "difference > 0",
            Allowed::Above(0.0),
        );
        claims.push(test.by(
            Evidence::Computed,
            format!("{first:.0}, {second:.0}"),
            Estimate::exact(first - second),
            format!("{:+.0} %, exact", 100.0 * (first / second - 1.0)),
        ));
    }
    Ok(())
}

/// Returns the instructions of a decision of `scheduler` in the table of `cost.md`.
fn instructions(table: &str, scheduler: &str) -> Option<f64> {
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = table.lines().map(cells);
    let column = lines.find_map(|row| row.iter().position(|cell| cell == "instructions"))?;
    let row = lines.find(|row| row.get(1).is_some_and(|cell| cell == scheduler))?;
    row.get(column)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Rule, instructions};
    use crate::claim::{Estimate, Verdict};

    fn verdict(rule: Rule, of: [(f64, f64); 2]) -> Verdict {
        let of = of.map(|(low, high)| Estimate { value: f64::midpoint(low, high), low, high });
        rule.allowed().judge(rule.tested(&of))
    }

    #[test]
    fn a_statement_about_all_needs_each_of_them() {
        use Verdict::{CannotTell, Differs, Reproduced};
        let order = |of| verdict(Rule::Above, of);
        assert_eq!(order([(1.0, 2.0), (3.0, 9.0)]), Reproduced);
        assert_eq!(order([(-1.0, 2.0), (3.0, 9.0)]), CannotTell);
        // One comparison is certainly wrong, so the other does not matter.
        assert_eq!(order([(-2.0, -1.0), (3.0, 9.0)]), Differs);
        assert_eq!(order([(-2.0, -1.0), (-3.0, 9.0)]), Differs);

        let not_above = |of| verdict(Rule::NotAbove, of);
        assert_eq!(not_above([(-2.0, -1.0), (-3.0, 0.0)]), Reproduced);
        assert_eq!(not_above([(-2.0, 1.0), (-3.0, 0.0)]), CannotTell);
        assert_eq!(not_above([(-2.0, -1.0), (0.1, 0.2)]), Differs);

        let similar = |of| verdict(Rule::Similar, of);
        assert_eq!(similar([(-9.0, 9.0), (-3.0, 0.0)]), Reproduced);
        assert_eq!(similar([(-11.0, 9.0), (-3.0, 0.0)]), CannotTell);
        assert_eq!(similar([(-12.0, -11.0), (-3.0, 0.0)]), Differs);
        assert_eq!(similar([(11.0, 12.0), (-30.0, 30.0)]), Differs);
    }

    #[test]
    fn the_shown_value_is_one_that_decides() {
        let of = |low, high| Estimate { value: f64::midpoint(low, high), low, high };
        let support = |rule: Rule, low, high| rule.support(of(low, high));
        // An open interval comes before a lower value that is certain.
        assert!(support(Rule::Above, -10.0, 50.0) < support(Rule::Above, 1.0, 2.0));
        assert!(support(Rule::Above, -3.0, -2.0) < support(Rule::Above, -10.0, 4.0));
        assert!(support(Rule::Similar, 11.0, 12.0) < support(Rule::Similar, -60.0, 60.0));
        assert!(support(Rule::NotAbove, -1.0, 1.0) < support(Rule::NotAbove, -1.0, 0.0));
    }

    #[test]
    fn instructions_are_read_from_the_table_of_costs() {
        let table = "text\n\n| | ns | instructions | loads |\n|---|---:|---:|---:|\n\
                     | WFQ-CA | 77 (76) | 1547 | 449 |\n| DRR-CA | 36 (36) | 752 | 238 |\n";
        assert_eq!(instructions(table, "WFQ-CA"), Some(1547.0));
        assert_eq!(instructions(table, "DRR-CA"), Some(752.0));
        assert_eq!(instructions(table, "SCFQ-CA"), None);
    }
}
