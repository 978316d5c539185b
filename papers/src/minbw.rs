//! The MinBW paper's Figures 2, 3 and 4: the service of each class in a fabric, by scheduler.

mod cost;
mod gaps;
mod interval;
mod multicast;
mod network;
mod results;
mod statements;
mod steady;

use miette::{IntoDiagnostic, miette};
use millstream_report::chart::Line;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

pub(crate) use self::cost::cycles;
use self::network::{CLASSES, SCHEDULERS, WINDOW_NS};
use self::results::{FULL_LOAD, LOADS, PAPER_SCHEDULERS, Point, Quantity, Results};
use crate::Job;
use crate::claim::{Claim, Estimate, HEAD, rows};
use crate::experiment::{Page, estimates};

/// The file of all runs.
const DATA: &str = "runs.csv";
/// Runs whose start a check repeats: scheduler, load, seed.
const REPEATED: [(usize, u32, u64); 3] = [(0, 77, 1), (1, 100, 2), (2, 138, 3)];

const VO: usize = 1;
const VI: usize = 2;
const CL: usize = 3;
const EE: usize = 4;
const BE: usize = 5;
const BK: usize = 6;

const THROUGHPUT_SHARE: Quantity = |row| as_f64(row.throughput) / 1e4;
const MEAN_US: Quantity = |row| as_f64(row.mean_ns) / 1e3;
const MAX_US: Quantity = |row| as_f64(row.max_ns) / 1e3;
const JITTER_US: Quantity = |row| as_f64(row.jitter_ns) / 1e3;

/// A quantity: short name, axis label, and accessor.
type Panel = (&'static str, &'static str, Quantity);

/// The figures: the paper's number, classes and quantities.
const FIGURES: [(u32, &[usize], &[Panel]); 3] = [
    (2, &[0], &[THROUGHPUT, LATENCY, MAXIMUM]),
    (3, &[VO, VI, CL], &[THROUGHPUT, LATENCY, MAXIMUM, JITTER]),
    (4, &[EE, BE, BK], &[THROUGHPUT, LATENCY]),
];
const THROUGHPUT: Panel = ("throughput", "throughput (% of the links)", THROUGHPUT_SHARE);
const LATENCY: Panel = ("latency", "mean latency (µs)", MEAN_US);
const MAXIMUM: Panel = ("maximum", "maximum latency (µs)", MAX_US);
const JITTER: Panel = ("jitter", "maximum jitter (µs)", JITTER_US);

#[allow(clippy::cast_precision_loss)]
const fn as_f64(number: u64) -> f64 {
    number as f64
}

/// Returns the figures, their numbers and the paper's statements.
///
/// Runs all experiments, or reads the stored runs and repeats a few.
pub(crate) fn page(folder: &Path, job: Job) -> miette::Result<Page> {
    let mut page = Page { files: Vec::new(), claims: Vec::new() };
    let (results, multicast) = if job == Job::Measure {
        let multicast = multicast::Runs::measure()?;
        page.files.push((multicast::DATA.to_owned(), multicast.write()));
        let results = Results::measure()?;
        page.files.push((DATA.to_owned(), results.write()));
        (results, multicast)
    } else {
        let results = Results::read(File::open(folder.join(DATA)).into_diagnostic()?)?;
        let multicast = folder.join(multicast::DATA);
        let multicast = multicast::Runs::read(File::open(multicast).into_diagnostic()?)?;
        let mut agree = multicast.agree()?;
        for (scheduler, load, seed) in REPEATED {
            agree &= results.agrees(scheduler, load, seed)?;
        }
        if !agree {
            return Err(miette!(
                "runs of {DATA} or {} cannot be repeated; run `make figures PAPER=minbw`",
                multicast::DATA
            ));
        }
        (results, multicast)
    };
    for (number, classes, quantities) in FIGURES {
        for class in classes {
            for (short, label, quantity) in quantities {
                let name = CLASSES[*class];
                let (drawn, halves): (Vec<Line>, Vec<Vec<f64>>) = (0..PAPER_SCHEDULERS)
                    .map(|scheduler| line(&results, scheduler, *class, *quantity))
                    .unzip();
                let title = format!("Fig {number}: {name}, {short}, 90 % confidence");
                let axes = (("offered load", false), (*label, false));
                let svg = estimates(&title, axes.0, axes.1, &drawn, &halves)?;
                let file = format!("fig{number}-{}-{short}.svg", name.to_lowercase());
                page.files.push((file, svg));
            }
        }
    }
    page.claims.extend(statements::statements(&results, folder)?);
    page.claims.extend(multicast.claims());
    let text = text(&results, &page.claims) + &multicast.section();
    page.files.push(("README.md".to_owned(), text));
    Ok(page)
}

