//! IPv6 on the live machine with ports in memory. Headers are compared with known packets and
//! etherparse, routes with a linear search; neighbour and error messages are checked frame by
//! frame.

use crate::support::{input, output};
use etherparse::{
    Icmpv6Type, Ipv6HeaderSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv6,
};
use ipnet::Ipv6Net;
use millstream::{Contract, Link};
use millstream_router::live::{
    Classifier, Clock, Forwarder, Header, LiveMachine, MemoryPort, NextHop, Pool, Routes,
};
use millstream_router::{Batch, Machine, OutputId, PathId, PathPlan, Plan, PortId, Router, Stages};
use millstream_scenario::{Match, PortNat};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::Ipv6Addr;
use std::sync::Arc;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 9];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Returns a host on the network of port 0, or behind port 1.
const fn host(network: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, last)
}

fn frame(source: Ipv6Addr, destination: Ipv6Addr, hops: u8, port: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2(NEIGHBOUR, ROUTER);
    let builder = builder.ipv6(source.octets(), destination.octets(), hops);
    builder.udp(1, port).write(&mut bytes, &[0; 18]).unwrap();
    bytes
}

/// Returns an ICMPv6 message from the neighbour `source`.
fn icmp(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hops: u8,
    kind: Icmpv6Type,
    rest: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let [.., a, b, c, d] = destination.octets();
    let to = if destination.is_multicast() { [0x33, 0x33, a, b, c, d] } else { ROUTER };
    let builder = PacketBuilder::ethernet2(NEIGHBOUR, to);
    let builder = builder.ipv6(source.octets(), destination.octets(), hops);
    builder.icmpv6(kind).write(&mut bytes, rest).unwrap();
    bytes
}

