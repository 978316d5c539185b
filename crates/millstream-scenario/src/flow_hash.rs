//! Hashes of flows, for the queues of a path or a stream with flows.

use crate::router::{FlowBy, HostBy};

/// The fields of an IP packet that identify its flow and its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFields<'a> {
    /// Source address: 4 or 16 bytes.
    pub source: &'a [u8],
    /// Destination address.
    pub destination: &'a [u8],
    /// IP protocol number; in IPv6 the one after the extension headers.
    pub protocol: u8,
    /// Source and destination port of TCP and UDP as in the packet; 0 for other protocols and for
    /// fragments, so that all fragments of a packet have one flow.
    pub ports: [u8; 4],
    /// Type of service or traffic class.
    pub traffic_class: u8,
}

/// Hashes the flows of packets with keys.
#[derive(Clone, Debug)]
pub struct FlowHasher {
    /// Odd multipliers.
    keys: [u64; 2],
}

impl FlowHasher {
    /// Returns a hasher. Secret keys prevent hosts from choosing the flows that share a queue.
    #[must_use]
    pub fn new(keys: [u64; 2]) -> Self {
        Self { keys: keys.map(|key| key | 1) }
    }

    /// Returns the hash of the flow of a packet.
    #[inline]
    #[must_use]
    pub fn hash(&self, by: FlowBy, packet: &FlowFields<'_>) -> u32 {
        let mixed = match by {
            FlowBy::FiveTuple => {
                let ports = u64::from(u32::from_be_bytes(packet.ports)) << 8;
                let ports = (ports | u64::from(packet.protocol)).to_le_bytes();
                self.mix(self.mix(self.mix(0, packet.source), packet.destination), &ports)
            }
            FlowBy::Source => self.mix(0, packet.source),
            FlowBy::Destination => self.mix(0, packet.destination),
            // Each code point has its own queue.
            FlowBy::Dscp => return u32::from(packet.traffic_class >> 2),
        };
        // Every bit of the high half depends on all bits: a bucket is the hash modulo their number.
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u32::try_from(mixed >> 32).unwrap_or_default()
    }

    /// Returns the hash of the host of a packet.
    #[inline]
    #[must_use]
    pub fn host(&self, by: HostBy, packet: &FlowFields<'_>) -> u32 {
        let by = match by {
            HostBy::Source => FlowBy::Source,
            HostBy::Destination => FlowBy::Destination,
        };
        self.hash(by, packet)
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
