//! Flow queueing and queue management, against the slow reference and by their laws.

use millstream::aqm::cobalt::CobaltOptions;
use millstream::aqm::codel::CodelOptions;
use millstream::aqm::dual_pi2::{DualPi2Options, DualSchedule};
use millstream::aqm::pie::PieOptions;
use millstream::aqm::red::RedOptions;
use millstream::aqm::{Aqm, Ecn};
use millstream::discipline::lqf::Lqf;
use millstream::flow_queue::{Flow, FlowOptions, FlowPacket, FlowQueues, HostFairness};
use millstream::{
    Contract, Departure, Dwcs, EdfFirst, Event, Fifo, Heap, Late, Link, Observer, Packet, Scan,
    Scheduler, StreamId, Wf2qPlus,
};
use millstream_reference::flow_queue::aqm::{PieSpec, RedSpec};
use millstream_reference::flow_queue::dual::{DualModel, DualSpec};
use millstream_reference::flow_queue::{AqmSpec, FlowArrival, FlowModel, FlowOutcome, FlowSpec};
use proptest::prelude::*;
use std::collections::HashSet;

const MS: u64 = 1_000_000;

/// An arrival of a flow, or a departure.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push { hash: u32, bytes: u32, ecn: Ecn },
    Pull,
}

fn ecn() -> impl Strategy<Value = Ecn> {
    prop_oneof![
        2 => Just(Ecn::NotCapable),
        1 => Just(Ecn::Capable),
        1 => Just(Ecn::Scalable),
        1 => Just(Ecn::Congested),
    ]
}

/// Steps that are overloaded most of the time, with idle times.
fn steps(flows: u32) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let push = (0..flows, 1..3_000u32, ecn()).prop_map(|(hash, bytes, ecn)| Step::Push {
        hash: hash * hash,
        bytes,
        ecn,
    });
    let step = prop_oneof![3 => push, 2 => Just(Step::Pull)];
    let wait = prop_oneof![20 => 0..3 * MS, 1 => 0..60 * MS];
    proptest::collection::vec((wait, step), 1..600)
}

fn pie() -> impl Strategy<Value = PieOptions> {
    let times = (2..30 * MS, MS..20 * MS, 0..40 * MS);
    let gains = (0..3_000u32, 0..30_000u32);
    (times, gains, any::<bool>(), 0..100u32, any::<bool>()).prop_map(
        |((target_ns, update_ns, burst_ns), gains, ecn, mark_below_percent, derandomize)| {
            PieOptions {
                target_ns,
                update_ns,
                alpha_milli: gains.0,
                beta_milli: gains.1,
                burst_ns,
                ecn,
                mark_below_percent,
                derandomize,
            }
        },
    )
}

fn red() -> impl Strategy<Value = RedOptions> {
    let thresholds = (0..10_000u32, 1..20_000u32, 0..=100u32);
    (thresholds, 0..=12u32, 1..MS, any::<bool>(), any::<bool>()).prop_map(
        |((min_bytes, more, max_percent), weight_log2, packet_ns, gentle, ecn)| RedOptions {
            min_bytes,
            max_bytes: min_bytes + more,
            max_percent,
            weight_log2,
            packet_ns,
            gentle,
            ecn,
        },
    )
}

/// Queue management by flow: none, CoDel, PIE, RED or COBALT.
fn aqm() -> impl Strategy<Value = Aqm> {
    let codel = || (1..6 * MS, 1..20 * MS, any::<bool>());
    prop_oneof![
        Just(Aqm::None),
        codel().prop_map(|(target_ns, interval_ns, ecn)| {
            Aqm::Codel(CodelOptions { target_ns, interval_ns, ecn })
        }),
        codel().prop_map(|(target_ns, interval_ns, ecn)| {
            Aqm::Cobalt(CobaltOptions { target_ns, interval_ns, ecn })
        }),
        pie().prop_map(Aqm::Pie),
        red().prop_map(Aqm::Red),
    ]
}

