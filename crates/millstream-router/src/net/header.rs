//! An IP header in an Ethernet frame: what classification reads, and what the fast path changes. IPv4 is here.
//!
//! Source: RFC 791, RFC 1812 section 5.2 (what a router checks), RFC 1624 equation 3 (the
//! checksum's update).

mod v6;

use std::net::Ipv4Addr;

use crate::net::vlan_tag::Tag;
pub(crate) use v6::{destination_v6, hop_v6, is_v6, transport_v6};

/// Bytes before the IP header.
pub(crate) const ETHERNET_BYTES: u32 = 14;
pub(crate) const ETHERNET: usize = ETHERNET_BYTES as usize;
/// Ethernet's number of IPv4.
const IPV4: [u8; 2] = [8, 0];

/// What a router looks at in a packet with addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<A = Ipv4Addr> {
    /// Hardware address that it was sent to.
    pub to: [u8; 6],
    /// The VLAN tag that it came with. A frame in a buffer has none, so reading one leaves this empty.
    pub tag: Option<Tag>,
    /// Differentiated services code point.
    pub dscp: u8,
    /// IP protocol number; of IPv6 what stands behind extension headers.
    pub protocol: u8,
    /// Where it comes from.
    pub source: A,
    /// Where it goes.
    pub destination: A,
    /// Source and destination ports of TCP and UDP; `None` for others and for later fragments.
    pub ports: Option<(u16, u16)>,
}

impl Header {
    /// Reads the header of `frame`; `None` if it holds no whole IPv4 header. The checksum is not
    /// looked at.
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

/// Where a packet's parts are in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// IP protocol number.
    pub(crate) protocol: u8,
    /// Where the IP header begins,
    pub(crate) header: usize,
    /// what follows it,
    pub(crate) start: usize,
    /// and where the packet ends.
    pub(crate) end: usize,
    /// Whether it is a part of a packet only.
    pub(crate) fragment: bool,
}

/// The parts of the IP packet in `frame`, of either kind.
pub(crate) fn any_transport(frame: &[u8]) -> Option<Transport> {
    if is_v6(frame) { transport_v6(frame) } else { transport(frame) }
}

/// The parts of the IPv4 packet in `frame`.
pub(crate) fn transport(frame: &[u8]) -> Option<Transport> {
    let (_, fixed, length, total) = shape(frame)?;
    Some(Transport {
        protocol: fixed[9],
        header: ETHERNET,
        start: ETHERNET + length,
        end: ETHERNET + total,
        // More fragments, or not the first.
        fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0,
    })
}

/// The Ethernet header, what every IPv4 header has, its length and the packet's, bytes; `None` if the
/// frame holds no whole IPv4 header.
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

/// The ones' complement sum of a header's words, in the machine's order; 0xffff if its checksum is
/// right.
#[inline]
fn sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<4>().0.iter();
    let sum: u64 = words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    // Below 2^36, then 2^18, then 2^17.
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(u16::MAX)
}

/// Where a packet goes, and whether it has hops left; `None` if its checksum is wrong.
#[inline]
pub(crate) fn destination(frame: &[u8]) -> Option<(Ipv4Addr, bool)> {
    let (_, fixed, length, _) = shape(frame)?;
    // Most headers have no options, and a sum of known length needs no loop.
    let right = if length == 20 { sum(fixed) } else { sum(&frame[ETHERNET..ETHERNET + length]) };
    let [a, b, c, d] = [fixed[16], fixed[17], fixed[18], fixed[19]];
    (right == 0xffff).then_some((Ipv4Addr::new(a, b, c, d), fixed[8] > 1))
}

/// Sends a frame on that has a [`destination`] and hops left: a hop less to live, the checksum updated, the
/// hardware addresses replaced.
#[inline]
pub(crate) fn hop(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) {
    let Some(head) = frame.first_chunk_mut::<{ ETHERNET + 20 }>() else { return };
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    let old = u16::from_be_bytes([head[22], head[23]]);
    let new = old.wrapping_sub(0x100);
    head[22] = head[22].wrapping_sub(1);
    let checksum = updated(u16::from_be_bytes([head[24], head[25]]), old, new);
    head[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// A checksum after a word that it covers has changed.
#[inline]
pub(crate) fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    // HC' = ~(~HC + ~m + m')
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).unwrap_or(u16::MAX)
}
