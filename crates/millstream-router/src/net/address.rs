//! What IPv4 and IPv6 addresses have in common, for tables that are made once for each.

use ipnet::{Ipv4Net, Ipv6Net};
use prefix_trie::Prefix;
use std::fmt::Debug;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many entries tables of what was seen of late have.
pub(crate) const SLOTS: usize = 256;

/// An address of one family.
pub(crate) trait Address: Copy + Debug + Eq + Hash + Into<IpAddr> {
    /// An address with the length of its network.
    type Net: Prefix + Copy;

    /// The network that only this address is in.
    fn host_net(self) -> Self::Net;

    /// An address if it is of this family.
    fn from_ip(address: IpAddr) -> Option<Self>;

    /// A number below [`SLOTS`] that is another for most others.
    fn slot(self) -> usize;

    /// Whether it can be that of a neighbour of whoever has the address of `net` on that network.
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
        // Both halves count.
        #[allow(clippy::cast_possible_truncation)]
        slot((high as u64).rotate_left(17) ^ low as u64)
    }

    fn is_neighbour(self, net: Ipv6Net) -> bool {
        // Link-local addresses are on every network (RFC 4291, section 2.5.6).
        (net.contains(&self) || self.is_unicast_link_local()) && self != net.addr()
    }
}

/// A number below [`SLOTS`]: Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
#[inline]
pub(crate) fn slot(bits: u64) -> usize {
    // Less than a word of it is left.
    #[allow(clippy::cast_possible_truncation)]
    let slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize;
    slot
}
