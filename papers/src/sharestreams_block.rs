//! ShareStreams, section 7: decisions that serve several streams of one sorted list.
//!
//! Runs the model of `millstream_hw::block`, the reference of the verilated core. Blocks range from
//! 1 (exact) to all streams, with the list of the published network and with a sorted one.
//! Violations are counted from the times of departure, not the scheduler's counters.

use std::collections::VecDeque;
use std::fmt::Write as _;

use millstream::StreamId;
use millstream_hw::{Load, Mode, Reference, Settings, SortingNetwork};
use millstream_report::chart::Line;

use crate::claim::{Allowed, Claim, Estimate, Evidence, HEAD, Test, rows};
use crate::experiment::{Page, figure};
use crate::hilq_violations::{random, windows};

const NETWORKS: [(SortingNetwork, &str); 2] =
    [(SortingNetwork::Published, "published"), (SortingNetwork::Bitonic, "sorted")];

/// Number of streams of the random scenarios, and packets per block.
pub(crate) const STREAMS: u32 = 16;
const BLOCKS: [usize; 5] = [1, 2, 4, 8, 16];

/// Utilisations, %.
pub(crate) const UTILISATIONS: [u32; 6] = [50, 60, 70, 80, 90, 100];

/// Sets of random contracts for each utilisation.
pub(crate) const SETS: u64 = 10;

/// Duration of a run, packet-times.
pub(crate) const SLOTS: u64 = 16_000;

/// The offered traffic and its scheduling.
pub(crate) struct Scenario {
    pub(crate) mode: Mode,
    pub(crate) loads: Vec<Load>,
    /// Whether all packets arrive at the start; otherwise one arrives each period.
    pub(crate) backlogged: bool,
}

/// The result of a run.
pub(crate) struct Outcome {
    /// Departures of each stream's packets, in packet-times; `None` for late drops.
    pub(crate) sent: Vec<Vec<Option<u64>>>,
    pub(crate) packets: u64,
    /// Cycles of the network's passes, PRIORITY_UPDATE, and SETTLE if several periods end in a
    /// block.
    pub(crate) cycles: u64,
}

fn load(period: u64, (x, y): (u32, u32), drop: bool) -> Load {
    let byte = |value: u32| u8::try_from(value).expect("8 bits");
    Load {
        deadline: 0,
        period: u16::try_from(period).expect("16 bits"),
        priority: 0,
        weight: 1,
        x: byte(x),
        y: byte(y),
        drop: u8::from(drop),
        first: 0,
    }
}

