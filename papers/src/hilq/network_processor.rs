//! Figures 6, 7 and 8: the simulator's network-processor model.

use millstream_report::chart::Line;
use millstream_sim::network_processor::constants::COMPUTE_PER_ACCESS;
use millstream_sim::network_processor::experiment::{
    Throughput, budget, scheduling_delay, throughput, throughput_at_cost,
};
use millstream_sim::network_processor::pipeline::handover_cycles;
use millstream_sim::network_processor::{Scheduler, line_rate_bits_per_s};

use super::arithmetic::{PAPER_BUDGET, PAPER_COST, consistency, differences};
use super::text::{float, grouped, mega, megabits, named, rate, rounded};
use super::{Section, constants};
use crate::experiment::figure;

/// Active streams of Figures 6 and 8, and those in the page's tables.
const STREAMS: [usize; 14] = [10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000, 1500, 2000];
const SHOWN: [usize; 7] = [10, 20, 50, 100, 200, 1000, 2000];

/// Packet sizes of Figures 7 and 8, bytes.
const SIZES: [u32; 4] = [128, 256, 512, 1024];

/// Scheduling costs of Figure 7 and of the page's table, cycles.
const COSTS: std::ops::RangeInclusive<u64> = 100..=1200;
const SHOWN_COSTS: [u64; 7] = [100, 200, 400, 600, 800, 900, 1200];

type SchedulerWith = fn(usize) -> Scheduler;
const SCHEDULERS: [(&str, SchedulerWith); 2] =
    [("HILQ", Scheduler::Hilq), ("heap", Scheduler::Heap)];

/// Figures 6 to 8.
pub(super) fn section() -> miette::Result<Section> {
    let mut section = Section { claims: Vec::new(), text: introduction(), files: Vec::new() };
    figure_6(&mut section)?;
    figure_7(&mut section)?;
    figure_8(&mut section)?;
    section.text += &consistency();
    section.text += &constants::table();
    Ok(section)
}

fn figure_6(section: &mut Section) -> miette::Result<()> {
    let mut lines = Vec::new();
    let mut delays = Vec::new();
    for (name, scheduler) in SCHEDULERS {
        let hundredths = STREAMS.map(|streams| scheduling_delay(scheduler(streams)));
        let points =
            STREAMS.iter().zip(hundredths).map(|(n, d)| (float(*n as u64), float(d) / 100.0));
        lines.push(Line { name: name.to_owned(), points: points.collect() });
        delays.push(hundredths.map(|hundredths| rounded(hundredths, 100)));
    }
    let at = |line: usize, streams: usize| delays[line][place(streams)];
    let (limit, few) = (at(0, 2000), at(0, 10));
    section.claim(
        "Fig 6: cycles a stream at 2,000 streams, calibrated to 5 %",
        "approaches 500",
        grouped(limit),
        limit.abs_diff(PAPER_COST) * 20 <= PAPER_COST,
    );
    section.claim(
        "Fig 6: from 100 to 2,000 streams, flat to 10 %",
        "scales well",
        format!("{} to {limit}", at(0, 100)),
        at(0, 100) * 10 <= limit * 11,
    );
    section.claim(
        "Fig 6: below 20 streams",
        "high: the minimum cost of a sweep",
        format!("{few} at 10, {} at 20", at(0, 20)),
        few * 10 >= limit * 15 && at(0, 20) * 10 >= limit * 12,
    );
    section.claim(
        "Section 5.1: a scheduler with heaps at 5 to 10 streams",
        "a bottleneck: more than 500 to 600 cycles",
        format!("{} at 10, {} at 2,000", grouped(at(1, 10)), grouped(at(1, 2000))),
        at(1, 10) > PAPER_BUDGET,
    );
    section.text +=
        "\n### Figure 6: scheduling delay\n\nCycles a packet without packet traffic.\n\n";
    section.table_head("active streams", &SHOWN.map(|n| grouped(n as u64)));
    for (line, (name, _)) in SCHEDULERS.iter().enumerate() {
        section.table_row(name, &SHOWN.map(|n| grouped(at(line, n))));
    }
    let (x, y) = (("active streams", true), ("cycles a packet", false));
    let svg = figure("Fig 6: scheduling delay without packet traffic", x, y, &lines[..1])?;
    section.figure("fig6", "HILQ's scheduling delay against active streams", svg);
    let svg = figure("Fig 6, with the heap beside HILQ", x, y, &lines)?;
    section.figure("fig6-heap", "scheduling delay against active streams, HILQ and heap", svg);
    Ok(())
}

