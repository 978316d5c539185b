//! The router's own services: ARP, neighbour discovery, echo replies, ICMP errors, and packets held
//! for neighbour resolution.

use etherparse::ArpOperation;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{LiveMachine, PortState};
use crate::io::port::Port;
use crate::net::forwarder::ForwardError;
use crate::net::header::{ETHERNET_BYTES, Header, is_v6};
use crate::net::icmpv6;
use crate::net::ipv4_control::{self, Endpoint, IcmpError};
use crate::net::ndp::{self, Message};
use crate::net::neighbours::{NeighbourKey, NeighbourState, NeighbourUpdate, PROBE_NS};
use crate::router::machine::Verdict;

/// The mean interval between ICMP errors, ns.
const ERROR_NS: u64 = 1_000_000;
/// The burst of ICMP errors.
const ERRORS: u64 = 50;

/// The owner of the local address that a packet goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalDestination {
    Router,
    /// The kernel receives a copy of the packet and answers it.
    Kernel,
}

/// Packets that the router originates.
impl<P: Port> LiveMachine<P> {
    #[inline]
    pub(super) fn local_destination(&self, destination: Ipv4Addr) -> Option<LocalDestination> {
        let is = |net: Option<Ipv4Net>| net.is_some_and(|net| net.addr() == destination);
        let owner = self.port_states.iter().find(|state| is(state.address) || is(state.kernel))?;
        Some(if is(owner.address) { LocalDestination::Router } else { LocalDestination::Kernel })
    }

    /// Looks up an IPv6 destination; a link-local address belongs to the input's network.
    pub(super) fn local_destination_v6(
        &self,
        input: usize,
        destination: Ipv6Addr,
    ) -> Option<LocalDestination> {
        let is = |nets: &[Ipv6Net]| nets.iter().any(|net| net.addr() == destination);
        let of_port = |state: &PortState<P>| {
            let kernel = is(&state.kernel_v6).then_some(LocalDestination::Kernel);
            is(&state.addresses_v6).then_some(LocalDestination::Router).or(kernel)
        };
        if destination.is_unicast_link_local() {
            of_port(&self.port_states[input])
        } else {
            self.port_states.iter().find_map(of_port)
        }
    }

    /// Returns the owner of the local address that an IPv6 packet from `input` goes to.
    pub(super) fn packet_destination_v6(
        &self,
        input: usize,
        packet: u64,
    ) -> Option<LocalDestination> {
        let header = Header::parse_v6(self.pool.frame(packet))?;
        self.local_destination_v6(input, header.destination)
    }

    /// Processes a packet for the router itself, or one that cannot be forwarded.
    #[cold]
    pub(super) fn hear(&mut self, input: usize, packet: u64, to: Option<LocalDestination>) {
        self.spread(input, packet);
        let reply = if is_v6(self.pool.frame(packet)) {
            self.hear_v6(input, packet, to)
        } else {
            self.hear_v4(input, packet, to)
        };
        self.pool.release(packet);
        if let Some(reply) = reply {
            self.say(input, &reply);
        }
    }

    /// Processes an IPv4 or ARP packet for the router; returns the reply.
    pub(super) fn hear_v4(
        &mut self,
        input: usize,
        packet: u64,
        to: Option<LocalDestination>,
    ) -> Option<Vec<u8>> {
        let state = &mut self.port_states[input];
        let frame = self.pool.frame(packet);
        if let Some(destination) = to {
            state.counters.for_router += 1;
            return (destination == LocalDestination::Router)
                .then(|| ipv4_control::echo_reply(frame, state.mac))
                .flatten();
        }
        let (arp, net) = ipv4_control::arp(frame).zip(state.speaker())?;
        state.counters.for_router += 1;
        let us = Endpoint { mac: state.mac, address: net.addr() };
        let them = Endpoint { mac: arp.sender_mac, address: Ipv4Addr::from(arp.sender_ipv4) };
        let solicits_us = arp.target_ipv4 == us.address.octets();
        let Endpoint { mac, address } = them;
        let word = NeighbourUpdate { address, mac, solicits_us, overrides: true };
        self.function.learn(input, net, word, self.now_ns);
        self.held.release(|neighbour| neighbour == (input, address.into()));
        let answers = solicits_us && mac[0] & 1 == 0 && state.address.is_some();
        (answers && arp.operation == ArpOperation::REQUEST)
            .then(|| ipv4_control::arp_reply(us, them))
    }

    /// Processes an IPv6 packet for the router; returns the reply.
    pub(super) fn hear_v6(
        &mut self,
        input: usize,
        packet: u64,
        to: Option<LocalDestination>,
    ) -> Option<Vec<u8>> {
        let state = &mut self.port_states[input];
        let frame = self.pool.frame(packet);
        let speaks = !(state.addresses_v6.is_empty() && state.kernel_v6.is_empty());
        let message = ndp::message(frame).filter(|_| speaks);
        state.counters.for_router += u64::from(to.is_some() || message.is_some());
        let Some(message) = message else {
            return (to == Some(LocalDestination::Router))
                .then(|| icmpv6::echo_reply(frame, state.mac))?;
        };
        let (word, reply) = match message {
            Message::Solicitation { target, from, mac } => {
                let is = |nets: &[Ipv6Net]| nets.iter().any(|net| net.addr() == target);
                let answers = is(&state.addresses_v6);
                let solicits_us = answers || is(&state.kernel_v6);
                let us = Endpoint { mac: state.mac, address: target };
                // A solicitation to our hardware address may omit the sender's.
                let sender = *frame[6..].first_chunk()?;
                let to = mac.unwrap_or(sender);
                let them = from.map(|address| Endpoint { mac: to, address });
                let reply = (answers && to[0] & 1 == 0).then(|| ndp::advertisement(us, them));
                let word = from.zip(mac).map(|(address, mac)| NeighbourUpdate {
                    address,
                    mac,
                    solicits_us,
                    overrides: true,
                });
                (word, reply)
            }
            // Unsolicited advertisements are ignored: they can be spoofed.
            Message::Advertisement { solicited: false, .. } => return None,
            Message::Advertisement { target, mac, overrides, .. } => {
                let mac = mac.filter(|_| to.is_some())?;
                (
                    Some(NeighbourUpdate { address: target, mac, solicits_us: false, overrides }),
                    None,
                )
            }
        };
        if let Some(word) = word
            && let Some(net) = state.speaker_v6(word.address)
        {
            self.function.learn_v6(input, net, word, self.now_ns);
            self.held.release(|neighbour| neighbour == (input, word.address.into()));
        }
        reply
    }

