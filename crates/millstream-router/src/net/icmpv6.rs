//! ICMPv6 messages of the router: echo replies and errors.
//!
//! Source: RFC 4443; section 2.4 says which packets cause no error and how much an error quotes.

use etherparse::{Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv6};
use std::net::Ipv6Addr;

use crate::net::header::{Header, transport_v6};
use crate::net::ipv4_control::{Endpoint, IcmpError};

/// Hop limit of the router's packets.
const HOPS: u8 = 64;
/// Longest ICMPv6 error without the Ethernet header, bytes: the minimum MTU of IPv6.
const ERROR_BYTES: usize = 1_280;
/// Bytes of the headers of an ICMPv6 error.
const ERROR_HEADERS: usize = 48;
/// Protocol number of ICMPv6.
const ICMPV6: u8 = 58;
/// Types below this one are errors. A redirect is not a query either.
const FIRST_QUERY: u8 = 128;
const REDIRECT: u8 = 137;

/// Returns the reply to the echo request in `frame`, sent from the hardware address `mac`.
pub(crate) fn echo_reply(frame: &[u8], mac: [u8; 6]) -> Option<Vec<u8>> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) =
        (&packet.net, &packet.transport)
    else {
        return None;
    };
    let header = ip.header();
    let Icmpv6Type::EchoRequest(echo) = icmp.icmp_type() else { return None };
    let them: [u8; 6] = *frame[6..].first_chunk()?;
    let right = icmp.is_checksum_valid(header.source(), header.destination())
        && !ip.is_payload_fragmented()
        && is_host(header.source_addr())
        && them[0] & 1 == 0;
    if !right {
        return None;
    }
    let builder = PacketBuilder::ethernet2(mac, them);
    let builder = builder.ipv6(header.destination(), header.source(), HOPS);
    let mut reply = Vec::new();
    builder.icmpv6(Icmpv6Type::EchoReply(echo)).write(&mut reply, icmp.payload()).ok()?;
    Some(reply)
}

/// Returns the source of the packet in `frame` if it may receive an error.
pub(crate) fn error_recipient(frame: &[u8]) -> Option<Ipv6Addr> {
    let (header, parts) = (Header::parse_v6(frame)?, transport_v6(frame)?);
    let (source, destination) = (header.source, header.destination);
    let kind = frame.get(parts.start..parts.end)?.first().copied().unwrap_or(0);
    let about_error = parts.protocol == ICMPV6 && (kind < FIRST_QUERY || kind == REDIRECT);
    let fits = !about_error && is_host(source) && !destination.is_multicast() && frame[0] & 1 == 0;
    fits.then_some(source)
}

/// Builds the error `why` about the packet in `frame`, from `us` to `them`.
pub(crate) fn error(
    frame: &[u8],
    why: IcmpError,
    us: Endpoint<Ipv6Addr>,
    them: Endpoint<Ipv6Addr>,
) -> Option<Vec<u8>> {
    use icmpv6::{DestUnreachableCode, TimeExceededCode};
    let about = match why {
        IcmpError::TimeExceeded => Icmpv6Type::TimeExceeded(TimeExceededCode::HopLimitExceeded),
        IcmpError::NetUnreachable => {
            Icmpv6Type::DestinationUnreachable(DestUnreachableCode::NoRoute)
        }
        IcmpError::HostUnreachable => {
            Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Address)
        }
        IcmpError::TooBig(mtu) => Icmpv6Type::PacketTooBig { mtu },
    };
    let whole = frame.get(14..transport_v6(frame)?.end)?;
    let part = &whole[..whole.len().min(ERROR_BYTES - ERROR_HEADERS)];
    let builder = PacketBuilder::ethernet2(us.mac, them.mac);
    let builder = builder.ipv6(us.address.octets(), them.address.octets(), HOPS);
    let mut reply = Vec::new();
    builder.icmpv6(about).write(&mut reply, part).ok()?;
    Some(reply)
}

/// Returns whether `address` is a unicast address of a host.
fn is_host(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const fn host(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, last)
    }

    const US: Endpoint<Ipv6Addr> = Endpoint { mac: [2, 0, 0, 0, 0, 1], address: host(1) };
    const THEM: Endpoint<Ipv6Addr> = Endpoint { mac: [2, 0, 0, 0, 0, 9], address: host(9) };

    fn echo(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(THEM.mac, US.mac);
        let builder = builder.ipv6(THEM.address.octets(), US.address.octets(), 9);
        let mut frame = Vec::new();
        builder.icmpv6_echo_request(7, 8).write(&mut frame, payload).unwrap();
        frame
    }

    fn message(frame: &[u8]) -> (Icmpv6Type, Vec<u8>) {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!("{packet:?}") };
        let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("{packet:?}") };
        assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
        (icmp.icmp_type(), icmp.payload().to_vec())
    }

    #[test]
    fn an_echo_carries_its_payload_and_a_right_checksum() {
        let reply = echo_reply(&echo(b"abc"), US.mac).unwrap();
        let (kind, payload) = message(&reply);
        assert!(matches!(kind, Icmpv6Type::EchoReply(echo) if (echo.id, echo.seq) == (7, 8)));
        assert_eq!((&payload[..], &reply[..6]), (&b"abc"[..], &THEM.mac[..]));
        let mut wrong = echo(b"abc");
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(echo_reply(&wrong, US.mac), None, "a wrong checksum");
    }

    #[test]
    fn errors_quote_the_packet_and_none_is_sent_about_an_error() {
        let sent = echo(&[5; 1_400]);
        assert_eq!(error_recipient(&sent), Some(THEM.address));
        let reply = error(&sent, IcmpError::HostUnreachable, US, THEM).unwrap();
        assert_eq!(reply.len(), 14 + ERROR_BYTES);
        let (kind, payload) = message(&reply);
        let code = icmpv6::DestUnreachableCode::Address;
        assert_eq!(kind, Icmpv6Type::DestinationUnreachable(code));
        assert_eq!(payload, sent[14..14 + ERROR_BYTES - ERROR_HEADERS]);
        assert_eq!(error_recipient(&reply), None);
        // The ICMPv6 header is also found after a destination options header with padding.
        let mut behind = reply.clone();
        behind.splice(54..54, [58, 0, 1, 4, 0, 0, 0, 0]);
        behind[20] = 60;
        let length = u16::try_from(behind.len() - 54).unwrap();
        behind[18..20].copy_from_slice(&length.to_be_bytes());
        assert_eq!(error_recipient(&behind), None);
        behind[54] = 17;
        assert_eq!(error_recipient(&behind), Some(US.address));
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut bytes in vec(any::<u8>(), 0..160), whole: bool) {
            if bytes.len() > 60 && whole {
                let length = u16::try_from(bytes.len() - 54).unwrap();
                bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                bytes[18..20].copy_from_slice(&length.to_be_bytes());
                bytes[20] = [58, 0, 44, 60][usize::from(bytes[20] & 3)];
            }
            let _ = (echo_reply(&bytes, US.mac), error_recipient(&bytes));
            let _ = error(&bytes, IcmpError::TimeExceeded, US, THEM);
        }
    }
}
