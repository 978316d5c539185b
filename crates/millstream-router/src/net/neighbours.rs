//! Neighbour table: hardware addresses that ARP and neighbour discovery resolved.
//!
//! Entries of the kernel's table take precedence. Learned entries are bounded by [`MAX_ENTRIES`]
//! per address family. Unanswered probes do not evict reachable neighbours: a scan of an IPv6
//! network probes more addresses than any table holds (RFC 6583). An update is accepted only from
//! the port's own network, and only if the address was probed, solicits the router, or is known.
//!
//! Source: RFC 826; RFC 1122 section 2.3.2.1 (timeouts, rate limit); RFC 4861 section 7.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::ids::PortId;
use crate::net::address::Address;

/// Entries per address family, at most.
const MAX_ENTRIES: usize = 4_096;
/// Age at which an entry in use is probed again, ns.
const REPROBE_NS: u64 = 60_000_000_000;
/// Age at which an entry expires, ns.
const EXPIRY_NS: u64 = 120_000_000_000;
/// Interval between probes for one address, ns.
pub(crate) const PROBE_NS: u64 = 1_000_000_000;
/// Interval between sweeps of a full table, ns: a sweep costs as much as hundreds of packets.
const SWEEP_NS: u64 = 100_000_000;
/// Unanswered probes after which an address counts as unreachable.
const MAX_PROBES: u32 = 3;

/// The port and the address of a neighbour.
pub(crate) type NeighbourKey = (PortId, IpAddr);

#[derive(Clone, Copy, Debug)]
struct Entry {
    mac: Option<[u8; 6]>,
    confirmed_ns: u64,
    solicited_ns: u64,
    probes: u32,
}

/// State of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourState {
    /// Resolved to this hardware address; the result may be cached for a second.
    Reachable([u8; 6]),
    /// Being resolved.
    Incomplete,
    /// The neighbour did not answer [`MAX_PROBES`] probes.
    Failed,
    /// Not probed: the table is full.
    TableFull,
}

/// The neighbour table of one address family, for all ports.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours<A> {
    known: HashMap<(PortId, A), Entry>,
    /// Entries of the kernel, which maintains them.
    kernel: HashMap<(PortId, A), [u8; 6]>,
    /// Time of the last sweep, ns.
    last_sweep_ns: u64,
}

impl<A> Default for Neighbours<A> {
    fn default() -> Self {
        Self { known: HashMap::new(), kernel: HashMap::new(), last_sweep_ns: 0 }
    }
}

/// A neighbour's announcement of its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourUpdate<A> {
    /// IP address.
    pub(crate) address: A,
    /// Hardware address.
    pub(crate) mac: [u8; 6],
    /// Whether the neighbour solicits the router, and so expects a reply.
    pub(crate) solicits_us: bool,
    /// Whether it replaces a different known hardware address (the override flag of RFC 4861).
    pub(crate) overrides: bool,
}

impl<A: Address> Neighbours<A> {
    /// Returns the state of `address` on `port`'s network, and whether to probe it now.
    pub(crate) fn find(&mut self, port: PortId, address: A, now_ns: u64) -> (NeighbourState, bool) {
        if let Some(mac) = self.kernel.get(&(port, address)) {
            return (NeighbourState::Reachable(*mac), false);
        }
        if !self.known.contains_key(&(port, address)) && self.known.len() >= MAX_ENTRIES {
            if now_ns.saturating_sub(self.last_sweep_ns) >= SWEEP_NS {
                self.sweep(now_ns);
            }
            if self.known.len() >= MAX_ENTRIES {
                return (NeighbourState::TableFull, false);
            }
        }
        let first = Entry { mac: None, confirmed_ns: 0, solicited_ns: 0, probes: 0 };
        let entry = self.known.entry((port, address)).or_insert(first);
        let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
        if age_ns >= EXPIRY_NS {
            entry.mac = None;
        }
        let old = entry.mac.is_none() || age_ns >= REPROBE_NS;
        let solicit =
            old && (entry.probes == 0 || now_ns.saturating_sub(entry.solicited_ns) >= PROBE_NS);
        let found = match entry.mac {
            Some(mac) => NeighbourState::Reachable(mac),
            None if entry.probes >= MAX_PROBES => NeighbourState::Failed,
            None => NeighbourState::Incomplete,
        };
        if solicit {
            entry.solicited_ns = now_ns;
            entry.probes = entry.probes.saturating_add(1);
        }
        (found, solicit)
    }

    /// Evicts entries without an answer for a second. If reachable neighbours still fill half of
    /// the table, evicts those that were idle for a second.
    #[cold]
    fn sweep(&mut self, now_ns: u64) {
        self.last_sweep_ns = now_ns;
        let age_ns = |then_ns: u64| now_ns.saturating_sub(then_ns);
        self.known.retain(|_, entry| match entry.mac {
            Some(_) => age_ns(entry.confirmed_ns) < EXPIRY_NS,
            None => age_ns(entry.solicited_ns) < PROBE_NS,
        });
        let hosts = self.known.values().filter(|entry| entry.mac.is_some()).count();
        if hosts > MAX_ENTRIES / 2 {
            self.known
                .retain(|_, entry| age_ns(entry.confirmed_ns.max(entry.solicited_ns)) < PROBE_NS);
        }
    }

    /// Sets or removes the kernel's entry for `address`.
    pub(crate) fn set_kernel(&mut self, port: PortId, address: A, mac: Option<[u8; 6]>) {
        match mac {
            Some(mac) => self.kernel.insert((port, address), mac),
            None => self.kernel.remove(&(port, address)),
        };
    }