fn advertisement(of: Ipv6Addr, mac: [u8; 6], solicited: bool, hops: u8) -> Vec<u8> {
    let flags = icmpv6::NeighborAdvertisementHeader { router: false, solicited, r#override: true };
    let rest = [&of.octets()[..], &[2, 1], &mac].concat();
    icmp(of, host(1, 1), hops, Icmpv6Type::NeighborAdvertisement(flags), &rest)
}

/// An extension header.
#[derive(Clone, Debug)]
enum Extension {
    /// The common format: number, and units of eight bytes beyond the first.
    Options(u8, u8),
    /// AH: units of four bytes beyond the first two.
    Authentication(u8),
    /// Fragment header: offset in units of eight bytes, and whether more follow.
    Fragment(u16, bool),
}

impl Extension {
    fn number(&self) -> u8 {
        match self {
            Self::Options(number, _) => *number,
            Self::Authentication(_) => 51,
            Self::Fragment(..) => 44,
        }
    }

    fn bytes(&self, next: u8) -> Vec<u8> {
        let mut bytes = match self {
            Self::Options(_, more) => vec![0; 8 * (1 + usize::from(*more))],
            Self::Authentication(more) => vec![0; 4 * (2 + usize::from(*more))],
            Self::Fragment(offset, more) => {
                let word = offset << 3 | u16::from(*more);
                [&[0, 0][..], &word.to_be_bytes(), &[7; 4]].concat()
            }
        };
        bytes[0] = next;
        match self {
            Self::Options(_, more) | Self::Authentication(more) => bytes[1] = *more,
            Self::Fragment(..) => {}
        }
        bytes
    }
}

fn extension() -> impl Strategy<Value = Extension> {
    let numbers = prop::sample::select(vec![0u8, 43, 60, 135, 139, 140]);
    prop_oneof![
        (numbers, 0..3u8).prop_map(|(number, more)| Extension::Options(number, more)),
        (1..4u8).prop_map(Extension::Authentication),
        (prop_oneof![Just(0), 0..9u16], any::<bool>())
            .prop_map(|(offset, more)| Extension::Fragment(offset, more)),
    ]
}

fn packet(class: u8, extensions: &[Extension], upper: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend([ROUTER, NEIGHBOUR].concat());
    bytes.extend(IPV6);
    bytes.extend([0x60 | class >> 4, class << 4, 0, 0]);
    let numbers: Vec<u8> = extensions.iter().map(Extension::number).chain([upper]).collect();
    let behind: Vec<u8> = extensions
        .iter()
        .zip(&numbers[1..])
        .flat_map(|(extension, next)| extension.bytes(*next))
        .chain(payload.iter().copied())
        .collect();
    bytes.extend(u16::try_from(behind.len()).unwrap().to_be_bytes());
    bytes.extend([numbers[0], 9]);
    bytes.extend(host(1, 9).octets());
    bytes.extend(host(2, 9).octets());
    bytes.extend(behind);
    bytes
}

proptest! {
    #[test]
    fn the_upper_layer_header_is_found_behind_extension_headers(
        class: u8, extensions in vec(extension(), 0..12), padding in 0..9usize,
        upper in prop::sample::select(vec![6u8, 17, 58, 59, 50]), payload in vec(any::<u8>(), 0..9),
    ) {
        let mut frame = packet(class, &extensions, upper, &payload);
        // Ethernet padding is outside the packet.
        frame.resize(frame.len() + padding, 0xee);
        let header = Header::parse_v6(&frame).unwrap();
        // The walk stops at a later fragment and after the eighth header.
        let later = |of: &Extension| matches!(of, Extension::Fragment(offset, _) if *offset > 0);
        let stop = extensions.iter().take(8).position(later).map(|at| at + 1);
        let read = stop.unwrap_or(8).min(extensions.len());
        let protocol = extensions.get(read).map_or(upper, Extension::number);
        let seen = stop.is_none() && read == extensions.len() && matches!(upper, 6 | 17);
        let ports = payload.first_chunk::<4>().filter(|_| seen);
        let port = |a, b| u16::from_be_bytes([a, b]);
        let ports = ports.map(|p| (port(p[0], p[1]), port(p[2], p[3])));
        let (source, destination) = (host(1, 9), host(2, 9));
        let dscp = class >> 2;
        let to = ROUTER;
        prop_assert_eq!(
            header,
            Header { to, tag: None, dscp, protocol, source, destination, ports }
        );
        // A truncated packet is refused.
        let whole = frame.len() - padding;
        prop_assert_eq!(Header::parse_v6(&frame[..whole - 1]), None);
    }

    #[test]
    fn header_fields_equal_those_of_etherparse(
        extensions in vec(extension(), 0..4), changes in vec((0..120usize, any::<u8>()), 0..6),
        rubbish in vec(any::<u8>(), 0..90), whole in prop::bool::weighted(0.8), cut in 0..200usize,
    ) {
        let mut bytes = rubbish;
        if whole {
            bytes = packet(0xb8, &extensions, 17, &[0, 5, 0, 6, 0, 8, 0, 0]);
            for (at, to) in changes {
                let length = bytes.len();
                bytes[at % length] = to;
            }
        }
        bytes.truncate(cut.max(if whole { 54 } else { 0 }));
        let ours = Header::parse_v6(&bytes);
        let theirs = bytes.get(14..).filter(|_| bytes[12..14] == IPV6);
        let theirs = theirs.and_then(|ip| Ipv6HeaderSlice::from_slice(ip).ok());
        let theirs = theirs.filter(|slice| bytes.len() - 54 >= usize::from(slice.payload_length()));
        prop_assert_eq!(ours.is_some(), theirs.is_some());
        prop_assert_eq!(Header::parse(&bytes), None);
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.source, theirs.source_addr());
            prop_assert_eq!(ours.destination, theirs.destination_addr());
            prop_assert_eq!(ours.dscp, theirs.dscp().value());
            // etherparse accepts any length if the payload length field is 0.
            if theirs.payload_length() > 0
                && let Ok(SlicedPacket { transport: Some(TransportSlice::Udp(udp)), .. }) =
                    SlicedPacket::from_ethernet(&bytes)
            {
                prop_assert_eq!(ours.ports, Some((udp.source_port(), udp.destination_port())));
            }
        }
    }

    #[test]
    fn forwarding_changes_only_the_hardware_addresses_and_the_hop_limit(
        mut bytes in vec(any::<u8>(), 0..90), whole in prop::bool::weighted(0.8), hops: u8,
        extensions in vec(extension(), 0..4), at in 22..54usize, to: u8,
    ) {
        if whole {
            bytes = packet(0, &extensions, 17, &bytes);
            bytes[21] = hops;
            bytes[at] = to;
        }
        let mut routes = Routes::default();
        let hop = NextHop { output: PortId(1), from: ROUTER, to: NEIGHBOUR };
        routes.add("::/0".parse().unwrap(), hop);
        let mut got = bytes.clone();
        let output = Forwarder::new(routes).forward(&mut got);
        let far = |address: Ipv6Addr| {
            let [first, second, ..] = address.octets();
            let link_local = first == 0xfe && second & 0xc0 == 0x80;
            first != 0xff && !link_local && u128::from(address) > 1
        };
        let header = Header::parse_v6(&bytes);
        let goes = header.is_some_and(|of| far(of.source) && far(of.destination) && bytes[21] > 1);
        prop_assert_eq!(output, goes.then_some(PortId(1)));
        if goes {
            prop_assert_eq!((&got[..6], &got[6..12]), (&NEIGHBOUR[..], &ROUTER[..]));
            prop_assert_eq!(got[21], bytes[21] - 1);
            prop_assert_eq!((&got[12..21], &got[22..]), (&bytes[12..21], &bytes[22..]));
        } else {
            prop_assert_eq!(got, bytes);
        }
    }

    #[test]
    fn the_longest_matching_prefix_counts(
        prefixes in vec((0..4u16, 0..4u16, 0..=128u8), 0..12), low in (0..4u16, 0..4u16),
    ) {
        let net = |(network, last, length)| Ipv6Net::new(host(network, last), length).unwrap();
        let nets: Vec<Ipv6Net> = prefixes.into_iter().map(net).collect();
        let mut routes = Routes::default();
        for (output, net) in nets.iter().enumerate() {
            let hop = NextHop { output: PortId(output), from: ROUTER, to: NEIGHBOUR };
            routes.add((*net).into(), hop);
        }
        let destination = host(low.0, low.1);
        let holds = nets.iter().enumerate().filter(|(_, net)| net.contains(&destination));
        // If two prefixes are equal, the later route replaces the earlier one.
        let best = holds.max_by_key(|(at, net)| (net.prefix_len(), *at)).map(|(at, _)| at);
        let mut frame = frame(host(9, 9), destination, 9, 9);
        prop_assert_eq!(Forwarder::new(routes).forward(&mut frame), best.map(PortId));
    }
}

