//! Packet buffers, and the handles by which queues refer to them.
//!
//! A handle is one 64-bit word: buffer number (32 bits), packet length (12), flags (4) and VLAN tag
//! (16).
//!
//! Packets from other cores use separate buffers, so local reception cannot exhaust them.

use crate::net::vlan_tag::{self, TAG_BYTES, Tag};

/// Size of a buffer, bytes. Longer packets are not received.
pub const BUFFER_BYTES: usize = 2_048;
/// Distance between buffers, bytes. A power of two would map all headers to the same few cache
/// sets.
const STRIDE_BYTES: usize = BUFFER_BYTES + 64;

/// Handle: position and mask of the length.
const LENGTH_SHIFT: u32 = 32;
const LENGTH: u64 = 0xfff;
/// Handle: the path's extension or proxy has processed the packet.
const PROCESSED: u64 = 1 << 44;
/// Handle: the packet has a VLAN tag, in the top 16 bits.
const HAS_TAG: u64 = 1 << 45;
const TAG_SHIFT: u32 = 48;
/// Handle: the packet came to its path's input queue from another core.
const FROM_REMOTE: u64 = 1 << 46;
/// Handle: the packet was segmented here, so its checksum is right.
const SEGMENTED: u64 = 1 << 47;
/// Handle: mask of the buffer number.
const NUMBER: u64 = 0xffff_ffff;
const TAG: u64 = HAS_TAG | 0xffff << TAG_SHIFT;

const _: () = assert!(BUFFER_BYTES as u64 <= LENGTH, "a length has room in a handle");

/// The packet buffers of a router or core.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    free: Vec<u32>,
    /// First buffer for packets from other cores.
    own: u32,
    /// End of the buffers for packets from other cores.
    end: u32,
    /// Allocated and free buffers for packets from other cores.
    free_remote: Vec<u32>,
    /// Scratch space for a frame with its tag.
    tagged: Vec<u8>,
}

impl Pool {
    /// A pool of `buffers` free buffers.
    #[must_use]
    pub fn new(buffers: u32) -> Self {
        // A stack keeps the recently used buffers in the cache.
        let free = (0..buffers).rev().collect();
        let tagged = Vec::with_capacity(BUFFER_BYTES + TAG_BYTES);
        let bytes = vec![0; buffers as usize * STRIDE_BYTES];
        Self { bytes, free, own: buffers, end: buffers, free_remote: Vec::new(), tagged }
    }

    /// Permits at least `buffers` buffers for packets from other cores.
    pub(crate) fn reserve_remote(&mut self, buffers: usize) {
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        self.end = self.end.max(self.own.saturating_add(buffers));
        let more = self.end as usize * STRIDE_BYTES - self.bytes.len();
        // Reserves address space only: pages are committed on first use.
        self.bytes.reserve_exact(more);
        let others = (self.end - self.own) as usize;
        self.free_remote.reserve_exact(others - self.free_remote.len());
    }

    /// Ensures that a buffer for packets from other cores is free.
    #[cold]
    pub(crate) fn grow_remote(&mut self) {
        if !self.has_remote_buffer() {
            let have = (self.end - self.own) as usize;
            self.reserve_remote(have + 256);
        }
    }

    /// Whether a buffer for a packet from another core is available.
    #[inline]
    pub(crate) fn has_remote_buffer(&self) -> bool {
        !self.free_remote.is_empty() || self.allocated() < self.end
    }

    /// Returns the number of the first buffer without memory.
    #[inline]
    fn allocated(&self) -> u32 {
        // Buffer numbers have 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let allocated = (self.bytes.len() / STRIDE_BYTES) as u32;
        allocated
    }

    /// Allocates another buffer for packets from other cores, within the limit.
    #[cold]
    fn extend(&mut self) -> Option<u32> {
        let allocated = self.allocated();
        if allocated >= self.end {
            return None;
        }
        self.bytes.resize(self.bytes.len() + STRIDE_BYTES, 0);
        Some(allocated)
    }

    /// Copies a packet of another core, whose handle there was `handle`; `None` without a free
    /// buffer.
    #[inline]
    pub(crate) fn import(&mut self, frame: &[u8], handle: u64, from_remote: bool) -> Option<u64> {
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let number = self.free_remote.pop().or_else(|| self.extend())?;
        let at = number as usize * STRIDE_BYTES;
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        let flag = if from_remote { FROM_REMOTE } else { 0 };
        Some(handle & !(NUMBER | FROM_REMOTE) | u64::from(number) | flag)
    }

