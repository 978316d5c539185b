//! Flow queueing and CoDel, against the slow reference and by their laws.

use millstream::aqm::codel::CodelOptions;
use millstream::aqm::{Aqm, Ecn};
use millstream::flow_queue::{FlowOptions, FlowPacket, FlowQueues};
use millstream::{
    Contract, Departure, Dwcs, EdfFirst, Fifo, Heap, Late, Link, Observer, Packet, Scan, Scheduler,
    StreamId, Wf2qPlus,
};
use millstream_reference::flow_queue::{FlowArrival, FlowModel, FlowOutcome, FlowSpec};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// An arrival of a flow, or a departure.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push { hash: u32, bytes: u32, capable: bool },
    Pull,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let push = (0..40u32, 1..3_000u32, any::<bool>())
        .prop_map(|(hash, bytes, capable)| Step::Push { hash: hash * hash, bytes, capable });
    let step = prop_oneof![3 => push, 2 => Just(Step::Pull)];
    proptest::collection::vec((0..3 * MS, step), 1..400)
}

fn options() -> impl Strategy<Value = FlowOptions> {
    let buckets = prop_oneof![Just(1u32), Just(5), Just(8), Just(32)];
    let codel = proptest::option::of((1..6 * MS, 1..20 * MS, any::<bool>()));
    (buckets, 1..4_000u32, 1_000..200_000u64, 1..200u32, codel).prop_map(
        |(buckets, quantum_bytes, limit_bytes, limit_packets, codel)| FlowOptions {
            buckets,
            quantum_bytes,
            limit_bytes,
            limit_packets,
            aqm: codel.map_or(Aqm::None, |(target_ns, interval_ns, ecn)| {
                Aqm::Codel(CodelOptions { target_ns, interval_ns, ecn })
            }),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every packet has the same outcome as in the reference, in the same order.
    #[test]
    fn flows_follow_the_rfc(options in options(), steps in steps()) {
        let mut flows = FlowQueues::new(options);
        let codel = match options.aqm {
            Aqm::None => None,
            Aqm::Codel(of) => Some((of.target_ns, of.interval_ns, of.ecn)),
        };
        let mut model = FlowModel::new(FlowSpec {
            buckets: options.buckets,
            quantum: options.quantum_bytes,
            limit_bytes: options.limit_bytes,
            limit_packets: options.limit_packets as usize,
            codel,
        });
        let (mut now_ns, mut number) = (0, 0);
        for (wait_ns, step) in steps {
            now_ns += wait_ns;
            let mut left = Vec::new();
            let expected = match step {
                Step::Push { hash, bytes, capable } => {
                    let ecn = if capable { Ecn::Capable } else { Ecn::NotCapable };
                    let packet =
                        FlowPacket { packet: Packet::new(bytes), number, arrival_ns: now_ns, ecn };
                    let full = |of: FlowPacket| left.push(FlowOutcome::Full(of.number));
                    flows.push(hash, packet, &mut { full });
                    let arrival = FlowArrival { hash, number, bytes, arrival_ns: now_ns, capable };
                    number += 1;
                    model.push(arrival)
                }
                Step::Pull => {
                    let dropped = |of: FlowPacket| left.push(FlowOutcome::Dropped(of.number));
                    let pulled = flows.pull(now_ns, &mut { dropped });
                    left.extend(pulled.map(|(of, mark)| match mark {
                        true => FlowOutcome::Marked(of.number),
                        false => FlowOutcome::Delivered(of.number),
                    }));
                    model.pull(now_ns)
                }
            };
            prop_assert_eq!(left, expected, "at {} ns", now_ns);
            prop_assert_eq!(flows.packets() as usize, model.packets());
        }
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
    aqm: Aqm::None,
};

/// A packet of a sparse flow leaves after the head, whatever waits in other flows.
#[test]
fn a_sparse_flow_passes_the_backlog_of_the_others() {
    let mut scheduler = Scheduler::new(Fifo, Heap::default());
    let stream = scheduler.add_stream(Contract::new().flows(WITHOUT_AQM)).unwrap();
    for packet in 0..200 {
        let bulk = Packet { bytes: 1_500, tag: packet };
        scheduler.enqueue_flow(0, stream, bulk, (7, Ecn::NotCapable), &mut ()).unwrap();
    }
    let first: Vec<_> = (0..4).map(|_| scheduler.decide(0, &mut ()).unwrap().tag).collect();
    assert_eq!(first, [0, 1, 2, 3]);
    let sparse = Packet { bytes: 100, tag: 999 };
    assert_eq!(scheduler.enqueue_flow(1, stream, sparse, (8, Ecn::NotCapable), &mut ()), Ok(200));
    assert_eq!((scheduler.waiting(stream), scheduler.total_waiting()), (197, 197));
    let next: Vec<_> = (0..3).map(|_| scheduler.decide(1, &mut ()).unwrap().tag).collect();
    assert_eq!(next, [4, 999, 5], "the head was chosen before");
}

/// Two streams share the link by their weights; in one, two flows share the stream's part equally,
/// though one has four times the packets.
#[test]
fn flows_share_the_part_of_their_stream() {
    let link = Link { rate_bps: 8_000_000_000, overhead_bytes: 0 };
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
            scheduler.enqueue_flow(0, by_flow, one(1), (1, Ecn::NotCapable), &mut ()).unwrap();
        }
        if packet < 900 {
            scheduler.enqueue_flow(0, by_flow, one(2), (2, Ecn::NotCapable), &mut ()).unwrap();
        }
    }
    let mut served = [0; 4];
    for now in 0..800 {
        let tag = scheduler.decide(now * 1_000, &mut ()).unwrap().tag;
        served[usize::try_from(tag).unwrap()] += 1;
    }
    assert_eq!(served, [0, 100, 100, 600]);
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
        for flow in 0..3 {
            let ecn = if flow == 1 { Ecn::Capable } else { Ecn::NotCapable };
            let packet = Packet { bytes: 1_000, tag: arrived };
            let queued = scheduler.enqueue_flow(now_ns, stream, packet, (flow, ecn), &mut observer);
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
    let by_aqm = |of: &&Departure| of.event == millstream::Event::DroppedByAqm;
    let aqm = observer.dropped.iter().filter(by_aqm).count();
    assert!(aqm > 0 && aqm < observer.dropped.len() && !observer.marked.is_empty());
    let mut all: Vec<u64> = observer.dropped.iter().map(|departure| departure.tag).collect();
    assert!(observer.marked.iter().all(|packet| sent.contains(packet) && packet % 3 == 1));
    all.extend(&sent);
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..arrived));
}

#[test]
fn a_stream_that_drops_late_packets_has_no_flows() {
    let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
    let contract = Contract::new().period_ns(1).unwrap().late(Late::Drop).flows(WITHOUT_AQM);
    let error = scheduler.add_stream(contract).unwrap_err();
    assert_eq!(error.to_string(), "a stream with flows needs `late` \"send\"");
}
