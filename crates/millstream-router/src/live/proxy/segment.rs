//! A TCP segment in an Ethernet frame: whose it is, and where its parts are. Source: RFC 9293, section 3.1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::live::header::{Transport, is_v6, transport, transport_v6};

/// IP's number of TCP.
pub(in crate::live) const TCP: u8 = 6;
/// Bytes of a header without options.
const FIXED: usize = 20;

/// Flags of a segment.
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// Both ends as a packet names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::live) struct Tuple {
    pub(in crate::live) source: SocketAddr,
    pub(in crate::live) destination: SocketAddr,
}

#[cfg(test)]
impl Tuple {
    /// That of packets the other way.
    pub(super) fn back(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// A segment that lies whole in its frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) ip: Transport,
    pub(super) tuple: Tuple,
    pub(super) flags: u8,
}

impl Segment {
    /// The segment of `frame`; `None` if it holds no whole one, or a part of a packet.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let ip = if is_v6(frame) { transport_v6(frame) } else { transport(frame) };
        let ip = ip.filter(|ip| ip.protocol == TCP && !ip.fragment)?;
        let header = frame.get(ip.start..ip.end)?.first_chunk::<FIXED>()?;
        let data = ip.start + usize::from(header[12] >> 4) * 4;
        if data < ip.start + FIXED || data > ip.end {
            return None;
        }
        let (from, to) = if is_v6(frame) {
            let at = |at: usize| frame.get(ip.header + at..)?.first_chunk::<16>().copied();
            (Ipv6Addr::from(at(8)?).into(), Ipv6Addr::from(at(24)?).into())
        } else {
            let at = |at: usize| frame.get(ip.header + at..)?.first_chunk::<4>().copied();
            (IpAddr::V4(Ipv4Addr::from(at(12)?)), IpAddr::V4(Ipv4Addr::from(at(16)?)))
        };
        let tuple = Tuple {
            source: SocketAddr::new(from, u16::from_be_bytes([header[0], header[1]])),
            destination: SocketAddr::new(to, u16::from_be_bytes([header[2], header[3]])),
        };
        Some(Self { ip, tuple, flags: header[13] })
    }

    /// Whether it asks for a new connection.
    pub(super) fn begins(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }
}
