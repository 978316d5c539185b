//! The live machine on ports in memory, compared with etherparse.

use crate::support::{input, output};
use etherparse::{Ipv4HeaderSlice, PacketBuilder, SlicedPacket};
use millstream::{Contract, Link};
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, Header, LiveMachine, MemoryPort, NextHop, Pool,
    Routes,
};
use millstream_router::{Batch, InputId, OutputId, PathId, PathPlan, Plan, PortId, Router, Stages};
use millstream_scenario::Match;
use proptest::collection::vec;
use proptest::prelude::*;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn frame(source: [u8; 4], destination: [u8; 4], hops: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([4; 6], ROUTER).ipv4(source, destination, hops);
    let mut bytes = Vec::new();
    builder.udp(1, port).write(&mut bytes, payload).unwrap();
    bytes
}

/// Returns a route for 10.2.0.0/16 by output 1.
fn routes() -> Routes {
    let mut routes = Routes::default();
    let hop = NextHop { output: PortId(1), from: ROUTER, to: NEIGHBOUR };
    routes.add("10.2.0.0/16".parse().unwrap(), hop);
    routes
}

proptest! {
    #[test]
    fn forwarded_packets_have_the_checksum_that_etherparse_computes(
        source in any::<[u8; 4]>(), low in any::<[u8; 2]>(), hops in any::<u8>(),
        port in any::<u16>(), payload in vec(any::<u8>(), 0..60),
    ) {
        let destination = [10, 2, low[0], low[1]];
        let sent = frame(source, destination, hops, port, &payload);
        let mut got = sent.clone();
        let output = Forwarder::new(routes()).forward(&mut got);
        prop_assert_eq!(output, (hops > 1).then_some(PortId(1)));
        if output.is_some() {
            let header = Ipv4HeaderSlice::from_slice(&got[14..]).unwrap().to_header();
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            prop_assert_eq!(header.time_to_live, hops - 1);
            prop_assert_eq!((&got[..6], &got[6..12]), (&NEIGHBOUR[..], &ROUTER[..]));
            prop_assert_eq!(&got[34..], &sent[34..]);
        }
    }

    #[test]
    fn header_fields_equal_those_of_etherparse(
        mut bytes in vec(any::<u8>(), 0..90), valid in any::<bool>(), at in 0..60usize, to: u8,
    ) {
        if valid {
            bytes = frame([1, 2, 3, 4], [10, 2, 3, 4], 9, 77, &bytes);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
        }
        let ours = Header::parse(&bytes);
        if bytes.get(12..14) != Some(&[8, 0]) {
            prop_assert_eq!(ours, None);
            return Ok(());
        }
        let theirs = Ipv4HeaderSlice::from_slice(&bytes[14..]).ok().filter(|slice| {
            let total = usize::from(slice.total_len());
            total >= slice.slice().len() && bytes.len() - 14 >= total
        });
        prop_assert_eq!(ours.is_some(), theirs.is_some());
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.source, theirs.source_addr());
            prop_assert_eq!(ours.destination, theirs.destination_addr());
            prop_assert_eq!(ours.dscp, theirs.dcp().value());
            prop_assert_eq!(ours.protocol, theirs.protocol().0);
            if let Ok(SlicedPacket { transport: Some(etherparse::TransportSlice::Udp(udp)), .. }) =
                SlicedPacket::from_ethernet(&bytes)
            {
                prop_assert_eq!(ours.ports, Some((udp.source_port(), udp.destination_port())));
            }
        }
    }

    #[test]
    fn no_frame_makes_the_fast_path_panic(mut bytes in vec(any::<u8>(), 0..90), ip: bool) {
        if ip && bytes.len() > 33 {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            bytes[30..32].copy_from_slice(&[10, 2]);
        }
        let _ = Forwarder::new(routes()).forward(&mut bytes);
    }

    #[test]
    fn every_packet_is_accounted_for_and_every_buffer_is_returned(
        buffers in 1..200u32, queue in 1..64u32, batch in 1..64u32,
        lots in vec((0..4usize, 1..300u64), 1..4),
    ) {
        let kinds = [
            frame([1; 4], [10, 2, 0, 1], 9, 1, &[0; 18]),
            frame([1; 4], [10, 2, 0, 1], 1, 1, &[0; 18]), // TTL 1: expires here
            frame([1; 4], [9, 9, 9, 9], 9, 1, &[0; 18]),  // no route
            vec![7; BUFFER_BYTES + 1],                    // longer than a buffer
        ];
        let clock = Clock::default();
        let classifier = Classifier::new(vec![Match::default()]);
        let function = Forwarder::new(routes());
        let mut machine = LiveMachine::new(clock, Pool::new(buffers), classifier, function);
        let frames: Vec<_> = lots.iter().map(|lot| kinds[lot.0].clone()).collect();
        let packets: u64 = lots.iter().map(|lot| lot.1).sum();
        machine.add(MemoryPort::new(frames, packets), ROUTER, Link::new(1_000_000_000, 0));
        machine.add(MemoryPort::default().keeping(), ROUTER, Link::new(100_000_000_000, 0));
        let plan = Plan {
            stages: Stages::Three,
            batch: Batch { packets: batch, time_ns: 30_000, batch_wait_ns: 50_000 },
            inputs: vec![input(1), input(1)],
            paths: vec![PathPlan {
                reservation: 1,
                drops: false,
                input_queue: queue,
                output_queue: queue,
                outputs: vec![(OutputId(0), Contract::new()), (OutputId(1), Contract::new())],
            }],
            outputs: vec![output(1, "wf2q+", 1_000_000), output(1, "wf2q+", 1_000_000)],
        };
        let mut router = Router::new(&plan, machine).unwrap();
        // Steal time is charged to the interrupted process, which then waits for other processes.
        let mut steps = 0u64;
        while router.machine().counters(PortId(0)).received < packets
            || router.waiting(PathId(0)) != (0, 0)
            || router.staged(OutputId(1)) > 0
        {
            router.step();
            router.resume();
            steps += 1;
            prop_assert!(steps < 100_000_000, "the router does not drain");
        }
        let counters = router.path(PathId(0));
        let port = router.machine().counters(PortId(0));
        prop_assert_eq!(router.waiting(PathId(0)), (0, 0));
        prop_assert_eq!(port.received, packets);
        prop_assert_eq!(router.input(InputId(0)).unclassified, port.unusable);
        prop_assert_eq!(port.received, port.unusable + counters.received);
        prop_assert_eq!(counters.received, counters.departed());
        prop_assert_eq!(counters.dropped_wrong_output, 0);
        prop_assert_eq!(router.machine().counters(PortId(1)).transmitted, counters.sent);
        prop_assert_eq!(router.machine().free_buffers(), buffers as usize);
        let kept = router.machine_mut().port_mut(PortId(1));
        prop_assert_eq!(kept.kept().len() as u64, counters.sent);
        prop_assert!(kept.kept().iter().all(|frame| frame[22] == 8));
    }
}

