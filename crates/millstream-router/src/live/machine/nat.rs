//! Translation at ports that have one: which packets it sees.

use millstream_scenario::PortNat;
use std::net::Ipv4Addr;

use super::{LiveMachine, Side};
use crate::io::port::Port;
use crate::net::header::{Header, is_v6};
use crate::net::nat::{Met, Nat, NatCounters};

impl<P: Port> LiveMachine<P> {
    /// Whoever sends IPv4 by `port` does so from its address, and answers find their way back, as `how` says. Flows
    /// stay known if so many may be as before.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn translate(&mut self, port: usize, how: Option<&PortNat>) {
        self.flows.forget();
        let nat = &mut self.sides[port].nat;
        *nat = how.map(|how| match nat.take() {
            Some(nat) => nat.changed(how),
            None => Nat::new(how),
        });
        self.checks_source =
            self.sides.iter().any(|side| side.nat.as_ref().is_some_and(Nat::checks_source));
    }

    /// Whether a packet of IPv4 that came by `input` is dropped: it is for a port that translates
    /// and checks sources, and the route to its own source does not lead by `input`. It is counted
    /// there.
    #[inline]
    pub(super) fn has_foreign_source(&mut self, input: usize, header: &Header) -> bool {
        self.checks_source
            && self.sides[input].nat.is_none()
            && self.function.leads_by(header.source) != Some(input)
            && self.refuse_source(header.destination)
    }

    #[cold]
    fn refuse_source(&mut self, destination: Ipv4Addr) -> bool {
        let is = |side: &Side<P>| side.address.is_some_and(|net| net.addr() == destination);
        let output = self.sides.iter().position(is);
        let output = output.or_else(|| self.function.leads_by(destination));
        let side = output.map(|output| &mut self.sides[output]);
        let side = side.filter(|side| side.nat.as_ref().is_some_and(Nat::checks_source));
        side.map(|side| side.refused_source += 1).is_some()
    }

    /// Packets for a port that were refused here for their source.
    ///
    /// # Panics
    /// If there is no such port.
    pub(crate) fn refused_source(&self, port: usize) -> u64 {
        self.sides[port].refused_source
    }

    /// What the translation at a port did, if there is one.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn translation(&self, port: usize) -> Option<NatCounters> {
        let side = &self.sides[port];
        let counters = side.nat.as_ref()?.counters();
        Some(NatCounters { refused_source: side.refused_source, ..counters })
    }

    /// Whether a packet for the router's address `us` belongs to a flow of a host; it goes to that host now.
    #[cold]
    pub(super) fn meet(&mut self, input: usize, us: Ipv4Addr, packet: u64) -> Met {
        let is_inside = self.sides[input].nat.is_none();
        let is =
            |side: &Side<P>| !side.elsewhere && side.address.is_some_and(|net| net.addr() == us);
        let Some(port) = self.sides.iter().position(is) else { return Met::No };
        let Some(nat) = self.sides[port].nat.as_mut() else { return Met::No };
        let frame = self.pool.frame_mut(packet);
        if port == input {
            nat.inbound(frame, us, self.now_ns)
        } else if is_inside {
            nat.reflect(frame, us, self.now_ns)
        } else {
            Met::No
        }
    }

    /// Whether a packet of IPv4 that came by `input` is for hosts that are hidden there: they cannot be meant by their
    /// own addresses.
    #[inline]
    pub(super) fn is_hidden(&self, input: usize) -> bool {
        let side = &self.sides[input];
        side.nat.is_some() && side.address.is_some()
    }

    /// Whether a packet may leave by `output`; it comes from the port's address now if that hides others, which it
    /// does of IPv4.
    #[inline]
    pub(super) fn translated(&mut self, output: usize, packet: u64) -> bool {
        let side = &mut self.sides[output];
        if side.elsewhere {
            // It is there that it may leave, or not.
            return true;
        }
        match side.nat.as_mut().zip(side.address) {
            Some((nat, net)) => {
                let frame = self.pool.frame_mut(packet);
                is_v6(frame) || nat.outbound(frame, net.addr(), self.now_ns)
            }
            None => true,
        }
    }
}
