//! Random contracts and events: the C scheduler against the engine, decision for decision.

use millstream::aqm::codel::CodelOptions;
use millstream::aqm::{Aqm, Ecn};
use millstream::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use millstream::flow_queue::{Flow, FlowOptions};
use millstream::selector::Observer;
use millstream::{Contract, Departure, Event, Late, Link, MaxRate, Packet, StreamId, Window};
use millstream_bpf::{Config, NativeScheduler};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::num::NonZeroU64;

/// The observed events of a scheduler.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Misses and violations of each stream.
    missed: Vec<(u64, u64)>,
    dropped: Vec<Departure>,
    /// The streams and numbers of marked packets.
    marked: Vec<(StreamId, u64)>,
}

impl Observer for Seen {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        self.missed.resize(64, (0, 0));
        let sum = &mut self.missed[stream.index()];
        *sum = (sum.0 + missed, sum.1 + violations);
    }

    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push(*departure);
    }

    fn marked(&mut self, stream: StreamId, packet: u64, _: u64) {
        self.marked.push((stream, packet));
    }
}

/// An event: time passes by a number of units and ns, then a packet arrives or the link is idle.
#[derive(Clone, Copy, Debug)]
struct Step {
    units: u64,
    ns: u64,
    arrival: Option<Arrival>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    stream: usize,
    bytes: u32,
    flow: Flow,
}

/// The parameters of a comparison.
#[derive(Clone, Debug)]
struct Case {
    discipline: &'static str,
    link: Link,
    unit_ns: u64,
    contracts: Vec<Contract>,
    /// Whether the link is asked only when it is idle, as in the simulator.
    paced: bool,
    /// The time for which the link is idle before the steps are repeated, and whether the link is
    /// asked when it becomes idle.
    pause: (u64, bool),
    steps: Vec<Step>,
}

/// Flows with small tables, limits and times, so that all are reached.
fn flows(unit_ns: u64) -> impl Strategy<Value = FlowOptions> {
    let buckets = prop_oneof![Just(1u32), Just(5), Just(8), Just(24), Just(32)];
    let limit_bytes = prop_oneof![2 => Just(u64::MAX), 1 => 1_000..200_000u64];
    let limit_packets = prop_oneof![2 => Just(10_240u32), 1 => 0..200u32];
    let quantum = prop_oneof![Just(1_514u32), 64..4_000u32];
    let times = (0..40u64, 1..60u64, any::<bool>());
    let codel = proptest::option::weighted(0.85, times);
    (buckets, limit_bytes, limit_packets, quantum, codel).prop_map(
        move |(buckets, limit_bytes, limit_packets, quantum_bytes, codel)| FlowOptions {
            buckets,
            quantum_bytes,
            limit_bytes,
            limit_packets,
            aqm: codel.map_or(Aqm::None, |(target, interval, ecn)| {
                let (target_ns, interval_ns) = (target * unit_ns, interval * unit_ns);
                Aqm::Codel(CodelOptions { target_ns, interval_ns, ecn })
            }),
            ..FlowOptions::default()
        },
    )
}

/// Hashes that share sets and flows of the table.
fn flow() -> impl Strategy<Value = Flow> {
    let hash = prop_oneof![0..3u32, (0..40u32).prop_map(|hash| hash * hash), any::<u32>()];
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable), Just(Ecn::Congested)];
    (hash, ecn).prop_map(|(hash, ecn)| Flow { hash, ecn, ..Flow::default() })
}