fn options() -> impl Strategy<Value = FlowOptions> {
    let buckets = prop_oneof![Just(1u32), Just(5), Just(8), Just(24), Just(32)];
    let hosts = prop_oneof![Just(HostFairness::None), Just(HostFairness::ByHost)];
    let limits = (1_000..200_000u64, 1..200u32);
    (buckets, 1..4_000u32, limits, hosts, aqm(), any::<u64>()).prop_map(
        |(buckets, quantum_bytes, (limit_bytes, limit_packets), hosts, aqm, seed)| FlowOptions {
            buckets,
            quantum_bytes,
            limit_bytes,
            limit_packets,
            hosts,
            aqm,
            seed,
        },
    )
}

fn dual() -> impl Strategy<Value = (DualPi2Options, u64, u32)> {
    let schedule = prop_oneof![
        (1..=99u32).prop_map(|classic_percent| DualSchedule::Weighted { classic_percent }),
        (0..60 * MS).prop_map(|shift_ns| DualSchedule::TimeShift { shift_ns }),
    ];
    let times = (MS..30 * MS, MS..20 * MS);
    let gains = (0..2_000u32, 0..30_000u32, 1..=4u32);
    let ramp = (0..20 * MS, prop_oneof![Just(0), 0..20 * MS], 0..4u32);
    let limits = (1_000..400_000u64, 1..400u32);
    (times, gains, ramp, schedule, limits).prop_map(
        |((target_ns, update_ns), gains, ramp, schedule, (limit_bytes, limit_packets))| {
            let options = DualPi2Options {
                target_ns,
                update_ns,
                alpha_milli: gains.0,
                beta_milli: gains.1,
                coupling: gains.2,
                ramp_start_ns: ramp.0,
                ramp_ns: ramp.1,
                unmarked_packets: ramp.2,
                schedule,
            };
            (options, limit_bytes, limit_packets)
        },
    )
}

/// Returns the parameters of the reference.
pub(crate) fn spec(of: &FlowOptions) -> FlowSpec {
    let aqm = match of.aqm {
        Aqm::None | Aqm::DualPi2(_) => AqmSpec::None,
        Aqm::Codel(of) => AqmSpec::Codel(of.target_ns, of.interval_ns, of.ecn),
        Aqm::Cobalt(of) => AqmSpec::Cobalt(of.target_ns, of.interval_ns, of.ecn),
        Aqm::Pie(of) => AqmSpec::Pie(PieSpec {
            qdelay_ref: of.target_ns,
            t_update: of.update_ns,
            alpha_milli: of.alpha_milli,
            beta_milli: of.beta_milli,
            max_burst: of.burst_ns,
            marks: of.ecn,
            mark_ecnth: of.mark_below_percent,
            derandomize: of.derandomize,
        }),
        Aqm::Red(of) => AqmSpec::Red(RedSpec {
            min_th: of.min_bytes,
            max_th: of.max_bytes,
            max_p: of.max_percent,
            w_q_log2: of.weight_log2,
            s: of.packet_ns,
            gentle: of.gentle,
            marks: of.ecn,
        }),
    };
    FlowSpec {
        buckets: of.buckets,
        quantum: of.quantum_bytes,
        limit_bytes: of.limit_bytes,
        limit_packets: of.limit_packets as usize,
        by_host: of.hosts == HostFairness::ByHost,
        aqm,
        seed: of.seed,
    }
}

/// The steps on which a model can be compared.
trait Model {
    fn push(&mut self, packet: FlowArrival) -> Vec<FlowOutcome>;
    fn pull(&mut self, now_ns: u64) -> Vec<FlowOutcome>;
    fn packets(&self) -> usize;
}

macro_rules! model {
    ($of:ty) => {
        impl Model for $of {
            fn push(&mut self, packet: FlowArrival) -> Vec<FlowOutcome> {
                self.push(packet)
            }

            fn pull(&mut self, now_ns: u64) -> Vec<FlowOutcome> {
                self.pull(now_ns)
            }

            fn packets(&self) -> usize {
                self.packets()
            }
        }
    };
}

model!(FlowModel);
model!(DualModel);

