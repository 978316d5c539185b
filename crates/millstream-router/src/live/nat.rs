//! Many hosts behind one address: source addresses and ports of packets that leave by a port become the
//! router's own, and answers find their way back.
//!
//! ```text
//! 10.1.0.5:4000 ── to 192.0.2.9:80 ──>  203.0.113.1:4000 ── to 192.0.2.9:80 ──>
//! <── to 10.1.0.5:4000 ── from 192.0.2.9:80   <── to 203.0.113.1:4000 ── from 192.0.2.9:80
//! ```
//!
//! A *flow* is a protocol and both ends' addresses and ports; only answers from the flow's other end come in.
//! A host keeps its port number where that is free for this other end, so a host that speaks with several has one
//! port to all of them. Flows, and those of one host, are bounded; those that were silent for too long
//! make room.
//!
//! Source: RFC 3022 (NAPT); RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), of which it is the strict
//! kind ("address and port-dependent filtering"). Fragments are not translated (RFC 4787, REQ-14, asks for it).

use etherparse::checksum::Sum16BitWords;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use crate::live::header::{Transport, transport, updated};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// How long a flow may be silent, ns.
const UDP_NS: u64 = 300_000_000_000;
const ICMP_NS: u64 = 60_000_000_000;
const ESTABLISHED_NS: u64 = 7_440_000_000_000;
/// Of TCP before it is answered, and after it was ended.
const TRANSITORY_NS: u64 = 240_000_000_000;

/// Flows looked at for each new one, whether they were silent for too long,
const LOOKED_AT: usize = 8;
/// and port numbers tried.
const TRIED: u64 = 64;
/// The first port number that hosts are given; those below name services.
const FIRST_PORT: u16 = 1_024;

/// What translation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatCounters {
    /// Flows that are known now.
    pub flows: u64,
    /// Flows that were begun.
    pub opened: u64,
    /// Packets whose source was translated.
    pub outbound: u64,
    /// Packets whose destination was translated.
    pub inbound: u64,
    /// Packets dropped because no flow more could be begun: too many, or too many of their host.
    pub refused_full: u64,
    /// Packets dropped because they are fragments, or of none of UDP, TCP and ICMP echo.
    pub refused_kind: u64,
}

/// One end of a flow. Of ICMP echo the port is its identifier.
type End = (Ipv4Addr, u16);

/// How a flow is found: the protocol, its end here (inside: the host, outside: our port), its other end.
type Inside = (u8, End, End);
type Outside = (u8, u16, End);

#[derive(Clone, Copy, Debug)]
struct Flow {
    protocol: u8,
    host: End,
    port: u16,
    other: End,
    last_ns: u64,
    answered: bool,
    ended: bool,
}

impl Flow {
    fn inside(&self) -> Inside {
        (self.protocol, self.host, self.other)
    }

    fn outside(&self) -> Outside {
        (self.protocol, self.port, self.other)
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let patience_ns = match self.protocol {
            UDP => UDP_NS,
            ICMP => ICMP_NS,
            _ if self.answered && !self.ended => ESTABLISHED_NS,
            _ => TRANSITORY_NS,
        };
        now_ns.saturating_sub(self.last_ns) > patience_ns
    }
}

/// The translation at one port.
#[derive(Debug)]
pub(super) struct Nat {
    /// Slots, those of no flow being free.
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    inside: HashMap<Inside, u32>,
    outside: HashMap<Outside, u32>,
    /// Flows of each host.
    hosts: HashMap<Ipv4Addr, u32>,
    host_flows: u32,
    /// Where silent flows are looked for next.
    hand: usize,
    numbers: RandomState,
    counters: NatCounters,
}

