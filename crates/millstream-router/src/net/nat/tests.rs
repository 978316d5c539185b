//! NAT cases; checksums are verified by etherparse.

mod model;

use super::packet::{UDP, sum};
use super::*;
use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Type, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use millstream_scenario::PortForward;
use std::net::SocketAddrV4;

const US: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const SECOND: u64 = 1_000_000_000;

/// The fields of a packet, after verifying its checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parsed {
    protocol: u8,
    source: End,
    destination: End,
    payload: Vec<u8>,
}

fn frame(protocol: u8, source: End, destination: End, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let builder = builder.ipv4(source.0.octets(), destination.0.octets(), 9);
    let mut frame = Vec::new();
    match protocol {
        TCP => builder.tcp(source.1, destination.1, 5, 6).ack(7).write(&mut frame, payload),
        UDP => builder.udp(source.1, destination.1).write(&mut frame, payload),
        _ if destination.1 == 0 => {
            builder.icmpv4_echo_request(source.1, 3).write(&mut frame, payload)
        }
        _ => builder.icmpv4_echo_reply(destination.1, 3).write(&mut frame, payload),
    }
    .unwrap();
    frame
}

fn read(frame: &[u8]) -> Parsed {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("{packet:?}") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let (ports, payload) = match packet.transport.as_ref().unwrap() {
        TransportSlice::Tcp(tcp) => {
            let right = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
            assert_eq!(tcp.checksum(), right);
            ((tcp.source_port(), tcp.destination_port()), tcp.payload())
        }
        TransportSlice::Udp(udp) => {
            let right = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            assert!(udp.checksum() == right || udp.checksum() == 0);
            ((udp.source_port(), udp.destination_port()), udp.payload())
        }
        TransportSlice::Icmpv4(icmp) => {
            assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
            let ports = match icmp.icmp_type() {
                Icmpv4Type::EchoRequest(echo) => (echo.id, 0),
                Icmpv4Type::EchoReply(echo) => (0, echo.id),
                other => panic!("{other:?}"),
            };
            (ports, icmp.payload())
        }
        other => panic!("{other:?}"),
    };
    Parsed {
        protocol: header.protocol.0,
        source: (header.source.into(), ports.0),
        destination: (header.destination.into(), ports.1),
        payload: payload.to_vec(),
    }
}

fn host(number: u8, port: u16) -> End {
    (Ipv4Addr::new(10, 0, 0, number), port)
}

fn server(number: u8) -> End {
    (Ipv4Addr::new(192, 0, 2, number), 80)
}

/// NAT settings for `flows` flows; each of `forwards` is a protocol, an external port and a host's
/// end.
fn port(flows: u32, host_flows: u32, forwards: &[(u8, u16, End)]) -> PortNat {
    let forwards = forwards.iter().map(|(protocol, port, (host, to))| PortForward {
        protocol: *protocol,
        port: *port,
        to: SocketAddrV4::new(*host, *to),
    });
    PortNat { flows, host_flows, check_source: true, forwards: forwards.collect() }
}

/// Builds an ICMP error that quotes `quoted`.
fn error(from: Ipv4Addr, to: Ipv4Addr, quoted: &[u8]) -> Vec<u8> {
    let about = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port);
    let builder = PacketBuilder::ethernet2([4; 6], [2; 6]);
    let builder = builder.ipv4(from.octets(), to.octets(), 60).icmpv4(about);
    let mut frame = Vec::new();
    builder.write(&mut frame, quoted).unwrap();
    frame
}

/// Returns source, destination and quoted bytes of an ICMP error, after verifying its checksums.
fn read_error(frame: &[u8]) -> (Ipv4Addr, Ipv4Addr, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("{packet:?}") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Icmpv4(icmp)) = &packet.transport else { panic!("{packet:?}") };
    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
    (header.source.into(), header.destination.into(), icmp.payload().to_vec())
}

/// Sends a packet out; returns the external port.
fn send(nat: &mut Nat, protocol: u8, from: End, to: End, now_ns: u64) -> Option<u16> {
    let mut frame = frame(protocol, from, to, b"question");
    let sent = nat.outbound(&mut frame, US, now_ns);
    sent.then(|| {
        let parsed = read(&frame);
        let port = parsed.source.1;
        assert_eq!(
            parsed,
            Parsed { protocol, source: (US, port), destination: to, payload: b"question".to_vec() }
        );
        port
    })
}

