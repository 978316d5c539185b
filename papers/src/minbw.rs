//! The MinBW paper's Figures 2, 3 and 4: the service of each class in a fabric, by scheduler.

mod cost;
mod network;
mod results;

use miette::{IntoDiagnostic, miette};
use millstream_report::chart::Line;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

pub(crate) use self::cost::cycles;
use self::network::{CLASSES, SCHEDULERS};
use self::results::{Estimate, LOADS, PAPER_SCHEDULERS, Quantity, Results};
use crate::Job;
use crate::claim::{Claim, Evidence, HEAD, rows};
use crate::experiment::{Page, estimates};

/// The file of all runs.
const DATA: &str = "runs.csv";
/// Runs that a check repeats: scheduler, load, seed.
const REPEATED: [(usize, u32, u64); 4] = [(0, 62, 1), (1, 100, 2), (2, 70, 3), (4, 100, 10)];

const VO: usize = 1;
const VI: usize = 2;
const CL: usize = 3;
const EE: usize = 4;
const BE: usize = 5;
const BK: usize = 6;

const THROUGHPUT_SHARE: Quantity = |row| as_f64(row.throughput) / 1e4;
const SHORTFALL: Quantity = |row| as_f64(row.offered) / 1e4 - as_f64(row.throughput) / 1e4;
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
    let results = if job == Job::Measure {
        let results = Results::measure()?;
        page.files.push((DATA.to_owned(), results.write()));
        results
    } else {
        let results = Results::read(File::open(folder.join(DATA)).into_diagnostic()?)?;
        let mut agree = true;
        for (scheduler, load, seed) in REPEATED {
            agree &= results.agrees(scheduler, load, seed)?;
        }
        if !agree {
            return Err(miette!(
                "runs of {DATA} cannot be repeated; run `make figures PAPER=minbw`"
            ));
        }
        results
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
    page.claims.extend(statements(&results));
    page.files.push(("README.md".to_owned(), text(&results, &page.claims)));
    Ok(page)
}

/// Returns a scheduler's line, and half of the confidence interval at each point.
///
/// Loads at which the class injects no traffic have no point.
fn line(results: &Results, scheduler: usize, class: usize, quantity: Quantity) -> (Line, Vec<f64>) {
    let loads = LOADS.into_iter().filter(|load| results.injects(scheduler, *load, class));
    let (points, halves) = loads
        .map(|load| {
            let of = results.estimate(scheduler, load, class, quantity);
            ((f64::from(load) / 100.0, of.mean), of.half_width)
        })
        .unzip();
    (Line { name: SCHEDULERS[scheduler].to_owned(), points }, halves)
}

