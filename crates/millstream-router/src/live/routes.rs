//! Routes: the longest prefix that holds the destination, and the neighbour behind it. Those of the
//! router's file count before the kernel's of the same prefix.

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
    /// Not by a port of the router.
    Nowhere,
}

/// The routes of one prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Same {
    file: Option<Next>,
    kernel: Option<Next>,
}

/// A routing table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    table: PrefixMap<Ipv4Net, Same>,
    /// The answer of the last look-up: packets of a flow come in trains.
    last: Option<(Ipv4Addr, Option<Next>)>,
}

impl Routes {
    /// Adds a route; one of the same prefix is replaced.
    pub fn add(&mut self, prefix: Ipv4Net, hop: Hop) {
        self.set(prefix, |of| of.file = Some(Next::Hop(hop)));
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
        self.set(prefix, |of| of.file = Some(Next::Resolve(output, from, via)));
    }

    /// The kernel has this route now, or none of this prefix.
    pub(super) fn set_kernel(&mut self, prefix: Ipv4Net, next: Option<Next>) {
        self.set(prefix, |of| of.kernel = next);
    }

    /// The file's routes are those of `new`; the kernel's stay.
    pub(super) fn reload(&mut self, new: Self) {
        let old = std::mem::replace(self, new);
        for (prefix, of) in &old.table {
            if let Some(kernel) = of.kernel {
                self.set_kernel(prefix, Some(kernel));
            }
        }
    }

    fn set(&mut self, prefix: Ipv4Net, change: impl FnOnce(&mut Same)) {
        let prefix = prefix.trunc();
        let mut of = self.table.get(&prefix).copied().unwrap_or_default();
        change(&mut of);
        if of.file.or(of.kernel).is_some() {
            self.table.insert(prefix, of);
        } else {
            self.table.remove(&prefix);
        }
        self.last = None;
    }

    /// Where packets for `destination` go; `None` if no route leads there.
    #[inline]
    pub(super) fn find(&mut self, destination: Ipv4Addr) -> Option<Next> {
        match self.last {
            Some((known, next)) if known == destination => next,
            _ => {
                let found = self.table.get_lpm(&Ipv4Net::from(destination));
                let found = found.and_then(|(_, of)| of.file.or(of.kernel));
                self.last = Some((destination, found));
                found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_of_the_file_hides_the_kernel_s_and_outlives_nothing_but_itself() {
        let hop = |output| Hop { output, from: [1; 6], to: [2; 6] };
        let net: Ipv4Net = "10.2.0.0/16".parse().unwrap();
        let there = Ipv4Addr::new(10, 2, 3, 4);
        let kernel = Next::Resolve(3, [3; 6], None);
        let mut routes = Routes::default();
        routes.add("0.0.0.0/0".parse().unwrap(), hop(0));
        routes.set_kernel(net, Some(kernel));
        assert_eq!(routes.find(there), Some(kernel));
        let mut of_file = Routes::default();
        of_file.add(net, hop(1));
        routes.reload(of_file);
        assert_eq!(routes.find(there), Some(Next::Hop(hop(1))));
        assert_eq!(routes.find(Ipv4Addr::new(9, 9, 9, 9)), None, "the file has it no more");
        routes.reload(Routes::default());
        assert_eq!(routes.find(there), Some(kernel));
        routes.set_kernel(net, Some(Next::Nowhere));
        assert_eq!(routes.find(there), Some(Next::Nowhere));
        routes.set_kernel(net, None);
        assert_eq!(routes.find(there), None);
    }
}
