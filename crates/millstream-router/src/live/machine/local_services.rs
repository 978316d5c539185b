//! The router's own services: ARP, neighbour discovery, echo replies, ICMP errors, and packets held
//! for neighbour resolution.

use etherparse::ArpOperation;
use std::net::{IpAddr, Ipv4Addr};

use super::addresses::{LocalAddresses, LocalDestination};
use crate::ids::PortId;
use crate::net::forwarder::Forwarder;
use crate::net::header::is_v6;
use crate::net::icmpv6;
use crate::net::ipv4_control::{self, Endpoint, IcmpError};
use crate::net::ndp::{self, Message};
use crate::net::neighbours::{NeighbourKey, NeighbourState, NeighbourUpdate, PROBE_NS};
use crate::net::pending_neighbours::PendingNeighbours;

/// The mean interval between ICMP errors, ns.
const ERROR_NS: u64 = 1_000_000;
/// The burst of ICMP errors.
const ERRORS: u64 = 50;

/// The state of the machine that the services use.
pub(super) struct Network<'a> {
    pub(super) addresses: &'a LocalAddresses,
    pub(super) function: &'a mut Forwarder,
    pub(super) now_ns: u64,
}

/// The result of a packet for the router.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Whether it is a packet for the router, and not merely one that cannot be forwarded.
    pub(super) is_for_router: bool,
    /// The frame to send back.
    pub(super) reply: Option<Vec<u8>>,
}

/// The state of the router's own services.
pub(super) struct LocalServices {
    /// The packets held for neighbour resolution.
    pub(super) pending: PendingNeighbours,
    /// The time of the next requests for neighbours of held packets, ns.
    next_solicitation_ns: u64,
    /// The state of the rate limit of ICMP errors, ns.
    error_ns: u64,
}

impl LocalServices {
    /// Creates the services of a router with `buffers` buffers.
    pub(super) fn new(buffers: usize) -> Self {
        let pending = PendingNeighbours::new(buffers);
        Self { pending, next_solicitation_ns: 0, error_ns: 0 }
    }

    /// Processes a packet from `input` for the router itself, or one that cannot be forwarded; `to`
    /// is the owner of its destination, if that is a local address.
    pub(super) fn receive(
        &mut self,
        network: &mut Network,
        input: PortId,
        frame: &[u8],
        to: Option<LocalDestination>,
    ) -> Received {
        if is_v6(frame) {
            self.receive_v6(network, input, frame, to)
        } else {
            self.receive_v4(network, input, frame, to)
        }
    }

    fn receive_v4(
        &mut self,
        network: &mut Network,
        input: PortId,
        frame: &[u8],
        to: Option<LocalDestination>,
    ) -> Received {
        let port = &network.addresses[input];
        if let Some(destination) = to {
            let reply = (destination == LocalDestination::Router)
                .then(|| ipv4_control::echo_reply(frame, port.mac))
                .flatten();
            return Received { is_for_router: true, reply };
        }
        let Some((arp, net)) = ipv4_control::arp(frame).zip(port.source_v4()) else {
            return Received::default();
        };
        let us = Endpoint { mac: port.mac, address: net.addr() };
        let them = Endpoint { mac: arp.sender_mac, address: Ipv4Addr::from(arp.sender_ipv4) };
        let solicits_us = arp.target_ipv4 == us.address.octets();
        let Endpoint { mac, address } = them;
        let update = NeighbourUpdate { address, mac, solicits_us, overrides: true };
        network.function.learn(input, net, update, network.now_ns);
        self.pending.release(|neighbour| neighbour == (input, address.into()));
        let answers = solicits_us && mac[0] & 1 == 0 && port.address.is_some();
        let reply = (answers && arp.operation == ArpOperation::REQUEST)
            .then(|| ipv4_control::arp_reply(us, them));
        Received { is_for_router: true, reply }
    }

    fn receive_v6(
        &mut self,
        network: &mut Network,
        input: PortId,
        frame: &[u8],
        to: Option<LocalDestination>,
    ) -> Received {
        let port = &network.addresses[input];
        let message = ndp::message(frame).filter(|_| port.has_v6_address());
        let is_for_router = to.is_some() || message.is_some();
        let reply = match message {
            Some(message) => self.receive_ndp(network, input, frame, (message, to)),
            None => (to == Some(LocalDestination::Router))
                .then(|| icmpv6::echo_reply(frame, port.mac))
                .flatten(),
        };
        Received { is_for_router, reply }
    }

