//! The statements of the paper's section 4, judged on the model.
//!
//! Each criterion is the paper's printed number and its rounding. "About" and "approximately" mean
//! 10 %. A statement of order has an order as its criterion. Where the paper prints no number, the
//! verdict is "cannot tell".

use std::fmt::Write as _;

use super::estimates::{RUNS, deviation, interval, mean, on_machines, over_seeds};
use super::experiments::{
    Batching, RESERVED_PPS, best_effort, data_dependent, idle_ports, mean_batches, mixed, overhead,
};
use super::figures::{Curves, Points};
use super::machine::{FORWARD_NS, LINE_PPS, POLL_NS, PaperMachine};
use crate::claim::{Allowed, Claim, Estimate, Evidence, Given, Test};

/// The kinds of intervals, as the effects name them.
const ROUNDING: &str = "rounding";
const SEEDS: &str = "10 seeds, t 95 %";
const EXACT: &str = "exact";
/// Half a unit of the last digit of the paper's rates, Kpps.
const HALF_KPPS: f64 = 0.5;
/// The loss of a source that counts as none, Kpps: the packets at the edges of the counted second.
const EDGE_KPPS: f64 = 0.05;

/// The judged statements, and the reasons of differences.
pub(super) struct Statements {
    pub(super) claims: Vec<Claim>,
    pub(super) reasons: String,
}

impl Statements {
    fn given(&mut self, what: &str, paper: &str, ours: String, kind: Given) {
        self.claims.push(Claim::given(format!("Router, {what}"), paper, ours, kind));
    }

    fn judge(
        &mut self,
        (what, paper): (&str, &str),
        (criterion, allowed): (&str, Allowed),
        (ours, tested, effect): (String, Estimate, String),
    ) {
        let test = Test::new(format!("Router, {what}"), paper, criterion, allowed);
        self.claims.push(test.by(Evidence::Simulated, ours, tested, effect));
    }

    /// Judges a rate in Kpps by the paper's printed integer.
    fn rate(&mut self, what: &str, paper: f64, ours: Estimate, kind: &str) {
        self.judge(
            (what, &format!("{paper:.0} Kpps")),
            ("the printed number ± 0.5 Kpps", printed(paper)),
            (format!("{:.1} Kpps", ours.value), ours, deviation(ours, paper, kind)),
        );
    }

    fn reason(&mut self, what: &str, why: &str) {
        let _ = writeln!(self.reasons, "| {what} | {why} |");
    }
}

/// Returns the rates that round to a printed integer of Kpps.
fn printed(paper: f64) -> Allowed {
    Allowed::Between(paper - HALF_KPPS, paper + HALF_KPPS)
}

/// Judges every statement on the results.
pub(super) fn statements(curves: &Curves) -> Statements {
    let mut of = Statements { claims: Vec::new(), reasons: String::new() };
    settings(&mut of);
    overheads(&mut of, curves);
    best_efforts(&mut of);
    mixes(&mut of, curves);
    processor_bound(&mut of, curves);
    data(&mut of);
    of
}

fn settings(of: &mut Statements) {
    let inputs = [
        ("section 4: fastest source; a line", "140 Kpps", "140 Kpps"),
        ("section 4.1: input, forwarding and output of a packet", "1.6, 0.3 and 1.4 µs", "same"),
        ("section 4.4: limits of throttled batches", "16 packets or 30 µs", "same"),
        ("section 4.5: length of output queues", "128 packets, 1 packet", "same"),
        ("receive and transmit rings", "not given", "32 and 16 packets"),
        ("cost of an idle poll", "not given", "0.3 µs"),
        ("throttle: batch target; longest sleep", "not given", "4 to 12 packets; 150 µs"),
    ];
    for (what, paper, ours) in inputs {
        of.given(what, paper, ours.to_owned(), Given::Input);
    }
}