/// Runs `scenario` in blocks of `block` packet-times.
fn run(scenario: &Scenario, network: SortingNetwork, block: usize) -> Outcome {
    let settings = Settings { mode: scenario.mode, lowest_denominator: false, rtas99: false };
    let mut reference = Reference::with_blocks(settings, network, block);
    let streams = scenario.loads.len();
    for load in &scenario.loads {
        reference.load(load).expect("a complete contract");
    }
    let numbers = || (0..).map(StreamId).take(streams);
    let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); streams];
    let mut sent: Vec<Vec<Option<u64>>> = vec![Vec::new(); streams];
    let mut dropped = vec![0; streams];
    let arrive = |now: u64,
                  reference: &mut Reference,
                  waiting: &mut [VecDeque<usize>],
                  sent: &mut [Vec<Option<u64>>]| {
        for (stream, load) in numbers().zip(&scenario.loads) {
            let count = if scenario.backlogged {
                if now == 0 { SLOTS } else { 0 }
            } else {
                u64::from(now.is_multiple_of(load.period.into()))
            };
            for _ in 0..count {
                reference.enqueue(now, stream, 64);
                waiting[stream.index()].push_back(sent[stream.index()].len());
                sent[stream.index()].push(None);
            }
        }
    };
    let passes = u64::from(network.passes(u32::try_from(streams).expect("few streams")));
    let step = block as u64;
    let (mut packets, mut cycles) = (0, 0);
    arrive(0, &mut reference, &mut waiting, &mut sent);
    for now in (0..SLOTS).step_by(block) {
        reference.decide(now);
        let winners = reference.winners().to_vec();
        for (time, stream) in (now..).zip(&winners) {
            let packet = waiting[stream.index()].pop_front().expect("it has a head");
            sent[stream.index()][packet] = Some(time);
            packets += 1;
        }
        let before: Vec<_> = numbers().map(|stream| reference.attributes(stream)).collect();
        for time in now + 1..=now + step {
            arrive(time, &mut reference, &mut waiting, &mut sent);
        }
        reference.charge(now + step);
        let mut charges = 1;
        for stream in numbers() {
            let (i, after) = (stream.index(), reference.attributes(stream));
            while dropped[i] < after.dropped {
                waiting[i].pop_front();
                dropped[i] += 1;
            }
            // A stream without a head receives one first, which takes a cycle.
            let misses = after.missed - before[i].missed;
            let vacant = winners.contains(&stream) || before[i].waiting == 0;
            charges = charges.max(misses + u64::from(misses > 0 && vacant));
        }
        // PRIORITY_UPDATE makes the first charge, SETTLE the others.
        cycles += passes + charges;
    }
    Outcome { sent, packets, cycles }
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Outcome {
    #[allow(clippy::cast_precision_loss)]
    fn cycles_a_packet(&self) -> f64 {
        self.cycles as f64 / self.packets as f64
    }

    fn counts(&self) -> Vec<u64> {
        self.sent.iter().map(|sent| sent.iter().flatten().count() as u64).collect()
    }

    /// Returns, for each packet whose deadline passed, whether it was not sent before it.
    pub(crate) fn lost(&self, scenario: &Scenario) -> Vec<Vec<bool>> {
        let each = |(sent, load): (&Vec<Option<u64>>, &Load)| {
            let deadlines = (1..).map(|packet| packet * u64::from(load.period));
            let due = sent.iter().zip(deadlines).take_while(|(_, deadline)| *deadline <= SLOTS);
            due.map(|(sent, deadline)| sent.is_none_or(|at| at >= deadline)).collect()
        };
        self.sent.iter().zip(&scenario.loads).map(each).collect()
    }

    /// Returns the packet-times in which each stream did not send, for backlogged streams of
    /// period 1.
    fn unserved(&self) -> Vec<Vec<bool>> {
        let each = |sent: &Vec<Option<u64>>| {
            let mut unserved = vec![true; usize::try_from(SLOTS).expect("few")];
            for at in sent.iter().flatten().filter(|at| **at < SLOTS) {
                unserved[usize::try_from(*at).expect("few")] = false;
            }
            unserved
        };
        self.sent.iter().map(each).collect()
    }
}

/// Returns the number of windows of y packets with more than x lost, and of all windows.
pub(crate) fn violated(lost: &[Vec<bool>], loads: &[Load]) -> (u64, u64) {
    let (mut violated, mut all) = (0, 0);
    for (lost, load) in lost.iter().zip(loads) {
        for window in lost.chunks_exact(usize::from(load.y)) {
            all += 1;
            let lost = window.iter().filter(|lost| **lost).count();
            violated += u64::from(lost > usize::from(load.x));
        }
    }
    (violated, all)
}

/// Returns a scenario with the paper's shares, for its four streams or twice for eight.
pub(crate) fn fair(copies: u32) -> Scenario {
    let windows = [1, 1, 2, 4].repeat(copies as usize).into_iter();
    // A share is in units of 1/8 of a copy's part of the link.
    let loads = windows.map(|share| load(1, (8 * copies - share, 8 * copies), false)).collect();
    Scenario { mode: Mode::Dwcs, loads, backlogged: true }
}

/// Returns a scenario of random windows with one common period, up to this utilisation.
fn random_windows(percent: u32, seed: u64) -> Scenario {
    random_windows_of(STREAMS, percent, seed)
}

