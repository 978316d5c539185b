//! Figures 6, 7 and 8: the simulator's network-processor model.
//!
//! Two kinds of costs run on it: the paper's Table 3, an input, and the commands that HILQ's code
//! and the heaps' issue, counted packet by packet.

use millstream_report::chart::Line;
use millstream_sim::network_processor::constants::COMPUTE_PER_ACCESS;
use millstream_sim::network_processor::experiment::{
    Throughput, budget_of, scheduling_delay_of, throughput_at_cost, throughput_of,
};
use millstream_sim::network_processor::pipeline::{handover_cycles, handover_cycles_of};
use millstream_sim::network_processor::{Commands, Cost, Counted, Scheduler, line_rate_bits_per_s};

use super::arithmetic::{
    PAPER_256_BITS_PER_S, PAPER_BUDGET, PAPER_COST, PAPER_PACKETS_PER_S, consistency,
};
use super::text::{float, grouped, mega, megabits, named};
use super::{Section, computes, constants};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};
use crate::experiment::figure;
use crate::hilq_accesses::{Counts, count};

/// Active streams of Figures 6 and 8.
const STREAMS: [u32; 8] = [10, 20, 50, 100, 200, 500, 1000, 2000];

/// Packet sizes of Figures 7 and 8, bytes.
const SIZES: [u32; 4] = [128, 256, 512, 1024];
/// Packet sizes for which the paper gives numbers, bytes.
const JUDGED_SIZES: [u32; 2] = [256, 512];

/// Scheduling costs of Figure 7 and of the page's table, cycles.
const COSTS: [u64; 12] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200];

/// The percentage of the line rate from which a port is full: the model rounds to cycles.
const FULL: f64 = 99.8;

/// Returns the result of `run` at the central computation, and the range over all.
fn band(run: impl Fn(u64) -> f64) -> Estimate {
    let results = computes().map(run);
    let low = results.into_iter().fold(f64::MAX, f64::min);
    let high = results.into_iter().fold(f64::MIN, f64::max);
    Estimate { value: results[1], low, high }
}

/// Formats a band in percent of `of`, as a difference.
fn relative(band: Estimate, of: f64) -> String {
    let percent = |value: f64| {
        let percent = (100.0 * (value / of - 1.0)).round();
        // Avoids "-0".
        if percent == 0.0 { "0".to_owned() } else { format!("{percent:+.0}") }
    };
    let [_, central, most] = computes();
    format!(
        "{} % [{}, {}], {central} cycles of computation an access [0 to {most}]",
        percent(band.value),
        percent(band.low),
        percent(band.high)
    )
}

/// Formats a band of whole numbers.
fn range(band: Estimate) -> String {
    let [value, low, high] = [band.value, band.low, band.high].map(|of| grouped(whole(of)));
    format!("{value} [{low}, {high}]")
}

/// Selects one of the counted costs.
type CostOf = fn(&Code) -> &Cost;

/// The counted costs for one number of streams.
struct Code {
    /// HILQ: arrivals on the receiving engines, decisions on the scheduling engine.
    hilq: Cost,
    /// HILQ: arrivals and decisions on the scheduling engine.
    alone: Cost,
    /// The two heaps.
    heaps: Cost,
}

impl Code {
    /// Counts the costs of the draw 1.
    fn count(streams: u32) -> Self {
        let Counts { heaps, arrivals, decisions } = count(streams, 1);
        // Whole periods of the middle, at least 200 packets: all streams are backlogged.
        let length = (streams * 200_u32.div_ceil(streams)) as usize;
        let middle = decisions.len() / 2;
        let of = |packets: &[Commands]| packets[middle - length..middle].to_vec();
        let both = |(arrival, decision): (&Commands, &Commands)| Commands {
            sram: arrival.sram + decision.sram,
            scratch: arrival.scratch + decision.scratch,
        };
        let cost = |arrivals, decisions| {
            Cost::Counted(Counted { streams: streams as usize, arrivals, decisions })
        };
        let all = arrivals.iter().zip(&decisions).map(both).collect::<Vec<_>>();
        Self {
            hilq: cost(of(&arrivals), of(&decisions)),
            alone: cost(Vec::new(), of(&all)),
            heaps: cost(Vec::new(), of(&heaps)),
        }
    }
}

