//! The forwarding function: the IP fast path.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::address::{Address, SLOTS};
use crate::net::fib::{Hop, Next, Routes, Table};
use crate::net::header::{destination, destination_v6, hop, hop_v6};
use crate::net::ipv4_control::Error;
use crate::net::neighbours::{Found, Neighbours, Word};

/// A neighbour that was found is used for so long before it is looked up again, ns.
const RECENT_NS: u64 = 1_000_000_000;

/// The IP fast path: looks the destination up, takes a hop from the packet's time to live, updates
/// its checksum (IPv6 has none) and rewrites its hardware addresses.
///
/// Header options and extension headers are carried along and not looked at.
#[derive(Clone, Debug, Default)]
pub struct Forwarder {
    v4: Ways<Ipv4Addr>,
    v6: Ways<Ipv6Addr>,
}

/// How to get to destinations of one family.
#[derive(Clone, Debug)]
struct Ways<A: Address> {
    routes: Table<A>,
    neighbours: Neighbours<A>,
    /// Hops found of late, by a number made of the destination: packets of few destinations make most of the traffic.
    recent: Vec<Option<Recent<A>>>,
}

/// The hop to a destination, and until when it is not looked up again, ns.
#[derive(Clone, Copy, Debug)]
struct Recent<A> {
    destination: A,
    until_ns: u64,
    hop: Hop,
}

impl<A: Address> Default for Ways<A> {
    fn default() -> Self {
        let (routes, neighbours) = (Table::default(), Neighbours::default());
        Self { routes, neighbours, recent: vec![None; SLOTS] }
    }
}

/// A packet that is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// It is not a packet, its checksum is wrong, or its addresses are none that are forwarded.
    Broken,
    /// Its sender may be told.
    Because(Error),
    /// Its neighbour is not known yet, but asked for.
    Unresolved(Ask),
    /// Its neighbour cannot be asked for: too many are.
    Crowded,
}

/// A neighbour to be asked for.
pub(crate) type Ask = (usize, IpAddr);

