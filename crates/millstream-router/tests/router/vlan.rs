//! VLAN ports on a shared device in memory. Checks which port receives a frame, which tag it leaves
//! with, and that every frame is accounted for. etherparse reads the tags.

use crate::support::{input, output};
use etherparse::{LinkExtSlice, NetSlice, PacketBuilder, SlicedPacket};
use millstream::{Contract, Link};
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, LiveMachine, MemoryPort, NextHop, Pool, Port,
    PortError, Routes, VlanPort,
};
use millstream_router::{
    Batch, OutputId, PacketHandle, PathId, PathPlan, Plan, PortId, Router, Stages, Step,
};
use millstream_scenario::{Match, PcpSource};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The VLAN of each port.
const VLANS: [Option<u16>; 3] = [Some(10), Some(20), None];

/// A device in memory that the test can inspect while ports use it.
#[derive(Clone)]
struct Wire(Rc<RefCell<MemoryPort>>);

impl Port for Wire {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        self.0.borrow_mut().receive(pool, most, into)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        self.0.borrow_mut().transmit(pool, packets)
    }

    fn ended(&self) -> bool {
        self.0.borrow().ended()
    }

    fn longest_bytes(&self) -> u32 {
        1_514
    }
}

/// Returns a packet to 10.`network`.0.0/16 with these tags: priority and VLAN.
fn frame(tags: &[(u8, u16)], network: u8, dscp: u8, payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder =
        PacketBuilder::ethernet2(NEIGHBOUR, ROUTER).ipv4([10, 0, 0, 9], [10, network, 0, 9], 9);
    builder.udp(1, 2).write(&mut frame, &vec![0; payload]).unwrap();
    frame[15] = dscp << 2;
    frame[24..26].fill(0);
    let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.ones_complement().to_ne_bytes());
    for (pcp, vlan) in tags.iter().rev() {
        let tag = u16::from(*pcp) << 13 | vlan;
        frame.splice(12..12, [0x81, 0].into_iter().chain(tag.to_be_bytes()));
    }
    frame
}

/// The tags of a frame (priority and VLAN) and its destination.
type Seen = (Vec<(u8, u16)>, [u8; 4]);

fn seen(frame: &[u8]) -> Seen {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let tag = |of: &LinkExtSlice| match of {
        LinkExtSlice::Vlan(vlan) => {
            (vlan.priority_code_point().value(), vlan.vlan_identifier().value())
        }
        other => panic!("{other:?}"),
    };
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("{packet:?}") };
    (packet.link_exts.iter().map(tag).collect(), ip.header().destination())
}

struct Bench {
    router: Router<LiveMachine<VlanPort<Wire>>>,
    wire: Wire,
}

/// Ports 0, 1 and 2 are `VLANS` on one device; port n leads to 10.n.0.0/16.
fn bench(rules: Vec<Match>, frames: Vec<Vec<u8>>, pcp: PcpSource) -> Bench {
    let many = frames.len() as u64;
    let wire = Wire(Rc::new(RefCell::new(MemoryPort::new(frames, many).keeping())));
    let mut routes = Routes::default();
    for output in 0..3u8 {
        let hop = NextHop { output: PortId(output.into()), from: ROUTER, to: NEIGHBOUR };
        routes.add(format!("10.{output}.0.0/16").parse().unwrap(), hop);
    }
    let paths = rules.len();
    let mut machine = LiveMachine::new(
        Clock::default(),
        Pool::new(4_096),
        Classifier::new(rules),
        Forwarder::new(routes),
    );
    for port in VlanPort::share(wire.clone(), &VLANS.map(|vlan| (vlan, pcp))) {
        machine.add(port, ROUTER, Link::new(100_000_000_000, 0));
    }
    let path = PathPlan {
        drops: false,
        reservation: 1,
        input_queue: 1_024,
        output_queue: 1_024,
        outputs: (0..3).map(|output| (OutputId(output), Contract::new())).collect(),
    };
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs: vec![input(1); 3],
        paths: vec![path; paths],
        outputs: (0..3).map(|_| output(1, "wf2q+", 1_000_000_000)).collect(),
    };
    Bench { router: Router::new(&plan, machine).unwrap(), wire }
}

