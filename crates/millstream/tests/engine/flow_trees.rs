//! Flows within a tree of classes, against schedulers of one level, trees of plain streams, and the
//! slow reference of flows.

use millstream::aqm::codel::CodelOptions;
use millstream::aqm::pie::PieOptions;
use millstream::aqm::{Aqm, Ecn, Random};
use millstream::catalogue::{DISCIPLINES, DisciplineRow, DynScheduler, Options, StructureName};
use millstream::flow_queue::{Flow, FlowOptions, HostFairness};
use millstream::{
    ClassId, Contract, Departure, Late, Link, MaxRate, Observer, Packet, StreamId, Tree, Window,
};
use millstream_reference::flow_queue::{FlowArrival, FlowModel, FlowOutcome};
use std::num::NonZeroU64;

use super::flows::spec;

/// One byte per nanosecond.
const LINK: Link = Link::new(8_000_000_000, 0);

fn options() -> Options {
    Options { link: LINK, ..Options::default() }
}

fn row(name: &str) -> &'static DisciplineRow {
    DisciplineRow::parse(name).unwrap()
}

fn below(random: &mut Random, limit: u32) -> u32 {
    u32::try_from(random.next_bits() % u64::from(limit)).unwrap()
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[below(random, u32::try_from(choices.len()).unwrap()) as usize]
}

/// An arrival: its time, ns, and what arrives. Its tag is its position.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    time_ns: u64,
    stream: u32,
    bytes: u32,
    flow: Flow,
}

/// Draws arrivals of an overloaded link with idle times.
fn arrivals(random: &mut Random, streams: u32) -> Vec<Arrival> {
    let mut time_ns = 0;
    let draw = |_| {
        let longest_ns = if below(random, 40) == 0 { 60_000 } else { 1_200 };
        time_ns += u64::from(below(random, longest_ns));
        let ecn = [Ecn::NotCapable, Ecn::Capable, Ecn::Scalable, Ecn::Congested];
        let (hash, ecn) = (below(random, 7), one_of(random, &ecn));
        Arrival {
            time_ns,
            stream: below(random, streams),
            bytes: 1 + below(random, 1_500),
            flow: Flow { hash, host: hash % 3, ecn },
        }
    };
    (0..250).map(draw).collect()
}

fn flow_options(random: &mut Random) -> FlowOptions {
    let codel = CodelOptions { target_ns: 1_000, interval_ns: 9_000, ecn: true };
    let pie = PieOptions { target_ns: 2_000, update_ns: 3_000, ..PieOptions::default() };
    FlowOptions {
        buckets: one_of(random, &[1, 4, 8]),
        quantum_bytes: 1 + below(random, 3_000),
        limit_bytes: 3_000 + u64::from(below(random, 40_000)),
        limit_packets: 1 + below(random, 40),
        hosts: one_of(random, &[HostFairness::None, HostFairness::ByHost]),
        aqm: one_of(random, &[Aqm::None, Aqm::Codel(codel), Aqm::Pie(pie)]),
        seed: random.next_bits(),
    }
}

