//! ShareStreams, section 6: the network compared with a shift register and a systolic array; and
//! section 4: relaxed priority updates.
//!
//! Runs the cycle-accurate models of `millstream_hw::priority_queue`, which make the engine's
//! decisions (its tests compare them).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

use millstream::StreamId;
use millstream_hw::priority_queue::{Cost, Relaxed, Structure};
use millstream_hw::{Reference, Settings};
use millstream_report::chart::Line;

use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, HEAD, Test, rows};
use crate::experiment::{Page, figure};
use crate::sharestreams_block::{
    Outcome, SETS, SLOTS, STREAMS, Scenario, UTILISATIONS, edf_of, fair, percent,
    random_windows_of, violated,
};
use crate::sharestreams_hardware::decision_blocks_over_ba;

/// Numbers of streams.
const SIZES: [u32; 4] = [4, 8, 16, 32];

/// Packet-times of a run that measures cycles.
const COST_SLOTS: u64 = 4_000;

/// Decisions from one update of the losers to the next.
const INTERVALS: [u64; 5] = [1, 2, 4, 8, 16];

/// The utilisation of the claims about relaxed updates, %.
const RELAXED_UTILISATION: u32 = 90;

const CONFIDENCE: f64 = 0.95;

/// The paper's statement about chains.
const PAPER_ON_CHAINS: &str = "not efficient: sorted again in every decision cycle";

/// A workload by number of streams and seed.
struct Workload {
    name: &'static str,
    scenario: fn(u32, u64) -> Scenario,
    seeds: u64,
}

/// The workloads: all streams miss in each packet-time, some, or none.
const WORKLOADS: [Workload; 4] = [
    Workload { name: "fair shares, backlogged", scenario: |n, _| fair(n / 4), seeds: 1 },
    Workload {
        name: "random windows, U 1.0",
        scenario: |n, seed| random_windows_of(n, 100, seed),
        seeds: SETS,
    },
    Workload {
        name: "random windows, U 0.7",
        scenario: |n, seed| random_windows_of(n, 70, seed),
        seeds: SETS,
    },
    Workload { name: "EDF, U 0.9", scenario: |n, seed| edf_of(n, 90, seed), seeds: SETS },
];

const NAMES: [(Structure, &str); 3] = [
    (Structure::Shuffle, "shuffle"),
    (Structure::ShiftRegister, "shift register"),
    (Structure::Systolic, "systolic array"),
];

/// The cost of a run.
#[derive(Clone, Copy)]
struct RunCost {
    total: Cost,
    /// Cycles of the longest decision after the first, arrivals before it included.
    longest: u64,
}

/// Runs `scenario` for `slots` packet-times, one decision in each.
fn run(
    scenario: &Scenario,
    structure: Structure,
    relaxed: Relaxed,
    slots: u64,
) -> (Outcome, RunCost) {
    let settings = Settings { mode: scenario.mode, lowest_denominator: false, rtas99: false };
    let mut reference = Reference::with_structure(settings, structure, relaxed);
    for load in &scenario.loads {
        reference.load(load).expect("a complete contract");
    }
    let streams = scenario.loads.len();
    let numbers = || (0..).map(StreamId).take(streams);
    let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); streams];
    let mut sent: Vec<Vec<Option<u64>>> = vec![Vec::new(); streams];
    let mut dropped = vec![0; streams];
    let (mut packets, mut longest) = (0, 0);
    for now in 0..slots {
        let before = reference.structure_cost().cycles;
        for (stream, load) in numbers().zip(&scenario.loads) {
            let count = match scenario.backlogged {
                true if now == 0 => slots,
                true => 0,
                false => u64::from(now.is_multiple_of(load.period.into())),
            };
            for _ in 0..count {
                reference.enqueue(now, stream, 64);
                waiting[stream.index()].push_back(sent[stream.index()].len());
                sent[stream.index()].push(None);
            }
        }
        let winner = reference.decide(now);
        if now > 0 {
            longest = longest.max(reference.structure_cost().cycles - before);
        }
        // A decision drops late heads, then serves the winner.
        for stream in numbers() {
            let after = reference.attributes(stream).dropped;
            while dropped[stream.index()] < after {
                waiting[stream.index()].pop_front();
                dropped[stream.index()] += 1;
            }
        }
        if let Some(stream) = winner {
            let packet = waiting[stream.index()].pop_front().expect("it has a head");
            sent[stream.index()][packet] = Some(now);
            packets += 1;
        }
    }
    let total = reference.structure_cost();
    (Outcome { sent, packets, cycles: total.cycles }, RunCost { total, longest })
}