/// Makes the steps on both; every packet must have the same outcome, in the same order.
fn compare(
    mut queues: FlowQueues,
    mut model: impl Model,
    steps: Vec<(u64, Step)>,
) -> Result<(), TestCaseError> {
    let (mut now_ns, mut number) = (0, 0);
    for (wait_ns, step) in steps {
        now_ns += wait_ns;
        let mut left = Vec::new();
        let mut dropped = |of: FlowPacket, event: Event| {
            left.push(match event {
                Event::DroppedFull => FlowOutcome::Full(of.number),
                _ => FlowOutcome::Dropped(of.number),
            });
        };
        let expected = match step {
            Step::Push { hash, bytes, ecn } => {
                let host = hash % 5;
                let flow = Flow { hash, host, ecn };
                queues.push(now_ns, flow, Packet::new(bytes), number, &mut dropped);
                let capable = ecn.is_capable();
                let low_latency = matches!(ecn, Ecn::Scalable | Ecn::Congested);
                let arrival_ns = now_ns;
                number += 1;
                model.push(FlowArrival {
                    hash,
                    host,
                    number: number - 1,
                    bytes,
                    arrival_ns,
                    capable,
                    low_latency,
                })
            }
            Step::Pull => {
                let pulled = queues.pull(now_ns, &mut dropped);
                left.extend(pulled.map(|(of, mark)| match mark {
                    true => FlowOutcome::Marked(of.number),
                    false => FlowOutcome::Delivered(of.number),
                }));
                model.pull(now_ns)
            }
        };
        prop_assert_eq!(left, expected, "at {} ns", now_ns);
        prop_assert_eq!(queues.packets() as usize, model.packets());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn flows_follow_the_texts(options in options(), steps in steps(40)) {
        compare(FlowQueues::new(options), FlowModel::new(spec(&options)), steps)?;
    }

    /// One or two flows: long queues, in which queue management acts.
    #[test]
    fn long_queues_follow_the_texts(options in options(), aqm in aqm(), steps in steps(2)) {
        let options = FlowOptions { aqm, limit_bytes: 400_000, limit_packets: 250, ..options };
        compare(FlowQueues::new(options), FlowModel::new(spec(&options)), steps)?;
    }

    #[test]
    fn two_queues_follow_the_text((of, limit_bytes, limit_packets) in dual(), steps in steps(2)) {
        let aqm = Aqm::DualPi2(of);
        let options = FlowOptions { aqm, limit_bytes, limit_packets, ..FlowOptions::default() };
        let model = DualModel::new(DualSpec {
            target: of.target_ns,
            t_update: of.update_ns,
            alpha_milli: of.alpha_milli,
            beta_milli: of.beta_milli,
            k: of.coupling,
            min_th: of.ramp_start_ns,
            range: of.ramp_ns,
            th_len: of.unmarked_packets as usize,
            schedule: match of.schedule {
                DualSchedule::Weighted { classic_percent } => Ok(classic_percent),
                DualSchedule::TimeShift { shift_ns } => Err(shift_ns),
            },
            limit_bytes,
            limit_packets: limit_packets as usize,
        });
        compare(FlowQueues::new(options), model, steps)?;
    }
}

/// Counts what an observer is told.
#[derive(Default)]
struct Counted {
    dropped: Vec<Departure>,
    marked: Vec<u64>,
}

impl Observer for Counted {
    fn dropped(&mut self, departure: &Departure) {
        self.dropped.push(*departure);
    }

    fn marked(&mut self, _: StreamId, packet: u64, _: u64) {
        self.marked.push(packet);
    }
}

const WITHOUT_AQM: FlowOptions = FlowOptions {
    buckets: 1_024,
    quantum_bytes: 1_500,
    limit_bytes: 10_000_000,
    limit_packets: 1_000,
    hosts: HostFairness::None,
    aqm: Aqm::None,
    seed: 0,
};

/// Returns the flow of a hash, whose host is the same hash.
fn flow(hash: u32) -> Flow {
    Flow { hash, host: hash, ecn: Ecn::NotCapable }
}

/// A packet of a sparse flow leaves after the head, whatever waits in other flows.
#[test]
fn a_sparse_flow_passes_the_backlog_of_the_others() {
    let mut scheduler = Scheduler::new(Fifo, Heap::default());
    let stream = scheduler.add_stream(Contract::new().flows(WITHOUT_AQM)).unwrap();
    for packet in 0..200 {
        let bulk = Packet { bytes: 1_500, tag: packet };
        scheduler.enqueue_flow(0, stream, bulk, flow(7), &mut ()).unwrap();
    }
    let first: Vec<_> = (0..4).map(|_| scheduler.decide(0, &mut ()).unwrap().tag).collect();
    assert_eq!(first, [0, 1, 2, 3]);
    let sparse = Packet { bytes: 100, tag: 999 };
    assert_eq!(scheduler.enqueue_flow(1, stream, sparse, flow(8), &mut ()), Ok(200));
    assert_eq!((scheduler.waiting(stream), scheduler.total_waiting()), (197, 197));
    let next: Vec<_> = (0..3).map(|_| scheduler.decide(1, &mut ()).unwrap().tag).collect();
    assert_eq!(next, [4, 999, 5], "the head was chosen before");
}

/// Two streams share the link by their weights; in one, two flows share the stream's part equally,
/// though one has four times the packets.
#[test]
fn flows_share_the_part_of_their_stream() {
    let link = Link::new(8_000_000_000, 0);
    let mut scheduler = Scheduler::new(Wf2qPlus::new(link, 0), Scan::default());
    let flows = Contract::new().flows(FlowOptions {
        limit_packets: 10_000,
        quantum_bytes: 1_000,
        ..WITHOUT_AQM
    });
    let by_flow = scheduler.add_stream(flows).unwrap();
    let plain = scheduler.add_stream(Contract::new().weight(3).unwrap()).unwrap();
    for packet in 0..1_000 {
        let one = |tag| Packet { bytes: 1_000, tag };
        scheduler.enqueue(0, plain, one(3)).unwrap();
        for _ in 0..4 {
            scheduler.enqueue_flow(0, by_flow, one(1), flow(1), &mut ()).unwrap();
        }
        if packet < 900 {
            scheduler.enqueue_flow(0, by_flow, one(2), flow(2), &mut ()).unwrap();
        }
    }
    let mut served = [0; 4];
    for now in 0..800 {
        let tag = scheduler.decide(now * 1_000, &mut ()).unwrap().tag;
        served[usize::try_from(tag).unwrap()] += 1;
    }
    assert_eq!(served, [0, 100, 100, 600]);
}

/// Longest queue first counts the packets of flows as soon as they arrive.
#[test]
fn the_longest_queue_includes_its_flows() {
    let mut scheduler = Scheduler::new(Lqf, Heap::default());
    let plain = scheduler.add_stream(Contract::new()).unwrap();
    let by_flow = scheduler.add_stream(Contract::new().flows(WITHOUT_AQM)).unwrap();
    for packet in 0..3 {
        scheduler.enqueue(0, plain, Packet { bytes: 100, tag: packet }).unwrap();
    }
    for packet in 10..14 {
        let packet = Packet { bytes: 100, tag: packet };
        scheduler.enqueue_flow(0, by_flow, packet, flow(7), &mut ()).unwrap();
    }
    let first = scheduler.decide(0, &mut ()).unwrap();
    assert_eq!((first.stream, first.tag), (by_flow, 10));
}

/// Packets that CoDel drops or that overflow are reported, and every packet is accounted for.
#[test]
fn every_packet_of_a_stream_with_flows_departs_once() {
    let aqm = Aqm::Codel(CodelOptions { target_ns: MS, interval_ns: 10 * MS, ecn: true });
    let options = FlowOptions { limit_packets: 100, aqm, ..WITHOUT_AQM };
    let mut scheduler = Scheduler::new(Fifo, Heap::default());
    let stream = scheduler.add_stream(Contract::new().flows(options)).unwrap();
    let mut observer = Counted::default();
    let (mut sent, mut arrived) = (Vec::new(), 0u64);
    for tick in 0..5_000 {
        let now_ns = tick * 100_000;
        for hash in 0..3 {
            let ecn = if hash == 1 { Ecn::Capable } else { Ecn::NotCapable };
            let packet = Packet { bytes: 1_000, tag: arrived };
            let queued = scheduler.enqueue_flow(
                now_ns,
                stream,
                packet,
                Flow { ecn, ..flow(hash) },
                &mut observer,
            );
            assert_eq!(queued, Ok(arrived));
            arrived += 1;
            let left = (sent.len() + observer.dropped.len()) as u64;
            assert_eq!(scheduler.total_waiting(), arrived - left);
        }
        sent.extend(scheduler.decide(now_ns, &mut observer).map(|departure| departure.tag));
    }
    while let Some(departure) = scheduler.decide(500 * MS, &mut observer) {
        sent.push(departure.tag);
    }
    assert_eq!(scheduler.total_waiting(), 0);
    let by_aqm = |of: &&Departure| of.event == Event::DroppedByAqm;
    let aqm = observer.dropped.iter().filter(by_aqm).count();
    assert!(aqm > 0 && aqm < observer.dropped.len() && !observer.marked.is_empty());
    let mut all: Vec<u64> = observer.dropped.iter().map(|departure| departure.tag).collect();
    assert!(observer.marked.iter().all(|packet| sent.contains(packet) && packet % 3 == 1));
    all.extend(&sent);
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..arrived));
}

