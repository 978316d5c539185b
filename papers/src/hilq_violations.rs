//! HILQ paper, Figure 9: violated windows against utilisation.
//!
//! 200 streams of random windows send one packet per period. A window is y consecutive packets of a
//! stream; it is violated if more than x of them are not sent before their deadlines. Every
//! scheduler receives the same packets. Violations are counted from its departures, not its own
//! counters.

mod load;
mod run;

use millstream::catalogue::DynScheduler;
use millstream::{
    Accesses, Contract, DwcsOptions, Hilq, Late, Packet, Rules, Sizes, Window, ZeroWindow,
};
use millstream_report::chart::Line;
use millstream_sim::network_processor::constants::{CLOCK_HZ, SCRATCH_LATENCY, SRAM_LATENCY};
use std::fmt::Write as _;

use self::load::{Deadlines, Load, Periods, STREAMS};
use self::run::{System, violated};
use crate::claim::{Allowed, Claim, Estimate, Evidence, HEAD, Test, rows};
use crate::experiment::{Page, estimates};
use crate::hilq::computes;

pub(crate) use self::load::{random, windows};

/// Draws of windows, periods and phases; all systems and utilisations share them.
const SEEDS: u64 = 10;
/// Nominal utilisations.
const UTILISATIONS: [f64; 9] = [0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.2, 1.5];
/// Nominal utilisations of the collector's experiment.
const COLLECTOR_UTILISATIONS: [f64; 3] = [0.95, 1.1, 1.5];
/// Delays of the collector, µs.
const DELAYS_US: [u64; 5] = [0, 300, 1_000, 3_000, 10_000];
/// The delay of the claims, µs: about the time to collect a packet of each stream.
const CLAIMED_US: u64 = 300;
const CONFIDENCE: f64 = 0.95;

const MIXES: [(Periods, &str); 2] = [(Periods::Equal, "equal"), (Periods::Mixed, "mixed")];
const DEADLINES: [(Deadlines, &str); 3] = [
    (Deadlines::AsTheyFall, "deadlines as they fall"),
    (Deadlines::RandomPhases, "random phases"),
    (Deadlines::Aligned, "deadlines at ends of milliseconds"),
];
const RULES: [(Rules, &str); 2] =
    [(Rules::Standard, "standard rules"), (Rules::Rtas99, "the paper's rules")];

/// Returns the paper's heap: among windows with x' = 0, the lowest y' is first.
const fn paper_heap(rules: Rules) -> System {
    System::Heap(ZeroWindow::LowestDenominator, rules)
}

/// Violated windows of a system, %, by utilisation and seed.
type Runs = Vec<Vec<f64>>;

fn runs(system: System, periods: Periods, deadlines: Deadlines) -> Runs {
    let run = |nominal, seed| violated(&Load::draw(seed, periods, deadlines, nominal), system);
    UTILISATIONS.map(|nominal| (1..=SEEDS).map(|seed| run(nominal, seed)).collect()).to_vec()
}

/// Returns `a` − `b` by utilisation and seed.
fn differences(a: &Runs, b: &Runs) -> Runs {
    let pairs = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
    a.iter().zip(b).map(pairs).collect()
}

/// Returns the largest mean over the utilisations that `is_in` selects, and its utilisation.
///
/// The interval covers the largest true mean with [`CONFIDENCE`] (Bonferroni): it is from the
/// largest lower to the largest upper end of the intervals at the utilisations.
fn largest(runs: &Runs, is_in: impl Fn(f64) -> bool) -> (Estimate, f64) {
    let selected: Vec<_> = UTILISATIONS.iter().zip(runs).filter(|(at, _)| is_in(**at)).collect();
    #[allow(clippy::cast_precision_loss)]
    let confidence = 1.0 - (1.0 - CONFIDENCE) / selected.len() as f64;
    let mean = |(at, runs): &(&f64, &Vec<f64>)| (Estimate::mean(runs, confidence), **at);
    let means: Vec<(Estimate, f64)> = selected.iter().map(mean).collect();
    let first = |best: (f64, f64), (of, at): &(Estimate, f64)| {
        if of.value > best.0 { (of.value, *at) } else { best }
    };
    let (value, at) = means.iter().fold((f64::MIN, 0.0), first);
    let low = means.iter().map(|(of, _)| of.low).fold(f64::MIN, f64::max);
    let high = means.iter().map(|(of, _)| of.high).fold(f64::MIN, f64::max);
    (Estimate { value, low, high }, at)
}

/// The runs of one traffic: the paper's heap and HILQ by rules.
struct Traffic {
    heap: [Runs; 2],
    hilq: [Runs; 2],
}

