//! The IP forwarding function (fast path).

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ids::PortId;
use crate::net::address::{Address, SLOTS};
use crate::net::fib::{FamilyRoutes, NextHop, NextHopKind, Routes};
use crate::net::header::{destination, destination_v6, hop, hop_v6};
use crate::net::ipv4_control::IcmpError;
use crate::net::neighbours::{NeighbourKey, NeighbourState, NeighbourUpdate, Neighbours};

/// Lifetime of a cached next hop that a neighbour resolved, ns.
const CACHE_NS: u64 = 1_000_000_000;

/// The IP fast path: looks up the destination, decrements the TTL or hop limit, updates the IPv4
/// checksum and rewrites the hardware addresses.
///
/// IPv4 options and IPv6 extension headers are forwarded unread.
#[derive(Clone, Debug, Default)]
pub struct Forwarder {
    v4: Fib<Ipv4Addr>,
    v6: Fib<Ipv6Addr>,
}

/// Forwarding state of one address family.
#[derive(Clone, Debug)]
struct Fib<A: Address> {
    routes: FamilyRoutes<A>,
    neighbours: Neighbours<A>,
    /// Direct-mapped cache of next hops: few destinations carry most of the traffic.
    cache: Vec<Option<CachedNextHop<A>>>,
}

/// A cached next hop and its expiry, ns.
#[derive(Clone, Copy, Debug)]
struct CachedNextHop<A> {
    destination: A,
    until_ns: u64,
    hop: NextHop,
}

impl<A: Address> Default for Fib<A> {
    fn default() -> Self {
        let (routes, neighbours) = (FamilyRoutes::default(), Neighbours::default());
        Self { routes, neighbours, cache: vec![None; SLOTS] }
    }
}

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// The packet is malformed, its checksum is wrong, or its addresses are not forwardable.
    Malformed,
    /// The sender may receive this ICMP error.
    Icmp(IcmpError),
    /// The neighbour is being resolved.
    Unresolved(NeighbourKey),
    /// The neighbour table is full, so the neighbour cannot be resolved.
    NeighbourTableFull,
}

