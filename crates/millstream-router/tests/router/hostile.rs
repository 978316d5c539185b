//! Malformed and spoofed frames through a router with addresses: each frame is accounted for and no
//! buffer leaks. A frame causes at most four packets: three neighbour probes and an error.

use crate::support::{input, output};
use etherparse::{ArpEthIpv4Packet, ArpOperation, PacketBuilder};
use millstream::{Contract, Link};
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, LiveMachine, MemoryPort, NextHop, Pool, Routes,
};
use millstream_router::{
    Batch, InputId, Machine, OutputId, PathId, PathPlan, Plan, PortId, Router, Stages,
};
use millstream_scenario::{Match, PortForward, PortNat};
use proptest::collection::vec;
use proptest::prelude::*;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 66];
const BUFFERS: u32 = 64;

fn udp(source: [u8; 4], destination: [u8; 4], hops: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2(STRANGER, ROUTER).ipv4(source, destination, hops);
    builder.udp(1, 2).write(&mut bytes, &[0; 30]).unwrap();
    bytes
}

/// Replaces the bytes at `at` and fixes the IPv4 header checksum.
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

/// The router's IPv6 address, a neighbour's, and a routed one.
const US_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const HERE_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const FAR_V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn udp_v6(source: [u8; 16], destination: [u8; 16], hops: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2(STRANGER, ROUTER).ipv6(source, destination, hops);
    builder.udp(1, 2).write(&mut bytes, &[0; 30]).unwrap();
    bytes
}

/// Builds an ICMPv6 message with a valid checksum.
fn icmp_v6(
    source: [u8; 16],
    destination: [u8; 16],
    hops: u8,
    kind: [u8; 8],
    rest: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let [.., a, b, c, d] = destination;
    let to = if destination[0] == 0xff { [0x33, 0x33, a, b, c, d] } else { ROUTER };
    let builder = PacketBuilder::ethernet2(STRANGER, to).ipv6(source, destination, hops);
    let [kind, code, _, _, rest_of_head @ ..] = kind;
    builder.icmpv6_raw(kind, code, rest_of_head).write(&mut bytes, rest).unwrap();
    bytes
}

/// Inserts an extension header after the IPv6 header; `bytes` begin with the next header field.
fn extended(mut frame: Vec<u8>, number: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] = frame[20];
    frame[20] = number;
    let length = u16::try_from(frame.len() + bytes.len() - 54).unwrap();
    frame.splice(54..54, bytes);
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    frame
}