pub(crate) fn random_windows_of(streams: u32, percent: u32, seed: u64) -> Scenario {
    let mut below = random(seed);
    let windows = windows(streams as usize, &mut below);
    // In millionths: Σ (1 − x/y) is rounded up.
    let share = |(x, y): &(u32, u32)| (1_000_000 * u64::from(y - x)).div_ceil(u64::from(*y));
    let needed: u64 = windows.iter().map(share).sum();
    let period = needed.div_ceil(10_000 * u64::from(percent));
    let loads = windows.iter().map(|window| load(period, *window, true)).collect();
    Scenario { mode: Mode::Dwcs, loads, backlogged: false }
}

/// Returns a scenario of EDF streams of random rates, up to this utilisation.
fn edf(percent: u32, seed: u64) -> Scenario {
    edf_of(STREAMS, percent, seed)
}

pub(crate) fn edf_of(streams: u32, percent: u32, seed: u64) -> Scenario {
    let mut below = random(seed);
    let rates: Vec<u64> = (0..streams).map(|_| u64::from(1 + below(4))).collect();
    let all: u64 = rates.iter().sum();
    let period = |rate: &u64| (100 * all).div_ceil(rate * u64::from(percent));
    let loads = rates.iter().map(|rate| load(period(rate), (0, 0), false)).collect();
    Scenario { mode: Mode::Edf, loads, backlogged: false }
}

/// Losses of random scenarios at one utilisation, %, and the cost of a packet, cycles.
struct Loss {
    windows: f64,
    late: f64,
    cycles: f64,
    /// Windows violated, %, by set of contracts.
    by_set: Vec<f64>,
}

fn loss(scenario: impl Fn(u64) -> Scenario, network: SortingNetwork, block: usize) -> Loss {
    let (mut broken, mut windows, mut late, mut due) = (0, 0, 0, 0);
    let (mut cycles, mut packets) = (0, 0);
    let mut by_set = Vec::new();
    for seed in 1..=SETS {
        let scenario = scenario(seed);
        let outcome = run(&scenario, network, block);
        let lost = outcome.lost(&scenario);
        if scenario.mode == Mode::Dwcs {
            let (more_broken, more) = violated(&lost, &scenario.loads);
            (broken, windows) = (broken + more_broken, windows + more);
            by_set.push(percent(more_broken, more));
        }
        late += lost.iter().flatten().filter(|lost| **lost).count() as u64;
        due += lost.iter().map(Vec::len).sum::<usize>() as u64;
        (cycles, packets) = (cycles + outcome.cycles, packets + outcome.packets);
    }
    let cycles = percent(cycles, packets) / 100.0;
    Loss { windows: percent(broken, windows), late: percent(late, due), cycles, by_set }
}

/// Losses by network, block and utilisation.
type Losses = Vec<Vec<Vec<Loss>>>;

fn losses(scenario: impl Fn(u32, u64) -> Scenario) -> Losses {
    let point = |network, block, percent| loss(|seed| scenario(percent, seed), network, block);
    let line = |network, block| UTILISATIONS.iter().map(|u| point(network, block, *u)).collect();
    let network =
        |(network, _): &(SortingNetwork, _)| BLOCKS.iter().map(|b| line(*network, *b)).collect();
    NETWORKS.iter().map(network).collect()
}

fn lines(losses: &Losses, value: impl Fn(&Loss) -> f64) -> Vec<Line> {
    let mut lines = Vec::new();
    for ((_, name), blocks) in NETWORKS.iter().zip(losses) {
        for (block, points) in BLOCKS.iter().zip(blocks) {
            // Blocks of one are equal for both networks.
            if *block == 1 && !lines.is_empty() {
                continue;
            }
            let name = if *block == 1 { "exact".into() } else { format!("{block}, {name}") };
            let x = UTILISATIONS.iter().map(|percent| f64::from(*percent) / 100.0);
            lines.push(Line { name, points: x.zip(points.iter().map(&value)).collect() });
        }
    }
    lines
}