/// Returns a router with a path to unresolved hosts on the network of port 0.
fn router_to_unresolved(frames: Vec<Vec<u8>>, buffers: u32) -> Router<LiveMachine<MemoryPort>> {
    let net = "10.0.0.1/24".parse().unwrap();
    let mut routes = Routes::default();
    routes.add_resolved(net, PortId(0), ROUTER, None);
    let classifier = Classifier::new(vec![Match::default()]);
    let function = Forwarder::new(routes);
    let mut machine = LiveMachine::new(Clock::default(), Pool::new(buffers), classifier, function);
    let packets = frames.len() as u64;
    machine.add(MemoryPort::new(frames, packets).keeping(), ROUTER, Link::new(100_000_000_000, 0));
    machine.set_address(PortId(0), Some(net));
    Router::new(&unresolved_plan(), machine).unwrap()
}

fn unresolved_plan() -> Plan {
    Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs: vec![input(1)],
        paths: vec![PathPlan {
            reservation: 1,
            drops: false,
            input_queue: 100,
            output_queue: 100,
            outputs: vec![(OutputId(0), Contract::new())],
        }],
        outputs: vec![output(1, "wf2q+", 1_000_000)],
    }
}

/// Runs the router and returns the ARP requests and the packets that it sent. A process interrupted
/// for less than the steal threshold waits for thousands of other steps.
fn runs(router: &mut Router<LiveMachine<MemoryPort>>) -> (usize, Vec<Vec<u8>>) {
    for _ in 0..50_000 {
        router.step();
        router.resume();
    }
    let sent = router.machine_mut().port_mut(PortId(0)).kept().to_vec();
    let (arp, others): (Vec<_>, Vec<_>) =
        sent.into_iter().partition(|frame| frame[12..14] == [8, 6]);
    (arp.len(), others)
}