#[allow(clippy::cast_precision_loss)]
fn per_decision(part: u64, cost: RunCost) -> f64 {
    part as f64 / cost.total.decisions.max(1) as f64
}

/// Returns the costs of the structures for a workload, by structure and seed.
fn costs(workload: &Workload, streams: u32) -> [Vec<RunCost>; 3] {
    Structure::ALL.map(|structure| {
        let seeds = 1..=workload.seeds;
        let cost = |seed| {
            let scenario = (workload.scenario)(streams, seed);
            run(&scenario, structure, Relaxed::NEVER, COST_SLOTS).1
        };
        seeds.map(cost).collect()
    })
}

fn mean(costs: &[RunCost], part: fn(&Cost) -> u64) -> f64 {
    let value = |cost: &RunCost| per_decision(part(&cost.total), *cost);
    let values: Vec<f64> = costs.iter().map(value).collect();
    #[allow(clippy::cast_precision_loss)]
    let count = values.len().max(1) as f64;
    values.iter().sum::<f64>() / count
}

/// Returns the cycles of the longest decision of all runs.
fn longest(costs: &[RunCost]) -> u64 {
    costs.iter().map(|cost| cost.longest).max().unwrap_or(0)
}

/// Returns an estimate over seeds, exact for one seed, and its words.
fn over_seeds(values: &[f64]) -> (Estimate, String) {
    match values {
        [one] => (Estimate::exact(*one), "exact, one deterministic run".to_owned()),
        _ => {
            let words = format!("mean of {} sets, 95 % by Student's t", values.len());
            (Estimate::mean(values, CONFIDENCE), words)
        }
    }
}

/// Writes the costs by workload and size; returns the claims and the lines of the figure.
fn cost_section(text: &mut String, folder: &Path) -> miette::Result<(Vec<Claim>, Vec<Line>)> {
    let mut claims = Vec::new();
    let mut lines = Vec::new();
    for (streams, ratio) in decision_blocks_over_ba(folder)? {
        let blocks = NAMES.map(|(structure, _)| structure.decision_blocks(streams));
        let what = format!("Sec 6: decision blocks of a chain, {streams} streams");
        let paper = "one in every element; N / 2 in the network";
        let criterion = "more than the network's";
        let network = f64::from(blocks[0]);
        claims.push(Test::new(what, paper, criterion, Allowed::Above(network)).by(
            Evidence::Computed,
            format!("{} instead of {}", blocks[1], blocks[0]),
            Estimate::exact(f64::from(blocks[1])),
            format!("× 2; {:+.0} % of BA's LUTs (Virtex); exact", 100.0 * ratio),
        ));
    }
    *text += "| workload | streams | changes a decision | cycles: shuffle | shift register \
              | systolic | longest decision: shuffle | shift register | systolic \
              | comparisons: shuffle | shift register | systolic \
              |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for workload in &WORKLOADS {
        let mut points = vec![Vec::new(); NAMES.len()];
        for streams in SIZES {
            let costs = costs(workload, streams);
            let cycles = costs.each_ref().map(|costs| mean(costs, |cost| cost.cycles));
            let comparisons = costs.each_ref().map(|costs| mean(costs, |cost| cost.comparisons));
            let show = |values: [f64; 3]| values.map(|value| format!("{value:.1}")).join(" | ");
            let _ = writeln!(
                text,
                "| {} | {streams} | {:.1} | {} | {} | {} |",
                workload.name,
                mean(&costs[1], |cost| cost.changes),
                show(cycles),
                costs.each_ref().map(|costs| longest(costs).to_string()).join(" | "),
                show(comparisons)
            );
            for (points, cycles) in points.iter_mut().zip(cycles) {
                points.push((f64::from(streams), cycles));
            }
            if streams == STREAMS {
                claims.extend(cycle_claims(workload, &costs));
            }
        }
        for ((_, name), points) in NAMES.iter().zip(points) {
            // The network's cycles do not depend on the workload.
            if *name == "shuffle" && !lines.is_empty() {
                continue;
            }
            let name = if *name == "shuffle" {
                (*name).into()
            } else {
                format!("{name}, {}", workload.name)
            };
            lines.push(Line { name, points });
        }
    }
    Ok((claims, lines))
}

