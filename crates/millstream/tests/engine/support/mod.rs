//! A minimal simulated link that drives the engine, and scenarios for it.

pub mod duel;
pub mod fair;

use duel::Choose;
use millstream::catalogue::{DisciplineRow, DwcsOrder, DynScheduler, Options, StructureName};
use millstream::{
    Contract, Departure, DwcsOptions, Late, Link, Observer, Packet, Rules, StreamId, Window,
    ZeroWindow,
};
use millstream_reference::{
    Arrival, Discipline, Framing, Outcome, Overhead, Row, Spec, StreamSpec,
};
use proptest::prelude::*;

/// Returns the number of random cases of a long test: `cases`, times `MILLSTREAM_SCALE` if that is
/// set, as `make soak` does.
pub fn scaled(cases: u32) -> u32 {
    let scale = std::env::var("MILLSTREAM_SCALE");
    cases.saturating_mul(scale.map_or(1, |scale| scale.parse().expect("a number")))
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Choose for Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Collects events in the reference's representation.
#[derive(Default)]
pub struct Collector {
    pub outcome: Outcome,
}

impl Collector {
    pub fn new(streams: usize) -> Self {
        let zeros = || vec![0; streams];
        let outcome = Outcome { missed: zeros(), violations: zeros(), ..Outcome::default() };
        Self { outcome }
    }

    pub fn row(&mut self, departure: &Departure) {
        self.outcome.rows.push(Row {
            time_ns: departure.time_ns,
            stream: departure.stream.0,
            packet: departure.packet,
            bytes: departure.bytes,
            arrival_ns: departure.arrival_ns,
            deadline_ns: departure.deadline_ns,
            event: departure.event.name(),
        });
    }
}

impl Observer for Collector {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.outcome.missed[stream.index()] += missed;
        self.outcome.violations[stream.index()] += violations;
    }

    fn dropped(&mut self, departure: &Departure) {
        self.row(departure);
    }
}

/// Returns the contract of a stream of the reference.
pub fn contract(spec: &StreamSpec) -> Contract {
    let window = Window::new(spec.window.0, spec.window.1).unwrap();
    let mut contract = Contract::new().window(window).priority(spec.priority);
    if spec.period_ns > 0 {
        contract = contract.period_ns(spec.period_ns).unwrap();
    }
    if let Some(deadline_ns) = spec.first_deadline_ns {
        contract = contract.first_deadline_ns(deadline_ns);
    }
    if let Some(limit) = spec.queue {
        contract = contract.queue(limit);
    }
    contract.late(if spec.drop_late { Late::Drop } else { Late::Send })
}

/// Runs the engine on `structure`; the outcome has no decisions.
pub fn run_engine(spec: &Spec, arrivals: &[Arrival], structure: StructureName) -> Outcome {
    let (name, options) = settings(spec);
    run_named(name, &options, spec, arrivals, structure)
}

/// Returns the link of `spec`.
pub fn link(spec: &Spec) -> Link {
    engine_link(spec.rate_bps, spec.overhead)
}

/// Returns the engine's link of this rate, bits/s, and overhead.
pub fn engine_link(rate_bps: u64, overhead: Overhead) -> Link {
    Link::new(rate_bps, overhead.bytes).framed(match overhead.framing {
        Framing::None => millstream::Framing::None,
        Framing::Atm => millstream::Framing::Atm,
        Framing::Ptm => millstream::Framing::Ptm,
    })
}

/// Generates overheads: mostly of a constant, some with framing, some negative.
pub fn overheads(bytes: impl Strategy<Value = i32>) -> impl Strategy<Value = Overhead> {
    let framing =
        prop_oneof![3 => Just(Framing::None), 2 => Just(Framing::Atm), 1 => Just(Framing::Ptm)];
    (prop_oneof![4 => bytes, 1 => -70..0], framing)
        .prop_map(|(bytes, framing)| Overhead { bytes, framing })
}

/// Returns the discipline of `spec` and its settings.
pub fn settings(spec: &Spec) -> (&'static str, Options) {
    let link = link(spec);
    let options = Options { link, ..Options::default() };
    match spec.discipline {
        Discipline::Dwcs { loss_first, rtas99, lowest_denominator } => {
            let rules = if rtas99 { Rules::Rtas99 } else { Rules::Standard };
            let zero_window = if lowest_denominator {
                ZeroWindow::LowestDenominator
            } else {
                ZeroWindow::HighestDenominator
            };
            let order = if loss_first { DwcsOrder::LossFirst } else { DwcsOrder::EdfFirst };
            let dwcs = DwcsOptions { rules, zero_window };
            (spec.discipline.name(), Options { dwcs, order, ..options })
        }
        plain => (plain.name(), options),
    }
}

