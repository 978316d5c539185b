//! Network address and port translation (NAPT): hosts behind a port share the router's address.
//!
//! ```text
//! 10.1.0.5:4000 ── to 192.0.2.9:80 ──>  203.0.113.1:4000 ── to 192.0.2.9:80 ──>
//! <── to 10.1.0.5:4000 ── from 192.0.2.9:80   <── to 203.0.113.1:4000 ── from 192.0.2.9:80
//! ```
//!
//! A *flow* is a protocol and the address and port of both ends. Only the flow's other end can send
//! to it. A host keeps its port number if that number is free towards the other end, so one socket
//! usually has one external port. Flows are bounded in all and per host. Expired flows are evicted
//! first, then unanswered ones (`hosts.rs`). A *forwarded* port belongs to one host permanently,
//! and outside senders may open flows there.
//!
//! Source: RFC 3022 (NAPT); RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), with address and
//! port-dependent filtering. Unlike RFC 4787, REQ-14, fragments that precede the first one are
//! dropped.

mod flow;
mod fragments;
mod hosts;
mod packet;

use millstream_scenario::PortNat;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use crate::net::header::{Transport, transport};
use flow::{End, Flow, Inside, Outside};
use fragments::{Fragments, Translation};
use hosts::Hosts;
use packet::{Ends, Field, FragmentKind, ICMP, SYN, TCP};

/// Flows checked for expiry per new flow.
const SCAN_PER_FLOW: usize = 8;
/// Port numbers tried per new flow.
const MAX_PORT_PROBES: u64 = 64;
/// Interval between full scans for expired flows, ns; only a full table is scanned.
const SWEEP_NS: u64 = 1_000_000_000;
/// Hosts with more than this fraction of the table in pending flows lose theirs first.
const PENDING_SHARE: u32 = 256;
/// Lower bound of that number of flows.
const MIN_PENDING_SHARE: u32 = 16;
/// First port number that a host may get; lower ones name services.
const FIRST_PORT: u16 = 1_024;

/// Counters of the translation at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatCounters {
    /// Flows in the table.
    pub flows: u64,
    /// Flows opened.
    pub opened: u64,
    /// Flows opened from outside, at forwarded ports.
    pub forwarded: u64,
    /// Packets whose source was translated.
    pub outbound: u64,
    /// Packets whose destination was translated.
    pub inbound: u64,
    /// Unanswered flows evicted for new ones.
    #[serde(default)]
    pub evicted: u64,
    /// Packets dropped because the table or the host's share is full, or the host has a flow to
    /// that end by another port.
    pub refused_full: u64,
    /// Outbound packets dropped because of their kind: protocols other than UDP, TCP and ICMP echo,
    /// fragments before the first, and errors about unknown flows.
    pub refused_kind: u64,
    /// Packets dropped because their source does not belong to their port.
    #[serde(default)]
    pub refused_source: u64,
}

/// Why a packet cannot leave.
enum Refusal {
    Full,
    Kind,
}

/// Result for a packet to the router's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NatLookup {
    /// The packet belongs to no flow and is unchanged.
    No,
    /// The packet is translated and goes to a host.
    Host,
    /// The packet belongs to a flow but is dropped.
    Refused,
}

/// The translation state of one port.
#[derive(Debug)]
pub(crate) struct Nat {
    /// Flow slots; `free` lists the empty ones.
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    inside: HashMap<Inside, u32>,
    outside: HashMap<Outside, u32>,
    hosts: Hosts,
    /// Flows per host, at most.
    host_flows: u32,
    /// Whether to drop packets whose source does not belong to their port.
    check_source: bool,
    /// Slot where the next expiry scan begins.
    cursor: usize,
    /// Time of the last full scan.
    swept_ns: Option<u64>,
    /// Host end by protocol and forwarded port.
    forwards: HashMap<(u8, u16), End>,
    /// Forwarded port by protocol and host end.
    published: HashMap<(u8, End), u16>,
    fragments: Fragments,
    /// Last identification given to a fragmented packet; the hosts' own values may collide.
    identification: u16,
    numbers: RandomState,
    counters: NatCounters,
}