/// Periods are few multiples of a unit, so that deadlines coincide. Some streams have flows: a
/// number of `with_flows` of 4.
fn contracts(unit_ns: u64, with_flows: u32) -> impl Strategy<Value = Contract> {
    let period = (1u64..7, prop_oneof![4 => Just(1u64), 1 => Just(50)]);
    let of = prop_oneof![Just(0u32), 1u32..9, Just(255), Just(100_000)];
    let window = (of, 0u32..=1_000);
    // Equal caps, so that two gates open at one instant.
    let cap = prop_oneof![
        2 => (1u64..3_000_000_000, 0u64..4_000),
        1 => Just((8_000_000, 100)),
    ];
    let cap = proptest::option::weighted(0.25, cap);
    let queue = proptest::option::weighted(0.2, 0u32..4);
    let first = proptest::option::weighted(0.2, 0u64..40);
    let terms = (period, window, cap, queue, first, any::<bool>());
    let shares = (0u32..4, 1u32..12, prop_oneof![1u32..9, 90u32..3_000]);
    let flows = (0..4u32, flows(unit_ns));
    (terms, shares, flows).prop_map(move |(terms, (priority, weight, quantum), (part, flows))| {
        let ((count, times), (of, thousandths), cap, queue, first, drop) = terms;
        let lost = u32::try_from(u64::from(of) * u64::from(thousandths) / 1_000).unwrap();
        let mut contract = Contract::new()
            .period_ns(unit_ns * count * times)
            .unwrap()
            .window(Window::new(lost, of).unwrap())
            .priority(priority)
            .weight(weight)
            .unwrap()
            .quantum_bytes(quantum)
            .unwrap();
        if part < with_flows {
            contract = contract.flows(flows);
        } else if drop {
            contract = contract.late(Late::Drop);
        }
        if let Some(packets) = queue {
            contract = contract.queue(packets);
        }
        if let Some(units) = first {
            contract = contract.first_deadline_ns(units * unit_ns);
        }
        if let Some((rate_bps, burst_bytes)) = cap {
            let rate_bps = NonZeroU64::new(rate_bps).unwrap();
            contract = contract.max_rate(MaxRate { rate_bps, burst_bytes });
        }
        contract
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let streams = prop_oneof![4 => 1usize..7, 1 => 7usize..65];
    cases_of(streams, 1)
}

/// A few streams, most of them with flows whose queues build up.
fn cases_with_flows() -> impl Strategy<Value = Case> {
    cases_of(1usize..4, 3)
}

fn cases_of(streams: impl Strategy<Value = usize>, with_flows: u32) -> impl Strategy<Value = Case> {
    let discipline = prop_oneof![
        1 => Just("static-priority"),
        1 => Just("edf"),
        3 => Just("dwcs"),
        2 => Just("drr"),
        2 => Just("wf2q+"),
    ];
    // Virtual time stays within the distance that the engine's tags are compared at: 10¹⁴ bytes.
    let rate = prop_oneof![1u64..1 << 39, Just(20_000_000), Just(999_999_937)];
    let unit = prop_oneof![Just(1u64), Just(7), Just(1_000), Just(1 << 20)];
    let pause = (prop_oneof![Just(1u64), Just(1 << 40), Just(1 << 58)], any::<bool>());
    (discipline, rate, 0i32..40, unit, streams, any::<bool>(), pause).prop_flat_map(
        move |(discipline, rate_bps, overhead_bytes, unit_ns, streams, paced, pause)| {
            let gap = prop_oneof![
                6 => Just(0u64),
                3 => 0u64..4,
                1 => 0u64..300,
                1 => Just(1 << 12),
            ];
            let bytes = prop_oneof![4 => 0u32..1_600, 1 => Just(100), 1 => 0u32..65_536];
            let arrival = (0..streams, bytes, flow());
            let arrival = arrival.prop_map(|(stream, bytes, flow)| Arrival { stream, bytes, flow });
            let arrival = proptest::option::weighted(0.55, arrival);
            let step = (gap, 0u64..3, arrival);
            let step = step.prop_map(|(units, ns, arrival)| Step { units, ns, arrival });
            let contracts = proptest::collection::vec(contracts(unit_ns, with_flows), streams);
            (contracts, proptest::collection::vec(step, 1..400)).prop_map(
                move |(contracts, steps)| Case {
                    discipline,
                    link: Link::new(rate_bps, overhead_bytes),
                    unit_ns,
                    contracts,
                    paced,
                    pause,
                    steps,
                },
            )
        },
    )
}

/// The schedulers and their observers.
struct Pair {
    engine: Box<dyn DynScheduler + Send>,
    native: NativeScheduler,
    seen: [Seen; 2],
    counts: Counts,
}

/// What was compared. `full` is of flows.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    decisions: u64,
    late: u64,
    full: u64,
    by_aqm: u64,
    marked: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.decisions += other.decisions;
        self.late += other.late;
        self.full += other.full;
        self.by_aqm += other.by_aqm;
        self.marked += other.marked;
    }
}

impl Arrival {
    fn id(&self) -> StreamId {
        StreamId(u32::try_from(self.stream).unwrap())
    }
}

impl Pair {
    fn of(case: &Case) -> Self {
        let row = DisciplineRow::parse(case.discipline).unwrap();
        let options = Options { link: case.link, ..Options::default() };
        let config = Config::new(row.name, &options, &case.contracts).unwrap();
        let mut engine = row.build(&options, StructureName::Scan);
        for contract in &case.contracts {
            engine.add_stream(contract.clone()).unwrap();
        }
        let seen = || Seen { missed: vec![(0, 0); 64], ..Seen::default() };
        let native = NativeScheduler::new(config);
        Self { engine, native, seen: [seen(), seen()], counts: Counts::default() }
    }