/// Returns the costs of Table 3, HILQ's and the heap's.
fn table_3(streams: u32) -> [Cost; 2] {
    let streams = streams as usize;
    [Scheduler::Hilq(streams), Scheduler::Heap(streams)].map(Cost::from)
}

/// Figures 6 to 8.
pub(super) fn section() -> miette::Result<Section> {
    let mut section = Section { claims: Vec::new(), text: introduction(), files: Vec::new() };
    let codes: Vec<Code> = STREAMS.into_iter().map(Code::count).collect();
    figure_6(&mut section, &codes)?;
    figure_7(&mut section)?;
    figure_8(&mut section, &codes)?;
    section.text += include_str!("follows.md");
    section.text += &consistency();
    section.text += &constants::table();
    Ok(section)
}

/// Cycles a packet without packet traffic.
#[allow(clippy::cast_precision_loss)]
fn delay(cost: &Cost, compute: u64) -> f64 {
    scheduling_delay_of(cost, compute) as f64 / 100.0
}

fn figure_6(section: &mut Section, codes: &[Code]) -> miette::Result<()> {
    let [none, central, most] = computes();
    let code = |streams: u32| &codes[place(streams)];
    let fitted: [Vec<f64>; 2] =
        [0, 1].map(|of| STREAMS.map(|n| delay(&table_3(n)[of], COMPUTE_PER_ACCESS)).to_vec());
    let counted: [(&str, u64, CostOf); 6] = [
        ("HILQ, counted", COMPUTE_PER_ACCESS, |code| &code.hilq),
        ("HILQ, counted", none, |code| &code.hilq),
        ("HILQ, counted", central, |code| &code.hilq),
        ("HILQ, counted", most, |code| &code.hilq),
        ("HILQ, counted, arrivals too", central, |code| &code.alone),
        ("heap, counted", central, |code| &code.heaps),
    ];
    let mut lines: Vec<(String, Vec<f64>)> = fitted
        .iter()
        .zip(["HILQ, Table 3 (input)", "heap, Table 3 (input)"])
        .map(|(delays, name)| (format!("{name}, {COMPUTE_PER_ACCESS} (fitted)"), delays.clone()))
        .collect();
    for (name, compute, of) in counted {
        let fit = if compute == COMPUTE_PER_ACCESS { " (fitted)" } else { "" };
        let delays = codes.iter().map(|code| delay(of(code), compute)).collect();
        lines.push((format!("{name}, {compute}{fit}"), delays));
    }
    figure_6_claims(section, &fitted, &code);
    section.text += "\n### Figure 6: scheduling delay\n\nCycles a packet without packet traffic. \
                     The number after a name is the computation of a memory access, cycles.\n\n";
    section.table_head("active streams", &STREAMS.map(|n| grouped(n.into())));
    for (name, delays) in &lines {
        section.table_row(name, &STREAMS.map(|n| grouped(whole(delays[place(n)]))));
    }
    let drawn = |(name, delays): &(String, Vec<f64>)| Line {
        name: name.clone(),
        points: STREAMS.iter().map(|n| f64::from(*n)).zip(delays.iter().copied()).collect(),
    };
    let (heaps, hilq): (Vec<_>, Vec<_>) =
        lines.iter().partition(|(name, _)| name.starts_with("heap"));
    let hilq: Vec<Line> = hilq.into_iter().map(drawn).collect();
    let (x, y) = (("active streams", true), ("cycles a packet", false));
    let svg = figure("Fig 6: scheduling delay without packet traffic", x, y, &hilq)?;
    section.figure("fig6", "HILQ's scheduling delay against active streams", svg);
    let both: Vec<Line> = heaps.into_iter().map(drawn).chain(hilq).collect();
    let svg = figure("Fig 6, with the heap beside HILQ", x, y, &both)?;
    section.figure("fig6-heap", "scheduling delay against active streams, HILQ and heap", svg);
    Ok(())
}