/// A router with 2001:db8:1::1/64 and fe80::1/64 on port 0, and 2001:db8:2::/48 behind port 1.
struct Rig {
    router: Router<LiveMachine<MemoryPort>>,
    mock: Arc<quanta::Mock>,
}

const BUFFERS: u32 = 400;

impl Rig {
    fn new() -> Self {
        let net = "2001:db8:1::1/64".parse().unwrap();
        let mut routes = Routes::default();
        routes.add_resolved(net, PortId(0), ROUTER, None);
        let hop = NextHop { output: PortId(1), from: ROUTER, to: NEIGHBOUR };
        routes.add("2001:db8:2::/48".parse().unwrap(), hop);
        let by = "fe80::9".parse().unwrap();
        routes.add_resolved("2001:db8:3::/48".parse().unwrap(), PortId(0), ROUTER, Some(by));
        let classifier = Classifier::new(vec![Match::default()]);
        let (clock, mock) = Clock::mock();
        let function = Forwarder::new(routes);
        let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
        for _ in 0..2 {
            machine.add(MemoryPort::default().keeping(), ROUTER, Link::new(100_000_000_000, 0));
        }
        machine.set_address(PortId(0), ["fe80::1/64".parse().unwrap(), net]);
        machine.now_ns();
        let plan = Plan {
            stages: Stages::Three,
            batch: Batch { packets: 8, time_ns: u64::MAX, batch_wait_ns: 50_000 },
            inputs: vec![input(1), input(1)],
            paths: vec![PathPlan {
                drops: false,
                reservation: 1,
                input_queue: 200,
                output_queue: 200,
                outputs: vec![(OutputId(0), Contract::new()), (OutputId(1), Contract::new())],
            }],
            outputs: vec![output(1, "wf2q+", 1_000_000), output(1, "wf2q+", 1_000_000)],
        };
        Self { router: Router::new(&plan, machine).unwrap(), mock }
    }

    /// Receives frames on port 0; returns what leaves by it within `for_ns`.
    fn exchange_all(&mut self, frames: Vec<Vec<u8>>, for_ns: u64) -> Vec<Vec<u8>> {
        let many = frames.len() as u64;
        *self.router.machine_mut().port_mut(PortId(0)) = MemoryPort::new(frames, many).keeping();
        for _ in 0..2_000 {
            self.mock.increment(for_ns / 2_000);
            self.router.step();
            self.router.resume();
        }
        self.router.machine_mut().port_mut(PortId(0)).kept().to_vec()
    }

    fn exchange(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.exchange_all(vec![frame], 2_000_000)
    }