impl Traffic {
    fn run(periods: Periods, deadlines: Deadlines) -> Self {
        let of = |system: fn(Rules) -> System| {
            RULES.map(|(rules, _)| runs(system(rules), periods, deadlines))
        };
        Self { heap: of(paper_heap), hilq: of(|rules| System::Hilq(rules, 0)) }
    }

    fn differences(&self, rules: usize) -> Runs {
        differences(&self.hilq[rules], &self.heap[rules])
    }
}

/// Formats a difference in percentage points with its interval.
fn points(of: Estimate) -> String {
    format!("{:+.2} [{:+.2}, {:+.2}]", of.value, of.low, of.high)
}

/// Returns the effect of a difference of HILQ and the heap.
fn effect(of: Estimate) -> String {
    format!("{} points, paired, {SEEDS} draws, t 95 %, Bonferroni", points(of))
}

/// Returns the paper's statements on one traffic.
fn claims(traffic: &Traffic, mix: &str, deadlines: (Deadlines, &str)) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (at, (_, rules)) in RULES.iter().enumerate() {
        let item = |what: &str| format!("Fig 9, {mix} periods, {}, {rules}: {what}", deadlines.1);
        let differences = traffic.differences(at);
        for (what, paper, below) in [
            ("HILQ's violated windows beyond the heap's, U > 1", "not more than the heap", false),
            ("HILQ's violated windows beyond the heap's, U < 1", "no loss in accuracy", true),
        ] {
            let (most, at) = largest(&differences, |at| (at < 1.0) == below);
            let criterion = "largest mean difference over U at most 0 points";
            let ours = format!("{:+.1} points at U = {at}", most.value);
            let test = Test::new(item(what), paper, criterion, Allowed::AtMost(0.0));
            claims.push(test.by(Evidence::Simulated, ours, most, effect(most)));
        }
        if deadlines.0 == Deadlines::AsTheyFall {
            let (most, at) = largest(&traffic.heap[at], |at| at < 1.0);
            let ours = format!("{:.2} % of windows at U = {at}", most.value);
            let what = item("the heap's violated windows, U < 1");
            let test = Test::new(what, "none", "largest mean over U is 0", Allowed::Equal(0.0));
            let interval = format!("[{:.2}, {:.2}]", most.low, most.high);
            let effect =
                format!("{:.2} % {interval}, {SEEDS} draws, t 95 %, Bonferroni", most.value);
            claims.push(test.by(Evidence::Simulated, ours, most, effect));
        }
    }
    claims
}

/// Adds the table of one traffic.
fn table(text: &mut String, traffic: &Traffic) {
    let heads = RULES
        .map(|(_, rules)| format!(" heap, {rules} | HILQ, {rules} | difference, {rules} [95 %] |"));
    let _ = writeln!(text, "\n| U |{}\n|---:|{}", heads.concat(), "---:|".repeat(6));
    for (row, nominal) in UTILISATIONS.iter().enumerate() {
        let _ = write!(text, "| {nominal:.2} |");
        for rules in 0..RULES.len() {
            let mean = |runs: &Runs| Estimate::mean(&runs[row], CONFIDENCE).value;
            let difference = Estimate::mean(&traffic.differences(rules)[row], CONFIDENCE);
            let (heap, hilq) = (mean(&traffic.heap[rules]), mean(&traffic.hilq[rules]));
            let _ = write!(text, " {heap:.2} | {hilq:.2} | {} |", points(difference));
        }
        text.push('\n');
    }
}

/// Draws the lines of one traffic.
fn chart(title: &str, traffic: &Traffic) -> miette::Result<String> {
    let (mut lines, mut halves) = (Vec::new(), Vec::new());
    for (at, (_, rules)) in RULES.iter().enumerate() {
        for (name, runs) in [("heap", &traffic.heap[at]), ("HILQ", &traffic.hilq[at])] {
            let means: Vec<Estimate> =
                runs.iter().map(|runs| Estimate::mean(runs, CONFIDENCE)).collect();
            let points = UTILISATIONS.iter().zip(&means).map(|(at, of)| (*at, of.value)).collect();
            lines.push(Line { name: format!("{name}, {rules}"), points });
            halves.push(means.iter().map(|of| of.high - of.value).collect());
        }
    }
    let (x, y) = (("utilisation U", false), ("violated windows (%)", false));
    estimates(title, x, y, &lines, &halves)
}