fn overheads(of: &mut Statements, curves: &Curves) {
    let most = |router: usize| highest(&curves.overhead[router]);
    let [one, two, three, single] = [1, 2, 3, 4].map(most);
    let fitted = [
        ("Table 2: 1 process, batch 16", "294 Kpps", format!("{one:.1} Kpps")),
        ("Table 2: 3 processes, batch 16", "272 Kpps", format!("{three:.1} Kpps")),
        ("Table 2: 3 processes, batch 1", "227 Kpps", format!("{single:.1} Kpps")),
        (
            "section 4.1: batching improves the rate by",
            "approximately 16 %",
            format!("{:.1} %", (three - single) / three * 100.0),
        ),
        (
            "section 4.1: three processes against one",
            "7 % less",
            format!("{:.1} % less", (one - three) / one * 100.0),
        ),
    ];
    for (what, paper, ours) in fitted {
        of.given(what, paper, ours, Given::Fitted);
    }
    let ours = on_machines(|machine| overhead(machine, 2, 3 * LINE_PPS));
    of.rate("Table 2: 2 processes, batch 16", 286.0, ours, ROUNDING);
    let added = [(one - two) / one * 100.0, (two - three) / one * 100.0];
    let both = Estimate {
        value: f64::midpoint(added[0], added[1]),
        low: added[0].min(added[1]),
        high: added[0].max(added[1]),
    };
    of.judge(
        ("section 4.1: cost of each additional process (their sum is fitted)", "3 to 4 %"),
        ("both in 2.5 to 4.5 %, which round to 3 and 4", Allowed::Between(2.5, 4.5)),
        (
            format!("{:.1} and {:.1} %", added[0], added[1]),
            both,
            "Table 2's own rates: 2.7 and 4.8 %".to_owned(),
        ),
    );
    let batches = mean_batches();
    let all = Estimate {
        value: batches.iter().sum::<f64>() / 3.0,
        low: batches.iter().copied().fold(f64::MAX, f64::min),
        high: batches.iter().copied().fold(0.0, f64::max),
    };
    of.judge(
        ("section 4.1: packets in a batch at full load, by stage", "on the order of 10"),
        ("5 to 15, which round to 10", Allowed::Between(5.0, 15.0)),
        (
            format!("{:.1}, {:.1}, {:.1}", batches[0], batches[1], batches[2]),
            all,
            deviation(all, 10.0, EXACT),
        ),
    );
    let kept = curves.overhead[0].iter().take_while(|at| at.1 > 0.98 * at.0);
    let kept = kept.map(|at| at.0).fold(0.0, f64::max);
    let ours = format!("{kept:.0} Kpps");
    of.given("Fig 5: maximum rate without loss with interrupts", "48 Kpps", ours, Given::Fitted);
    let last = curves.overhead[0].last().map_or(f64::NAN, |at| at.1);
    let relative = Estimate::exact(last / most(0));
    of.judge(
        ("Fig 5: beyond that rate, with interrupts", "receive livelock"),
        ("the rate at full load is below its peak", Allowed::Below(1.0)),
        (
            format!("{last:.0} Kpps at 420 Kpps, peak {:.0} Kpps", most(0)),
            relative,
            deviation(relative, 1.0, EXACT),
        ),
    );
    let falls = (1..5).map(|router| {
        let line = &curves.overhead[router];
        most(router) - lowest(line.iter().filter(|at| at.0 >= most(router)))
    });
    let fall = falls.fold(0.0, f64::max);
    of.judge(
        ("Fig 5: with polling, the rate beyond its peak", "remains flat"),
        ("falls by at most 1 Kpps, the unit of Table 2's plateaus", Allowed::AtMost(1.0)),
        (
            format!("falls by at most {fall:.1} Kpps"),
            Estimate::exact(fall),
            interval(Estimate::exact(-fall), " Kpps", EXACT),
        ),
    );
    let [polled, interrupted] = [0, 1].map(|way| &curves.overload[way]);
    let peak = highest(polled);
    let least = lowest(polled.iter().filter(|at| at.0 >= peak)) / peak;
    let last = interrupted.last().map_or(f64::NAN, |at| at.1) / peak;
    for (what, relative) in [
        ("overload: with polling, rate up to 3 times the capacity", least),
        ("overload: with interrupts that cost no more than polling, at 3 times the capacity", last),
    ] {
        let relative = Estimate::exact(relative);
        of.judge(
            (what, "loads end at 1.5 times"),
            ("none: not in the paper", Allowed::Unstated),
            (
                format!("{:.0} % of the polled peak", 100.0 * relative.value),
                relative,
                deviation(relative, 1.0, EXACT),
            ),
        );
    }
    of.reason(
        "Table 2: 2 processes, batch 16",
        "the model has one cost of a handover, so both additional processes cost the same; by the \
         paper's rates the second costs 0.10 µs a packet and the third 0.18 µs",
    );
    of.reason(
        "section 4.1: packets in a batch",
        "all sources exceed the router's rate, so a batch always finds 16 packets; the paper's \
         analysis does not name its load",
    );
}