    fn assert_drained(&self) {
        assert_eq!(self.router.waiting(PathId(0)), (0, 0));
        assert_eq!(self.router.machine().free_buffers(), BUFFERS as usize);
        let (port, path) = (self.router.machine().counters(PortId(0)), self.router.path(PathId(0)));
        assert_eq!(port.received, port.for_router + path.received);
        assert_eq!(path.received, path.departed());
    }
}

/// Returns source, ICMPv6 message and payload of a frame, after verifying its checksum.
fn parse_icmpv6(frame: &[u8]) -> (Ipv6Addr, Icmpv6Type, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) =
        (&packet.net, &packet.transport)
    else {
        panic!("{packet:?}")
    };
    assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
    (ip.header().source_addr(), icmp.icmp_type(), icmp.payload().to_vec())
}

#[test]
fn packets_wait_for_a_neighbour_that_is_solicited_by_multicast() {
    let mut rig = Rig::new();
    let to = |port| frame(host(2, 9), host(1, 9), 9, port);
    let sent = rig.exchange_all((0..40).map(to).collect(), 2_000_000);
    assert_eq!(sent.len(), 1, "one solicitation");
    assert_eq!(sent[0][..6], [0x33, 0x33, 0xff, 0, 0, 9]);
    let (source, kind, payload) = parse_icmpv6(&sent[0]);
    assert_eq!((source, kind), (host(1, 1), Icmpv6Type::NeighborSolicitation));
    assert_eq!((&payload[..16], &payload[18..]), (&host(1, 9).octets()[..], &ROUTER[..]));
    assert_eq!(sent[0][21], 255);
    assert_eq!(rig.router.waiting(PathId(0)), (32, 0), "the limit per neighbour");
    // Advertisements that are unsolicited, forwarded by a router, for another network, or with a
    // multicast hardware address.
    for wrong in [
        advertisement(host(1, 9), NEIGHBOUR, false, 255),
        advertisement(host(1, 9), NEIGHBOUR, true, 254),
        advertisement(host(2, 9), NEIGHBOUR, true, 255),
        advertisement(host(1, 9), [0x33; 6], true, 255),
    ] {
        assert_eq!(rig.exchange(wrong).len(), 0);
        assert_eq!(rig.router.waiting(PathId(0)), (32, 0));
    }
    let sent = rig.exchange(advertisement(host(1, 9), NEIGHBOUR, true, 255));
    let ports: Vec<u16> =
        sent.iter().map(|frame| Header::parse_v6(frame).unwrap().ports.unwrap().1).collect();
    assert_eq!(ports, (0..32).collect::<Vec<_>>());
    assert!(sent.iter().all(|frame| frame[..6] == NEIGHBOUR && frame[21] == 8));
    rig.assert_drained();
}

#[test]
fn a_gateway_may_be_link_local() {
    let mut rig = Rig::new();
    let sent = rig.exchange(frame(host(2, 9), host(3, 9), 9, 7));
    let (source, kind, _) = parse_icmpv6(&sent[0]);
    assert_eq!(source, "fe80::1".parse::<Ipv6Addr>().unwrap(), "the link-local address");
    assert_eq!(kind, Icmpv6Type::NeighborSolicitation);
    let sent = rig.exchange(advertisement("fe80::9".parse().unwrap(), NEIGHBOUR, true, 255));
    assert_eq!((sent.len(), &sent[0][..6]), (1, &NEIGHBOUR[..]));
    rig.assert_drained();
}

#[test]
fn a_solicitation_is_answered_and_its_sender_becomes_a_neighbour() {
    let mut rig = Rig::new();
    let ask = |from: Ipv6Addr, target: Ipv6Addr, option: &[u8]| {
        let [.., c, d] = target.octets();
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, u16::from_be_bytes([c, d]));
        let rest = [&target.octets()[..], option].concat();
        icmp(from, group, 255, Icmpv6Type::NeighborSolicitation, &rest)
    };
    let mac = [&[1, 1][..], &NEIGHBOUR].concat();
    for target in [host(1, 1), "fe80::1".parse().unwrap()] {
        let sent = rig.exchange(ask(host(1, 9), target, &mac));
        let (source, kind, payload) = parse_icmpv6(&sent[0]);
        let flags =
            icmpv6::NeighborAdvertisementHeader { router: true, solicited: true, r#override: true };
        assert_eq!((source, kind), (target, Icmpv6Type::NeighborAdvertisement(flags)));
        assert_eq!((&payload[..16], &payload[18..]), (&target.octets()[..], &ROUTER[..]));
        assert_eq!((&sent[0][..6], sent[0][21]), (&NEIGHBOUR[..], 255));
    }
    // Not probed: the neighbour has announced itself.
    let sent = rig.exchange(frame(host(2, 9), host(1, 9), 9, 7));
    assert_eq!((sent.len(), &sent[0][..6]), (1, &NEIGHBOUR[..]));
    // Duplicate address detection for the router's address gets a multicast answer.
    let sent = rig.exchange(ask(Ipv6Addr::UNSPECIFIED, host(1, 1), &[]));
    assert_eq!(sent[0][..6], [0x33, 0x33, 0, 0, 0, 1]);
    // A solicitation for another host's address gets no answer.
    assert!(rig.exchange(ask(host(1, 9), host(1, 77), &mac)).is_empty());
    rig.assert_drained();
}

