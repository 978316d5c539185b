//! Routes: the longest prefix that holds the destination, and the neighbour behind it.

use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;
use std::net::Ipv4Addr;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The output, by number.
    pub output: usize,
    /// The hardware address of the port.
    pub from: [u8; 6],
    /// That of the neighbour.
    pub to: [u8; 6],
}

/// What a route says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// All of it.
    Hop(Hop),
    /// The output and its own hardware address; whose neighbour's address is to be found out: this
    /// gateway's, or the destination's.
    Resolve(usize, [u8; 6], Option<Ipv4Addr>),
}

/// A routing table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    table: PrefixMap<Ipv4Net, Next>,
    /// The answer of the last look-up: packets of a flow come in trains.
    last: Option<(Ipv4Addr, Option<Next>)>,
}

impl Routes {
    /// Adds a route; one of the same prefix is replaced.
    pub fn add(&mut self, prefix: Ipv4Net, hop: Hop) {
        self.table.insert(prefix.trunc(), Next::Hop(hop));
        self.last = None;
    }

    /// Adds a route by `output`, whose hardware address is `from`, to the gateway `via`, or to
    /// destinations on the network there; who that is ARP finds out.
    pub fn add_resolved(
        &mut self,
        prefix: Ipv4Net,
        output: usize,
        from: [u8; 6],
        via: Option<Ipv4Addr>,
    ) {
        self.table.insert(prefix.trunc(), Next::Resolve(output, from, via));
        self.last = None;
    }

    /// Where packets for `destination` go; `None` if no route leads there.
    #[inline]
    pub(super) fn find(&mut self, destination: Ipv4Addr) -> Option<Next> {
        match self.last {
            Some((known, next)) if known == destination => next,
            _ => {
                let found = self.table.get_lpm(&Ipv4Net::from(destination)).map(|found| *found.1);
                self.last = Some((destination, found));
                found
            }
        }
    }
}