fn best_efforts(of: &mut Statements) {
    let rows = [("A", 8_000, 5, 101.0), ("B", 16_000, 10, 56.0), ("C", 24_000, 15, 38.0)];
    let rate = |cost_ns, share, throttled| {
        on_machines(|machine| best_effort(machine, cost_ns, share, throttled))
    };
    for (flow, cost_ns, ideal, paper) in rows {
        of.rate(
            &format!("Table 3: {flow}, balanced"),
            paper,
            rate(cost_ns, ideal, false),
            ROUNDING,
        );
        let without = if flow == "C" { 35.0 } else { paper };
        let ours = rate(cost_ns, 10, false);
        of.rate(&format!("Table 3: {flow}, 1:10 without throttle"), without, ours, ROUNDING);
        let ours = rate(cost_ns, 10, true);
        of.rate(&format!("Table 3: {flow}, 1:10 with throttle"), paper, ours, ROUNDING);
    }
    let gain = on_machines(|machine| {
        let [without, with] = [false, true].map(|on| best_effort(machine, 24_000, 10, on));
        with - without
    });
    of.judge(
        ("Table 3: C at 1:10: gain by the throttle", "3 Kpps; readjusts the rate of the input"),
        ("2 to 4 Kpps: 38 less 35, each ± 0.5 Kpps", Allowed::Between(2.0, 4.0)),
        (format!("{:.1} Kpps", gain.value), gain, interval(gain, " Kpps", ROUNDING)),
    );
    of.judge(
        ("Table 3: C at 1:10: order of with and without throttle", "more with throttle"),
        ("the gain is positive", Allowed::Above(0.0)),
        (format!("{:.1} Kpps more", gain.value), gain, interval(gain, " Kpps", ROUNDING)),
    );
    of.reason(
        "Table 3: C at 1:10 without throttle",
        "10/11 of the CPU at 24.1 µs a packet are 37.7 Kpps; the paper does not explain the \
         difference to 35",
    );
    let idle = |poll_ns, estimator| {
        move |machine: &PaperMachine| idle_ports(machine, poll_ns, estimator).0
    };
    let [without, with] = [false, true].map(|on| on_machines(idle(POLL_NS, on)));
    of.rate("section 4.2: two idle ports without estimator", 91.0, without, ROUNDING);
    of.rate("section 4.2: two idle ports with estimator", 130.0, with, ROUNDING);
    let gain = on_machines(|machine| idle(POLL_NS, true)(machine) / idle(POLL_NS, false)(machine));
    of.judge(
        ("section 4.2: two idle ports, rate with estimator relative to without", "130 / 91 = 1.43"),
        ("1.415 to 1.442: both rates ± 0.5 Kpps", Allowed::Between(129.5 / 91.5, 130.5 / 90.5)),
        (format!("{:.2}", gain.value), gain, deviation(gain, 130.0 / 91.0, ROUNDING)),
    );
    let wasted = on_machines(|machine| 100.0 * idle_ports(machine, POLL_NS, false).1);
    of.judge(
        ("section 4.2: CPU time of idle ports without estimator", "roughly a quarter"),
        ("25 % ± 10 % of it", Allowed::near(25.0, 10.0)),
        (format!("{:.1} %", wasted.value), wasted, deviation(wasted, 25.0, ROUNDING)),
    );
    let machine = PaperMachine::printed();
    let [cheap, dear] = [100, 1_000].map(|poll_ns| idle_ports(&machine, poll_ns, false).0);
    of.reason(
        "section 4.2: two idle ports",
        &format!(
            "a packet costs 7.84 µs here, with the overheads of Table 2; the paper's 130 Kpps are \
             7.69 µs. The assumed cost of an idle poll does not matter much: {cheap:.1} Kpps at \
             0.1 µs and {dear:.1} Kpps at 1 µs. Shares of 1.6 to 6.0 give two idle inputs 30 %, \
             which are the paper's 91 of 130 Kpps, not a quarter"
        ),
    );
}