    /// Processes a message of neighbour discovery; returns the reply.
    fn receive_ndp(
        &mut self,
        network: &mut Network,
        input: PortId,
        frame: &[u8],
        (message, to): (Message, Option<LocalDestination>),
    ) -> Option<Vec<u8>> {
        let port = &network.addresses[input];
        let (update, reply) = match message {
            Message::Solicitation { target, from, mac } => {
                let owner = port.owner_v6(target);
                // The kernel answers for its own addresses.
                let answers = owner == Some(LocalDestination::Router);
                let us = Endpoint { mac: port.mac, address: target };
                // A solicitation to our hardware address may omit the sender's.
                let sender = *frame[6..].first_chunk()?;
                let to = mac.unwrap_or(sender);
                let them = from.map(|address| Endpoint { mac: to, address });
                let reply = (answers && to[0] & 1 == 0).then(|| ndp::advertisement(us, them));
                let update = from.zip(mac).map(|(address, mac)| NeighbourUpdate {
                    address,
                    mac,
                    solicits_us: owner.is_some(),
                    overrides: true,
                });
                (update, reply)
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
        if let Some(update) = update
            && let Some(net) = port.source_v6(update.address)
        {
            network.function.learn_v6(input, net, update, network.now_ns);
            self.pending.release(|neighbour| neighbour == (input, update.address.into()));
        }
        reply
    }

    /// Returns whether requests for neighbours of held packets are due.
    #[inline]
    pub(super) fn solicitations_are_due(&self, now_ns: u64) -> bool {
        self.pending.has_packets() && self.next_solicitation_ns <= now_ns
    }

    /// Returns the neighbours of held packets to solicit again. Releases the packets of neighbours
    /// that are resolved or have failed.
    #[cold]
    pub(super) fn retry_solicitations(
        &mut self,
        function: &mut Forwarder,
        now_ns: u64,
    ) -> Vec<NeighbourKey> {
        self.next_solicitation_ns = now_ns + PROBE_NS / 2;
        let mut neighbours = self.pending.neighbours();
        neighbours.retain(|neighbour| {
            let (found, missing) = function.find(*neighbour, now_ns);
            if found != NeighbourState::Incomplete {
                self.pending.release(|of| of == *neighbour);
            }
            missing
        });
        neighbours
    }

    /// Returns an ICMP error about a packet with the output to send it by, within the rate limit.
    /// Sets `solicit` to a neighbour to solicit now.
    #[cold]
    pub(super) fn icmp_error(
        &mut self,
        network: &mut Network,
        frame: &[u8],
        why: IcmpError,
        solicit: &mut Option<NeighbourKey>,
    ) -> Option<(PortId, Vec<u8>)> {
        let now_ns = network.now_ns;
        if self.error_ns > now_ns + ERRORS * ERROR_NS {
            return None;
        }
        let source = if is_v6(frame) {
            icmpv6::error_recipient(frame).map(IpAddr::V6)
        } else {
            ipv4_control::error_recipient(frame).map(IpAddr::V4)
        };
        let source = source?;
        // NAT reflection: the sender used the router's address, so no error can be sent.
        if matches!(source, IpAddr::V4(source) if network.addresses.owner_v4(source).is_some()) {
            return None;
        }
        let next = network.function.next(source, now_ns, solicit).ok()?;
        let (port, mac) = (&network.addresses[next.output], next.from);
        let error = match source {
            IpAddr::V4(address) => {
                let us = Endpoint { mac, address: port.source_v4()?.addr() };
                ipv4_control::error(frame, why, us, Endpoint { mac: next.to, address })
            }
            IpAddr::V6(address) => {
                let us = Endpoint { mac, address: port.source_v6(address)?.addr() };
                icmpv6::error(frame, why, us, Endpoint { mac: next.to, address })
            }
        };
        let error = error?;
        self.error_ns = self.error_ns.max(now_ns) + ERROR_NS;
        Some((next.output, error))
    }
}

#[cfg(test)]
mod tests;
