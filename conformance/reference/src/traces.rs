//! The scenarios of the conformance traces, overloaded so that every rule has an effect.
//!
//! At less than one packet per packet-time, packets do not compete and tie-breaks have no effect.
//! Packets therefore arrive at more than the link's rate, on a coarse time grid that makes ties
//! common.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::fmt::Write as _;

use crate::combinations;
use crate::model::{Arrival, Discipline, Outcome, Row, Spec, StreamSpec};

/// One conformance trace before it is run.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The name of its directory.
    pub name: String,
    /// Its scenario.
    pub spec: Spec,
    /// Its arrivals.
    pub arrivals: Vec<Arrival>,
}

/// The transmission time of a packet of 125 bytes at 1 Gbit/s, ns.
pub(crate) const SLOT_NS: u64 = 1000;

const fn dwcs(loss_first: bool, rtas99: bool, lowest_denominator: bool) -> Discipline {
    Discipline::Dwcs { loss_first, rtas99, lowest_denominator }
}

/// Lengths and times of a trace's arrivals.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// The seed of times, streams and lengths.
    pub(crate) seed: u64,
    /// Number of arrivals.
    pub(crate) packets: u64,
    /// Mean number of packets per slot, in hundredths.
    pub(crate) per_hundred_slots: u64,
    /// Lengths, all with equal probability.
    pub(crate) lengths: &'static [u32],
}

const UNIT: &[u32] = &[125];
pub(crate) const MIXED: &[u32] = &[40, 125, 333, 701, 1500];
const EXTREME: &[u32] = &[0, 1, 125, 125, 125, 65_535];

pub(crate) fn arrivals(streams: usize, load: Load) -> Vec<Arrival> {
    let mut random = ChaCha8Rng::seed_from_u64(load.seed);
    let mut below = |bound: u64| random.next_u64() % bound;
    let span = load.packets * 100 / load.per_hundred_slots;
    let mut times: Vec<u64> = (0..load.packets).map(|_| below(span.max(1)) * SLOT_NS).collect();
    times.sort_unstable();
    let arrival = |time_ns| Arrival {
        time_ns,
        stream: u32::try_from(below(streams as u64)).unwrap_or(0),
        bytes: load.lengths[usize::try_from(below(load.lengths.len() as u64)).unwrap_or(0)],
    };
    times.into_iter().map(arrival).collect()
}

/// Returns streams with these window-constraints; the request periods repeat in order.
pub(crate) fn windows(period_slots: &[u64], windows: &[(u32, u32)]) -> Vec<StreamSpec> {
    let period = |at: usize| period_slots[at % period_slots.len()] * SLOT_NS;
    windows.iter().enumerate().map(|(at, window)| StreamSpec::new(period(at), *window)).collect()
}

fn dropping(mut streams: Vec<StreamSpec>) -> Vec<StreamSpec> {
    streams.iter_mut().for_each(|stream| stream.drop_late = true);
    streams
}