fn figure_7(section: &mut Section) -> miette::Result<()> {
    let mut lines = Vec::new();
    let mut budgets = Vec::new();
    section.text += "\n### Figure 7: throughput at a given scheduling cost\n\n\
                     Mb/s of packets. The budget is the maximum cost of scheduling at which the \
                     port is full, in tens of cycles.\n\n";
    let costs = SHOWN_COSTS.map(|cost| format!("{} cycles", grouped(cost)));
    section.table_head("packets", &[&["line rate".into(), "budget".into()], &costs[..]].concat());
    for bytes in SIZES {
        let run = |cost| (float(cost), mega(throughput_at_cost(cost, bytes).bits_per_s()));
        lines.push(Line { name: named(bytes), points: COSTS.step_by(50).map(run).collect() });
        let most = budget(bytes).unwrap_or(0);
        budgets.push(most);
        let row = SHOWN_COSTS.map(|cost| megabits(throughput_at_cost(cost, bytes).bits_per_s()));
        let rate = megabits(line_rate_bits_per_s(bytes));
        section.table_row(&named(bytes), &[&[rate, grouped(most)], &row[..]].concat());
    }
    let kilobyte = throughput_at_cost(900, 1024);
    section.claim(
        "Fig 7: 1,024 bytes at 900 cycles",
        "a gigabit link",
        rate(kilobyte),
        kilobyte.at_line_rate(),
    );
    let half = throughput_at_cost(PAPER_BUDGET, 512);
    section.claim(
        "Fig 7: 512 bytes at 600 cycles",
        "a gigabit link",
        rate(half),
        half.at_line_rate(),
    );
    section.claim(
        "Fig 7: 128 and 256 bytes",
        "drop even with small scheduling cost",
        format!("from {} and {} cycles", budgets[0], budgets[1]),
        budgets[0] < budgets[1] && budgets[1] < PAPER_COST,
    );
    let title = "Fig 7: throughput at a given scheduling cost";
    let svg = figure(title, ("cycles a packet", false), ("Mb/s", false), &lines)?;
    section.figure("fig7", "throughput against scheduling cost, by packet size", svg);
    Ok(())
}

fn figure_8(section: &mut Section) -> miette::Result<()> {
    let mut lines = Vec::new();
    let mut runs_of = Vec::new();
    section.text += "\n### Figure 8: throughput against active streams\n\n\
                     Mb/s of packets; the heap in the same pipeline is our addition.\n\n";
    section.table_head("packets, active streams", &SHOWN.map(|n| grouped(n as u64)));
    for (name, scheduler) in SCHEDULERS {
        for bytes in SIZES {
            let runs = STREAMS.map(|streams| throughput(scheduler(streams), bytes));
            let points = STREAMS.iter().zip(runs);
            let points = points.map(|(n, run)| (float(*n as u64), mega(run.bits_per_s())));
            let name = format!("{name}, {}", named(bytes));
            section.table_row(&name, &SHOWN.map(|n| megabits(runs[place(n)].bits_per_s())));
            lines.push(Line { name, points: points.collect() });
            runs_of.push(runs);
        }
    }
    let [_, small, half, _, _, _, heap, _] = &runs_of[..] else {
        unreachable!("two schedulers, four sizes")
    };
    section.claim(
        "Fig 8: 512 bytes, 10 to 2,000 streams",
        "a gigabit link",
        rate(half[0]) + ", always",
        half.iter().all(|run| run.at_line_rate()),
    );
    section.claim(
        "Fig 8: 256 bytes, 10 to 2,000 streams",
        "less than the link: about 650 Mb/s",
        format!("{} to {}", megabits(small[0].bits_per_s()), rate(small[STREAMS.len() - 1])),
        small.iter().all(|run| !run.at_line_rate()),
    );
    section.claim(
        "Our addition: a heap in the pipeline, 512 bytes",
        "would not scale as well",
        format!("{} to {}", megabits(heap[0].bits_per_s()), rate(heap[STREAMS.len() - 1])),
        heap.iter().all(|run| !run.at_line_rate()),
    );
    let (x, y) = (("active streams", true), ("Mb/s", false));
    let (hilq, heap) = lines.split_at(SIZES.len());
    let svg = figure("Fig 8: throughput against active streams, HILQ", x, y, hilq)?;
    section.figure("fig8", "HILQ's throughput against active streams, by packet size", svg);
    let svg = figure("Fig 8 with a heap instead of HILQ", x, y, heap)?;
    section.figure(
        "fig8-heap",
        "the heap's throughput against active streams, by packet size",
        svg,
    );
    section.text += &differences(extremes(small), half[0]);
    Ok(())
}

fn introduction() -> String {
    format!(
        "\n## The network-processor model\n\n\
         Figures 6 to 8 come from a discrete-event model of the IXP1200 in cycles of 232 MHz: \
         engines of four contexts, one of which runs until it sends a command to a memory; \
         memories that serve one command at a time; the paper's pipeline of two receiving, one \
         scheduling and two transmitting engines between gigabit ports. An SRAM command takes \
         Table 2's latency, drawn by a seeded generator (its shares sum to 99.4 %; they are used \
         as weights). HILQ makes 68 accesses a sweep and 13 a packet, the heap 12·log₂ n + 6, as \
         in Table 3. The paper omits parts of receiving and sending; these come from Spalink, \
         Karlin, Peterson and Gottlieb (SOSP 2001), who measured the same chip, as commonly \
         quoted.\n\n\
         One number is calibrated, to Figure 6's ≈ 500 cycles: each access includes \
         {COMPUTE_PER_ACCESS} cycles of computation. All other results follow. The scheduling \
         context is the only bottleneck: a packet takes the longer of its time on the wire and of \
         scheduling plus {:.0} cycles to insert it into the output queue. The other engines keep \
         up, and SRAM commands hardly wait for each other: the SRAM is busy {} % of the time at \
         512 bytes. 512 bytes are packet bytes, and 20 more on the wire.\n",
        handover_cycles(),
        throughput(Scheduler::Hilq(2000), 512).sram_busy_per_mille / 10,
    )
}

/// Returns a scheduler's runs at the minimum and the maximum number of streams.
fn extremes(runs: &[Throughput; STREAMS.len()]) -> [Throughput; 2] {
    [runs[0], runs[STREAMS.len() - 1]]
}

/// Returns the index of a number of streams in [`STREAMS`].
fn place(streams: usize) -> usize {
    STREAMS.iter().position(|n| *n == streams).unwrap_or(0)
}
