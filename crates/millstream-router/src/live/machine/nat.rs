//! NAT at ports: which packets are translated or refused.

use millstream_scenario::PortNat;
use std::net::Ipv4Addr;

use super::addresses::LocalAddresses;
use crate::ids::{IdVec, PacketHandle, PortId};
use crate::net::forwarder::Forwarder;
use crate::net::header::{Header, is_v6};
use crate::net::nat::{Nat, NatCounters, NatLookup};
use crate::net::pool::Pool;

/// The NAT of a port.
#[derive(Default)]
struct NatPort {
    /// Translates IPv4 sources to the port's address.
    nat: Option<Nat>,
    /// Packets for the port that this core dropped because their source belongs to another port.
    dropped_source: u64,
}

/// The NAT of each port.
#[derive(Default)]
pub(super) struct PortNats {
    ports: IdVec<PortId, NatPort>,
    /// Whether any port's NAT checks sources.
    checks_source: bool,
}

impl PortNats {
    /// Adds a port without NAT.
    pub(super) fn add(&mut self) {
        self.ports.push(NatPort::default());
    }

    /// Sets NAT at `port`. NAT flows stay unless the limits shrink.
    pub(super) fn set(&mut self, port: PortId, how: Option<&PortNat>) {
        let nat = &mut self.ports[port].nat;
        *nat = how.map(|how| match nat.take() {
            Some(nat) => nat.changed(how),
            None => Nat::new(how),
        });
        self.checks_source = self.ports.iter().any(NatPort::checks_source);
    }

    /// Returns whether a port has NAT.
    #[inline]
    pub(super) fn has(&self, port: PortId) -> bool {
        self.ports[port].nat.is_some()
    }

    /// Returns whether an IPv4 packet from `input` fails the source check, and counts it. The check
    /// fails if the output's NAT checks sources and the route to the source uses another port.
    #[inline]
    pub(super) fn has_foreign_source(
        &mut self,
        addresses: &LocalAddresses,
        function: &Forwarder,
        input: PortId,
        header: &Header,
    ) -> bool {
        self.checks_source
            && !self.has(input)
            && function.egress_v4(header.source) != Some(input)
            && self.refuse_source(addresses, function, header.destination)
    }

    #[cold]
    fn refuse_source(
        &mut self,
        addresses: &LocalAddresses,
        function: &Forwarder,
        destination: Ipv4Addr,
    ) -> bool {
        let output = addresses.port_of(destination, |_| true);
        let output = output.or_else(|| function.egress_v4(destination));
        let port = output.map(|output| &mut self.ports[output]);
        let port = port.filter(|port| port.checks_source());
        port.map(|port| port.dropped_source += 1).is_some()
    }

    /// Returns the number of packets for a port that this core refused for their source.
    pub(super) fn dropped_source(&self, port: PortId) -> u64 {
        self.ports[port].dropped_source
    }

    /// Returns the counters of a port's NAT, if it has one.
    pub(super) fn counters(&self, port: PortId) -> Option<NatCounters> {
        let port = &self.ports[port];
        let counters = port.nat.as_ref()?.counters();
        Some(NatCounters { refused_source: port.dropped_source, ..counters })
    }

    /// Looks up the NAT flow of a packet from `input` to the router's address `us` at `port`, and
    /// translates it.
    pub(super) fn look_up(
        &mut self,
        input: PortId,
        (port, us): (PortId, Ipv4Addr),
        frame: &mut [u8],
        now_ns: u64,
    ) -> NatLookup {
        let is_inside = !self.has(input);
        let Some(nat) = self.ports[port].nat.as_mut() else { return NatLookup::No };
        if port == input {
            nat.inbound(frame, us, now_ns)
        } else if is_inside {
            nat.reflect(frame, us, now_ns)
        } else {
            NatLookup::No
        }
    }

    /// Returns whether NAT hides the hosts behind a port with an `address`: an IPv4 packet from
    /// there must not go to their own addresses.
    #[inline]
    pub(super) fn hides_hosts(&self, addresses: &LocalAddresses, port: PortId) -> bool {
        self.has(port) && addresses[port].address.is_some()
    }

    /// Translates an IPv4 packet that leaves by `output`; returns false if NAT refuses it.
    #[inline]
    pub(super) fn translate(
        &mut self,
        addresses: &LocalAddresses,
        output: PortId,
        pool: &mut Pool,
        packet: PacketHandle,
        now_ns: u64,
    ) -> bool {
        let Some(nat) = self.ports[output].nat.as_mut() else { return true };
        let Some(net) = addresses[output].address else { return true };
        let frame = pool.frame_mut(packet);
        is_v6(frame) || nat.outbound(frame, net.addr(), now_ns)
    }

    /// Translates an ICMP error of the router itself that leaves by `output`.
    pub(super) fn translate_own_error(
        &mut self,
        addresses: &LocalAddresses,
        output: PortId,
        frame: &mut [u8],
    ) {
        if let Some((nat, net)) = self.ports[output].nat.as_mut().zip(addresses[output].address) {
            nat.translate_own_error(frame, net.addr());
        }
    }
}

impl NatPort {
    fn checks_source(&self) -> bool {
        self.nat.as_ref().is_some_and(Nat::checks_source)
    }
}
