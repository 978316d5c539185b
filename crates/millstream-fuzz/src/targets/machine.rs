//! No frames make a router with its own addresses panic or leak a buffer. Covers ARP, neighbour
//! discovery, echo, ICMP errors, classification, NAT and forwarding, on an untagged port and on
//! VLAN 10.

use etherparse::PacketBuilder;
use millstream::Link;
use millstream_router::live::{
    Classifier, Clock, Forwarder, Header, LiveMachine, MemoryPort, Pool, Routes, VlanPort,
};
use millstream_router::{Deferral, InputId, Machine, PortId, Verdict};
use millstream_scenario::{Match, PcpSource, PortForward, PortNat};

use crate::{Mutation, Target, records, seeds};

pub(crate) const TARGET: Target = Target {
    name: "machine",
    first_parser: "an IPv4 or IPv6 header",
    seeds: inputs,
    words: WORDS,
    mutate: |mutation, input| mutation.records(input, Mutation::frame),
    admits: None,
    run,
};

/// Addresses and protocols that the router of this target distinguishes.
pub(super) const WORDS: &[&[u8]] = &[
    &MAC,
    &[8, 0],
    &[8, 6],
    &[0x86, 0xdd],
    &[0x81, 0, 0, 10],
    &[0x45, 0],
    &[10, 0, 0, 1],
    &[10, 0, 0, 9],
    &[10, 9, 0, 5],
    &[10, 1, 0, 5],
    &[10, 1, 0, 1],
    &[0xff; 6],
    &[0, 53],
    &[0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0],
    &[0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0],
    &[0xfe, 0x80],
    &[1],
    &[6],
    &[17],
    &[58],
    &[133],
    &[135],
    &[136],
    &[2],
    &[3, 4],
    &[11, 0],
];

/// Returns whether the router parses an IP header in a frame.
pub(super) fn is_ip(frame: &[u8]) -> bool {
    Header::parse(frame).is_some() || Header::parse_v6(frame).is_some()
}