/// What happened to packets: time, tag, and the event or "marked".
#[derive(Debug, Default, PartialEq)]
struct Log(Vec<(u64, u64, &'static str)>);

impl Observer for Log {
    fn dropped(&mut self, departure: &Departure) {
        self.0.push((departure.time_ns, departure.tag, departure.event.name()));
    }

    fn marked(&mut self, _: StreamId, _: u64, tag: u64) {
        self.0.push((0, tag, "marked"));
    }
}

/// A scheduler that a link drives.
trait Driven {
    fn arrive(&mut self, tag: u64, arrival: &Arrival, log: &mut Log);
    fn decide(&mut self, now_ns: u64, log: &mut Log) -> Option<Departure>;
    fn next_eligible_ns(&self) -> Option<u64>;
}

impl Driven for dyn DynScheduler + '_ {
    fn arrive(&mut self, tag: u64, arrival: &Arrival, log: &mut Log) {
        let packet = Packet { bytes: arrival.bytes, tag };
        let stream = StreamId(arrival.stream);
        if let Err(full) = self.enqueue_flow(arrival.time_ns, stream, packet, arrival.flow, log) {
            log.dropped(&full);
        }
    }

    fn decide(&mut self, now_ns: u64, log: &mut Log) -> Option<Departure> {
        DynScheduler::decide(self, now_ns, log)
    }

    fn next_eligible_ns(&self) -> Option<u64> {
        DynScheduler::next_eligible_ns(self)
    }
}

/// Runs a link until all packets have left.
fn run(driven: &mut (impl Driven + ?Sized), arrivals: &[Arrival]) -> Log {
    let (mut log, mut free_ns, mut next) = (Log::default(), 0, 0);
    loop {
        let arrival_ns = arrivals.get(next).map(|arrival| arrival.time_ns);
        if arrival_ns.is_none_or(|arrival_ns| free_ns < arrival_ns) {
            if let Some(sent) = driven.decide(free_ns, &mut log) {
                log.0.push((free_ns, sent.tag, sent.event.name()));
                free_ns += LINK.transmission_ns(sent.bytes);
                continue;
            }
            let eligible_ns = driven.next_eligible_ns().map(|at_ns| at_ns.max(free_ns + 1));
            let Some(wake_ns) = arrival_ns.into_iter().chain(eligible_ns).min() else {
                return log;
            };
            free_ns = wake_ns;
        } else if let Some(arrival) = arrivals.get(next) {
            driven.arrive(next as u64, arrival, &mut log);
            next += 1;
        }
    }
}

fn contract(random: &mut Random, number: u32) -> Contract {
    let window = Window::new(1, 3).unwrap();
    let contract = Contract::new().weight(1 + number).unwrap().priority(number);
    let contract = contract.quantum_bytes(700 * (1 + number)).unwrap();
    let contract = contract.period_ns(4_000).unwrap().window(window).queue(9);
    let rate_bps = NonZeroU64::new(2_000_000_000).unwrap();
    if below(random, 4) == 0 {
        contract.max_rate(MaxRate { rate_bps, burst_bytes: 2_000 })
    } else {
        contract
    }
}

/// A tree without classes is a scheduler, under every discipline and on every structure.
#[test]
fn flows_of_a_root_are_those_of_a_scheduler() {
    let mut runs = 0;
    for row in DISCIPLINES {
        // Both have options that this test does not set; hilq has its own packets.
        if ["table", "minbw"].contains(&row.name) {
            continue;
        }
        for structure in row.structures(&options()) {
            if structure == StructureName::Hilq {
                continue;
            }
            for seed in 0..12 {
                let mut random = Random::new(seed);
                let mut tree = Tree::new(row, structure, &options());
                let mut scheduler = row.build(&options(), structure);
                for number in 0..4 {
                    let mut contract = contract(&mut random, number);
                    if number < 2 {
                        contract = contract.flows(flow_options(&mut random));
                    } else if number == 2 {
                        contract = contract.late(Late::Drop);
                    }
                    let of_tree = tree.add_stream(ClassId::ROOT, contract.clone()).unwrap();
                    assert_eq!(scheduler.add_stream(contract), Ok(of_tree));
                }
                let arrivals = arrivals(&mut random, 4);
                let expected = run(scheduler.as_mut() as &mut dyn DynScheduler, &arrivals);
                let log = run(&mut tree as &mut dyn DynScheduler, &arrivals);
                assert_eq!(log, expected, "{} on {structure:?}, seed {seed}", row.name);
                assert_eq!((tree.total_waiting(), scheduler.total_waiting()), (0, 0));
                runs += 1;
            }
        }
    }
    assert!(runs > 12 * 20, "{runs}");
}

/// Flows before a tree of plain streams: a stream's packet joins its queue when the one before it
/// is about to leave. The flows are the slow reference.
struct Twin<'a> {
    build: &'a dyn Fn() -> Tree,
    flows: Vec<Option<FlowModel>>,
    arrivals: &'a [Arrival],
    tree: Tree,
    /// What happened to the tree: arrivals and decisions.
    history: Vec<Result<(u64, StreamId, Packet), u64>>,
}