/// Every kind of queue management drops or marks in a standing queue, and keeps every packet.
#[test]
fn every_queue_management_acts_and_keeps_count() {
    let step = DualPi2Options { ramp_start_ns: MS, ramp_ns: 0, ..DualPi2Options::default() };
    for aqm in [
        Aqm::Codel(CodelOptions::default()),
        Aqm::Pie(PieOptions::default()),
        Aqm::Red(RedOptions::default()),
        Aqm::Cobalt(CobaltOptions::default()),
        Aqm::DualPi2(DualPi2Options::default()),
        Aqm::DualPi2(step),
    ] {
        let options = FlowOptions { limit_packets: 400, aqm, ..WITHOUT_AQM };
        let mut scheduler = Scheduler::new(Fifo, Heap::default());
        let stream = scheduler.add_stream(Contract::new().flows(options)).unwrap();
        let mut observer = Counted::default();
        let (mut sent, mut arrived) = (HashSet::new(), 0);
        for tick in 0..20_000u64 {
            let now_ns = tick * MS / 2;
            for (hash, ecn) in [(0, Ecn::NotCapable), (1, Ecn::Capable), (2, Ecn::Scalable)] {
                // Twice the rate of the link.
                if (tick + u64::from(hash)) % 3 < 2 {
                    let packet = Packet { bytes: 1_000, tag: arrived };
                    let flow = Flow { hash, host: 0, ecn };
                    scheduler.enqueue_flow(now_ns, stream, packet, flow, &mut observer).unwrap();
                    arrived += 1;
                }
            }
            if let Some(departure) = scheduler.decide(now_ns, &mut observer) {
                assert!(sent.insert(departure.tag), "{aqm:?}");
            }
        }
        let left = (sent.len() + observer.dropped.len()) as u64;
        assert_eq!(scheduler.total_waiting(), arrived - left, "{aqm:?}");
        let by_aqm = observer.dropped.iter().filter(|of| of.event == Event::DroppedByAqm).count();
        assert!(by_aqm > 100 && !observer.marked.is_empty(), "{aqm:?} {by_aqm}");
    }
}