    /// Whether a packet entered its path's input queue from another core.
    #[inline]
    pub(crate) fn from_remote(handle: u64) -> bool {
        handle & FROM_REMOTE != 0
    }

    /// Returns the handle without that mark, for a packet that has left the queue.
    #[inline]
    pub(crate) fn clear_remote(handle: u64) -> u64 {
        handle & !FROM_REMOTE
    }

    /// Returns the number of free buffers.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Copies `frame` into a buffer and its VLAN tag into the handle; `None` if it is too long or
    /// no buffer is free.
    #[inline]
    pub fn copy(&mut self, frame: &[u8]) -> Option<u64> {
        if let Some((tag, addresses, rest)) = vlan_tag::split(frame) {
            return self.copy_tagged(tag, addresses, rest);
        }
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let number = self.free.pop()?;
        let at = number as usize * STRIDE_BYTES;
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        Some(u64::from(number) | (frame.len() as u64) << LENGTH_SHIFT)
    }

    #[cold]
    fn copy_tagged(&mut self, tag: Tag, addresses: &[u8], rest: &[u8]) -> Option<u64> {
        let length = addresses.len() + rest.len();
        if length > BUFFER_BYTES {
            return None;
        }
        let number = self.free.pop()?;
        let at = number as usize * STRIDE_BYTES;
        let (first, second) = self.bytes[at..at + length].split_at_mut(addresses.len());
        first.copy_from_slice(addresses);
        second.copy_from_slice(rest);
        let handle = u64::from(number) | (length as u64) << LENGTH_SHIFT;
        Some(Self::with_tag(handle, Some(tag)))
    }

    /// Lets `read` write a packet into a buffer and return its length; moves a VLAN tag into the
    /// handle. `None` if no buffer is free, or `read` returns `None` or too much.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<u64> {
        let number = *self.free.last()?;
        let at = number as usize * STRIDE_BYTES;
        let length = read(&mut self.bytes[at..at + BUFFER_BYTES])?;
        if length > BUFFER_BYTES {
            return None;
        }
        self.free.pop();
        let handle = u64::from(number) | (length as u64) << LENGTH_SHIFT;
        let Some((tag, addresses, _)) = vlan_tag::split(&self.bytes[at..at + length]) else {
            return Some(handle);
        };
        let addresses = addresses.len();
        self.bytes.copy_within(at + addresses + TAG_BYTES..at + length, at + addresses);
        let shorter = handle - ((TAG_BYTES as u64) << LENGTH_SHIFT);
        Some(Self::with_tag(shorter, Some(tag)))
    }

    /// Returns an uninitialised packet of `bytes` bytes; `None` if that is too long or no buffer is
    /// free.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<u64> {
        if bytes > BUFFER_BYTES {
            return None;
        }
        Some(u64::from(self.free.pop()?) | (bytes as u64) << LENGTH_SHIFT)
    }

    /// Returns the packet of `handle`.
    #[inline]
    #[must_use]
    pub fn frame(&self, handle: u64) -> &[u8] {
        let (at, length) = span(handle);
        &self.bytes[at..at + length]
    }

    /// Returns the packet of `handle` for writing.
    #[inline]
    pub fn frame_mut(&mut self, handle: u64) -> &mut [u8] {
        let (at, length) = span(handle);
        &mut self.bytes[at..at + length]
    }

    /// Returns the packet of `handle` with its VLAN tag inserted, for transmission.
    #[inline]
    pub fn wire(&mut self, handle: u64) -> &[u8] {
        let Some(tag) = Self::tag(handle) else { return self.frame(handle) };
        let (at, length) = span(handle);
        vlan_tag::insert(&self.bytes[at..at + length], tag, &mut self.tagged);
        &self.tagged
    }

    /// Returns the VLAN tag in a handle.
    #[inline]
    #[must_use]
    pub fn tag(handle: u64) -> Option<Tag> {
        // The top 16 bits.
        #[allow(clippy::cast_possible_truncation)]
        let bits = (handle >> TAG_SHIFT) as u16;
        (handle & HAS_TAG != 0).then_some(Tag::new(bits))
    }

    /// Returns the handle with this VLAN tag, or none.
    #[inline]
    #[must_use]
    pub fn with_tag(handle: u64, tag: Option<Tag>) -> u64 {
        let tag = tag.map_or(0, |tag| HAS_TAG | u64::from(tag.bits()) << TAG_SHIFT);
        handle & !TAG | tag
    }

    /// Replaces a packet by `frame` (at most [`BUFFER_BYTES`]), keeps its tag and marks it
    /// [processed](Self::processed); returns the new handle.
    #[inline]
    pub(crate) fn replace(&mut self, handle: u64, frame: &[u8]) -> u64 {
        let (at, _) = span(handle);
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        // The author of the new frame is responsible for its checksum.
        let kept = handle & !(LENGTH << LENGTH_SHIFT | SEGMENTED);
        kept | (frame.len() as u64) << LENGTH_SHIFT | PROCESSED
    }

    /// Returns the handle marked as processed or made by the path's extension or proxy.
    #[inline]
    pub(crate) fn mark_processed(handle: u64) -> u64 {
        handle | PROCESSED
    }

    /// Whether the path's extension or proxy has processed the packet; it does so once.
    #[inline]
    pub(crate) fn processed(handle: u64) -> bool {
        handle & PROCESSED != 0
    }

    /// Returns the handle marked as segmented here, with a right checksum.
    #[inline]
    pub(crate) fn mark_segmented(handle: u64) -> u64 {
        handle | SEGMENTED
    }

    /// Whether the packet was segmented here.
    #[inline]
    pub(crate) fn is_segmented(handle: u64) -> bool {
        handle & SEGMENTED != 0
    }

    /// Frees the buffer of a packet.
    #[inline]
    pub fn release(&mut self, handle: u64) {
        let number = number(handle);
        let free = if number < self.own { &mut self.free } else { &mut self.free_remote };
        free.push(number);
    }

    /// Returns the length of a packet, bytes.
    #[inline]
    #[must_use]
    pub fn length(handle: u64) -> u32 {
        // The mask leaves 12 bits.
        #[allow(clippy::cast_possible_truncation)]
        let length = (handle >> LENGTH_SHIFT & LENGTH) as u32;
        length
    }
}