impl Nat {
    /// Creates a translation as configured by `port`.
    pub(crate) fn new(port: &PortNat) -> Self {
        let count = port.flows as usize;
        let numbers = RandomState::new();
        // Twice the capacity prevents rehashing.
        let mut new = Self {
            flows: vec![None; count],
            free: (0..port.flows).rev().collect(),
            inside: HashMap::with_capacity(2 * count),
            outside: HashMap::with_capacity(2 * count),
            hosts: Hosts::new(port.flows, (port.flows / PENDING_SHARE).max(MIN_PENDING_SHARE)),
            host_flows: port.host_flows,
            check_source: port.check_source,
            cursor: 0,
            swept_ns: None,
            forwards: HashMap::new(),
            published: HashMap::new(),
            fragments: Fragments::new(),
            identification: u16::try_from(numbers.hash_one(0) & 0xffff).unwrap_or(0),
            numbers,
            counters: NatCounters::default(),
        };
        new.set_forwards(port);
        new
    }

    /// Applies a changed configuration; flows stay if the table sizes are unchanged.
    pub(crate) fn changed(mut self, port: &PortNat) -> Self {
        if (self.flows.len(), self.host_flows) != (port.flows as usize, port.host_flows) {
            return Self::new(port);
        }
        self.check_source = port.check_source;
        self.set_forwards(port);
        self
    }

    /// Returns whether to drop packets whose source does not belong to their port.
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

    /// Returns the counters.
    pub(crate) fn counters(&self) -> NatCounters {
        NatCounters { flows: self.inside.len() as u64, ..self.counters }
    }

    /// Translates the source of a packet that leaves by the port to `us`; returns `false` to drop
    /// it.
    pub(crate) fn outbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> bool {
        let ip = transport(frame);
        // The router's own packets need no flow, except TCP: a proxy's ports must not be given to
        // hosts.
        let own = |ip: &Transport| ip.protocol != TCP && packet::addresses(frame, *ip).0 == us;
        if ip.as_ref().is_some_and(own) {
            return true;
        }
        let sent =
            ip.ok_or(Refusal::Kind).and_then(|ip| self.translate_source(frame, ip, us, now_ns));
        let counter = match sent {
            Ok(()) => &mut self.counters.outbound,
            Err(Refusal::Full) => &mut self.counters.refused_full,
            Err(Refusal::Kind) => &mut self.counters.refused_kind,
        };
        *counter += 1;
        sent.is_ok()
    }

    fn translate_source(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        us: Ipv4Addr,
        now_ns: u64,
    ) -> Result<(), Refusal> {
        let kind = packet::fragment_kind(frame, ip);
        if kind == FragmentKind::Later {
            return self.translate_fragment(frame, ip, Field::Source, now_ns).ok_or(Refusal::Kind);
        }
        if let Some(quoted) = packet::quoted(frame, ip) {
            return self.error_outward(frame, ip, quoted, us).ok_or(Refusal::Kind);
        }
        // An echo reply from inside answers no host: outside requests end at the router.
        let ends = packet::ends(frame, ip).filter(|_| !packet::is_echo(frame, ip, false));
        let ends = ends.ok_or(Refusal::Kind)?;
        let known = self.inside.get(&(ip.protocol, ends.source, ends.destination)).copied();
        let slot = known.filter(|slot| !self.drop_if_expired(*slot, now_ns));
        let slot =
            slot.or_else(|| self.open(ip.protocol, ends, us, now_ns)).ok_or(Refusal::Full)?;
        let flow = self.flows[slot as usize].as_mut().ok_or(Refusal::Full)?;
        flow.last_ns = now_ns;
        flow.host_has_sent = true;
        if flow.answered && !flow.from_outside {
            flow.established |= packet::acknowledges(frame, ip);
        }
        track_tcp_flags(flow, frame, ip);
        let (port, settled) = (flow.port, flow.is_settled());
        if settled {
            self.hosts.mark_settled(slot);
        } else {
            self.hosts.mark_pending(slot);
        }
        if kind == FragmentKind::First {
            let key = packet::fragment_key(frame, ip);
            let identification = self.fragments.get(&key, now_ns).map_or_else(
                || {
                    self.identification = self.identification.wrapping_add(1);
                    self.identification
                },
                |known| known.identification,
            );
            self.fragments.insert(key, Translation { to: us, identification }, now_ns);
            packet::replace_identification(frame, ip, identification);
        }
        packet::replace(frame, ip, Field::Source, (us, port));
        Ok(())
    }