/// RFC 8289, section 4.4: the check for a short queue counts the bytes of all queues. Each of 40
/// flows has one packet at a time, and the link sends one every millisecond, so packets wait for
/// 40 ms. Flow 4 is the first whose packet has waited for the target, at 5 ms. Its packets leave
/// at 45, 85 and 125 ms, and an interval has passed at 105 ms. At 125 ms flows 5 to 24 follow, for
/// which it passed at 106 to 125 ms.
#[test]
fn codel_drops_the_only_packets_of_flows() {
    let aqm = Aqm::Codel(CodelOptions::default());
    let mut queues = FlowQueues::new(FlowOptions { aqm, ..WITHOUT_AQM });
    let send = |queues: &mut FlowQueues, now_ms: u64, hash: u64| {
        let flow = flow(u32::try_from(hash).unwrap());
        let packet = Packet { bytes: 1_500, tag: hash };
        queues.push(now_ms * MS, flow, packet, 0, &mut |_, _| unreachable!());
    };
    for hash in 0..40 {
        send(&mut queues, 0, hash);
    }
    let mut dropped = Vec::new();
    for now_ms in 1..=125 {
        let of = queues.pull(now_ms * MS, &mut |of, _| dropped.push((now_ms, of.packet.tag)));
        send(&mut queues, now_ms, of.unwrap().0.packet.tag);
    }
    assert!(dropped.iter().copied().eq((4..=24).map(|hash| (125, hash))), "{dropped:?}");
}