impl Nat {
    /// For so many flows at once, and so many of one host.
    pub(super) fn new(flows: u32, host_flows: u32) -> Self {
        let count = flows as usize;
        // With twice the room, a table never grows again.
        Self {
            flows: vec![None; count],
            free: (0..flows).rev().collect(),
            inside: HashMap::with_capacity(2 * count),
            outside: HashMap::with_capacity(2 * count),
            hosts: HashMap::with_capacity(2 * count),
            host_flows,
            hand: 0,
            numbers: RandomState::new(),
            counters: NatCounters::default(),
        }
    }

    /// Whether it is for so many flows.
    pub(super) fn is_for(&self, flows: u32, host_flows: u32) -> bool {
        (self.flows.len(), self.host_flows) == (flows as usize, host_flows)
    }

    /// What it did.
    pub(super) fn counters(&self) -> NatCounters {
        NatCounters { flows: self.inside.len() as u64, ..self.counters }
    }

    /// A packet leaves by the port: it comes from `us` now. `false` if it is to be dropped.
    pub(super) fn outbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> bool {
        let whole = transport(frame).and_then(|ip| Some((ip, ends(frame, ip)?)));
        // Nobody inside was asked, as echo requests from outside are the router's own.
        let Some((ip, ends)) = whole.filter(|(ip, _)| !is_echo_reply(frame, *ip)) else {
            self.counters.refused_kind += 1;
            return false;
        };
        // What the router says itself needs no flow, but for connections of its proxies: their ports are then no host's.
        if ends.source.0 == us && ip.protocol != TCP {
            return true;
        }
        let known = self.inside.get(&(ip.protocol, ends.source, ends.destination)).copied();
        let slot = known.filter(|slot| !self.drop_if_over(*slot, now_ns));
        let Some(slot) = slot.or_else(|| self.open(ip.protocol, ends, now_ns)) else {
            self.counters.refused_full += 1;
            return false;
        };
        let Some(flow) = &mut self.flows[slot as usize] else { return false };
        flow.last_ns = now_ns;
        note_flags(flow, frame, ip);
        let port = flow.port;
        replace(frame, ip, Field::Source, (us, port));
        self.counters.outbound += 1;
        true
    }

    /// A packet came in for `us`: if it belongs to a flow it goes to the flow's host now.
    pub(super) fn inbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> bool {
        let Some(ip) = transport(frame) else { return false };
        let translated = match ends(frame, ip) {
            Some(ends) => self.answer(frame, ip, ends, now_ns),
            None => self.error(frame, ip, us, now_ns),
        };
        self.counters.inbound += u64::from(translated.is_some());
        translated.is_some()
    }

    fn answer(&mut self, frame: &mut [u8], ip: Transport, ends: Ends, now_ns: u64) -> Option<()> {
        let slot = *self.outside.get(&(ip.protocol, ends.destination.1, ends.source))?;
        if self.drop_if_over(slot, now_ns) {
            return None;
        }
        let flow = self.flows[slot as usize].as_mut()?;
        flow.answered = true;
        // Who is outside cannot keep a UDP flow alive (RFC 4787, REQ-6).
        if flow.protocol == TCP {
            flow.last_ns = now_ns;
        }
        note_flags(flow, frame, ip);
        let host = flow.host;
        replace(frame, ip, Field::Destination, host);
        Some(())
    }