impl<A: Address> Ways<A> {
    /// How to get to `destination`.
    #[inline]
    fn next(
        &mut self,
        destination: A,
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<Hop, Undelivered> {
        match &self.recent[destination.slot()] {
            Some(recent) if recent.destination == destination && now_ns < recent.until_ns => {
                Ok(recent.hop)
            }
            _ => self.look_up(destination, now_ns, ask),
        }
    }

    fn look_up(
        &mut self,
        destination: A,
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<Hop, Undelivered> {
        let (hop, until_ns) = match self.routes.find(destination) {
            Some(Next::Hop(hop)) => (hop, u64::MAX),
            Some(Next::Resolve(output, from, via)) => {
                let address = via.unwrap_or(destination);
                let (found, missing) = self.neighbours.find(output, address, now_ns);
                let neighbour = (output, address.into());
                *ask = missing.then_some(neighbour);
                match found {
                    Found::Known(to) => (Hop { output, from, to }, now_ns + RECENT_NS),
                    Found::Unknown => return Err(Undelivered::Unresolved(neighbour)),
                    Found::Crowded => return Err(Undelivered::Crowded),
                    Found::Nobody => return Err(Undelivered::Because(Error::HostUnreachable)),
                }
            }
            Some(Next::Nowhere) | None => return Err(Undelivered::Because(Error::NetUnreachable)),
        };
        self.recent[destination.slot()] = Some(Recent { destination, until_ns, hop });
        Ok(hop)
    }

    /// Routes or neighbours are others now.
    fn forget(&mut self) {
        self.recent.fill(None);
    }

    fn heard(&mut self, port: usize, net: A::Net, word: Word<A>, now_ns: u64) {
        self.forget();
        self.neighbours.heard(port, net, word, now_ns);
    }

    fn reroute(&mut self, routes: Table<A>) {
        self.routes.reload(routes);
        self.forget();
    }

    fn set_kernel_route(&mut self, prefix: A::Net, next: Option<Next<IpAddr>>) {
        self.routes.set_kernel(prefix, next);
        self.forget();
    }

    fn set_kernel_neighbour(&mut self, port: usize, address: A, mac: Option<[u8; 6]>) {
        self.neighbours.set_kernel(port, address, mac);
        self.forget();
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
        ask: &mut Option<Ask>,
    ) -> Result<usize, Undelivered> {
        let Some((destination, hops_left)) = destination(frame) else {
            return self.forward_v6(frame, now_ns, ask);
        };
        if !hops_left {
            return Err(Undelivered::Because(Error::TimeExceeded));
        }
        let next = self.v4.next(destination, now_ns, ask)?;
        hop(frame, next.from, next.to);
        Ok(next.output)
    }

    /// The same for what is not IPv4.
    fn forward_v6(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<usize, Undelivered> {
        let (destination, hops_left) = destination_v6(frame).ok_or(Undelivered::Broken)?;
        if !hops_left {
            return Err(Undelivered::Because(Error::TimeExceeded));
        }
        let next = self.v6.next(destination, now_ns, ask)?;
        hop_v6(frame, next.from, next.to);
        Ok(next.output)
    }

    /// The output that leads to `address`; quick for addresses that packets went to of late.
    #[inline]
    pub(crate) fn leads_by(&self, address: Ipv4Addr) -> Option<usize> {
        match &self.v4.recent[address.slot()] {
            Some(recent) if recent.destination == address => Some(recent.hop.output),
            _ => match self.v4.routes.find(address)? {
                Next::Hop(hop) => Some(hop.output),
                Next::Resolve(output, ..) => Some(output),
                Next::Nowhere => None,
            },
        }
    }

    /// The output that leads to `destination`.
    pub(crate) fn output(&mut self, destination: IpAddr) -> Option<usize> {
        fn output<A: Address>(ways: &mut Ways<A>, destination: A) -> Option<usize> {
            match ways.routes.find(destination)? {
                Next::Hop(hop) => Some(hop.output),
                Next::Resolve(output, ..) => Some(output),
                Next::Nowhere => None,
            }
        }
        match destination {
            IpAddr::V4(destination) => output(&mut self.v4, destination),
            IpAddr::V6(destination) => output(&mut self.v6, destination),
        }
    }

    /// How to get to `destination`.
    pub(crate) fn next(
        &mut self,
        destination: IpAddr,
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<Hop, Undelivered> {
        match destination {
            IpAddr::V4(destination) => self.v4.next(destination, now_ns, ask),
            IpAddr::V6(destination) => self.v6.next(destination, now_ns, ask),
        }
    }

    /// What is known of a neighbour, and whether it is to be asked for now.
    pub(crate) fn find(&mut self, (port, address): Ask, now_ns: u64) -> (Found, bool) {
        match address {
            IpAddr::V4(address) => self.v4.neighbours.find(port, address, now_ns),
            IpAddr::V6(address) => self.v6.neighbours.find(port, address, now_ns),
        }
    }

    /// See [`Neighbours::heard`].
    pub(crate) fn heard(&mut self, port: usize, net: Ipv4Net, word: Word<Ipv4Addr>, now_ns: u64) {
        self.v4.heard(port, net, word, now_ns);
    }

    /// The same by neighbour discovery.
    pub(crate) fn heard_v6(
        &mut self,
        port: usize,
        net: Ipv6Net,
        word: Word<Ipv6Addr>,
        now_ns: u64,
    ) {
        self.v6.heard(port, net, word, now_ns);
    }

    /// By the routes of `new`; neighbours stay known, and the kernel's routes.
    pub(crate) fn reroute(&mut self, new: Self) {
        self.v4.reroute(new.v4.routes);
        self.v6.reroute(new.v6.routes);
    }

    /// The kernel has this route now, or none of this prefix.
    pub(crate) fn set_kernel_route(&mut self, prefix: IpNet, next: Option<Next<IpAddr>>) {
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