/// Tests that a chain needs more cycles than the network, at 16 streams.
fn cycle_claims(workload: &Workload, costs: &[Vec<RunCost>; 3]) -> Vec<Claim> {
    let claim = |at: usize| {
        let ratio = |(network, chain): (&RunCost, &RunCost)| {
            let cycles = |cost: &RunCost| per_decision(cost.total.cycles, *cost);
            cycles(chain) / cycles(network)
        };
        let ratios: Vec<f64> = costs[0].iter().zip(&costs[at]).map(ratio).collect();
        let (ratio, words) = over_seeds(&ratios);
        let what = format!(
            "Sec 6: cycles of the {} over the network's, {STREAMS} streams, {}",
            NAMES[at].1, workload.name
        );
        let criterion = "more cycles a decision than the network, same decisions";
        Test::new(what, PAPER_ON_CHAINS, criterion, Allowed::Above(1.0)).by(
            Evidence::Simulated,
            format!(
                "{:.1} against {:.1} cycles",
                mean(&costs[at], |cost| cost.cycles),
                mean(&costs[0], |cost| cost.cycles)
            ),
            ratio,
            format!("× {:.2} [{:.2}, {:.2}]; {words}", ratio.value, ratio.low, ratio.high),
        )
    };
    #[allow(clippy::cast_precision_loss)]
    let [network, register] = [0, 1].map(|at| longest(&costs[at]) as f64);
    let what = format!(
        "Sec 6: longest decision of the {} over the network's, {STREAMS} streams, {}",
        NAMES[1].1, workload.name
    );
    let criterion = "more cycles than the network's longest decision";
    let words = match workload.seeds {
        1 => "exact, one deterministic run".to_owned(),
        sets => format!("exact, the longest of {sets} sets"),
    };
    let longest = Test::new(what, PAPER_ON_CHAINS, criterion, Allowed::Above(1.0)).by(
        Evidence::Simulated,
        format!("{register} against {network} cycles"),
        Estimate::exact(register / network),
        format!("× {:.2}; {words}", register / network),
    );
    vec![claim(1), claim(2), longest]
}

/// The losses of random windows with relaxed updates: windows violated and packets late, %, by set.
struct Losses {
    windows: Vec<f64>,
    late: Vec<f64>,
}

fn losses(utilisation: u32, interval: u64) -> Losses {
    let mut losses = Losses { windows: Vec::new(), late: Vec::new() };
    for seed in 1..=SETS {
        let scenario = random_windows_of(STREAMS, utilisation, seed);
        let (outcome, _) = run(&scenario, Structure::Shuffle, Relaxed(interval), SLOTS);
        let lost = outcome.lost(&scenario);
        let (broken, windows) = violated(&lost, &scenario.loads);
        losses.windows.push(percent(broken, windows));
        let late = lost.iter().flatten().filter(|lost| **lost).count() as u64;
        let due: usize = lost.iter().map(Vec::len).sum();
        losses.late.push(percent(late, due as u64));
    }
    losses
}

