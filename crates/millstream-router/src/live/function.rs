//! The forwarding function: the IP fast path.

use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

use crate::live::header::{destination, hop};
use crate::live::host::Error;
use crate::live::neighbours::{Found, Neighbours};
use crate::live::routes::{Hop, Next, Routes};

/// A neighbour that was found is used for so long before it is looked up again, ns.
const RECENT_NS: u64 = 1_000_000_000;

/// The IP fast path: looks the destination up, takes a hop from the packet's time to live, updates
/// its checksum and rewrites its hardware addresses.
///
/// Header options are carried along and not looked at.
#[derive(Clone, Debug, Default)]
pub struct Forwarder {
    routes: Routes,
    neighbours: Neighbours,
    /// The neighbour found last, for which destination, and until when, ns.
    recent: Option<(Ipv4Addr, Hop, u64)>,
}

/// A packet that is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    /// It is not a packet, or its checksum is wrong.
    Broken,
    /// Its sender may be told.
    Because(Error),
    /// Its neighbour is not known yet, but asked for.
    Unresolved(Ask),
    /// Its neighbour cannot be asked for: too many are.
    Crowded,
}

/// A neighbour to be asked for.
pub(super) type Ask = (usize, Ipv4Addr);

impl Forwarder {
    /// The fast path by these routes.
    #[must_use]
    pub fn new(routes: Routes) -> Self {
        Self { routes, ..Self::default() }
    }

    /// Readies `frame` for its next hop; returns the output, or `None` if it is to be dropped.
    #[inline]
    pub fn forward(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.forward_at(frame, 0, &mut None).ok()
    }

    /// The same at `now_ns`, saying why it is dropped, and which neighbour is to be asked for.
    #[inline]
    pub(super) fn forward_at(
        &mut self,
        frame: &mut [u8],
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<usize, Undelivered> {
        let (destination, hops_left) = destination(frame).ok_or(Undelivered::Broken)?;
        if !hops_left {
            return Err(Undelivered::Because(Error::TimeExceeded));
        }
        let next = self.next(destination, now_ns, ask)?;
        hop(frame, next.from, next.to);
        Ok(next.output)
    }

    /// How to get to `destination`.
    #[inline]
    pub(super) fn next(
        &mut self,
        destination: Ipv4Addr,
        now_ns: u64,
        ask: &mut Option<Ask>,
    ) -> Result<Hop, Undelivered> {
        match self.routes.find(destination) {
            Some(Next::Hop(next)) => Ok(next),
            Some(Next::Resolve(output, from, via)) => match self.recent {
                Some((to, hop, until_ns)) if to == destination && now_ns < until_ns => Ok(hop),
                _ => {
                    let address = via.unwrap_or(destination);
                    let (found, missing) = self.neighbours.find(output, address, now_ns);
                    *ask = missing.then_some((output, address));
                    match found {
                        Found::Known(to) => {
                            let hop = Hop { output, from, to };
                            self.recent = Some((destination, hop, now_ns + RECENT_NS));
                            Ok(hop)
                        }
                        Found::Unknown => Err(Undelivered::Unresolved((output, address))),
                        Found::Crowded => Err(Undelivered::Crowded),
                        Found::Nobody => Err(Undelivered::Because(Error::HostUnreachable)),
                    }
                }
            },
            Some(Next::Nowhere) | None => Err(Undelivered::Because(Error::NetUnreachable)),
        }
    }

    /// What is known of a neighbour, and whether it is to be asked for now.
    pub(super) fn find(&mut self, (port, address): Ask, now_ns: u64) -> (Found, bool) {
        self.neighbours.find(port, address, now_ns)
    }

    /// See [`Neighbours::heard`].
    pub(super) fn heard(
        &mut self,
        port: usize,
        net: Ipv4Net,
        (address, mac): (Ipv4Addr, [u8; 6]),
        asked_us: bool,
        now_ns: u64,
    ) {
        self.recent = None;
        self.neighbours.heard(port, net, address, mac, asked_us, now_ns);
    }

    /// By the routes of `new`; neighbours stay known, and the kernel's routes.
    pub(super) fn reroute(&mut self, new: Self) {
        self.routes.reload(new.routes);
        self.recent = None;
    }

    /// The kernel has this route now, or none of this prefix.
    pub(super) fn set_kernel_route(&mut self, prefix: Ipv4Net, next: Option<Next>) {
        self.routes.set_kernel(prefix, next);
        self.recent = None;
    }

    /// The kernel knows this of the neighbour `address` at `port` now.
    pub(super) fn set_kernel_neighbour(
        &mut self,
        port: usize,
        address: Ipv4Addr,
        mac: Option<[u8; 6]>,
    ) {
        self.neighbours.set_kernel(port, address, mac);
        self.recent = None;
    }
}
