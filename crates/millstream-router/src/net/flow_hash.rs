//! Hashes of flows, for the queues of a path with flows.
//!
//! The hash is keyed: hosts must not choose the flows that share a queue.

use millstream_scenario::{FlowBy, FlowFields, HostBy};
use std::hash::{BuildHasher, RandomState};

use crate::net::header::{ETHERNET, any_transport, is_v6};

/// Hashes the flows of packets with random keys.
#[derive(Clone, Debug)]
pub(crate) struct FlowHasher(millstream_scenario::FlowHasher);

impl Default for FlowHasher {
    fn default() -> Self {
        let random = RandomState::new();
        Self(millstream_scenario::FlowHasher::new([0u8, 1].map(|number| random.hash_one(number))))
    }
}

impl FlowHasher {
    /// Returns the hash of the flow of an IP packet in `frame`. Fragments have the flow of their
    /// addresses and protocol; other frames have one flow.
    #[inline]
    pub(crate) fn hash(&self, by: FlowBy, frame: &[u8]) -> u32 {
        fields(frame).map_or(0, |packet| self.0.hash(by, &packet))
    }

    /// Returns the hash of the host of an IP packet in `frame`; other frames have one host.
    #[inline]
    pub(crate) fn host(&self, by: HostBy, frame: &[u8]) -> u32 {
        fields(frame).map_or(0, |packet| self.0.host(by, &packet))
    }
}

/// Returns the fields of the flow of an IP packet in `frame`.
#[inline]
fn fields(frame: &[u8]) -> Option<FlowFields<'_>> {
    let of = any_transport(frame)?;
    let v6 = is_v6(frame);
    let (addresses, length) = if v6 { (ETHERNET + 8, 16) } else { (ETHERNET + 12, 4) };
    let address = |number: usize| {
        let start = addresses + number * length;
        frame.get(start..start + length).unwrap_or_default()
    };
    let has_ports = matches!(of.protocol, 6 | 17) && !of.fragment;
    let ports = frame.get(of.start..).and_then(|rest| rest.first_chunk()).filter(|_| has_ports);
    let traffic_class =
        if v6 { frame[ETHERNET] << 4 | frame[ETHERNET + 1] >> 4 } else { frame[ETHERNET + 1] };
    Some(FlowFields {
        source: address(0),
        destination: address(1),
        protocol: of.protocol,
        ports: ports.copied().unwrap_or_default(),
        traffic_class,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use std::collections::HashSet;

    fn packet(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
        let packet = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(source, destination, 64);
        let mut frame = Vec::new();
        packet.udp(ports.0, ports.1).write(&mut frame, &[0; 20]).unwrap();
        frame
    }

    #[test]
    fn packets_of_a_flow_have_one_hash_and_few_flows_share_one() {
        let frame = |port| packet([10, 1, 0, 1], [10, 2, 0, 1], (port, 80));
        let frames: Vec<Vec<u8>> = (0..10_000u16).map(frame).collect();
        for _ in 0..20 {
            let hasher = FlowHasher::default();
            let hash = |frame: &Vec<u8>| hasher.hash(FlowBy::FiveTuple, frame);
            let hashes: HashSet<u32> = frames.iter().map(hash).collect();
            assert_eq!(hashes, frames.iter().map(hash).collect());
            assert!(hashes.len() > 9_990, "{} hashes of 10,000 flows", hashes.len());
            let buckets: HashSet<u32> = hashes.iter().map(|hash| hash % 1_024).collect();
            assert!(buckets.len() > 1_000, "{} of 1,024 buckets, {hasher:?}", buckets.len());
        }
    }

    #[test]
    fn each_way_to_group_packets_reads_its_own_fields() {
        let hasher = FlowHasher::default();
        let [one, port, destination, source] = [
            packet([10, 1, 0, 1], [10, 2, 0, 1], (1, 2)),
            packet([10, 1, 0, 1], [10, 2, 0, 1], (1, 3)),
            packet([10, 1, 0, 1], [10, 2, 0, 2], (1, 2)),
            packet([10, 1, 0, 2], [10, 2, 0, 1], (1, 2)),
        ];
        let alike = |by, other: &[u8]| hasher.hash(by, &one) == hasher.hash(by, other);
        for (by, expected) in [
            (FlowBy::FiveTuple, [false, false, false]),
            (FlowBy::Source, [true, true, false]),
            (FlowBy::Destination, [true, false, true]),
            (FlowBy::Dscp, [true, true, true]),
        ] {
            assert_eq!([&port, &destination, &source].map(|of| alike(by, of)), expected, "{by:?}");
        }
        let host = |by, other: &[u8]| hasher.host(by, &one) == hasher.host(by, other);
        for (by, expected) in
            [(HostBy::Source, [true, true, false]), (HostBy::Destination, [true, false, true])]
        {
            assert_eq!([&port, &destination, &source].map(|of| host(by, of)), expected, "{by:?}");
        }
        let mut other = one.clone();
        other[15] = 46 << 2;
        assert_eq!(hasher.hash(FlowBy::Dscp, &other), 46);
        assert_eq!(hasher.hash(FlowBy::FiveTuple, &[0; 20]), 0, "not an IP packet");
    }

    #[test]
    fn later_fragments_have_the_flow_of_their_addresses() {
        let hasher = FlowHasher::default();
        let [mut one, mut other] = [(1, 2), (3, 4)].map(|ports| packet([1; 4], [2; 4], ports));
        (one[20], other[20]) = (0x20, 0x20);
        assert_eq!(hasher.hash(FlowBy::FiveTuple, &one), hasher.hash(FlowBy::FiveTuple, &other));
    }
}