/// Sends an answer to an external port; returns the host that receives it.
fn answer(nat: &mut Nat, protocol: u8, from: End, port: u16, now_ns: u64) -> Option<End> {
    let mut frame = frame(protocol, from, (US, port), b"answer");
    let untouched = frame.clone();
    if nat.inbound(&mut frame, US, now_ns) != NatLookup::Host {
        assert_eq!(frame, untouched);
        return None;
    }
    let parsed = read(&frame);
    assert_eq!((parsed.source, parsed.payload), (from, b"answer".to_vec()));
    Some(parsed.destination)
}

#[test]
fn a_host_keeps_its_port_and_gets_its_answers() {
    let mut nat = Nat::new(&port(8, 8, &[]));
    for (protocol, other) in [(UDP, server(1)), (TCP, server(1)), (ICMP, (server(1).0, 0))] {
        assert_eq!(send(&mut nat, protocol, host(5, 4_000), other, 0), Some(4_000));
        assert_eq!(answer(&mut nat, protocol, other, 4_000, 1), Some(host(5, 4_000)));
        let stranger = (server(2).0, other.1);
        assert_eq!(answer(&mut nat, protocol, stranger, 4_000, 1), None, "unsolicited");
    }
    assert_eq!(
        answer(&mut nat, UDP, (server(1).0, 81), 4_000, 1),
        None,
        "another port of the server"
    );
    // Two hosts with equal ports share a server: there the second host gets another port. For
    // another server it keeps its own.
    let second = send(&mut nat, UDP, host(6, 4_000), server(1), 2).unwrap();
    assert_ne!(second, 4_000);
    assert_eq!(send(&mut nat, UDP, host(6, 4_000), server(2), 2), Some(4_000));
    assert_eq!(answer(&mut nat, UDP, server(1), second, 3), Some(host(6, 4_000)));
    assert_eq!(answer(&mut nat, UDP, server(1), 4_000, 3), Some(host(5, 4_000)));
    let counters = nat.counters();
    assert_eq!((counters.flows, counters.outbound, counters.inbound), (5, 5, 5));
}

/// Sends an answer and the host's reply to it, which establish a TCP flow.
fn settle(nat: &mut Nat, protocol: u8, from: End, to: End, port: u16, now_ns: u64) {
    assert_eq!(answer(nat, protocol, to, port, now_ns), Some(from));
    assert_eq!(send(nat, protocol, from, to, now_ns), Some(port));
}

#[test]
fn flows_are_bounded_and_expire() {
    let mut nat = Nat::new(&port(3, 2, &[]));
    for protocol in [UDP, TCP] {
        assert!(send(&mut nat, protocol, host(1, 2_000), server(1), 0).is_some());
        settle(&mut nat, protocol, host(1, 2_000), server(1), 2_000, 0);
    }
    assert_eq!(send(&mut nat, UDP, host(1, 2_001), server(1), 0), None, "the host is full");
    let echo = (server(1).0, 0);
    assert!(send(&mut nat, ICMP, host(2, 9), echo, 0).is_some());
    settle(&mut nat, ICMP, host(2, 9), echo, 9, 0);
    assert_eq!(send(&mut nat, UDP, host(3, 2_000), server(1), 0), None, "the table is full");
    assert_eq!((nat.counters().refused_full, nat.counters().evicted), (2, 0));
    // The echo expires first after a minute, then UDP, then TCP.
    assert!(send(&mut nat, UDP, host(3, 2_000), server(2), 61 * SECOND).is_some());
    assert_eq!(answer(&mut nat, ICMP, echo, 9, 61 * SECOND), None);
    assert!(answer(&mut nat, UDP, server(1), 2_000, 299 * SECOND).is_some());
    let late = answer(&mut nat, UDP, server(1), 2_000, 301 * SECOND);
    assert_eq!(late, None, "an answer does not refresh UDP");
    assert!(answer(&mut nat, TCP, server(1), 2_000, 7_440 * SECOND).is_some());
    assert_eq!(nat.counters().flows, 2, "and one expired flow not yet found");
}

