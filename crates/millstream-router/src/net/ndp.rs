//! Neighbour discovery: resolves IPv6 addresses to hardware addresses by ICMPv6.
//!
//! ```text
//! solicitation    router ── to the solicited-node group ──> "who has 2001:db8::9?"
//! advertisement   router <── to the soliciting address ──── "2001:db8::9 is at MAC"
//! ```
//!
//! Source: RFC 4861 (section 7.1: validation; 7.2: address resolution); RFC 4291 sections 2.5.1 and
//! 2.7.1 (link-local addresses, multicast groups); RFC 2464 section 7 (multicast on Ethernet).

use etherparse::icmpv6::{
    Icmpv6PayloadSlice, NdpOptionSlice, NdpOptionsIterator, NeighborAdvertisementHeader,
};
use etherparse::{Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use ipnet::Ipv6Net;
use std::net::Ipv6Addr;

use crate::net::ipv4_control::Endpoint;

/// Hop limit of every message: a forwarded one has less.
const HOPS: u8 = 255;
/// The all-nodes group of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Type and length, in units of eight bytes, of the link-layer address options: source and target.
const FROM: [u8; 2] = [1, 1];
const TARGET: [u8; 2] = [2, 1];

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Asks for the hardware address of `target`.
    Solicitation {
        /// The address to resolve.
        target: Ipv6Addr,
        /// The sender; `None` for duplicate address detection.
        from: Option<Ipv6Addr>,
        /// The sender's hardware address, if present.
        mac: Option<[u8; 6]>,
    },
    /// Announces that `target` is at `mac`.
    Advertisement {
        /// The announced address.
        target: Ipv6Addr,
        /// The hardware address of `target`, if present.
        mac: Option<[u8; 6]>,
        /// Whether it answers a solicitation.
        solicited: bool,
        /// Whether it replaces a different known hardware address.
        overrides: bool,
    },
}

/// Parses the neighbour discovery message in `frame`; `None` if there is none or validation fails.
pub(crate) fn message(frame: &[u8]) -> Option<Message> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) =
        (&packet.net, &packet.transport)
    else {
        return None;
    };
    let header = ip.header();
    let (source, destination) = (header.source_addr(), header.destination_addr());
    let right = header.hop_limit() == HOPS
        && icmp.code_u8() == 0
        && icmp.is_checksum_valid(header.source(), header.destination())
        // RFC 6980 forbids fragments.
        && !ip.is_payload_fragmented()
        && !source.is_multicast();
    if !right {
        return None;
    }
    match (icmp.icmp_type(), icmp.payload_slice().ok()?) {
        (Icmpv6Type::NeighborSolicitation, Icmpv6PayloadSlice::NeighborSolicitation(payload)) => {
            let target = payload.target_address();
            let mac = link_layer(payload.options(), FROM)?;
            let from = Some(source).filter(|source| !source.is_unspecified());
            let to_group = destination == solicited_node(target);
            let fits = from.is_some() || to_group && mac.is_none();
            (fits && !target.is_multicast()).then_some(Message::Solicitation { target, from, mac })
        }
        (
            Icmpv6Type::NeighborAdvertisement(flags),
            Icmpv6PayloadSlice::NeighborAdvertisement(payload),
        ) => {
            let target = payload.target_address();
            let mac = link_layer(payload.options(), TARGET)?;
            let (solicited, overrides) = (flags.solicited, flags.r#override);
            // A multicast address cannot solicit.
            let wrong = target.is_multicast()
                || source.is_unspecified()
                || destination.is_multicast() && solicited;
            (!wrong).then_some(Message::Advertisement { target, mac, solicited, overrides })
        }
        _ => None,
    }
}

/// Returns the link-layer address option of a message, if present; `None` if an option is
/// malformed.
fn link_layer(options: &[u8], kind: [u8; 2]) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    for option in NdpOptionsIterator::from_slice(options) {
        let bytes = match option.ok()? {
            NdpOptionSlice::SourceLinkLayerAddress(option) if kind == FROM => option.as_bytes(),
            NdpOptionSlice::TargetLinkLayerAddress(option) if kind == TARGET => option.as_bytes(),
            _ => continue,
        };
        // The option is type, length and an Ethernet address.
        found = bytes.get(2..).and_then(|address| <[u8; 6]>::try_from(address).ok());
    }
    Some(found)
}

/// Builds a solicitation of `us` for `target`.
pub(crate) fn solicitation(us: Endpoint<Ipv6Addr>, target: Ipv6Addr) -> Vec<u8> {
    let group = solicited_node(target);
    let to = Endpoint { mac: group_mac(group), address: group };
    write(us, to, Icmpv6Type::NeighborSolicitation, target, FROM)
}