impl Bench {
    /// Runs until no packet is left.
    fn run(&mut self) {
        let queued = |router: &Router<_>| {
            let paths = (0..router.sizes().1).map(|path| router.waiting(PathId(path)));
            paths.map(|(before, after)| before + after).sum::<usize>()
                + (0..3).map(|output| router.staged(OutputId(output))).sum::<usize>()
        };
        let began = Instant::now();
        while !self.router.machine().ended() || queued(&self.router) > 0 {
            if let Step::Idle { .. } = self.router.step() {
                self.router.resume();
            }
            assert!(began.elapsed() < Duration::from_secs(30), "packets remain queued");
        }
    }

    fn sent(&self) -> Vec<Seen> {
        self.wire.0.borrow().kept().iter().map(|frame| seen(frame)).collect()
    }
}

#[test]
fn a_packet_between_vlans_keeps_its_priority_and_gets_the_tag_of_its_output() {
    let all = || vec![Match::default()];
    for (tags, network, left) in [
        (&[(5, 10)][..], 1, &[(5, 20)][..]),
        (&[(5, 20)], 0, &[(5, 10)]),
        (&[(5, 10)], 2, &[]),
        (&[(3, 0)], 1, &[(3, 20)]),
        (&[(3, 0)], 2, &[]),
        (&[], 1, &[(0, 20)]),
        (&[], 2, &[]),
    ] {
        let mut bench = bench(all(), vec![frame(tags, network, 46, 30)], PcpSource::Keep);
        bench.run();
        assert_eq!(bench.sent(), [(left.to_vec(), [10, network, 0, 9])], "{tags:?}");
    }
    // With `PcpSource::Dscp` the priority comes from the DSCP.
    let mut bench = bench(all(), vec![frame(&[(1, 10)], 1, 46, 30)], PcpSource::Dscp);
    bench.run();
    assert_eq!(bench.sent(), [(vec![(5, 20)], [10, 1, 0, 9])]);
}

#[test]
fn paths_match_by_priority_and_vlan() {
    let rule = |pcp, vlan| Match { pcp, vlan, ..Match::default() };
    let rules = vec![
        rule(Some(5), Some(10)),
        rule(Some(5), None),
        rule(None, Some(20)),
        rule(Some(0), None),
        Match::default(),
    ];
    for (tags, path) in [
        (&[(5, 10)][..], 0),
        (&[(5, 20)], 1),
        (&[(5, 0)], 1),
        (&[(4, 20)], 2),
        (&[(0, 20)], 2),
        (&[(0, 10)], 3),
        (&[(0, 0)], 3),
        (&[], 4),
    ] {
        let mut bench = bench(rules.clone(), vec![frame(tags, 1, 0, 30)], PcpSource::Keep);
        bench.run();
        let received: Vec<_> = (0..5).map(|at| bench.router.path(PathId(at)).received).collect();
        assert_eq!(
            received.iter().position(|count| *count == 1),
            Some(path),
            "{tags:?}: {received:?}"
        );
    }
}

#[test]
fn a_tag_does_not_count_towards_the_mtu_or_the_buffer_size() {
    // The MTU is 1,514 bytes without the tag.
    for (payload, sent) in [(1_472, 1), (1_473, 0)] {
        let sent_frame = frame(&[(0, 10)], 1, 0, payload);
        let mut bench = bench(vec![Match::default()], vec![sent_frame], PcpSource::Keep);
        bench.run();
        assert_eq!(bench.sent().len(), sent, "{payload}");
    }
    let mut pool = Pool::new(2);
    let longest = frame(&[(7, 4_094)], 1, 0, BUFFER_BYTES - 42);
    assert_eq!(longest.len(), BUFFER_BYTES + 4);
    let packet = pool.copy(&longest).unwrap();
    assert_eq!(Pool::length(packet) as usize, BUFFER_BYTES);
    assert_eq!(pool.wire(packet), longest);
    assert_eq!(pool.copy(&frame(&[(7, 4_094)], 1, 0, BUFFER_BYTES - 41)), None);
    // A device that writes into the buffer directly.
    let short = frame(&[(7, 4_094)], 1, 0, 100);
    let filled = pool.fill(|buffer| {
        buffer[..short.len()].copy_from_slice(&short);
        Some(short.len())
    });
    assert_eq!(pool.wire(filled.unwrap()), short);
    assert_eq!(pool.frame(filled.unwrap()), frame(&[], 1, 0, 100));
}