/// The bytes that hosts with these numbers of flows get of 100,000, all backlogged.
fn shares(hosts: HostFairness, flows: &[u32]) -> Vec<u64> {
    let options =
        FlowOptions { limit_packets: 100_000, limit_bytes: u64::MAX, hosts, ..WITHOUT_AQM };
    let mut queues = FlowQueues::new(options);
    let mut number = 0;
    for (host, count) in (0u32..).zip(flows) {
        for flow in 0..*count {
            let hash = (100 * host + flow).wrapping_mul(0x9e37_79b1);
            let flow = Flow { hash, host, ecn: Ecn::NotCapable };
            for _ in 0..1_000 {
                let packet = Packet { bytes: 700 + 100 * host, tag: host.into() };
                queues.push(0, flow, packet, number, &mut |_, _| unreachable!());
                number += 1;
            }
        }
    }
    let mut bytes = vec![0; flows.len()];
    while bytes.iter().sum::<u64>() < 1_000_000 {
        let (pulled, _) = queues.pull(0, &mut |_, _| unreachable!()).unwrap();
        bytes[usize::try_from(pulled.packet.tag).unwrap()] += u64::from(pulled.packet.bytes);
    }
    bytes
}

/// A host with eight flows and a host with one get the same bytes; without fairness of hosts, eight
/// times as many.
#[test]
fn hosts_share_equally_whatever_their_flows() {
    let equal = |shares: &[u64], of: u64| shares.iter().all(|bytes| bytes.abs_diff(of) < 20_000);
    let by_host = shares(HostFairness::ByHost, &[8, 1]);
    assert!(equal(&by_host, 500_000), "{by_host:?}");
    let by_host = shares(HostFairness::ByHost, &[1, 30, 5, 2]);
    assert!(equal(&by_host, 250_000), "{by_host:?}");
    let by_flow = shares(HostFairness::None, &[8, 1]);
    assert!(by_flow[0].abs_diff(8 * by_flow[1]) < 20_000, "{by_flow:?}");
}

/// The flows of a host share its part equally.
#[test]
fn flows_of_a_host_share_its_part() {
    let mut queues = FlowQueues::new(FlowOptions { hosts: HostFairness::ByHost, ..WITHOUT_AQM });
    for number in 0..900 {
        let hash = u32::try_from(number % 3).unwrap();
        let flow = Flow { hash, host: hash / 2, ecn: Ecn::NotCapable };
        let packet = Packet { bytes: 1_000, tag: hash.into() };
        queues.push(0, flow, packet, number, &mut |_, _| {});
    }
    let mut served = [0u32; 3];
    for _ in 0..400 {
        let (pulled, _) = queues.pull(0, &mut |_, _| {}).unwrap();
        served[usize::try_from(pulled.packet.tag).unwrap()] += 1;
    }
    assert!(served[0].abs_diff(100) < 5 && served[1].abs_diff(100) < 5, "{served:?}");
    assert!(served[2].abs_diff(200) < 5, "{served:?}");
}