/// Returns every trace.
#[must_use]
pub fn all() -> Vec<Trace> {
    const TIGHT: &[(u32, u32)] = &[(1, 2), (2, 4), (0, 3), (0, 2), (3, 3), (2, 3)];
    let load = |seed, packets, per_hundred_slots, lengths| Load {
        seed,
        packets,
        per_hundred_slots,
        lengths,
    };
    let standard = dwcs(false, false, false);
    let mut priorities = windows(&[0], &[(0, 0); 5]);
    for (stream, priority) in priorities.iter_mut().zip([2, 0, 1, 1, 0]) {
        stream.priority = priority;
    }
    let mut queues = windows(&[4], TIGHT);
    for (stream, limit) in queues.iter_mut().zip([0, 1, 2, 3, 5, 8]) {
        stream.queue = Some(limit);
    }
    let mut fifo_queues = queues.clone();
    fifo_queues.iter_mut().for_each(|stream| stream.period_ns = 0);
    let mut first_deadlines = windows(&[6], TIGHT);
    for (stream, slots) in first_deadlines.iter_mut().zip([1, 9, 3, 30, 2, 12]) {
        stream.first_deadline_ns = Some(slots * SLOT_NS);
    }
    let mut edf_mixed = windows(&[3, 5, 9, 4], &[(0, 0); 4]);
    edf_mixed[1].drop_late = true;
    edf_mixed[3].drop_late = true;
    let mut limited_priorities = priorities.clone();
    for (stream, limit) in limited_priorities.iter_mut().zip([3, 2, 4, 4, 1]) {
        stream.queue = Some(limit);
    }
    let mut edf_late = windows(&[6, 9, 8, 5], &[(0, 0); 4]);
    edf_late[0].first_deadline_ns = Some(90 * SLOT_NS);
    edf_late[2].first_deadline_ns = Some(SLOT_NS);
    edf_late[2].drop_late = true;
    edf_late[3].queue = Some(4);
    let mut mixed_late = windows(&[3, 3, 4], TIGHT);
    mixed_late[0].drop_late = true;
    mixed_late[3].drop_late = true;
    let mut traces = vec![
        Trace::new(
            "fifo",
            Discipline::Fifo,
            0,
            windows(&[0], &[(0, 0); 4]),
            load(1, 80, 150, MIXED),
        ),
        Trace::new(
            "fifo-queue-limits",
            Discipline::Fifo,
            20,
            fifo_queues,
            load(2, 160, 180, MIXED),
        ),
        Trace::new(
            "static-priority",
            Discipline::StaticPriority,
            0,
            priorities,
            load(3, 100, 150, UNIT),
        ),
        Trace::new(
            "edf-send",
            Discipline::Edf,
            0,
            windows(&[3, 5, 9, 4], &[(0, 0); 4]),
            load(4, 120, 120, UNIT),
        ),
        Trace::new(
            "static-priority-mixed",
            Discipline::StaticPriority,
            18,
            limited_priorities,
            load(20, 120, 45, MIXED),
        ),
        Trace::new(
            "lqf",
            Discipline::Lqf,
            18,
            windows(&[0], &[(0, 0); 5]),
            load(22, 120, 45, MIXED),
        ),
        Trace::new(
            "las",
            Discipline::Las,
            18,
            windows(&[0], &[(0, 0); 5]),
            load(23, 120, 24, MIXED),
        ),
        Trace::new("edf-late", Discipline::Edf, 24, edf_late, load(21, 160, 40, MIXED)),
        Trace::new("edf-drop", Discipline::Edf, 24, edf_mixed, load(5, 120, 130, MIXED)),
        Trace::new(
            "dwcs-equal-periods",
            standard,
            0,
            windows(&[4], TIGHT),
            load(6, 250, 130, UNIT),
        ),
        Trace::new(
            "dwcs-different-periods",
            standard,
            0,
            windows(&[2, 3, 7], TIGHT),
            load(7, 250, 120, UNIT),
        ),
        Trace::new(
            "dwcs-mixed-lengths",
            standard,
            24,
            windows(&[5], TIGHT),
            load(8, 200, 60, MIXED),
        ),
        Trace::new(
            "dwcs-extreme-lengths",
            standard,
            0,
            windows(&[500], TIGHT),
            load(9, 60, 100, EXTREME),
        ),
        Trace::new(
            "dwcs-drop",
            standard,
            0,
            dropping(windows(&[3], TIGHT)),
            load(10, 250, 140, UNIT),
        ),
        Trace::new("dwcs-mixed-late", standard, 0, mixed_late, load(11, 250, 130, UNIT)),
        Trace::new("dwcs-queue-limits", standard, 0, queues, load(12, 250, 140, UNIT)),
        Trace::new("dwcs-first-deadlines", standard, 0, first_deadlines, load(13, 120, 130, UNIT)),
        Trace::new(
            "dwcs-windowless",
            standard,
            0,
            windows(&[2, 2, 3], &[(0, 0), (1, 2), (0, 0), (0, 1)]),
            load(14, 150, 130, UNIT),
        ),
        Trace::new(
            "dwcs-lowest-denominator",
            dwcs(false, false, true),
            0,
            windows(&[4], TIGHT),
            load(15, 250, 130, UNIT),
        ),
        Trace::new(
            "dwcs-rtas99",
            dwcs(false, true, false),
            0,
            windows(&[4], TIGHT),
            load(16, 250, 120, UNIT),
        ),
        Trace::new(
            "dwcs-loss-first",
            dwcs(true, false, false),
            0,
            windows(&[4], TIGHT),
            load(17, 250, 120, UNIT),
        ),
        Trace::new(
            "dwcs-loss-first-drop",
            dwcs(true, false, false),
            0,
            dropping(windows(&[3, 4], TIGHT)),
            load(18, 250, 130, UNIT),
        ),
        Trace::new(
            "dwcs-loss-first-rtas99-lowest",
            dwcs(true, true, true),
            0,
            windows(&[3, 5], TIGHT),
            load(19, 250, 110, UNIT),
        ),
    ];
    // No transmission time is a whole number of ns, so rounding has an effect.
    for trace in traces.iter_mut().filter(|trace| trace.name.ends_with("mixed-lengths")) {
        trace.spec.rate_bps = 999_999_937;
    }
    traces.extend(combinations::all());
    traces
}

