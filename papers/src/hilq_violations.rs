//! HILQ paper, Figure 9: violated windows against utilisation.
//!
//! 200 streams of random windows send one packet per period. A window is y consecutive packets of a
//! stream; it is violated if more than x of them are not sent before their deadlines. Every
//! scheduler receives the same packets. Violations are counted from its departures, not its own
//! counters.

use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{
    Contract, Departure, DwcsOptions, Event, Heap, Late, Observer, Packet, Scheduler, StreamId,
    Window, ZeroWindow,
};
use millstream_report::chart::Line;
use std::fmt::Write as _;

use crate::claim::{Claim, Evidence};
use crate::experiment::{Page, figure};
use crate::hilq_order::{ContractTerms, SlotOrder};

const STREAMS: usize = 200;
/// Packets of the stream with the longest period.
const PERIODS: u64 = 300;
const MS: u64 = 1_000_000;
/// Transmission time of a packet where all periods are equal, ns.
const PACKET_NS: u32 = 200_000;

/// The scheduler under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchedulerKind {
    /// DWCS on a heap.
    Heap(ZeroWindow),
    /// DWCS with HILQ's order among zero window-constraints.
    SlotOrder,
    Hilq,
    /// HILQ; a stream's next packet arrives in the millisecond of its last deadline, not after it.
    HilqStale,
}

/// The schedulers under test, in the order of the figures' lines.
const SCHEDULERS: [(SchedulerKind, &str); 5] = [
    (SchedulerKind::Heap(ZeroWindow::HighestDenominator), "heap, highest y' first at x' = 0"),
    (SchedulerKind::Heap(ZeroWindow::LowestDenominator), "heap, lowest y' first (the paper's)"),
    (SchedulerKind::SlotOrder, "heap, first come at x' = 0"),
    (SchedulerKind::Hilq, "HILQ"),
    (SchedulerKind::HilqStale, "HILQ, slots one miss old"),
];

/// The offered traffic.
struct Load {
    windows: Vec<(u32, u32)>,
    periods_ms: Vec<u64>,
    packet_ns: u32,
}

impl Load {
    /// Returns Σ (1 − x/y)/T, 1/s.
    #[allow(clippy::cast_precision_loss)]
    fn needed(&self) -> f64 {
        let share = |(x, y): &(u32, u32)| 1.0 - f64::from(*x) / f64::from(*y);
        let streams = self.windows.iter().zip(&self.periods_ms);
        streams.map(|(window, period)| share(window) * 1000.0 / *period as f64).sum()
    }

    /// Returns U = Σ (1 − x/y)·C/T.
    fn utilisation(&self) -> f64 {
        self.needed() * f64::from(self.packet_ns) / 1e9
    }
}

/// Returns a reproducible generator of random numbers below a bound.
pub(crate) fn random(mut state: u64) -> impl FnMut(u32) -> u32 {
    move |end| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        u32::try_from((state >> 33) % u64::from(end)).unwrap_or(0)
    }
}

/// Returns random windows of 0.2 to 0.8, x up to 19 and y up to 29.
pub(crate) fn windows(streams: usize, below: &mut impl FnMut(u32) -> u32) -> Vec<(u32, u32)> {
    let mut windows = Vec::with_capacity(streams);
    while windows.len() < streams {
        let (x, y) = (below(20), 1 + below(29));
        if 5 * x >= y && 5 * x <= 4 * y {
            windows.push((x, y));
        }
    }
    windows
}

/// Returns loads of decreasing utilisation.
///
/// Equal periods are multiples of the packet time, as the guarantee requires; mixed periods are 10
/// to 40 ms.
fn loads(equal: bool) -> Vec<Load> {
    let mut below = random(1);
    let windows = windows(STREAMS, &mut below);
    let mixed: Vec<u64> = (0..STREAMS).map(|_| [10, 20, 30, 40][below(4) as usize]).collect();
    let load = |periods_ms: u64| {
        let equal_periods = vec![periods_ms; STREAMS];
        let mut load =
            Load { windows: windows.clone(), periods_ms: equal_periods, packet_ns: PACKET_NS };
        if !equal {
            let utilisation = load.utilisation();
            load.periods_ms.clone_from(&mixed);
            // It is below a millisecond, since the streams need about 100 packets per period.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let packet_ns = (utilisation / load.needed() * 1e9).round() as u32;
            load.packet_ns = packet_ns;
        }
        load
    };
    (13..=33).map(load).collect()
}

/// The packets of each stream that were not sent before their deadlines.
struct Log(Vec<Vec<bool>>);