fn figure_6_claims<'a>(
    section: &mut Section,
    [hilq, heap]: &[Vec<f64>; 2],
    code: &impl Fn(u32) -> &'a Code,
) {
    let at = |line: &[f64], streams: u32| grouped(whole(line[place(streams)]));
    let claims = &mut section.claims;
    let mut given = |what: &str, paper: &str, ours: String, kind| {
        claims.push(Claim::given(what, paper, ours, kind));
    };
    given(
        "Fig 6: cycles a stream at 2,000 streams, accesses of Table 3",
        "approaches 500",
        at(hilq, 2000),
        Given::Fitted,
    );
    given(
        "Fig 6: from 100 to 2,000 streams, accesses of Table 3",
        "scales well",
        format!("{} to {}", at(hilq, 100), at(hilq, 2000)),
        Given::Input,
    );
    given(
        "Fig 6: below 20 streams, accesses of Table 3",
        "high: the minimum cost of a sweep",
        format!("{} at 10, {} at 20", at(hilq, 10), at(hilq, 20)),
        Given::Input,
    );
    given(
        "Section 5.1: a scheduler with heaps, accesses of Table 3",
        "a bottleneck at 5 to 10 streams",
        format!("{} at 10, {} at 2,000", at(heap, 10), at(heap, 2000)),
        Given::Input,
    );
    let cost = float(PAPER_COST);
    let mut about_500 = |what: &str, of: CostOf| {
        let ours = band(|compute| delay(of(code(2000)), compute));
        let what = format!("Fig 6: cycles a stream at 2,000 streams, {what}");
        let test = Test::new(what, "about 500", "500 ± 10 %", Allowed::near(cost, 10.0));
        claims.push(test.by(Evidence::Simulated, range(ours), ours, relative(ours, cost)));
    };
    about_500("HILQ's counted accesses, arrivals on another engine", |code| &code.hilq);
    about_500("HILQ's counted accesses, arrivals and decisions", |code| &code.alone);
    let ratio = |a: u32, b: u32| {
        let (a, b) = (code(a), code(b));
        band(|compute| delay(&a.hilq, compute) / delay(&b.hilq, compute))
    };
    let mut ordered = |what: &str, paper: &str, criterion: &str, allowed, ours: Estimate| {
        let shown = format!("{:.2} times", ours.value);
        let test = Test::new(what, paper, criterion, allowed);
        claims.push(test.by(Evidence::Simulated, shown, ours, relative(ours, 1.0)));
    };
    ordered(
        "Fig 6: HILQ's counted accesses, 2,000 streams over 100",
        "scales well",
        "no growth: at most 1",
        Allowed::AtMost(1.0),
        ratio(2000, 100),
    );
    ordered(
        "Fig 6: HILQ's counted accesses, 10 streams over 2,000",
        "high below 20 streams",
        "more than 1",
        Allowed::Above(1.0),
        ratio(10, 2000),
    );
    let ours = band(|compute| delay(&code(10).heaps, compute));
    let budget = float(PAPER_BUDGET);
    let test = Test::new(
        "Section 5.1: cycles a packet of the counted heaps at 10 streams",
        "a bottleneck: more than 500 to 600",
        "more than 600",
        Allowed::Above(budget),
    );
    claims.push(test.by(Evidence::Simulated, range(ours), ours, relative(ours, budget)));
}

/// Returns the percentage of the line rate.
fn filled(run: Throughput) -> f64 {
    100.0 * mega(run.bits_per_s()) / mega(line_rate_bits_per_s(run.bytes))
}

/// Judges whether a port is full; `ours` is the percentage of its rate.
fn full(what: &str, ours: Estimate) -> Claim {
    let criterion = format!("the line rate, at least {FULL} %: the model's rounding");
    let test = Test::new(what, "a gigabit link", criterion, Allowed::AtLeast(FULL));
    test.by(
        Evidence::Simulated,
        format!("{:.1} % of the line rate", ours.value),
        ours,
        relative(ours, 100.0),
    )
}