impl<A: Address> Fib<A> {
    /// Returns the next hop to `destination`. Sets `solicit` to a neighbour to solicit now.
    #[inline]
    fn next(
        &mut self,
        destination: A,
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<NextHop, ForwardError> {
        match &self.cache[destination.slot()] {
            Some(cache) if cache.destination == destination && now_ns < cache.until_ns => {
                Ok(cache.hop)
            }
            _ => self.look_up(destination, now_ns, solicit),
        }
    }

    fn look_up(
        &mut self,
        destination: A,
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<NextHop, ForwardError> {
        let (hop, until_ns) = match self.routes.find(destination) {
            Some(NextHopKind::Resolved(hop)) => (hop, u64::MAX),
            Some(NextHopKind::Resolve(output, from, via)) => {
                let address = via.unwrap_or(destination);
                let (found, missing) = self.neighbours.find(output, address, now_ns);
                let neighbour = (output, address.into());
                *solicit = missing.then_some(neighbour);
                match found {
                    NeighbourState::Reachable(to) => {
                        (NextHop { output, from, to }, now_ns + CACHE_NS)
                    }
                    NeighbourState::Incomplete => return Err(ForwardError::Unresolved(neighbour)),
                    NeighbourState::TableFull => return Err(ForwardError::NeighbourTableFull),
                    NeighbourState::Failed => {
                        return Err(ForwardError::Icmp(IcmpError::HostUnreachable));
                    }
                }
            }
            Some(NextHopKind::Unreachable) | None => {
                return Err(ForwardError::Icmp(IcmpError::NetUnreachable));
            }
        };
        self.cache[destination.slot()] = Some(CachedNextHop { destination, until_ns, hop });
        Ok(hop)
    }

    /// Empties the cache; call after routes or neighbours change.
    fn flush_cache(&mut self) {
        self.cache.fill(None);
    }

    fn learn(&mut self, port: PortId, net: A::Net, update: NeighbourUpdate<A>, now_ns: u64) {
        self.flush_cache();
        self.neighbours.learn(port, net, update, now_ns);
    }

    fn replace_routes(&mut self, routes: FamilyRoutes<A>) {
        self.routes.reload(routes);
        self.flush_cache();
    }

    fn set_kernel_route(&mut self, prefix: A::Net, next: Option<NextHopKind<IpAddr>>) {
        self.routes.set_kernel(prefix, next);
        self.flush_cache();
    }

    fn set_kernel_neighbour(&mut self, port: PortId, address: A, mac: Option<[u8; 6]>) {
        self.neighbours.set_kernel(port, address, mac);
        self.flush_cache();
    }
}

impl Forwarder {
    /// Creates a forwarder with the given routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        let mut forwarder = Self::default();
        (forwarder.v4.routes, forwarder.v6.routes) = (routes.v4, routes.v6);
        forwarder
    }

    /// Rewrites `frame` for its next hop; returns the output, or `None` if the packet is dropped.
    #[inline]
    pub fn forward(&mut self, frame: &mut [u8]) -> Option<PortId> {
        self.forward_at(frame, 0, &mut None).ok()
    }

    /// Forwards a frame at `now_ns` as [`forward`](Self::forward) does; returns the reason for a
    /// drop. Sets `solicit` to a neighbour to solicit now.
    #[inline]
    pub(crate) fn forward_at(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<PortId, ForwardError> {
        let Some((destination, hops_left)) = destination(frame) else {
            return self.forward_v6(frame, now_ns, solicit);
        };
        if !hops_left {
            return Err(ForwardError::Icmp(IcmpError::TimeExceeded));
        }
        let next = self.v4.next(destination, now_ns, solicit)?;
        hop(frame, next.from, next.to);
        Ok(next.output)
    }

    /// Forwards a frame that is not IPv4.
    fn forward_v6(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<PortId, ForwardError> {
        let (destination, hops_left) = destination_v6(frame).ok_or(ForwardError::Malformed)?;
        if !hops_left {
            return Err(ForwardError::Icmp(IcmpError::TimeExceeded));
        }
        let next = self.v6.next(destination, now_ns, solicit)?;
        hop_v6(frame, next.from, next.to);
        Ok(next.output)
    }

    /// Returns the output towards `address`; fast for recent destinations.
    #[inline]
    pub(crate) fn egress_v4(&self, address: Ipv4Addr) -> Option<PortId> {
        match &self.v4.cache[address.slot()] {
            Some(cache) if cache.destination == address => Some(cache.hop.output),
            _ => match self.v4.routes.find(address)? {
                NextHopKind::Resolved(hop) => Some(hop.output),
                NextHopKind::Resolve(output, ..) => Some(output),
                NextHopKind::Unreachable => None,
            },
        }
    }

    /// Returns the output towards `destination`.
    pub(crate) fn egress(&mut self, destination: IpAddr) -> Option<PortId> {
        fn egress<A: Address>(fib: &mut Fib<A>, destination: A) -> Option<PortId> {
            match fib.routes.find(destination)? {
                NextHopKind::Resolved(hop) => Some(hop.output),
                NextHopKind::Resolve(output, ..) => Some(output),
                NextHopKind::Unreachable => None,
            }
        }
        match destination {
            IpAddr::V4(destination) => egress(&mut self.v4, destination),
            IpAddr::V6(destination) => egress(&mut self.v6, destination),
        }
    }

    /// Returns the next hop to `destination`. Sets `solicit` to a neighbour to solicit now.
    pub(crate) fn next(
        &mut self,
        destination: IpAddr,
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<NextHop, ForwardError> {
        match destination {
            IpAddr::V4(destination) => self.v4.next(destination, now_ns, solicit),
            IpAddr::V6(destination) => self.v6.next(destination, now_ns, solicit),
        }
    }

    /// Returns the state of a neighbour, and whether to solicit it now.
    pub(crate) fn find(
        &mut self,
        (port, address): NeighbourKey,
        now_ns: u64,
    ) -> (NeighbourState, bool) {
        match address {
            IpAddr::V4(address) => self.v4.neighbours.find(port, address, now_ns),
            IpAddr::V6(address) => self.v6.neighbours.find(port, address, now_ns),
        }
    }

    /// See [`Neighbours::learn`].
    pub(crate) fn learn(
        &mut self,
        port: PortId,
        net: Ipv4Net,
        update: NeighbourUpdate<Ipv4Addr>,
        now_ns: u64,
    ) {
        self.v4.learn(port, net, update, now_ns);
    }

    /// See [`Neighbours::learn`]; for IPv6.
    pub(crate) fn learn_v6(
        &mut self,
        port: PortId,
        net: Ipv6Net,
        update: NeighbourUpdate<Ipv6Addr>,
        now_ns: u64,
    ) {
        self.v6.learn(port, net, update, now_ns);
    }

    /// Replaces the file's routes by those of `new`; neighbours and the kernel's routes stay.
    pub(crate) fn replace_routes(&mut self, new: Self) {
        self.v4.replace_routes(new.v4.routes);
        self.v6.replace_routes(new.v6.routes);
    }

    /// Sets or removes the kernel's route to `prefix`.
    pub(crate) fn set_kernel_route(&mut self, prefix: IpNet, next: Option<NextHopKind<IpAddr>>) {
        match prefix {
            IpNet::V4(prefix) => self.v4.set_kernel_route(prefix, next),
            IpNet::V6(prefix) => self.v6.set_kernel_route(prefix, next),
        }
    }

    /// Sets or removes the kernel's entry for the neighbour `address` at `port`.
    pub(crate) fn set_kernel_neighbour(
        &mut self,
        port: PortId,
        address: IpAddr,
        mac: Option<[u8; 6]>,
    ) {
        match address {
            IpAddr::V4(address) => self.v4.set_kernel_neighbour(port, address, mac),
            IpAddr::V6(address) => self.v6.set_kernel_neighbour(port, address, mac),
        }
    }
}