    fn decide(&mut self, now_ns: u64) -> Option<Departure> {
        let [of_engine, of_native] = &mut self.seen;
        let engine = self.engine.decide(now_ns, of_engine);
        let native = self.native.decide(now_ns, of_native);
        assert_eq!(native, engine, "at {now_ns}");
        assert_eq!(self.native.next_eligible_ns(), self.engine.next_eligible_ns(), "at {now_ns}");
        self.compare_observed(now_ns);
        engine
    }

    fn arrive(&mut self, now_ns: u64, arrival: Arrival) {
        let Arrival { bytes, flow, .. } = arrival;
        let stream = arrival.id();
        let [of_engine, of_native] = &mut self.seen;
        let packet = Packet::new(bytes);
        let engine = self.engine.enqueue_flow(now_ns, stream, packet, flow, of_engine);
        let native = self.native.enqueue_flow(now_ns, stream, packet, flow, of_native);
        assert_eq!(native, engine, "arrival in {stream} at {now_ns}");
        assert_eq!(self.native.waiting(stream), self.engine.waiting(stream), "at {now_ns}");
        self.compare_observed(now_ns);
    }

    /// Compares the events that were observed since the last comparison, and counts them.
    fn compare_observed(&mut self, now_ns: u64) {
        let [of_engine, of_native] = &mut self.seen;
        assert_eq!(of_native, of_engine, "at {now_ns}");
        let count = |event| of_engine.dropped.iter().filter(|of| of.event == event).count() as u64;
        self.counts.late += count(Event::DroppedLate);
        self.counts.full += count(Event::DroppedFull);
        self.counts.by_aqm += count(Event::DroppedByAqm);
        self.counts.marked += of_engine.marked.len() as u64;
        for seen in [of_engine, of_native] {
            seen.dropped.clear();
            seen.marked.clear();
        }
    }
}

fn compare(case: &Case) -> Counts {
    let mut pair = Pair::of(case);
    let (mut now_ns, mut free_ns) = (0u64, 0u64);
    let decide = |pair: &mut Pair, at_ns: u64| {
        pair.counts.decisions += 1;
        pair.decide(at_ns).map(|departure| {
            let duration_ns = case.link.transmission_ns(departure.bytes);
            assert_eq!(pair.native.transmission_ns(departure.bytes), duration_ns);
            duration_ns
        })
    };
    for _ in 0..2 {
        for step in &case.steps {
            let until_ns = now_ns + step.units * case.unit_ns + step.ns;
            // The link takes packets until the next arrival.
            while case.paced && free_ns < until_ns {
                free_ns = match decide(&mut pair, free_ns.max(now_ns)) {
                    Some(duration_ns) => free_ns.max(now_ns) + duration_ns.max(1),
                    None => pair.engine.next_eligible_ns().unwrap_or(until_ns).max(free_ns + 1),
                };
            }
            now_ns = until_ns;
            match step.arrival {
                Some(arrival) => pair.arrive(now_ns, arrival),
                None if !case.paced => {
                    decide(&mut pair, now_ns);
                }
                None => {}
            }
        }
        // All packets leave.
        now_ns = now_ns.max(free_ns);
        while pair.engine.total_waiting() > 0 {
            now_ns += match decide(&mut pair, now_ns) {
                Some(duration_ns) => duration_ns,
                None => pair.engine.next_eligible_ns().unwrap_or(now_ns).saturating_sub(now_ns),
            };
        }
        let (pause_ns, is_asked) = case.pause;
        if is_asked {
            decide(&mut pair, now_ns);
        }
        now_ns += pause_ns;
        free_ns = now_ns;
    }
    pair.counts
}