    /// Sends a neighbour request for an address.
    #[cold]
    pub(super) fn ask(&mut self, (output, address): NeighbourKey) {
        let state = &self.port_states[output];
        let mac = state.mac;
        let question = match address {
            IpAddr::V4(address) => state.speaker().map(|net| {
                let us = Endpoint { mac, address: net.addr() };
                ipv4_control::arp_request(us, address)
            }),
            IpAddr::V6(address) => state.speaker_v6(address).map(|net| {
                let us = Endpoint { mac, address: net.addr() };
                ndp::solicitation(us, address)
            }),
        };
        if let Some(question) = question {
            self.say(output, &question);
        }
    }

    /// Retries requests of neighbours with held packets, and gives up after the last.
    #[cold]
    pub(super) fn ask_again(&mut self) {
        self.ask_again_ns = self.now_ns + PROBE_NS / 2;
        for neighbour in self.held.neighbours() {
            let (found, missing) = self.function.find(neighbour, self.now_ns);
            if missing {
                self.ask(neighbour);
            }
            if found != NeighbourState::Incomplete {
                self.held.release(|of| of == neighbour);
            }
        }
    }

    /// Holds a packet for its neighbour, or drops it with an ICMP error.
    #[cold]
    pub(super) fn undelivered(&mut self, path: usize, packet: u64, why: ForwardError) -> Verdict {
        match why {
            ForwardError::Unresolved(neighbour) if self.held.hold(neighbour, path, packet) => {
                return Verdict::Hold;
            }
            ForwardError::Icmp(why) => self.complain(packet, why),
            ForwardError::Unresolved(_)
            | ForwardError::NeighbourTableFull
            | ForwardError::Malformed => {}
        }
        Verdict::Drop
    }

    /// Drops a packet that exceeds the MTU of `output`, with an ICMP error.
    #[cold]
    pub(super) fn too_long(&mut self, path: usize, packet: u64, output: usize) -> Verdict {
        let mtu = self.port_states[output].longest_bytes.saturating_sub(ETHERNET_BYTES);
        self.undelivered(path, packet, ForwardError::Icmp(IcmpError::TooBig(mtu)))
    }

    /// Sends an ICMP error about a packet, within the rate limit.
    #[cold]
    fn complain(&mut self, packet: u64, why: IcmpError) {
        if self.error_ns > self.now_ns + ERRORS * ERROR_NS {
            return;
        }
        let frame = self.pool.frame(packet);
        let source = if is_v6(frame) {
            icmpv6::error_recipient(frame).map(IpAddr::V6)
        } else {
            ipv4_control::error_recipient(frame).map(IpAddr::V4)
        };
        let Some(source) = source else { return };
        // NAT reflection: the sender used the router's address, so no error can be sent.
        if matches!(source, IpAddr::V4(source) if self.local_destination(source).is_some()) {
            return;
        }
        let mut ask = None;
        if let Ok(next) = self.function.next(source, self.now_ns, &mut ask) {
            let (state, mac) = (&self.port_states[next.output], next.from);
            let error = match source {
                IpAddr::V4(address) => state.speaker().and_then(|net| {
                    let us = Endpoint { mac, address: net.addr() };
                    ipv4_control::error(frame, why, us, Endpoint { mac: next.to, address })
                }),
                IpAddr::V6(address) => state.speaker_v6(address).and_then(|net| {
                    let us = Endpoint { mac, address: net.addr() };
                    icmpv6::error(frame, why, us, Endpoint { mac: next.to, address })
                }),
            };
            if let Some(error) = error {
                self.error_ns = self.error_ns.max(self.now_ns) + ERROR_NS;
                self.say(next.output, &error);
            }
        }
        if let Some(ask) = ask {
            self.ask(ask);
        }
    }

    /// Sends a frame ahead of the queues. Drops it if no buffer is free or the device is full.
    pub(super) fn say(&mut self, output: usize, frame: &[u8]) {
        if self.port_states[output].is_remote {
            if let Some(links) = &mut self.links {
                links.say(&mut self.pool, output, frame);
            }
            return;
        }
        let Some(packet) = self.pool.copy(frame) else { return };
        let state = &mut self.port_states[output];
        if let Some((nat, net)) = state.nat.as_mut().zip(state.address) {
            nat.translate_own_error(self.pool.frame_mut(packet), net.addr());
        }
        match state.port.transmit(&mut self.pool, &[packet]) {
            Ok(1) => state.counters.originated += 1,
            Ok(_) => self.pool.release(packet),
            Err(error) => {
                self.failed.get_or_insert(error);
                self.pool.release(packet);
            }
        }
    }
}