/// Adds the table of the orders at x' = 0; `aligned` has equal periods and deadlines that HILQ
/// represents exactly.
fn orders(text: &mut String, aligned: &Traffic) {
    let highest = System::Heap(ZeroWindow::HighestDenominator, Rules::Standard);
    let aligned_runs = |system| runs(system, Periods::Equal, Deadlines::Aligned);
    let (highest, first_come) = (aligned_runs(highest), aligned_runs(System::SlotOrder));
    let columns = [
        ("heap, lowest y' first (the paper's)", &aligned.heap[0]),
        ("heap, highest y' first (ShareStreams)", &highest),
        ("heap, first come", &first_come),
        ("HILQ", &aligned.hilq[0]),
    ];
    let _ = writeln!(
        text,
        "\n## The order at x' = 0\n\nStandard rules, equal periods, deadlines at ends of \
         milliseconds, so that only the order differs. HILQ has one first-come slot for x' = 0.\n\n\
         | U |{}\n|---:|{}",
        columns.map(|(name, _)| format!(" {name} |")).concat(),
        "---:|".repeat(columns.len())
    );
    for (row, nominal) in UTILISATIONS.iter().enumerate() {
        let mean = |runs: &Runs| Estimate::mean(&runs[row], CONFIDENCE).value;
        let cells = columns.map(|(_, runs)| format!(" {:.2} |", mean(runs)));
        let _ = writeln!(text, "| {nominal:.2} |{}", cells.concat());
    }
}

/// Returns the time to collect a late packet of each of `streams` streams on the network processor,
/// µs, with `compute` cycles of computation an access.
#[allow(clippy::cast_precision_loss)]
fn collection_us(streams: u32, compute: u64) -> f64 {
    let memory = Accesses::default();
    let mut scheduler = Hilq::with_memory(DwcsOptions::default(), Sizes::PAPER, memory);
    for (lost, of) in windows(streams as usize, &mut random(1)) {
        let window = Window::new(lost, of).expect("x at most y");
        let contract = Contract::new().window(window).late(Late::Drop);
        let contract = contract.period_ns(20 * load::MS).expect("positive");
        let stream = scheduler.add_stream(contract).expect("complete");
        scheduler.enqueue(0, stream, Packet::new(512)).expect("within the calendar");
    }
    let before = *scheduler.memory();
    let sent = scheduler.decide(30 * load::MS, &mut ());
    assert!(sent.is_none(), "a late packet was sent");
    let after = *scheduler.memory();
    // An access takes a cycle to issue and the memory's mean latency.
    let shares: f64 = SRAM_LATENCY.iter().map(|(_, share)| f64::from(*share)).sum();
    let sum: f64 = SRAM_LATENCY.iter().map(|(of, share)| *of as f64 * f64::from(*share)).sum();
    let sram = (after.sram - before.sram) as f64 * (compute as f64 + 1.0 + sum / shares);
    let scratch = (after.scratch - before.scratch) as f64 * (compute + 1 + SCRATCH_LATENCY) as f64;
    (sram + scratch) * 1e6 / CLOCK_HZ as f64
}

/// Adds the experiment of the collector's delay and its claims.
fn collector(text: &mut String, claims: &mut Vec<Claim>) {
    let [none, central, most] = computes();
    let us = |compute| collection_us(u32::try_from(STREAMS).unwrap_or(0), compute);
    let _ = writeln!(
        text,
        "\nThe paper gives no bound of the delay. Our collector's counted accesses for one late \
         packet of each of {STREAMS} streams take {:.0} µs on the network processor with {central} \
         cycles of computation an access, {:.0} µs with {none}, {:.0} µs with {most} (see \
         Figures 6 to 8). The claims take {CLAIMED_US} µs.",
        us(central),
        us(none),
        us(most),
    );
    let run = |deadlines, nominal, delay_us: u64| -> Vec<f64> {
        let system = System::Hilq(Rules::Standard, delay_us * 1_000);
        let load = |seed| Load::draw(seed, Periods::Equal, deadlines, nominal);
        (1..=SEEDS).map(|seed| violated(&load(seed), system)).collect()
    };
    for (deadlines, name) in [
        (Deadlines::Apart, "deadlines 0 to 9 ms before the next arrival"),
        (Deadlines::Aligned, "deadlines at ends of milliseconds"),
        (Deadlines::AsTheyFall, "deadlines as they fall"),
    ] {
        let columns = COLLECTOR_UTILISATIONS.map(|at| format!(" U = {at} | difference [95 %] |"));
        let _ = writeln!(
            text,
            "\nHILQ, standard rules, equal periods, {name}:\n\n| delay, µs |{}\n|---:|{}",
            columns.concat(),
            "---:|".repeat(2 * columns.len())
        );
        let prompt = COLLECTOR_UTILISATIONS.map(|at| run(deadlines, at, 0));
        for delay_us in DELAYS_US {
            let _ = write!(text, "| {delay_us} |");
            for (at, prompt) in COLLECTOR_UTILISATIONS.into_iter().zip(&prompt) {
                let late = run(deadlines, at, delay_us);
                let pairs: Vec<f64> = late.iter().zip(prompt).map(|(a, b)| a - b).collect();
                let difference = Estimate::mean(&pairs, CONFIDENCE);
                let mean = Estimate::mean(&late, CONFIDENCE).value;
                let _ = write!(text, " {mean:.2} | {} |", points(difference));
                if delay_us == CLAIMED_US && at > 1.0 {
                    claims.push(late_collector(name, at, mean, difference));
                }
            }
            text.push('\n');
        }
    }
}

