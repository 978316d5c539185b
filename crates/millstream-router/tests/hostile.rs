//! Frames as nobody honest sends them, through a whole router with addresses of its own: each is
//! accounted for, no buffer is lost, and a frame makes the router say four things at most: it asks three times for
//! a neighbour, then sends an error.

#![allow(clippy::unwrap_used)]

mod support;

use etherparse::{ArpEthIpv4Packet, ArpOperation, PacketBuilder};
use millstream::Contract;
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, Hop, LiveMachine, MemoryPort, Pool, Routes,
};
use millstream_router::{Batch, Machine, PathPlan, Plan, Router, Stages};
use millstream_scenario::Match;
use proptest::collection::vec;
use proptest::prelude::*;
use support::{input, output};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 66];
const BUFFERS: u32 = 64;

fn udp(source: [u8; 4], destination: [u8; 4], hops: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2(STRANGER, ROUTER).ipv4(source, destination, hops);
    builder.udp(1, 2).write(&mut bytes, &[0; 30]).unwrap();
    bytes
}

/// `bytes` at `at` are others, and the header's checksum is right again.
fn changed(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    let length = usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let words = frame[14..frame.len().min(14 + length.max(20))].chunks(2);
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn arp(operation: u16, mac: [u8; 6], from: [u8; 4], of: [u8; 4], to: [u8; 6]) -> Vec<u8> {
    let packet = ArpEthIpv4Packet {
        operation: ArpOperation(operation),
        sender_mac: mac,
        sender_ipv4: from,
        target_mac: [0; 6],
        target_ipv4: of,
    };
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2(mac, to).arp(packet.into()).write(&mut bytes).unwrap();
    bytes
}

fn echo(source: [u8; 4], destination: [u8; 4], to: [u8; 6]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2(STRANGER, to).ipv4(source, destination, 9);
    builder.icmpv4_echo_request(1, 1).write(&mut bytes, &[7; 40]).unwrap();
    bytes
}

fn corpus() -> Vec<Vec<u8>> {
    let plain = || udp([10, 0, 0, 9], [10, 2, 0, 1], 9);
    let (us, here) = ([10, 0, 0, 1], [10, 0, 0, 9]);
    let mut frames = vec![
        vec![],
        vec![0xff; 13],
        vec![0; 60],
        vec![0xff; BUFFER_BYTES],
        vec![0xff; BUFFER_BYTES + 1],
        changed(plain(), 14, &[0x44]),         // a header of 16 bytes
        changed(plain(), 14, &[0x4f]),         // one longer than it should be
        changed(plain(), 14, &[0x65]),         // version 6
        changed(plain(), 16, &[0, 19]),        // shorter than its header
        changed(plain(), 16, &[0xff, 0xff]),   // longer than the frame
        changed(plain(), 20, &[0x20, 0]),      // a first fragment
        changed(plain(), 20, &[0x1f, 0xff]),   // a last one, far out
        changed(plain(), 26, &[255; 4]),       // from everybody
        changed(plain(), 26, &[0; 4]),         // from nobody
        changed(plain(), 26, &[127, 0, 0, 1]), // from within
        changed(plain(), 26, &[224, 0, 0, 1]), // from a group
        changed(plain(), 26, &us),             // from us
        changed(plain(), 30, &[255; 4]),
        changed(plain(), 30, &[224, 0, 0, 1]),
        udp(us, us, 9),
        udp(here, [10, 2, 0, 1], 0),
        udp(here, [10, 2, 0, 1], 1),
        udp([224, 0, 0, 1], [10, 2, 0, 1], 1), // no error to a group
        udp(here, [9, 9, 9, 9], 9),            // no route
        udp(here, [10, 0, 0, 200], 9),         // nobody there
        echo(here, us, ROUTER),
        echo([255; 4], us, ROUTER),
        echo(here, us, [0xff; 6]),
        changed(echo(here, us, ROUTER), 20, &[0x20, 0]),
        arp(1, STRANGER, here, us, [0xff; 6]),
        arp(2, STRANGER, [10, 0, 0, 200], us, ROUTER),
        arp(2, STRANGER, us, us, [0xff; 6]), // somebody has our address
        arp(1, [0xff; 6], here, us, [0xff; 6]), // everybody asks
        arp(9, STRANGER, here, us, ROUTER),
        arp(1, STRANGER, [8, 8, 8, 8], us, [0xff; 6]),
    ];
    for frame in frames.clone() {
        frames.extend(
            [14, 20, 33, 34, 41]
                .into_iter()
                .filter_map(|length| frame.get(..length).map(<[u8]>::to_vec)),
        );
    }
    frames
}

/// Sends the frames through a router, which may hide all hosts behind its address; every one of them is
/// accounted for.
fn survives(frames: Vec<Vec<u8>>, nat: bool) -> Result<Vec<Vec<u8>>, TestCaseError> {
    let many = frames.len() as u64;
    let net = "10.0.0.1/24".parse().unwrap();
    let mut routes = Routes::default();
    routes.add_resolved(net, 0, ROUTER, None);
    let hop = Hop { output: 1, from: ROUTER, to: [9; 6] };
    routes.add("10.2.0.0/16".parse().unwrap(), hop);
    let classifier = Classifier::new(vec![Match::default()]);
    let function = Forwarder::new(routes);
    let (clock, hand) = Clock::by_hand();
    let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
    machine.add(MemoryPort::new(frames, many).keeping(), ROUTER, 100_000_000_000, 0);
    machine.add(MemoryPort::default().keeping(), ROUTER, 100_000_000_000, 0);
    machine.set_address(0, Some(net));
    machine.translate(0, nat.then_some((4, 2)));
    machine.now_ns();
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX },
        inputs: vec![input(10), input(1)],
        paths: vec![PathPlan {
            reservation: 10,
            drops: false,
            input_queue: 32,
            output_queue: 32,
            outputs: vec![(0, Contract::new()), (1, Contract::new())],
        }],
        outputs: vec![output(1, "wf2q+", 1_000_000), output(10, "wf2q+", 1_000_000)],
    };
    let mut router = Router::new(&plan, machine).unwrap();
    let mut steps = 0u64;
    while router.machine().counters(0).received < many
        || router.waiting(0) != (0, 0)
        || router.staged(0) + router.staged(1) > 0
    {
        // Who waits for an answer waits for seconds.
        hand.increment(100_000);
        router.step();
        router.resume();
        steps += 1;
        prop_assert!(steps < 1_000_000, "it does not drain");
    }
    let (port, path) = (router.machine().counters(0), router.path(0));
    prop_assert_eq!(port.received, router.input(0).unclassified + path.received);
    prop_assert!(router.input(0).unclassified >= port.unfit + port.for_router);
    prop_assert_eq!(path.received, path.gone());
    prop_assert!(port.originated <= 4 * many, "it says more than it was asked");
    prop_assert_eq!(router.machine().free_buffers(), BUFFERS as usize);
    let said = router.machine_mut().port_mut(0).kept().to_vec();
    prop_assert_eq!(said.len() as u64, port.transmitted + port.originated);
    Ok(said)
}

