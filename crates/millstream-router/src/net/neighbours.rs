//! Who has which address on a port's network: what ARP found out, or neighbour discovery.
//!
//! What the kernel says of a neighbour counts before that. What was found is bounded by [`MOST`] for each family.
//! Questions without an answer do not push out neighbours that answered (RFC 6583: whoever scans a network of IPv6 asks for
//! more addresses than any table holds). Nobody is believed who was not asked for, asked us, or was known before, and nobody beyond the port's own network.
//! Source: RFC 826; RFC 1122 section 2.3.2.1 (entries time out, requests are limited); RFC 4861 section 7.

use std::collections::HashMap;

use crate::net::address::Address;

/// The most entries.
const MOST: usize = 4_096;
/// An entry of this age is asked for again while it is used, ns.
const FRESH_NS: u64 = 60_000_000_000;
/// An entry of this age is not used any more, ns.
const KEPT_NS: u64 = 120_000_000_000;
/// Between two requests for one address, ns.
pub(crate) const ASK_NS: u64 = 1_000_000_000;
/// Between two looks for room in a full table, ns: a look takes as long as hundreds of packets.
const SWEEP_NS: u64 = 100_000_000;
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
pub(crate) enum Found {
    /// This hardware address; it may be used so for a second.
    Known([u8; 6]),
    /// Nothing yet.
    Unknown,
    /// Nobody answers.
    Nobody,
    /// Too many addresses are asked for to ask for this one.
    Crowded,
}

/// Every port's neighbours of one family.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours<A> {
    known: HashMap<(usize, A), Neighbour>,
    /// What the kernel knows; it watches over its own table.
    kernel: HashMap<(usize, A), [u8; 6]>,
    /// When room was made for the last time, ns.
    swept_ns: u64,
}

impl<A> Default for Neighbours<A> {
    fn default() -> Self {
        Self { known: HashMap::new(), kernel: HashMap::new(), swept_ns: 0 }
    }
}

/// What is said of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<A> {
    /// Its address
    pub(crate) address: A,
    /// and its hardware address.
    pub(crate) mac: [u8; 6],
    /// It asked us, so it will be spoken to.
    pub(crate) asked_us: bool,
    /// It counts where another hardware address is known (RFC 4861, the override flag).
    pub(crate) overrides: bool,
}

impl<A: Address> Neighbours<A> {
    /// Who has `address` on `port`'s network, and whether that is to be asked now.
    pub(crate) fn find(&mut self, port: usize, address: A, now_ns: u64) -> (Found, bool) {
        if let Some(mac) = self.kernel.get(&(port, address)) {
            return (Found::Known(*mac), false);
        }
        if !self.known.contains_key(&(port, address)) && self.known.len() >= MOST {
            if now_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
                self.sweep(now_ns);
            }
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

    /// Makes room: first those go that did not answer for a second; then, if hosts themselves are too many, those of
    /// which nothing was heard for as long.
    #[cold]
    fn sweep(&mut self, now_ns: u64) {
        self.swept_ns = now_ns;
        let age_ns = |then_ns: u64| now_ns.saturating_sub(then_ns);
        self.known.retain(|_, of| match of.mac {
            Some(_) => age_ns(of.heard_ns) < KEPT_NS,
            None => age_ns(of.asked_ns) < ASK_NS,
        });
        let hosts = self.known.values().filter(|of| of.mac.is_some()).count();
        if hosts > MOST / 2 {
            self.known.retain(|_, of| age_ns(of.heard_ns.max(of.asked_ns)) < ASK_NS);
        }
    }

    /// The kernel knows this of `address` now.
    pub(crate) fn set_kernel(&mut self, port: usize, address: A, mac: Option<[u8; 6]>) {
        match mac {
            Some(mac) => self.kernel.insert((port, address), mac),
            None => self.kernel.remove(&(port, address)),
        };
    }

    /// A neighbour speaks of itself. Believed if it lies in `net` and is known or asked us.
    pub(crate) fn heard(&mut self, port: usize, net: A::Net, word: Word<A>, now_ns: u64) {
        let Word { address, mac, .. } = word;
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        if !address.is_neighbour(net) || !unicast {
            return;
        }
        let fits = self.known.len() < MOST;
        let heard = Neighbour { mac: Some(mac), heard_ns: now_ns, asked_ns: now_ns, asks: 0 };
        if let Some(of) = self.known.get_mut(&(port, address)) {
            if word.overrides || of.mac.is_none_or(|known| known == mac) {
                *of = heard;
            }
        } else if word.asked_us && fits {
            self.known.insert((port, address), heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::Ipv4Net;
    use std::net::Ipv4Addr;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn net() -> Ipv4Net {
        "10.0.0.1/24".parse().unwrap()
    }

    fn word(address: Ipv4Addr, mac: [u8; 6], asked_us: bool) -> Word<Ipv4Addr> {
        Word { address, mac, asked_us, overrides: true }
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
        neighbours.heard(0, net(), word(address, MAC, false), 4 * ASK_NS);
        let other = Word { overrides: false, ..word(address, [4; 6], true) };
        neighbours.heard(0, net(), other, 4 * ASK_NS);
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
            neighbours.heard(0, net(), word(address.into(), mac, asked_us), 1);
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
        assert_eq!(neighbours.find(0, Ipv4Addr::new(10, 9, 9, 9), 2).0, Found::Crowded);
        let later = neighbours.find(0, Ipv4Addr::new(10, 9, 9, 9), 2 * ASK_NS);
        assert_eq!(later, (Found::Unknown, true));
        assert_eq!(neighbours.known.len(), 1, "nobody has answered");
    }

    #[test]
    fn a_scan_of_the_network_does_not_push_out_who_has_answered() {
        let mut neighbours = Neighbours::default();
        let host = Ipv4Addr::new(10, 0, 0, 9);
        neighbours.heard(0, net(), word(host, MAC, true), 1);
        for k in 0..100_000u64 {
            let address = Ipv4Addr::from_bits(0x0a01_0000 + u32::try_from(k).unwrap());
            neighbours.find(0, address, k * 100_000);
        }
        assert_eq!(neighbours.find(0, host, 10 * ASK_NS), (Found::Known(MAC), false));
        assert!(neighbours.known.len() <= MOST);
    }

    #[test]
    fn a_network_of_too_many_hosts_is_served_by_turns() {
        let mut neighbours = Neighbours::default();
        let wide = "10.0.0.1/8".parse().unwrap();
        let host = |k: u32| Ipv4Addr::from_bits(0x0a00_0100 + k);
        for k in 0..u32::try_from(MOST).unwrap() {
            neighbours.heard(0, wide, word(host(k), MAC, true), 1);
        }
        assert_eq!(neighbours.find(0, host(9_999), 5 * ASK_NS), (Found::Unknown, true));
    }
}