/// Writes the tables of relaxed updates; returns the claims and the lines of the figure.
fn relaxed_section(text: &mut String) -> (Vec<Claim>, Vec<Line>) {
    let all: Vec<Vec<Losses>> = INTERVALS
        .map(|interval| UTILISATIONS.map(|utilisation| losses(utilisation, interval)).into())
        .into();
    let heads: String =
        UTILISATIONS.iter().map(|u| format!(" U {:.1} |", f64::from(*u) / 100.0)).collect();
    let mut table = |title: &str, value: fn(&Losses) -> &Vec<f64>| {
        let _ = write!(
            text,
            "\n{title}:\n\n| update of the losers |{heads}\n|---|{}\n",
            "---:|".repeat(UTILISATIONS.len())
        );
        for (interval, losses) in INTERVALS.iter().zip(&all) {
            let cell = |losses: &Losses| {
                format!(" {:.2} |", Estimate::mean(value(losses), CONFIDENCE).value)
            };
            let cells: String = losses.iter().map(cell).collect();
            let _ = writeln!(text, "| every {interval} decisions |{cells}");
        }
    };
    table("Windows violated, % (mean of ten sets)", |losses| &losses.windows);
    table("Deadlines missed, % of packets", |losses| &losses.late);

    *text += "\nCycles of a decision with relaxed updates, 16 streams, random windows at U 1.0 and \
              fair shares (the network: log2 N + 1, or log2 N where it skips PRIORITY_UPDATE):\n\n\
              | update of the losers | shift register, windows | systolic, windows \
              | shift register, fair | systolic, fair |\n|---|---:|---:|---:|---:|\n";
    for interval in INTERVALS {
        let mut cells = String::new();
        for scenario in [random_windows_of(STREAMS, 100, 1), fair(STREAMS / 4)] {
            for structure in [Structure::ShiftRegister, Structure::Systolic] {
                let cost = run(&scenario, structure, Relaxed(interval), COST_SLOTS).1;
                let _ = write!(cells, " {:.1} |", per_decision(cost.total.cycles, cost));
            }
        }
        let _ = writeln!(text, "| every {interval} decisions |{cells}");
    }

    let at = UTILISATIONS.iter().position(|u| *u == RELAXED_UTILISATION).unwrap_or(0);
    let mut claims = vec![Claim::given(
        "Sec 4: reading of \"relax priority updates\"",
        "not given here; [11] has software",
        "the losers' misses are charged in every r-th decision, the winner's update in each",
        Given::Input,
    )];
    let setting = format!("{STREAMS} streams, random windows, U 0.{}", RELAXED_UTILISATION / 10);
    for (interval, losses) in INTERVALS.iter().zip(&all).skip(1) {
        let exact = &all[0][at].windows;
        let relaxed = &losses[at].windows;
        let more: Vec<f64> = relaxed.iter().zip(exact).map(|(more, less)| more - less).collect();
        let (more, words) = over_seeds(&more);
        let kept = relaxed.iter().filter(|broken| **broken <= 0.0).count();
        let what = format!("Sec 4: windows violated, losers updated every {interval}, {setting}");
        let criterion = "no more windows violated than with an update in each decision";
        claims.push(Test::new(what, "bounds are maintained", criterion, Allowed::AtMost(0.0)).by(
            Evidence::Simulated,
            format!(
                "{:.2} % instead of {:.2} %",
                Estimate::mean(relaxed, CONFIDENCE).value,
                Estimate::mean(exact, CONFIDENCE).value
            ),
            more,
            format!(
                "{:+.2} points [{:.2}, {:.2}]; {words}; {kept} of {SETS} sets keep all windows",
                more.value, more.low, more.high
            ),
        ));
    }
    let last = INTERVALS.len() - 1;
    let late = |losses: &Losses| losses.late.clone();
    let more: Vec<f64> = late(&all[last][at])
        .iter()
        .zip(late(&all[0][at]))
        .map(|(more, less)| more - less)
        .collect();
    let (more, words) = over_seeds(&more);
    claims.push(
        Test::new(
            format!("Sec 4: deadlines missed, losers updated every {}, {setting}", INTERVALS[last]),
            "without severe degradation",
            "none: no number",
            Allowed::Unstated,
        )
        .by(
            Evidence::Simulated,
            format!(
                "{:.1} % instead of {:.1} %",
                Estimate::mean(&all[last][at].late, CONFIDENCE).value,
                Estimate::mean(&all[0][at].late, CONFIDENCE).value
            ),
            more,
            format!("{:+.1} points [{:.1}, {:.1}]; {words}", more.value, more.low, more.high),
        ),
    );
    let line = |(interval, losses): (&u64, &Vec<Losses>)| {
        let x = UTILISATIONS.iter().map(|u| f64::from(*u) / 100.0);
        let y = losses.iter().map(|losses| Estimate::mean(&losses.windows, CONFIDENCE).value);
        Line { name: format!("every {interval}"), points: x.zip(y).collect() }
    };
    (claims, INTERVALS.iter().zip(&all).map(line).collect())
}