fn figure_7(section: &mut Section) -> miette::Result<()> {
    let mut lines = Vec::new();
    section.text += "\n### Figure 7: throughput at a given scheduling cost\n\n\
                     Mb/s of packets; the scheduling cost is an input. The budget is the maximum \
                     cost of scheduling at which the port is full, in tens of cycles; at 256 and \
                     512 bytes with its range over the computation of an access.\n\n";
    let costs = COSTS.map(|cost| format!("{} cycles", grouped(cost)));
    section.table_head("packets", &[&["line rate".into(), "budget".into()], &costs[..]].concat());
    let budget = |compute, bytes| float(budget_of(compute, bytes).unwrap_or(0));
    let budgets = JUDGED_SIZES.map(|bytes| band(|compute| budget(compute, bytes)));
    for bytes in SIZES {
        let rates = COSTS.map(|cost| throughput_at_cost(cost, bytes).bits_per_s());
        let points = COSTS.into_iter().zip(rates).map(|(cost, rate)| (float(cost), mega(rate)));
        lines.push(Line { name: named(bytes), points: points.collect() });
        let most = match JUDGED_SIZES.iter().position(|of| *of == bytes) {
            Some(at) => range(budgets[at]),
            None => grouped(whole(budget(computes()[1], bytes))),
        };
        let rate = megabits(line_rate_bits_per_s(bytes));
        section.table_row(&named(bytes), &[&[rate, most], &rates.map(megabits)[..]].concat());
    }
    let at = |cost: u64, bytes| {
        let cost = Scheduler::FixedCycles(cost).into();
        band(|compute| filled(throughput_of(&cost, compute, bytes)))
    };
    let claims = &mut section.claims;
    claims.push(full("Fig 7: 1,024 bytes at 900 cycles", at(900, 1024)));
    claims.push(full("Fig 7: 512 bytes at 600 cycles", at(PAPER_BUDGET, 512)));
    let paper = float(PAPER_BUDGET);
    let test = Test::new(
        "Fig 7: budget at 512 bytes, cycles",
        "about 600",
        "600 ± 10 %",
        Allowed::near(paper, 10.0),
    );
    let [small, half] = budgets;
    claims.push(test.by(Evidence::Simulated, range(half), half, relative(half, paper)));
    let paper = float(PAPER_COST);
    let test = Test::new(
        "Fig 7: cycles from which 256 bytes drop",
        "even with small scheduling cost",
        "less than HILQ's 500",
        Allowed::Below(paper),
    );
    claims.push(test.by(Evidence::Simulated, range(small), small, relative(small, paper)));
    let title = "Fig 7: throughput at a given scheduling cost";
    let svg = figure(title, ("cycles a packet", false), ("Mb/s", false), &lines)?;
    section.figure("fig7", "throughput against scheduling cost, by packet size", svg);
    Ok(())
}

