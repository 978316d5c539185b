//! Completes TCP and UDP checksums that a local sender left to checksum offload.
//!
//! Linux writes the pseudo-header sum into the checksum field and leaves the rest to the interface.
//! Interfaces that connect hosts of one machine (veth, virtio) never complete it. On a physical
//! link the receiver would drop the packet.
//!
//! Source: Documentation/networking/checksum-offloads.rst of Linux; RFC 9293, RFC 768.

use etherparse::checksum::Sum16BitWords;

use crate::net::header::{Transport, any_transport, is_v6};

/// Protocol number of TCP and the offset of the checksum in its header; below, of UDP.
const TCP: (u8, usize) = (6, 16);
const UDP: (u8, usize) = (17, 6);

/// Completes the TCP or UDP checksum of `frame` if the field holds the pseudo-header sum. A valid
/// checksum equals that sum in one of 65,536 packets; recomputing it gives the same value.
pub(crate) fn finish(frame: &mut [u8]) {
    let Some(ip) = any_transport(frame).filter(|ip| !ip.fragment) else { return };
    let (pseudo, protocol) = (pseudo(frame, &ip), ip.protocol);
    let segment = &mut frame[ip.start..ip.end];
    let at = match protocol {
        _ if protocol == TCP.0 => TCP.1,
        _ if protocol == UDP.0 => UDP.1,
        _ => return,
    };
    let Some(field) = segment.get(at..at + 2) else { return };
    // The field holds the uncomplemented sum, in native byte order.
    if field != (!pseudo.ones_complement()).to_ne_bytes() {
        return;
    }
    let zeroed = pseudo.add_slice(&segment[..at]).add_slice(&segment[at + 2..]);
    let sum = if protocol == UDP.0 {
        zeroed.to_ones_complement_with_no_zero()
    } else {
        zeroed.ones_complement()
    };
    segment[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
}

/// Returns the pseudo-header sum of the packet that `ip` describes in `frame`.
pub(crate) fn pseudo(frame: &[u8], ip: &Transport) -> Sum16BitWords {
    let addresses = if is_v6(frame) { 8..40 } else { 12..20 };
    let addresses = frame.get(ip.header..).and_then(|header| header.get(addresses));
    // The IP length field bounds the difference.
    let length = u16::try_from(ip.end - ip.start).unwrap_or(u16::MAX);
    let sum = Sum16BitWords::new().add_slice(addresses.unwrap_or_default());
    sum.add_2bytes([0, ip.protocol]).add_2bytes(length.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket};

    const HOST: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    const OTHER: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    fn packet(tcp: bool, v6: bool, payload: &[u8]) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if v6 {
            ethernet.ipv6(HOST, OTHER, 64)
        } else {
            ethernet.ipv4([10, 1, 0, 2], [10, 2, 0, 2], 64)
        };
        let mut frame = Vec::new();
        if tcp {
            ip.tcp(80, 4_000, 7, 100).write(&mut frame, payload).expect("it fits");
        } else {
            ip.udp(80, 4_000).write(&mut frame, payload).expect("it fits");
        }
        // Ethernet padding is outside the IP packet.
        frame.resize(frame.len().max(60), 0xee);
        frame
    }

    fn unfinished(frame: &[u8]) -> (Vec<u8>, usize) {
        let ip = SlicedPacket::from_ethernet(frame).expect("a packet");
        let is_tcp = matches!(ip.transport, Some(etherparse::TransportSlice::Tcp(_)));
        let (protocol, at) = if is_tcp { TCP } else { UDP };
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (addresses, start, length) = match frame[12] {
            8 => (26..34, 34, word(16) - 20),
            _ => (22..54, 54, word(18)),
        };
        let mut sum = Sum16BitWords::new().add_slice(&frame[addresses]);
        sum = sum.add_2bytes([0, protocol]).add_2bytes(length.to_be_bytes());
        let mut frame = frame.to_vec();
        frame[start + at..start + 2 + at].copy_from_slice(&(!sum.ones_complement()).to_ne_bytes());
        (frame, start + at)
    }

    #[test]
    fn only_partial_checksums_are_completed() {
        for (tcp, v6) in [(true, false), (false, false), (true, true), (false, true)] {
            for length in [0, 1, 2, 3, 700, 1_459] {
                let payload: Vec<u8> = (0..length).map(|k: u32| (k * k).to_le_bytes()[0]).collect();
                let right = packet(tcp, v6, &payload);
                let (mut frame, at) = unfinished(&right);
                assert_ne!(frame, right);
                finish(&mut frame);
                assert_eq!(frame, right);
                finish(&mut frame);
                assert_eq!(frame, right);
                // A wrong checksum stays wrong, so that the receiver detects it.
                frame[at] ^= 0x40;
                let wrong = frame.clone();
                finish(&mut frame);
                assert_eq!(frame, wrong);
            }
        }
        // UDP over IPv4 may omit the checksum.
        let mut none = packet(false, false, &[1, 2, 3]);
        none[40..42].copy_from_slice(&[0, 0]);
        let before = none.clone();
        finish(&mut none);
        assert_eq!(none, before);
    }

    #[test]
    fn fragments_and_malformed_frames_are_unchanged() {
        let (mut fragment, _) = unfinished(&packet(true, false, &[7; 100]));
        fragment[20] = 0x20;
        let (mut six, _) = unfinished(&packet(true, true, &[7; 100]));
        // A fragment header: the first of several.
        six.splice(54..54, [6, 0, 0, 1, 0, 0, 0, 1]);
        (six[19], six[20]) = (six[19] + 8, 44);
        for frame in [
            &six[..],
            &fragment[..],
            &[][..],
            &fragment[..20],
            &fragment[..50],
            &six[..60],
            &[0xff; 60][..],
        ] {
            let mut copy = frame.to_vec();
            finish(&mut copy);
            assert_eq!(copy, frame);
        }
    }
}
