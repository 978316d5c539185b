//! The ECN field of IP packets (RFC 3168, section 5).

use millstream::aqm::Ecn;

use crate::net::header::{ETHERNET, is_v6};

/// Returns the ECN field of the IP packet in `frame`.
#[inline]
pub(crate) fn ecn(frame: &[u8]) -> Ecn {
    match frame.get(ETHERNET..ETHERNET + 2) {
        Some([_, second]) if is_v6(frame) => Ecn::of_traffic_class(second >> 4),
        Some([_, second]) => Ecn::of_traffic_class(*second),
        _ => Ecn::NotCapable,
    }
}

/// Sets the ECN field to "congestion experienced"; updates the IPv4 header checksum (RFC 1624,
/// equation 3).
pub(crate) fn set_congested(frame: &mut [u8]) {
    if is_v6(frame) {
        if let Some(second) = frame.get_mut(ETHERNET + 1) {
            *second |= 0x30;
        }
        return;
    }
    let Some(header) = frame.get_mut(ETHERNET..ETHERNET + 20) else { return };
    let word = |header: &[u8], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let old = word(header, 0);
    header[1] |= 3;
    let new = word(header, 0);
    let sum = u32::from(!word(header, 10)) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = u16::try_from(sum).unwrap_or(u16::MAX);
    header[10..12].copy_from_slice(&(!sum).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4HeaderSlice, PacketBuilder};

    #[test]
    fn a_mark_keeps_the_checksum_of_every_header_right() {
        for (tos, id) in (0..=255u8).flat_map(|tos| [(tos, 0u16), (tos, 0xfffe), (tos, 0x1234)]) {
            let mut frame = Vec::new();
            let packet = PacketBuilder::ethernet2([2; 6], [4; 6]);
            packet.ipv4([10, 1, 0, 1], [10, 2, 0, 1], 64).udp(1, 2).write(&mut frame, &[]).unwrap();
            frame[15] = tos;
            frame[18..20].copy_from_slice(&id.to_be_bytes());
            let header = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap().to_header();
            frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
            assert_eq!(ecn(&frame), Ecn::of_traffic_class(tos));
            set_congested(&mut frame);
            let header = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "{tos} {id}");
            assert_eq!((ecn(&frame), frame[15]), (Ecn::Congested, tos | 3));
        }
    }

    #[test]
    fn an_ipv6_packet_is_marked_in_its_traffic_class() {
        let mut frame = Vec::new();
        let packet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        packet.ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut frame, &[]).unwrap();
        (frame[14], frame[15]) = (0x6b, 0x9a);
        assert_eq!(ecn(&frame), Ecn::Scalable);
        set_congested(&mut frame);
        assert_eq!((frame[14], frame[15], ecn(&frame)), (0x6b, 0xba, Ecn::Congested));
        assert_eq!(ecn(&[0; 10]), Ecn::NotCapable);
    }
}