impl Twin<'_> {
    fn note(&self, outcomes: &[FlowOutcome], now_ns: u64, log: &mut Log) -> Option<u64> {
        let mut delivered = None;
        for outcome in outcomes {
            match *outcome {
                FlowOutcome::Full(tag) => log.0.push((now_ns, tag, "dropped-full")),
                FlowOutcome::Dropped(tag) => log.0.push((now_ns, tag, "dropped-aqm")),
                FlowOutcome::Marked(tag) => {
                    log.0.push((0, tag, "marked"));
                    delivered = Some(tag);
                }
                FlowOutcome::Delivered(tag) => delivered = Some(tag),
            }
        }
        delivered
    }

    /// Moves the next packet of the stream's flows to its queue.
    fn pull(&mut self, stream: StreamId, now_ns: u64, log: &mut Log) {
        let Some(flows) = &mut self.flows[stream.index()] else { return };
        let outcomes = flows.pull(now_ns);
        if let Some(tag) = self.note(&outcomes, now_ns, log) {
            let packet = Packet { bytes: self.arrivals[usize::try_from(tag).unwrap()].bytes, tag };
            self.history.push(Ok((now_ns, stream, packet)));
            self.tree.enqueue(now_ns, stream, packet).unwrap();
        }
    }
}

impl Driven for Twin<'_> {
    fn arrive(&mut self, tag: u64, arrival: &Arrival, log: &mut Log) {
        let (stream, now_ns) = (StreamId(arrival.stream), arrival.time_ns);
        let Some(flows) = &mut self.flows[stream.index()] else {
            let packet = Packet { bytes: arrival.bytes, tag };
            self.history.push(Ok((now_ns, stream, packet)));
            return match self.tree.enqueue(now_ns, stream, packet) {
                Ok(_) => {}
                Err(full) => log.dropped(&full),
            };
        };
        let Flow { hash, host, ecn } = arrival.flow;
        let outcomes = flows.push(FlowArrival {
            hash,
            host,
            number: tag,
            bytes: arrival.bytes,
            arrival_ns: now_ns,
            capable: ecn.is_capable(),
            low_latency: ecn.is_low_latency(),
        });
        self.note(&outcomes, now_ns, log);
        if self.tree.waiting(stream) == 0 {
            self.pull(stream, now_ns, log);
        }
    }

    fn decide(&mut self, now_ns: u64, log: &mut Log) -> Option<Departure> {
        // A tree with the same history shows which stream is next.
        let mut other = (self.build)();
        for step in &self.history {
            match *step {
                Ok((now_ns, stream, packet)) => drop(other.enqueue(now_ns, stream, packet)),
                Err(now_ns) => drop(other.decide(now_ns, &mut ())),
            }
        }
        if let Some(next) = other.decide(now_ns, &mut ()) {
            self.pull(next.stream, now_ns, log);
        }
        self.history.push(Err(now_ns));
        self.tree.decide(now_ns, log)
    }

    fn next_eligible_ns(&self) -> Option<u64> {
        self.tree.next_eligible_ns()
    }
}