#[allow(clippy::cast_precision_loss)]
fn mixes(of: &mut Statements, curves: &Curves) {
    let machine = PaperMachine::printed();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let worst = worst_of_reserved(&curves.mix, |machine, kpps| {
        mixed(machine, (kpps * 1e3).round() as u64, machine.forward_ns, Batching::Throttled)
    });
    of.rate_kept("Fig 6: lowest rate of B and C at any load of A", worst);
    let kept = (40..=60u64)
        .take_while(|kpps| {
            let a = mixed(&machine, kpps * 1_000, FORWARD_NS, Batching::Throttled)[0];
            a >= *kpps as f64 - EDGE_KPPS
        })
        .last()
        .unwrap_or_default() as f64;
    let kept = Estimate { value: kept, low: kept, high: kept + 1.0 };
    of.judge(
        ("Fig 6: load of A up to which none of its packets is dropped", "approximately 50 Kpps"),
        ("50 Kpps ± 10 %", Allowed::near(50.0, 10.0)),
        (format!("{:.0} Kpps", kept.value), kept, deviation(kept, 50.0, "1 Kpps steps")),
    );
    let at = |offered: u64| {
        on_machines(move |machine| {
            mixed(machine, offered, machine.forward_ns, Batching::Throttled)[0]
        })
    };
    let peak = highest(&curves.mix[0]);
    of.rate(
        "Fig 6: maximum rate of A, the remainder of port 2",
        50.0,
        Estimate::exact(peak),
        EXACT,
    );
    let most = at(LINE_PPS);
    of.rate(
        "Fig 6: rate of A when it offers 140 Kpps; port 2 stays saturated",
        50.0,
        most,
        ROUNDING,
    );
    of.reason(
        "Fig 6: rate of A at 140 Kpps",
        &format!(
            "A falls from {peak:.1} to {:.1} Kpps, and port 2 to {:.1}: the CPU is full. Reading \
             all 320 Kpps costs 1.8 µs each, and forwarding 230 of them 1.9 µs each: 1.01 s a \
             second. The input process of A reads every packet, since its share covers 140 Kpps",
            most.value,
            most.value + RESERVED_PPS as f64 / 1e3,
        ),
    );
}

/// Returns the lowest rate of B and C, Kpps, with its interval at that point of the curves.
///
/// `rates` returns the rates of A, B and C of a machine at a point's abscissa.
fn worst_of_reserved(lines: &[Points], rates: impl Fn(&PaperMachine, f64) -> Vec<f64>) -> Estimate {
    let points = (1..lines.len()).flat_map(|flow| lines[flow].iter().map(move |at| (flow, at)));
    let (flow, at) = points.min_by(|a, b| a.1.1.total_cmp(&b.1.1)).expect("a curve has points");
    on_machines(|machine| rates(machine, at.0)[flow])
}