fn corpus_v6() -> Vec<Vec<u8>> {
    let plain = || udp_v6(HERE_V6, FAR_V6, 9);
    let written = |at: usize, bytes: &[u8]| {
        let mut frame = plain();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let (mut group, mut all, mut link_local) = ([0; 16], [0; 16], HERE_V6);
    group[..2].copy_from_slice(&[0xff, 2]);
    group[11..].copy_from_slice(&[1, 0xff, 0, 0, 1]);
    all[..2].copy_from_slice(&[0xff, 2]);
    all[15] = 1;
    link_local[..8].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
    let unspecified = [0; 16];
    let (solicit, advertise, echo) =
        ([135, 0, 0, 0, 0, 0, 0, 0], [136, 0, 0, 0, 0x60, 0, 0, 0], [128, 0, 0, 0, 0, 1, 0, 1]);
    let of = |target: [u8; 16], option: &[u8]| [&target[..], option].concat();
    let from = [&[1, 1][..], &STRANGER].concat();
    let at = [&[2, 1][..], &STRANGER].concat();
    let padded = || vec![0, 0, 1, 4, 0, 0, 0, 0];
    let many = (0..12).fold(plain(), |frame, _| extended(frame, 60, padded()));
    let error = icmp_v6(HERE_V6, FAR_V6, 1, [3, 0, 0, 0, 0, 0, 0, 0], &plain()[14..]);
    vec![
        // Answered, and learned.
        icmp_v6(HERE_V6, group, 255, solicit, &of(US_V6, &from)),
        written(14, &[0x40]),       // version 4
        written(18, &[0, 0]),       // length 0
        written(18, &[0xff, 0xff]), // longer than the frame
        written(22, &unspecified),  // unspecified source
        written(22, &all),          // multicast source
        written(22, &link_local),   // link-local source, to another network
        written(22, &US_V6),        // the router's address as the source
        written(38, &all),
        written(38, &link_local),
        written(38, &unspecified),
        udp_v6(US_V6, US_V6, 9),
        udp_v6(HERE_V6, FAR_V6, 0),
        udp_v6(HERE_V6, FAR_V6, 1),
        udp_v6(HERE_V6, [0x3f; 16], 9), // no route
        udp_v6(HERE_V6, HERE_V6, 9),
        many,
        extended(plain(), 44, vec![0, 0, 0, 1, 0, 0, 0, 1]),
        extended(plain(), 44, vec![0, 0, 0xff, 0xf8, 0, 0, 0, 1]),
        extended(plain(), 43, vec![0, 0, 0, 9, 0, 0, 0, 0]),
        extended(plain(), 0, vec![0, 255, 0, 0, 0, 0, 0, 0]), // longer than the packet
        extended(plain(), 51, vec![0, 0, 0, 0, 0, 0, 0, 0]),
        extended(error.clone(), 60, padded()),
        error,
        icmp_v6(HERE_V6, US_V6, 9, echo, &[7; 40]),
        icmp_v6(all, US_V6, 9, echo, &[7; 40]),
        icmp_v6(HERE_V6, all, 9, echo, &[7; 40]),
        extended(icmp_v6(HERE_V6, US_V6, 9, echo, &[7; 40]), 44, vec![0, 0, 0, 1, 0, 0, 0, 1]),
        icmp_v6(unspecified, group, 255, solicit, &of(US_V6, &[])), // answered
        icmp_v6(unspecified, group, 255, solicit, &of(US_V6, &from)),
        icmp_v6(HERE_V6, group, 254, solicit, &of(US_V6, &from)),
        icmp_v6(HERE_V6, group, 255, solicit, &of(US_V6, &[1, 0, 0, 0, 0, 0, 0, 0])),
        icmp_v6(
            HERE_V6,
            group,
            255,
            solicit,
            &of(US_V6, &[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
        icmp_v6(HERE_V6, group, 255, solicit, &of(all, &from)),
        icmp_v6(HERE_V6, group, 255, solicit, &US_V6[..9]),
        icmp_v6(US_V6, US_V6, 255, advertise, &of(US_V6, &at)), // the router's address, duplicated
        icmp_v6(HERE_V6, all, 255, advertise, &of(HERE_V6, &at)),
        icmp_v6(HERE_V6, US_V6, 255, advertise, &of(HERE_V6, &[])),
        icmp_v6(HERE_V6, US_V6, 255, [133, 0, 0, 0, 0, 0, 0, 0], &from), // router solicitation
    ]
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
        changed(plain(), 14, &[0x4f]),         // a header of 60 bytes
        changed(plain(), 14, &[0x65]),         // version 6
        changed(plain(), 16, &[0, 19]),        // shorter than its header
        changed(plain(), 16, &[0xff, 0xff]),   // longer than the frame
        changed(plain(), 20, &[0x20, 0]),      // a first fragment
        changed(plain(), 20, &[0x1f, 0xff]),   // a last fragment at the highest offset
        changed(plain(), 26, &[255; 4]),       // broadcast source
        changed(plain(), 26, &[0; 4]),         // unspecified source
        changed(plain(), 26, &[127, 0, 0, 1]), // loopback source
        changed(plain(), 26, &[224, 0, 0, 1]), // multicast source
        changed(plain(), 26, &us),             // the router's address as the source
        changed(plain(), 30, &[255; 4]),
        changed(plain(), 30, &[224, 0, 0, 1]),
        udp(us, us, 9),
        udp(here, [10, 2, 0, 1], 0),
        udp(here, [10, 2, 0, 1], 1),
        udp([224, 0, 0, 1], [10, 2, 0, 1], 1), // no error to a multicast source
        udp(here, [9, 9, 9, 9], 9),            // no route
        udp(here, [10, 0, 0, 200], 9),         // no such neighbour
        echo(here, us, ROUTER),
        echo([255; 4], us, ROUTER),
        echo(here, us, [0xff; 6]),
        changed(echo(here, us, ROUTER), 20, &[0x20, 0]),
        arp(1, STRANGER, here, us, [0xff; 6]),
        arp(2, STRANGER, [10, 0, 0, 200], us, ROUTER),
        arp(2, STRANGER, us, us, [0xff; 6]), // the router's address, duplicated
        arp(1, [0xff; 6], here, us, [0xff; 6]), // broadcast sender
        arp(9, STRANGER, here, us, ROUTER),
        arp(1, STRANGER, [8, 8, 8, 8], us, [0xff; 6]),
    ];
    frames.extend(corpus_v6());
    for frame in frames.clone() {
        frames.extend(
            [14, 20, 33, 34, 41, 53, 54, 60]
                .into_iter()
                .filter_map(|length| frame.get(..length).map(<[u8]>::to_vec)),
        );
    }
    frames
}

/// Sends the frames through a router, optionally with NAT; every frame is accounted for.
fn survives(frames: Vec<Vec<u8>>, nat: bool) -> Result<Vec<Vec<u8>>, TestCaseError> {
    let many = frames.len() as u64;
    let net = "10.0.0.1/24".parse().unwrap();
    let mut routes = Routes::default();
    routes.add_resolved(net, PortId(0), ROUTER, None);
    let hop = NextHop { output: PortId(1), from: ROUTER, to: [9; 6] };
    routes.add("10.2.0.0/16".parse().unwrap(), hop);
    let net_v6 = "2001:db8:1::1/64".parse().unwrap();
    routes.add_resolved(net_v6, PortId(0), ROUTER, None);
    routes.add("2001:db8:2::/48".parse().unwrap(), hop);
    let classifier = Classifier::new(vec![Match::default()]);
    let function = Forwarder::new(routes);
    let (clock, mock) = Clock::mock();
    let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
    machine.add(MemoryPort::new(frames, many).keeping(), ROUTER, Link::new(100_000_000_000, 0));
    machine.add(MemoryPort::default().keeping(), ROUTER, Link::new(100_000_000_000, 0));
    machine.set_address(PortId(0), [net, net_v6]);
    let to = "10.2.0.5:53".parse().unwrap();
    let forwards = vec![PortForward { protocol: 17, port: 53, to }];
    let how = PortNat { flows: 4, host_flows: 2, check_source: true, forwards };
    machine.set_nat(PortId(0), nat.then_some(&how));
    machine.now_ns();
    let plan = Plan {
        stages: Stages::Three,
        batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 50_000 },
        inputs: vec![input(10), input(1)],
        paths: vec![PathPlan {
            reservation: 10,
            drops: false,
            input_queue: 32,
            output_queue: 32,
            outputs: vec![(OutputId(0), Contract::new()), (OutputId(1), Contract::new())],
        }],
        outputs: vec![output(1, "wf2q+", 1_000_000), output(10, "wf2q+", 1_000_000)],
    };
    let mut router = Router::new(&plan, machine).unwrap();
    let mut steps = 0u64;
    while router.machine().counters(PortId(0)).received < many
        || router.waiting(PathId(0)) != (0, 0)
        || router.staged(OutputId(0)) + router.staged(OutputId(1)) > 0
    {
        // Neighbour resolution takes seconds.
        mock.increment(100_000);
        router.step();
        router.resume();
        steps += 1;
        prop_assert!(steps < 1_000_000, "the router does not drain");
    }
    let (port, path) = (router.machine().counters(PortId(0)), router.path(PathId(0)));
    prop_assert_eq!(port.received, router.input(InputId(0)).unclassified + path.received);
    prop_assert!(router.input(InputId(0)).unclassified >= port.unusable + port.for_router);
    prop_assert_eq!(path.received, path.departed());
    prop_assert!(port.originated <= 4 * many, "more than four packets per frame");
    prop_assert_eq!(router.machine().free_buffers(), BUFFERS as usize);
    let sent = router.machine_mut().port_mut(PortId(0)).kept().to_vec();
    prop_assert_eq!(sent.len() as u64, port.transmitted + port.originated);
    Ok(sent)
}

#[test]
fn the_corpus_is_survived_and_only_valid_requests_are_answered() {
    survives(corpus(), true).unwrap();
    let sent = survives(corpus(), false).unwrap();
    let of = |kind: [u8; 2]| sent.iter().filter(|frame| frame[12..14] == kind).collect::<Vec<_>>();
    // Two requests get replies; neighbours of senders and destinations are probed.
    let answers = of([8, 6]).into_iter().filter(|frame| frame[21] == 2).count();
    assert_eq!(answers, 2, "also to the host outside the network: {sent:?}");
    // The host that claims 10.0.0.200 receives its packets; the rest comes from the router.
    for frame in of([8, 0]).into_iter().filter(|frame| frame[30..34] != [10, 0, 0, 200]) {
        assert_eq!(frame[23], 1, "the router originates ICMP only");
        assert!(frame[0] & 1 == 0 && frame[30] < 224, "unicast only: {frame:?}");
    }
    // IPv6 likewise, except packets forwarded to a neighbour. Solicitations, and advertisements to
    // a host without an address, are multicast. Two solicitations and one echo request get replies;
    // one packet has no hops left.
    let of_type = |kind: u8| {
        let icmp = of([0x86, 0xdd]).into_iter().filter(|frame| frame[20] == 58);
        icmp.filter(|frame| frame[54] == kind && frame[22..38] == US_V6).count()
    };
    assert_eq!((of_type(136), of_type(129)), (2, 1));
    assert!(of_type(3) > 0 && of_type(1) > 0, "hop limit exceeded, and no route");
    for frame in of([0x86, 0xdd]).into_iter().filter(|frame| frame[22..38] == US_V6) {
        let asks_or_answers = matches!(frame[54], 135 | 136);
        assert!(frame[20] == 58 && (frame[0] & 1 == 0 || asks_or_answers), "{frame:?}");
    }
}

proptest! {
    #[test]
    fn mutations_of_the_corpus_are_survived(
        picks in vec(
            (any::<prop::sample::Index>(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)),
            1..80,
        ),
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
