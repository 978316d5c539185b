//! The flows of captured packets.

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket};
use millstream::aqm::Ecn;
use millstream::flow_queue::Flow;
use millstream_traffic::{FlowOf, Linktype, Random};

use crate::flow_hash::{FlowFields, FlowHasher};
use crate::scenario::Scenario;

/// The random sequence of the keys; those of streams and links have lower numbers.
const KEY_SEQUENCE: u64 = u64::MAX;

/// Returns the function that finds the flows of `scenario` in captured packets.
///
/// Fragments have the flow of their addresses and protocol. VLAN tags are not part of a flow.
/// Frames without an IP packet have one flow, which is not ECN-capable.
pub(super) fn of(scenario: &Scenario) -> FlowOf {
    let mut random = Random::new(scenario.seed, KEY_SEQUENCE);
    let hasher = FlowHasher::new([0, 1].map(|_| random.below(u64::MAX)));
    // What a flow is, is a matter of the stream that has the queue.
    let queues = scenario.streams.iter().enumerate();
    let queues = queues.map(|(at, stream)| &scenario.streams[stream.shares.unwrap_or(at)]);
    let by: Vec<_> = queues.map(|queue| (queue.flow_by, queue.hosts_by)).collect();
    Box::new(move |stream, link_type, captured| {
        let Some(packet) = sliced(link_type, captured) else { return Flow::default() };
        let Some(fields) = fields(&packet) else { return Flow::default() };
        let (flow_by, hosts_by) = by[stream as usize];
        Flow {
            hash: hasher.hash(flow_by, &fields),
            host: hosts_by.map_or(0, |by| hasher.host(by, &fields)),
            ecn: Ecn::of_traffic_class(fields.traffic_class),
        }
    })
}

/// Returns the headers of a captured packet, which may be truncated.
fn sliced(link_type: Linktype, captured: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let with_type = |header: usize, at: usize| {
        let number = captured.get(at..)?.first_chunk()?;
        let ether_type = EtherType(u16::from_be_bytes(*number));
        Some(LaxSlicedPacket::from_ether_type(ether_type, captured.get(header..)?))
    };
    match link_type {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(captured).ok(),
        // The values of `DLT_RAW` differ between systems; files have 101.
        Linktype(12 | 14) | Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => {
            LaxSlicedPacket::from_ip(captured).ok()
        }
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(captured.get(4..)?).ok(),
        Linktype::LINUX_SLL => with_type(16, 14),
        Linktype::LINUX_SLL2 => with_type(20, 0),
        _ => None,
    }
}

/// Returns the fields of the flow of an IP packet.
fn fields<'a>(packet: &'a LaxSlicedPacket<'_>) -> Option<FlowFields<'a>> {
    let (source, destination, traffic_class, payload) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(of) => {
            let header = of.header().slice();
            (&header[12..16], &header[16..20], header[1], of.payload())
        }
        LaxNetSlice::Ipv6(of) => {
            let header = of.header().slice();
            (&header[8..24], &header[24..40], header[0] << 4 | header[1] >> 4, of.payload())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let protocol = payload.ip_number.0;
    let has_ports = matches!(protocol, 6 | 17) && !payload.fragmented;
    let ports = payload.payload.first_chunk().filter(|_| has_ports).copied();
    Some(FlowFields {
        source,
        destination,
        protocol,
        ports: ports.unwrap_or_default(),
        traffic_class,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [u8; 12] = [2; 12];

    /// Returns the protocol, the ports and the type of service of a captured packet.
    fn read(link_type: Linktype, captured: &[u8]) -> Option<(u8, [u8; 4], u8)> {
        let packet = sliced(link_type, captured)?;
        let of = fields(&packet)?;
        assert_eq!(of.source.len(), of.destination.len());
        Some((of.protocol, of.ports, of.traffic_class))
    }

    /// Returns an IPv4 packet of UDP with this first byte of flags and fragment offset.
    fn v4(flags: u8) -> Vec<u8> {
        let header = [0x45, 0xb9, 0, 40, 0, 1, flags, 0, 64, 17, 0, 0];
        [&header[..], &[10, 0, 0, 1, 10, 0, 0, 2], &[1, 2, 3, 4, 0, 20, 0, 0], &[0; 12]].concat()
    }

    /// Returns an IPv6 packet of TCP behind destination options.
    fn v6() -> Vec<u8> {
        let addresses = [[1; 16], [2; 16]].concat();
        let options = [6, 0, 1, 4, 0, 0, 0, 0];
        let header = [0x6b, 0x90, 0, 0, 0, 28, 60, 64];
        [&header[..], &addresses, &options, &[1, 2, 3, 4], &[0; 8], &[0x50], &[0; 7]].concat()
    }

    #[test]
    fn the_packet_is_found_behind_every_link_header() {
        let (udp, tcp) = (Some((17, [1, 2, 3, 4], 0xb9)), Some((6, [1, 2, 3, 4], 0xb9)));
        let with = |header: &[u8], packet: Vec<u8>| [header, &packet].concat();
        let ethernet = |types: &[u8]| [&ADDRESSES, types].concat();
        for (link_type, header) in [
            (Linktype::ETHERNET, ethernet(&[8, 0])),
            (Linktype::ETHERNET, ethernet(&[0x81, 0, 0, 5, 8, 0])),
            (Linktype::ETHERNET, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5, 8, 0])),
            (Linktype::RAW, vec![]),
            (Linktype::NULL, vec![2, 0, 0, 0]),
            (Linktype::LINUX_SLL, [&[0; 14][..], &[8, 0]].concat()),
            (Linktype::LINUX_SLL2, [&[8, 0][..], &[0; 18]].concat()),
        ] {
            assert_eq!(read(link_type, &with(&header, v4(0))), udp, "{link_type:?} {header:?}");
        }
        assert_eq!(read(Linktype::ETHERNET, &with(&ethernet(&[0x86, 0xdd]), v6())), tcp);
        assert_eq!(read(Linktype::RAW, &v6()), tcp);
        assert_eq!(read(Linktype(147), &v4(0)), None, "a private link type");
    }

    #[test]
    fn fragments_have_no_ports_and_truncated_packets_have_theirs() {
        // More fragments; a fragment offset.
        for flags in [0x20, 1] {
            assert_eq!(read(Linktype::RAW, &v4(flags)), Some((17, [0; 4], 0xb9)));
        }
        assert_eq!(read(Linktype::RAW, &v4(0)[..24]), Some((17, [1, 2, 3, 4], 0xb9)));
        assert_eq!(read(Linktype::RAW, &v4(0)[..23]), Some((17, [0; 4], 0xb9)));
        assert_eq!(read(Linktype::RAW, &v4(0)[..19]), None);
        let arp = [&ADDRESSES[..], &[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        for captured in [&arp[..], &ADDRESSES, &[]] {
            assert_eq!(read(Linktype::ETHERNET, captured), None);
        }
        for link_type in [Linktype::NULL, Linktype::LINUX_SLL, Linktype::LINUX_SLL2] {
            assert_eq!(read(link_type, &[8]), None);
        }
    }
}
