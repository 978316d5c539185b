//! Packet buffers, and the handles by which queues refer to them.
//!
//! A handle is one 64-bit word: buffer number (32 bits), packet length (12), flags (4) and VLAN tag
//! (16).
//!
//! Packets from other cores use separate buffers, so local reception cannot exhaust them.

use crate::ids::PacketHandle;
use crate::net::vlan_tag::{self, TAG_BYTES, Tag};

/// Size of a buffer, bytes. Longer packets are not received.
pub const BUFFER_BYTES: usize = 2_048;
/// Distance between buffers, bytes. A power of two would map all headers to the same few cache
/// sets.
const STRIDE_BYTES: usize = BUFFER_BYTES + 64;
/// Space before the first buffer. Notes about a packet lie before its frame, in the cache line of
/// its header: an output in 4 bytes, and the hashes of its flow and its host in 4 bytes each.
const LEAD_BYTES: usize = 64;
const HASH_BYTES: usize = 8;
const OUTPUT_BYTES: usize = 4;

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

const _: () = assert!(BUFFER_BYTES as u64 <= LENGTH, "a handle holds every length of a buffer");

/// The hashes that are stored with a packet of a path with flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowHashes {
    /// The hash of its flow.
    pub(crate) flow: u32,
    /// The hash of its host.
    pub(crate) host: u32,
}

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
    /// A word for each packet: a run's words share a few cache lines.
    stamps: Vec<u64>,
}

impl Pool {
    /// Creates a pool of `buffers` free buffers.
    #[must_use]
    pub fn new(buffers: u32) -> Self {
        // A stack keeps the recently used buffers in the cache.
        let free = (0..buffers).rev().collect();
        let tagged = Vec::with_capacity(BUFFER_BYTES + TAG_BYTES);
        let bytes = vec![0; LEAD_BYTES + buffers as usize * STRIDE_BYTES];
        let stamps = vec![0; buffers as usize];
        Self { bytes, free, own: buffers, end: buffers, free_remote: Vec::new(), tagged, stamps }
    }

    /// Permits at least `buffers` buffers for packets from other cores.
    pub(crate) fn reserve_remote(&mut self, buffers: usize) {
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        self.end = self.end.max(self.own.saturating_add(buffers));
        let more = LEAD_BYTES + self.end as usize * STRIDE_BYTES - self.bytes.len();
        // Reserves address space only: pages are committed on first use.
        self.bytes.reserve_exact(more);
        self.stamps.reserve_exact(self.end as usize - self.stamps.len());
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

    /// Returns whether a buffer for a packet from another core is available.
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
        self.stamps.push(0);
        Some(allocated)
    }

    /// Copies a packet of another core, which has the handle `handle` and this stamp and flow
    /// there; `None` without a free buffer.
    #[inline]
    pub(crate) fn import(
        &mut self,
        frame: &[u8],
        handle: PacketHandle,
        (stamp, flow): (u64, FlowHashes),
        from_remote: bool,
    ) -> Option<PacketHandle> {
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let number = self.free_remote.pop().or_else(|| self.extend())?;
        let at = start(number);
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        let flag = if from_remote { FROM_REMOTE } else { 0 };
        let kept = handle.to_bits() & !(NUMBER | FROM_REMOTE);
        let here = PacketHandle::from_bits(kept | u64::from(number) | flag);
        self.set_stamp(here, stamp);
        self.set_flow(here, flow);
        Some(here)
    }

    /// Stores a word with a packet, which its buffer keeps until another packet is stamped there.
    #[inline]
    pub(crate) fn set_stamp(&mut self, handle: PacketHandle, stamp: u64) {
        self.stamps[number(handle) as usize] = stamp;
    }

    /// Stores the hashes of a packet's flow with it.
    #[inline]
    pub(crate) fn set_flow(&mut self, handle: PacketHandle, of: FlowHashes) {
        let (at, _) = span(handle);
        let hashes = u64::from(of.host) << 32 | u64::from(of.flow);
        self.bytes[at - HASH_BYTES..at].copy_from_slice(&hashes.to_ne_bytes());
    }