/// Writes the table of fair shares.
fn fair_table(text: &mut String, copies: u32) {
    let scenario = fair(copies);
    let streams = scenario.loads.len();
    let _ = write!(
        text,
        "\n### {streams} streams\n\n\
         | packets a block | list | packets sent | largest share error | windows violated \
         | cycles a packet |\n|---:|---|---|---:|---:|---:|\n"
    );
    for block in BLOCKS.into_iter().filter(|block| *block <= streams) {
        for (network, name) in NETWORKS {
            let outcome = run(&scenario, network, block);
            let counts = outcome.counts();
            let shares: Vec<u64> = scenario.loads.iter().map(|l| u64::from(l.y - l.x)).collect();
            let all: u64 = shares.iter().sum();
            let error = |(count, share): (&u64, &u64)| {
                percent((count * all).abs_diff(SLOTS * share), SLOTS * share)
            };
            let error = counts.iter().zip(&shares).map(error).fold(0.0, f64::max);
            let (broken, windows) = violated(&outcome.unserved(), &scenario.loads);
            let sent: Vec<String> = counts.iter().map(ToString::to_string).collect();
            let sent = sent.join(" : ");
            let _ = writeln!(
                text,
                "| {block} | {name} | {sent} | {error:.1} % | {:.1} % | {:.2} |",
                percent(broken, windows),
                outcome.cycles_a_packet()
            );
        }
    }
}

fn table(text: &mut String, losses: &Losses, value: impl Fn(&Loss) -> f64) {
    let heads: String =
        UTILISATIONS.iter().map(|u| format!(" U {:.1} |", f64::from(*u) / 100.0)).collect();
    let _ = write!(
        text,
        "\n| packets a block | list |{heads}\n|---:|---|{}\n",
        "---:|".repeat(UTILISATIONS.len())
    );
    for (at, block) in BLOCKS.iter().enumerate() {
        for ((_, name), blocks) in NETWORKS.iter().zip(losses) {
            let values: String =
                blocks[at].iter().map(|loss| format!(" {:.2} |", value(loss))).collect();
            let _ = writeln!(text, "| {block} | {name} |{values}");
        }
    }
}

/// Writes the cycles per packet of the random windows at full utilisation, by block and network.
fn throughput_table(text: &mut String, losses: &Losses) {
    let exact = losses[0][0].last().map_or(1.0, |loss| loss.cycles);
    text.push_str(
        "\n| packets a block | list | cycles a block | cycles a packet \
         | packets/s relative to the exact core |\n|---:|---|---:|---:|---:|\n",
    );
    for (at, block) in BLOCKS.iter().enumerate() {
        for ((network, name), blocks) in NETWORKS.iter().zip(losses) {
            let cycles = network.passes(STREAMS) + 1;
            let a_packet = blocks[at].last().map_or(0.0, |loss| loss.cycles);
            let _ = writeln!(
                text,
                "| {block} | {name} | {cycles} | {a_packet:.2} | {:.2} |",
                exact / a_packet
            );
        }
    }
}

/// Returns the number of orders of `streams` streams whose list is sorted after the published
/// network's passes, whose first is exact, and of all orders.
fn sorted_orders(streams: u16) -> [usize; 3] {
    let settings = Settings { mode: Mode::Static, lowest_denominator: false, rtas99: false };
    let [mut sorted, mut first, mut all] = [0; 3];
    let mut order: Vec<u16> = (0..streams).collect();
    permutations(&mut order, usize::from(streams), &mut |priorities| {
        let mut reference = Reference::with_blocks(settings, SortingNetwork::Published, 1);
        for priority in priorities {
            let load = Load { priority: *priority, ..load(1, (0, 0), false) };
            let stream = reference.load(&load).expect("a complete contract");
            reference.enqueue(0, stream, 1);
        }
        reference.decide(0);
        let list = reference.list().iter().map(|(_, stream)| priorities[stream.index()]);
        sorted += usize::from(list.clone().is_sorted());
        first += usize::from(list.clone().next() == Some(0));
        all += 1;
    });
    [sorted, first, all]
}

