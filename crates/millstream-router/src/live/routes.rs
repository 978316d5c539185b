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

/// A routing table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    table: PrefixMap<Ipv4Net, Hop>,
    /// The answer of the last look-up: packets of a flow come in trains.
    last: Option<(Ipv4Addr, Option<Hop>)>,
}

impl Routes {
    /// Adds a route; one of the same prefix is replaced.
    pub fn add(&mut self, prefix: Ipv4Net, hop: Hop) {
        self.table.insert(prefix.trunc(), hop);
        self.last = None;
    }

    /// Where packets for `destination` go; `None` if no route leads there.
    #[inline]
    pub fn find(&mut self, destination: Ipv4Addr) -> Option<Hop> {
        match self.last {
            Some((known, hop)) if known == destination => hop,
            _ => {
                let found = self.table.get_lpm(&Ipv4Net::from(destination)).map(|found| *found.1);
                self.last = Some((destination, found));
                found
            }
        }
    }
}
