//! The virtio network header, which precedes packets on TAP devices and AF_PACKET sockets that
//! request it.
//!
//! ```text
//! flags (1)  gso_type (1)  hdr_len (2)  gso_size (2)  csum_start (2)  csum_offset (2), native
//! order
//! ```

use etherparse::checksum::Sum16BitWords;

/// Bytes of the header.
pub const VIRTIO_BYTES: usize = 10;
/// Flag: the checksum must be completed.
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Flag in `gso_type`: the first segment has CWR.
const GSO_ECN: u8 = 0x80;
/// Offset of the checksum in the TCP header.
const TCP_CSUM_OFFSET: u16 = 16;

/// The virtio network header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtio {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    /// Payload of each segment but the last, bytes.
    size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Virtio {
    /// Parses a header.
    #[inline]
    pub fn read(bytes: [u8; VIRTIO_BYTES]) -> Self {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = bytes;
        let word = |a, b| u16::from_ne_bytes([a, b]);
        Self {
            flags,
            gso_type,
            hdr_len: word(a, b),
            size: word(c, d),
            csum_start: word(e, f),
            csum_offset: word(g, h),
        }
    }

    /// Returns the header as bytes.
    #[inline]
    pub fn bytes(self) -> [u8; VIRTIO_BYTES] {
        let [a, b] = self.hdr_len.to_ne_bytes();
        let [c, d] = self.size.to_ne_bytes();
        let [e, f] = self.csum_start.to_ne_bytes();
        let [g, h] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// Creates the header of a coalesced TCP packet. It has `hdr_len` bytes of headers, TCP's at
    /// `tcp`, and `size` payload bytes per segment. The checksum field holds the pseudo-header sum.
    pub(super) fn coalesced(v6: bool, cwr: bool, hdr_len: u16, tcp: u16, size: u16) -> Self {
        let gso_type = if v6 { GSO_TCPV6 } else { GSO_TCPV4 } | if cwr { GSO_ECN } else { 0 };
        Self {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len,
            size,
            csum_start: tcp,
            csum_offset: TCP_CSUM_OFFSET,
        }
    }

    /// Returns the payload bytes per segment if the packet must be segmented; 0 for an unknown
    /// kind.
    #[inline]
    pub fn size(self) -> Option<usize> {
        match self.gso_type & !GSO_ECN {
            0 => None,
            GSO_TCPV4 | GSO_TCPV6 | GSO_UDP => Some(self.size.into()),
            _ => Some(0),
        }
    }

    /// Completes the checksum of a packet that is not segmented, if required.
    pub fn finish(self, frame: &mut [u8]) {
        let (from, at) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        let summed = frame.get_mut(from..).filter(|_| self.flags & NEEDS_CSUM != 0);
        let Some(summed) = summed.filter(|summed| at + 2 <= summed.len()) else { return };
        // The field already holds the pseudo-header sum.
        let sum = Sum16BitWords::new().add_slice(summed);
        // In UDP, 0 means no checksum.
        let is_tcp = self.csum_offset == TCP_CSUM_OFFSET;
        let sum =
            if is_tcp { sum.ones_complement() } else { sum.to_ones_complement_with_no_zero() };
        summed[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}