    /// Returns the hashes of a packet's flow, if they were stored.
    #[inline]
    pub(crate) fn flow(&self, handle: PacketHandle) -> FlowHashes {
        let (at, _) = span(handle);
        let mut hashes = [0; 8];
        hashes.copy_from_slice(&self.bytes[at - HASH_BYTES..at]);
        let hashes = u64::from_ne_bytes(hashes);
        // The halves.
        #[allow(clippy::cast_possible_truncation)]
        let (flow, host) = (hashes as u32, (hashes >> 32) as u32);
        FlowHashes { flow, host }
    }

    /// Stores the number of an output with a packet.
    #[inline]
    pub(crate) fn set_output(&mut self, handle: PacketHandle, output: u32) {
        let end = start(number(handle)) - HASH_BYTES;
        self.bytes[end - OUTPUT_BYTES..end].copy_from_slice(&output.to_ne_bytes());
    }

    /// Returns the number of an output that was stored with a packet.
    #[inline]
    pub(crate) fn output(&self, handle: PacketHandle) -> u32 {
        let end = start(number(handle)) - HASH_BYTES;
        let mut output = [0; OUTPUT_BYTES];
        output.copy_from_slice(&self.bytes[end - OUTPUT_BYTES..end]);
        u32::from_ne_bytes(output)
    }

    /// Returns the stamp of a packet, also after its buffer was released.
    #[inline]
    pub(crate) fn stamp(&self, handle: PacketHandle) -> u64 {
        self.stamps[number(handle) as usize]
    }

    /// Returns whether a packet entered its path's input queue from another core.
    #[inline]
    pub(crate) fn from_remote(handle: PacketHandle) -> bool {
        handle.to_bits() & FROM_REMOTE != 0
    }

    /// Returns the handle without that mark, for a packet that has left the queue.
    #[inline]
    pub(crate) fn clear_remote(handle: PacketHandle) -> PacketHandle {
        PacketHandle::from_bits(handle.to_bits() & !FROM_REMOTE)
    }

    /// Returns the number of free buffers.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Copies `frame` into a buffer and its VLAN tag into the handle; `None` if it is too long or
    /// no buffer is free.
    #[inline]
    pub fn copy(&mut self, frame: &[u8]) -> Option<PacketHandle> {
        if let Some((tag, addresses, rest)) = vlan_tag::split(frame) {
            return self.copy_tagged(tag, addresses, rest);
        }
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let number = self.free.pop()?;
        let at = start(number);
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        Some(handle(number, frame.len()))
    }

    #[cold]
    fn copy_tagged(&mut self, tag: Tag, addresses: &[u8], rest: &[u8]) -> Option<PacketHandle> {
        let length = addresses.len() + rest.len();
        if length > BUFFER_BYTES {
            return None;
        }
        let number = self.free.pop()?;
        let at = start(number);
        let (first, second) = self.bytes[at..at + length].split_at_mut(addresses.len());
        first.copy_from_slice(addresses);
        second.copy_from_slice(rest);
        Some(Self::with_tag(handle(number, length), Some(tag)))
    }