fn figure_8(section: &mut Section, codes: &[Code]) -> miette::Result<()> {
    let central = computes()[1];
    let mut lines = Vec::new();
    section.text += &format!(
        "\n### Figure 8: throughput against active streams\n\n\
         Mb/s of packets; the heap in the same pipeline is our addition. Rows of Table 3 have the \
         fitted {COMPUTE_PER_ACCESS} cycles of computation an access, counted rows the router \
         paper's {central}.\n\n"
    );
    section.table_head("packets, active streams", &STREAMS.map(|n| grouped(n.into())));
    let table = |of: usize| STREAMS.map(|n| (table_3(n)[of].clone(), COMPUTE_PER_ACCESS)).to_vec();
    let code = |of: CostOf| -> Vec<(Cost, u64)> {
        codes.iter().map(|code| (of(code).clone(), central)).collect()
    };
    let mut ends = vec![0];
    for (name, costs, sizes) in [
        ("HILQ, counted", code(|code| &code.hilq), &SIZES[..]),
        ("heap, counted", code(|code| &code.heaps), &SIZES[..]),
        ("HILQ, Table 3", table(0), &JUDGED_SIZES[..]),
        ("heap, Table 3", table(1), &JUDGED_SIZES[..]),
    ] {
        for bytes in sizes.iter().copied() {
            let rate = |(cost, compute): &(Cost, u64)| throughput_of(cost, *compute, bytes);
            let rates: Vec<u64> = costs.iter().map(|of| rate(of).bits_per_s()).collect();
            let points = STREAMS.iter().map(|n| f64::from(*n));
            let points = points.zip(rates.iter().map(|rate| mega(*rate))).collect();
            let name = format!("{name}, {}", named(bytes));
            section.table_row(&name, &STREAMS.map(|n| megabits(rates[place(n)])));
            lines.push(Line { name, points });
        }
        ends.push(lines.len());
    }
    figure_8_claims(section, codes, &lines[ends[2]..]);
    let (x, y) = (("active streams", true), ("Mb/s", false));
    for (at, (name, what)) in [
        ("fig8", "HILQ, counted accesses"),
        ("fig8-heap", "a heap, counted accesses"),
        ("fig8-table3", "HILQ and a heap, accesses of Table 3"),
    ]
    .into_iter()
    .enumerate()
    {
        let title = format!("Fig 8: throughput against active streams, {what}");
        let end = if at == 2 { lines.len() } else { ends[at + 1] };
        let svg = figure(&title, x, y, &lines[ends[at]..end])?;
        section.figure(name, &format!("throughput against active streams, {what}"), svg);
    }
    Ok(())
}

/// Adds the claims about Figure 8; `table_3` holds the lines of Table 3's accesses.
fn figure_8_claims(section: &mut Section, codes: &[Code], table_3: &[Line]) {
    let claims = &mut section.claims;
    let least = band(|compute| {
        let shown = STREAMS.iter().map(|n| &codes[place(*n)].hilq);
        shown.map(|cost| filled(throughput_of(cost, compute, 512))).fold(f64::MAX, f64::min)
    });
    claims.push(full("Fig 8: 512 bytes, HILQ's counted accesses, 10 to 2,000 streams", least));
    let most = &codes[place(2000)];
    let rate = |cost: &Cost, compute, bytes| mega(throughput_of(cost, compute, bytes).bits_per_s());
    let paper = mega(PAPER_256_BITS_PER_S);
    let test = Test::new(
        "Fig 8: 256 bytes, HILQ's counted accesses, 2,000 streams, Mb/s",
        "about 650",
        "650 ± 10 %",
        Allowed::near(paper, 10.0),
    );
    let ours = band(|compute| rate(&most.hilq, compute, 256));
    claims.push(test.by(Evidence::Simulated, range(ours), ours, relative(ours, paper)));
    let paper = float(PAPER_PACKETS_PER_S);
    let test = Test::new(
        "Fig 8: packets/s of 512 bytes, HILQ's counted accesses, 2,000 streams",
        "about 260,000",
        "two printed digits: ± 5,000 (10 % would admit the port's own limit)",
        Allowed::Between(paper - 5_000.0, paper + 5_000.0),
    );
    let ours = band(|compute| float(throughput_of(&most.hilq, compute, 512).packets_per_s));
    claims.push(test.by(Evidence::Simulated, range(ours), ours, relative(ours, paper)));
    let ours = band(|compute| rate(&most.heaps, compute, 512) / rate(&most.hilq, compute, 512));
    let test = Test::new(
        "Section 6: counted heaps over HILQ in the pipeline, 512 bytes, 2,000 streams",
        "would not scale as well",
        "throughput less than HILQ's: less than 1",
        Allowed::Below(1.0),
    );
    let shown = format!("{:.2} times", ours.value);
    claims.push(test.by(Evidence::Simulated, shown, ours, relative(ours, 1.0)));
    let ends = |line: &Line| {
        let at = |streams| line.points[place(streams)].1;
        format!("{:.0} to {:.0} Mb/s", at(10), at(2000))
    };
    let mut given = |what: &str, paper: &str, line: usize| {
        claims.push(Claim::given(what, paper, ends(&table_3[line]), Given::Input));
    };
    given("Fig 8: 512 bytes, accesses of Table 3", "a gigabit link", 1);
    given("Fig 8: 256 bytes, accesses of Table 3", "about 650 Mb/s", 0);
    given("Section 6: a heap, 512 bytes, accesses of Table 3", "would not scale as well", 3);
}

