//! Routing table: longest-prefix match from destination to next hop. A route of the router's file
//! takes precedence over the kernel's route of the same prefix.

use ipnet::IpNet;
use prefix_trie::PrefixMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ids::PortId;
use crate::net::address::Address;

/// A resolved next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The output port, by number.
    pub output: PortId,
    /// The source hardware address: the output port's.
    pub from: [u8; 6],
    /// The destination hardware address: the neighbour's.
    pub to: [u8; 6],
}

/// The next hop that a route gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHopKind<A> {
    /// The output and both hardware addresses are known.
    Resolved(NextHop),
    /// The output, its hardware address and the gateway. The neighbour to resolve is the gateway,
    /// or the destination without one.
    Resolve(PortId, [u8; 6], Option<A>),
    /// The router has no port towards it.
    Unreachable,
}

impl NextHopKind<IpAddr> {
    /// Converts to address family `A`. A gateway of the other family is unreachable.
    fn for_family<A: Address>(self) -> NextHopKind<A> {
        match self {
            Self::Resolved(hop) => NextHopKind::Resolved(hop),
            Self::Resolve(output, from, None) => NextHopKind::Resolve(output, from, None),
            Self::Resolve(output, from, Some(via)) => A::from_ip(via)
                .map_or(NextHopKind::Unreachable, |via| {
                    NextHopKind::Resolve(output, from, Some(via))
                }),
            Self::Unreachable => NextHopKind::Unreachable,
        }
    }
}

/// The routes of one prefix, by origin.
#[derive(Clone, Copy, Debug)]
struct PrefixRoutes<A> {
    file: Option<NextHopKind<A>>,
    kernel: Option<NextHopKind<A>>,
}

/// The routing table of one address family.
#[derive(Clone, Debug)]
pub(crate) struct FamilyRoutes<A: Address> {
    prefixes: PrefixMap<A::Net, PrefixRoutes<A>>,
}

impl<A: Address> Default for FamilyRoutes<A> {
    fn default() -> Self {
        Self { prefixes: PrefixMap::default() }
    }
}

impl<A: Address> FamilyRoutes<A> {
    /// Sets or removes the kernel's route to `prefix`.
    pub(crate) fn set_kernel(&mut self, prefix: A::Net, next: Option<NextHopKind<IpAddr>>) {
        self.set(prefix, |of| of.kernel = next.map(NextHopKind::for_family));
    }

    /// Replaces the file's routes by those of `new`; the kernel's routes stay.
    pub(crate) fn reload(&mut self, new: Self) {
        let old = std::mem::replace(self, new);
        for (prefix, of) in &old.prefixes {
            if of.kernel.is_some() {
                self.set(prefix, |same| same.kernel = of.kernel);
            }
        }
    }

    fn set(&mut self, prefix: A::Net, change: impl FnOnce(&mut PrefixRoutes<A>)) {
        let none = PrefixRoutes { file: None, kernel: None };
        let mut of = self.prefixes.get(&prefix).copied().unwrap_or(none);
        change(&mut of);
        if of.file.or(of.kernel).is_some() {
            self.prefixes.insert(prefix, of);
        } else {
            self.prefixes.remove(&prefix);
        }
    }

    /// Returns the next hop of the longest matching prefix, if any.
    #[inline]
    pub(crate) fn find(&self, destination: A) -> Option<NextHopKind<A>> {
        let found = self.prefixes.get_lpm(&destination.host_net());
        found.and_then(|(_, of)| of.file.or(of.kernel))
    }
}

/// A routing table for IPv4 and IPv6.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(crate) v4: FamilyRoutes<Ipv4Addr>,
    pub(crate) v6: FamilyRoutes<Ipv6Addr>,
}

impl Routes {
    /// Adds a route with a known neighbour; replaces one of the same prefix.
    pub fn add(&mut self, prefix: IpNet, hop: NextHop) {
        self.set(prefix, NextHopKind::Resolved(hop));
    }

    /// Adds a route through `output`, the port with hardware address `from`. ARP or neighbour
    /// discovery resolves the neighbour: the gateway `via`, or the destination without a gateway. A
    /// gateway of the other address family makes the prefix unreachable.
    pub fn add_resolved(
        &mut self,
        prefix: IpNet,
        output: PortId,
        from: [u8; 6],
        via: Option<IpAddr>,
    ) {
        self.set(prefix, NextHopKind::Resolve(output, from, via));
    }

    fn set(&mut self, prefix: IpNet, next: NextHopKind<IpAddr>) {
        match prefix.trunc() {
            IpNet::V4(prefix) => self.v4.set(prefix, |of| of.file = Some(next.for_family())),
            IpNet::V6(prefix) => self.v6.set(prefix, |of| of.file = Some(next.for_family())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_routes_take_precedence_over_kernel_routes() {
        let hop = |output| NextHop { output: PortId(output), from: [1; 6], to: [2; 6] };
        let net: ipnet::Ipv4Net = "10.2.0.0/16".parse().unwrap();
        let there = Ipv4Addr::new(10, 2, 3, 4);
        let kernel = NextHopKind::Resolve(PortId(3), [3; 6], None);
        let next = Some(NextHopKind::Resolve(PortId(3), [3; 6], None));
        let mut routes = Routes::default();
        routes.add("0.0.0.0/0".parse().unwrap(), hop(0));
        routes.v4.set_kernel(net, next);
        assert_eq!(routes.v4.find(there), Some(kernel));
        let mut of_file = Routes::default();
        of_file.add(net.into(), hop(1));
        routes.v4.reload(of_file.v4);
        assert_eq!(routes.v4.find(there), Some(NextHopKind::Resolved(hop(1))));
        assert_eq!(routes.v4.find(Ipv4Addr::new(9, 9, 9, 9)), None, "the reload removed 0.0.0.0/0");
        routes.v4.reload(FamilyRoutes::default());
        assert_eq!(routes.v4.find(there), Some(kernel));
        routes.v4.set_kernel(net, Some(NextHopKind::Unreachable));
        assert_eq!(routes.v4.find(there), Some(NextHopKind::Unreachable));
        routes.v4.set_kernel(net, None);
        assert_eq!(routes.v4.find(there), None);
    }
    #[test]
    fn address_families_are_separate() {
        let mut routes = Routes::default();
        let (four, six) =
            (Ipv4Addr::new(10, 2, 3, 4), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        routes.add_resolved("::/0".parse().unwrap(), PortId(2), [1; 6], None);
        assert_eq!(routes.v4.find(four), None);
        assert_eq!(routes.v6.find(six), Some(NextHopKind::Resolve(PortId(2), [1; 6], None)));
        routes.add_resolved("2001:db8::/32".parse().unwrap(), PortId(2), [1; 6], Some(four.into()));
        assert_eq!(
            routes.v6.find(six),
            Some(NextHopKind::Unreachable),
            "a gateway of the other family"
        );
    }
}