    /// Lets `read` write a packet into a buffer and return its length; moves a VLAN tag into the
    /// handle. `None` if no buffer is free, or `read` returns `None` or too much.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<PacketHandle> {
        let number = *self.free.last()?;
        let at = start(number);
        let length = read(&mut self.bytes[at..at + BUFFER_BYTES])?;
        if length > BUFFER_BYTES {
            return None;
        }
        self.free.pop();
        let Some((tag, addresses, _)) = vlan_tag::split(&self.bytes[at..at + length]) else {
            return Some(handle(number, length));
        };
        let addresses = addresses.len();
        self.bytes.copy_within(at + addresses + TAG_BYTES..at + length, at + addresses);
        Some(Self::with_tag(handle(number, length - TAG_BYTES), Some(tag)))
    }

    /// Returns an uninitialised packet of `bytes` bytes; `None` if that is too long or no buffer is
    /// free.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<PacketHandle> {
        if bytes > BUFFER_BYTES {
            return None;
        }
        Some(handle(self.free.pop()?, bytes))
    }

    /// Returns the packet of `handle`.
    #[inline]
    #[must_use]
    pub fn frame(&self, handle: PacketHandle) -> &[u8] {
        let (at, length) = span(handle);
        &self.bytes[at..at + length]
    }

    /// Returns the packet of `handle` for writing.
    #[inline]
    pub fn frame_mut(&mut self, handle: PacketHandle) -> &mut [u8] {
        let (at, length) = span(handle);
        &mut self.bytes[at..at + length]
    }

    /// Returns the packet of `handle` with its VLAN tag inserted, for transmission.
    #[inline]
    pub fn wire(&mut self, handle: PacketHandle) -> &[u8] {
        let Some(tag) = Self::tag(handle) else { return self.frame(handle) };
        let (at, length) = span(handle);
        vlan_tag::insert(&self.bytes[at..at + length], tag, &mut self.tagged);
        &self.tagged
    }

    /// Returns the VLAN tag in a handle.
    #[inline]
    #[must_use]
    pub fn tag(handle: PacketHandle) -> Option<Tag> {
        // The top 16 bits.
        #[allow(clippy::cast_possible_truncation)]
        let bits = (handle.to_bits() >> TAG_SHIFT) as u16;
        (handle.to_bits() & HAS_TAG != 0).then_some(Tag::new(bits))
    }

    /// Returns the handle with this VLAN tag, or none.
    #[inline]
    #[must_use]
    pub fn with_tag(handle: PacketHandle, tag: Option<Tag>) -> PacketHandle {
        let tag = tag.map_or(0, |tag| HAS_TAG | u64::from(tag.bits()) << TAG_SHIFT);
        PacketHandle::from_bits(handle.to_bits() & !TAG | tag)
    }

    /// Replaces a packet by `frame` (at most [`BUFFER_BYTES`]), keeps its tag and marks it
    /// [processed](Self::processed); returns the new handle.
    #[inline]
    pub(crate) fn replace(&mut self, handle: PacketHandle, frame: &[u8]) -> PacketHandle {
        let (at, _) = span(handle);
        self.bytes[at..at + frame.len()].copy_from_slice(frame);
        // The author of the new frame is responsible for its checksum.
        let kept = handle.to_bits() & !(LENGTH << LENGTH_SHIFT | SEGMENTED);
        PacketHandle::from_bits(kept | (frame.len() as u64) << LENGTH_SHIFT | PROCESSED)
    }

    /// Returns the handle marked as processed or made by the path's extension or proxy.
    #[inline]
    pub(crate) fn mark_processed(handle: PacketHandle) -> PacketHandle {
        PacketHandle::from_bits(handle.to_bits() | PROCESSED)
    }

    /// Returns whether the path's extension or proxy has processed the packet; it does so once.
    #[inline]
    pub(crate) fn processed(handle: PacketHandle) -> bool {
        handle.to_bits() & PROCESSED != 0
    }

    /// Returns the handle marked as segmented here, with a right checksum.
    #[inline]
    pub(crate) fn mark_segmented(handle: PacketHandle) -> PacketHandle {
        PacketHandle::from_bits(handle.to_bits() | SEGMENTED)
    }

    /// Returns whether the packet was segmented here.
    #[inline]
    pub(crate) fn is_segmented(handle: PacketHandle) -> bool {
        handle.to_bits() & SEGMENTED != 0
    }

    /// Frees the buffer of a packet.
    #[inline]
    pub fn release(&mut self, handle: PacketHandle) {
        let number = number(handle);
        let free = if number < self.own { &mut self.free } else { &mut self.free_remote };
        free.push(number);
    }

    /// Returns the length of a packet, bytes.
    #[inline]
    #[must_use]
    pub fn length(handle: PacketHandle) -> u32 {
        // The mask leaves 12 bits.
        #[allow(clippy::cast_possible_truncation)]
        let length = (handle.to_bits() >> LENGTH_SHIFT & LENGTH) as u32;
        length
    }
}

