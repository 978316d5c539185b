//! The local addresses at each port: those of the router and those of the kernel.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Index, IndexMut};

use crate::ids::{IdVec, PortId};
use crate::net::ipv4_control::{self, Endpoint};
use crate::net::ndp;
use crate::net::neighbours::NeighbourKey;

/// The owner of the local address that a packet goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalDestination {
    Router,
    /// The kernel receives a copy of the packet and answers it.
    Kernel,
}

/// The local addresses at a port.
#[derive(Debug)]
pub(super) struct PortAddresses {
    pub(super) mac: [u8; 6],
    /// The router's own address on this network, if it has one.
    pub(super) address: Option<Ipv4Net>,
    /// The kernel's address on this network: the source of the router's packets if the router has
    /// no address here. The kernel answers requests for it.
    pub(super) kernel: Option<Ipv4Net>,
    /// The router's IPv6 addresses, link-local ones included.
    pub(super) addresses_v6: Vec<Ipv6Net>,
    /// The kernel's IPv6 addresses on this network.
    kernel_v6: Vec<Ipv6Net>,
}

impl PortAddresses {
    /// Creates the addresses of a port with the hardware address `mac`: none yet.
    fn new(mac: [u8; 6]) -> Self {
        let (addresses_v6, kernel_v6) = (Vec::new(), Vec::new());
        Self { mac, address: None, kernel: None, addresses_v6, kernel_v6 }
    }

    /// Sets the router's addresses; it uses only the last IPv4 address. With IPv6 it has a
    /// link-local address, derived from the hardware address unless given.
    pub(super) fn set(&mut self, addresses: impl IntoIterator<Item = IpNet>) {
        self.address = None;
        self.addresses_v6.clear();
        for net in addresses {
            match net {
                IpNet::V4(net) => self.address = Some(net),
                IpNet::V6(net) => self.addresses_v6.push(net),
            }
        }
        let v6 = &mut self.addresses_v6;
        if !v6.is_empty() && !v6.iter().any(|net| net.addr().is_unicast_link_local()) {
            v6.push(ndp::link_local(self.mac));
        }
    }

    /// Adds or removes an IPv6 address of the kernel.
    pub(super) fn set_kernel_v6(&mut self, net: Ipv6Net, present: bool) {
        self.kernel_v6.retain(|other| *other != net);
        self.kernel_v6.extend(present.then_some(net));
    }

    /// Returns the solicited-node multicast groups of the router's addresses, without duplicates.
    pub(super) fn groups(&self) -> Vec<Ipv6Addr> {
        let groups = self.addresses_v6.iter().map(|net| ndp::solicited_node(net.addr()));
        let mut groups: Vec<_> = groups.collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Returns the IPv4 source address of the router's requests and errors.
    pub(super) fn source_v4(&self) -> Option<Ipv4Net> {
        self.address.or(self.kernel)
    }

    /// Returns the source address for IPv6 to `target`: on its network, else a global one.
    pub(super) fn source_v6(&self, target: Ipv6Addr) -> Option<Ipv6Net> {
        let own = &self.addresses_v6;
        let ours = if own.is_empty() { &self.kernel_v6 } else { own };
        let far = |net: &&Ipv6Net| !net.addr().is_unicast_link_local();
        let beside = ours.iter().find(|net| net.contains(&target));
        beside.or_else(|| ours.iter().find(far)).or(ours.first()).copied()
    }

    /// Returns the router's address for a connection to `destination` by this port.
    pub(super) fn connection_source(&self, destination: IpAddr) -> Option<IpAddr> {
        match destination {
            IpAddr::V4(_) => self.address.map(|net| net.addr().into()),
            IpAddr::V6(to) => {
                let own = &self.addresses_v6;
                let far = own.iter().filter(|net| !net.addr().is_unicast_link_local());
                let beside = far.clone().find(|net| net.contains(&to));
                beside.or_else(|| far.clone().next()).map(|net| net.addr().into())
            }
        }
    }

    /// Returns whether the router or the kernel has an IPv6 address on this network.
    pub(super) fn has_v6_address(&self) -> bool {
        !(self.addresses_v6.is_empty() && self.kernel_v6.is_empty())
    }

    /// Returns whether the router or the kernel has an address on this network.
    pub(super) fn has_address(&self) -> bool {
        self.has_v6_address() || self.source_v4().is_some()
    }

    /// Returns the owner of an IPv6 address.
    pub(super) fn owner_v6(&self, address: Ipv6Addr) -> Option<LocalDestination> {
        let is = |nets: &[Ipv6Net]| nets.iter().any(|net| net.addr() == address);
        let kernel = is(&self.kernel_v6).then_some(LocalDestination::Kernel);
        is(&self.addresses_v6).then_some(LocalDestination::Router).or(kernel)
    }
}

/// The local addresses at all ports, by port.
#[derive(Debug, Default)]
pub(super) struct LocalAddresses(IdVec<PortId, PortAddresses>);

impl LocalAddresses {
    /// Adds a port with the hardware address `mac`.
    pub(super) fn add(&mut self, mac: [u8; 6]) {
        self.0.push(PortAddresses::new(mac));
    }

    /// Returns the addresses of a port; `None` if it is out of range.
    pub(super) fn get(&self, port: PortId) -> Option<&PortAddresses> {
        self.0.get(port)
    }

    /// Returns the owner of an IPv4 address.
    #[inline]
    pub(super) fn owner_v4(&self, address: Ipv4Addr) -> Option<LocalDestination> {
        let is = |net: Option<Ipv4Net>| net.is_some_and(|net| net.addr() == address);
        let port = self.0.iter().find(|port| is(port.address) || is(port.kernel))?;
        Some(if is(port.address) { LocalDestination::Router } else { LocalDestination::Kernel })
    }