#[test]
fn an_unanswered_flow_expires_soon() {
    for (protocol, seconds) in [(UDP, 30), (ICMP, 60), (TCP, 240)] {
        let to = (server(1).0, if protocol == ICMP { 0 } else { 80 });
        for (late, expected) in [(0, Some(host(1, 2_000))), (1, None)] {
            let mut nat = Nat::new(&port(4, 4, &[]));
            send(&mut nat, protocol, host(1, 2_000), to, 0).unwrap();
            let at_ns = seconds * SECOND + late;
            assert_eq!(answer(&mut nat, protocol, to, 2_000, at_ns), expected, "{protocol}");
        }
    }
}

#[test]
fn established_tcp_flows_last_for_hours_and_ended_ones_for_minutes() {
    let mut nat = Nat::new(&port(4, 4, &[]));
    let (from, to) = (host(1, 2_000), server(1));
    send(&mut nat, TCP, from, to, 0).unwrap();
    settle(&mut nat, TCP, from, to, 2_000, 0);
    assert!(answer(&mut nat, TCP, to, 2_000, 7_000 * SECOND).is_some());
    let mut fin = frame(TCP, from, to, b"");
    fin[14 + 20 + 13] |= 1;
    assert!(nat.outbound(&mut fin, US, 7_000 * SECOND));
    assert_eq!(answer(&mut nat, TCP, to, 2_000, 7_241 * SECOND), None);
}

/// A host that does not exist acknowledges no answer, so its connection is not established.
#[test]
fn half_open_connections_are_evicted_and_established_ones_stay() {
    let mut nat = Nat::new(&port(3, 3, &[]));
    let to = server(1);
    for number in 1..=3 {
        send(&mut nat, TCP, host(number, 2_000), server(number), 0).unwrap();
        assert!(answer(&mut nat, TCP, server(number), 2_000, 0).is_some());
    }
    // The second completes its handshake; the first is the oldest of the rest.
    send(&mut nat, TCP, host(2, 2_000), server(2), 1).unwrap();
    assert!(send(&mut nat, UDP, host(4, 2_000), to, 2).is_some());
    assert_eq!(answer(&mut nat, TCP, server(1), 2_000, 3), None);
    assert!(send(&mut nat, UDP, host(5, 2_000), to, 4).is_some());
    assert_eq!(answer(&mut nat, TCP, server(3), 2_000, 5), None);
    // Each further flow evicts an unanswered one.
    for number in 6..100 {
        assert!(send(&mut nat, UDP, host(number, 2_000), server(7), 6).is_some());
    }
    assert_eq!(answer(&mut nat, TCP, server(2), 2_000, 7), Some(host(2, 2_000)));
    // A connection that was reset is evicted like an unanswered one.
    let mut reset = frame(TCP, host(2, 2_000), server(2), b"");
    reset[14 + 20 + 13] |= 4;
    reset[14 + 20 + 16..14 + 20 + 18].fill(0);
    assert!(nat.outbound(&mut reset, US, 8));
    for number in 100..103 {
        assert!(send(&mut nat, UDP, host(number, 2_000), server(7), 9).is_some());
    }
    assert_eq!(answer(&mut nat, TCP, server(2), 2_000, 10), None);
    let counters = nat.counters();
    assert_eq!((counters.flows, counters.evicted, counters.refused_full), (3, 99, 0));
}

