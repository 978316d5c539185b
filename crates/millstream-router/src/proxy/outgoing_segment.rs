//! TCP segments that a proxy builds without smoltcp: SYN, RST and the client's first bytes.
//! etherparse writes them.

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};
use std::net::IpAddr;

use super::device::{MTU, TxDevice};
use super::segment::{ACK, RST, SYN, Segment, Tuple};
use super::spliced_flow::{MSS, SACK_PERMITTED, WINDOW_SCALE};

/// TTL or hop limit; forwarding decrements it once.
const HOPS: u8 = 65;
/// Bytes of TCP options, at most: MSS, SACK-permitted, window scale.
const OPTIONS_BYTES: usize = 12;
/// Bytes of IP and TCP headers without options, for IPv4 and IPv6.
const HEADERS: [usize; 2] = [40, 60];

/// The TCP options of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SynOptions {
    /// Maximum segment size of the sender, bytes.
    pub(super) mss: u16,
    /// Window scale: windows are in units of 2^scale bytes.
    pub(super) scale: Option<u8>,
    /// Whether the sender accepts selective acknowledgements.
    pub(super) sack: bool,
}

impl SynOptions {
    /// Parses the options of a SYN. The default MSS is 536 bytes (RFC 9293, section 3.7.1).
    pub(super) fn parse(frame: &[u8], segment: &Segment) -> Self {
        let mut options = Self { mss: 536, ..Self::default() };
        for (kind, value) in super::spliced_flow::options(frame, segment) {
            let value = &frame[value];
            match (kind, value) {
                (MSS, [high, low]) => options.mss = u16::from_be_bytes([*high, *low]),
                // RFC 7323, section 2.3.
                (WINDOW_SCALE, [scale]) => options.scale = Some((*scale).min(14)),
                (SACK_PERMITTED, []) => options.sack = true,
                _ => {}
            }
        }
        options
    }

    fn write(self) -> ([u8; OPTIONS_BYTES], usize) {
        let [high, low] = self.mss.to_be_bytes();
        let mut options = [MSS, 4, high, low, 1, 1, SACK_PERMITTED, 2, 1, WINDOW_SCALE, 3, 0];
        if !self.sack {
            (options[6], options[7]) = (1, 1);
        }
        match self.scale {
            Some(scale) => options[11] = scale,
            None => options[8..].fill(1),
        }
        (options, OPTIONS_BYTES)
    }
}

/// Returns the MSS for packets of the address family of `address`, bytes.
pub(super) fn mss(address: IpAddr) -> u16 {
    u16::try_from(MTU - HEADERS[usize::from(address.is_ipv6())]).unwrap_or(u16::MAX)
}

/// A segment to build.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingSegment {
    pub(super) tuple: Tuple,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// The options of a SYN; `None` for other segments.
    pub(super) options: Option<SynOptions>,
}

impl OutgoingSegment {
    /// Returns the reset for a segment of an unknown connection (RFC 9293, section 3.5.2); `None`
    /// if it is a reset itself.
    pub(super) fn reset(frame: &[u8], segment: &Segment) -> Option<Self> {
        if segment.flags & RST != 0 {
            return None;
        }
        let acknowledges = segment.flags & ACK != 0;
        let begins = u32::from(segment.flags & SYN != 0);
        let length = u32::try_from(segment.length()).unwrap_or(0);
        Some(Self {
            tuple: segment.tuple.reversed(),
            sequence: if acknowledges { segment.acknowledgement(frame) } else { 0 },
            acknowledgement: segment.sequence(frame).wrapping_add(begins).wrapping_add(length),
            flags: if acknowledges { RST } else { RST | ACK },
            window: 0,
            options: None,
        })
    }

    /// Builds the segment with `data`; returns `false` if no buffer is free.
    pub(super) fn put(&self, data: &[u8], out: &mut TxDevice<'_>) -> bool {
        let Tuple { source, destination } = self.tuple;
        let mut tcp = TcpHeader::new(source.port(), destination.port(), self.sequence, self.window);
        (tcp.syn, tcp.ack) = (self.flags & SYN != 0, self.flags & ACK != 0);
        tcp.rst = self.flags & RST != 0;
        tcp.psh = !data.is_empty();
        if tcp.ack {
            tcp.acknowledgment_number = self.acknowledgement;
        }
        if let Some(options) = self.options {
            let (options, length) = options.write();
            // The options fit into a TCP header.
            let _ = tcp.set_options_raw(&options[..length]);
        }
        let length = tcp.header_len() + data.len();
        let Ok(short) = u16::try_from(length) else { return true };
        match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = Ipv4Header::new(short, HOPS, IpNumber::TCP, from.octets(), to.octets());
                let Ok(mut ip) = ip else { return true };
                ip.header_checksum = ip.calc_header_checksum();
                tcp.checksum =
                    tcp.calc_checksum_ipv4_raw(ip.source, ip.destination, data).unwrap_or(0);
                write(&ip.to_bytes(), &tcp.to_bytes(), data, out)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: short,
                    next_header: IpNumber::TCP,
                    hop_limit: HOPS,
                    source: from.octets(),
                    destination: to.octets(),
                };
                tcp.checksum =
                    tcp.calc_checksum_ipv6_raw(ip.source, ip.destination, data).unwrap_or(0);
                write(&ip.to_bytes(), &tcp.to_bytes(), data, out)
            }
            // Both ends of a packet have the same family.
            _ => true,
        }
    }
}

/// Concatenates headers and data into a packet; returns `false` if no buffer is free.
fn write(ip: &[u8], tcp: &[u8], data: &[u8], out: &mut TxDevice<'_>) -> bool {
    let put = out.put(ip.len() + tcp.len() + data.len(), |packet| {
        let (header, rest) = packet.split_at_mut(ip.len());
        header.copy_from_slice(ip);
        let (header, rest) = rest.split_at_mut(tcp.len());
        header.copy_from_slice(tcp);
        rest.copy_from_slice(data);
    });
    put.is_ok()
}
