//! Segments that a proxy makes itself, beside those of smoltcp: to shake hands, to break off, and the client's first
//! bytes on their way. etherparse writes them.

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};
use std::net::IpAddr;

use super::device::{MTU, TxDevice};
use super::segment::{ACK, RST, SYN, Segment, Tuple};
use super::spliced_flow::{MSS, SACK_PERMITTED, WINDOW_SCALE};

/// Hops that it may take; forwarding takes one.
const HOPS: u8 = 65;
/// Bytes of options at most: a length, leave to acknowledge selectively, a scale.
const OPTIONS_BYTES: usize = 12;
/// Bytes of headers without options, IPv4's and IPv6's with TCP's.
const HEADERS: [usize; 2] = [40, 60];

/// What a segment that begins a connection may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SynOptions {
    /// The mss segment that its sender takes, bytes.
    pub(super) length: u16,
    /// It counts its window in 2^this bytes.
    pub(super) scale: Option<u8>,
    /// It takes selective acknowledgements.
    pub(super) selective: bool,
}

impl SynOptions {
    /// What `segment` says. One that says no length takes 536 bytes (RFC 9293, section 3.7.1).
    pub(super) fn parse(frame: &[u8], segment: &Segment) -> Self {
        let mut options = Self { length: 536, ..Self::default() };
        for (kind, value) in super::spliced_flow::options(frame, segment) {
            let value = &frame[value];
            match (kind, value) {
                (MSS, [high, low]) => options.length = u16::from_be_bytes([*high, *low]),
                // RFC 7323, section 2.3.
                (WINDOW_SCALE, [scale]) => options.scale = Some((*scale).min(14)),
                (SACK_PERMITTED, []) => options.selective = true,
                _ => {}
            }
        }
        options
    }

    fn write(self) -> ([u8; OPTIONS_BYTES], usize) {
        let [high, low] = self.length.to_be_bytes();
        let mut options = [MSS, 4, high, low, 1, 1, SACK_PERMITTED, 2, 1, WINDOW_SCALE, 3, 0];
        if !self.selective {
            (options[6], options[7]) = (1, 1);
        }
        match self.scale {
            Some(scale) => options[11] = scale,
            None => options[8..].fill(1),
        }
        (options, OPTIONS_BYTES)
    }
}

/// The mss segment to or from an address, bytes.
pub(super) fn mss(address: IpAddr) -> u16 {
    u16::try_from(MTU - HEADERS[usize::from(address.is_ipv6())]).unwrap_or(u16::MAX)
}

/// A segment to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingSegment {
    pub(super) tuple: Tuple,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// If it begins a connection.
    pub(super) options: Option<SynOptions>,
}

impl OutgoingSegment {
    /// Tells the sender of `segment` that there is no such connection (RFC 9293, section 3.5.2); `None` if it says so
    /// itself.
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

    /// Makes the segment, with `data`; `false` if there is no room.
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
            // They are few enough.
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
            // Both ends of a packet are of one family.
            _ => true,
        }
    }
}

/// Makes a packet of these parts; `false` if there is no room.
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