/// A flood of 50,000 flows/s from spoofed addresses, against a host with a few connections and an
/// RTT of 100 ms. The flood uses a /24 network, a sixteenth of it, one address, or a new address
/// per packet.
#[test]
fn a_flood_does_not_block_other_hosts() {
    const PPS: u64 = 50_000;
    const SECONDS: u64 = 1;
    const ROUND_TRIP_NS: u64 = 100_000_000;
    for addresses in [1, 16, 254, u32::MAX] {
        let mut nat = Nat::new(&port(16_384, 2_048, &[]));
        let honest = Ipv4Addr::new(10, 200, 0, 7);
        let old = ((honest, 999), server(9));
        let ours = send(&mut nat, TCP, old.0, old.1, 0).unwrap();
        settle(&mut nat, TCP, old.0, old.1, ours, 0);
        let mut pending = std::collections::VecDeque::new();
        let mut answered = 0;
        for number in 0..u32::try_from(PPS * SECONDS).unwrap() {
            let now_ns = u64::from(number) * SECOND / PPS;
            let from = Ipv4Addr::from(0x0a01_0000 + number % addresses);
            let to = (Ipv4Addr::from(0xc633_0000 + number / addresses), 9);
            let flood = u16::try_from(2_000 + number % 50_000).unwrap();
            let mut frame = frame(UDP, (from, flood), to, b"flood");
            nat.outbound(&mut frame, US, now_ns);
            // A new connection or echo every 20 ms.
            if number % 1_000 == 0 {
                let port = u16::try_from(3_000 + number / 1_000).unwrap();
                let (protocol, to) = match number % 2_000 {
                    0 => (TCP, server(1)),
                    _ => (ICMP, (server(1).0, 0)),
                };
                let ours = send(&mut nat, protocol, (honest, port), to, now_ns).unwrap();
                pending.push_back((now_ns + ROUND_TRIP_NS, protocol, (honest, port), to, ours));
            }
            while let Some((due_ns, protocol, from, to, ours)) = pending.front().copied()
                && due_ns <= now_ns
            {
                settle(&mut nat, protocol, from, to, ours, now_ns);
                pending.pop_front();
                answered += 1;
            }
        }
        assert_eq!(answered, SECONDS * 50 - 5, "{addresses} addresses");
        let ours = nat.inside[&(TCP, old.0, old.1)];
        assert!(nat.flows[ours as usize].unwrap().established);
        assert!(nat.counters().flows <= 16_384 && nat.counters().evicted > PPS * SECONDS - 17_000);
    }
}

#[test]
fn a_forwarded_port_belongs_to_one_host_in_both_directions() {
    let (web, names) = (host(5, 80), host(6, 53));
    let forwards = [(TCP, 8_080, web), (UDP, 53, names), (TCP, 8_081, web)];
    let mut nat = Nat::new(&port(8, 4, &forwards));
    let client = (server(1).0, 40_000);
    assert_eq!(answer(&mut nat, TCP, client, 8_080, 0), Some(web));
    assert_eq!(send(&mut nat, TCP, web, client, 0), Some(8_080));
    assert_eq!(answer(&mut nat, TCP, (client.0, 40_001), 8_081, 0), Some(web));
    assert_eq!(send(&mut nat, TCP, web, (client.0, 40_001), 0), Some(8_081));
    assert_eq!(answer(&mut nat, UDP, client, 53, 0), Some(names));
    for (protocol, port) in [(UDP, 8_080), (TCP, 53), (TCP, 80)] {
        assert_eq!(answer(&mut nat, protocol, client, port, 0), None);
    }
    let mut to_another = frame(TCP, client, (host(9, 0).0, 8_080), b"");
    assert_eq!(nat.inbound(&mut to_another, US, 0), NatLookup::No, "another address");
    // A flow that the host opens leaves by its forwarded port, which no other host gets.
    assert_eq!(send(&mut nat, TCP, web, server(2), 0), Some(8_080));
    assert_ne!(send(&mut nat, TCP, host(7, 8_080), server(2), 0), Some(8_080));
    assert_ne!(send(&mut nat, TCP, host(7, 8_081), server(3), 0), Some(8_081), "reserved");
    let counters = nat.counters();
    assert_eq!((counters.opened, counters.forwarded, counters.refused_full), (6, 3, 0));
    // Four unanswered flows of the host: the fifth evicts the oldest.
    let mut nat = Nat::new(&port(8, 4, &forwards));
    let strangers = |number: u16| (server(3).0, number);
    for number in 0..4 {
        assert!(answer(&mut nat, TCP, strangers(number), 8_080, 0).is_some());
    }
    assert!(answer(&mut nat, TCP, strangers(4), 8_080, 10 * SECOND).is_some());
    assert_eq!((nat.counters().evicted, nat.counters().refused_full), (1, 0));
    assert_eq!(nat.inside.get(&(TCP, web, strangers(0))), None);
    // A flow in which both ends have sent stays for hours.
    assert!(send(&mut nat, TCP, web, strangers(4), 12 * SECOND).is_some());
    assert!(answer(&mut nat, TCP, strangers(4), 8_080, 13 * SECOND).is_some());
    assert_eq!(send(&mut nat, TCP, web, strangers(4), 7_000 * SECOND), Some(8_080));
    assert_eq!(nat.counters().opened, 5);
}