fn answer(host: [u8; 4]) -> MemoryPort {
    let arp = etherparse::ArpEthIpv4Packet {
        operation: etherparse::ArpOperation::REPLY,
        sender_mac: NEIGHBOUR,
        sender_ipv4: host,
        target_mac: ROUTER,
        target_ipv4: [10, 0, 0, 1],
    };
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(NEIGHBOUR, ROUTER).arp(arp.into()).write(&mut frame).unwrap();
    MemoryPort::new(vec![frame], 1).keeping()
}

#[test]
fn packets_wait_for_their_neighbour_and_leave_in_arrival_order() {
    let (known, other) = ([10, 0, 0, 9], [10, 0, 0, 10]);
    let to = |host, port| frame([1; 4], host, 9, port, &[0; 18]);
    let mut frames: Vec<_> = (0..40).map(|port| to(known, port)).collect();
    frames.push(to(other, 7));
    let mut router = router_to_unresolved(frames, 1_000);
    let (requests, sent) = runs(&mut router);
    assert_eq!((requests, sent.len()), (2, 0), "one request per neighbour");
    let path = router.path(PathId(0));
    // At most 32 packets are held per neighbour; the other neighbour's packet is held, too.
    assert_eq!((path.received, path.dropped_by_function), (41, 8));
    assert_eq!(router.waiting(PathId(0)), (33, 0));
    // A reload keeps the held packets.
    router.reload(&unresolved_plan(), &[Some(PathId(0))]).unwrap();
    let (_, sent) = runs(&mut router);
    assert_eq!((router.waiting(PathId(0)), sent.len()), ((33, 0), 0));
    *router.machine_mut().port_mut(PortId(0)) = answer(known);
    let (_, sent) = runs(&mut router);
    let ports: Vec<u16> =
        sent.iter().map(|frame| Header::parse(frame).unwrap().ports.unwrap().1).collect();
    assert_eq!(ports, (0..32).collect::<Vec<_>>());
    assert!(sent.iter().all(|frame| frame[..6] == NEIGHBOUR));
    assert_eq!(router.waiting(PathId(0)), (1, 0), "the other neighbour has not answered");
    assert_eq!(router.path(PathId(0)).sent, 32);
    assert_eq!(router.machine().free_buffers(), 999);
}

#[test]
fn held_packets_leave_most_buffers_free() {
    let frames = (0..64).map(|host| frame([1; 4], [10, 0, 0, 100 + host], 9, 1, &[0; 18]));
    let mut router = router_to_unresolved(frames.collect(), 64);
    runs(&mut router);
    assert_eq!(router.waiting(PathId(0)), (8, 0));
    assert_eq!(router.path(PathId(0)).dropped_by_function, 56);
    assert_eq!(router.machine().free_buffers(), 56);
}