/// Builds an advertisement of `us` to `them`, or to all nodes if the soliciting host has no
/// address.
pub(crate) fn advertisement(us: Endpoint<Ipv6Addr>, them: Option<Endpoint<Ipv6Addr>>) -> Vec<u8> {
    let to = them.unwrap_or(Endpoint { mac: group_mac(ALL_NODES), address: ALL_NODES });
    let solicited = them.is_some();
    let flags = NeighborAdvertisementHeader { router: true, solicited, r#override: true };
    write(us, to, Icmpv6Type::NeighborAdvertisement(flags), us.address, TARGET)
}

fn write(
    us: Endpoint<Ipv6Addr>,
    to: Endpoint<Ipv6Addr>,
    kind: Icmpv6Type,
    target: Ipv6Addr,
    option: [u8; 2],
) -> Vec<u8> {
    let payload = [&target.octets()[..], &option, &us.mac].concat();
    let builder = PacketBuilder::ethernet2(us.mac, to.mac);
    let builder = builder.ipv6(us.address.octets(), to.address.octets(), HOPS).icmpv6(kind);
    let mut frame = Vec::new();
    // Writing to a `Vec` cannot fail.
    let _ = builder.write(&mut frame, &payload);
    frame
}

/// Returns the solicited-node group of `address`.
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let last = u128::from(address) & 0xff_ffff;
    Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | last)
}

/// Returns the hardware address of a multicast group.
fn group_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Returns the link-local address of a port with the hardware address `mac`.
pub(crate) fn link_local(mac: [u8; 6]) -> Ipv6Net {
    let [a, b, c, d, e, f] = mac;
    let half = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    let address = Ipv6Addr::from(0xfe80 << 112 | u128::from(half));
    Ipv6Net::new_assert(address, 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const fn host(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0x12, last)
    }

    const US: Endpoint<Ipv6Addr> = Endpoint { mac: [2, 0, 0, 0, 0, 1], address: host(1) };
    const THEM: Endpoint<Ipv6Addr> = Endpoint { mac: [2, 0, 0, 0, 0, 9], address: host(9) };

    /// Recomputes the checksum.
    fn mended(mut frame: Vec<u8>) -> Vec<u8> {
        let sum = etherparse::checksum::Sum16BitWords::new();
        frame[56..58].fill(0);
        let length = u16::try_from(frame.len() - 54).unwrap();
        let sum = sum.add_slice(&frame[22..54]).add_2bytes([0, 58]);
        let sum = sum.add_2bytes(length.to_be_bytes()).add_slice(&frame[54..]);
        frame[56..58].copy_from_slice(&sum.ones_complement().to_ne_bytes());
        frame
    }

    #[test]
    fn link_local_and_group_addresses_match_rfc_4291() {
        // RFC 4291, appendix A and section 2.7.1.
        let net = link_local([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(net.to_string(), "fe80::3656:78ff:fe9a:bcde/64");
        let group = solicited_node("4037::01:800:200e:8c6c".parse().unwrap());
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!(group_mac(group), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
    }

    #[test]
    fn solicitations_and_advertisements_are_parsed() {
        let request = solicitation(THEM, US.address);
        assert_eq!(request[..6], [0x33, 0x33, 0xff, 0x12, 0, 1]);
        let (target, from, mac) = (US.address, Some(THEM.address), Some(THEM.mac));
        assert_eq!(message(&request), Some(Message::Solicitation { target, from, mac }));
        let reply = advertisement(US, Some(THEM));
        assert_eq!(reply[..6], THEM.mac);
        let (mac, solicited, overrides) = (Some(US.mac), true, true);
        let expected = Message::Advertisement { target, mac, solicited, overrides };
        assert_eq!(message(&reply), Some(expected));
        // The receiver is a host without an address.
        let reply = advertisement(US, None);
        assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
        let expected = Message::Advertisement { target, mac, solicited: false, overrides };
        assert_eq!(message(&reply), Some(expected));
    }

    #[test]
    fn invalid_messages_are_ignored() {
        let request = solicitation(THEM, US.address);
        assert_eq!(mended(request.clone()), request);
        let changed = |at: usize, bytes: &[u8]| {
            let mut frame = request.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            mended(frame)
        };
        let none = [0; 16];
        for (what, frame) in [
            ("a router has forwarded it", changed(21, &[254])),
            ("a code other than 0", changed(55, &[1])),
            ("a multicast target", changed(62, &[0xff, 2])),
            ("an option of length 0", changed(79, &[0])),
            ("an option that is too long", changed(79, &[2])),
            ("an unspecified source with a hardware address", changed(22, &none)),
            ("a multicast source", changed(22, &[0xff, 2])),
        ] {
            assert_eq!(message(&frame), None, "{what}");
        }
        let mut wrong = request.clone();
        wrong[70] ^= 1;
        assert_eq!(message(&wrong), None, "a wrong checksum");
        // A solicitation without source and option is duplicate address detection.
        let mut free = changed(22, &none);
        free.truncate(78);
        free[18..20].copy_from_slice(&[0, 24]);
        let (target, from, mac) = (US.address, None, None);
        assert_eq!(message(&mended(free)), Some(Message::Solicitation { target, from, mac }));
        // A multicast advertisement answers no solicitation.
        let mut reply = advertisement(US, None);
        reply[58] |= 0x40;
        assert_eq!(message(&mended(reply)), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(
            at in 12..86usize, bytes in vec(any::<u8>(), 0..40), cut in 0..90usize
        ) {
            let mut frame = solicitation(THEM, US.address);
            let end = frame.len().min(at + bytes.len());
            frame[at..end].copy_from_slice(&bytes[..end - at]);
            let _ = message(&mended(frame.clone()));
            frame.truncate(cut);
            let _ = message(&frame);
        }
    }
}
