//! [`Segmenter`]: splits a large segment; each part gets headers with its own length, sequence
//! number, flags and checksums.
//!
//! Source: Documentation/networking/segmentation-offloads.rst of Linux; RFC 9293 (PSH and FIN go to
//! the last segment); RFC 3168 section 6.1.2 (CWR to the first); RFC 6864 (the IPv4 identification
//! increments).

use super::set_length;
use crate::ids::PacketHandle;
use crate::net::checksum::pseudo;
use crate::net::header::{ETHERNET, Transport, any_transport, is_v6};
use crate::net::pool::{BUFFER_BYTES, Pool};
use crate::net::vlan_tag::{self, TAG_BYTES, Tag};

/// Largest frame, bytes: the longest IP packet, the Ethernet header and a tag.
const MAX_FRAME_BYTES: usize = 65_535 + ETHERNET + TAG_BYTES;
pub(super) const TCP: u8 = 6;
const UDP: u8 = 17;
/// TCP flags of the last segment only: FIN and PSH.
pub(super) const LAST_ONLY: u8 = 0x01 | 0x08;
/// The TCP flag of the first segment only.
pub(super) const CWR: u8 = 0x80;

/// Splits large TCP and UDP segments (TSO, USO); holds one segment at a time.
pub struct Segmenter {
    /// The frame, without its tag.
    bytes: Vec<u8>,
    tag: Option<Tag>,
    v6: bool,
    ip: Transport,
    /// Offset of the payload.
    payload: usize,
    /// Offset of the next segment's payload, up to `ip.end`.
    next: usize,
    /// Payload of a segment, bytes.
    size: usize,
}

impl Default for Segmenter {
    /// Creates a segmenter without a segment.
    fn default() -> Self {
        let ip = Transport { protocol: 0, header: 0, start: 0, end: 0, fragment: false };
        let bytes = vec![0; MAX_FRAME_BYTES];
        Self { bytes, tag: None, v6: false, ip, payload: 0, next: 0, size: 1 }
    }
}

impl Segmenter {
    /// Returns the buffer for the next large segment; write to it when the segmenter [is
    /// empty](Self::is_empty).
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Begins to split the frame in the first `length` bytes of [`room`](Self::room) into segments
    /// of `size` payload bytes; returns whether it can be split.
    pub fn begin(&mut self, length: usize, size: usize) -> bool {
        let Some(frame) = self.bytes.get(..length) else { return false };
        self.tag = vlan_tag::split(frame).map(|(tag, ..)| tag);
        let mut length = length;
        if self.tag.is_some() {
            let at = ETHERNET - 2;
            self.bytes.copy_within(at + TAG_BYTES..length, at);
            length -= TAG_BYTES;
        }
        let frame = &self.bytes[..length];
        self.v6 = is_v6(frame);
        let Some(ip) = any_transport(frame).filter(|ip| !ip.fragment) else { return false };
        // Source routes in options or extension headers change the pseudo-header's destination.
        if ip.start - ip.header != if self.v6 { 40 } else { 20 } {
            return false;
        }
        let header = match ip.protocol {
            TCP => frame.get(ip.start + 12).map_or(0, |offset| usize::from(offset >> 4) * 4),
            UDP => 8,
            _ => 0,
        };
        let least = if ip.protocol == TCP { 20 } else { 8 };
        let payload = ip.start + header;
        if header < least || payload > ip.end || size == 0 || payload + size > BUFFER_BYTES {
            return false;
        }
        (self.ip, self.payload, self.next, self.size) = (ip, payload, payload, size);
        payload < ip.end
    }

    /// Returns whether no segment remains.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.ip.end
    }

    /// Returns the next segment; `None` if none remains or no buffer is free.
    pub fn next(&mut self, pool: &mut Pool) -> Option<PacketHandle> {
        let length = self.size.min(self.ip.end.checked_sub(self.next).filter(|left| *left > 0)?);
        let handle = pool.allocate(self.payload + length)?;
        let frame = pool.frame_mut(handle);
        let (headers, payload) = frame.split_at_mut(self.payload);
        headers.copy_from_slice(&self.bytes[..self.payload]);
        payload.copy_from_slice(&self.bytes[self.next..self.next + length]);
        self.patch_headers(frame);
        self.next += length;
        Some(Pool::mark_segmented(Pool::with_tag(handle, self.tag)))
    }

    /// Writes the fields that differ by segment.
    // All values are within 64 KiB.
    #[allow(clippy::cast_possible_truncation)]
    fn patch_headers(&self, frame: &mut [u8]) {
        let ip = Transport { end: frame.len(), ..self.ip };
        let before = self.next - self.payload;
        if !self.v6 {
            let at = ip.header + 4;
            let first = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let identification = first.wrapping_add((before / self.size) as u16);
            frame[at..at + 2].copy_from_slice(&identification.to_be_bytes());
        }
        set_length(frame, &ip);
        let pseudo = pseudo(frame, &ip);
        let is_last = before + (frame.len() - self.payload) == self.ip.end - self.payload;
        let upper = &mut frame[ip.start..];
        let at = if ip.protocol == TCP {
            let first = u32::from_be_bytes([upper[4], upper[5], upper[6], upper[7]]);
            let sequence = first.wrapping_add(before as u32);
            upper[4..8].copy_from_slice(&sequence.to_be_bytes());
            let flags = if is_last { upper[13] } else { upper[13] & !LAST_ONLY };
            upper[13] = if before == 0 { flags } else { flags & !CWR };
            16
        } else {
            let length = upper.len() as u16;
            upper[4..6].copy_from_slice(&length.to_be_bytes());
            6
        };
        upper[at..at + 2].copy_from_slice(&[0, 0]);
        let sum = pseudo.add_slice(upper);
        // In UDP, 0 means no checksum.
        let sum =
            if at == 16 { sum.ones_complement() } else { sum.to_ones_complement_with_no_zero() };
        upper[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}