/// Returns the handle of a packet of `length` bytes in buffer `number`.
#[inline]
fn handle(number: u32, length: usize) -> PacketHandle {
    PacketHandle::from_bits(u64::from(number) | (length as u64) << LENGTH_SHIFT)
}

#[inline]
fn number(handle: PacketHandle) -> u32 {
    // The low 32 bits.
    #[allow(clippy::cast_possible_truncation)]
    let number = handle.to_bits() as u32;
    number
}

/// Returns where buffer `number` begins.
#[inline]
fn start(number: u32) -> usize {
    LEAD_BYTES + number as usize * STRIDE_BYTES
}

#[inline]
fn span(handle: PacketHandle) -> (usize, usize) {
    (start(number(handle)), Pool::length(handle) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_buffers_are_allocated_on_demand() {
        let mut pool = Pool::new(4);
        let frame = [7; 60];
        let there = handle(0, frame.len());
        assert_eq!(pool.import(&frame, there, (0, FlowHashes::default()), false), None);
        pool.reserve_remote(1_000);
        let handles: Vec<PacketHandle> = (0..3)
            .filter_map(|_| pool.import(&frame, there, (0, FlowHashes::default()), false))
            .collect();
        assert_eq!(handles.iter().map(|handle| number(*handle)).collect::<Vec<_>>(), [4, 5, 6]);
        assert!(handles.iter().all(|handle| pool.frame(*handle) == frame));
        for handle in handles {
            pool.release(handle);
        }
        for _ in 0..1_000 {
            let handle = pool.import(&frame, there, (0, FlowHashes::default()), true).unwrap();
            pool.release(handle);
        }
        pool.reserve_remote(2_000);
        pool.reserve_remote(10);
        assert_eq!(pool.bytes.len(), LEAD_BYTES + 7 * STRIDE_BYTES);
        assert_eq!(pool.free(), 4, "local reception has its own buffers");
    }

    #[test]
    fn a_stamp_stays_with_its_packet_and_outside_of_every_frame() {
        let mut pool = Pool::new(2);
        pool.reserve_remote(1);
        let longest = [0xff; BUFFER_BYTES];
        let of = |flow| FlowHashes { flow, host: flow + 1 };
        let packets = [pool.copy(&longest).unwrap(), pool.copy(&longest).unwrap()];
        for (stamp, packet) in (1..).zip(packets) {
            pool.set_stamp(packet, stamp);
            pool.frame_mut(packet).fill(0xee);
        }
        let there = pool.import(&longest, packets[0], (3, of(7)), false).unwrap();
        assert_eq!([packets[0], packets[1], there].map(|packet| pool.stamp(packet)), [1, 2, 3]);
        assert_eq!(pool.flow(there), of(7));
        pool.set_flow(packets[1], of(9));
        assert_eq!((pool.flow(packets[1]), pool.stamp(packets[1])), (of(9), 2));
        assert!(packets.iter().all(|packet| pool.frame(*packet) == [0xee; BUFFER_BYTES]));
        pool.release(packets[1]);
        assert_eq!(pool.stamp(packets[1]), 2);
    }

    #[test]
    fn remote_buffers_are_limited() {
        let mut pool = Pool::new(1);
        pool.reserve_remote(3);
        let there = handle(0, 60);
        let handles: Vec<PacketHandle> =
            std::iter::from_fn(|| pool.import(&[0; 60], there, (0, FlowHashes::default()), false))
                .collect();
        assert_eq!(handles.len(), 3);
        assert!(!pool.has_remote_buffer());
        let room = pool.bytes.capacity();
        pool.release(handles[1]);
        assert!(pool.has_remote_buffer());
        assert_eq!(
            pool.import(&[0; 60], there, (0, FlowHashes::default()), false).map(number),
            Some(number(handles[1]))
        );
        assert_eq!(pool.bytes.capacity(), room, "importing a packet allocates no memory");
        pool.grow_remote();
        assert!(pool.has_remote_buffer());
    }
}