/// Returns the rates at a cost of A's packets in Figures 7 to 9, µs.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn at_cost(batching: Batching) -> impl Fn(&PaperMachine, f64) -> Vec<f64> {
    move |machine, cost_us| mixed(machine, 50_000, (cost_us * 1e3).round() as u64, batching)
}

impl Statements {
    /// Judges whether B and C keep their reservation at their worst point.
    #[allow(clippy::cast_precision_loss)]
    fn rate_kept(&mut self, what: &str, worst: Estimate) {
        let reserved = RESERVED_PPS as f64 / 1e3;
        self.judge(
            (what, "their 90 Kpps"),
            ("at least 89.5 Kpps, which round to 90", Allowed::AtLeast(reserved - HALF_KPPS)),
            (format!("{:.1} Kpps", worst.value), worst, deviation(worst, reserved, ROUNDING)),
        );
    }
}

#[allow(clippy::cast_precision_loss)]
fn processor_bound(of: &mut Statements, curves: &Curves) {
    let reserved = RESERVED_PPS as f64 / 1e3;
    let [simple, none, throttled] = [Batching::Simple, Batching::None, Batching::Throttled]
        .map(|batching| &curves.costs[batching as usize]);
    let lost = worst_of_reserved(simple, at_cost(Batching::Simple));
    of.judge(
        (
            "Fig 7: simple batching: lowest rate of B and C as A's cost grows",
            "become idle at times",
        ),
        ("less than 89.5 Kpps; the text has no number", Allowed::Below(reserved - HALF_KPPS)),
        (format!("{:.1} Kpps", lost.value), lost, deviation(lost, reserved, ROUNDING)),
    );
    let worst = worst_of_reserved(none, at_cost(Batching::None));
    of.rate_kept("Fig 8: no batching: lowest rate of B and C", worst);
    let (cheap, dear) = (none[0][0].1, none[0].last().map_or(f64::NAN, |at| at.1));
    let fall = Estimate::exact(dear / cheap);
    of.judge(
        ("Fig 8: no batching: rate of A at 30 µs relative to 0.3 µs", "decreases"),
        ("less than 1; the text has no number", Allowed::Below(1.0)),
        (format!("{:.2}", fall.value), fall, deviation(fall, 1.0, EXACT)),
    );
    let worst = worst_of_reserved(throttled, at_cost(Batching::Throttled));
    of.rate_kept("Fig 9: batches of 30 µs: lowest rate of B and C", worst);
    let sum = |lines: &[Points], at: usize| lines.iter().map(|line| line[at].1).sum::<f64>();
    of.reason(
        "Figs 6 and 9: lowest rate of B and C",
        "reservations follow the printed costs; on the machine with the dearest input process they \
         do not cover its cost, and B and C depend on unused shares",
    );
    let more: Vec<f64> = (0..none[0].len()).map(|at| sum(throttled, at) / sum(none, at)).collect();
    let more = Estimate {
        value: more.iter().sum::<f64>() / more.len() as f64,
        low: more.iter().copied().fold(f64::MAX, f64::min),
        high: more.iter().copied().fold(0.0, f64::max),
    };
    of.judge(
        ("Fig 9: total rate relative to Fig 8, at every cost of A", "higher"),
        ("above 1 at every cost; the text has no number", Allowed::Above(1.0)),
        (
            format!("{:.3} to {:.3}", more.low, more.high),
            more,
            deviation(more, 1.0, "range of 19 costs"),
        ),
    );
    // The router is link-bound up to the last cost at which A loses nothing.
    let bound = throttled[0].iter().take_while(|at| at.1 >= 50.0 - EDGE_KPPS).count();
    let [last, next] = [bound.saturating_sub(1), bound].map(|at| throttled[0][at].0);
    let knee = Estimate { value: last, low: last, high: next };
    of.judge(
        ("Figs 7 to 9: cost of A's packets from which the router is CPU-bound", "just before 5 µs"),
        ("4.5 to 5 µs: 10 % below 5", Allowed::Between(4.5, 5.0)),
        (
            format!("between {last:.1} and {next:.1} µs"),
            knee,
            deviation(knee, 5.0, "steps of the figure"),
        ),
    );
    of.reason(
        "Figs 7 to 9: cost from which the router is CPU-bound",
        "230 Kpps at 3.3 µs leave 4.8 µs for A's packets, at the 3.68 µs of Table 2 about 3.4 µs: \
         the paper's two figures contradict each other; the model has Table 2's costs",
    );
}