/// Frames of the router's own protocols and frames that it translates.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let ethernet = || PacketBuilder::ethernet2([4; 6], MAC);
    let six = |last: u8| [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let far = [0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let built = |builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>| {
        let mut frame = Vec::new();
        builder.write(&mut frame, &[7; 24]).expect("written to memory");
        frame
    };
    let udp = |from, to, port| built(ethernet().ipv4(from, to, 9).udp(4_000, port));
    let mut frames = vec![
        udp([10, 0, 0, 7], [10, 9, 0, 5], 53),
        udp([10, 0, 0, 7], [10, 0, 0, 1], 53),
        udp([10, 1, 0, 5], [10, 0, 0, 7], 4_000),
        built(ethernet().ipv6(six(7), far, 9).udp(4_000, 53)),
        built(ethernet().ipv6(six(7), six(1), 1).udp(4_000, 53)),
        built(
            ethernet()
                .single_vlan(10.try_into().expect("a VLAN"))
                .ipv4([10, 1, 0, 5], [10, 0, 0, 9], 2)
                .udp(53, 4_000),
        ),
    ];
    let mut written = |builder: etherparse::PacketBuilderStep<etherparse::Icmpv4Header>| {
        let mut frame = Vec::new();
        builder.write(&mut frame, &[1; 32]).expect("written to memory");
        frames.push(frame);
    };
    written(ethernet().ipv4([10, 0, 0, 7], [10, 0, 0, 1], 9).icmpv4_echo_request(1, 2));
    written(ethernet().ipv4([10, 0, 0, 7], [10, 9, 0, 5], 1).icmpv4_echo_request(1, 2));
    written(ethernet().ipv4([10, 9, 0, 5], [10, 0, 0, 1], 9).icmpv4_raw(3, 3, [0; 4]));
    let mut written = |builder: etherparse::PacketBuilderStep<etherparse::Icmpv6Header>,
                       data: &[u8]| {
        let mut frame = Vec::new();
        builder.write(&mut frame, data).expect("written to memory");
        frames.push(frame);
    };
    let asked = [&six(1)[..], &[1, 1, 4, 4, 4, 4, 4, 4]].concat();
    written(ethernet().ipv6(six(7), six(1), 255).icmpv6_raw(135, 0, [0; 4]), &asked);
    written(ethernet().ipv6(six(7), six(1), 255).icmpv6_raw(136, 0, [0x60, 0, 0, 0]), &asked);
    written(ethernet().ipv6(six(7), six(1), 64).icmpv6_echo_request(1, 2), &[3; 16]);
    // ARP: a request for 10.0.0.1; 10.0.0.9 is at 04:….
    for (operation, target) in [(1, 1), (2, 1)] {
        let mut arp = [&[0xff; 6][..], &[4; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
        arp.extend([4, 4, 4, 4, 4, 4, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, target]);
        arp.resize(60, 0);
        frames.push(arp);
    }
    frames
}

fn inputs() -> Vec<Vec<u8>> {
    let captured = seeds::frames(12);
    vec![records::join(&frames()), records::join(&captured), records::join(&frames()[..3])]
}

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 64;

fn run(input: &[u8]) -> bool {
    let frames: Vec<Vec<u8>> =
        records::split(input).into_iter().take(64).map(<[u8]>::to_vec).collect();
    let passed = frames.iter().any(|frame| is_ip(frame));
    let many = frames.len();
    let mut routes = Routes::default();
    let net = "10.0.0.1/24".parse().expect("a network");
    routes.add_resolved(net, PortId(0), MAC, None);
    routes.add_resolved(
        "10.9.0.0/16".parse().expect("a prefix"),
        PortId(0),
        MAC,
        "10.0.0.9".parse().ok(),
    );
    let net_v6 = "2001:db8:1::1/64".parse().expect("a network");
    routes.add_resolved(net_v6, PortId(0), MAC, None);
    let far = "2001:db8:9::/48".parse().expect("a prefix");
    routes.add_resolved(far, PortId(0), MAC, "fe80::9".parse().ok());
    let other = "10.1.0.1/24".parse().expect("a network");
    routes.add_resolved(other, PortId(1), MAC, None);
    let voice = Match { dscp: Some(46.into()), ..Match::default() };
    let calls = Match { pcp: Some(5), vlan: Some(10), ..Match::default() };
    let classifier = Classifier::new(vec![voice, calls]);
    let function = Forwarder::new(routes);
    let mut machine = LiveMachine::new(Clock::default(), Pool::new(BUFFERS), classifier, function);
    let device = MemoryPort::new(frames, many as u64);
    let vlans = [(None, PcpSource::Keep), (Some(10), PcpSource::Dscp)];
    for port in VlanPort::share(device, &vlans) {
        machine.add(port, MAC, Link::new(1_000_000_000, 0));
    }
    machine.set_address(PortId(0), [net, net_v6]);
    machine.set_address(PortId(1), [other]);
    let to = "10.1.0.5:53".parse().expect("a host's port");
    let forwards = vec![PortForward { protocol: 17, port: 53, to }];
    machine.set_nat(
        PortId(0),
        Some(&PortNat { flows: 4, host_flows: 2, check_source: true, forwards }),
    );
    let mut read = Vec::new();
    while machine.receive(InputId(0), 8, &mut read) + machine.receive(InputId(1), 8, &mut read) > 0
    {
        for (path, mut packet) in read.drain(..) {
            match machine.forward(path, &mut packet) {
                Verdict::Send(output) if machine.transmit(output, &[packet]) == 1 => {}
                Verdict::Hold => {}
                Verdict::Send(_) | Verdict::Drop | Verdict::Consume => machine.discard(packet),
            }
        }
        machine.give_back(false, &mut read);
    }
    machine.give_back(true, &mut read);
    for (_, packet) in read.drain(..) {
        machine.discard(packet);
    }
    assert_eq!(machine.free_buffers(), BUFFERS as usize);
    passed
}