/// A spoofed address receives no answer.
#[test]
fn half_open_flows_from_outside_expire_soon() {
    let web = host(5, 80);
    let mut nat = Nat::new(&port(4_096, 100, &[(TCP, 80, web), (UDP, 53, web)]));
    let send_syn = |nat: &mut Nat, number: u16, now_ns: u64| {
        let client = (server(1).0, number);
        let mut syn = frame(TCP, client, (US, 80), b"");
        syn[14 + 20 + 13] = SYN;
        syn[14 + 20 + 16..14 + 20 + 18].fill(0);
        let lookup = nat.inbound(&mut syn, US, now_ns);
        // The host's answer goes to the spoofed address.
        assert!(lookup == NatLookup::No || send(nat, TCP, web, client, now_ns) == Some(80));
        lookup
    };
    for number in 0..100 {
        assert_eq!(send_syn(&mut nat, number, 0), NatLookup::Host);
    }
    // New flows, from outside or from the host, evict them.
    for number in 100..200 {
        assert_eq!(send_syn(&mut nat, number, 5 * SECOND), NatLookup::Host);
    }
    assert!(send(&mut nat, UDP, web, server(2), 10 * SECOND).is_some());
    assert_eq!((nat.counters().flows, nat.counters().evicted), (100, 101));
    // All of them expire, in any slot of the table.
    assert_eq!(send_syn(&mut nat, 200, 16 * SECOND), NatLookup::Host);
    assert_eq!((nat.counters().refused_full, nat.counters().evicted), (0, 102));
    let mut ours = frame(UDP, (US, 53), (US, 53), b"an echo for ever");
    assert_eq!(nat.inbound(&mut ours, US, 11 * SECOND), NatLookup::No, "the source is spoofed");
    assert_eq!(nat.reflect(&mut ours, US, 11 * SECOND), NatLookup::No);
}

#[test]
fn an_echo_request_from_outside_is_for_the_router() {
    let mut nat = Nat::new(&port(4, 4, &[]));
    let other = (server(1).0, 0);
    assert_eq!(send(&mut nat, ICMP, host(1, 0), other, 0), Some(0));
    let mut request = frame(ICMP, (other.0, 0), (US, 0), b"question");
    assert_eq!(nat.inbound(&mut request, US, 0), NatLookup::No);
}

#[test]
fn the_routers_own_tcp_flows_keep_their_port() {
    let mut nat = Nat::new(&port(4, 4, &[]));
    assert_eq!(send(&mut nat, TCP, (US, 80), server(1), 0), Some(80));
}

/// Both hosts see only the external address: the client used it, and the server's answers must be
/// translated.
#[test]
fn hosts_reach_each_other_by_a_forwarded_port() {
    let (client, server) = (host(7, 8_080), host(5, 53));
    let mut nat = Nat::new(&port(8, 4, &[(UDP, 8_080, server)]));
    let mut reflected = |from: End, to: End, payload: &[u8], now_ns| {
        let mut parts = parts(&frame(UDP, from, to, payload), 9, 1_000);
        let sent = parts.iter_mut().all(|part| nat.reflect(part, US, now_ns) == NatLookup::Host);
        sent.then(|| read(&joined(&parts).0))
    };
    for payload in [&b"question"[..], &[7; 3_000]] {
        let sent = reflected(client, (US, 8_080), payload, 0).unwrap();
        assert_eq!((sent.source.0, sent.destination), (US, server));
        let answer = reflected(server, sent.source, payload, 1).unwrap();
        assert_eq!((answer.source, answer.destination), ((US, 8_080), client));
        assert_eq!((&sent.payload[..], &answer.payload[..]), (payload, payload));
        assert_ne!(sent.source.1, 8_080, "the server's port");
    }
    assert_eq!(reflected(client, (US, 8_081), b"", 0), None, "not forwarded");
    assert_eq!(reflected(host(8, 1), (US, 40_000), b"", 0), None);
    // The client receives an error about the translated packet.
    let mut question = frame(UDP, client, (US, 8_080), b"question");
    let before = question.clone();
    assert_eq!(nat.reflect(&mut question, US, 2), NatLookup::Host);
    let mut error = error(server.0, US, &question[14..]);
    assert_eq!(nat.reflect(&mut error, US, 2), NatLookup::Host);
    assert_eq!(read_error(&error), (US, client.0, before[14..].to_vec()));
    assert_eq!(nat.counters().flows, 2);
}