#[test]
fn the_corpus_is_survived_and_answered_only_where_that_is_right() {
    survives(corpus(), true).unwrap();
    let said = survives(corpus(), false).unwrap();
    let of = |kind: [u8; 2]| said.iter().filter(|frame| frame[12..14] == kind).collect::<Vec<_>>();
    // Two of the requests can be answered; neighbours are asked for who sent or was sent to.
    let answers = of([8, 6]).into_iter().filter(|frame| frame[21] == 2).count();
    assert_eq!(answers, 2, "the one beyond the network is answered, too: {said:?}");
    // The stranger that says it is 10.0.0.200 gets what is for it; all else is the router's own.
    for frame in of([8, 0]).into_iter().filter(|frame| frame[30..34] != [10, 0, 0, 200]) {
        assert_eq!(frame[23], 1, "the router itself speaks ICMP only");
        assert!(frame[0] & 1 == 0 && frame[30] < 224, "to one host only: {frame:?}");
    }
}

proptest! {
    #[test]
    fn what_becomes_of_the_corpus_by_chance_is_survived(
        picks in vec((any::<prop::sample::Index>(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)), 1..80),
        nat in any::<bool>(),
    ) {
        let corpus = corpus();
        let frames = picks.into_iter().map(|(pick, changes)| {
            let mut frame = pick.get(&corpus).clone();
            for (at, to) in changes {
                if !frame.is_empty() {
                    let at = at.index(frame.len());
                    frame[at] = to;
                }
            }
            frame
        });
        survives(frames.collect(), nat)?;
    }
}