/// The paper's rates of section 4.5, Kpps: cost of the reserved flow's packets, one link or two,
/// length of the output queue, rates of the reserved flow and of best effort.
const DATA: [(bool, bool, u32, [f64; 2]); 5] = [
    (false, false, 128, [50.0, 127.0]),
    (true, false, 128, [50.0, 120.0]),
    (false, true, 128, [50.0, 90.0]),
    (true, true, 128, [50.0, 90.0]),
    (true, true, 1, [30.0, 110.0]),
];

fn data(of: &mut Statements) {
    let cases = DATA.map(|(varying, one_link, queue, paper)| {
        let cost = if varying { "4 to 12 µs" } else { "8 µs" };
        let links = if one_link { "one link" } else { "two links" };
        let runs = over_seeds(|seed| data_dependent(seed, varying, one_link, queue));
        let case = format!("section 4.5: {cost} a packet, {links}, output queue of {queue}");
        (case, paper, runs)
    });
    for (case, paper, runs) in &cases {
        for (flow, name) in ["reserved flow", "best effort"].into_iter().enumerate() {
            let ours = mean(&runs.clone().map(|rates| rates[flow]));
            of.rate(&format!("{case}: {name}"), paper[flow], ours, SEEDS);
        }
    }
    let mut loss = |what: &str, (one, other): (usize, usize), flow: usize| {
        let [before, after] = [one, other].map(|case| &cases[case]);
        let paper = before.1[flow] - after.1[flow];
        let mut losses = [0.0; RUNS];
        for (loss, (before, after)) in losses.iter_mut().zip(before.2.iter().zip(&after.2)) {
            *loss = before[flow] - after[flow];
        }
        let ours = mean(&losses);
        of.judge(
            (what, &format!("{paper:.0} Kpps")),
            ("± 1 Kpps: two printed rates ± 0.5", Allowed::Between(paper - 1.0, paper + 1.0)),
            (
                format!("{:.1} Kpps", ours.value),
                ours,
                interval(ours, " Kpps", "10 seeds, paired, t 95 %"),
            ),
        );
    };
    loss("section 4.5: best effort's loss by varying costs of the reserved flow", (0, 1), 1);
    loss("section 4.5: one link: the reserved flow's loss by an output queue of 1", (3, 4), 0);
    of.reason(
        "section 4.5: best effort beside 8 µs, and beside 4 to 12 µs",
        "50 Kpps at 11.4 µs leave 43 % of the CPU, 117 Kpps at Table 2's costs. Equal means are \
         equal work: WF²Q+ charges the time used, and no time is lost",
    );
    of.reason(
        "section 4.5: one link, output queue of 1",
        "the reserved flow catches up after an expensive packet, since its cycles are reserved; \
         best effort pays for the single queue slot",
    );
}

/// Returns the highest rate of a curve.
pub(super) fn highest(line: &Points) -> f64 {
    line.iter().map(|at| at.1).fold(0.0, f64::max)
}

/// Returns the lowest rate of points.
pub(super) fn lowest<'a>(line: impl IntoIterator<Item = &'a (f64, f64)>) -> f64 {
    line.into_iter().map(|at| at.1).fold(f64::MAX, f64::min)
}
