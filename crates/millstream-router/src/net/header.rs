//! IP headers in Ethernet frames: parsing for classification, rewriting for forwarding. This file
//! has IPv4.
//!
//! Source: RFC 791; RFC 1812 section 5.2 (checks of a router); RFC 1624 equation 3 (incremental
//! checksum update).

mod v6;

use std::net::Ipv4Addr;

use crate::net::vlan_tag::Tag;
pub(crate) use v6::{destination_v6, hop_v6, is_v6, transport_v6};

/// Bytes of the Ethernet header.
pub(crate) const ETHERNET_BYTES: u32 = 14;
pub(crate) const ETHERNET: usize = ETHERNET_BYTES as usize;
/// EtherType of IPv4.
const IPV4: [u8; 2] = [8, 0];

/// The header fields that classification reads, with addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<A = Ipv4Addr> {
    /// Destination hardware address.
    pub to: [u8; 6],
    /// VLAN tag. [`Pool`](crate::live::Pool) stores it outside the frame, so parsing a frame leaves
    /// it empty.
    pub tag: Option<Tag>,
    /// Differentiated services code point.
    pub dscp: u8,
    /// IP protocol number; in IPv6 the one after the extension headers.
    pub protocol: u8,
    /// Source address.
    pub source: A,
    /// Destination address.
    pub destination: A,
    /// Source and destination port of TCP and UDP; `None` for other protocols and later fragments.
    pub ports: Option<(u16, u16)>,
}

impl Header {
    /// Parses the IPv4 header of `frame`; `None` if the packet is truncated or not IPv4. Does not
    /// verify the checksum.
    #[inline]
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (ethernet, fixed, length, total) = shape(frame)?;
        let ip = &frame[ETHERNET..];
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
        let protocol = fixed[9];
        let ports = (matches!(protocol, 6 | 17) && fragment == 0)
            .then(|| ip.get(length..total)?.first_chunk::<4>())
            .flatten();
        let [a, b, c, d] = [fixed[12], fixed[13], fixed[14], fixed[15]];
        let [e, f, g, h] = [fixed[16], fixed[17], fixed[18], fixed[19]];
        Some(Self {
            to: [ethernet[0], ethernet[1], ethernet[2], ethernet[3], ethernet[4], ethernet[5]],
            tag: None,
            dscp: fixed[1] >> 2,
            protocol,
            source: Ipv4Addr::new(a, b, c, d),
            destination: Ipv4Addr::new(e, f, g, h),
            ports: ports
                .map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))),
        })
    }
}

/// Offsets of an IP packet's parts within its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// IP protocol number.
    pub(crate) protocol: u8,
    /// Offset of the IP header.
    pub(crate) header: usize,
    /// Offset of the transport header.
    pub(crate) start: usize,
    /// Offset of the end of the packet.
    pub(crate) end: usize,
    /// Whether the packet is a fragment.
    pub(crate) fragment: bool,
}

/// Returns the layout of the IPv4 or IPv6 packet in `frame`.
pub(crate) fn any_transport(frame: &[u8]) -> Option<Transport> {
    if is_v6(frame) { transport_v6(frame) } else { transport(frame) }
}

/// Returns the layout of the IPv4 packet in `frame`.
pub(crate) fn transport(frame: &[u8]) -> Option<Transport> {
    let (_, fixed, length, total) = shape(frame)?;
    Some(Transport {
        protocol: fixed[9],
        header: ETHERNET,
        start: ETHERNET + length,
        end: ETHERNET + total,
        // The more-fragments bit or a fragment offset.
        fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0,
    })
}

/// Splits an IPv4 frame into Ethernet header and fixed IPv4 header, with header and packet length
/// in bytes; `None` if the packet is truncated or not IPv4.
#[inline]
fn shape(frame: &[u8]) -> Option<(&[u8; ETHERNET], &[u8; 20], usize, usize)> {
    let (head, _) = frame.split_first_chunk::<{ ETHERNET + 20 }>()?;
    let (ethernet, fixed) = head.split_first_chunk::<ETHERNET>()?;
    let fixed = fixed.first_chunk::<20>()?;
    let length = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let whole = ethernet[12..] == IPV4
        && fixed[0] >> 4 == 4
        && length >= 20
        && total >= length
        && frame.len() - ETHERNET >= total;
    whole.then_some((ethernet, fixed, length, total))
}

/// Returns the ones' complement sum of the header in native byte order; 0xffff if the checksum is
/// right.
#[inline]
fn sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<4>().0.iter();
    let sum: u64 = words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    // The folds leave less than 2^36, 2^18, then 2^17.
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(u16::MAX)
}

/// Returns the destination and whether the TTL exceeds 1; `None` if the checksum is wrong.
#[inline]
pub(crate) fn destination(frame: &[u8]) -> Option<(Ipv4Addr, bool)> {
    let (_, fixed, length, _) = shape(frame)?;
    // A header without options has a constant length: its sum needs no loop.
    let right = if length == 20 { sum(fixed) } else { sum(&frame[ETHERNET..ETHERNET + length]) };
    let [a, b, c, d] = [fixed[16], fixed[17], fixed[18], fixed[19]];
    (right == 0xffff).then_some((Ipv4Addr::new(a, b, c, d), fixed[8] > 1))
}

/// Rewrites a frame that has a [`destination`] and a TTL above 1: decrements the TTL, updates the
/// checksum and replaces the hardware addresses.
#[inline]
pub(crate) fn hop(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) {
    let Some(head) = frame.first_chunk_mut::<{ ETHERNET + 20 }>() else { return };
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    let old = u16::from_be_bytes([head[22], head[23]]);
    let new = old.wrapping_sub(0x100);
    head[22] = head[22].wrapping_sub(1);
    let checksum = updated_checksum(u16::from_be_bytes([head[24], head[25]]), old, new);
    head[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns a checksum updated for one changed word.
#[inline]
pub(crate) fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    // HC' = ~(~HC + ~m + m')
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).unwrap_or(u16::MAX)
}