#[inline]
fn number(handle: u64) -> u32 {
    // The low 32 bits.
    #[allow(clippy::cast_possible_truncation)]
    let number = handle as u32;
    number
}

#[inline]
fn span(handle: u64) -> (usize, usize) {
    (number(handle) as usize * STRIDE_BYTES, Pool::length(handle) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_from_other_cores_take_what_memory_they_need_at_once_and_not_more() {
        let mut pool = Pool::new(4);
        let frame = [7; 60];
        let there = (frame.len() as u64) << LENGTH_SHIFT;
        assert_eq!(pool.import(&frame, there, false), None);
        pool.reserve_remote(1_000);
        let handles: Vec<u64> = (0..3).filter_map(|_| pool.import(&frame, there, false)).collect();
        assert_eq!(handles.iter().map(|handle| number(*handle)).collect::<Vec<_>>(), [4, 5, 6]);
        assert!(handles.iter().all(|handle| pool.frame(*handle) == frame));
        for handle in handles {
            pool.release(handle);
        }
        for _ in 0..1_000 {
            let handle = pool.import(&frame, there, true).unwrap();
            pool.release(handle);
        }
        pool.reserve_remote(2_000);
        pool.reserve_remote(10);
        assert_eq!(pool.bytes.len(), 7 * STRIDE_BYTES);
        assert_eq!(pool.free(), 4, "what ports receive here has its own");
    }

    #[test]
    fn packets_from_other_cores_have_as_many_buffers_as_there_may_be() {
        let mut pool = Pool::new(1);
        pool.reserve_remote(3);
        let there = 60 << LENGTH_SHIFT;
        let handles: Vec<u64> =
            std::iter::from_fn(|| pool.import(&[0; 60], there, false)).collect();
        assert_eq!(handles.len(), 3);
        assert!(!pool.has_remote_buffer());
        let room = pool.bytes.capacity();
        pool.release(handles[1]);
        assert!(pool.has_remote_buffer());
        assert_eq!(pool.import(&[0; 60], there, false).map(number), Some(number(handles[1])));
        assert_eq!(pool.bytes.capacity(), room, "no packet allocates");
        pool.grow_remote();
        assert!(pool.has_remote_buffer());
    }
}
