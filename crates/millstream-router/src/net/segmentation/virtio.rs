//! The header that the kernel writes before a packet, or reads, on TAP devices and sockets of AF_PACKET that ask for it.
//!
//! ```text
//! flags (1)  gso_type (1)  hdr_len' bytes (2)  payload of a segment (2)  sum from (2)  sum at (2), in the machine's order
//! ```

use etherparse::checksum::Sum16BitWords;

/// Bytes of the header.
pub const VIRTIO_BYTES: usize = 10;
/// The checksum is to be finished.
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Beside the gso_type: of TCP's flags the first segment has GSO_ECN.
const GSO_ECN: u8 = 0x80;
/// Where TCP's checksum is in its header.
const TCP_CSUM_OFFSET: u16 = 16;

/// What is known of a packet beside its bytes.
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
    /// Reads what the kernel wrote.
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

    /// What the kernel is to read.
    #[inline]
    pub fn bytes(self) -> [u8; VIRTIO_BYTES] {
        let [a, b] = self.hdr_len.to_ne_bytes();
        let [c, d] = self.size.to_ne_bytes();
        let [e, f] = self.csum_start.to_ne_bytes();
        let [g, h] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// Of segments of TCP that were joined: so many bytes of hdr_len, of which TCP's begin at `tcp`, and of payload in
    /// each segment. The checksum is that of the pseudo header.
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

    /// The payload of each segment, bytes, if the packet is to be cut; 0 if it is not known how.
    #[inline]
    pub fn size(self) -> Option<usize> {
        match self.gso_type & !GSO_ECN {
            0 => None,
            GSO_TCPV4 | GSO_TCPV6 | GSO_UDP => Some(self.size.into()),
            _ => Some(0),
        }
    }

    /// Computes the checksum of a packet that is not cut, if that was left to be done.
    pub fn finish(self, frame: &mut [u8]) {
        let (from, at) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        let summed = frame.get_mut(from..).filter(|_| self.flags & NEEDS_CSUM != 0);
        let Some(summed) = summed.filter(|summed| at + 2 <= summed.len()) else { return };
        // What stands there is the pseudo header's sum, and so a part of it.
        let sum = Sum16BitWords::new().add_slice(summed);
        // Of UDP zero stands for none.
        let is_tcp = self.csum_offset == TCP_CSUM_OFFSET;
        let sum =
            if is_tcp { sum.ones_complement() } else { sum.to_ones_complement_with_no_zero() };
        summed[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}