    /// An ICMP error about a packet of a flow (RFC 5508, section 4): it quotes that packet.
    fn error(&mut self, frame: &mut [u8], ip: Transport, us: Ipv4Addr, now_ns: u64) -> Option<()> {
        let message = frame.get(ip.start..ip.end)?;
        let is_error = ip.protocol == ICMP && matches!(message.first(), Some(3 | 4 | 11 | 12));
        if !is_error || sum(message) != 0 {
            return None;
        }
        let quoted_at = ip.start + 8;
        let quoted = frame.get(quoted_at..ip.end)?;
        let header = usize::from(quoted.first()? & 15) * 4;
        let is_first = quoted.first()? >> 4 == 4 && header >= 20 && quoted.get(6)? & 0x1f == 0;
        let start = quoted_at + header;
        // Eight bytes of the payload are quoted always.
        if !is_first || *quoted.get(7)? != 0 || start + 8 > ip.end {
            return None;
        }
        let protocol = quoted[9];
        let inner = Transport { protocol, header: quoted_at, start, end: ip.end, fragment: false };
        let about = quoted_ends(frame, inner)?;
        if about.source.0 != us {
            return None;
        }
        let slot = *self.outside.get(&(protocol, about.source.1, about.destination))?;
        if self.drop_if_over(slot, now_ns) {
            return None;
        }
        let host = self.flows[slot as usize]?.host;
        replace(frame, inner, Field::Source, host);
        frame[ip.start + 2..ip.start + 4].fill(0);
        let sum = sum(&frame[ip.start..ip.end]);
        frame[ip.start + 2..ip.start + 4].copy_from_slice(&sum.to_be_bytes());
        replace_address(frame, ip, Field::Destination, host.0, None);
        Some(())
    }

    /// A new flow; `None` if there is no room for it.
    fn open(&mut self, protocol: u8, ends: Ends, now_ns: u64) -> Option<u32> {
        for _ in 0..LOOKED_AT {
            self.hand = (self.hand + 1) % self.flows.len();
            self.drop_if_over(u32::try_from(self.hand).ok()?, now_ns);
        }
        let of_host = self.hosts.get(&ends.source.0).copied().unwrap_or(0);
        if of_host >= self.host_flows {
            return None;
        }
        let port = self.port(protocol, ends, now_ns)?;
        let slot = self.free.pop()?;
        let flow = Flow {
            protocol,
            host: ends.source,
            port,
            other: ends.destination,
            last_ns: now_ns,
            answered: false,
            ended: false,
        };
        self.inside.insert(flow.inside(), slot);
        self.outside.insert(flow.outside(), slot);
        *self.hosts.entry(ends.source.0).or_default() += 1;
        self.flows[slot as usize] = Some(flow);
        self.counters.opened += 1;
        Some(slot)
    }

    /// A port of ours that is free for the flow's other end: the host's own if it can be.
    fn port(&mut self, protocol: u8, ends: Ends, now_ns: u64) -> Option<u16> {
        // Nobody outside can tell which comes next (RFC 6056).
        let first = self.numbers.hash_one((protocol, ends.source, ends.destination));
        let mut is_free = |port: &u16| {
            let known = self.outside.get(&(protocol, *port, ends.destination)).copied();
            known.is_none_or(|slot| self.drop_if_over(slot, now_ns))
        };
        let own = ends.source.1;
        if (own >= FIRST_PORT || protocol == ICMP) && is_free(&own) {
            return Some(own);
        }
        let count = u64::from(u16::MAX - FIRST_PORT) + 1;
        (0..TRIED)
            .filter_map(|step| u16::try_from(first.wrapping_add(step) % count).ok())
            .map(|number| FIRST_PORT + number)
            .find(is_free)
    }

    /// Forgets the flow of a slot if it was silent for too long; returns whether there is none now.
    fn drop_if_over(&mut self, slot: u32, now_ns: u64) -> bool {
        let Some(flow) = self.flows[slot as usize] else { return true };
        let over = flow.is_over(now_ns);
        if over {
            self.flows[slot as usize] = None;
            self.free.push(slot);
            self.inside.remove(&flow.inside());
            self.outside.remove(&flow.outside());
            if let Some(count) = self.hosts.get_mut(&flow.host.0) {
                *count -= 1;
                if *count == 0 {
                    self.hosts.remove(&flow.host.0);
                }
            }
        }
        over
    }
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    source: End,
    destination: End,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Source,
    Destination,
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn address(frame: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3])
}

/// The ends of a packet that can be translated as it is.
fn ends(frame: &[u8], ip: Transport) -> Option<Ends> {
    let least = match ip.protocol {
        TCP => 20,
        UDP | ICMP => 8,
        _ => return None,
    };
    if ip.fragment || ip.end - ip.start < least {
        return None;
    }
    quoted_ends(frame, ip)
}

