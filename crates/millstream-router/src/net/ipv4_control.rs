//! IPv4 control packets of the router: ARP, echo replies and ICMP errors.
//!
//! They are rare, so etherparse parses and builds them. Source: RFC 826, RFC 792; RFC 1812 section
//! 4.3 (which packets cause no error, and how much an error quotes).

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, Icmpv4Type, NetSlice, PacketBuilder, SlicedPacket,
    TransportSlice, icmpv4,
};
use std::net::Ipv4Addr;

/// TTL of the router's packets.
const HOPS: u8 = 64;
/// Longest ICMP error without the Ethernet header, bytes.
const ERROR_BYTES: usize = 576;
/// Bytes of the headers of an ICMP error.
const ERROR_HEADERS: usize = 28;
const BROADCAST: [u8; 6] = [0xff; 6];

/// Hardware and IP address of one end of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint<A = Ipv4Addr> {
    pub(crate) mac: [u8; 6],
    pub(crate) address: A,
}

/// Why a packet is not forwarded, as ICMP reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpError {
    TimeExceeded,
    NetUnreachable,
    HostUnreachable,
    /// The packet exceeds the next link's MTU (this many bytes, without the Ethernet header).
    TooBig(u32),
}

/// Parses the ARP packet in `frame`.
pub(crate) fn arp(frame: &[u8]) -> Option<ArpEthIpv4Packet> {
    if frame.get(12..14) != Some(&[8, 6]) {
        return None;
    }
    match SlicedPacket::from_ethernet(frame).ok()?.net? {
        NetSlice::Arp(arp) => arp.to_packet().try_eth_ipv4().ok(),
        _ => None,
    }
}

/// Builds an ARP request of `us` for `target`.
pub(crate) fn arp_request(us: Endpoint, target: Ipv4Addr) -> Vec<u8> {
    write_arp(ArpOperation::REQUEST, us, Endpoint { mac: [0; 6], address: target }, BROADCAST)
}

/// Builds the ARP reply to `them` for the address of `us`.
pub(crate) fn arp_reply(us: Endpoint, them: Endpoint) -> Vec<u8> {
    write_arp(ArpOperation::REPLY, us, them, them.mac)
}

fn write_arp(operation: ArpOperation, us: Endpoint, them: Endpoint, to: [u8; 6]) -> Vec<u8> {
    let arp = ArpEthIpv4Packet {
        operation,
        sender_mac: us.mac,
        sender_ipv4: us.address.octets(),
        target_mac: them.mac,
        target_ipv4: them.address.octets(),
    };
    let mut frame = Vec::new();
    // Writing to a `Vec` cannot fail.
    let _ = PacketBuilder::ethernet2(us.mac, to).arp(arp.into()).write(&mut frame);
    frame
}

/// Returns the reply to the echo request in `frame`, sent from the hardware address `mac`.
pub(crate) fn echo_reply(frame: &[u8], mac: [u8; 6]) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Icmpv4(icmp))) =
        (&packet.net, &packet.transport)
    else {
        return None;
    };
    let header = ip.header().to_header();
    let Icmpv4Type::EchoRequest(echo) = icmp.icmp_type() else { return None };
    let right = icmp.icmp_type().calc_checksum(icmp.payload()) == icmp.checksum()
        && header.calc_header_checksum() == header.header_checksum
        && !header.is_fragmenting_payload()
        && is_host(header.source.into());
    if !right {
        return None;
    }
    let them: [u8; 6] = *frame[6..].first_chunk()?;
    let builder = PacketBuilder::ethernet2(mac, them);
    let builder = builder.ipv4(header.destination, header.source, HOPS);
    let mut reply = Vec::new();
    builder.icmpv4(Icmpv4Type::EchoReply(echo)).write(&mut reply, icmp.payload()).ok()?;
    Some(reply)
}

/// Returns the source of the packet in `frame` if it may receive an error.
pub(crate) fn error_recipient(frame: &[u8]) -> Option<Ipv4Addr> {
    let ip = etherparse::Ipv4Slice::from_slice(frame.get(14..)?).ok()?;
    let header = ip.header();
    let (source, destination) = (header.source_addr(), header.destination_addr());
    // Errors about errors could loop: only queries and their replies may cause one.
    let about_error = header.protocol() == etherparse::IpNumber::ICMP
        && !matches!(ip.payload().payload.first(), Some(0 | 8 | 13..=18));
    let fits = header.fragments_offset().value() == 0
        && !about_error
        && is_host(source)
        && is_host(destination)
        && frame[0] & 1 == 0;
    fits.then_some(source)
}