impl Log {
    fn record(&mut self, departure: &Departure) {
        let in_time = departure.deadline_ns.is_some_and(|at_ns| departure.time_ns < at_ns);
        let packet = usize::try_from(departure.packet).unwrap_or(usize::MAX);
        let lost = departure.event != Event::Sent || !in_time;
        self.0[departure.stream.index()][packet] = lost;
    }

    /// Returns the share of violated windows, %.
    #[allow(clippy::cast_precision_loss)]
    fn violated(&self, windows: &[(u32, u32)]) -> f64 {
        let (mut violated, mut all) = (0u32, 0u32);
        for (lost, (x, y)) in self.0.iter().zip(windows) {
            for window in lost.chunks_exact(*y as usize) {
                all += 1;
                let lost = window.iter().filter(|lost| **lost).count();
                violated += u32::from(lost > *x as usize);
            }
        }
        100.0 * f64::from(violated) / f64::from(all)
    }
}

impl Observer for Log {
    fn dropped(&mut self, departure: &Departure) {
        self.record(departure);
    }
}

/// Returns a scheduler with the streams of `load`.
///
/// A deadline is the last nanosecond of a millisecond, so that millisecond resolution loses
/// nothing.
fn scheduler(load: &Load, kind: SchedulerKind) -> Box<dyn DynScheduler + Send> {
    let stale = kind == SchedulerKind::HilqStale;
    let terms = |((lost, of), period_ms): (&(u32, u32), &u64)| ContractTerms {
        lost: *lost,
        of: *of,
        period_ns: period_ms * MS - u64::from(!stale),
        first_deadline_ns: period_ms * MS - 1,
    };
    let terms: Vec<ContractTerms> = load.windows.iter().zip(&load.periods_ms).map(terms).collect();
    let row = DisciplineRow::parse("dwcs").expect("in the catalogue");
    let mut scheduler: Box<dyn DynScheduler + Send> = match kind {
        SchedulerKind::Heap(zero_window) => {
            let dwcs = DwcsOptions { zero_window, ..DwcsOptions::default() };
            row.build(&Options { dwcs, ..Options::default() }, StructureName::Heap)
        }
        SchedulerKind::SlotOrder => {
            Box::new(Scheduler::new(SlotOrder::new(terms.clone()), Heap::default()))
        }
        SchedulerKind::Hilq | SchedulerKind::HilqStale => {
            row.build(&Options::default(), StructureName::Hilq)
        }
    };
    for ContractTerms { lost, of, period_ns, first_deadline_ns } in terms {
        let contract = Contract::new()
            .window(Window::new(lost, of).expect("x at most y"))
            .first_deadline_ns(first_deadline_ns)
            .late(Late::Drop)
            .period_ns(period_ns)
            .expect("positive");
        scheduler.add_stream(contract).expect("complete");
    }
    scheduler
}

/// Runs `load` and returns the share of violated windows, %.
fn violated(load: &Load, kind: SchedulerKind) -> f64 {
    let mut scheduler = scheduler(load, kind);
    let early_ns = u64::from(kind == SchedulerKind::HilqStale);
    let until_ms = PERIODS * load.periods_ms.iter().copied().max().unwrap_or(0);
    let sent = |period: &u64| usize::try_from(until_ms.div_ceil(*period)).unwrap_or(0);
    let mut log = Log(load.periods_ms.iter().map(|period| vec![true; sent(period)]).collect());
    let (mut now_ns, mut next_ms) = (0, 0);
    while next_ms < until_ms || scheduler.total_waiting() > 0 {
        let arrival_ns = |ms: u64| (ms * MS).saturating_sub(early_ns);
        while next_ms < until_ms && arrival_ns(next_ms) <= now_ns {
            for (stream, period) in (0..).map(StreamId).zip(&load.periods_ms) {
                if next_ms % period == 0 {
                    // The log counts packets as lost until they are sent, also rejected ones.
                    let _ =
                        scheduler.enqueue(arrival_ns(next_ms), stream, Packet::new(load.packet_ns));
                }
            }
            next_ms += 1;
        }
        match scheduler.decide(now_ns, &mut log) {
            Some(sent) => {
                log.record(&sent);
                now_ns += u64::from(load.packet_ns);
            }
            None => now_ns = now_ns.max(next_ms * MS),
        }
    }
    log.violated(&load.windows)
}

/// Returns the share of violated windows by utilisation, for every scheduler.
fn curves(equal: bool) -> Vec<Line> {
    let loads = loads(equal);
    let curve = |(kind, name): &(SchedulerKind, &str)| {
        let point = |load: &Load| (load.utilisation(), violated(load, *kind));
        Line { name: (*name).to_owned(), points: loads.iter().map(point).collect() }
    };
    SCHEDULERS.iter().map(curve).collect()
}