/// With weights, the C queue gets its part of the bytes while both queues have packets, whatever
/// the sizes of packets; alone, each gets all.
#[test]
fn the_classic_queue_gets_its_part() {
    let dual = DualPi2Options {
        target_ns: 1_000 * MS,
        ramp_start_ns: 1_000 * MS,
        schedule: DualSchedule::Weighted { classic_percent: 20 },
        ..DualPi2Options::default()
    };
    let options = FlowOptions { aqm: Aqm::DualPi2(dual), limit_packets: 10_000, ..WITHOUT_AQM };
    let mut queues = FlowQueues::new(options);
    for number in 0..6_000 {
        let (bytes, ecn) =
            if number % 3 == 0 { (1_500, Ecn::NotCapable) } else { (400, Ecn::Scalable) };
        let flow = Flow { hash: 0, host: 0, ecn };
        queues.push(0, flow, Packet::new(bytes), number, &mut |_, _| unreachable!());
    }
    let mut bytes = [0u64; 2];
    while bytes.iter().sum::<u64>() < 500_000 {
        let (pulled, _) = queues.pull(0, &mut |_, _| unreachable!()).unwrap();
        bytes[usize::from(pulled.ecn == Ecn::Scalable)] += u64::from(pulled.packet.bytes);
    }
    assert!(bytes[0].abs_diff(100_000) <= 1_500, "{bytes:?}");
    let rest = std::iter::from_fn(|| queues.pull(0, &mut |_, _| unreachable!()));
    assert_eq!(rest.count() as u64, 6_000 - bytes[0] / 1_500 - bytes[1] / 400);
}

/// RFC 9332, appendix A, figure 8, by hand: all packets arrive at 0, the target is 15 ms, α = 0.15
/// and β = 3. p' is 0 at 0 ms, 3 · 0.015 = 0.045 at 15 ms and 0.045 + 0.15 · 0.015 + 3 · 0.015 =
/// 0.09225 at 30 ms. So p_C = p'² = 0.008510 and p_CL = 2 · p' = 0.1845: of 2,001 packets, a
/// C queue drops 17 and an L queue marks 369.
#[test]
fn the_queues_are_coupled() {
    let dual = DualPi2Options { ramp_start_ns: 1_000 * MS, ..DualPi2Options::default() };
    let options = FlowOptions { aqm: Aqm::DualPi2(dual), limit_packets: 10_000, ..WITHOUT_AQM };
    for (ecn, by_hand) in [(Ecn::NotCapable, (17, 0)), (Ecn::Scalable, (0, 369))] {
        let mut queues = FlowQueues::new(options);
        for number in 0..3_000 {
            let flow = Flow { hash: 0, host: 0, ecn };
            queues.push(0, flow, Packet::new(1_000), number, &mut |_, _| unreachable!());
        }
        let (mut dropped, mut marked) = (0, 0);
        while queues.packets() > 3_000 - 2_001 {
            let pulled = queues.pull(30 * MS, &mut |_, _| dropped += 1);
            marked += u32::from(pulled.unwrap().1);
        }
        assert_eq!((dropped, marked), by_hand, "{ecn:?}");
    }
}

/// One flow floods, a thousand are sparse: only packets of the flood are dropped.
#[test]
fn packets_are_dropped_from_the_longest_flow() {
    let mut queues = FlowQueues::new(FlowOptions { limit_packets: 4_000, ..WITHOUT_AQM });
    let mut dropped = Vec::new();
    for number in 0..20_000 {
        // Flow 0 has nine of ten packets; the others have two each.
        let hash = if number % 10 == 0 { 1 + (number / 10) % 1_000 } else { 0 };
        let hash = u32::try_from(hash).unwrap().wrapping_mul(0x9e37_79b1);
        let flow = Flow { hash, ..Flow::default() };
        let packet = Packet { bytes: 1_000, tag: hash.into() };
        queues.push(0, flow, packet, number, &mut |of, _| dropped.push(of.packet.tag));
    }
    assert!(dropped.len() >= 16_000 && dropped.iter().all(|hash| *hash == 0));
}

#[test]
fn a_stream_that_drops_late_packets_has_no_flows() {
    let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
    let contract = Contract::new().period_ns(1).unwrap().late(Late::Drop).flows(WITHOUT_AQM);
    let error = scheduler.add_stream(contract).unwrap_err();
    assert_eq!(error.to_string(), "a stream with flows needs `late` \"send\"");
}

#[test]
fn empty_packets_beyond_the_limit_are_dropped() {
    let options = FlowOptions { limit_packets: 2, ..FlowOptions::default() };
    let mut queues = FlowQueues::new(options);
    let mut dropped = 0;
    for number in 0..5 {
        let flow = Flow { hash: 3, ..Flow::default() };
        queues.push(0, flow, Packet::new(0), number, &mut |_, _| dropped += 1);
    }
    assert_eq!((queues.packets(), dropped), (1, 4), "half of the flow is dropped");
}
