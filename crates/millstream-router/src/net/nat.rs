//! Many hosts behind one address: source addresses and ports of packets that leave by a port become the
//! router's own, and answers find their way back.
//!
//! ```text
//! 10.1.0.5:4000 ── to 192.0.2.9:80 ──>  203.0.113.1:4000 ── to 192.0.2.9:80 ──>
//! <── to 10.1.0.5:4000 ── from 192.0.2.9:80   <── to 203.0.113.1:4000 ── from 192.0.2.9:80
//! ```
//!
//! A *flow* is a protocol and both ends' addresses and ports; only answers from the flow's other
//! end come in. A host keeps its port number where that is free for this other end, so a host that
//! speaks with several has one port to all of them. Flows, and those of one host, are bounded;
//! those that were silent for too long make room, then those that nobody has answered (`hosts.rs`).
//! A port number that is *forwarded* is one host's end, always: whoever is outside begins flows
//! there.
//!
//! Source: RFC 3022 (NAPT); RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), of which it is the strict
//! kind ("address and port-dependent filtering"). Later parts of a packet that come before its first are dropped (RFC
//! 4787, REQ-14, asks for them to be kept).

mod flow;
mod hosts;
mod packet;
mod parts;

use millstream_scenario::PortNat;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use crate::net::header::{Transport, transport};
use flow::{End, Flow, Inside, Outside};
use hosts::Hosts;
use packet::{Ends, Field, ICMP, Part, SYN, TCP};
use parts::{Change, Parts};

/// Flows looked at for each new one, whether they were silent for too long,
const LOOKED_AT: usize = 8;
/// and port numbers tried.
const TRIED: u64 = 64;
/// All of them are looked at when there is no room, but no more often than this, ns.
const SWEEP_NS: u64 = 1_000_000_000;
/// A host loses pending flows before others if it has more of them than this part of all flows,
const SHARE: u32 = 256;
/// and more than this.
const LEAST_SHARE: u32 = 16;
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
    /// Those of them that were begun at ports that are forwarded.
    pub forwarded: u64,
    /// Packets whose source was translated.
    pub outbound: u64,
    /// Packets whose destination was translated.
    pub inbound: u64,
    /// Flows that nobody had answered, and that made room for others.
    #[serde(default)]
    pub evicted: u64,
    /// Packets that could begin no flow, because there are too many, or too many of their host, or their host has one to
    /// that end by another port.
    pub refused_full: u64,
    /// Packets that did not leave because they are of none of UDP, TCP and ICMP echo, later parts of a packet whose first
    /// part has not come, or errors about packets of no flow.
    pub refused_kind: u64,
    /// Packets whose source does not belong to the port that they came by.
    #[serde(default)]
    pub refused_source: u64,
}

/// Why a packet cannot leave.
enum Refusal {
    Full,
    Kind,
}

/// What became of a packet for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NatLookup {
    /// It is of no flow, and as it was.
    No,
    /// It goes to a host now.
    Host,
    /// It cannot go on.
    Refused,
}

/// The translation at one port.
#[derive(Debug)]
pub(crate) struct Nat {
    /// Slots, those of no flow being free.
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    inside: HashMap<Inside, u32>,
    outside: HashMap<Outside, u32>,
    hosts: Hosts,
    /// How many flows each host may have.
    host_flows: u32,
    /// Packets are dropped whose source does not belong to the port that they came by.
    check_source: bool,
    /// Where silent flows are looked for next.
    hand: usize,
    /// When all of them were looked at.
    swept_ns: Option<u64>,
    /// Ports that are forwarded, to which host's end,
    forwards: HashMap<(u8, u16), End>,
    /// and the port of each such end.
    published: HashMap<(u8, End), u16>,
    parts: Parts,
    /// Of the next packet that comes in parts: hosts may have taken the same.
    identification: u16,
    numbers: RandomState,
    counters: NatCounters,
}