/// Returns a scheduler's line, and half of the confidence interval at each point.
///
/// Loads at which the class injects no traffic have no point.
fn line(results: &Results, scheduler: usize, class: usize, quantity: Quantity) -> (Line, Vec<f64>) {
    let loads = results.loads().into_iter();
    let loads = loads.filter(|load| results.injects(scheduler, *load, class));
    let (points, halves) = loads
        .map(|load| {
            let of = results.estimate(Point { scheduler, load, class, quantity });
            ((f64::from(load) / 100.0, of.value), of.high - of.value)
        })
        .unzip();
    (Line { name: SCHEDULERS[scheduler].to_owned(), points }, halves)
}

/// Returns the length of the measured window, ms.
fn window_ms() -> u64 {
    (WINDOW_NS.end - WINDOW_NS.start) / 1_000_000
}

/// Returns the tables of the steady state: what MSER-5 removes, and the drift within the window.
fn steady_state(results: &Results) -> String {
    let mut text = String::from(
        "\nTime that MSER-5 removes from the start of each class's throughput, ms: the median of \
         all runs of a load, the greatest, and the runs without a steady state (minimum in the \
         second half of the run):\n\n",
    );
    let heads: String = CLASSES.iter().map(|class| format!(" {class} |")).collect();
    let head = format!("| load |{heads}\n|---:|{}\n", "---:|".repeat(CLASSES.len()));
    text += &head;
    for load in results.loads() {
        let _ = write!(text, "| {:.2} |", f64::from(load) / 100.0);
        for class in 0..CLASSES.len() {
            let _ = write!(text, " {} |", truncated(results, load, class));
        }
        text.push('\n');
    }
    for (name, drift) in [
        ("throughput", (|row| row.half_throughputs.map(as_f64)) as Halves),
        ("mean latency", |row| row.half_means_ns.map(as_f64)),
    ] {
        let _ = writeln!(
            text,
            "\nDrift of the {name}: second half of the window against the first, % of the first, \
             of the scheduler of the three with the greatest drift; 95 % interval. **Bold**: the \
             interval excludes 0.\n"
        );
        text += &head;
        for load in results.loads() {
            let _ = write!(text, "| {:.2} |", f64::from(load) / 100.0);
            for class in 0..CLASSES.len() {
                let greatest = (0..PAPER_SCHEDULERS)
                    .map(|scheduler| drift_of(results.rows(scheduler, load, class), drift))
                    .reduce(
                        |one, other| {
                            if other.value.abs() > one.value.abs() { other } else { one }
                        },
                    );
                let _ = write!(text, " {} |", greatest.map_or(String::new(), shown_drift));
            }
            text.push('\n');
        }
    }
    text
}

/// A quantity of both halves of the window.
type Halves = fn(&network::Row) -> [f64; 2];

/// Returns the mean drift over the runs, % of the first half.
fn drift_of(rows: &[network::Row], halves: Halves) -> Estimate {
    let halves: Vec<[f64; 2]> = rows.iter().map(halves).collect();
    #[allow(clippy::cast_precision_loss)]
    let first = halves.iter().map(|[first, _]| first).sum::<f64>() / halves.len() as f64;
    let drifts: Vec<f64> =
        halves.iter().map(|[one, other]| 100.0 * (other - one) / first).collect();
    interval::mean(&drifts, 0.95)
}