    /// Translates the destination of a packet received for `us` if it belongs to a flow or opens
    /// one at a forwarded port.
    pub(crate) fn inbound(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> NatLookup {
        // A packet from `us` itself is spoofed.
        let ours = |ip: &Transport| {
            let (from, to) = packet::addresses(frame, *ip);
            to == us && from != us
        };
        let Some(ip) = transport(frame).filter(ours) else { return NatLookup::No };
        if self.deliver(frame, ip, us, now_ns) { NatLookup::Host } else { NatLookup::No }
    }

    fn deliver(&mut self, frame: &mut [u8], ip: Transport, us: Ipv4Addr, now_ns: u64) -> bool {
        let translated = self.translate_destination(frame, ip, us, now_ns).is_some();
        self.counters.inbound += u64::from(translated);
        translated
    }

    /// Translates a packet from a host behind `us` to `us` in both directions (hairpinning, RFC
    /// 4787, REQ-9).
    pub(crate) fn reflect(&mut self, frame: &mut [u8], us: Ipv4Addr, now_ns: u64) -> NatLookup {
        let Some(ip) = transport(frame) else { return NatLookup::No };
        let of_flow = match (packet::fragment_kind(frame, ip), packet::ends(frame, ip)) {
            (FragmentKind::Later, _) => {
                self.fragments.get(&packet::fragment_key(frame, ip), now_ns).is_some()
            }
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

    fn translate_destination(
        &mut self,
        frame: &mut [u8],
        ip: Transport,
        us: Ipv4Addr,
        now_ns: u64,
    ) -> Option<()> {
        let kind = packet::fragment_kind(frame, ip);
        if kind == FragmentKind::Later {
            return self.translate_fragment(frame, ip, Field::Destination, now_ns);
        }
        if let Some(quoted) = packet::quoted(frame, ip) {
            return self.error_inward(frame, ip, quoted, us, now_ns);
        }
        // The router answers echo requests from outside itself.
        let ends = packet::ends(frame, ip).filter(|_| !packet::is_echo(frame, ip, true))?;
        let outside = (ip.protocol, ends.destination.1, ends.source);
        let known = self.outside.get(&outside).copied();
        let slot = known.filter(|slot| !self.drop_if_expired(*slot, now_ns));
        let slot = slot.or_else(|| self.forward(ip.protocol, ends, now_ns))?;
        let flow = self.flows[slot as usize].as_mut()?;
        flow.answered |=
            !flow.from_outside || flow.host_has_sent && packet::acknowledges(frame, ip);
        // Inbound packets do not refresh a UDP flow (RFC 4787, REQ-6).
        if flow.protocol == TCP {
            flow.last_ns = now_ns;
        }
        flow.established |= flow.protocol == TCP && flow.from_outside && flow.answered;
        track_tcp_flags(flow, frame, ip);
        let (host, settled) = (flow.host, flow.is_settled());
        if settled {
            self.hosts.mark_settled(slot);
        } else if !self.hosts.is_pending(slot) {
            self.hosts.mark_pending(slot);
        }
        if kind == FragmentKind::First {
            let key = packet::fragment_key(frame, ip);
            let change = Translation { to: host.0, identification: key.3 };
            self.fragments.insert(key, change, now_ns);
        }
        packet::replace(frame, ip, Field::Destination, host);
        Some(())
    }

    /// Translates a later fragment as the first one was.
    fn translate_fragment(
        &self,
        frame: &mut [u8],
        ip: Transport,
        field: Field,
        now_ns: u64,
    ) -> Option<()> {
        let change = self.fragments.get(&packet::fragment_key(frame, ip), now_ns)?;
        packet::replace_address(frame, ip, field, change.to, None);
        packet::replace_identification(frame, ip, change.identification);
        Some(())
    }

    /// Translates an inbound ICMP error and the outbound packet that it quotes (RFC 5508, section
    /// 4.2).
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
        if self.drop_if_expired(slot, now_ns) {
            return None;
        }
        let host = self.flows[slot as usize]?.host;
        packet::replace(frame, quoted, Field::Source, host);
        packet::refresh_icmp_checksum(frame, ip);
        packet::replace_address(frame, ip, Field::Destination, host.0, None);
        Some(())
    }

    /// Translates an outbound ICMP error and the inbound packet that it quotes.
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
        packet::refresh_icmp_checksum(frame, ip);
        packet::replace_address(frame, ip, Field::Source, us, None);
        Some(())
    }

    /// Translates the packet that an ICMP error of the router quotes back to what its sender sent.
    pub(crate) fn translate_own_error(&mut self, frame: &mut [u8], us: Ipv4Addr) {
        let Some(ip) = transport(frame) else { return };
        if let Some(quoted) = packet::quoted(frame, ip) {
            self.error_outward(frame, ip, quoted, us);
        }
    }

    /// Opens a flow from a host; `None` if the table is full.
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
            host_has_sent: true,
            answered: false,
            established: false,
            ended: false,
        })
    }

    /// Opens a flow to the host of a forwarded port; `None` if the port is not forwarded or the
    /// table is full.
    fn forward(&mut self, protocol: u8, ends: Ends, now_ns: u64) -> Option<u32> {
        let host = *self.forwards.get(&(protocol, ends.destination.1))?;
        let flow = Flow {
            protocol,
            host,
            port: ends.destination.1,
            other: ends.source,
            from_outside: true,
            last_ns: now_ns,
            host_has_sent: false,
            answered: false,
            established: false,
            ended: false,
        };
        // The host may have opened this flow by another port before the port was forwarded.
        let taken = self.inside.get(&flow.inside()).copied();
        let is_free = taken.is_none_or(|slot| self.drop_if_expired(slot, now_ns));
        let room = is_free.then(|| self.make_room(host.0, now_ns)).flatten();
        let slot = room.and_then(|()| self.insert(flow));
        self.counters.forwarded += u64::from(slot.is_some());
        self.counters.refused_full += u64::from(slot.is_none());
        slot
    }

    /// Evicts expired flows, then one unanswered flow; `None` if the table or the host's share
    /// stays full.
    fn make_room(&mut self, host: Ipv4Addr, now_ns: u64) -> Option<()> {
        for _ in 0..SCAN_PER_FLOW {
            self.cursor = (self.cursor + 1) % self.flows.len();
            self.drop_if_expired(u32::try_from(self.cursor).ok()?, now_ns);
        }
        let victim = match self.is_full(host) {
            true if self.is_host_full(host) => self.hosts.victim_of(host),
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
                self.drop_if_expired(u32::try_from(slot).ok()?, now_ns);
            }
        }
        (!self.is_full(host)).then_some(())
    }

    /// Returns whether no flow of `host` can be opened.
    fn is_full(&self, host: Ipv4Addr) -> bool {
        self.free.is_empty() || self.is_host_full(host)
    }

    /// Returns whether `host` has reached the maximum number of flows of a host.
    fn is_host_full(&self, host: Ipv4Addr) -> bool {
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

    /// Returns a free port towards the flow's other end: the forwarded one, the host's own, or
    /// another.
    fn port(&mut self, protocol: u8, ends: Ends, us: Ipv4Addr, now_ns: u64) -> Option<u16> {
        // Ports must be unpredictable from outside (RFC 6056).
        let first = self.numbers.hash_one((protocol, ends.source, ends.destination));
        let published = self.published.get(&(protocol, ends.source)).copied();
        let mut is_free = |port: &u16| {
            let is_available =
                !self.forwards.contains_key(&(protocol, *port)) || published == Some(*port);
            let known = self.outside.get(&(protocol, *port, ends.destination)).copied();
            is_available && known.is_none_or(|slot| self.drop_if_expired(slot, now_ns))
        };
        // A proxy has already told its peer the port.
        let keeps = |port: &u16| *port >= FIRST_PORT || protocol == ICMP || ends.source.0 == us;
        let own = Some(ends.source.1).filter(keeps);
        if let Some(port) = published.into_iter().chain(own).find(&mut is_free) {
            return Some(port);
        }
        let count = u64::from(u16::MAX - FIRST_PORT) + 1;
        (0..MAX_PORT_PROBES)
            .filter_map(|step| u16::try_from(first.wrapping_add(step) % count).ok())
            .map(|number| FIRST_PORT + number)
            .find(is_free)
    }

    /// Removes the flow of `slot` if it has expired; returns whether the slot is free.
    fn drop_if_expired(&mut self, slot: u32, now_ns: u64) -> bool {
        let Some(flow) = self.flows[slot as usize] else { return true };
        let over = flow.is_expired(now_ns);
        if over {
            self.forget(slot);
        }
        over
    }

    /// Removes the flow of `slot`.
    fn forget(&mut self, slot: u32) {
        let Some(flow) = self.flows[slot as usize].take() else { return };
        self.free.push(slot);
        self.inside.remove(&flow.inside());
        self.outside.remove(&flow.outside());
        self.hosts.end(slot);
    }
}

fn track_tcp_flags(flow: &mut Flow, frame: &[u8], ip: Transport) {
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
