//! The destination of a received packet.
//!
//! The first row that applies decides. A flow in the flow cache has passed all of them before.
//!
//! | packet | IPv4 | IPv6 |
//! |---|---|---|
//! | not for the port's hardware address, or not IP | local | local |
//! | its source belongs to another port, and the output checks sources | drop | - |
//! | to the router's address, of a known NAT flow | translated, then the rows below | - |
//! | to the router's address, refused by NAT | drop | - |
//! | to a host that NAT hides, by its own address | drop | - |
//! | of a proxied connection, or for a proxy's listener | the proxy's path | the proxy's path |
//! | to an address of the router or of the kernel | local | local |
//! | a rule matches | the rule's path | the rule's path |
//! | any other | drop | drop |
//!
//! A port without any address drops the packets of the first row.

use std::net::Ipv4Addr;

use super::LiveMachine;
use super::addresses::LocalDestination;
use super::proxy::proxied_path;
use crate::ids::{PacketHandle, PathId, PortId};
use crate::io::port::Port;
use crate::net::flow_cache::FlowKey;
use crate::net::header::{Header, is_v6};
use crate::net::nat::NatLookup;
use crate::net::pool::Pool;

/// The destination of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The input queue of a path.
    Path(PathId),
    /// The router's own services; the owner of its destination address, if that is a local one.
    Local(Option<LocalDestination>),
    /// No destination: the packet is dropped.
    Drop,
}

impl<P: Port> LiveMachine<P> {
    /// Returns the destination of a packet from `input`, which has the hardware address `mac`.
    /// May translate the packet, and learns its `flow`.
    #[inline]
    pub(super) fn destination(
        &mut self,
        input: PortId,
        mac: [u8; 6],
        packet: PacketHandle,
        mut flow: Option<FlowKey>,
    ) -> Destination {
        let header = Header::parse(self.pool.frame(packet));
        let Some(mut header) = header.filter(|header| header.to == mac) else {
            return self.destination_v6(input, packet);
        };
        if self.nats.has_foreign_source(&self.addresses, &self.function, input, &header) {
            return Destination::Drop;
        }
        let mut owner = self.addresses.owner_v4(header.destination);
        // Rules match the addresses that the sender used; a proxy matches the translated ones. They
        // differ if a host reaches another host by the router's address.
        let mut translated = header;
        if owner == Some(LocalDestination::Router) {
            match self.nat_lookup(input, header.destination, packet) {
                NatLookup::No => {}
                NatLookup::Host => {
                    let Some(parsed) = Header::parse(self.pool.frame(packet)) else {
                        return Destination::Drop;
                    };
                    translated = parsed;
                    let ports = parsed.ports.zip(header.ports);
                    let ports = ports.map(|(new, old)| (old.0, new.1));
                    header = Header { source: header.source, ports, ..parsed };
                    // The flow cache does not translate.
                    flow = None;
                    // A proxy's own connection has a NAT flow, too.
                    owner = self.addresses.owner_v4(header.destination);
                }
                NatLookup::Refused => return Destination::Drop,
            }
        } else if owner.is_none() && self.nats.hides_hosts(&self.addresses, input) {
            return Destination::Drop;
        }
        if self.proxies.any() {
            let path = || self.classifier.path(input, &header, self.pool.frame(packet));
            if let Some(path) = proxied_path(&self.proxies, &translated, owner, path) {
                return Destination::Path(path);
            }
        }
        if owner.is_some() {
            return Destination::Local(owner);
        }
        header.tag = Pool::tag(packet);
        let Some(path) = self.classifier.path(input, &header, self.pool.frame(packet)) else {
            return Destination::Drop;
        };
        self.delays.observe(&header, self.pool.frame(packet), path, self.now_ns);
        // A filter may match on bytes beyond the flow; a proxied connection may begin or end.
        let cacheable = self.classifier.uses_headers_only() && !self.proxies.any();
        if let Some(flow) = flow.filter(|_| cacheable) {
            self.flows.insert(flow, path);
        }
        Destination::Path(path)
    }

    /// Looks up the NAT flow of a packet to the router's address `us`, and translates it.
    #[cold]
    fn nat_lookup(&mut self, input: PortId, us: Ipv4Addr, packet: PacketHandle) -> NatLookup {
        let port = self.addresses.port_of(us, |port| !self.remote_cores.owns(port));
        let Some(port) = port else { return NatLookup::No };
        self.nats.look_up(input, (port, us), self.pool.frame_mut(packet), self.now_ns)
    }

    /// Returns the destination of a packet that is not IPv4 for the hardware address of `input`.
    #[inline]
    fn destination_v6(&self, input: PortId, packet: PacketHandle) -> Destination {
        let addresses = &self.addresses[input];
        let frame = self.pool.frame(packet);
        let header = Header::parse_v6(frame);
        let Some(header) = header.filter(|header| header.to == addresses.mac) else {
            let listens = addresses.has_address();
            return if listens { Destination::Local(None) } else { Destination::Drop };
        };
        let owner = self.addresses.owner_v6(input, header.destination);
        if self.proxies.any() && is_v6(frame) {
            let path = || self.classifier.path_v6(input, &header, frame);
            if let Some(path) = proxied_path(&self.proxies, &header, owner, path) {
                return Destination::Path(path);
            }
        }
        if owner.is_some() {
            return Destination::Local(owner);
        }
        let header = Header { tag: Pool::tag(packet), ..header };
        let Some(path) = self.classifier.path_v6(input, &header, frame) else {
            return Destination::Drop;
        };
        self.delays.observe(&header, frame, path, self.now_ns);
        Destination::Path(path)
    }
}

#[cfg(test)]
mod tests;
