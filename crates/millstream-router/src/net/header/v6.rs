//! An IPv6 header in an Ethernet frame, and what stands behind its extension headers.
//!
//! Source: RFC 8200 (header and extension headers), RFC 4291 (which addresses a router forwards), RFC 7045 (a router
//! carries extension headers along, and knows their layout).

use std::net::Ipv6Addr;

use super::{ETHERNET, Header, Transport};

/// Ethernet's number of IPv6.
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Bytes of the header.
const FIXED: usize = 40;
/// The most extension headers that are looked behind: a packet with more is known by the number of the next.
const MOST_EXTENSIONS: usize = 8;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

impl Header<Ipv6Addr> {
    /// Reads the IPv6 header of `frame`, and what is behind its extension headers, eight at most; `None` if it
    /// holds no whole packet.
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

/// What stands behind the extension headers.
struct Upper {
    /// Its protocol number.
    protocol: u8,
    /// Where it begins, bytes from the IP header.
    start: usize,
    /// It is a part of a packet only,
    fragment: bool,
    /// and not the first.
    later: bool,
}

/// Whether it is the frame of an IPv6 packet.
#[inline]
pub(crate) fn is_v6(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&IPV6)
}

/// The parts of the IPv6 packet in `frame`.
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

/// Where a packet goes, and whether it has hops left; `None` if it is none that a router forwards.
#[inline]
pub(crate) fn destination_v6(frame: &[u8]) -> Option<(Ipv6Addr, bool)> {
    let (_, fixed, _) = shape(frame)?;
    let (source, destination) = (address::<8>(fixed), address::<24>(fixed));
    (goes_far(source) && goes_far(destination)).then_some((destination, fixed[7] > 1))
}

/// Sends a frame on that has a [`destination_v6`] and hops left: a hop less, the hardware addresses replaced.
#[inline]
pub(crate) fn hop_v6(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) {
    let Some(head) = frame.first_chunk_mut::<{ ETHERNET + FIXED }>() else { return };
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[ETHERNET + 7] = head[ETHERNET + 7].wrapping_sub(1);
}

/// Whether packets from or to this address leave its link.
#[inline]
fn goes_far(address: Ipv6Addr) -> bool {
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

/// The Ethernet header, the IPv6 header, and the whole packet with it; `None` if the frame does not hold it.
#[inline]
fn shape(frame: &[u8]) -> Option<(&[u8; ETHERNET], &[u8; FIXED], &[u8])> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET>()?;
    let fixed = packet.first_chunk::<FIXED>()?;
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let ours = ethernet[12..] == IPV6 && fixed[0] >> 4 == 6;
    Some((ethernet, fixed, packet.get(..length).filter(|_| ours)?))
}

/// What is behind the extension headers of `packet`, the first of which has the number `protocol`. One that is cut off
/// stands for itself.
#[inline]
fn upper(packet: &[u8], mut protocol: u8) -> Upper {
    let mut upper = Upper { protocol, start: FIXED, fragment: false, later: false };
    for _ in 0..MOST_EXTENSIONS {
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
        // Of later fragments the first header is known, and what is in them is not headers.
        if upper.later {
            break;
        }
    }
    upper
}

/// Whether a header of this number is followed by another (the registry of IPv6 extension header types, but for ESP,
/// behind which nothing can be read).
#[inline]
fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}