/// Changes the contracts of `case` to those of `other` and back at every 10th event.
fn change(case: &Case, other: &Case) {
    let row = DisciplineRow::parse(case.discipline).unwrap();
    let options = |link| Options { link, ..Options::default() };
    let mut contracts = case.contracts.clone();
    for (contract, new) in contracts.iter_mut().zip(&other.contracts) {
        // The flows stay.
        let buckets = |of: &Contract| of.flow_options().map(|flows| flows.buckets);
        if buckets(contract) == buckets(new) {
            *contract = new.clone();
        }
    }
    let configs = [
        Config::new(row.name, &options(case.link), &case.contracts).unwrap(),
        Config::new(row.name, &options(other.link), &contracts).unwrap(),
    ];
    let mut scheduler = NativeScheduler::new(configs[0].clone());
    let mut seen = Seen::default();
    let (mut now_ns, mut accepted, mut sent) = (0, 0, 0);
    for (at, step) in case.steps.iter().enumerate() {
        now_ns += step.units * case.unit_ns + step.ns;
        if at % 10 == 9 {
            scheduler.reconfigure(configs[at / 10 % 2].clone(), now_ns);
        }
        if let Some(arrival) = step.arrival {
            let (stream, packet) = (arrival.id(), Packet::new(arrival.bytes));
            let queued = scheduler.enqueue_flow(now_ns, stream, packet, arrival.flow, &mut seen);
            accepted += u64::from(queued.is_ok());
        } else {
            sent += u64::from(scheduler.decide(now_ns, &mut seen).is_some());
        }
    }
    while scheduler.total_waiting() > 0 {
        let before = scheduler.total_waiting();
        sent += u64::from(scheduler.decide(now_ns, &mut seen).is_some());
        if scheduler.total_waiting() == before {
            let next_ns = scheduler.next_eligible_ns();
            assert!(next_ns > Some(now_ns), "a backlog is not served, nor will it be");
            now_ns = next_ns.unwrap();
        }
    }
    assert_eq!(sent + seen.dropped.len() as u64, accepted);
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: std::env::var("MILLSTREAM_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .map_or(RngSeed::Fixed(1), RngSeed::Fixed),
        ..ProptestConfig::default()
    })
}

#[test]
fn changed_contracts_lose_no_packet() {
    runner(cases_run(300))
        .run(&(cases(), cases()), |(case, other)| {
            change(&case, &other);
            Ok(())
        })
        .unwrap();
}

#[test]
fn unchanged_contracts_change_no_decision() {
    runner(cases_run(250))
        .run(&cases(), |case| {
            let mut pair = Pair::of(&case);
            let mut now_ns = 0;
            for (at, step) in case.steps.iter().enumerate() {
                now_ns += step.units * case.unit_ns + step.ns;
                if at % 7 == 6 {
                    let row = DisciplineRow::parse(case.discipline).unwrap();
                    let options = Options { link: case.link, ..Options::default() };
                    let same = Config::new(row.name, &options, &case.contracts).unwrap();
                    pair.native.reconfigure(same, now_ns);
                    // Only advances the engine's time.
                    pair.engine.charge(now_ns, StreamId(0), 0);
                }
                match step.arrival {
                    Some(arrival) => pair.arrive(now_ns, arrival),
                    None => {
                        pair.decide(now_ns);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}

/// Returns the number of scenarios: that of the environment, or the default.
fn cases_run(default: u32) -> u32 {
    std::env::var("MILLSTREAM_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn run_and_compare(cases_run: u32, cases: impl Strategy<Value = Case>) -> Counts {
    let counts = std::cell::Cell::new(Counts::default());
    runner(cases_run)
        .run(&cases, |case| {
            let mut sum = counts.get();
            sum += compare(&case);
            counts.set(sum);
            Ok(())
        })
        .unwrap();
    counts.get()
}

#[test]
fn random_scenarios_have_equal_decisions() {
    let cases_run = cases_run(1_000);
    let counts = run_and_compare(cases_run, cases());
    println!("{cases_run} scenarios, {counts:?}");
}

#[test]
fn random_flows_have_equal_decisions() {
    let cases_run = cases_run(500);
    let counts = run_and_compare(cases_run, cases_with_flows());
    println!("{cases_run} scenarios with flows, {counts:?}");
    let of_flows = [counts.full, counts.by_aqm, counts.marked];
    assert!(of_flows.iter().all(|count| *count > u64::from(cases_run)), "{counts:?}");
}

/// Busy and idle times of many lengths: CoDel resumes its rate, or begins anew, after 16 intervals.
#[test]
fn codel_returns_to_drop_state_equally() {
    const UNIT_NS: u64 = 1_000_000;
    let codel = CodelOptions { target_ns: UNIT_NS, interval_ns: 10 * UNIT_NS, ecn: false };
    let flows = FlowOptions { aqm: Aqm::Codel(codel), ..FlowOptions::default() };
    let arrival = Some(Arrival { stream: 0, bytes: 1_000, flow: Flow::default() });
    let step = |units, arrival| Step { units, ns: 0, arrival };
    let mut steps = Vec::new();
    for busy in 15..60 {
        for _ in 0..busy {
            steps.extend([step(0, arrival), step(0, arrival), step(1, None)]);
        }
        steps.extend((0..busy).map(|_| step(0, None)));
        steps.push(step(busy * 37 % 190, None));
    }
    let counts = compare(&Case {
        discipline: "static-priority",
        link: Link::new(8_000_000, 0),
        unit_ns: UNIT_NS,
        contracts: vec![Contract::new().flows(flows)],
        paced: false,
        pause: (1, false),
        steps,
    });
    assert!(counts.by_aqm > 200, "{counts:?}");
}