impl Nat {
    /// For what `port` says.
    pub(crate) fn new(port: &PortNat) -> Self {
        let count = port.flows as usize;
        let numbers = RandomState::new();
        // With twice the room, a table never grows again.
        let mut new = Self {
            flows: vec![None; count],
            free: (0..port.flows).rev().collect(),
            inside: HashMap::with_capacity(2 * count),
            outside: HashMap::with_capacity(2 * count),
            hosts: Hosts::new(port.flows, (port.flows / SHARE).max(LEAST_SHARE)),
            host_flows: port.host_flows,
            check_source: port.check_source,
            hand: 0,
            swept_ns: None,
            forwards: HashMap::new(),
            published: HashMap::new(),
            parts: Parts::new(),
            identification: u16::try_from(numbers.hash_one(0) & 0xffff).unwrap_or(0),
            numbers,
            counters: NatCounters::default(),
        };
        new.set_forwards(port);
        new
    }

    /// The same with what `port` says now; flows stay known if so many may be as before.
    pub(crate) fn changed(mut self, port: &PortNat) -> Self {
        if (self.flows.len(), self.host_flows) != (port.flows as usize, port.host_flows) {
            return Self::new(port);
        }
        self.check_source = port.check_source;
        self.set_forwards(port);
        self
    }

    /// Whether packets are dropped whose source does not belong to the port that they came by.
    pub(crate) fn checks_source(&self) -> bool {
        self.check_source
    }

    fn set_forwards(&mut self, port: &PortNat) {
        self.forwards.clear();
        self.published.clear();
        for forward in &port.forwards {
            let host = (*forward.to.ip(), forward.to.port());
            self.forwards.insert((forward.protocol, forward.port), host);
            self.published.entry((forward.protocol, host)).or_insert(forward.port);
        }
    }

    /// What it did.
    pub(crate) fn counters(&self) -> NatCounters {
        NatCounters { flows: self.inside.len() as u64, ..self.counters }
    }

    /// A packet leaves by the port: it comes from `us` now. `false` if it is to be dropped.
    pub(crate) fn outbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> bool {
        let ip = transport(frame);
        // What the router says itself needs no flow, but for connections of its proxies: their ports are then no host's.
        let own = |ip: &Transport| ip.protocol != TCP && packet::addresses(frame, *ip).0 == us;
        if ip.as_ref().is_some_and(own) {
            return true;
        }
        let sent = ip.ok_or(Refusal::Kind).and_then(|ip| self.send(frame, ip, us, now_ns));
        let counter = match sent {
            Ok(()) => &mut self.counters.outbound,
            Err(Refusal::Full) => &mut self.counters.refused_full,
            Err(Refusal::Kind) => &mut self.counters.refused_kind,
        };
        *counter += 1;
        sent.is_ok()
    }

    fn send(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        us: Ipv4Addr,
        now_ns: u64,
    ) -> Result<(), Refusal> {
        let part = packet::part(frame, ip);
        if part == Part::Later {
            return self.follow(frame, ip, Field::Source, now_ns).ok_or(Refusal::Kind);
        }
        if let Some(quoted) = packet::quoted(frame, ip) {
            return self.error_outward(frame, ip, quoted, us).ok_or(Refusal::Kind);
        }
        // Nobody inside was asked, as echo requests from outside are the router's own.
        let ends = packet::ends(frame, ip).filter(|_| !packet::is_echo(frame, ip, false));
        let ends = ends.ok_or(Refusal::Kind)?;
        let known = self.inside.get(&(ip.protocol, ends.source, ends.destination)).copied();
        let slot = known.filter(|slot| !self.drop_if_over(*slot, now_ns));
        let slot =
            slot.or_else(|| self.open(ip.protocol, ends, us, now_ns)).ok_or(Refusal::Full)?;
        let flow = self.flows[slot as usize].as_mut().ok_or(Refusal::Full)?;
        flow.last_ns = now_ns;
        flow.spoken = true;
        if flow.answered && !flow.from_outside {
            flow.established |= packet::has_heard(frame, ip);
        }
        note_flags(flow, frame, ip);
        let (port, settled) = (flow.port, flow.is_settled());
        if settled {
            self.hosts.settle(slot);
        } else {
            self.hosts.set_pending(slot);
        }
        if part == Part::First {
            let whole = packet::whole(frame, ip);
            let identification = self.parts.of(&whole, now_ns).map_or_else(
                || {
                    self.identification = self.identification.wrapping_add(1);
                    self.identification
                },
                |known| known.identification,
            );
            self.parts.learn(whole, Change { to: us, identification }, now_ns);
            packet::replace_identification(frame, ip, identification);
        }
        packet::replace(frame, ip, Field::Source, (us, port));
        Ok(())
    }