/// Returns the paper's statements and our results.
fn statements(results: &Results) -> Vec<Claim> {
    let paper_schedulers = 0..PAPER_SCHEDULERS;
    let mean =
        |scheduler, load, class, quantity| results.estimate(scheduler, load, class, quantity).mean;
    let mut claims = Vec::new();
    let mut claim = |what: &str, paper: &str, ours: String, holds: bool| {
        claims.push(Claim::exactly(
            format!("MinBW, {what}"),
            paper,
            ours,
            Evidence::Simulated,
            holds,
        ));
    };

    let missed = paper_schedulers.clone().flat_map(|scheduler| {
        LOADS.into_iter().flat_map(move |load| {
            (0..=CL).map(move |class| {
                mean(scheduler, load, class, SHORTFALL)
                    / mean(scheduler, load, class, THROUGHPUT_SHARE)
            })
        })
    });
    let missed = missed.map(|share| 100.0 * share.abs()).fold(0.0, f64::max);
    claim(
        "Figs 2 and 3: NC, VO, VI and CL: throughput equals the injected load, at every load",
        "equal",
        format!("within {missed:.2} %"),
        missed < 1.0,
    );

    let begins = |scheduler: usize| {
        LOADS.into_iter().find(|load| {
            (EE..=BK).any(|class| {
                mean(scheduler, *load, class, SHORTFALL)
                    > 0.03 * mean(scheduler, *load, class, THROUGHPUT_SHARE)
            })
        })
    };
    let first = paper_schedulers.clone().filter_map(begins).min().unwrap_or(u32::MAX);
    claim(
        "Fig 4: lowest load at which best effort's throughput is 3 % below its injected load",
        "around 85 %",
        format!("{first} % (of the loads tried)"),
        (80..=90).contains(&first),
    );

    let in_order = |quantity: Quantity, rising: bool| {
        paper_schedulers.clone().all(|scheduler| {
            LOADS.into_iter().filter(|load| *load >= 90).all(|load| {
                let [first, second, third] =
                    [EE, BE, BK].map(|class| mean(scheduler, load, class, quantity));
                if rising {
                    first < second && second < third
                } else {
                    first > second && second > third
                }
            })
        })
    };
    let verdict = |holds: bool| if holds { "at every load from 0.9" } else { "not at every load" };
    for (what, quantity, rising) in [
        ("throughput: EE > BE > BK", THROUGHPUT_SHARE, false),
        ("mean latency: EE < BE < BK", MEAN_US, true),
    ] {
        let holds = in_order(quantity, rising);
        claim(&format!("Fig 4, {what}"), "by priority", verdict(holds).into(), holds);
    }

    for class in [VO, VI, CL] {
        let [wfq, scfq, drr] = [0, 1, 2].map(|scheduler| mean(scheduler, 100, class, MEAN_US));
        claim(
            &format!(
                "Fig 3: mean latency of {} at full load, WFQ-CA ≤ SCFQ-CA ≤ DRR-CA",
                CLASSES[class]
            ),
            "WFQ-CA best, DRR-CA worst",
            format!("{wfq:.1}, {scfq:.1}, {drr:.1} µs"),
            wfq <= scfq && scfq <= drr,
        );
        let apart = |of: [f64; 3]| {
            let least = of.into_iter().fold(f64::MAX, f64::min);
            of.into_iter().fold(0.0, f64::max) / least
        };
        let maxima = [0, 1, 2].map(|scheduler| mean(scheduler, 100, class, MAX_US));
        claim(
            &format!(
                "Fig 3: maximum latency of {} at full load, spread smaller than the mean's",
                CLASSES[class]
            ),
            "quite similar",
            format!(
                "{:.0}, {:.0}, {:.0} µs: ratio {:.1}, of the mean {:.1}",
                maxima[0],
                maxima[1],
                maxima[2],
                apart(maxima),
                apart([wfq, scfq, drr])
            ),
            apart(maxima) < apart([wfq, scfq, drr]),
        );
    }

    let below = paper_schedulers.clone().all(|scheduler| {
        LOADS.into_iter().all(|load| {
            let vo = mean(scheduler, load, VO, MEAN_US);
            vo < mean(scheduler, load, VI, MEAN_US) && vo < mean(scheduler, load, CL, MEAN_US)
        })
    });
    claim(
        "Fig 3: mean latency of VO below that of VI and CL",
        "at every load",
        if below { "at every load" } else { "not at every load" }.into(),
        below,
    );
    let worse = paper_schedulers.clone().map(|scheduler| {
        let [vi, cl] = [VI, CL].map(|class| mean(scheduler, 100, class, MEAN_US));
        vi / cl
    });
    let worse: Vec<f64> = worse.collect();
    claim(
        "Fig 3: mean latency of VI over that of CL at full load",
        "worse under DRR-CA only",
        format!("{:.2}, {:.2}, {:.2}", worse[0], worse[1], worse[2]),
        worse[2] > 1.0 && worse[0] <= 1.0 && worse[1] <= 1.0,
    );
    let control = [0, 1, 2].map(|scheduler| mean(scheduler, 100, 0, MEAN_US));
    let half_width = results.estimate(0, 100, 0, MEAN_US).half_width;
    claim(
        "Fig 2: mean latency of NC at full load",
        "alike",
        format!("{:.1}, {:.1}, {:.1} µs", control[0], control[1], control[2]),
        control.iter().all(|one| (one - control[0]).abs() <= half_width.max(0.05 * control[0])),
    );
    let [wfq, scfq] =
        [0, 1].map(|scheduler| control[scheduler] / mean(scheduler, 100, VO, MEAN_US));
    claim(
        "Figs 2 and 3: mean latency of NC over that of VO at full load, WFQ-CA and SCFQ-CA",
        "above 1: NC is bursty",
        format!("{wfq:.2}, {scfq:.2}"),
        wfq > 1.0 && scfq > 1.0,
    );
    claims
}

fn text(results: &Results, claims: &[Claim]) -> String {
    let mut text = String::from(include_str!("minbw/page.md"));
    text += "\n## The paper's statements\n\n";
    text += HEAD;
    text += &rows(claims, "MinBW, ");
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
                for load in LOADS {
                    let _ = write!(text, "| {:.2} |", f64::from(load) / 100.0);
                    for scheduler in 0..PAPER_SCHEDULERS {
                        let value = results.estimate(scheduler, load, *class, *quantity);
                        let injects = results.injects(scheduler, load, *class);
                        let shown = if injects { estimate(value) } else { "–".into() };
                        let _ = write!(text, " {shown} |");
                    }
                    text.push('\n');
                }
            }
        }
    }
    let _ = writeln!(
        text,
        "\n## Other schedulers at full load\n\nMean latency (µs), and for best effort throughput \
         (% of the links); the management channel has priority in all of them.\n"
    );
    let heads: String = CLASSES.iter().map(|class| format!(" {class} |")).collect();
    let _ = writeln!(
        text,
        "| |{heads} EE throughput | BE throughput | BK throughput |\n|---|{}",
        "---:|".repeat(CLASSES.len() + 3)
    );
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        let _ = write!(text, "| {name} |");
        let latencies = (0..CLASSES.len()).map(|class| (class, MEAN_US));
        for (class, quantity) in
            latencies.chain([EE, BE, BK].map(|class| (class, THROUGHPUT_SHARE)))
        {
            let _ =
                write!(text, " {} |", estimate(results.estimate(scheduler, 100, class, quantity)));
        }
        text.push('\n');
    }
    text
}

/// Formats three significant digits and their uncertainty.
fn estimate(of: Estimate) -> String {
    let digits = if of.mean >= 100.0 {
        0
    } else if of.mean >= 10.0 {
        1
    } else {
        2
    };
    format!("{:.digits$} ± {:.digits$}", of.mean, of.half_width)
}