proptest! {
    /// Every frame reaches the port of its VLAN and leaves by the port of its destination with its
    /// priority. Frames of unknown VLANs are counted, and no buffer leaks.
    #[test]
    fn every_frame_reaches_the_port_of_its_vlan_or_is_counted(
        kinds in vec((prop_oneof![
            Just(None), Just(Some(0)), Just(Some(10)), Just(Some(20)),
            (1..4096u16).prop_map(Some)],
            0..8u8, 0..3u8, prop::bool::weighted(0.1)), 0..200),
    ) {
        let tags = |vlan: Option<u16>, pcp: u8, twice: bool| -> Vec<_> {
            vlan.iter().map(|vlan| (pcp, *vlan)).chain(twice.then_some((0, 5))).collect()
        };
        let make = |(vlan, pcp, network, twice): &(Option<u16>, u8, u8, bool)| {
            frame(&tags(*vlan, *pcp, *twice && vlan.is_some()), *network, 0, 20)
        };
        let frames: Vec<_> = kinds.iter().map(make).collect();
        let mut bench = bench(vec![Match::default()], frames, PcpSource::Keep);
        bench.run();
        let owner = |vlan: Option<u16>| {
            VLANS.iter().position(|of| of.unwrap_or(0) == vlan.unwrap_or(0))
        };
        let stray = |(vlan, _, _, twice): &(Option<u16>, u8, u8, bool)| {
            owner(*vlan).is_none() || *twice && vlan.is_some()
        };
        let strays = kinds.iter().filter(|kind| stray(kind)).count() as u64;
        let machine = bench.router.machine_mut();
        let counted: u64 = (0..3).map(|port| machine.port_mut(PortId(port)).unknown_vlan()).sum();
        prop_assert_eq!(counted, strays);
        let unusable: u64 = (0..3).map(|port| machine.counters(PortId(port)).unusable).sum();
        prop_assert_eq!(unusable, strays, "`unusable` of the machine includes them");
        let received: u64 = (0..3).map(|port| machine.counters(PortId(port)).received).sum();
        prop_assert_eq!(received, kinds.len() as u64);
        prop_assert_eq!(machine.free_buffers(), 4_096);
        let sent = bench.sent();
        prop_assert_eq!(sent.len() as u64, kinds.len() as u64 - strays);
        for network in 0..3u8 {
            let vlan = |tags: &[(u8, u16)]| tags.first().map_or(0, |tag| tag.1);
            let expected: Vec<u8> = kinds.iter().filter(|kind| !stray(kind) && kind.2 == network)
                .map(|kind| if kind.0.is_some() { kind.1 } else { 0 }).collect();
            let to = VLANS[usize::from(network)].unwrap_or(0);
            let left: Vec<_> = sent.iter().filter(|of| of.1[1] == network).collect();
            prop_assert!(left.iter().all(|of| vlan(&of.0) == to));
            prop_assert_eq!(left.len(), expected.len());
            if to > 0 {
                let mut pcps: Vec<_> = left.iter().map(|of| of.0[0].0).collect();
                let mut expected = expected;
                pcps.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(pcps, expected);
            }
        }
    }
}

#[test]
fn frames_for_a_port_that_does_not_read_are_bounded_and_counted() {
    let frames = vec![frame(&[(0, 20)], 0, 0, 20); 1_000];
    let memory = MemoryPort::new(frames, 1_000);
    let mut pool = Pool::new(4_096);
    let mut ports = VlanPort::share(memory, &VLANS.map(|vlan| (vlan, PcpSource::Keep)));
    let mut into = Vec::new();
    for _ in 0..100 {
        assert_eq!(ports[0].receive(&mut pool, 32, &mut into).unwrap(), 0);
    }
    assert!(into.is_empty());
    let lost = ports[1].lost();
    let mut found = 0;
    while !ports[1].ended() {
        found += ports[1].receive(&mut pool, 32, &mut into).unwrap() as u64;
    }
    assert_eq!((found, found + lost, ports[0].lost()), (256, 1_000, 0));
    assert!(ports[0].ended());
}