    /// A packet came in for `us`: if it belongs to a flow, or begins one at a port that is forwarded, it goes to the
    /// flow's host now.
    pub(crate) fn inbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> NatLookup {
        // Nobody else has the address.
        let ours = |ip: &Transport| {
            let (from, to) = packet::addresses(frame, *ip);
            to == us && from != us
        };
        let Some(ip) = transport(frame).filter(ours) else { return NatLookup::No };
        if self.deliver(frame, ip, us, now_ns) { NatLookup::Host } else { NatLookup::No }
    }

    fn deliver(&mut self, frame: &mut [u8], ip: Transport, us: Ipv4Addr, now_ns: u64) -> bool {
        let translated = self.receive(frame, ip, us, now_ns).is_some();
        self.counters.inbound += u64::from(translated);
        translated
    }

    /// A host behind `us` sends to `us`: if it belongs to a flow, or begins one at a port that is forwarded, it comes
    /// from `us` now and goes to that flow's host ("hairpinning", RFC 4787, REQ-9).
    pub(crate) fn reflect(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> NatLookup {
        let Some(ip) = transport(frame) else { return NatLookup::No };
        let of_flow = match (packet::part(frame, ip), packet::ends(frame, ip)) {
            (Part::Later, _) => self.parts.of(&packet::whole(frame, ip), now_ns).is_some(),
            (_, Some(ends)) => {
                self.forwards.contains_key(&(ip.protocol, ends.destination.1))
                    || self.inside.contains_key(&(ip.protocol, ends.source, ends.destination))
            }
            (_, None) => packet::quoted(frame, ip).is_some(),
        };
        if !of_flow || packet::addresses(frame, ip).0 == us {
            return NatLookup::No;
        }
        let goes_on = self.outbound(frame, us, now_ns) && self.deliver(frame, ip, us, now_ns);
        if goes_on { NatLookup::Host } else { NatLookup::Refused }
    }

    fn receive(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        us: Ipv4Addr,
        now_ns: u64,
    ) -> Option<()> {
        let part = packet::part(frame, ip);
        if part == Part::Later {
            return self.follow(frame, ip, Field::Destination, now_ns);
        }
        if let Some(quoted) = packet::quoted(frame, ip) {
            return self.error_inward(frame, ip, quoted, us, now_ns);
        }
        // Who is outside asks the router itself.
        let ends = packet::ends(frame, ip).filter(|_| !packet::is_echo(frame, ip, true))?;
        let outside = (ip.protocol, ends.destination.1, ends.source);
        let known = self.outside.get(&outside).copied();
        let slot = known.filter(|slot| !self.drop_if_over(*slot, now_ns));
        let slot = slot.or_else(|| self.forward(ip.protocol, ends, now_ns))?;
        let flow = self.flows[slot as usize].as_mut()?;
        flow.answered |= !flow.from_outside || flow.spoken && packet::has_heard(frame, ip);
        // Who is outside cannot keep a UDP flow alive (RFC 4787, REQ-6).
        if flow.protocol == TCP {
            flow.last_ns = now_ns;
        }
        flow.established |= flow.protocol == TCP && flow.from_outside && flow.answered;
        note_flags(flow, frame, ip);
        let (host, settled) = (flow.host, flow.is_settled());
        if settled {
            self.hosts.settle(slot);
        } else if !self.hosts.is_pending(slot) {
            self.hosts.set_pending(slot);
        }
        if part == Part::First {
            let whole = packet::whole(frame, ip);
            let change = Change { to: host.0, identification: whole.3 };
            self.parts.learn(whole, change, now_ns);
        }
        packet::replace(frame, ip, Field::Destination, host);
        Some(())
    }

    /// A later part of a packet goes where the first went.
    fn follow(&self, frame: &mut [u8], ip: Transport, field: Field, now_ns: u64) -> Option<()> {
        let change = self.parts.of(&packet::whole(frame, ip), now_ns)?;
        packet::replace_address(frame, ip, field, change.to, None);
        packet::replace_identification(frame, ip, change.identification);
        Some(())
    }

    /// An ICMP error about a packet that left (RFC 5508, section 4.2), which it quotes.
    fn error_inward(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        quoted: Transport,
        us: Ipv4Addr,
        now_ns: u64,
    ) -> Option<()> {
        let about = packet::quoted_ends(frame, quoted).filter(|about| about.source.0 == us)?;
        let outside = (quoted.protocol, about.source.1, about.destination);
        let slot = *self.outside.get(&outside)?;
        if self.drop_if_over(slot, now_ns) {
            return None;
        }
        let host = self.flows[slot as usize]?.host;
        packet::replace(frame, quoted, Field::Source, host);
        packet::sum_again(frame, ip);
        packet::replace_address(frame, ip, Field::Destination, host.0, None);
        Some(())
    }

    /// The same about one that came in.
    fn error_outward(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        quoted: Transport,
        us: Ipv4Addr,
    ) -> Option<()> {
        let about = packet::quoted_ends(frame, quoted)?;
        let inside = (quoted.protocol, about.destination, about.source);
        let port = self.flows[*self.inside.get(&inside)? as usize]?.port;
        packet::replace(frame, quoted, Field::Destination, (us, port));
        packet::sum_again(frame, ip);
        packet::replace_address(frame, ip, Field::Source, us, None);
        Some(())
    }

    /// The router itself says something by the port: what it quotes of a host's becomes what the other end sent.
    pub(crate) fn say(&mut self, frame: &mut [u8], us: Ipv4Addr) {
        let Some(ip) = transport(frame) else { return };
        if let Some(quoted) = packet::quoted(frame, ip) {
            self.error_outward(frame, ip, quoted, us);
        }
    }

    /// A new flow of a host; `None` if there is no room for it.
    fn open(&mut self, protocol: u8, ends: Ends, us: Ipv4Addr, now_ns: u64) -> Option<u32> {
        self.make_room(ends.source.0, now_ns)?;
        let port = self.port(protocol, ends, us, now_ns)?;
        self.insert(Flow {
            protocol,
            host: ends.source,
            port,
            other: ends.destination,
            from_outside: false,
            last_ns: now_ns,
            spoken: true,
            answered: false,
            established: false,
            ended: false,
        })
    }

    /// A new flow to the host that a port is forwarded to; `None` if it is not, or there is no room.
    fn forward(&mut self, protocol: u8, ends: Ends, now_ns: u64) -> Option<u32> {
        let host = *self.forwards.get(&(protocol, ends.destination.1))?;
        let flow = Flow {
            protocol,
            host,
            port: ends.destination.1,
            other: ends.source,
            from_outside: true,
            last_ns: now_ns,
            spoken: false,
            answered: false,
            established: false,
            ended: false,
        };
        // The host may have begun one by another port, before this was forwarded.
        let taken = self.inside.get(&flow.inside()).copied();
        let is_free = taken.is_none_or(|slot| self.drop_if_over(slot, now_ns));
        let room = is_free.then(|| self.make_room(host.0, now_ns)).flatten();
        let slot = room.and_then(|()| self.insert(flow));
        self.counters.forwarded += u64::from(slot.is_some());
        self.counters.refused_full += u64::from(slot.is_none());
        slot
    }

    /// Forgets some flows that were silent for too long, then one that nobody has answered; `None`
    /// if there are too many others, or too many of the host.
    fn make_room(&mut self, host: Ipv4Addr, now_ns: u64) -> Option<()> {
        for _ in 0..LOOKED_AT {
            self.hand = (self.hand + 1) % self.flows.len();
            self.drop_if_over(u32::try_from(self.hand).ok()?, now_ns);
        }
        let victim = match self.is_full(host) {
            true if self.has_its_flows(host) => self.hosts.victim_of(host),
            true => self.hosts.victim(),
            false => None,
        };
        if let Some(slot) = victim {
            self.forget(slot);
            self.counters.evicted += 1;
        }
        if self.is_full(host)
            && self.swept_ns.is_none_or(|then_ns| now_ns.saturating_sub(then_ns) >= SWEEP_NS)
        {
            self.swept_ns = Some(now_ns);
            for slot in 0..self.flows.len() {
                self.drop_if_over(u32::try_from(slot).ok()?, now_ns);
            }
        }
        (!self.is_full(host)).then_some(())
    }

    /// Whether no flow of a host may be begun.
    fn is_full(&self, host: Ipv4Addr) -> bool {
        self.free.is_empty() || self.has_its_flows(host)
    }

    /// Whether a host has as many flows as it may have.
    fn has_its_flows(&self, host: Ipv4Addr) -> bool {
        self.hosts.flows(host) >= self.host_flows
    }

    fn insert(&mut self, flow: Flow) -> Option<u32> {
        let slot = self.free.pop()?;
        self.inside.insert(flow.inside(), slot);
        self.outside.insert(flow.outside(), slot);
        self.hosts.begin(slot, flow.host.0);
        self.flows[slot as usize] = Some(flow);
        self.counters.opened += 1;
        Some(slot)
    }

    /// A port of ours that is free for the flow's other end: the one that is forwarded to the host's, or the host's
    /// own number, if it can be.
    fn port(&mut self, protocol: u8, ends: Ends, us: Ipv4Addr, now_ns: u64) -> Option<u16> {
        // Nobody outside can tell which comes next (RFC 6056).
        let first = self.numbers.hash_one((protocol, ends.source, ends.destination));
        let published = self.published.get(&(protocol, ends.source)).copied();
        let mut is_free = |port: &u16| {
            let is_his =
                !self.forwards.contains_key(&(protocol, *port)) || published == Some(*port);
            let known = self.outside.get(&(protocol, *port, ends.destination)).copied();
            is_his && known.is_none_or(|slot| self.drop_if_over(slot, now_ns))
        };
        // Clients of a proxy know its port.
        let keeps = |port: &u16| *port >= FIRST_PORT || protocol == ICMP || ends.source.0 == us;
        let own = Some(ends.source.1).filter(keeps);
        if let Some(port) = published.into_iter().chain(own).find(&mut is_free) {
            return Some(port);
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
            self.forget(slot);
        }
        over
    }

    /// Forgets the flow of a slot.
    fn forget(&mut self, slot: u32) {
        let Some(flow) = self.flows[slot as usize].take() else { return };
        self.free.push(slot);
        self.inside.remove(&flow.inside());
        self.outside.remove(&flow.outside());
        self.hosts.end(slot);
    }
}

fn note_flags(flow: &mut Flow, frame: &[u8], ip: Transport) {
    const RST: u8 = 4;
    const FIN_OR_RST: u8 = 5;
    if ip.protocol == TCP {
        let flags = packet::flags(frame, ip);
        flow.established &= flags & RST == 0;
        flow.ended = flags & FIN_OR_RST != 0 || flow.ended && flags & SYN == 0;
    }
}

#[cfg(test)]
mod tests;