/// In classes of several levels, with caps of streams and of classes.
#[test]
fn flows_in_classes_are_those_of_the_reference_before_plain_streams() {
    // Disciplines that rank by neither arrival times nor backlogs.
    let disciplines = ["wf2q+", "static-priority", "drr", "scfq", "sfq", "wfq", "virtual-clock"];
    let mut events = std::collections::BTreeMap::<&str, u64>::new();
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut draw = |_| one_of(&mut random, &disciplines);
        let names: [&str; 3] = std::array::from_fn(&mut draw);
        let contracts: Vec<Contract> = (0..6).map(|at| contract(&mut random, at)).collect();
        let flows: Vec<_> = (0..4).map(|at| (at != 1).then(|| flow_options(&mut random))).collect();
        // Streams 0 and 1 in class 1, 2 in class 2 below it, 3 in the root.
        let build = |with_flows: bool| {
            let structure = |name| row(name).auto_structure(&options(), 4);
            let mut tree = Tree::new(row(names[0]), structure(names[0]), &options());
            let mut classes = vec![ClassId::ROOT];
            for level in 1..3 {
                let (name, above) = (names[level], classes[level - 1]);
                let contract = contracts[3 + level].clone();
                let added = tree.add_class(above, contract, row(name), structure(name), &options());
                classes.push(added.unwrap());
            }
            for (at, class) in [1, 1, 2, 0].into_iter().enumerate() {
                let contract = contracts[at].clone();
                let contract = match flows[at] {
                    Some(flows) if with_flows => contract.flows(flows),
                    Some(_) => contract.queue(1_000),
                    None => contract,
                };
                tree.add_stream(classes[class], contract).unwrap();
            }
            tree
        };
        let arrivals = arrivals(&mut random, 4);
        let log = run(&mut build(true) as &mut dyn DynScheduler, &arrivals);
        let plain = || build(false);
        let mut twin = Twin {
            build: &plain,
            flows: flows.iter().map(|of| of.as_ref().map(|of| FlowModel::new(spec(of)))).collect(),
            arrivals: &arrivals,
            tree: plain(),
            history: Vec::new(),
        };
        assert_eq!(log, run(&mut twin, &arrivals), "seed {seed}, {names:?}");
        for (_, _, event) in &log.0 {
            *events.entry(event).or_default() += 1;
        }
    }
    for event in ["sent", "dropped-full", "dropped-aqm", "marked"] {
        assert!(events[event] > 20, "{events:?}");
    }
}

/// Longest queue first over classes counts the packets of flows as soon as they arrive, and no
/// longer when they were dropped.
#[test]
fn the_backlog_of_a_class_includes_its_flows() {
    let lqf = row("lqf");
    let mut tree = Tree::new(lqf, StructureName::Scan, &options());
    let mut class = || {
        tree.add_class(ClassId::ROOT, Contract::new(), lqf, StructureName::Scan, &options())
            .unwrap()
    };
    let (left, right) = (class(), class());
    let flows = FlowOptions { limit_packets: 3, aqm: Aqm::None, ..FlowOptions::default() };
    let by_flow = tree.add_stream(left, Contract::new().flows(flows)).unwrap();
    let plain = tree.add_stream(right, Contract::new()).unwrap();
    let mut log = Log::default();
    let mut arrive = |tree: &mut Tree, stream, tag| {
        let packet = Packet { bytes: 100, tag };
        tree.enqueue_flow(0, stream, packet, Flow::default(), &mut log).unwrap();
    };
    for tag in 0..3 {
        arrive(&mut tree, plain, tag);
    }
    // The head and three in flows: 4 packets beside 3.
    for tag in 10..14 {
        arrive(&mut tree, by_flow, tag);
    }
    assert_eq!((tree.waiting(by_flow), tree.total_waiting()), (4, 7));
    // At the limit, half of the flow's four packets are dropped: 3 packets remain of 5.
    arrive(&mut tree, by_flow, 14);
    assert_eq!((tree.waiting(by_flow), tree.total_waiting()), (3, 6));
    assert_eq!(log.0, [(0, 11, "dropped-full"), (0, 12, "dropped-full")]);
    tree.enqueue(0, plain, Packet { bytes: 100, tag: 3 }).unwrap();
    let order = std::iter::from_fn(|| tree.decide(0, &mut ())).map(|sent| sent.tag);
    assert_eq!(order.collect::<Vec<_>>(), [0, 10, 1, 13, 2, 14, 3]);
}

/// A stream with flows keeps its packets, so its contract must not drop late ones.
#[test]
fn flows_and_late_drops_are_refused_in_a_tree() {
    let mut tree = Tree::new(row("edf"), StructureName::Scan, &options());
    let contract = Contract::new().period_ns(1).unwrap().late(Late::Drop);
    let contract = contract.flows(FlowOptions::default());
    let refused = tree.add_stream(ClassId::ROOT, contract).unwrap_err();
    assert!(refused.to_string().contains("a stream with flows"), "{refused}");
}
