//! No segments make a router with a classical and a transparent proxy panic, leak a buffer or
//! packet, or exceed its connection limits. The records of an input are actions: raw frames, SYNs,
//! time steps, and replies to the router's packets with chosen errors.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpHeader, TransportSlice};
use millstream::Link;
use millstream_router::live::{
    BUFFER_BYTES, Classifier, Clock, Forwarder, LiveMachine, NextHop, Pool, Port, PortError,
    Routes, admitted,
};
use millstream_router::{OutputId, PacketHandle, PathId, Plan, PortId, Router, Step};
use millstream_scenario::RouterScenario;
use std::path::Path;

use crate::{Mutation, Target, records};

pub(crate) const TARGET: Target = Target {
    name: "proxy",
    first_parser: "a TCP connection that a proxy accepts",
    seeds,
    words: &[
        b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        b"POST /x HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"\r\n\r\n",
        b"Content-Length: 4\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        &[0x16, 3, 1],
    ],
    mutate,
    admits: None,
    run,
};

/// Returns an action: its kind, the packet or connection it refers to, flags, and offsets of
/// numbers.
fn action(kind: u8, of: [u8; 4], data: &[u8]) -> Vec<u8> {
    [&[kind][..], &of, data].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let ask = b"GET / HTTP/1.1\r\nHost: b\r\n\r\n";
    let still = [0; 4];
    let talk = |which: u8| {
        vec![
            action(0, [which, 0, 0, 0], &[]),
            action(5, still, &[]),
            action(5, still, ask),
            action(5, still, &[]),
            action(5, [1, 0, 0, 0], b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            action(2, [3, 0, 0, 0], &[]),
            action(5, [0, 1, 0, 0], &[]),
            action(5, [1, 1, 0, 0], &[]),
            action(2, [12, 0, 0, 0], &[]),
        ]
    };
    let mut all: Vec<Vec<u8>> =
        [0, 4, 8, 12, 16, 20, 24, 28].map(|of| records::join(&talk(of))).into();
    all.push(records::join(&[talk(0), talk(20), talk(8)].concat()));
    all
}

fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    mutation.records(input, |mutation, action| {
        if mutation.one_in(3) && action.len() > 5 {
            let mut data = action.split_off(5);
            mutation.text(&mut data);
            action.extend(data);
        } else {
            action.resize(action.len().max(5), 0);
            let at = mutation.below(5);
            action[at] = mutation.random.u8(..);
        }
    });
}

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BUFFERS: u32 = 128;
const CONNECTIONS: u64 = 4;
/// Steps after each action, and the duration of one, ns.
const STEPS: usize = 24;
const STEP_NS: u64 = 20_000;

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
hosts = { "b" = "[fd00::9]:80" }
connections = 4
host-connections = 3
buffer = "4 KiB"
[[path]]
name = "transparent"
match = { protocol = "tcp", destination-port = 81 }
proxy = { kind = "transparent", deny = ["b"], connections = 4, host-connections = 3 }
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

/// The parsed scenario and its plan.
struct Settings {
    scenario: RouterScenario,
    plan: Plan,
}

thread_local! {
    static SETTINGS: Settings = {
        let scenario = RouterScenario::parse("fuzz.toml", FILE, Path::new("")).expect("a scenario");
        let plan = admitted(&scenario, 1_000_000_000).expect("an admitted scenario");
        Settings { scenario, plan }
    };
}