/// Calls `each` with every order of the first `count` of `order` (Heap's algorithm).
fn permutations(order: &mut [u16], count: usize, each: &mut impl FnMut(&[u16])) {
    if count <= 1 {
        return each(order);
    }
    for at in 0..count {
        permutations(order, count - 1, each);
        let other = if count.is_multiple_of(2) { at } else { 0 };
        order.swap(other, count - 1);
    }
}

/// Tests the lists of the published network over all orders of 4 and 8 streams.
fn list_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for streams in [4, 8] {
        let [sorted, first, all] = sorted_orders(streams);
        let mut push = |what: String, paper: &str, count: usize| {
            let share = percent(count as u64, all as u64);
            let criterion = "true of every order of the streams";
            claims.push(Test::new(what, paper, criterion, Allowed::Equal(100.0)).by(
                Evidence::Computed,
                format!("{count} of {all} orders"),
                Estimate::exact(share),
                format!("{share:.1} %; exact, all orders"),
            ));
        };
        let passes = streams.ilog2();
        push(
            format!("Sec 4: winner of {streams} streams after {passes} cycles"),
            "a winner in log2 N cycles",
            first,
        );
        push(
            format!("Sec 4: sorted list of {streams} streams after {passes} cycles"),
            "a sorted list in log2 N cycles",
            sorted,
        );
    }
    claims
}

/// Shows the impact of blocks on windows, for which the paper has no number.
fn impact_claims(losses: &Losses) -> Vec<Claim> {
    let claim = |(blocks, (_, name)): (&Vec<Vec<Loss>>, &(SortingNetwork, &str))| {
        let (block, utilisation) = (BLOCKS[3], UTILISATIONS[2]);
        let loss = &blocks[3][2];
        let mean = Estimate::mean(&loss.by_set, 0.95);
        let what = format!(
            "Sec 7: windows violated, {block} packets a list, {name}, {STREAMS} streams, \
             U 0.{}",
            utilisation / 10
        );
        Test::new(what, "impact to be examined", "none: no number", Allowed::Unstated).by(
            Evidence::Simulated,
            format!("{:.1} %; one packet a list {:.1} %", mean.value, blocks[0][2].windows),
            mean,
            format!(
                "{:+.1} points [{:.1}, {:.1}]; mean of {SETS} sets, 95 % by Student's t",
                mean.value, mean.low, mean.high
            ),
        )
    };
    losses.iter().zip(&NETWORKS).map(claim).collect()
}

