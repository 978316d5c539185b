//! Parses TCP segments in Ethernet frames. Source: RFC 9293, section 3.1.

use etherparse::checksum::Sum16BitWords;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::net::header::{Transport, any_transport, is_v6};

/// IP protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// Bytes of a TCP header without options.
const FIXED: usize = 20;

/// TCP flags.
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// Source and destination address and port of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

impl Tuple {
    /// Returns the tuple of packets in the other direction.
    pub(super) fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// A complete segment in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) ip: Transport,
    pub(super) tuple: Tuple,
    pub(super) flags: u8,
    /// Offset of the payload.
    pub(super) data: usize,
}

impl Segment {
    /// Parses the segment in `frame`; `None` if it is truncated or a fragment, or an end is not a
    /// valid endpoint.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let ip = any_transport(frame).filter(|ip| ip.protocol == TCP && !ip.fragment)?;
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
        let ends = [tuple.source, tuple.destination];
        if tuple == tuple.reversed() || !ends.into_iter().all(is_valid_endpoint) {
            return None;
        }
        Some(Self { ip, tuple, flags: header[13], data })
    }

    /// Returns the payload length, bytes.
    pub(super) fn length(&self) -> usize {
        self.ip.end - self.data
    }

    /// Returns whether the checksum is right.
    pub(super) fn has_valid_checksum(&self, frame: &[u8]) -> bool {
        let bytes = frame.get(self.ip.start..self.ip.end).unwrap_or_default();
        let length = u16::try_from(bytes.len()).unwrap_or(0);
        let sum = Sum16BitWords::new().add_slice(bytes);
        let mut sum = sum.add_2bytes([0, TCP]).add_2bytes(length.to_be_bytes());
        let sum = match (self.tuple.source.ip(), self.tuple.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                sum.add_4bytes(from.octets()).add_4bytes(to.octets())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                sum.add_16bytes(from.octets()).add_16bytes(to.octets())
            }
            _ => return false,
        };
        sum.ones_complement() == 0
    }

    /// Returns whether the segment opens a connection.
    pub(super) fn is_syn(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }
}

/// Returns whether `end` can be the end of a connection through the router.
fn is_valid_endpoint(end: SocketAddr) -> bool {
    let far = match end.ip() {
        IpAddr::V4(address) => !address.is_broadcast() && address.octets()[0] != 0,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let address = end.ip();
    let is_no_host = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    far && !is_no_host && end.port() != 0
}
