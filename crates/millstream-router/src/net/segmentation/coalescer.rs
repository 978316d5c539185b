//! [`Coalescer`]: sends consecutive TCP segments as one packet and one system call.
//!
//! Only packets that this router [segmented](super::segmenter) are coalesced: their checksums are
//! right, so no corrupt packet gets a fresh checksum.

use std::io::IoSlice;

use super::segmenter::{CWR, LAST_ONLY, TCP};
use super::set_length;
use super::virtio::{VIRTIO_BYTES, Virtio};
use crate::ids::PacketHandle;
use crate::net::checksum::pseudo;
use crate::net::header::{Transport, any_transport, is_v6};
use crate::net::pool::Pool;

/// Segments per packet, at most.
const MAX_SEGMENTS: usize = 64;
/// Bytes of headers, at most.
const MAX_HEADERS: usize = 192;
/// Longest IP packet, bytes.
const MAX_IP_BYTES: usize = 65_535;
/// TCP flags that exclude a segment: URG, RST, SYN.
const NEVER_COALESCED: u8 = 0x20 | 0x04 | 0x02;

/// Coalesces consecutive TCP segments (GRO).
pub struct Coalescer {
    /// The virtio header and the packet's headers.
    head: [u8; VIRTIO_BYTES + MAX_HEADERS],
    /// Bytes of the packet's headers.
    headers: usize,
    segments: usize,
}

/// A segment and the offsets of its headers.
struct Segment<'a> {
    frame: &'a [u8],
    v6: bool,
    ip: Transport,
    payload: usize,
}

impl<'a> Segment<'a> {
    fn parse(pool: &'a Pool, packet: PacketHandle) -> Option<Self> {
        if !Pool::is_segmented(packet) || Pool::tag(packet).is_some() {
            return None;
        }
        let frame = pool.frame(packet);
        let v6 = is_v6(frame);
        let ip = any_transport(frame)?;
        let payload = ip.start + usize::from(frame.get(ip.start + 12)? >> 4) * 4;
        let whole = ip.protocol == TCP
            && !ip.fragment
            && ip.end == frame.len()
            && (ip.start + 20..frame.len()).contains(&payload)
            && payload <= MAX_HEADERS;
        whole.then_some(Self { frame, v6, ip, payload })
    }

    fn flags(&self) -> u8 {
        self.frame[self.ip.start + 13]
    }

    fn sequence(&self) -> u32 {
        let at = self.ip.start + 4;
        u32::from_be_bytes([0, 1, 2, 3].map(|k| self.frame[at + k]))
    }

    fn identification(&self) -> u16 {
        let at = self.ip.header + 4;
        u16::from_be_bytes([self.frame[at], self.frame[at + 1]])
    }

    fn bytes(&self) -> usize {
        self.frame.len() - self.payload
    }

    /// Returns whether `other` has the same headers except for the fields that differ by segment.
    fn matches(&self, other: &Self) -> bool {
        let (ip, tcp) = (self.ip.header, self.ip.start);
        let shape = self.v6 == other.v6 && tcp == other.ip.start && self.payload == other.payload;
        let same = |from: usize, to: usize| self.frame[from..to] == other.frame[from..to];
        let network = |v6: bool| {
            if v6 {
                same(0, ip + 4) && same(ip + 6, tcp)
            } else {
                same(0, ip + 2) && same(ip + 6, ip + 10) && same(ip + 12, tcp)
            }
        };
        let own = LAST_ONLY | CWR;
        shape
            && network(self.v6)
            && same(tcp, tcp + 4)
            && same(tcp + 8, tcp + 13)
            && self.flags() & !own == other.flags() & !own
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, self.payload)
    }
}

impl Default for Coalescer {
    /// Creates a coalescer without segments.
    fn default() -> Self {
        Self { head: [0; VIRTIO_BYTES + MAX_HEADERS], headers: 0, segments: 0 }
    }
}

impl Coalescer {
    /// Returns how many of the first `packets` to send as one, at least 1. Above 1, send
    /// [`slices`](Self::slices).
    pub fn begin(&mut self, pool: &Pool, packets: &[PacketHandle]) -> usize {
        self.segments = 1;
        let Some(first) = packets.first().and_then(|packet| Segment::parse(pool, *packet)) else {
            return 1;
        };
        if first.flags() & (NEVER_COALESCED | LAST_ONLY) != 0 {
            return 1;
        }
        let size = first.bytes();
        let (mut end, mut flags) = (first.frame.len(), first.flags());
        for packet in packets.iter().take(MAX_SEGMENTS).skip(1) {
            let Some(next) = Segment::parse(pool, *packet) else { break };
            // A coalesced packet has at most 64 segments and 64 KiB.
            #[allow(clippy::cast_possible_truncation)]
            let (before, count) = ((end - first.payload) as u32, self.segments as u16);
            let follows = next.sequence() == first.sequence().wrapping_add(before)
                && (first.v6
                    || next.identification() == first.identification().wrapping_add(count))
                && next.bytes() <= size
                && end + next.bytes() - first.ip.header <= MAX_IP_BYTES
                && next.flags() & CWR == 0
                && first.matches(&next);
            if !follows {
                break;
            }
            self.segments += 1;
            end += next.bytes();
            flags |= next.flags();
            // A short or flagged segment ends the packet.
            if next.bytes() < size || next.flags() & LAST_ONLY != 0 {
                break;
            }
        }
        if self.segments > 1 {
            self.write_headers(&first, end, flags);
        }
        self.segments
    }

    /// Writes the headers of the coalesced packet, which ends at `end` and has these TCP flags.
    fn write_headers(&mut self, first: &Segment<'_>, end: usize, flags: u8) {
        let (tcp, payload) = (first.ip.start, first.payload);
        // All offsets are within 64 KiB.
        #[allow(clippy::cast_possible_truncation)]
        let word = |of: usize| of as u16;
        let virtio = Virtio::coalesced(
            first.v6,
            flags & CWR != 0,
            word(payload),
            word(tcp),
            word(first.bytes()),
        );
        let (virtio_header, head) = self.head.split_at_mut(VIRTIO_BYTES);
        virtio_header.copy_from_slice(&virtio.bytes());
        let head = &mut head[..payload];
        head.copy_from_slice(&first.frame[..payload]);
        self.headers = payload;
        let ip = Transport { end, ..first.ip };
        set_length(head, &ip);
        head[tcp + 13] = flags;
        let sum = pseudo(head, &ip);
        // Checksum offload expects the uncomplemented pseudo-header sum.
        head[tcp + 16..tcp + 18].copy_from_slice(&(!sum.ones_complement()).to_ne_bytes());
    }

    /// Calls `send` with the buffers of the coalesced packet; `packets` are those given to
    /// [`begin`](Self::begin).
    pub fn slices<T>(
        &self,
        pool: &Pool,
        packets: &[PacketHandle],
        send: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let mut slices = [IoSlice::new(&[]); MAX_SEGMENTS + 1];
        slices[0] = IoSlice::new(&self.head[..VIRTIO_BYTES + self.headers]);
        for (slice, packet) in slices[1..].iter_mut().zip(&packets[..self.segments]) {
            *slice = IoSlice::new(&pool.frame(*packet)[self.headers..]);
        }
        send(&slices[..=self.segments])
    }
}