/// Returns the largest excess of line `a` over line `b`, and their largest difference, for
/// U ≥ 0.8.
fn above(lines: &[Line], a: usize, b: usize) -> (f64, f64) {
    let points = lines[a].points.iter().zip(&lines[b].points).filter(|(a, _)| a.0 >= 0.8);
    let differences = points.map(|(a, b)| a.1 - b.1);
    differences.fold((f64::MIN, 0.0), |(above, apart), difference| {
        (above.max(difference), apart.max(difference.abs()))
    })
}

/// Returns Figure 9 with equal and with mixed periods, and the paper's statements.
pub(crate) fn page() -> miette::Result<Page> {
    let (mut files, mut claims) = (Vec::new(), Vec::new());
    let mut text = String::from(
        "# HILQ, Figure 9: violated windows\n\n\
         200 streams, x/y random in 0.2 to 0.8 (x 0 to 19, y 1 to 29), a packet a period each; \
         U = Σ (1 − x/y)·C/T. A window is y consecutive packets of a stream; it is violated if \
         more than x of them are not sent before their deadlines. Numbers are shares of all \
         windows, from the departures. Deadlines are ends of milliseconds. `make figures` writes \
         this page.\n",
    );
    for (equal, name) in [(true, "equal"), (false, "mixed")] {
        let lines = curves(equal);
        let title = format!("Fig 9: violated windows, {name} periods");
        let axes = (("utilisation U", false), ("violated windows (%)", false));
        files.push((format!("fig9-{name}.svg"), figure(&title, axes.0, axes.1, &lines)?));
        if equal {
            claims.push(none_below_one(&lines));
        }
        let (more, _) = above(&lines, 3, 0);
        claims.push(Claim::exactly(
            format!("Fig 9, {name} periods: HILQ's violated windows beyond the heap's, U from 0.8"),
            "no more than the heap",
            format!("at most {more:+.2} % of windows"),
            Evidence::Simulated,
            more <= 0.0,
        ));
        let (_, apart) = above(&lines, 3, 2);
        claims.push(Claim::exactly(
            format!("Fig 9, {name} periods: HILQ against DWCS with its order at x' = 0"),
            "no loss in accuracy",
            format!("within {apart:.2} % of windows"),
            Evidence::Simulated,
            apart <= 1.0,
        ));
        table(&mut text, name, &lines);
    }
    text += "\nHILQ follows the exact order of its slots (FIFO at x' = 0) within a fraction of a \
             percent: the resolution of a millisecond and the rounding of x'/y' cost almost \
             nothing (for all schedulers, packets that arrive together are in the order of the \
             streams). HILQ differs from DWCS in the order among streams that tolerate no further \
             loss, which decides everything for U above 1. With the highest y' first, DWCS spreads \
             the losses until hardly any window is kept. With the lowest y' first, as in the HILQ \
             paper, streams that fell behind stay behind and the others keep their windows. HILQ \
             is in between: it has fewer violations than the former, more than the latter.\n\n\
             A stream's next packet may arrive in the millisecond of its last deadline, for \
             example if deadlines are whole periods after arrivals. Its slot is then chosen before \
             the miss: the last line. Just above U = 1 HILQ then violates more windows than \
             DWCS.\n\n\
             ![equal periods](fig9-equal.svg)\n\n![mixed periods](fig9-mixed.svg)\n";
    files.push(("fig9.md".to_owned(), text));
    Ok(Page { files, claims })
}

fn none_below_one(lines: &[Line]) -> Claim {
    let below = |line: &Line| {
        let points = line.points.iter().filter(|point| point.0 < 1.0);
        points.map(|point| point.1).fold(0.0, f64::max)
    };
    let worst = lines.iter().map(below).fold(0.0, f64::max);
    Claim::exactly(
        "Fig 9, equal periods: violated windows below U = 1, heaps and HILQ",
        "none",
        format!("{worst:.2} %"),
        Evidence::Simulated,
        worst == 0.0,
    )
}

fn table(text: &mut String, name: &str, lines: &[Line]) {
    let heads: String = lines.iter().map(|line| format!(" {} |", line.name)).collect();
    let _ = writeln!(
        text,
        "\n## {name} periods\n\n| U |{heads}\n|---:|{}",
        "---:|".repeat(lines.len())
    );
    for at in 0..lines[0].points.len() {
        let _ = write!(text, "| {:.2} |", lines[0].points[at].0);
        lines.iter().for_each(|line| {
            let _ = write!(text, " {:.2} |", line.points[at].1);
        });
        text.push('\n');
    }
}
