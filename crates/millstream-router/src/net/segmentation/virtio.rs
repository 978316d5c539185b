//! The header that the kernel writes before a packet, or reads, on TAP devices and sockets of AF_PACKET that ask for it.
//!
//! ```text
//! flags (1)  kind (1)  headers' bytes (2)  payload of a segment (2)  sum from (2)  sum at (2), in the machine's order
//! ```

use etherparse::checksum::Sum16BitWords;

/// Bytes of the header.
pub const VIRTIO_BYTES: usize = 10;
/// The checksum is to be finished.
const NEEDS_SUM: u8 = 1;
const TCP_4: u8 = 1;
const TCP_6: u8 = 4;
const UDP: u8 = 5;
/// Beside the kind: of TCP's flags the first segment has CWR.
const CWR: u8 = 0x80;
/// Where TCP's checksum is in its header.
const TCP_SUM: u16 = 16;

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtio {
    flags: u8,
    kind: u8,
    headers: u16,
    /// Payload of each segment but the last, bytes.
    size: u16,
    sum_from: u16,
    sum_at: u16,
}

impl Virtio {
    /// Reads what the kernel wrote.
    #[inline]
    pub fn read(bytes: [u8; VIRTIO_BYTES]) -> Self {
        let [flags, kind, a, b, c, d, e, f, g, h] = bytes;
        let word = |a, b| u16::from_ne_bytes([a, b]);
        Self {
            flags,
            kind,
            headers: word(a, b),
            size: word(c, d),
            sum_from: word(e, f),
            sum_at: word(g, h),
        }
    }

    /// What the kernel is to read.
    #[inline]
    pub fn bytes(self) -> [u8; VIRTIO_BYTES] {
        let [a, b] = self.headers.to_ne_bytes();
        let [c, d] = self.size.to_ne_bytes();
        let [e, f] = self.sum_from.to_ne_bytes();
        let [g, h] = self.sum_at.to_ne_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }

    /// Of segments of TCP that were joined: so many bytes of headers, of which TCP's begin at `tcp`, and of payload in
    /// each segment. The checksum is that of the pseudo header.
    pub(super) fn joined(v6: bool, cwr: bool, headers: u16, tcp: u16, size: u16) -> Self {
        let kind = if v6 { TCP_6 } else { TCP_4 } | if cwr { CWR } else { 0 };
        Self { flags: NEEDS_SUM, kind, headers, size, sum_from: tcp, sum_at: TCP_SUM }
    }

    /// The payload of each segment, bytes, if the packet is to be cut; 0 if it is not known how.
    #[inline]
    pub fn size(self) -> Option<usize> {
        match self.kind & !CWR {
            0 => None,
            TCP_4 | TCP_6 | UDP => Some(self.size.into()),
            _ => Some(0),
        }
    }

    /// Computes the checksum of a packet that is not cut, if that was left to be done.
    pub fn finish(self, frame: &mut [u8]) {
        let (from, at) = (usize::from(self.sum_from), usize::from(self.sum_at));
        let summed = frame.get_mut(from..).filter(|_| self.flags & NEEDS_SUM != 0);
        let Some(summed) = summed.filter(|summed| at + 2 <= summed.len()) else { return };
        // What stands there is the pseudo header's sum, and so a part of it.
        let sum = Sum16BitWords::new().add_slice(summed);
        // Of UDP zero stands for none.
        let is_tcp = self.sum_at == TCP_SUM;
        let sum =
            if is_tcp { sum.ones_complement() } else { sum.to_ones_complement_with_no_zero() };
        summed[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}
