//! An IPv4 header in an Ethernet frame: what classification reads, and what the fast path changes.
//!
//! Source: RFC 791, RFC 1812 section 5.2 (what a router checks), RFC 1624 equation 3 (the
//! checksum's update).

use std::net::Ipv4Addr;

/// Bytes before the IP header.
const ETHERNET: usize = 14;
/// Ethernet's number of IPv4.
const IPV4: [u8; 2] = [8, 0];

/// What a router looks at in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hardware address that it was sent to.
    pub to: [u8; 6],
    /// Differentiated services code point.
    pub dscp: u8,
    /// IP protocol number.
    pub protocol: u8,
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// Source and destination ports of TCP and UDP; `None` for others and for later fragments.
    pub ports: Option<(u16, u16)>,
}

impl Header {
    /// Reads the header of `frame`; `None` if it holds no whole IPv4 header. The checksum is not
    /// looked at.
    #[inline]
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let ethernet: &[u8; ETHERNET] = frame.first_chunk()?;
        let ip = frame.get(ETHERNET..)?;
        let fixed: &[u8; 20] = ip.first_chunk()?;
        let length = header_bytes(fixed)?;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if ethernet[12..] != IPV4 || total < length || ip.len() < total {
            return None;
        }
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
        let protocol = fixed[9];
        let ports = (matches!(protocol, 6 | 17) && fragment == 0)
            .then(|| ip.get(length..total)?.first_chunk::<4>())
            .flatten();
        let [a, b, c, d] = [fixed[12], fixed[13], fixed[14], fixed[15]];
        let [e, f, g, h] = [fixed[16], fixed[17], fixed[18], fixed[19]];
        Some(Self {
            to: [ethernet[0], ethernet[1], ethernet[2], ethernet[3], ethernet[4], ethernet[5]],
            dscp: fixed[1] >> 2,
            protocol,
            source: Ipv4Addr::new(a, b, c, d),
            destination: Ipv4Addr::new(e, f, g, h),
            ports: ports
                .map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))),
        })
    }
}

/// The length of a header of version 4, bytes.
#[inline]
fn header_bytes(fixed: &[u8; 20]) -> Option<usize> {
    let length = usize::from(fixed[0] & 15) * 4;
    (fixed[0] >> 4 == 4 && length >= 20).then_some(length)
}

/// The ones' complement sum of a header's words; 0xffff if its checksum is right.
#[inline]
fn sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Folded.
    u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Sends a frame on: a hop less to live, the checksum updated, the hardware addresses replaced.
/// Returns whether it may be sent: its checksum was right, and it has hops left.
#[inline]
pub(super) fn hop(frame: &mut [u8], from: [u8; 6], to: [u8; 6]) -> bool {
    let Some(fixed) = frame.get(ETHERNET..).and_then(|ip| ip.first_chunk::<20>()) else {
        return false;
    };
    let Some(header) =
        header_bytes(fixed).and_then(|length| frame.get_mut(ETHERNET..)?.get_mut(..length))
    else {
        return false;
    };
    if sum(header) != 0xffff || header[8] <= 1 {
        return false;
    }
    let old = u16::from_be_bytes([header[8], header[9]]);
    let new = old - 0x100;
    header[8] -= 1;
    // HC' = ~(~HC + ~m + m')
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(sum).unwrap_or(u16::MAX);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    true
}
