//! Who gets a received packet. The first row that holds decides:
//!
//! | | packet | destination |
//! |---|---|---|
//! | 1 | of a flow in the cache | the flow's path |
//! | 2 | neither IPv4 nor IPv6 to this port's hardware address | local: ARP, neighbour discovery |
//! | 3 | IPv4 whose source belongs to another port, with NAT there | dropped and counted |
//! | 4 | IPv4 to the router's address, of a NAT flow | translated: rows 6 to 8; or dropped |
//! | 5 | IPv4 from outside to a host behind NAT | dropped |
//! | 6 | of a proxy's connection, or to be one | the proxy's path |
//! | 7 | to the router's or the kernel's address | local |
//! | 8 | that a path matches | the path; the flow enters the cache |
//! | 9 | any other | dropped: unclassified |

use std::net::Ipv6Addr;

use super::{LiveMachine, LocalDestination};
use crate::io::port::Port;
use crate::net::flow_cache::FlowKey;
use crate::net::header::Header;
use crate::net::nat::NatLookup;
use crate::net::pool::Pool;

/// Where a received packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To the input queue of this path.
    Path(usize),
    /// To the router itself: to one of its addresses, or none that can be forwarded.
    Local(Option<LocalDestination>),
    /// Its buffer is free again.
    Drop,
}

impl<P: Port> LiveMachine<P> {
    /// Decides where a packet goes that `input` received; `mac` is the port's hardware address.
    #[inline]
    pub(super) fn destination(&mut self, input: usize, mac: [u8; 6], packet: u64) -> Destination {
        let flow = FlowKey::parse(self.pool.frame(packet), Pool::tag(packet), input, mac);
        if let Some(path) = flow.and_then(|flow| self.flows.get(flow)) {
            return Destination::Path(path);
        }
        let header = Header::parse(self.pool.frame(packet));
        match header.filter(|header| header.to == mac) {
            Some(header) => self.destination_v4(input, packet, header, flow),
            None => self.destination_v6(input, packet),
        }
    }

    /// Rows 3 to 9 for IPv4.
    #[inline]
    fn destination_v4(
        &mut self,
        input: usize,
        packet: u64,
        mut header: Header,
        mut flow: Option<FlowKey>,
    ) -> Destination {
        if self.has_foreign_source(input, &header) {
            return Destination::Drop;
        }
        let mut local = self.local_destination(header.destination);
        // Proxies match the translated header. Paths match the destination behind NAT with the
        // port that the sender chose.
        let mut translated = header;
        if local == Some(LocalDestination::Router) {
            match self.look_up_nat(input, header.destination, packet) {
                NatLookup::No => {}
                NatLookup::Host => {
                    let Some(parsed) = Header::parse(self.pool.frame(packet)) else {
                        return Destination::Drop;
                    };
                    translated = parsed;
                    let ports = translated.ports.zip(header.ports);
                    let ports = ports.map(|(new, old)| (old.0, new.1));
                    header = Header { source: header.source, ports, ..translated };
                    flow = None;
                    // A proxy's own connection has a NAT flow, too.
                    local = self.local_destination(header.destination);
                }
                NatLookup::Refused => return Destination::Drop,
            }
        } else if local.is_none() && self.is_hidden(input) {
            return Destination::Drop;
        }
        if self.proxies.any() {
            let path = || self.classifier.path(input, &header, self.pool.frame(packet));
            if let Some(path) = self.proxied(&translated, local, path) {
                return Destination::Path(path);
            }
        }
        if local.is_some() {
            return Destination::Local(local);
        }
        header.tag = Pool::tag(packet);
        let Some(path) = self.classifier.path(input, &header, self.pool.frame(packet)) else {
            return Destination::Drop;
        };
        // A cached flow bypasses proxies, whose connections come and go.
        let is_stable = self.classifier.looks_at_headers() && !self.proxies.any();
        if let Some(flow) = flow.filter(|_| is_stable) {
            self.flows.insert(flow, path);
        }
        Destination::Path(path)
    }

    /// Rows 2 and 6 to 9 for IPv6 and for frames that are not IP.
    #[inline]
    fn destination_v6(&mut self, input: usize, packet: u64) -> Destination {
        let port = &self.ports[input];
        let header = Header::parse_v6(self.pool.frame(packet));
        let header: Option<Header<Ipv6Addr>> = header.filter(|header| header.to == port.mac);
        let Some(header) = header else {
            return if port.speaks() { Destination::Local(None) } else { Destination::Drop };
        };
        let local = self.local_destination_v6(input, header.destination);
        if self.proxies.any()
            && let Some(path) = self.proxied_v6(input, packet, local)
        {
            return Destination::Path(path);
        }
        if local.is_some() {
            return Destination::Local(local);
        }
        let header = Header { tag: Pool::tag(packet), ..header };
        let path = self.classifier.path_v6(input, &header, self.pool.frame(packet));
        path.map_or(Destination::Drop, Destination::Path)
    }
}