/// Returns the claim on a collector that is [`CLAIMED_US`] late.
fn late_collector(deadlines: &str, at: f64, mean: f64, difference: Estimate) -> Claim {
    let test = Test::new(
        format!(
            "Section 5.4.3: a collector {CLAIMED_US} µs late, equal periods, {deadlines}, U = {at}"
        ),
        "inaccuracy in a small range",
        "none: the paper gives no number",
        Allowed::Unstated,
    );
    let effect =
        format!("{} points against no delay, paired, {SEEDS} draws, t 95 %", points(difference));
    test.by(Evidence::Simulated, format!("{mean:.1} % of windows"), difference, effect)
}

/// Returns Figure 9 with equal and with mixed periods, and the paper's statements.
pub(crate) fn page() -> miette::Result<Page> {
    let (mut files, mut claims_of_page) = (Vec::new(), Vec::new());
    let (mut tables, mut aligned) = (String::new(), None);
    for (periods, mix) in MIXES {
        for deadlines in DEADLINES {
            let traffic = Traffic::run(periods, deadlines.0);
            claims_of_page.extend(claims(&traffic, mix, deadlines));
            let _ = writeln!(tables, "\n## {mix} periods, {}", deadlines.1);
            table(&mut tables, &traffic);
            let name = match deadlines.0 {
                Deadlines::AsTheyFall => format!("fig9-{mix}"),
                Deadlines::RandomPhases => format!("fig9-{mix}-phases"),
                _ => format!("fig9-{mix}-aligned"),
            };
            let title = format!("Fig 9: violated windows, {mix} periods, {}", deadlines.1);
            files.push((format!("{name}.svg"), chart(&title, &traffic)?));
            let _ = writeln!(tables, "\n![{mix} periods, {}]({name}.svg)", deadlines.1);
            if (periods, deadlines.0) == (Periods::Equal, Deadlines::Aligned) {
                aligned = Some(traffic);
            }
        }
    }
    if let Some(aligned) = aligned {
        orders(&mut tables, &aligned);
    }
    tables += include_str!("hilq_violations/collector.md");
    collector(&mut tables, &mut claims_of_page);
    let mut text = String::from(include_str!("hilq_violations/page.md"));
    text += HEAD;
    text += &rows(&claims_of_page, "Fig 9, ");
    text += include_str!("hilq_violations/follows.md");
    files.push(("fig9.md".to_owned(), text + &tables));
    Ok(Page { files, claims: claims_of_page })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collection_of_a_packet_takes_its_accesses() {
        // A packet in a slot of its own takes 8 SRAM accesses, and 23 of the scratchpad, most for
        // the 20 empty segments before it. That is (8 × 21.855 + 23 × 21) cycles at 232 MHz.
        let us = collection_us(1, 0);
        assert!((us - 2.8355).abs() < 0.001, "{us}");
        assert!(collection_us(200, 16) > collection_us(200, 0));
    }

    #[test]
    fn the_largest_difference_has_a_simultaneous_interval() {
        let constant = |value: f64| vec![value; 4];
        let runs: Runs = (0..9).map(|at| constant(f64::from(at))).collect();
        let (below, at) = largest(&runs, |at| at < 1.0);
        assert_eq!((below, at), (Estimate::exact(3.0), 0.99));
        let (above, at) = largest(&runs, |at| at > 1.0);
        assert_eq!((above, at), (Estimate::exact(8.0), 1.5));
        // One of four with a variance: 4 × the error rate per interval.
        let mut runs: Runs = (0..9).map(|_| constant(0.0)).collect();
        runs[1] = vec![1.0, 3.0];
        let (of, at) = largest(&runs, |at| at < 1.0);
        assert_eq!((of.value, at), (2.0, 0.9));
        // t with 1 degree of freedom at 98.75 %, two-sided: 50.92.
        assert!((of.high - 52.92).abs() < 0.01 && of.low.abs() < 1e-12, "{of:?}");
        assert_eq!(differences(&runs, &runs)[1], [0.0, 0.0]);
    }
}