impl Trace {
    /// Returns a trace on a link of 1 Gbit/s.
    pub(crate) fn new(
        name: &str,
        discipline: Discipline,
        overhead: i32,
        streams: Vec<StreamSpec>,
        load: Load,
    ) -> Self {
        let arrivals = arrivals(streams.len(), load);
        let spec = Spec { discipline, rate_bps: 1_000_000_000, overhead: overhead.into(), streams };
        Self { name: name.to_owned(), spec, arrivals }
    }

    /// Returns the name of a stream in the files.
    #[must_use]
    pub fn stream_name(stream: u32) -> String {
        format!("s{stream}")
    }

    /// Returns the scenario file.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut text = String::new();
        let mut line = |text_line: String| {
            let _ = writeln!(text, "{text_line}");
        };
        line(format!("[scenario]\nname = \"{}\"\n", self.name));
        line(format!("[link]\nrate = \"{} bps\"", self.spec.rate_bps));
        line(format!("{}\n\n[scheduler]", self.spec.overhead));
        line(format!("discipline = \"{}\"", self.spec.discipline.name()));
        if let Discipline::Dwcs { loss_first, rtas99, lowest_denominator } = self.spec.discipline {
            let pick = |second, words: [&'static str; 2]| words[usize::from(second)];
            line(format!("order = \"{}\"", pick(loss_first, ["edf-first", "loss-first"])));
            line(format!("rules = \"{}\"", pick(rtas99, ["standard", "rtas99"])));
            let words = ["highest-denominator", "lowest-denominator"];
            line(format!("zero-window = \"{}\"", pick(lowest_denominator, words)));
        }
        for (at, stream) in (0..).zip(&self.spec.streams) {
            line(format!("\n[[stream]]\nname = \"{}\"", Self::stream_name(at)));
            if stream.period_ns > 0 {
                line(format!("period = \"{} ns\"", stream.period_ns));
                line(format!("window = \"{}/{}\"", stream.window.0, stream.window.1));
            }
            if let Some(deadline_ns) = stream.first_deadline_ns {
                line(format!("first-deadline = \"{deadline_ns} ns\""));
            }
            if stream.drop_late {
                line("late = \"drop\"".into());
            }
            if self.spec.discipline == Discipline::StaticPriority {
                line(format!("priority = {}", stream.priority));
            }
            if let Some(limit) = stream.queue {
                line(format!("queue = {limit}"));
            }
            line("source = { kind = \"trace\", file = \"arrivals.csv\" }".into());
        }
        text
    }

    /// Returns the arrivals CSV.
    #[must_use]
    pub fn arrivals_csv(&self) -> String {
        csv(&self.arrivals)
    }
}

/// Returns the arrivals CSV of `arrivals`.
pub(crate) fn csv(arrivals: &[Arrival]) -> String {
    let mut text = String::from("time_ns,stream,bytes\n");
    for arrival in arrivals {
        let name = Trace::stream_name(arrival.stream);
        let _ = writeln!(text, "{},{name},{}", arrival.time_ns, arrival.bytes);
    }
    text
}

/// Returns the departures CSV of `outcome`.
#[must_use]
pub fn departures_csv(outcome: &Outcome) -> String {
    rows_csv(&outcome.rows)
}

/// Returns the departures CSV of `rows`.
pub(crate) fn rows_csv(rows: &[Row]) -> String {
    let mut text = String::from("time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n");
    for row in rows {
        let deadline = row.deadline_ns.map_or(String::new(), |deadline_ns| deadline_ns.to_string());
        let _ = writeln!(
            text,
            "{},{},{},{},{},{deadline},{}",
            row.time_ns,
            Trace::stream_name(row.stream),
            row.packet,
            row.bytes,
            row.arrival_ns,
            row.event
        );
    }
    text
}