fn introduction() -> String {
    let [none, central, most] = computes();
    format!(
        "\n## The network-processor model\n\n\
         Figures 6 to 8 come from a discrete-event model of the IXP1200 in cycles of 232 MHz: \
         engines of four contexts, one of which runs until it sends a command to a memory; \
         memories that serve one command at a time; the paper's pipeline of two receiving, one \
         scheduling and two transmitting engines between gigabit ports. An SRAM command takes \
         Table 2's latency, drawn by a seeded generator (its shares sum to 99.4 %; they are used \
         as weights). The paper omits parts of receiving and sending; these come from Spalink, \
         Karlin, Peterson and Gottlieb (SOSP 2001), who measured the same chip, as commonly \
         quoted.\n\n\
         Two kinds of schedulers run on it. **Counted**: HILQ's code and the two heaps schedule \
         backlogged streams as in [Table 3](table3.md); the model issues the SRAM and scratchpad \
         commands of each arrival on a receiving engine, and of each decision on the scheduling \
         engine. **Table 3**: the paper's numbers as inputs, 68 accesses a sweep and 13 a packet \
         for HILQ, 12·log₂ n + 6 for the heap.\n\n\
         The paper does not give the computation between two accesses. One value, \
         {COMPUTE_PER_ACCESS} cycles, is fitted so that Table 3's 13 accesses take Figure 6's \
         ≈ 500 cycles; results with it carry no verdict. Verdicts use a value that is not fitted: \
         the router paper's {central} cycles a command, and a band from {none} to {most}. The \
         band is the interval of the claims.\n\n\
         The scheduling context is the only bottleneck: a packet takes the longer of its time on \
         the wire and of scheduling plus {:.0} cycles ({:.0} to {:.0}) to insert it into the \
         output queue. The other engines keep up, and SRAM commands hardly wait for each other: \
         the SRAM is busy {} % of the time at 512 bytes. 512 bytes are packet bytes, and 20 more \
         on the wire.\n",
        handover_cycles(),
        handover_cycles_of(none),
        handover_cycles_of(most),
        throughput_of(&table_3(2000)[0], COMPUTE_PER_ACCESS, 512).sram_busy_per_mille / 10,
    )
}

/// Returns the index of a number of streams in [`STREAMS`].
fn place(streams: u32) -> usize {
    STREAMS.iter().position(|n| *n == streams).unwrap_or(0)
}

/// Rounds a positive number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_is_around_the_routers_computation() {
        assert_eq!(computes(), [0, 16, 32]);
        let of = band(|compute| 10.0 - float(compute) / 4.0);
        assert_eq!(of, Estimate { value: 6.0, low: 2.0, high: 10.0 });
        assert_eq!(
            relative(of, 8.0),
            "-25 % [-75, +25], 16 cycles of computation an access [0 to 32]"
        );
    }

    #[test]
    fn a_delay_is_that_of_the_counted_commands() {
        let code = Code::count(10);
        let Cost::Counted(counted) = &code.hilq else { panic!("not counted") };
        assert_eq!((counted.arrivals.len(), counted.decisions.len()), (200, 200));
        let sum = |of: fn(&Commands) -> u32| counted.decisions.iter().map(of).sum::<u32>();
        let (sram, scratch) = (sum(|of| of.sram), sum(|of| of.scratch));
        let expected = (f64::from(sram) * 21.855 + f64::from(scratch) * 21.0) / 200.0;
        let ours = delay(&code.hilq, 0);
        assert!((ours / expected - 1.0).abs() < 0.01, "{ours} {expected}");
    }
}
