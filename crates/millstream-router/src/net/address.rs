//! [`Address`]: the operations on IPv4 and IPv6 addresses that per-family tables need.

use ipnet::{Ipv4Net, Ipv6Net};
use prefix_trie::Prefix;
use std::fmt::Debug;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Entries of each direct-mapped cache.
pub(crate) const SLOTS: usize = 256;

/// An IPv4 or IPv6 address.
pub(crate) trait Address: Copy + Debug + Eq + Hash + Into<IpAddr> {
    /// A prefix of this family.
    type Net: Prefix + Copy;

    /// Returns the /32 or /128 prefix of this address.
    fn host_net(self) -> Self::Net;

    /// Returns `address` if it is of this family.
    fn from_ip(address: IpAddr) -> Option<Self>;

    /// Returns a hash below [`SLOTS`].
    fn slot(self) -> usize;

    /// Returns whether this address can be a neighbour on the port that has the address and network
    /// `net`.
    fn is_neighbour(self, net: Self::Net) -> bool;
}

impl Address for Ipv4Addr {
    type Net = Ipv4Net;

    #[inline]
    fn host_net(self) -> Ipv4Net {
        self.into()
    }

    fn from_ip(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }

    #[inline]
    fn slot(self) -> usize {
        slot(self.to_bits().into())
    }

    fn is_neighbour(self, net: Ipv4Net) -> bool {
        net.contains(&self) && self != net.addr()
    }
}

impl Address for Ipv6Addr {
    type Net = Ipv6Net;

    #[inline]
    fn host_net(self) -> Ipv6Net {
        self.into()
    }

    fn from_ip(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        }
    }

    #[inline]
    fn slot(self) -> usize {
        let [high, low] = [self.to_bits() >> 64, self.to_bits()];
        // Folds both halves into the hash.
        #[allow(clippy::cast_possible_truncation)]
        slot((high as u64).rotate_left(17) ^ low as u64)
    }

    fn is_neighbour(self, net: Ipv6Net) -> bool {
        // Link-local addresses are on every network (RFC 4291, section 2.5.6).
        (net.contains(&self) || self.is_unicast_link_local()) && self != net.addr()
    }
}

/// Returns a hash of `bits` below [`SLOTS`]: Fibonacci hashing (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
#[inline]
pub(crate) fn slot(bits: u64) -> usize {
    // The shift leaves `SLOTS.ilog2()` bits.
    #[allow(clippy::cast_possible_truncation)]
    let slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize;
    slot
}
