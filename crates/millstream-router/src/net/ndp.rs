//! Neighbour discovery: who has which IPv6 address, asked and answered by ICMPv6.
//!
//! ```text
//! solicitation    us ── to the group of 2001:db8::9's last 24 bits ──> "who has 2001:db8::9? I am at MAC"
//! advertisement   us <── to the address that asked ── "2001:db8::9 is at MAC"
//! ```
//!
//! Source: RFC 4861 (sections 7.1: what is not believed, 7.2: what is said), RFC 4291 sections 2.5.1 and 2.7.1
//! (link-local addresses made of hardware addresses, the groups), RFC 2464 section 7 (groups on Ethernet).

use etherparse::icmpv6::{
    Icmpv6PayloadSlice, NdpOptionSlice, NdpOptionsIterator, NeighborAdvertisementHeader,
};
use etherparse::{Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use ipnet::Ipv6Net;
use std::net::Ipv6Addr;

use crate::net::ipv4_control::Endpoint;

/// Hops of every message: one that a router has passed on has fewer.
const HOPS: u8 = 255;
/// All hosts and routers of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The options that hold the sender's, or the target's hardware address: their number and length, in units of eight bytes.
const FROM: [u8; 2] = [1, 1];
const TARGET: [u8; 2] = [2, 1];

/// What a neighbour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who has `target`?
    Solicitation {
        /// The address in question.
        target: Ipv6Addr,
        /// Who asks; `None` if it has no address yet and would know whether this one is free.
        from: Option<Ipv6Addr>,
        /// The hardware address of who asks, if it is said.
        mac: Option<[u8; 6]>,
    },
    /// `target` is at `mac`.
    Advertisement {
        /// The address in question.
        target: Ipv6Addr,
        /// Its hardware address, if it is said.
        mac: Option<[u8; 6]>,
        /// It answers a solicitation.
        solicited: bool,
        /// It counts where another hardware address is known.
        overrides: bool,
    },
}

/// The message of neighbour discovery that `frame` holds, if it is one that may be believed to come from this link.
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
        // RFC 6980: none in fragments.
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
            // Nobody solicits in the name of a group.
            let wrong = target.is_multicast()
                || source.is_unspecified()
                || destination.is_multicast() && solicited;
            (!wrong).then_some(Message::Advertisement { target, mac, solicited, overrides })
        }
        _ => None,
    }
}

/// The hardware address in the options of a message, if there is one; `None` if the options are broken.
fn link_layer(options: &[u8], kind: [u8; 2]) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    for option in NdpOptionsIterator::from_slice(options) {
        let bytes = match option.ok()? {
            NdpOptionSlice::SourceLinkLayerAddress(option) if kind == FROM => option.as_bytes(),
            NdpOptionSlice::TargetLinkLayerAddress(option) if kind == TARGET => option.as_bytes(),
            _ => continue,
        };
        // The number, the length, and an Ethernet address.
        found = bytes.get(2..).and_then(|address| <[u8; 6]>::try_from(address).ok());
    }
    Some(found)
}

/// Who has `target`? `us` asks.
pub(crate) fn solicitation(us: Endpoint<Ipv6Addr>, target: Ipv6Addr) -> Vec<u8> {
    let group = solicited_node(target);
    let to = Endpoint { mac: group_mac(group), address: group };
    write(us, to, Icmpv6Type::NeighborSolicitation, target, FROM)
}

/// `us` has the address that `them` asked for; everybody is told if who asked has no address.
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
    // Writing to a vector does not fail.
    let _ = builder.write(&mut frame, &payload);
    frame
}

/// The group in which whoever has `address` hears solicitations for it.
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let last = u128::from(address) & 0xff_ffff;
    Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | last)
}

/// The hardware address of a group.
fn group_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// The link-local address of a port with this hardware address.
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

    /// The checksum is right again.
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
    fn addresses_are_made_as_the_standards_say() {
        // RFC 4291, appendix A and section 2.7.1.
        let net = link_local([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(net.to_string(), "fe80::3656:78ff:fe9a:bcde/64");
        let group = solicited_node("4037::01:800:200e:8c6c".parse().unwrap());
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!(group_mac(group), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
    }

    #[test]
    fn a_solicitation_is_understood_and_answered() {
        let asked = solicitation(THEM, US.address);
        assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0x12, 0, 1]);
        let (target, from, mac) = (US.address, Some(THEM.address), Some(THEM.mac));
        assert_eq!(message(&asked), Some(Message::Solicitation { target, from, mac }));
        let said = advertisement(US, Some(THEM));
        assert_eq!(said[..6], THEM.mac);
        let (mac, solicited, overrides) = (Some(US.mac), true, true);
        let expected = Message::Advertisement { target, mac, solicited, overrides };
        assert_eq!(message(&said), Some(expected));
        // To somebody who has no address yet.
        let said = advertisement(US, None);
        assert_eq!(said[..6], [0x33, 0x33, 0, 0, 0, 1]);
        let expected = Message::Advertisement { target, mac, solicited: false, overrides };
        assert_eq!(message(&said), Some(expected));
    }

    #[test]
    fn what_cannot_be_from_this_link_or_is_wrong_is_not_believed() {
        let asked = solicitation(THEM, US.address);
        assert_eq!(mended(asked.clone()), asked);
        let changed = |at: usize, bytes: &[u8]| {
            let mut frame = asked.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            mended(frame)
        };
        let none = [0; 16];
        for (what, frame) in [
            ("has passed a router", changed(21, &[254])),
            ("another code", changed(55, &[1])),
            ("asks for a group", changed(62, &[0xff, 2])),
            ("an option of no length", changed(79, &[0])),
            ("an option that is too long", changed(79, &[2])),
            ("nobody, with a hardware address", changed(22, &none)),
            ("from a group", changed(22, &[0xff, 2])),
        ] {
            assert_eq!(message(&frame), None, "{what}");
        }
        let mut wrong = asked.clone();
        wrong[70] ^= 1;
        assert_eq!(message(&wrong), None, "a wrong checksum");
        // Without the option nobody is a host that looks whether an address is free.
        let mut free = changed(22, &none);
        free.truncate(78);
        free[18..20].copy_from_slice(&[0, 24]);
        let (target, from, mac) = (US.address, None, None);
        assert_eq!(message(&mended(free)), Some(Message::Solicitation { target, from, mac }));
        // Nobody can have solicited what a group is told.
        let mut said = advertisement(US, None);
        said[58] |= 0x40;
        assert_eq!(message(&mended(said)), None);
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(at in 12..86usize, bytes in vec(any::<u8>(), 0..40), cut in 0..90usize) {
            let mut frame = solicitation(THEM, US.address);
            let end = frame.len().min(at + bytes.len());
            frame[at..end].copy_from_slice(&bytes[..end - at]);
            let _ = message(&mended(frame.clone()));
            frame.truncate(cut);
            let _ = message(&frame);
        }
    }
}