/// The other side of the port: the next frame to send, and the frames received.
#[derive(Default)]
struct FarSide {
    next: Option<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Port for FarSide {
    fn receive(
        &mut self,
        pool: &mut Pool,
        most: usize,
        into: &mut Vec<PacketHandle>,
    ) -> Result<usize, PortError> {
        let Some(frame) = self.next.take_if(|_| most > 0) else { return Ok(0) };
        into.extend(pool.copy(&frame));
        Ok(1)
    }

    fn transmit(&mut self, pool: &mut Pool, packets: &[PacketHandle]) -> Result<usize, PortError> {
        for packet in packets {
            self.received.push(pool.frame(*packet).to_vec());
            pool.release(*packet);
        }
        Ok(packets.len())
    }
}

/// Returns a SYN. The bits of `of` choose the client, the proxy and the IP version.
fn begin(of: u8) -> Option<Vec<u8>> {
    let six = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    // The destination is an address of the router or beyond it.
    let (client, to) = (100 + (of & 3), if of & 4 == 0 { 9 } else { 1 });
    let ethernet = PacketBuilder::ethernet2(FAR, MAC);
    let builder = if of & 8 == 0 {
        ethernet.ipv4([10, 0, 0, client], [10, 0, 0, to], 9)
    } else {
        ethernet.ipv6(six(client), six(to), 9)
    };
    let tcp = builder.tcp(4_000 + u16::from(of >> 5), 80 + u16::from(of >> 4 & 1), 1_000, 5_000);
    let mut frame = Vec::new();
    tcp.syn()
        .options_raw(&[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0])
        .ok()?
        .write(&mut frame, &[])
        .ok()?;
    Some(frame)
}

/// Returns a reply to `of` with these flags and data. `more` offsets its sequence numbers.
fn answer(of: &[u8], flags: u8, more: [i8; 2], data: &[u8]) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(of).ok()?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let ethernet = PacketBuilder::ethernet2(FAR, MAC);
    let builder = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => ethernet.ipv4(ip.header().destination(), ip.header().source(), 9),
        NetSlice::Ipv6(ip) => ethernet.ipv6(ip.header().destination(), ip.header().source(), 9),
        NetSlice::Arp(_) => return None,
    };
    let begins = tcp.syn() && !tcp.ack();
    // The reply to a SYN has its own initial sequence number.
    let first = if begins { 77_000 } else { tcp.acknowledgment_number() };
    // Offsets are large (even) or small (odd).
    let far = |by: i8| i32::from(by) * if by & 1 == 0 { 1 << 23 } else { 1 };
    let length = u32::try_from(tcp.payload().len()).ok()?;
    let came = length + u32::from(tcp.syn()) + u32::from(tcp.fin());
    let sequence = first.wrapping_add_signed(far(more[0]));
    let mut header = TcpHeader::new(tcp.destination_port(), tcp.source_port(), sequence, 8_000);
    header.acknowledgment_number =
        tcp.sequence_number().wrapping_add(came).wrapping_add_signed(far(more[1]));
    (header.fin, header.syn) = (flags & 1 != 0, begins || flags & 2 != 0);
    (header.rst, header.ack) = (flags & 4 != 0, flags & 16 == 0);
    let mut frame = Vec::new();
    builder.tcp_header(header).write(&mut frame, data).ok()?;
    Some(frame)
}

fn run(input: &[u8]) -> bool {
    SETTINGS.with(|settings| run_with(settings, input))
}

fn run_with(settings: &Settings, input: &[u8]) -> bool {
    let mut taken = false;
    let mut routes = Routes::default();
    for route in &settings.scenario.routes {
        routes.add(route.prefix, NextHop { output: PortId(0), from: MAC, to: FAR });
    }
    let (clock, hand) = Clock::mock();
    let rules = settings.scenario.paths.iter().map(|path| path.matches).collect();
    let (classifier, function) = (Classifier::new(rules), Forwarder::new(routes));
    let mut machine = LiveMachine::new(clock, Pool::new(BUFFERS), classifier, function);
    machine.add(FarSide::default(), MAC, Link::new(10_000_000_000, 0));
    machine.set_address(PortId(0), settings.scenario.ports[0].addresses.iter().copied());
    machine.set_proxies(&settings.scenario, &[]);
    let mut router = Router::new(&settings.plan, machine).expect("valid contracts");
    for action in records::split(input).into_iter().take(96) {
        let Some((&[kind, which, flags, sequence, acknowledgement], data)) =
            action.split_first_chunk()
        else {
            continue;
        };
        let far = router.machine_mut().port_mut(PortId(0));
        let back = far.received.len().checked_sub(1 + usize::from(which & 7));
        let more = [sequence.cast_signed(), acknowledgement.cast_signed()];
        far.next = match kind % 8 {
            0 => begin(which),
            1 => Some(data.to_vec()),
            2 => {
                hand.increment(1_000_000u64 << (which % 20));
                None
            }
            // A received frame, sent back with one byte changed.
            3 => back.map(|at| far.received[at].clone()).map(|mut frame| {
                frame[..6].copy_from_slice(&MAC);
                let at = usize::from(flags) % frame.len();
                frame[at] = sequence;
                frame
            }),
            4 => back.and_then(|at| answer(&far.received[at], flags, more, data)),
            _ => back.and_then(|at| answer(&far.received[at], flags & 1, [0; 2], data)),
        };
        far.next.take_if(|frame| frame.len() > BUFFER_BYTES);
        for _ in 0..STEPS {
            hand.increment(STEP_NS);
            if let Step::Idle { .. } = router.step() {
                router.resume();
            }
        }
        let mut held = router.staged(OutputId(0));
        for path in 0..3 {
            let (counters, (before, after)) =
                (router.path(PathId(path)), router.waiting(PathId(path)));
            held += before + after;
            assert_eq!(
                counters.received + counters.made,
                counters.departed() + (before + after) as u64
            );
            let proxied = router.machine().proxy_counters(PathId(path));
            assert!(proxied.is_none_or(|of| of.connections <= CONNECTIONS), "{proxied:?}");
            taken |= proxied.is_some_and(|of| of.connections > 0);
        }
        assert_eq!(router.machine().free_buffers() + held, BUFFERS as usize);
    }
    taken
}
