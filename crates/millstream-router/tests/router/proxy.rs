//! Proxies between ends that send arbitrary segments among valid ones. Every packet is accounted
//! for, no buffer leaks, and tables keep their limits.

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use millstream::Link;
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, LiveMachine, NextHop, Pool, Port, PortError,
    Routes, admitted,
};
use millstream_router::{OutputId, PacketHandle, PathId, PortId, Router, Step};
use millstream_scenario::RouterScenario;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BUFFERS: u32 = 128;
const CONNECTIONS: u64 = 6;

/// A path with a classical proxy, one with a transparent proxy, and one for the rest.
const FILE: &str = r#"
[router]
buffers = 128
[[port]]
name = "p"
kind = "pcap"
output = "none"
mac = "02:00:00:00:00:01"
rate = "10 Gbps"
address = ["10.0.0.1/24", "fd00::1/64"]
[[path]]
name = "classical"
match = { protocol = "tcp", destination-port = 80 }
[path.proxy]
kind = "classical"
to = "10.0.0.9:80"
hosts = { "b.example" = "[fd00::9]:80" }
connections = 6
host-connections = 4
buffer = "4 KiB"
[[path]]
name = "transparent"
match = { protocol = "tcp", destination-port = 81 }
proxy = { kind = "transparent", deny = ["b.example"], connections = 6, host-connections = 4 }
[[path]]
name = "rest"
[[route]]
prefix = "10.0.0.0/8"
port = "p"
neighbour = "02:00:00:00:00:02"
[[route]]
prefix = "fd00::/16"
port = "p"
neighbour = "02:00:00:00:00:02"
"#;

/// An action of an end.
#[derive(Clone, Debug)]
enum Action {
    /// Opens a connection: client, port, proxy, IPv6 or not.
    Begin(u8, u16, bool, bool),
    /// Answers an earlier frame, correctly except for the given deviations.
    Answer { back: usize, sequence: u32, acknowledgement: u32, flags: u8, data: Vec<u8> },
    /// Sends arbitrary bytes.
    SendBytes(Vec<u8>),
    /// Returns an earlier frame with one byte changed.
    Echo(usize, usize, u8),
    /// Waits, ns.
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let honest = prop_oneof![
        3 => Just(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec()),
        1 => Just(b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_vec()),
        2 => Just(Vec::new()),
        1 => vec(any::<u8>(), 0..1_400),
    ];
    let wrong = || prop_oneof![12 => Just(0u32), 1 => any::<u32>(), 1 => 0..3_000u32];
    // Mostly ACK; sometimes FIN, RST or SYN.
    let flags =
        prop_oneof![12 => Just(16u8), 3 => Just(17), 1 => Just(4), 1 => Just(20), 1 => any::<u8>()];
    prop_oneof![
        3 => (0..3u8, 0..6u16, any::<bool>(), any::<bool>())
            .prop_map(|(client, port, which, v6)| Action::Begin(client, port, which, v6)),
        10 => (0..6usize, wrong(), wrong(), flags, honest).prop_map(
            |(back, sequence, acknowledgement, flags, data)| Action::Answer {
                back, sequence, acknowledgement, flags, data
            }),
        1 => vec(any::<u8>(), 0..120).prop_map(Action::SendBytes),
        1 => (0..6usize, 0..120usize, any::<u8>())
            .prop_map(|(back, at, byte)| Action::Echo(back, at, byte)),
        1 => prop_oneof![Just(1_000_000u64), Just(2_000_000_000), Just(400_000_000_000)]
            .prop_map(Action::Wait),
    ]
}

/// All ends: records the frames they receive and sends from a list.
#[derive(Default)]
struct Ends {
    sent: VecDeque<Vec<u8>>,
    transmitted_frames: Vec<Vec<u8>>,
}

impl Port for Ends {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let count = most.min(self.sent.len());
        into.extend(self.sent.drain(..count).filter_map(|frame| pool.copy(&frame)));
        Ok(count)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        for packet in packets {
            self.transmitted_frames.push(pool.frame(*packet).to_vec());
            pool.release(*packet);
        }
        Ok(packets.len())
    }
}

fn syn_frame(client: u8, port: u16, classical: bool, v6: bool) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], MAC);
    let six = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    // The destination is the router's own address, or a host's.
    let to = if port.is_multiple_of(2) && classical { 1 } else { 9 };
    let builder = if v6 {
        builder.ipv6(six(100 + client), six(to), 9)
    } else {
        builder.ipv4([10, 0, 0, 100 + client], [10, 0, 0, to], 9)
    };
    let mut frame = Vec::new();
    let tcp = builder.tcp(4_000 + port, if classical { 80 } else { 81 }, 1_000, 5_000).syn();
    let options = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0];
    tcp.options_raw(&options).unwrap().write(&mut frame, &[]).unwrap();
    frame
}