fn shown_drift(of: Estimate) -> String {
    let shown = format!("{:+.1} ± {:.1}", of.value, of.high - of.value);
    if of.low > 0.0 || of.high < 0.0 { format!("**{shown}**") } else { shown }
}

/// Returns median and greatest truncation of the paper's schedulers, and the runs without one.
fn truncated(results: &Results, load: u32, class: usize) -> String {
    let rows = (0..PAPER_SCHEDULERS).flat_map(|scheduler| results.rows(scheduler, load, class));
    let (mut found, mut none) = (Vec::new(), 0);
    for row in rows {
        match row.truncated_us {
            Some(us) => found.push(as_f64(us) / 1e3),
            None => none += 1,
        }
    }
    found.sort_by(f64::total_cmp);
    let Some(greatest) = found.last() else { return format!("none in {none}") };
    let median = f64::midpoint(found[(found.len() - 1) / 2], found[found.len() / 2]);
    let missing = if none > 0 { format!("; {none} without") } else { String::new() };
    format!("{median}, {greatest}{missing}")
}

fn text(results: &Results, claims: &[Claim]) -> String {
    let mut text = String::from(include_str!("minbw/page.md"));
    let load = |load: u32| format!("{:.2}", f64::from(load) / 100.0);
    let full = |class, quantity| {
        let of = |scheduler| Point { scheduler, load: FULL_LOAD, class, quantity };
        let shown =
            (0..PAPER_SCHEDULERS).map(|scheduler| estimate(results.estimate(of(scheduler))));
        shown.collect::<Vec<_>>().join(", ")
    };
    for (key, value) in [
        ("{end_ms}", (WINDOW_NS.end / 1_000_000).to_string()),
        ("{warm_up_ms}", (WINDOW_NS.start / 1_000_000).to_string()),
        ("{window_ms}", window_ms().to_string()),
        ("{first_load}", load(LOADS[0])),
        ("{second_load}", load(LOADS[1])),
        ("{last_load}", load(LOADS[LOADS.len() - 1])),
        ("{bk_throughput}", full(BK, THROUGHPUT_SHARE)),
        ("{vo_maxima}", full(VO, MAX_US)),
        ("{nc_throughput}", full(0, THROUGHPUT_SHARE)),
    ] {
        text = text.replace(key, &value);
    }
    text += "\n## The paper's statements\n\n";
    text += HEAD;
    text += &rows(claims, "MinBW, ");
    text += "\n## The steady state\n";
    text += &steady_state(results);
    for (number, classes, quantities) in FIGURES {
        let _ = writeln!(text, "\n## Figure {number}");
        for class in classes {
            let name = CLASSES[*class];
            for (short, label, quantity) in quantities {
                let _ = writeln!(
                    text,
                    "\n![{name}, {short}](fig{number}-{}-{short}.svg)\n",
                    name.to_lowercase()
                );
                let heads: String = SCHEDULERS[..PAPER_SCHEDULERS]
                    .iter()
                    .map(|scheduler| format!(" {scheduler} |"))
                    .collect();
                let _ = writeln!(
                    text,
                    "{name}, {label}:\n\n| load |{heads}\n|---:|{}",
                    "---:|".repeat(PAPER_SCHEDULERS)
                );
                for load in results.loads() {
                    let _ = write!(text, "| {:.2} |", f64::from(load) / 100.0);
                    for scheduler in 0..PAPER_SCHEDULERS {
                        let (class, quantity) = (*class, *quantity);
                        let of = Point { scheduler, load, class, quantity };
                        let value = results.estimate(of);
                        let injects = results.injects(scheduler, load, class);
                        let shown = if injects { estimate(value) } else { "–".into() };
                        let _ = write!(text, " {shown} |");
                    }
                    text.push('\n');
                }
            }
        }
    }
    text
}

/// Formats three significant digits and their uncertainty.
fn estimate(of: Estimate) -> String {
    let digits = if of.value >= 100.0 {
        0
    } else if of.value >= 10.0 {
        1
    } else {
        2
    };
    format!("{:.digits$} ± {:.digits$}", of.value, of.high - of.value)
}