    /// Returns the owner of an IPv6 address; a link-local one belongs to the network of `input`.
    pub(super) fn owner_v6(&self, input: PortId, address: Ipv6Addr) -> Option<LocalDestination> {
        if address.is_unicast_link_local() {
            self.0[input].owner_v6(address)
        } else {
            self.0.iter().find_map(|port| port.owner_v6(address))
        }
    }

    /// Returns the first port for which `eligible` returns true and at which the router has the
    /// address.
    pub(super) fn port_of(
        &self,
        address: Ipv4Addr,
        eligible: impl Fn(PortId) -> bool,
    ) -> Option<PortId> {
        let is = |port: &PortAddresses| port.address.is_some_and(|net| net.addr() == address);
        let mut ports = self.0.enumerate();
        ports.find(|(id, port)| eligible(*id) && is(port)).map(|(id, _)| id)
    }

    /// Returns a request for a neighbour's hardware address; `None` without a source address.
    pub(super) fn solicitation(&self, (output, address): NeighbourKey) -> Option<Vec<u8>> {
        let port = &self.0[output];
        let mac = port.mac;
        match address {
            IpAddr::V4(address) => port.source_v4().map(|net| {
                let us = Endpoint { mac, address: net.addr() };
                ipv4_control::arp_request(us, address)
            }),
            IpAddr::V6(address) => port.source_v6(address).map(|net| {
                let us = Endpoint { mac, address: net.addr() };
                ndp::solicitation(us, address)
            }),
        }
    }
}

impl Index<PortId> for LocalAddresses {
    type Output = PortAddresses;

    #[inline]
    fn index(&self, port: PortId) -> &PortAddresses {
        &self.0[port]
    }
}

impl IndexMut<PortId> for LocalAddresses {
    fn index_mut(&mut self, port: PortId) -> &mut PortAddresses {
        &mut self.0[port]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// Returns the addresses of two ports: 10.1.0.1 and IPv6 at port 0, the kernel's at port 1.
    fn addresses() -> LocalAddresses {
        let mut addresses = LocalAddresses::default();
        addresses.add([2, 0, 0, 0, 0, 1]);
        addresses.add([2, 0, 0, 0, 0, 2]);
        addresses[PortId(0)].set([net("10.9.0.1/24"), net("10.1.0.1/24"), net("2001:db8:1::1/64")]);
        addresses[PortId(1)].kernel = Some("10.2.0.1/24".parse().unwrap());
        addresses[PortId(1)].set_kernel_v6("fe80::2/64".parse().unwrap(), true);
        addresses
    }

    #[test]
    fn an_address_belongs_to_the_router_or_to_the_kernel() {
        let addresses = addresses();
        let owner = |host: [u8; 4]| addresses.owner_v4(Ipv4Addr::from(host));
        assert_eq!(owner([10, 1, 0, 1]), Some(LocalDestination::Router));
        assert_eq!(owner([10, 9, 0, 1]), None, "only the last IPv4 address is used");
        assert_eq!(owner([10, 2, 0, 1]), Some(LocalDestination::Kernel));
        let owner = |input, host| addresses.owner_v6(PortId(input), v6(host));
        assert_eq!(owner(1, "2001:db8:1::1"), Some(LocalDestination::Router));
        assert_eq!(owner(1, "fe80::2"), Some(LocalDestination::Kernel));
        assert_eq!(owner(0, "fe80::2"), None, "link-local addresses belong to one network");
        let port = |eligible: usize| {
            addresses.port_of(Ipv4Addr::new(10, 1, 0, 1), |port| port == PortId(eligible))
        };
        assert_eq!((port(0), port(1)), (Some(PortId(0)), None));
    }

    #[test]
    fn a_source_address_is_on_the_targets_network_or_global() {
        let addresses = addresses();
        let source =
            |port: usize, to| addresses[PortId(port)].source_v6(v6(to)).map(|net| net.addr());
        assert_eq!(source(0, "2001:db8:1::9"), Some(v6("2001:db8:1::1")));
        let link_local = ndp::link_local([2, 0, 0, 0, 0, 1]).addr();
        assert_eq!(source(0, "fe80::9"), Some(link_local), "derived from the hardware address");
        assert_eq!(source(0, "2001:db8:9::9"), Some(v6("2001:db8:1::1")));
        assert_eq!(source(1, "2001:db8:9::9"), Some(v6("fe80::2")), "the kernel's");
        let connection =
            |port: usize, to: &str| addresses[PortId(port)].connection_source(to.parse().unwrap());
        assert_eq!(connection(0, "10.7.0.1"), Some(Ipv4Addr::new(10, 1, 0, 1).into()));
        assert_eq!(connection(1, "10.7.0.1"), None, "the kernel's address is not the router's");
        assert_eq!(connection(0, "fe80::9"), Some(v6("2001:db8:1::1").into()));
    }

    #[test]
    fn a_port_without_addresses_solicits_no_neighbour() {
        let mut addresses = addresses();
        assert!(addresses.solicitation((PortId(0), Ipv4Addr::new(10, 1, 0, 9).into())).is_some());
        assert!(addresses.solicitation((PortId(1), v6("fe80::9").into())).is_some());
        addresses[PortId(1)].set_kernel_v6("fe80::2/64".parse().unwrap(), false);
        assert!(addresses.solicitation((PortId(1), v6("fe80::9").into())).is_none());
        assert!(addresses[PortId(1)].has_address(), "the kernel's IPv4 address is left");
    }
}
