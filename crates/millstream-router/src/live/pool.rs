//! Buffers that packets lie in, and handles by which queues hold them.
//!
//! A handle is a buffer's number, the packet's length, and whether its path's own function (extension, proxy) has seen
//! it, in one word.

/// The size of a buffer, bytes. A packet that is longer is not received.
pub const BUFFER_BYTES: usize = 2_048;
/// From one buffer to the next. With a power of two all headers would fall into the same few sets of
/// the processor's cache.
const STRIDE_BYTES: usize = BUFFER_BYTES + 64;

/// In a handle: the path's own function has seen the packet.
const SEEN: u64 = 1 << 48;

/// All buffers of a router.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    free: Vec<u32>,
}

impl Pool {
    /// So many buffers, all free.
    #[must_use]
    pub fn new(buffers: u32) -> Self {
        // The lowest first: as few as possible are in use, and those are in the cache.
        let free = (0..buffers).rev().collect();
        Self { bytes: vec![0; buffers as usize * STRIDE_BYTES], free }
    }

    /// How many buffers are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// A copy of `frame` in a buffer; `None` if it is too long or no buffer is free.
    #[inline]
    pub fn copy(&mut self, frame: &[u8]) -> Option<u64> {
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let number = self.free.pop()?;
        let at = number as usize * STRIDE_BYTES;
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        Some(u64::from(number) | (frame.len() as u64) << 32)
    }

    /// A packet that `read` writes into a buffer, returning its length; `None` if no buffer is free
    /// or `read` returns `None` or too much.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<u64> {
        let number = *self.free.last()?;
        let at = number as usize * STRIDE_BYTES;
        let length = read(&mut self.bytes[at..at + BUFFER_BYTES])?;
        if length > BUFFER_BYTES {
            return None;
        }
        self.free.pop();
        Some(u64::from(number) | (length as u64) << 32)
    }

    /// A buffer for a packet of so many bytes, with anything in it; `None` if that is too long or no buffer is free.
    pub(super) fn blank(&mut self, bytes: usize) -> Option<u64> {
        if bytes > BUFFER_BYTES {
            return None;
        }
        Some(u64::from(self.free.pop()?) | (bytes as u64) << 32)
    }

    /// The packet of `handle`.
    #[inline]
    #[must_use]
    pub fn frame(&self, handle: u64) -> &[u8] {
        let (at, length) = place(handle);
        &self.bytes[at..at + length]
    }

    /// The packet of `handle`, to be changed.
    #[inline]
    pub fn frame_mut(&mut self, handle: u64) -> &mut [u8] {
        let (at, length) = place(handle);
        &mut self.bytes[at..at + length]
    }

    /// `frame`, at most [`BUFFER_BYTES`] long, takes the place of the packet of `handle`; returns its
    /// handle, which says that the path's function has [seen](Self::seen) it.
    #[inline]
    pub(super) fn replace(&mut self, handle: u64, frame: &[u8]) -> u64 {
        let (at, _) = place(handle);
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        u64::from(number(handle)) | (frame.len() as u64) << 32 | SEEN
    }

    /// The handle of a packet that a path's own function has seen, or made.
    #[inline]
    pub(super) fn mark_seen(handle: u64) -> u64 {
        handle | SEEN
    }

    /// Whether the path's own function has seen the packet, which it does once.
    #[inline]
    pub(super) fn seen(handle: u64) -> bool {
        handle & SEEN != 0
    }

    /// Gives a packet's buffer back.
    #[inline]
    pub fn release(&mut self, handle: u64) {
        self.free.push(number(handle));
    }

    /// The length of a packet, bytes.
    #[inline]
    #[must_use]
    pub fn length(handle: u64) -> u32 {
        // The lower part of the upper half.
        #[allow(clippy::cast_possible_truncation)]
        let length = (handle >> 32) as u16;
        u32::from(length)
    }
}

#[inline]
fn number(handle: u64) -> u32 {
    // The lower half.
    #[allow(clippy::cast_possible_truncation)]
    let number = handle as u32;
    number
}

#[inline]
fn place(handle: u64) -> (usize, usize) {
    (number(handle) as usize * STRIDE_BYTES, Pool::length(handle) as usize)
}
