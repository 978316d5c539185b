//! Cache of flows and their paths: a packet of a recent flow skips the classifier.
//!
//! It holds forwarded IPv4 packets without options. It is unused while a path has a filter, because
//! a filter may read any byte. The key covers every field that a rule may match. The cache is
//! direct-mapped, so a lookup is one comparison for any traffic.

use crate::ids::{PathId, PortId};
use crate::net::address::{SLOTS, slot};
use crate::net::header::ETHERNET;
use crate::net::vlan_tag::Tag;

/// The fields of an IPv4 packet that decide its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowKey {
    /// Source and destination address.
    addresses: u64,
    /// Both ports, the protocol, the type of service and the input.
    rest: u64,
    tag: Option<Tag>,
}

/// EtherType IPv4, version 4 and a header of 20 bytes.
const IPV4_NO_OPTIONS: [u8; 3] = [8, 0, 0x45];

impl FlowKey {
    /// Returns the key of a frame received on `input` with `tag` for the hardware address `to`;
    /// `None` if the packet must be classified.
    #[inline]
    pub(crate) fn parse(
        frame: &[u8],
        tag: Option<Tag>,
        input: PortId,
        to: [u8; 6],
    ) -> Option<Self> {
        let head = frame.first_chunk::<{ ETHERNET + 24 }>()?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let total = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let fragment = u16::from_be_bytes([head[20], head[21]]) & 0x3fff;
        let protocol = head[23];
        let plain = head[..6] == to
            && head[12..15] == IPV4_NO_OPTIONS
            && total >= 24
            && total <= frame.len() - ETHERNET
            && fragment == 0
            && (protocol == 6 || protocol == 17)
            && input.0 < 1 << 16;
        let addresses = u64::from(word(26)) << 32 | u64::from(word(30));
        let rest =
            u64::from(word(34)) << 32 | u64::from(protocol) << 24 | u64::from(head[15]) << 16;
        plain.then_some(Self { addresses, rest: rest | input.0 as u64, tag })
    }

    #[inline]
    fn slot(self) -> usize {
        slot(self.addresses ^ self.rest.rotate_left(23))
    }
}

/// The cache: flow to path.
#[derive(Clone, Debug)]
pub(crate) struct FlowCache {
    paths: Vec<(FlowKey, PathId)>,
}

impl Default for FlowCache {
    fn default() -> Self {
        // No packet has the default key: its protocol has no ports.
        Self { paths: vec![(FlowKey::default(), PathId(0)); SLOTS] }
    }
}

impl FlowCache {
    /// Returns the path of a cached flow.
    #[inline]
    pub(crate) fn get(&self, key: FlowKey) -> Option<PathId> {
        let (known, path) = self.paths[key.slot()];
        (known == key).then_some(path)
    }

    /// Caches `path` for the flow.
    #[inline]
    pub(crate) fn insert(&mut self, key: FlowKey, path: PathId) {
        self.paths[key.slot()] = (key, path);
    }

    /// Empties the cache; call after rules or addresses change.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::header::Header;
    use proptest::prelude::*;

    proptest! {
        /// Packets with equal keys agree in every field that a rule can match.
        #[test]
        fn equal_flow_keys_imply_equal_headers(
            mut frames in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 36..64), 2,
            ),
            plain in any::<[bool; 2]>(), same in any::<[bool; 24]>(),
            inputs in any::<[bool; 2]>(), tags in any::<[Option<bool>; 2]>(),
        ) {
            for (frame, plain) in frames.iter_mut().zip(plain) {
                if plain {
                    frame.resize(60, 0);
                    frame[..6].copy_from_slice(&[2; 6]);
                    frame[12..15].copy_from_slice(&IPV4_NO_OPTIONS);
                    let total = 24 + u8::from(frame[17] & 3 == 3) * 36;
                    frame[16..18].copy_from_slice(&[0, total]);
                    let fragment = frame[20] & 0x40;
                    frame[20..22].copy_from_slice(&[fragment, 0]);
                    frame[23] = [6, 17, 17, 1][usize::from(frame[23] & 3)];
                }
            }
            let (first, second) = frames.split_at_mut(1);
            for (at, same) in same.into_iter().enumerate() {
                if same {
                    second[0][at + 12] = first[0][at + 12];
                }
            }
            let tags = tags.map(|tag| tag.map(|one| Tag::default().with_pcp(one.into())));
            let flow = |at: usize| {
                FlowKey::parse(&frames[at], tags[at], PortId(inputs[at].into()), [2; 6])
            };
            let flows = [flow(0), flow(1)];
            let headers = [Header::parse(&frames[0]), Header::parse(&frames[1])];
            for (flow, header) in flows.iter().zip(headers) {
                if flow.is_some() {
                    let header = header.expect("a frame with a flow is a packet");
                    prop_assert!(header.to == [2; 6] && header.ports.is_some());
                }
            }
            if let [Some(one), Some(other)] = flows {
                let alike =
                    headers[0] == headers[1] && inputs[0] == inputs[1] && tags[0] == tags[1];
                // Rules ignore two bits of the type of service.
                prop_assert!(alike || one != other, "{one:?}");
            }
        }
    }
}