/// Runs the engine under the discipline called `name` instead of that of `spec`.
pub fn run_named(
    name: &str,
    options: &Options,
    spec: &Spec,
    arrivals: &[Arrival],
    structure: StructureName,
) -> Outcome {
    let mut scheduler = DisciplineRow::parse(name).unwrap().build(options, structure);
    run_scheduler(scheduler.as_mut(), spec, arrivals)
}

/// Adds the streams of `spec` to an empty scheduler and runs it.
pub fn run_scheduler(
    scheduler: &mut dyn DynScheduler,
    spec: &Spec,
    arrivals: &[Arrival],
) -> Outcome {
    for stream in &spec.streams {
        scheduler.add_stream(contract(stream)).unwrap();
    }
    let mut collector = Collector::new(spec.streams.len());
    let mut arrivals = arrivals.iter().peekable();
    let mut free_ns = 0;
    loop {
        let now_ns = match arrivals.peek() {
            _ if scheduler.total_waiting() > 0 => free_ns,
            Some(arrival) => free_ns.max(arrival.time_ns),
            None => break,
        };
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns <= now_ns) {
            let packet = Packet::new(arrival.bytes);
            if let Err(full) = scheduler.enqueue(arrival.time_ns, StreamId(arrival.stream), packet)
            {
                collector.row(&full);
            }
        }
        free_ns = now_ns;
        if let Some(departure) = scheduler.decide(now_ns, &mut collector) {
            collector.row(&departure);
            free_ns += spec.overhead.transmission_ns(departure.bytes, spec.rate_bps);
            collector.outcome.end_ns = free_ns;
        }
    }
    collector.outcome
}

/// Generates a random discipline of the catalogue with random settings.
fn disciplines() -> impl Strategy<Value = Discipline> {
    let dwcs = any::<[bool; 3]>().prop_map(|[loss_first, rtas99, lowest_denominator]| {
        Discipline::Dwcs { loss_first, rtas99, lowest_denominator }
    });
    let plain: Vec<_> = Discipline::PLAIN.iter().map(|(_, discipline)| *discipline).collect();
    prop_oneof![4 => dwcs, 1 => proptest::sample::select(plain)]
}

fn streams() -> impl Strategy<Value = StreamSpec> {
    let window = (0u32..6).prop_flat_map(|of| (0..=of, Just(of)));
    let first = proptest::option::weighted(0.2, 0u64..9_000);
    let queue = proptest::option::weighted(0.2, 0u32..5);
    (1u64..8, window, first, any::<bool>(), 0u32..3, queue).prop_map(
        |(slots, window, first_deadline_ns, drop_late, priority, queue)| StreamSpec {
            first_deadline_ns,
            drop_late,
            priority,
            queue,
            ..StreamSpec::new(slots * 500, window)
        },
    )
}

/// Generates random contended scenarios with many ties in time.
pub fn scenarios() -> impl Strategy<Value = (Spec, Vec<Arrival>)> {
    let load = (0u64..16, prop_oneof![4 => Just(125u32), 1 => 0u32..400], any::<u32>());
    let loads = proptest::collection::vec(load, 1..60);
    let specs = proptest::collection::vec(streams(), 1..9);
    (
        disciplines(),
        specs,
        loads,
        overheads(0..2),
        prop_oneof![Just(1_000_000_000u64), 1u64 << 29..1 << 31],
    )
        .prop_map(|(discipline, streams, loads, overhead, rate_bps)| {
            let mut time_ns = 0;
            let arrivals = loads
                .into_iter()
                .map(|(gap, bytes, stream)| {
                    // Most gaps are 0, the others multiples of half a transmission time.
                    time_ns += gap.saturating_sub(11) * 500;
                    let stream = stream % u32::try_from(streams.len()).unwrap();
                    Arrival { time_ns, stream, bytes }
                })
                .collect();
            (Spec { discipline, rate_bps, overhead, streams }, arrivals)
        })
}
