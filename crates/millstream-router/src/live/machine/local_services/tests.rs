//! Tests of the router's own services without a machine: replies, held packets, ICMP errors.

use etherparse::PacketBuilder;
use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::ids::{PacketHandle, PathId};
use crate::net::fib::NextHopKind;

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];
const US: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);

/// Returns the addresses and routes of port 0, whose network is 10.1.0.0/16.
fn network() -> (LocalAddresses, Forwarder) {
    let mut addresses = LocalAddresses::default();
    addresses.add(ROUTER);
    addresses[PortId(0)].set(["10.1.0.1/16".parse().unwrap()]);
    let mut function = Forwarder::default();
    let next = NextHopKind::Resolve(PortId(0), ROUTER, None);
    function.set_kernel_route("10.1.0.0/16".parse().unwrap(), Some(next));
    (addresses, function)
}

fn packet(to: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST, ROUTER);
    let builder = builder.ipv4(THEM.octets(), to.octets(), 9).udp(1, 2);
    builder.write(&mut frame, &[0; 20]).unwrap();
    frame
}

#[test]
fn a_request_for_the_router_is_answered_and_releases_the_senders_packets() {
    let (addresses, mut function) = network();
    let mut network = Network { addresses: &addresses, function: &mut function, now_ns: 0 };
    let mut services = LocalServices::new(1_024);
    let neighbour = (PortId(0), IpAddr::V4(THEM));
    assert!(services.pending.hold(neighbour, PathId(3), PacketHandle::from_bits(7)));
    let them = Endpoint { mac: HOST, address: THEM };
    let request = ipv4_control::arp_request(them, US);
    let received = services.receive(&mut network, PortId(0), &request, None);
    let us = Endpoint { mac: ROUTER, address: US };
    let reply = Some(ipv4_control::arp_reply(us, them));
    assert_eq!(received, Received { is_for_router: true, reply });
    let mut released = Vec::new();
    services.pending.take(&mut released);
    assert_eq!(released, [(PathId(3), PacketHandle::from_bits(7))]);
    let request = ipv4_control::arp_request(them, Ipv4Addr::new(10, 1, 0, 2));
    let received = services.receive(&mut network, PortId(0), &request, None);
    assert_eq!(received, Received { is_for_router: true, reply: None }, "for another host");
}

#[test]
fn a_packet_for_the_kernel_or_for_no_one_gets_no_reply() {
    let (addresses, mut function) = network();
    let mut network = Network { addresses: &addresses, function: &mut function, now_ns: 0 };
    let mut services = LocalServices::new(1_024);
    let to = Some(LocalDestination::Kernel);
    let received = services.receive(&mut network, PortId(0), &packet(US), to);
    assert_eq!(received, Received { is_for_router: true, reply: None });
    let received = services.receive(&mut network, PortId(0), &packet(US), None);
    assert_eq!(received, Received::default());
}

#[test]
fn held_packets_are_solicited_for_until_the_neighbour_fails() {
    let (_, mut function) = network();
    let mut services = LocalServices::new(1_024);
    assert!(!services.solicitations_are_due(0), "no packet is held");
    let neighbour = (PortId(0), IpAddr::V4(THEM));
    assert!(services.pending.hold(neighbour, PathId(3), PacketHandle::from_bits(7)));
    let (mut now_ns, mut solicited) = (0, 0);
    while services.pending.has_packets() {
        if services.solicitations_are_due(now_ns) {
            solicited += services.retry_solicitations(&mut function, now_ns).len();
            assert!(!services.solicitations_are_due(now_ns));
        }
        now_ns += PROBE_NS / 4;
    }
    assert_eq!(solicited, 3);
}

#[test]
fn icmp_errors_are_limited_and_not_sent_to_the_router() {
    let (addresses, mut function) = network();
    let learned = NeighbourUpdate { address: THEM, mac: HOST, solicits_us: true, overrides: true };
    function.learn(PortId(0), "10.1.0.1/16".parse().unwrap(), learned, 0);
    let mut network = Network { addresses: &addresses, function: &mut function, now_ns: 0 };
    let mut services = LocalServices::new(1_024);
    let frame = packet(Ipv4Addr::new(10, 9, 0, 1));
    let mut error = |now_ns, frame: &[u8]| {
        network.now_ns = now_ns;
        services.icmp_error(&mut network, frame, IcmpError::NetUnreachable, &mut None)
    };
    let sent = (0..1_000).filter(|_| error(0, &frame).is_some_and(|of| of.0 == PortId(0))).count();
    assert_eq!(sent as u64, ERRORS + 1);
    assert!(error(ERROR_NS, &frame).is_some(), "the limit recovers");
    let mut own = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST, ROUTER);
    let builder = builder.ipv4(US.octets(), [10, 9, 0, 1], 9).udp(1, 2);
    builder.write(&mut own, &[0; 20]).unwrap();
    assert!(error(60_000_000_000, &own).is_none(), "NAT reflection");
}
