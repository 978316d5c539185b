//! Who has which IPv4 address on a port's network: what ARP found out.
//!
//! What the kernel says of a neighbour counts before that. What ARP found is bounded by [`MOST`]. Nobody is believed who was not asked for, asked us, or was known before, and
//! nobody beyond the port's own network. Source: RFC 826; RFC 1122 section 2.3.2.1 (entries time out,
//! requests are limited).

use ipnet::Ipv4Net;
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The most entries.
const MOST: usize = 4_096;
/// An entry of this age is asked for again while it is used, ns.
const FRESH_NS: u64 = 60_000_000_000;
/// An entry of this age is not used any more, ns.
const KEPT_NS: u64 = 120_000_000_000;
/// Between two requests for one address, ns.
pub(super) const ASK_NS: u64 = 1_000_000_000;
/// After so many requests without an answer the address counts as unreachable.
const ASKS: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    mac: Option<[u8; 6]>,
    heard_ns: u64,
    asked_ns: u64,
    asks: u32,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This hardware address; it may be used so for a second.
    Known([u8; 6]),
    /// Nothing yet.
    Unknown,
    /// Nobody answers.
    Nobody,
    /// Too many addresses are asked for to ask for this one.
    Crowded,
}

/// Every port's neighbours.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    known: HashMap<(usize, Ipv4Addr), Neighbour>,
    /// What the kernel knows; it watches over its own table.
    kernel: HashMap<(usize, Ipv4Addr), [u8; 6]>,
}

impl Neighbours {
    /// Who has `address` on `port`'s network, and whether that is to be asked now.
    pub(super) fn find(&mut self, port: usize, address: Ipv4Addr, now_ns: u64) -> (Found, bool) {
        if let Some(mac) = self.kernel.get(&(port, address)) {
            return (Found::Known(*mac), false);
        }
        if !self.known.contains_key(&(port, address)) && self.known.len() >= MOST {
            self.known.retain(|_, of| now_ns.saturating_sub(of.heard_ns.max(of.asked_ns)) < ASK_NS);
            if self.known.len() >= MOST {
                return (Found::Crowded, false);
            }
        }
        let first = Neighbour { mac: None, heard_ns: 0, asked_ns: 0, asks: 0 };
        let of = self.known.entry((port, address)).or_insert(first);
        let age_ns = now_ns.saturating_sub(of.heard_ns);
        if age_ns >= KEPT_NS {
            of.mac = None;
        }
        let old = of.mac.is_none() || age_ns >= FRESH_NS;
        let ask = old && (of.asks == 0 || now_ns.saturating_sub(of.asked_ns) >= ASK_NS);
        let found = match of.mac {
            Some(mac) => Found::Known(mac),
            None if of.asks >= ASKS => Found::Nobody,
            None => Found::Unknown,
        };
        if ask {
            of.asked_ns = now_ns;
            of.asks = of.asks.saturating_add(1);
        }
        (found, ask)
    }

    /// The kernel knows this of `address` now.
    pub(super) fn set_kernel(&mut self, port: usize, address: Ipv4Addr, mac: Option<[u8; 6]>) {
        match mac {
            Some(mac) => self.kernel.insert((port, address), mac),
            None => self.kernel.remove(&(port, address)),
        };
    }

    /// `address` is at `mac`, it says. Believed if it lies in `net` and is known or `asked_us`.
    pub(super) fn heard(
        &mut self,
        port: usize,
        net: Ipv4Net,
        address: Ipv4Addr,
        mac: [u8; 6],
        asked_us: bool,
        now_ns: u64,
    ) {
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        if !net.contains(&address) || address == net.addr() || !unicast {
            return;
        }
        let fits = self.known.len() < MOST;
        let heard = Neighbour { mac: Some(mac), heard_ns: now_ns, asked_ns: now_ns, asks: 0 };
        if let Some(of) = self.known.get_mut(&(port, address)) {
            *of = heard;
        } else if asked_us && fits {
            self.known.insert((port, address), heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn net() -> Ipv4Net {
        "10.0.0.1/24".parse().unwrap()
    }

    #[test]
    fn an_address_is_asked_for_once_a_second_and_then_given_up() {
        let mut neighbours = Neighbours::default();
        let address = Ipv4Addr::new(10, 0, 0, 2);
        let mut find = |now_ns| neighbours.find(0, address, now_ns);
        assert_eq!(find(5), (Found::Unknown, true));
        assert_eq!(find(6), (Found::Unknown, false));
        assert_eq!(find(5 + ASK_NS), (Found::Unknown, true));
        assert_eq!(find(5 + 2 * ASK_NS), (Found::Unknown, true));
        assert_eq!(find(5 + 3 * ASK_NS), (Found::Nobody, true));
        neighbours.heard(0, net(), address, MAC, false, 4 * ASK_NS);
        assert_eq!(neighbours.find(0, address, 5 * ASK_NS), (Found::Known(MAC), false));
        assert_eq!(neighbours.find(0, address, 4 * ASK_NS + FRESH_NS), (Found::Known(MAC), true));
        assert_eq!(neighbours.find(0, address, 4 * ASK_NS + KEPT_NS).0, Found::Unknown);
        assert_eq!(neighbours.find(1, address, 0).0, Found::Unknown, "another port's network");
    }

    #[test]
    fn strangers_are_not_believed() {
        let mut neighbours = Neighbours::default();
        for (address, mac, asked_us) in [
            ([10, 0, 0, 2], MAC, false),     // never asked for
            ([10, 0, 1, 2], MAC, true),      // of another network
            ([10, 0, 0, 1], MAC, true),      // our own address
            ([10, 0, 0, 2], [255; 6], true), // everybody
        ] {
            neighbours.heard(0, net(), address.into(), mac, asked_us, 1);
            assert!(neighbours.known.is_empty(), "{address:?}");
        }
    }

    #[test]
    fn a_scan_of_the_network_does_not_grow_the_table_without_end() {
        let mut neighbours = Neighbours::default();
        for k in 0..100_000u32 {
            neighbours.find(0, Ipv4Addr::from_bits(0x0a00_0000 + k), 1);
        }
        assert_eq!(neighbours.known.len(), MOST);
    }
}
