//! HILQ paper, Table 3: memory accesses per packet, heaps against HILQ.
//!
//! There are n backlogged streams with equal periods and deadlines, so each is served once per
//! period, like the paper's pseudo-streams.

use millstream::catalogue::DynScheduler;
use millstream::{Accesses, Contract, DwcsOptions, Hilq, Late, Packet, Sizes, StreamId, Window};
use millstream_sim::network_processor::Commands;
use std::fmt::Write as _;

use crate::claim::{Allowed, Claim, Estimate, Evidence, HEAD, Test, rows};
use crate::experiment::Page;
use crate::hilq_heaps::Heaps;
use crate::hilq_violations::{random, windows};

const PERIOD_NS: u64 = 30_000_000;
/// Services of each stream.
const ROUNDS: u64 = 40;
/// Draws of windows.
const SEEDS: u64 = 10;
const CONFIDENCE: f64 = 0.95;

/// Number of streams, and the paper's accesses with heaps and with HILQ.
const PAPER: [(u32, f64, f64); 7] = [
    (10, 45.86, 19.8),
    (50, 73.73, 14.36),
    (100, 85.73, 13.68),
    (200, 97.73, 13.34),
    (500, 113.59, 13.135),
    (1000, 125.59, 13.068),
    (2000, 137.58, 13.034),
];

/// The commands of successive packets.
pub(crate) struct Counts {
    /// Commands of two heaps for each service.
    pub(crate) heaps: Vec<Commands>,
    /// Commands of HILQ for each arrival, and for each decision.
    pub(crate) arrivals: Vec<Commands>,
    pub(crate) decisions: Vec<Commands>,
}

/// Returns the accesses of `after` beyond those of `before`.
fn commands(before: Accesses, after: Accesses) -> Commands {
    let difference = |before: u64, after: u64| u32::try_from(after - before).unwrap_or(u32::MAX);
    Commands {
        sram: difference(before.sram, after.sram),
        scratch: difference(before.scratch, after.scratch),
    }
}

/// Counts the accesses of `streams` backlogged streams in [`ROUNDS`] periods.
pub(crate) fn count(streams: u32, seed: u64) -> Counts {
    let windows = windows(streams as usize, &mut random(seed));
    let packets = u64::from(streams) * ROUNDS;
    let mut heaps = Heaps::new(&windows, PERIOD_NS);
    let mut serve = || {
        let before = heaps.memory;
        heaps.serve();
        commands(before, heaps.memory)
    };
    let heaps = (0..packets).map(|_| serve()).collect();
    let (options, memory) = (DwcsOptions::default(), Accesses::default());
    let mut scheduler = Hilq::with_memory(options, Sizes::PAPER, memory);
    for (lost, of) in &windows {
        let contract = Contract::new().late(Late::Drop).period_ns(PERIOD_NS).expect("positive");
        let window = Window::new(*lost, *of).expect("x at most y");
        scheduler.add_stream(contract.window(window)).expect("complete");
    }
    let (mut arrivals, mut decisions) = (Vec::new(), Vec::new());
    let mut enqueue = |scheduler: &mut Hilq<Accesses>, now_ns, stream| {
        let before = *scheduler.memory();
        scheduler.enqueue(now_ns, stream, Packet::new(512)).expect("within the calendar");
        arrivals.push(commands(before, *scheduler.memory()));
    };
    (0..streams).for_each(|stream| enqueue(&mut scheduler, 0, StreamId(stream)));
    for packet in 0..packets {
        let now_ns = packet * PERIOD_NS / u64::from(streams);
        let before = *scheduler.memory();
        let sent = scheduler.decide(now_ns, &mut ()).expect("backlogged");
        decisions.push(commands(before, *scheduler.memory()));
        if packet < packets - u64::from(streams) {
            enqueue(&mut scheduler, now_ns, sent.stream);
        }
    }
    Counts { heaps, arrivals, decisions }
}

/// Returns the mean of a number over packets.
#[allow(clippy::cast_precision_loss)]
fn mean(packets: &[Commands], of: impl Fn(&Commands) -> u32) -> f64 {
    packets.iter().map(|packet| f64::from(of(packet))).sum::<f64>() / packets.len() as f64
}

/// Measured accesses per packet for one number of streams, by seed.
struct Row {
    streams: u32,
    paper: (f64, f64),
    heaps: Vec<f64>,
    /// The largest number of accesses of one service.
    most: u32,
    /// HILQ's SRAM accesses on arrival, and at the decision.
    receive: Vec<f64>,
    schedule: Vec<f64>,
    scratch: Vec<f64>,
}

impl Row {
    fn hilq(&self) -> Vec<f64> {
        self.receive
            .iter()
            .zip(&self.schedule)
            .map(|(receive, schedule)| receive + schedule)
            .collect()
    }
}

fn measure((streams, heap, hilq): (u32, f64, f64)) -> Row {
    let mut row = Row {
        streams,
        paper: (heap, hilq),
        heaps: Vec::new(),
        most: 0,
        receive: Vec::new(),
        schedule: Vec::new(),
        scratch: Vec::new(),
    };
    for seed in 1..=SEEDS {
        let Counts { heaps, arrivals, decisions } = count(streams, seed);
        row.heaps.push(mean(&heaps, |of| of.sram));
        row.most = row.most.max(heaps.iter().map(|of| of.sram).max().unwrap_or(0));
        row.receive.push(mean(&arrivals, |of| of.sram));
        row.schedule.push(mean(&decisions, |of| of.sram));
        let scratch = |packets: &[Commands]| mean(packets, |of| of.scratch);
        row.scratch.push(scratch(&arrivals) + scratch(&decisions));
    }
    row
}