/// Returns the answer to a frame, correct except for the given deviations.
fn answer(
    of: &[u8],
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    data: &[u8],
) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(of).ok()?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], MAC);
    let builder = match packet.net.as_ref()? {
        etherparse::NetSlice::Ipv4(ip) => {
            builder.ipv4(ip.header().destination(), ip.header().source(), 9)
        }
        etherparse::NetSlice::Ipv6(ip) => {
            builder.ipv6(ip.header().destination(), ip.header().source(), 9)
        }
        _ => return None,
    };
    let length = u32::try_from(tcp.payload().len()).unwrap();
    let more = u32::from(tcp.syn()) + u32::from(tcp.fin());
    let acknowledgement =
        tcp.sequence_number().wrapping_add(length + more).wrapping_add(acknowledgement);
    // A server starts from its own sequence number.
    let first = if tcp.syn() && !tcp.ack() { 77_000 } else { tcp.acknowledgment_number() };
    let mut header = etherparse::TcpHeader::new(
        tcp.destination_port(),
        tcp.source_port(),
        first.wrapping_add(sequence),
        8_000,
    );
    let begins = tcp.syn() && !tcp.ack();
    header.acknowledgment_number = acknowledgement;
    (header.fin, header.syn) = (flags & 1 != 0 && !begins, begins || flags & 2 != 0);
    (header.rst, header.ack) = (flags & 4 != 0, flags & 16 != 0);
    let mut frame = Vec::new();
    let data = if begins { &[] } else { data };
    builder.tcp_header(header).write(&mut frame, data).ok()?;
    Some(frame)
}

/// Returns the router of the file with a mock clock.
fn router() -> (Router<LiveMachine<Ends>>, Arc<quanta::Mock>) {
    let scenario = RouterScenario::parse("test.toml", FILE, Path::new("")).unwrap();
    let mut routes = Routes::default();
    for route in &scenario.routes {
        routes.add(route.prefix, NextHop { output: PortId(0), from: MAC, to: [2, 0, 0, 0, 0, 2] });
    }
    let (clock, mock) = Clock::mock();
    let rules = scenario.paths.iter().map(|path| path.matches).collect();
    let (classifier, function) = (Classifier::new(rules), Forwarder::new(routes));
    let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
    machine.add(Ends::default(), MAC, Link::new(10_000_000_000, 0));
    machine.set_address(PortId(0), scenario.ports[0].addresses.iter().copied());
    machine.set_proxies(&scenario, &[]);
    let plan = admitted(&scenario, 1_000_000_000).unwrap();
    (Router::new(&plan, machine).unwrap(), mock)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_packet_between_arbitrary_ends_is_accounted_for(acts in vec(action(), 1..120)) {
        let (mut router, mock) = router();
        let run = |router: &mut Router<LiveMachine<Ends>>, mock: &Arc<quanta::Mock>| {
            for _ in 0..40 {
                mock.increment(20_000u64);
                if let Step::Idle { .. } = router.step() {
                    router.resume();
                }
            }
        };
        for action in acts {
            let port = router.machine_mut().port_mut(PortId(0));
            let frames = &port.transmitted_frames;
            let from_end = |back: usize| frames.len().checked_sub(back + 1).map(|at| &frames[at]);
            let frame = match action {
                Action::Begin(client, source, which, v6) => {
                    Some(syn_frame(client, source, which, v6))
                }
                Action::Answer { back, sequence, acknowledgement, flags, data } => {
                    let of = from_end(back);
                    of.and_then(|of| answer(of, sequence, acknowledgement, flags, &data))
                }
                Action::SendBytes(bytes) => Some(bytes),
                Action::Echo(back, at, byte) => from_end(back).cloned().map(|mut frame| {
                    frame[..6].copy_from_slice(&MAC);
                    let at = at % frame.len();
                    frame[at] = byte;
                    frame
                }),
                Action::Wait(ns) => {
                    mock.increment(ns);
                    None
                }
            };
            port.sent.extend(frame.filter(|frame| frame.len() <= BUFFER_BYTES));
            run(&mut router, &mock);
            for path in 0..2 {
                let of = router.machine().proxy_counters(PathId(path)).unwrap();
                prop_assert!(of.connections <= CONNECTIONS, "{of:?}");
            }
        }
        run(&mut router, &mock);
        let mut held = 0;
        for path in 0..3 {
            let path = PathId(path);
            let (counters, (before, after)) = (router.path(path), router.waiting(path));
            let waiting = (before + after) as u64;
            held += before + after;
            prop_assert_eq!(counters.received + counters.made, counters.departed() + waiting);
        }
        held += router.staged(OutputId(0));
        prop_assert_eq!(router.machine().free_buffers() + held, BUFFERS as usize);
    }
}

/// Guards the test above: generated conversations must establish connections.
#[test]
fn both_kinds_of_proxy_connect_valid_ends() {
    for classical in [true, false] {
        let (mut router, mock) = router();
        let mut exchange = |frame: Vec<u8>, answers: usize| {
            let port = router.machine_mut().port_mut(PortId(0));
            port.sent.push_back(frame);
            let before = port.transmitted_frames.len();
            for _ in 0..400 {
                mock.increment(100_000u64);
                if let Step::Idle { .. } = router.step() {
                    router.resume();
                }
            }
            let transmitted_frames =
                &router.machine_mut().port_mut(PortId(0)).transmitted_frames[before..];
            assert!(transmitted_frames.len() >= answers, "{} answers", transmitted_frames.len());
            transmitted_frames.to_vec()
        };
        let syn_ack = exchange(syn_frame(1, 1, classical, false), 1);
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let sent = exchange(answer(&syn_ack[0], 0, 0, 16, request).unwrap(), 1);
        let syn = sent.iter().find(|frame| frame[47] & 0x12 == 2).expect("a SYN to the server");
        let sent = exchange(answer(syn, 0, 0, 18, &[]).unwrap(), 1);
        assert!(sent.iter().any(|frame| frame.ends_with(request)), "the server gets the request");
    }
}
