//! NAT at ports: which packets are translated or refused.

use millstream_scenario::PortNat;
use std::net::Ipv4Addr;

use super::{LiveMachine, PortState};
use crate::io::port::Port;
use crate::net::header::{Header, is_v6};
use crate::net::nat::{Nat, NatCounters, NatLookup};

impl<P: Port> LiveMachine<P> {
    /// Sets NAT at `port`: IPv4 leaves from the port's address. NAT flows stay unless the limits
    /// shrink.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn translate(&mut self, port: usize, how: Option<&PortNat>) {
        self.flows.clear();
        let nat = &mut self.port_states[port].nat;
        *nat = how.map(|how| match nat.take() {
            Some(nat) => nat.changed(how),
            None => Nat::new(how),
        });
        self.checks_source =
            self.port_states.iter().any(|state| state.nat.as_ref().is_some_and(Nat::checks_source));
    }

    /// Returns whether an IPv4 packet from `input` fails the source check, and counts it: its
    /// output has NAT that checks sources, and the route to its source leads by another port.
    #[inline]
    pub(super) fn has_foreign_source(&mut self, input: usize, header: &Header) -> bool {
        self.checks_source
            && self.port_states[input].nat.is_none()
            && self.function.egress_v4(header.source) != Some(input)
            && self.refuse_source(header.destination)
    }

    #[cold]
    fn refuse_source(&mut self, destination: Ipv4Addr) -> bool {
        let is = |state: &PortState<P>| state.address.is_some_and(|net| net.addr() == destination);
        let output = self.port_states.iter().position(is);
        let output = output.or_else(|| self.function.egress_v4(destination));
        let state = output.map(|output| &mut self.port_states[output]);
        let state = state.filter(|state| state.nat.as_ref().is_some_and(Nat::checks_source));
        state.map(|state| state.refused_source += 1).is_some()
    }

    /// Returns the number of packets for a port that this core refused for their source.
    ///
    /// # Panics
    /// If there is no such port.
    pub(crate) fn refused_source(&self, port: usize) -> u64 {
        self.port_states[port].refused_source
    }

    /// Returns the counters of a port's NAT, if it has one.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn translation(&self, port: usize) -> Option<NatCounters> {
        let state = &self.port_states[port];
        let counters = state.nat.as_ref()?.counters();
        Some(NatCounters { refused_source: state.refused_source, ..counters })
    }

    /// Looks up the NAT flow of a packet to the router's address `us`, and translates it.
    #[cold]
    pub(super) fn nat_lookup(&mut self, input: usize, us: Ipv4Addr, packet: u64) -> NatLookup {
        let is_inside = self.port_states[input].nat.is_none();
        let is = |state: &PortState<P>| {
            !state.is_remote && state.address.is_some_and(|net| net.addr() == us)
        };
        let Some(port) = self.port_states.iter().position(is) else { return NatLookup::No };
        let Some(nat) = self.port_states[port].nat.as_mut() else { return NatLookup::No };
        let frame = self.pool.frame_mut(packet);
        if port == input {
            nat.inbound(frame, us, self.now_ns)
        } else if is_inside {
            nat.reflect(frame, us, self.now_ns)
        } else {
            NatLookup::No
        }
    }

    /// Returns whether NAT hides the hosts behind this port: an IPv4 packet from `input` must not
    /// go to their own addresses.
    #[inline]
    pub(super) fn is_hidden(&self, input: usize) -> bool {
        let state = &self.port_states[input];
        state.nat.is_some() && state.address.is_some()
    }

    /// Translates an IPv4 packet that leaves by `output`; returns false if NAT refuses it.
    #[inline]
    pub(super) fn translated(&mut self, output: usize, packet: u64) -> bool {
        let state = &mut self.port_states[output];
        if state.is_remote {
            // The core of the port translates or refuses it.
            return true;
        }
        match state.nat.as_mut().zip(state.address) {
            Some((nat, net)) => {
                let frame = self.pool.frame_mut(packet);
                is_v6(frame) || nat.outbound(frame, net.addr(), self.now_ns)
            }
            None => true,
        }
    }
}