#[test]
fn flows_survive_a_change_of_forwards() {
    let (first, second) = (host(5, 80), host(6, 80));
    let mut nat = Nat::new(&port(8, 4, &[(TCP, 80, first)]));
    let client = |number| (server(1).0, number);
    assert_eq!(answer(&mut nat, TCP, client(1), 80, 0), Some(first));
    // The second host has a flow by another port before port 80 is forwarded to it.
    let other = send(&mut nat, TCP, second, client(3), 0).unwrap();
    assert_ne!(other, 80);
    let mut nat = nat.changed(&port(8, 4, &[(TCP, 80, second)]));
    assert_eq!(answer(&mut nat, TCP, client(1), 80, 0), Some(first));
    assert_eq!(answer(&mut nat, TCP, client(2), 80, 0), Some(second));
    assert_eq!(
        answer(&mut nat, TCP, client(3), 80, 0),
        None,
        "the host has this flow by another port"
    );
    assert_eq!(nat.counters().refused_full, 1);
    let mut nat = nat.changed(&port(9, 4, &[(TCP, 80, second)]));
    assert_eq!(nat.counters(), NatCounters::default());
    assert_eq!(answer(&mut nat, TCP, client(1), 80, 0), Some(second));
}

/// Fragments the packet in `frame` as IP does; `size` is a multiple of eight.
fn parts(frame: &[u8], identification: u16, size: usize) -> Vec<Vec<u8>> {
    let payload = &frame[34..];
    let part = |(number, bytes): (usize, &[u8])| {
        let mut header = Ipv4Header::from_slice(&frame[14..34]).unwrap().0;
        header.identification = identification;
        header.dont_fragment = false;
        header.more_fragments = (number + 1) * size < payload.len();
        let offset = u16::try_from(number * size / 8).unwrap();
        header.fragment_offset = offset.try_into().unwrap();
        header.total_len = u16::try_from(20 + bytes.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        [&frame[..14], &header.to_bytes()[..], bytes].concat()
    };
    payload.chunks(size).enumerate().map(part).collect()
}

/// Reassembles fragments; returns the packet and the identification that they share.
fn joined(parts: &[Vec<u8>]) -> (Vec<u8>, u16) {
    let headers: Vec<_> =
        parts.iter().map(|part| Ipv4Header::from_slice(&part[14..34]).unwrap().0).collect();
    let mut whole = headers[0].clone();
    for (header, part) in headers.iter().zip(parts) {
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(header.identification, whole.identification);
        assert_eq!((header.source, header.destination), (whole.source, whole.destination));
        assert_eq!(part.len(), 14 + usize::from(header.total_len));
    }
    let payload: Vec<u8> = parts.iter().flat_map(|part| &part[34..]).copied().collect();
    whole.more_fragments = false;
    whole.total_len = u16::try_from(20 + payload.len()).unwrap();
    whole.header_checksum = whole.calc_header_checksum();
    let frame = [&parts[0][..14], &whole.to_bytes()[..], &payload].concat();
    (frame, whole.identification)
}

#[test]
fn later_fragments_are_translated_like_the_first() {
    let question = [7; 100];
    let protocols = [(UDP, server(1)), (TCP, server(1)), (ICMP, (server(1).0, 0))];
    for (protocol, to) in protocols {
        let mut nat = Nat::new(&port(4, 4, &[]));
        let from = host(5, 4_000);
        let mut sent = parts(&frame(protocol, from, to, &question), 9, 32);
        assert!(sent.len() > 3);
        let mut early = sent[1].clone();
        assert!(!nat.outbound(&mut early, US, 0), "the first fragment is missing");
        // Another host uses the same identification, and the first fragment arrives twice.
        let mut others = parts(&frame(protocol, host(6, 4_001), to, &question), 9, 32);
        let mut again = sent[0].clone();
        for part in sent.iter_mut().zip(&mut others).flat_map(|(a, b)| [a, b]) {
            assert!(nat.outbound(part, US, 0));
        }
        assert!(nat.outbound(&mut again, US, 0));
        assert_eq!(again, sent[0]);
        let ((whole, one), (_, another)) = (joined(&sent), joined(&others));
        assert_ne!(one, another, "identifications must differ");
        let expected =
            Parsed { protocol, source: (US, 4_000), destination: to, payload: question.into() };
        assert_eq!(read(&whole), expected);
        assert_eq!(
            (nat.counters().outbound, nat.counters().refused_kind),
            (9 + 2 * (sent.len() as u64 - 4), 1)
        );

        let mut answers = parts(&frame(protocol, to, (US, 4_000), &question), 10, 32);
        let mut late = answers[1].clone();
        for part in &mut answers {
            assert_eq!(nat.inbound(part, US, 0), NatLookup::Host);
        }
        assert_eq!(nat.inbound(&mut late, US, 31 * SECOND), NatLookup::No);
        let (whole, identification) = joined(&answers);
        assert_eq!(identification, 10);
        assert_eq!(
            read(&whole),
            Parsed { protocol, source: to, destination: from, payload: question.into() }
        );
    }
}

#[test]
fn untranslatable_packets_are_refused() {
    let mut nat = Nat::new(&port(4, 4, &[]));
    // A first fragment below the minimum length.
    let fragment = parts(&frame(TCP, host(1, 2_000), server(1), b"part"), 1, 16).swap_remove(0);
    let mut strange = frame(UDP, host(1, 2_000), server(1), b"SCTP");
    strange[23] = 132;
    // An echo reply without a request.
    let reply = frame(ICMP, (host(1, 0).0, 0), (server(1).0, 7), b"");
    for mut frame in [fragment, strange, reply, vec![0; 60]] {
        assert!(!nat.outbound(&mut frame, US, 0));
    }
    assert_eq!((nat.counters().refused_kind, nat.counters().flows), (4, 0));
    let mut own = frame(UDP, (US, 99), server(1), b"ours");
    let before = own.clone();
    assert!(nat.outbound(&mut own, US, 0) && own == before);
}

#[test]
fn an_icmp_error_reaches_the_host_whose_packet_it_quotes() {
    for (protocol, to) in [(UDP, server(1)), (TCP, server(1)), (ICMP, (server(1).0, 0))] {
        for quoted in [28, 48, 200] {
            let mut nat = Nat::new(&port(4, 4, &[]));
            // Another host has the port already, so the second host gets another port.
            send(&mut nat, protocol, host(1, 5_000), to, 0).unwrap();
            let mut sent = frame(protocol, host(2, 5_000), to, &[7; 200]);
            let before = sent.clone();
            assert!(nat.outbound(&mut sent, US, 0));
            let router = Ipv4Addr::new(198, 51, 100, 7);
            let mut error = error(router, US, &sent[14..14 + quoted]);
            let mut broken = error.clone();
            assert_eq!(nat.inbound(&mut error, US, 0), NatLookup::Host);
            // The host sees its packet as it sent it.
            let expected = (router, host(2, 0).0, before[14..14 + quoted].to_vec());
            assert_eq!(read_error(&error), expected, "{protocol} {quoted}");

            *broken.last_mut().unwrap() ^= 1;
            assert_eq!(nat.inbound(&mut broken, US, 0), NatLookup::No, "a wrong checksum");
        }
    }
}

#[test]
fn an_icmp_error_about_an_inbound_packet_quotes_the_external_address() {
    let web = host(5, 80);
    let client = (server(1).0, 40_000);
    for (protocol, quoted) in [(UDP, 28), (TCP, 28), (TCP, 60)] {
        let mut nat = Nat::new(&port(4, 4, &[(protocol, 8_080, web)]));
        let mut inbound = frame(protocol, client, (US, 8_080), &[7; 200]);
        let before = inbound.clone();
        assert_eq!(nat.inbound(&mut inbound, US, 0), NatLookup::Host);
        // The error may come from the host, a router before it, or this router: the client sees the
        // external address.
        for from in [web.0, host(200, 0).0, US] {
            let mut error = error(from, client.0, &inbound[14..14 + quoted]);
            if from == US {
                nat.translate_own_error(&mut error, US);
            } else {
                assert!(nat.outbound(&mut error, US, 0));
            }
            let expected = (US, client.0, before[14..14 + quoted].to_vec());
            assert_eq!(read_error(&error), expected, "{protocol} {quoted} {from}");
        }
        // An error about an unknown flow is dropped.
        let other = frame(protocol, (client.0, 1), web, &[7; 200]);
        let mut strange = error(web.0, client.0, &other[14..14 + quoted]);
        assert!(!nat.outbound(&mut strange, US, 0));
        assert_eq!((nat.counters().outbound, nat.counters().refused_kind), (2, 1));
    }
}