/// Judges the mean of `runs` against a printed number; `half` is half of its last digit.
fn printed(what: &str, paper: f64, half: f64, runs: &[f64]) -> Claim {
    let ours = Estimate::mean(runs, CONFIDENCE);
    let allowed = Allowed::Between(paper - half, paper + half);
    let criterion = format!("the printed number ± {half}, half of its last digit");
    let percent = |of: f64| 100.0 * (of / paper - 1.0);
    let effect = format!(
        "{:+.0} % [{:+.1}, {:+.1}], {SEEDS} draws, t 95 %",
        percent(ours.value),
        percent(ours.low),
        percent(ours.high)
    );
    let test = Test::new(format!("Table 3: {what}"), format!("{paper}"), criterion, allowed);
    test.by(Evidence::Computed, format!("{:.2}", ours.value), ours, effect)
}

/// Returns the paper's statements.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    let doublings = (f64::from(last.streams) / f64::from(first.streams)).log2();
    let pairs = |a: &[f64], b: &[f64], of: fn(f64, f64) -> f64| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
    };
    let grown = pairs(&last.heaps, &first.heaps, |last, first| last - first);
    let slopes: Vec<f64> = grown.iter().map(|grown| grown / doublings).collect();
    let over = pairs(&last.heaps, &last.hilq(), |heaps, hilq| heaps / hilq);
    let grows = Estimate::mean(&pairs(&last.hilq(), &first.hilq(), |a, b| a / b), CONFIDENCE);
    let constant = Test::new(
        "Table 3: HILQ's accesses at 2,000 streams over those at 10",
        "close to a constant: 0.66",
        "no growth: at most 1",
        Allowed::AtMost(1.0),
    );
    let effect = format!(
        "{:.2} times [{:.3}, {:.3}], paired, {SEEDS} draws, t 95 %",
        grows.value, grows.low, grows.high
    );
    vec![
        printed("heaps' accesses a doubling of the streams", 12.0, 0.005, &slopes),
        printed("heaps' accesses at 10 streams", first.paper.0, 0.005, &first.heaps),
        printed("heaps' accesses at 2,000 streams", last.paper.0, 0.005, &last.heaps),
        printed("HILQ's accesses at 10 streams", first.paper.1, 0.05, &first.hilq()),
        printed("HILQ's accesses at 2,000 streams", last.paper.1, 0.000_5, &last.hilq()),
        constant.by(Evidence::Computed, format!("{:.2} times", grows.value), grows, effect),
        // 137.58 / 13.034.
        printed("heaps' accesses over HILQ's at 2,000 streams", 10.56, 0.005, &over),
    ]
}

/// Measures Table 3 and returns its page.
pub(crate) fn page() -> Page {
    let measured: Vec<Row> = PAPER.into_iter().map(measure).collect();
    let claims = claims(&measured);
    Page { files: vec![("table3.md".into(), text(&measured, &claims))], claims }
}

fn text(measured: &[Row], claims: &[Claim]) -> String {
    let mut text = String::from(
        "# HILQ, Table 3: memory accesses a packet\n\n\
         n backlogged streams, windows as in Figure 9, all with the same deadlines, each served \
         once a period. An access is one reference to one record in SRAM: the network processor \
         reads or writes up to eight adjacent longwords, sets a bit, or takes an entry of a free \
         list in one access. Numbers are means of 10 draws of windows. `make figures` writes this \
         page.\n\n",
    );
    text += HEAD;
    text += &rows(claims, "Table 3: ");
    text += "\n| streams | heaps, paper | heaps | heaps, most | HILQ, paper | HILQ \
             | HILQ, on arrival | HILQ, at the decision | scratchpad |\n\
             |---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for row in measured {
        let mean = |runs: &[f64]| Estimate::mean(runs, CONFIDENCE).value;
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row.streams,
            row.paper.0,
            mean(&row.heaps),
            row.most,
            row.paper.1,
            mean(&row.hilq()),
            mean(&row.receive),
            mean(&row.schedule),
            mean(&row.scratch),
        );
    }
    text + include_str!("hilq_accesses.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrival_and_decision_is_counted() {
        let Counts { heaps, arrivals, decisions } = count(3, 1);
        assert_eq!([&heaps, &arrivals, &decisions].map(Vec::len), [120, 120, 120]);
        // Accesses: the stream twice, the table, the slot twice and the element. The first element
        // of a slot also accesses the free list and a bit.
        assert!(arrivals.iter().all(|of| [6, 8].contains(&of.sram)), "{arrivals:?}");
        assert!((mean(&arrivals, |of| of.sram) - 8.0).abs() < 0.5);
        let difference =
            commands(Accesses { sram: 3, scratch: 5 }, Accesses { sram: 7, scratch: 5 });
        assert_eq!(difference, Commands { sram: 4, scratch: 0 });
    }
}
