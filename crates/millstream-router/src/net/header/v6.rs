//! IPv6 headers in Ethernet frames, and the transport header behind extension headers.
//!
//! Source: RFC 8200 (header and extension headers); RFC 4291 (forwardable addresses); RFC 7045 (a
//! router forwards extension headers and knows their layout).

use std::net::Ipv6Addr;

use super::{ETHERNET, Header, Transport};

/// EtherType of IPv6.
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Bytes of the fixed header.
const FIXED: usize = 40;
/// Extension headers to walk, at most. A longer chain yields the protocol number of the next one.
const MAX_EXTENSIONS: usize = 8;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

impl Header<Ipv6Addr> {
    /// Parses the IPv6 header of `frame` and up to eight extension headers; `None` if the packet is
    /// truncated or not IPv6.
    #[inline]
    #[must_use]
    pub fn parse_v6(frame: &[u8]) -> Option<Self> {
        let (ethernet, fixed, packet) = shape(frame)?;
        let upper = upper(packet, fixed[6]);
        let ports = (matches!(upper.protocol, 6 | 17) && !upper.later)
            .then(|| packet.get(upper.start..)?.first_chunk::<4>())
            .flatten();
        Some(Self {
            to: [ethernet[0], ethernet[1], ethernet[2], ethernet[3], ethernet[4], ethernet[5]],
            tag: None,
            dscp: (fixed[0] << 2 | fixed[1] >> 6) & 63,
            protocol: upper.protocol,
            source: address::<8>(fixed),
            destination: address::<24>(fixed),
            ports: ports
                .map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))),
        })
    }
}

/// The header after the extension headers.
struct Upper {
    /// Protocol number.
    protocol: u8,
    /// Offset from the IP header, bytes.
    start: usize,
    /// Whether the packet is a fragment.
    fragment: bool,
    /// Whether it is a fragment other than the first.
    later: bool,
}

/// Returns whether `frame` has the EtherType of IPv6.
#[inline]
pub(crate) fn is_v6(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&IPV6)
}

/// Returns the layout of the IPv6 packet in `frame`.
pub(crate) fn transport_v6(frame: &[u8]) -> Option<Transport> {
    let (_, fixed, packet) = shape(frame)?;
    let upper = upper(packet, fixed[6]);
    Some(Transport {
        protocol: upper.protocol,
        header: ETHERNET,
        start: ETHERNET + upper.start,
        end: ETHERNET + packet.len(),
        fragment: upper.fragment,
    })
}

/// Returns the destination and whether the hop limit exceeds 1; `None` if an address is not
/// forwardable.
#[inline]
pub(crate) fn destination_v6(frame: &[u8]) -> Option<(Ipv6Addr, bool)> {
    let (_, fixed, _) = shape(frame)?;
    let (source, destination) = (address::<8>(fixed), address::<24>(fixed));
    (is_forwardable(source) && is_forwardable(destination)).then_some((destination, fixed[7] > 1))
}

/// Rewrites a frame that has a [`destination_v6`] and a hop limit above 1: decrements the hop limit
/// and replaces the hardware addresses.
#[inline]
pub(crate) fn hop_v6(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) {
    let Some(head) = frame.first_chunk_mut::<{ ETHERNET + FIXED }>() else { return };
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[ETHERNET + 7] = head[ETHERNET + 7].wrapping_sub(1);
}

/// Returns whether a router forwards packets from and to `address` (RFC 4291).
#[inline]
fn is_forwardable(address: Ipv6Addr) -> bool {
    !(address.is_multicast()
        || address.is_unicast_link_local()
        || address.is_unspecified()
        || address.is_loopback())
}

#[inline]
fn address<const AT: usize>(fixed: &[u8; FIXED]) -> Ipv6Addr {
    let bytes = fixed[AT..].first_chunk::<16>();
    Ipv6Addr::from(bytes.copied().unwrap_or_default())
}

/// Splits an IPv6 frame into Ethernet header, fixed header and packet; `None` if truncated or not
/// IPv6.
#[inline]
fn shape(frame: &[u8]) -> Option<(&[u8; ETHERNET], &[u8; FIXED], &[u8])> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET>()?;
    let fixed = packet.first_chunk::<FIXED>()?;
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let ours = ethernet[12..] == IPV6 && fixed[0] >> 4 == 6;
    Some((ethernet, fixed, packet.get(..length).filter(|_| ours)?))
}

/// Walks the extension headers of `packet`; `protocol` is the number of the first. The walk stops
/// at a truncated header.
#[inline]
fn upper(packet: &[u8], mut protocol: u8) -> Upper {
    let mut upper = Upper { protocol, start: FIXED, fragment: false, later: false };
    for _ in 0..MAX_EXTENSIONS {
        let rest = packet.get(upper.start..).unwrap_or_default();
        let Some([next, length, ..]) = rest.first_chunk::<8>().filter(|_| is_extension(protocol))
        else {
            break;
        };
        let bytes = match protocol {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(*length) + 2) * 4,
            _ => (usize::from(*length) + 1) * 8,
        };
        if bytes > rest.len() {
            break;
        }
        let offset_and_more = u16::from_be_bytes([rest[2], rest[3]]) & 0xfff9;
        if protocol == FRAGMENT && offset_and_more != 0 {
            upper.fragment = true;
            upper.later = offset_and_more > 1;
        }
        upper.start += bytes;
        (protocol, upper.protocol) = (*next, *next);
        // A later fragment continues the payload and has no headers.
        if upper.later {
            break;
        }
    }
    upper
}

/// Returns whether a header of this number has a successor (IANA's IPv6 extension header types,
/// except ESP, which hides its successor).
#[inline]
fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}
