//! Hashes of flows, for the queues of a path with flows.
//!
//! The hash is keyed: hosts must not choose the flows that share a queue.

use millstream_scenario::{FlowBy, HostBy};
use std::hash::{BuildHasher, RandomState};

use crate::net::header::{ETHERNET, any_transport, is_v6};

/// Hashes the flows of packets.
#[derive(Clone, Debug)]
pub(crate) struct FlowHasher {
    /// Odd multipliers.
    keys: [u64; 2],
}

impl Default for FlowHasher {
    fn default() -> Self {
        let random = RandomState::new();
        Self { keys: [0u8, 1].map(|number| random.hash_one(number) | 1) }
    }
}

impl FlowHasher {
    /// Returns the hash of the flow of an IP packet in `frame`. Fragments have the flow of their
    /// addresses and protocol; other frames have one flow.
    #[inline]
    pub(crate) fn hash(&self, by: FlowBy, frame: &[u8]) -> u32 {
        let Some(of) = any_transport(frame) else { return 0 };
        let v6 = is_v6(frame);
        let (addresses, length) = if v6 { (ETHERNET + 8, 16) } else { (ETHERNET + 12, 4) };
        let address = |number: usize| {
            let start = addresses + number * length;
            frame.get(start..start + length).unwrap_or_default()
        };
        let ports = || {
            let has_ports = matches!(of.protocol, 6 | 17) && !of.fragment;
            let ports = frame.get(of.start..of.start + 4).filter(|_| has_ports);
            let ports = ports.map_or([0; 4], |ports| [ports[0], ports[1], ports[2], ports[3]]);
            u64::from(u32::from_be_bytes(ports)) << 8 | u64::from(of.protocol)
        };
        let mixed = match by {
            FlowBy::FiveTuple => {
                self.mix(self.mix(self.mix(0, address(0)), address(1)), &ports().to_le_bytes())
            }
            FlowBy::Source => self.mix(0, address(0)),
            FlowBy::Destination => self.mix(0, address(1)),
            FlowBy::Dscp => {
                let class = if v6 {
                    frame[ETHERNET] << 4 | frame[ETHERNET + 1] >> 4
                } else {
                    frame[ETHERNET + 1]
                };
                // Each code point has its own queue.
                return u32::from(class >> 2);
            }
        };
        // Every bit of the high half depends on all bits: a bucket is the hash modulo their number.
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u32::try_from(mixed >> 32).unwrap_or_default()
    }

    /// Returns the hash of the host of an IP packet in `frame`; other frames have one host.
    #[inline]
    pub(crate) fn host(&self, by: HostBy, frame: &[u8]) -> u32 {
        let by = match by {
            HostBy::Source => FlowBy::Source,
            HostBy::Destination => FlowBy::Destination,
        };
        self.hash(by, frame)
    }

    /// Mixes bytes into a hash, eight at a time.
    #[inline]
    fn mix(&self, hash: u64, bytes: &[u8]) -> u64 {
        bytes.chunks(8).fold(hash, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = u128::from(u64::from_le_bytes(word) ^ self.keys[0] ^ hash);
            let product = word * u128::from(self.keys[1]);
            // The low half; both halves are below 2^64.
            #[allow(clippy::cast_possible_truncation)]
            let halves = [product as u64, (product >> 64) as u64];
            halves[0] ^ halves[1]
        })
    }
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
        for _ in 0..100 {
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