/// The same of a packet of which eight bytes after the header are there.
fn quoted_ends(frame: &[u8], ip: Transport) -> Option<Ends> {
    let (source, destination) = match (ip.protocol, frame[ip.start]) {
        (TCP | UDP, _) => (word(frame, ip.start), word(frame, ip.start + 2)),
        // The identifier of an echo is that of who asks.
        (ICMP, 8) => (word(frame, ip.start + 4), 0),
        (ICMP, 0) => (0, word(frame, ip.start + 4)),
        _ => return None,
    };
    Some(Ends {
        source: (address(frame, ip.header + 12), source),
        destination: (address(frame, ip.header + 16), destination),
    })
}

fn is_echo_reply(frame: &[u8], ip: Transport) -> bool {
    ip.protocol == ICMP && frame[ip.start] == 0
}

fn note_flags(flow: &mut Flow, frame: &[u8], ip: Transport) {
    const FIN_OR_RST: u8 = 5;
    const SYN: u8 = 2;
    if ip.protocol == TCP {
        let flags = frame[ip.start + 13];
        flow.ended = flags & FIN_OR_RST != 0 || flow.ended && flags & SYN == 0;
    }
}

/// The checksum of `bytes`; 0 if theirs is right.
fn sum(bytes: &[u8]) -> u16 {
    Sum16BitWords::new().add_slice(bytes).ones_complement().to_be()
}

/// One end of a packet becomes another, its checksums with it.
fn replace(frame: &mut [u8], ip: Transport, field: Field, (to, port): End) {
    // Within the first eight bytes but for TCP, of which a quoted packet may have less.
    let checksum_at = match ip.protocol {
        TCP => ip.start + 16,
        UDP => ip.start + 6,
        _ => ip.start + 2,
    };
    let there = checksum_at + 2 <= ip.end;
    let none = ip.protocol == UDP && there && word(frame, checksum_at) == 0;
    let checksum = (there && !none).then_some(checksum_at);
    // ICMP's checksum does not cover addresses.
    replace_address(frame, ip, field, to, checksum.filter(|_| ip.protocol != ICMP));
    let port_at = match (ip.protocol, field) {
        (ICMP, _) => ip.start + 4,
        (_, Field::Source) => ip.start,
        (_, Field::Destination) => ip.start + 2,
    };
    replace_word(frame, port_at, port, checksum);
    // Of UDP, 0 says that there is no checksum.
    if let Some(at) = checksum.filter(|at| ip.protocol == UDP && word(frame, *at) == 0) {
        frame[at..at + 2].fill(0xff);
    }
}

fn replace_address(
    frame: &mut [u8],
    ip: Transport,
    field: Field,
    to: Ipv4Addr,
    checksum: Option<usize>,
) {
    let at = ip.header + if field == Field::Source { 12 } else { 16 };
    let [a, b, c, d] = to.octets();
    for (at, new) in [(at, [a, b]), (at + 2, [c, d])] {
        let new = u16::from_be_bytes(new);
        let old = word(frame, at);
        replace_word(frame, at, new, Some(ip.header + 10));
        if let Some(checksum) = checksum {
            update(frame, checksum, old, new);
        }
    }
}

fn replace_word(frame: &mut [u8], at: usize, new: u16, checksum: Option<usize>) {
    let old = word(frame, at);
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    if let Some(checksum) = checksum {
        update(frame, checksum, old, new);
    }
}

/// The checksum that stands there, for a word that has changed.
fn update(frame: &mut [u8], checksum: usize, old: u16, new: u16) {
    let after = updated(word(frame, checksum), old, new);
    frame[checksum..checksum + 2].copy_from_slice(&after.to_be_bytes());
}

#[cfg(test)]
mod tests;