/// Runs all experiments and returns the page.
pub(crate) fn page() -> miette::Result<Page> {
    let mut text = String::from(
        "# ShareStreams: blocks of packets from one list\n\n\
         Section 7: \"using the sorted list of streams to schedule packets in future packet-times \
         and the impact of this on QoS\". The paper gives no numbers. These are from the model of \
         `millstream_hw::block`, which equals the core (`Block` of `rtl/src/msr_core.sv`) list for \
         list and register for register; `scripts/rtl.sh` compares them. `make figures` writes \
         this page.\n\n\
         A decision serves the first k streams of its list, in k packet-times. Attributes change \
         once a block. Rule A applies to each of the k as of the decision's time. Then time \
         advances by k, and all streams are charged for the periods that ended, by \
         PRIORITY_UPDATE and, where more than one ended, by SETTLE. *Published* is the list of \
         the log2 N passes, of which the first and the last entry are exact; *sorted* that of a \
         bitonic sort's log2²N − log2 N + 1 passes. Losses are judged by the times of \
         departure.\n\n\
         ## Fair shares 1:1:2:4\n\n\
         All streams are backlogged, T = 1, late packets are sent; 16,000 packet-times. A window \
         is y consecutive packet-times; it is violated if the stream sent fewer than y − x packets \
         in it. A stream sends at most one packet a block, so no share above 1/k can be kept. Up \
         to there the sorted list keeps all shares and windows; the published list does not \
         always.\n",
    );
    for copies in [1, 2] {
        fair_table(&mut text, copies);
    }

    let random_windows = losses(random_windows);
    text += "\n## Random windows\n\n\
             16 streams, x/y random in 0.2 to 0.8, one common period, the shortest with \
             Σ (1 − x/y)/T ≤ U; a packet a period, late ones are dropped; ten sets of windows, \
             16,000 packet-times each. Windows violated, %: more than x of y consecutive packets \
             are not sent before their deadlines.\n";
    table(&mut text, &random_windows, |loss| loss.windows);
    text += "\nDeadlines missed, % of packets:\n";
    table(&mut text, &random_windows, |loss| loss.late);
    text += "\nBoth lists send the same number of packets in time, since all deadlines of a period \
             are equal; they differ in the streams. The ratio of k to the packet-times of a period \
             (about 8 / U) matters. A packet that arrives during a block waits for the next block, \
             and a block that extends past the end of a period serves packets too late.\n\n\
             ![windows violated by utilisation](block.svg)\n";

    let edf = losses(edf);
    text += "\n## Earliest deadline first\n\n\
             16 streams of random rates 1 to 4, a packet a period, due at its end; Σ 1/T ≤ U; late \
             packets are sent. Sent late, % of packets:\n";
    table(&mut text, &edf, |loss| loss.late);
    text += "\nHere the order inside the block matters. With a sorted list, blocks of eight are as \
             good as the exact schedule up to U = 0.9; the published list loses packets with \
             blocks of four at 0.8.\n\n\
             ![late packets by utilisation](block-edf.svg)\n";
    text += "\n## Gain in throughput\n\n\
             Cycles of a decision for 16 streams (passes and PRIORITY_UPDATE), and cycles of a \
             packet at U = 1, including SETTLE and empty packet-times:\n";
    throughput_table(&mut text, &random_windows);
    text += "\nSorting costs 14 cycles rather than 5, so it pays from blocks of four. Blocks of \
             four by the sorted list send 1.4 times the exact core's packets and keep EDF. The \
             published list sends four times as many; up to U = 0.7 it has no late packets, and up \
             to 0.6 it violates a window in 800. An exact decision in fewer cycles (Compute-Ahead, \
             the tree) loses nothing.\n";

    let mut claims = list_claims();
    claims.extend(impact_claims(&random_windows));
    text += "\n## The paper's statements\n\n";
    text += HEAD;
    text += &rows(&claims, "");
    text += "\nThe paper says that the network sorts all streams in log2 N passes. It finds the \
             first and the last; the list between them is sorted for only a part of the inputs, \
             which the tables above show as violated windows. A complete sort needs the passes of \
             a bitonic network. For the impact on QoS the paper has no number. Earlier versions \
             of this page counted checks of our own model as the paper's statements; they are \
             unit tests of `millstream_hw::block`.\n";

    let axes = (("utilisation U", false), ("windows violated (%)", false));
    let title = "Random windows in blocks: 16 streams";
    let violated = figure(title, axes.0, axes.1, &lines(&random_windows, |loss| loss.windows))?;
    let title = "EDF in blocks: 16 streams";
    let late = figure(title, axes.0, ("sent late (%)", false), &lines(&edf, |loss| loss.late))?;
    let files = vec![
        ("block.md".to_owned(), text),
        ("block.svg".to_owned(), violated),
        ("block-edf.svg".to_owned(), late),
    ];
    Ok(Page { files, claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_all_different() {
        let mut seen = std::collections::BTreeSet::new();
        permutations(&mut [0, 1, 2, 3], 4, &mut |order| {
            seen.insert(order.to_vec());
        });
        assert_eq!(seen.len(), 24);
    }

    #[test]
    fn the_published_network_sorts_two_thirds_of_the_orders_of_four() {
        // The middle two of four are the loser of the winners and the winner of the losers.
        assert_eq!(sorted_orders(4), [16, 24, 24]);
    }
}