/// Builds the error `why` about the packet in `frame`, from `us` to `them`.
pub(crate) fn error(frame: &[u8], why: IcmpError, us: Endpoint, them: Endpoint) -> Option<Vec<u8>> {
    use icmpv4::{DestUnreachableHeader, TimeExceededCode};
    let whole = frame.get(14..).filter(|ip| ip.len() >= 20)?;
    let total = usize::from(u16::from_be_bytes([whole[2], whole[3]]));
    let about = match why {
        IcmpError::TimeExceeded => Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit),
        IcmpError::NetUnreachable => {
            Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Network)
        }
        IcmpError::HostUnreachable => {
            Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Host)
        }
        IcmpError::TooBig(mtu) => {
            // Path MTU discovery sets don't-fragment (RFC 1191); other senders expect no error.
            let next_hop_mtu = u16::try_from(mtu).ok().filter(|_| whole[6] & 0x40 != 0)?;
            let about = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu };
            Icmpv4Type::DestinationUnreachable(about)
        }
    };
    let part = &whole[..whole.len().min(total).min(ERROR_BYTES - ERROR_HEADERS)];
    let builder = PacketBuilder::ethernet2(us.mac, them.mac);
    let builder = builder.ipv4(us.address.octets(), them.address.octets(), HOPS);
    let mut reply = Vec::new();
    builder.icmpv4(about).write(&mut reply, part).ok()?;
    Some(reply)
}

/// Returns whether `address` is a unicast address of a host.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_loopback()
        || address.octets()[0] >= 240
        || address.octets()[0] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const US: Endpoint = Endpoint { mac: [2, 0, 0, 0, 0, 1], address: Ipv4Addr::new(10, 0, 0, 1) };
    const THEM: Endpoint =
        Endpoint { mac: [2, 0, 0, 0, 0, 9], address: Ipv4Addr::new(10, 0, 0, 9) };

    fn echo(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(THEM.mac, US.mac);
        let builder = builder.ipv4(THEM.address.octets(), US.address.octets(), 9);
        let mut frame = Vec::new();
        builder.icmpv4_echo_request(7, 8).write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn arp_requests_and_replies_are_parsed() {
        let request = arp(&arp_request(THEM, US.address)).unwrap();
        assert_eq!((request.sender_mac, request.target_ipv4), (THEM.mac, US.address.octets()));
        let reply = arp_reply(US, THEM);
        assert_eq!(reply[..6], THEM.mac);
        let reply = arp(&reply).unwrap();
        assert_eq!((reply.sender_mac, reply.sender_ipv4), (US.mac, US.address.octets()));
    }

    #[test]
    fn an_echo_carries_its_payload_and_right_checksums() {
        let reply = echo_reply(&echo(b"abc"), US.mac).unwrap();
        let packet = SlicedPacket::from_ethernet(&reply).unwrap();
        let Some(TransportSlice::Icmpv4(icmp)) = &packet.transport else { panic!("{packet:?}") };
        assert_eq!(icmp.payload(), b"abc");
        assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(b"abc"));
        assert_eq!(reply[..6], THEM.mac);
        let mut wrong = echo(b"abc");
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(echo_reply(&wrong, US.mac), None, "a wrong checksum");
    }

    #[test]
    fn errors_quote_the_packet_and_none_is_sent_about_an_error() {
        let sent = echo(&[5; 1_000]);
        assert_eq!(error_recipient(&sent), Some(THEM.address));
        let reply = error(&sent, IcmpError::TimeExceeded, US, THEM).unwrap();
        assert_eq!(reply.len(), 14 + ERROR_BYTES);
        assert_eq!(reply[42..], sent[14..14 + ERROR_BYTES - ERROR_HEADERS]);
        assert_eq!(error_recipient(&reply), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut bytes in vec(any::<u8>(), 0..120), kind in 0..3u8) {
            if bytes.len() > 24 && kind > 0 {
                bytes[12..15].copy_from_slice(if kind == 1 { &[8, 0, 0x45] } else { &[8, 6, 0] });
                bytes[23] = 1;
            }
            let _ = (arp(&bytes), echo_reply(&bytes, US.mac), error_recipient(&bytes));
            let _ = error(&bytes, IcmpError::HostUnreachable, US, THEM);
        }
    }
}