    /// Applies an announcement if its address is in `net` and is known or solicits the router.
    pub(crate) fn learn(
        &mut self,
        port: PortId,
        net: A::Net,
        update: NeighbourUpdate<A>,
        now_ns: u64,
    ) {
        let NeighbourUpdate { address, mac, .. } = update;
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        if !address.is_neighbour(net) || !unicast {
            return;
        }
        let fits = self.known.len() < MAX_ENTRIES;
        let learned =
            Entry { mac: Some(mac), confirmed_ns: now_ns, solicited_ns: now_ns, probes: 0 };
        if let Some(entry) = self.known.get_mut(&(port, address)) {
            if update.overrides || entry.mac.is_none_or(|known| known == mac) {
                *entry = learned;
            }
        } else if update.solicits_us && fits {
            self.known.insert((port, address), learned);
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

    fn update(address: Ipv4Addr, mac: [u8; 6], solicits_us: bool) -> NeighbourUpdate<Ipv4Addr> {
        NeighbourUpdate { address, mac, solicits_us, overrides: true }
    }

    #[test]
    fn an_address_is_probed_once_per_second_and_fails_after_three_probes() {
        let mut neighbours = Neighbours::default();
        let address = Ipv4Addr::new(10, 0, 0, 2);
        let mut find = |now_ns| neighbours.find(PortId(0), address, now_ns);
        assert_eq!(find(5), (NeighbourState::Incomplete, true));
        assert_eq!(find(6), (NeighbourState::Incomplete, false));
        assert_eq!(find(5 + PROBE_NS), (NeighbourState::Incomplete, true));
        assert_eq!(find(5 + 2 * PROBE_NS), (NeighbourState::Incomplete, true));
        assert_eq!(find(5 + 3 * PROBE_NS), (NeighbourState::Failed, true));
        neighbours.learn(PortId(0), net(), update(address, MAC, false), 4 * PROBE_NS);
        let other = NeighbourUpdate { overrides: false, ..update(address, [4; 6], true) };
        neighbours.learn(PortId(0), net(), other, 4 * PROBE_NS);
        assert_eq!(
            neighbours.find(PortId(0), address, 5 * PROBE_NS),
            (NeighbourState::Reachable(MAC), false)
        );
        assert_eq!(
            neighbours.find(PortId(0), address, 4 * PROBE_NS + REPROBE_NS),
            (NeighbourState::Reachable(MAC), true)
        );
        assert_eq!(
            neighbours.find(PortId(0), address, 4 * PROBE_NS + EXPIRY_NS).0,
            NeighbourState::Incomplete
        );
        assert_eq!(
            neighbours.find(PortId(1), address, 0).0,
            NeighbourState::Incomplete,
            "another port's network"
        );
    }

    #[test]
    fn unsolicited_and_invalid_updates_are_ignored() {
        let mut neighbours = Neighbours::default();
        for (address, mac, solicits_us) in [
            ([10, 0, 0, 2], MAC, false),     // never probed
            ([10, 0, 1, 2], MAC, true),      // another network
            ([10, 0, 0, 1], MAC, true),      // the router's address
            ([10, 0, 0, 2], [255; 6], true), // broadcast
        ] {
            neighbours.learn(PortId(0), net(), update(address.into(), mac, solicits_us), 1);
            assert!(neighbours.known.is_empty(), "{address:?}");
        }
    }

    #[test]
    fn a_scan_of_the_network_does_not_exceed_the_table() {
        let mut neighbours = Neighbours::default();
        for k in 0..100_000u32 {
            neighbours.find(PortId(0), Ipv4Addr::from_bits(0x0a00_0000 + k), 1);
        }
        assert_eq!(neighbours.known.len(), MAX_ENTRIES);
        assert_eq!(
            neighbours.find(PortId(0), Ipv4Addr::new(10, 9, 9, 9), 2).0,
            NeighbourState::TableFull
        );
        let later = neighbours.find(PortId(0), Ipv4Addr::new(10, 9, 9, 9), 2 * PROBE_NS);
        assert_eq!(later, (NeighbourState::Incomplete, true));
        assert_eq!(neighbours.known.len(), 1, "unanswered entries are evicted");
    }

    #[test]
    fn a_scan_of_the_network_does_not_evict_reachable_neighbours() {
        let mut neighbours = Neighbours::default();
        let host = Ipv4Addr::new(10, 0, 0, 9);
        neighbours.learn(PortId(0), net(), update(host, MAC, true), 1);
        for k in 0..100_000u64 {
            let address = Ipv4Addr::from_bits(0x0a01_0000 + u32::try_from(k).unwrap());
            neighbours.find(PortId(0), address, k * 100_000);
        }
        assert_eq!(
            neighbours.find(PortId(0), host, 10 * PROBE_NS),
            (NeighbourState::Reachable(MAC), false)
        );
        assert!(neighbours.known.len() <= MAX_ENTRIES);
    }

    #[test]
    fn idle_neighbours_are_evicted_from_a_full_table() {
        let mut neighbours = Neighbours::default();
        let wide = "10.0.0.1/8".parse().unwrap();
        let host = |k: u32| Ipv4Addr::from_bits(0x0a00_0100 + k);
        for k in 0..u32::try_from(MAX_ENTRIES).unwrap() {
            neighbours.learn(PortId(0), wide, update(host(k), MAC, true), 1);
        }
        assert_eq!(
            neighbours.find(PortId(0), host(9_999), 5 * PROBE_NS),
            (NeighbourState::Incomplete, true)
        );
    }
}