#[test]
fn undeliverable_packets_cause_errors_and_echoes_are_answered() {
    let mut rig = Rig::new();
    rig.exchange_all(vec![frame(host(2, 9), host(1, 9), 9, 7)], 1_000_000);
    rig.exchange(advertisement(host(1, 9), NEIGHBOUR, true, 255));
    let mut reply_to = |frame: Vec<u8>| {
        let sent = rig.exchange(frame.clone());
        let (source, kind, payload) = parse_icmpv6(&sent[0]);
        assert_eq!((source, &sent[0][..6]), (host(1, 1), &NEIGHBOUR[..]));
        (kind, payload, frame)
    };
    let (kind, payload, sent) = reply_to(frame(host(1, 9), host(2, 9), 1, 7));
    let exceeded = icmpv6::TimeExceededCode::HopLimitExceeded;
    assert_eq!((kind, &payload[..]), (Icmpv6Type::TimeExceeded(exceeded), &sent[14..]));
    let (kind, ..) = reply_to(frame(host(1, 9), host(77, 9), 9, 7));
    let no_route = icmpv6::DestUnreachableCode::NoRoute;
    assert_eq!(kind, Icmpv6Type::DestinationUnreachable(no_route));
    let echo = etherparse::IcmpEchoHeader { id: 3, seq: 4 };
    let (kind, payload, _) =
        reply_to(icmp(host(1, 9), host(1, 1), 9, Icmpv6Type::EchoRequest(echo), b"anybody"));
    assert_eq!((kind, &payload[..]), (Icmpv6Type::EchoReply(echo), &b"anybody"[..]));
    // Three probes, then an error to the sender.
    let sent = rig.exchange_all(vec![frame(host(1, 9), host(1, 77), 9, 7)], 5_000_000_000);
    let kinds: Vec<_> = sent.iter().map(|frame| parse_icmpv6(frame).1).collect();
    let unreachable = icmpv6::DestUnreachableCode::Address;
    let solicitations = [Icmpv6Type::NeighborSolicitation; 3];
    assert_eq!(kinds[..3], solicitations);
    assert_eq!(*kinds.last().unwrap(), Icmpv6Type::DestinationUnreachable(unreachable));
    // Errors are rate limited.
    let dead = (0..150).map(|port| frame(host(1, 9), host(2, 9), 1, port)).collect();
    let errors = rig.exchange_all(dead, 2_000_000).len();
    assert!((50..=54).contains(&errors), "{errors}");
    // The router sends no error about an error, or about a packet with link scope.
    rig.exchange_all(Vec::new(), 1_000_000_000);
    let about = icmp(host(1, 9), host(2, 9), 1, Icmpv6Type::TimeExceeded(exceeded), &[0; 48]);
    assert!(rig.exchange(about).is_empty());
    assert!(rig.exchange(frame("fe80::9".parse().unwrap(), host(2, 9), 9, 7)).is_empty());
    rig.assert_drained();
}

#[test]
fn ports_with_nat_pass_ipv6_unchanged() {
    let mut rig = Rig::new();
    let machine = rig.router.machine_mut();
    machine.set_address(PortId(1), ["10.2.0.1/24".parse().unwrap()]);
    machine.set_nat(
        PortId(1),
        Some(&PortNat { flows: 4, host_flows: 2, check_source: true, forwards: Vec::new() }),
    );
    let sent = frame(host(1, 9), host(2, 9), 9, 7);
    rig.exchange(sent.clone());
    let left = rig.router.machine_mut().port_mut(PortId(1)).kept().to_vec();
    assert_eq!((left.len(), &left[0][22..]), (1, &sent[22..]));
    rig.assert_drained();
}
