//! The forwarding function: the IP fast path.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::address::{Address, SLOTS};
use crate::net::fib::{FamilyRoutes, NextHop, NextHopKind, Routes};
use crate::net::header::{destination, destination_v6, hop, hop_v6};
use crate::net::ipv4_control::IcmpError;
use crate::net::neighbours::{NeighbourKey, NeighbourState, NeighbourUpdate, Neighbours};

/// A neighbour that was found is used for so long before it is looked up again, ns.
const CACHE_NS: u64 = 1_000_000_000;

/// The IP fast path: looks the destination up, takes a hop from the packet's time to live, updates
/// its checksum (IPv6 has none) and rewrites its hardware addresses.
///
/// Header options and extension headers are carried along and not looked at.
#[derive(Clone, Debug, Default)]
pub struct Forwarder {
    v4: Fib<Ipv4Addr>,
    v6: Fib<Ipv6Addr>,
}

/// How to get to destinations of one family.
#[derive(Clone, Debug)]
struct Fib<A: Address> {
    routes: FamilyRoutes<A>,
    neighbours: Neighbours<A>,
    /// Hops found of late, by a number made of the destination: packets of few destinations make most of the traffic.
    cache: Vec<Option<CachedNextHop<A>>>,
}

/// The hop to a destination, and until when it is not looked up again, ns.
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

/// A packet that is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// It is not a packet, its checksum is wrong, or its addresses are none that are forwarded.
    Malformed,
    /// Its sender may be told.
    Icmp(IcmpError),
    /// Its neighbour is not known yet, but asked for.
    Unresolved(NeighbourKey),
    /// Its neighbour cannot be asked for: too many are.
    NeighbourTableFull,
}

impl<A: Address> Fib<A> {
    /// How to get to `destination`.
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

    /// Routes or neighbours are others now.
    fn flush_cache(&mut self) {
        self.cache.fill(None);
    }

    fn learn(&mut self, port: usize, net: A::Net, update: NeighbourUpdate<A>, now_ns: u64) {
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

    fn set_kernel_neighbour(&mut self, port: usize, address: A, mac: Option<[u8; 6]>) {
        self.neighbours.set_kernel(port, address, mac);
        self.flush_cache();
    }
}

impl Forwarder {
    /// The fast path by these routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        let mut forwarder = Self::default();
        (forwarder.v4.routes, forwarder.v6.routes) = (routes.v4, routes.v6);
        forwarder
    }

    /// Readies `frame` for its next hop; returns the output, or `None` if it is to be dropped.
    #[inline]
    pub fn forward(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.forward_at(frame, 0, &mut None).ok()
    }

    /// The same at `now_ns`, saying why it is dropped, and which neighbour is to be asked for.
    #[inline]
    pub(crate) fn forward_at(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<usize, ForwardError> {
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

    /// The same for what is not IPv4.
    fn forward_v6(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        solicit: &mut Option<NeighbourKey>,
    ) -> Result<usize, ForwardError> {
        let (destination, hops_left) = destination_v6(frame).ok_or(ForwardError::Malformed)?;
        if !hops_left {
            return Err(ForwardError::Icmp(IcmpError::TimeExceeded));
        }
        let next = self.v6.next(destination, now_ns, solicit)?;
        hop_v6(frame, next.from, next.to);
        Ok(next.output)
    }

    /// The output that leads to `address`; quick for addresses that packets went to of late.
    #[inline]
    pub(crate) fn egress_v4(&self, address: Ipv4Addr) -> Option<usize> {
        match &self.v4.cache[address.slot()] {
            Some(cache) if cache.destination == address => Some(cache.hop.output),
            _ => match self.v4.routes.find(address)? {
                NextHopKind::Resolved(hop) => Some(hop.output),
                NextHopKind::Resolve(output, ..) => Some(output),
                NextHopKind::Unreachable => None,
            },
        }
    }

    /// The output that leads to `destination`.
    pub(crate) fn egress(&mut self, destination: IpAddr) -> Option<usize> {
        fn egress<A: Address>(fib: &mut Fib<A>, destination: A) -> Option<usize> {
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

    /// How to get to `destination`.
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

    /// What is known of a neighbour, and whether it is to be asked for now.
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

    /// See [`Neighbours::heard`].
    pub(crate) fn learn(
        &mut self,
        port: usize,
        net: Ipv4Net,
        update: NeighbourUpdate<Ipv4Addr>,
        now_ns: u64,
    ) {
        self.v4.learn(port, net, update, now_ns);
    }

    /// The same by neighbour discovery.
    pub(crate) fn learn_v6(
        &mut self,
        port: usize,
        net: Ipv6Net,
        update: NeighbourUpdate<Ipv6Addr>,
        now_ns: u64,
    ) {
        self.v6.learn(port, net, update, now_ns);
    }

    /// By the routes of `new`; neighbours stay known, and the kernel's routes.
    pub(crate) fn replace_routes(&mut self, new: Self) {
        self.v4.replace_routes(new.v4.routes);
        self.v6.replace_routes(new.v6.routes);
    }

    /// The kernel has this route now, or none of this prefix.
    pub(crate) fn set_kernel_route(&mut self, prefix: IpNet, next: Option<NextHopKind<IpAddr>>) {
        match prefix {
            IpNet::V4(prefix) => self.v4.set_kernel_route(prefix, next),
            IpNet::V6(prefix) => self.v6.set_kernel_route(prefix, next),
        }
    }

    /// The kernel knows this of the neighbour `address` at `port` now.
    pub(crate) fn set_kernel_neighbour(
        &mut self,
        port: usize,
        address: IpAddr,
        mac: Option<[u8; 6]>,
    ) {
        match address {
            IpAddr::V4(address) => self.v4.set_kernel_neighbour(port, address, mac),
            IpAddr::V6(address) => self.v6.set_kernel_neighbour(port, address, mac),
        }
    }
}