/// Runs all experiments and returns the page.
pub(crate) fn page(folder: &Path) -> miette::Result<Page> {
    let mut costs = String::new();
    let (mut claims, cost_lines) = cost_section(&mut costs, folder)?;
    let mut relaxed = String::new();
    let (relaxed_claims, relaxed_lines) = relaxed_section(&mut relaxed);
    claims.extend(relaxed_claims);
    let mut text = String::from(
        "# ShareStreams: priority queues and relaxed updates\n\n\
         Section 6 names a shift register and a systolic array as alternatives to the \
         recirculating network, without a measurement. Section 4 says that priority updates can be \
         relaxed. Here both run as cycle-accurate models of `millstream_hw::priority_queue`, which \
         make the engine's decisions one by one. `make figures PAPER=sharestreams` writes this \
         page.\n\n",
    );
    text += HEAD;
    text += &rows(&claims, "");
    text += "\n## Cycles of a decision\n\n\
             The attributes of the winner and of each stream that missed a deadline change. In a \
             chain such a stream is removed and inserted again: two changes. A change takes one \
             cycle in a shift register and two in a systolic array; the update of all attributes \
             takes one cycle before it. The network needs log2 N passes and one cycle for the \
             update, and does not depend on the changes. A chain that replaces an entry in one \
             operation would need half the cycles for changes. *Comparisons* are pairs of streams \
             that decision blocks compare. 4,000 packet-times; ten sets of contracts for random \
             workloads, one run for fair shares.\n\n";
    text += &costs;
    text += "\nWith fair shares of period 1 every loser misses in each packet-time, and a chain is \
             sorted again completely, as the paper says. Where streams rarely miss, a decision \
             changes the winner and a few others. On average a shift register then decides in \
             fewer cycles than the network of 8 or more streams, and its cycles do not grow with \
             the streams. A scheduler that must end each decision within a packet-time needs the \
             longest decision, though. It is longer than the network's wherever several streams \
             miss or become backlogged at once. A chain also needs twice the decision blocks.\n\n\
             ![cycles of a decision by streams](structures.svg)\n\n\
             ## Relaxed updates\n\n\
             The network has the 16 streams with random windows of [the page of \
             blocks](block.md). The losers' misses are charged in each r-th decision, the winner's \
             attributes change in each. Late packets are dropped when their misses are charged; \
             until then a late packet can win. All streams of a set have one period. If it is a \
             multiple of r, the updates are in step with the ends of the periods and no window is \
             violated; the sets with other periods lose windows. The mean therefore depends on the \
             periods, and the interval for r = 2 includes 0.\n";
    text += &relaxed;
    text += "\n![windows violated by utilisation](structures-relaxed.svg)\n";
    let axes = (("streams", true), ("cycles a decision", true));
    let title = "Cycles of a decision by structure and workload";
    let costs = figure(title, axes.0, axes.1, &cost_lines)?;
    let axes = (("utilisation U", false), ("windows violated (%)", false));
    let title = "Random windows with relaxed updates: 16 streams";
    let relaxed = figure(title, axes.0, axes.1, &relaxed_lines)?;
    let files = vec![
        ("structures.md".to_owned(), text),
        ("structures.svg".to_owned(), costs),
        ("structures-relaxed.svg".to_owned(), relaxed),
    ];
    Ok(Page { files, claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All structures send the same packets at the same times.
    #[test]
    fn structures_differ_only_in_cost() {
        for workload in &WORKLOADS {
            let scenario = (workload.scenario)(16, 3);
            let runs = Structure::ALL.map(|of| run(&scenario, of, Relaxed::NEVER, 500));
            assert_eq!(runs[0].0.sent, runs[1].0.sent, "{}", workload.name);
            assert_eq!(runs[0].0.sent, runs[2].0.sent, "{}", workload.name);
            let costs = runs.map(|(_, cost)| cost.total);
            assert_eq!(costs[0].cycles, 500 * 5);
            let changes = costs[1].changes;
            assert_eq!(costs[1].cycles, 500 + changes);
            assert_eq!((costs[2].cycles, costs[2].changes), (500 + 2 * changes, changes));
        }
    }

    #[test]
    fn backlogged_streams_of_period_one_all_change() {
        let (_, cost) = run(&fair(2), Structure::ShiftRegister, Relaxed::NEVER, 1_000);
        // The first decision inserts eight streams, each later one changes all.
        assert_eq!((cost.total.changes, cost.longest), (8 + 999 * 16, 17));
    }

    /// An update of the losers in step with the common period loses nothing.
    #[test]
    fn relaxed_updates_violate_windows_unless_in_step_with_the_period() {
        for (seed, period, expected) in [
            (1, 9, [0, 60, 189, 349, 480]),
            (5, 10, [0, 0, 58, 254, 398]),
            (8, 10, [0, 0, 84, 300, 492]),
        ] {
            let scenario = random_windows_of(16, 90, seed);
            let broken = |interval| {
                let (outcome, _) = run(&scenario, Structure::Shuffle, Relaxed(interval), 4_000);
                violated(&outcome.lost(&scenario), &scenario.loads).0
            };
            assert_eq!(scenario.loads[0].period, period);
            assert_eq!(INTERVALS.map(broken), expected, "seed {seed}");
        }
    }
}
