//! Rings of live frames in shared memory: the host writes, the data plane reads.
//!
//! ```text
//! header | ring 0: head, reserved, name | slots, one per frame | words of frames | ring 1 …
//! a frame: one word per packet (format's header, its bytes, the payload's), then the payloads
//! ```
//! Frames are numbered from 0 for the lifetime of the memory. Frame n uses slot n modulo the slot
//! count; its words follow those of frame n − 1. The host overwrites the oldest frame without
//! coordination: a ring holds frames for as long as a client can need them (see [`Shape::new`]).
//!
//! Invariant (a sequence lock, Lameter, *Effective synchronization on Linux/NUMA systems*, 2005):
//! before the writer stores a frame's words, it advances `reserved` past them and sets the slot's
//! stamp to 0. After the last word it sets the stamp to the number + 1. A reader copies a frame,
//! then checks `reserved` and the stamp. All words are atomic: a concurrent write can garble a
//! frame but is not undefined behaviour.

use memmap2::{Mmap, MmapMut};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use zerocopy::FromBytes;

use crate::rtp::{Piece, RTP_HEADER, low_u32};
use crate::shared_memory::store::{FrameRecord, PacketRecord};

/// "MSTREAM" and the layout version.
const MAGIC: u64 = 0x4d53_5452_4541_4c02;

/// The number of words before the rings: the magic number and the number of rings.
const HEADER: usize = 8;

/// The number of words of a ring before its slots.
const RING_HEADER: usize = 16;

/// The first word of a ring that holds the name of its path, and the longest name, bytes.
const NAME: usize = 8;
pub(crate) const MAX_NAME: usize = 8 * (RING_HEADER - NAME);

/// The number of words of a slot.
const SLOT: usize = 8;

/// Sanity limits for the numbers of rings, packets of a frame, slots and words.
const MAX_RINGS: u64 = 1 << 16;
const MAX_PACKETS: u64 = 1 << 20;
const MAX_WORDS: u64 = 1 << 37;

/// The most frames that a ring may claim to have received.
const MAX_FRAMES: u64 = 1 << 48;

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The number of frame slots; a power of two.
    slots: u64,
    /// The number of words for the frames' content.
    words: u64,
}

impl Shape {
    /// Computes the size for frames at least `spacing_ns` apart, limited to `rate_bps` and
    /// `burst_bytes` on the link. A client can need each frame for `kept_ns`.
    pub(crate) fn new(spacing_ns: u64, rate_bps: u64, burst_bytes: u32, kept_ns: u64) -> Self {
        let slots = (kept_ns / spacing_ns.max(1) + 8).next_power_of_two();
        let bits = u128::from(rate_bps) * u128::from(kept_ns) / 1_000_000_000;
        let bytes = u64::try_from(bits / 8).unwrap_or(u64::MAX).saturating_add(burst_bytes.into());
        // A packet's word is smaller than its RTP header; each frame ends on a word boundary.
        Self { slots, words: (bytes / 8).saturating_add(slots) }
    }

    /// Returns the size of the whole ring, bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.all_words().saturating_mul(8)).unwrap_or(usize::MAX)
    }

    fn all_words(&self) -> u64 {
        self.slots.saturating_mul(SLOT as u64).saturating_add(self.words) + RING_HEADER as u64
    }
}

/// The attributes of a frame, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveFrame {
    /// When the frame is released to the stream's clients, ns of the machine's clock.
    pub(crate) release_ns: u64,
    /// The instant of its RTP timestamp, ns of the machine's clock.
    pub(crate) captured_ns: u64,
    /// Whether a client can begin with it.
    pub(crate) entry: bool,
    /// The frame's packets and importance; `display` is its RTP timestamp.
    pub(crate) record: FrameRecord,
}

/// A private copy of one frame's packets: it cannot change while they are sent.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// The ring and the frame number.
    which: Option<(usize, u64)>,
    pub(crate) packets: Vec<PacketRecord>,
    pub(crate) bytes: Vec<u8>,
}

impl FrameBuffer {
    /// Empties the buffer for a frame that comes from no ring, and returns it.
    pub(crate) fn replace(&mut self) -> &mut Vec<u8> {
        self.which = None;
        self.bytes.clear();
        &mut self.bytes
    }
}

/// A ring of live frames. At most one writer may exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRing {
    number: usize,
    words: &'static [AtomicU64],
    shape: Shape,
}

/// Creates rings of these shapes in a new memory file.
///
/// # Errors
/// Fails if memory is short.
pub(crate) fn create(shapes: &[Shape]) -> io::Result<File> {
    let file = File::from(memfd_create(
        "millstream-live",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?);
    let words = shapes.iter().map(Shape::all_words).fold(HEADER as u64, u64::saturating_add);
    ftruncate(&file, words.saturating_mul(8))?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    let all = writable(&file)?;
    all[1].store(shapes.len() as u64, Ordering::Relaxed);
    let mut at = HEADER;
    for shape in shapes {
        all[at].store(shape.slots, Ordering::Relaxed);
        all[at + 1].store(shape.words, Ordering::Relaxed);
        at += usize::try_from(shape.all_words()).unwrap_or(usize::MAX);
    }
    all[0].store(MAGIC, Ordering::Release);
    Ok(file)
}

/// Maps the rings in `file` for writing.
///
/// # Errors
/// Fails if `file` holds no valid rings.
pub(crate) fn write(file: &File) -> io::Result<Vec<FrameRing>> {
    rings(writable(file)?)
}

/// Maps the rings in `file` read-only.
///
/// # Errors
/// Fails if `file` holds no valid rings.
#[allow(unsafe_code)]
pub(crate) fn read(file: &File) -> io::Result<Vec<FrameRing>> {
    if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(damaged());
    }
    // SAFETY: the file is a memory file sealed against shrinking, so the pages exist; see below.
    let map: &'static Mmap = Box::leak(Box::new(unsafe { Mmap::map(file)? }));
    let words = map.len() / size_of::<AtomicU64>();
    // SAFETY: a mapping is page-aligned, so the words are aligned, and it is never unmapped. Only
    // atomic loads access the words here, which read-only pages permit. Other processes may change
    // the words at any time.
    rings(unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), words) })
}

#[allow(unsafe_code)]
fn writable(file: &File) -> io::Result<&'static [AtomicU64]> {
    if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(damaged());
    }
    // SAFETY: the file is a memory file sealed against shrinking, so the pages exist. The mapping
    // is only ever accessed as atomic words.
    let map = unsafe { MmapMut::map_mut(file)? };
    let bytes: &'static mut MmapMut = Box::leak(Box::new(map));
    <[AtomicU64]>::mut_from_bytes(&mut bytes[..]).map(|words| &*words).map_err(|_| damaged())
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not rings of live frames")
}

/// Parses the rings in `all`.
///
/// # Errors
/// Fails if `all` holds no valid rings.
pub(crate) fn rings(all: &'static [AtomicU64]) -> io::Result<Vec<FrameRing>> {
    let word = |at: usize| all.get(at).map(|word| word.load(Ordering::Acquire));
    let count = word(1).filter(|count| word(0) == Some(MAGIC) && *count <= MAX_RINGS);
    let mut at = HEADER;
    let mut found = Vec::new();
    for number in 0..usize::try_from(count.ok_or_else(damaged)?).unwrap_or(0) {
        let (slots, words) = word(at).zip(word(at + 1)).ok_or_else(damaged)?;
        if !slots.is_power_of_two() || slots > MAX_WORDS || words == 0 || words > MAX_WORDS {
            return Err(damaged());
        }
        let shape = Shape { slots, words };
        let end = usize::try_from(shape.all_words()).ok().and_then(|more| at.checked_add(more));
        let words = end.and_then(|end| all.get(at..end)).ok_or_else(damaged)?;
        at += words.len();
        let ring = FrameRing { number, words, shape };
        if ring.head() > MAX_FRAMES {
            return Err(damaged());
        }
        found.push(ring);
    }
    Ok(found)
}

/// The words of a slot.
#[repr(usize)]
enum FrameField {
    Stamp,
    ReleaseNs,
    /// The RTP time, and from bit 32 the time from its instant to the release, µs, signed.
    RtpTime,
    /// The importance, and bit 8: whether clients can begin with it.
    Attributes,
    Packets,
    /// The size of its RTP packets, bytes.
    Bytes,
    /// The position of its first word, counted over all words ever written.
    At,
    Length,
}

impl FrameRing {
    /// Returns the ring's size.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    fn head_word(&self) -> &AtomicU64 {
        &self.words[2]
    }

    fn reserved(&self) -> &AtomicU64 {
        &self.words[3]
    }

    /// Returns the number of frames so far, which is the number of the next frame.
    pub(crate) fn head(&self) -> u64 {
        self.head_word().load(Ordering::Acquire)
    }

    /// Returns the number of the oldest frame that may still be in the ring.
    pub(crate) fn oldest(&self) -> u64 {
        self.head().saturating_sub(self.shape.slots)
    }

    /// Sets the name of the path that the ring serves, of at most [`MAX_NAME`] bytes. For the
    /// writer only.
    pub(crate) fn set_name(&self, name: &str) {
        let mut bytes = [0; MAX_NAME];
        let length = name.len().min(MAX_NAME);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        let words = self.words[NAME..].iter();
        for (word, part) in words.zip(bytes.chunks_exact(8)) {
            let value = part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the name of the path that the ring serves; `None` without a valid one.
    pub(crate) fn name(&self) -> Option<String> {
        let words = self.words[NAME..NAME + MAX_NAME / 8].iter();
        let bytes = words.flat_map(|word| word.load(Ordering::Relaxed).to_be_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = usize::try_from(number & (self.shape.slots - 1)).unwrap_or(0);
        &self.words[RING_HEADER + at * SLOT..][..SLOT]
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        let at = usize::try_from(at % self.shape.words).unwrap_or(0);
        let slots = usize::try_from(self.shape.slots).unwrap_or(0);
        &self.words[RING_HEADER + slots * SLOT + at]
    }

    /// Appends a frame, packetized into `pieces` of `frame`. Returns `false` if the ring cannot
    /// hold it. For the writer only.
    pub(crate) fn put(&self, about: LiveFrame, frame: &[u8], pieces: &[Piece]) -> bool {
        let bytes: usize = pieces.iter().map(|piece| piece.range.len()).sum();
        let length = (pieces.len() + bytes.div_ceil(8)) as u64;
        if length > self.shape.words {
            return false;
        }
        let number = self.head_word().load(Ordering::Relaxed);
        let at = self.reserved().load(Ordering::Relaxed);
        let slot = self.slot(number);
        slot[FrameField::Stamp as usize].store(0, Ordering::Relaxed);
        self.reserved().store(at.wrapping_add(length), Ordering::Relaxed);
        fence(Ordering::Release);
        let mut next = at;
        let mut write = |value: u64| {
            self.word(next).store(value, Ordering::Relaxed);
            next = next.wrapping_add(1);
        };
        for piece in pieces {
            let header = u64::from(u32::from_ne_bytes(piece.header));
            let payload = (piece.range.len() as u64) << 40;
            write(payload | u64::from(piece.header_bytes & 7) << 32 | header);
        }
        let (mut filled, mut word) = (0, [0; 8]);
        for byte in pieces.iter().flat_map(|piece| &frame[piece.range.clone()]) {
            word[filled] = *byte;
            filled += 1;
            if filled == word.len() {
                write(u64::from_ne_bytes(word));
                filled = 0;
            }
        }
        if filled > 0 {
            write(u64::from_ne_bytes(word));
        }
        let LiveFrame { release_ns, captured_ns, entry, record } = about;
        let since_us = release_ns.wrapping_sub(captured_ns).cast_signed() / 1_000;
        let limits = (i32::MIN.into(), i32::MAX.into());
        let since_us = i32::try_from(since_us.clamp(limits.0, limits.1)).unwrap_or(0);
        let rtp_time = u64::from(since_us.cast_unsigned()) << 32 | u64::from(record.display);
        for (of, value) in [
            (FrameField::ReleaseNs, release_ns),
            (FrameField::RtpTime, rtp_time),
            (FrameField::Attributes, u64::from(entry) << 8 | u64::from(record.importance)),
            (FrameField::Packets, pieces.len() as u64),
            (FrameField::Bytes, record.bytes.into()),
            (FrameField::At, at),
            (FrameField::Length, length),
        ] {
            slot[of as usize].store(value, Ordering::Relaxed);
        }
        slot[FrameField::Stamp as usize].store(number + 1, Ordering::Release);
        self.head_word().store(number + 1, Ordering::Release);
        true
    }

    /// Returns whether the slot still belongs to frame `number` and its words are not overwritten.
    fn is_there(&self, number: u64, at: u64) -> bool {
        fence(Ordering::Acquire);
        let reserved = self.reserved().load(Ordering::Relaxed);
        self.slot(number)[FrameField::Stamp as usize].load(Ordering::Relaxed) == number + 1
            && reserved.wrapping_sub(at) <= self.shape.words
    }

    /// Returns a frame's attributes; `None` if it is not in the ring, yet or any more.
    pub(crate) fn frame(&self, number: u64) -> Option<LiveFrame> {
        let slot = self.slot(number);
        if slot[FrameField::Stamp as usize].load(Ordering::Acquire) != number.checked_add(1)? {
            return None;
        }
        let get = |of: FrameField| slot[of as usize].load(Ordering::Relaxed);
        let (packets, about) = (get(FrameField::Packets), get(FrameField::Attributes));
        let (release_ns, rtp_time) = (get(FrameField::ReleaseNs), get(FrameField::RtpTime));
        let since_us = i64::from(low_u32(rtp_time >> 32).cast_signed());
        let frame = LiveFrame {
            release_ns,
            captured_ns: release_ns.wrapping_add_signed(-since_us * 1_000),
            entry: about >> 8 & 1 == 1,
            record: FrameRecord {
                first_packet: 0,
                packets: low_u32(packets),
                bytes: low_u32(get(FrameField::Bytes)),
                display: low_u32(rtp_time),
                importance: low_u32(about & 0xff),
                ..FrameRecord::default()
            },
        };
        let sound = packets > 0 && packets <= MAX_PACKETS;
        (self.is_there(number, get(FrameField::At)) && sound).then_some(frame)
    }

    /// Copies a frame's packets into `to`, unless `to` already holds them. Returns its attributes;
    /// `None` if it is not in the ring any more.
    pub(crate) fn copy(&self, number: u64, to: &mut FrameBuffer) -> Option<LiveFrame> {
        let frame = self.frame(number)?;
        if to.which == Some((self.number, number)) {
            return Some(frame);
        }
        to.which = None;
        to.packets.clear();
        to.bytes.clear();
        let get = |of: FrameField| self.slot(number)[of as usize].load(Ordering::Relaxed);
        let (at, length) = (get(FrameField::At), get(FrameField::Length));
        let packets = u64::from(frame.record.packets);
        if packets > length || length > self.shape.words {
            return None;
        }
        let mut start = 0;
        for packet in 0..packets {
            let word = self.word(at.wrapping_add(packet)).load(Ordering::Relaxed);
            let bytes = low_u32(word >> 40);
            let header = low_u32(word).to_ne_bytes();
            to.packets.push(PacketRecord::of(start, bytes, header, low_u32(word >> 32 & 7)));
            start += u64::from(bytes);
        }
        for word in packets..length {
            let word = self.word(at.wrapping_add(word)).load(Ordering::Relaxed);
            to.bytes.extend_from_slice(&word.to_ne_bytes());
        }
        // Whatever the words hold, every packet must lie within the bytes.
        if !self.is_there(number, at) || start > to.bytes.len() as u64 {
            return None;
        }
        if !to.packets.iter().all(PacketRecord::is_valid) {
            return None;
        }
        to.which = Some((self.number, number));
        Some(frame)
    }
}

/// Returns the record of a frame packetized into `pieces`.
pub(crate) fn record(pieces: &[Piece], rtp_time: u32, importance: u32) -> FrameRecord {
    let length = |piece: &Piece| RTP_HEADER + usize::from(piece.header_bytes) + piece.range.len();
    FrameRecord {
        first_packet: 0,
        packets: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
        bytes: u32::try_from(pieces.iter().map(length).sum::<usize>()).unwrap_or(u32::MAX),
        display: rtp_time,
        importance,
        ..FrameRecord::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates rings and maps them for writing and for reading.
    pub(crate) fn pair(shapes: &[Shape]) -> (Vec<FrameRing>, Vec<FrameRing>) {
        let file = create(shapes).unwrap();
        (write(&file).unwrap(), read(&file).unwrap())
    }

    fn pieces(packets: usize, bytes: usize) -> Vec<Piece> {
        let piece = |at: usize| Piece {
            header: [9, 8, 7, 6],
            header_bytes: 2,
            range: at * bytes..(at + 1) * bytes,
        };
        (0..packets).map(piece).collect()
    }

    /// Puts a frame of `packets` packets of 101 bytes, all of them `fill`.
    pub(crate) fn put(ring: &FrameRing, release_ns: u64, entry: bool, packets: usize, fill: u8) {
        let (pieces, bytes) = (pieces(packets, 101), vec![fill; packets * 101]);
        let record = record(&pieces, u32::from(fill) * 3_600, if entry { 3 } else { 2 });
        assert!(ring.put(
            LiveFrame { release_ns, captured_ns: release_ns, entry, record },
            &bytes,
            &pieces
        ));
    }

    #[test]
    fn written_frames_are_read_and_overwritten_ones_are_not() {
        let shape = Shape { slots: 4, words: 100 };
        let (writers, readers) = pair(&[Shape { slots: 8, words: 50 }, shape]);
        let (writer, reader) = (writers[1], readers[1]);
        assert_eq!((readers.len(), reader.shape()), (2, shape));
        let mut copied = FrameBuffer::default();
        for number in 0..20u8 {
            assert_eq!(reader.frame(number.into()), None, "not written yet");
            put(&writer, u64::from(number) * 7, number % 3 == 0, 2, number);
            let frame = reader.copy(number.into(), &mut copied).unwrap();
            assert_eq!((frame.release_ns, frame.entry), (u64::from(number) * 7, number % 3 == 0));
            assert_eq!((frame.record.packets, frame.record.bytes), (2, 2 * (12 + 2 + 101)));
            assert_eq!(frame.record.display, u32::from(number) * 3_600);
            assert_eq!(copied.packets.len(), 2);
            let store = crate::shared_memory::store::Packets {
                records: &copied.packets,
                bytes: &copied.bytes,
            };
            assert_eq!(store.payload(&copied.packets[1]), (&[9, 8][..], &[number; 101][..]));
        }
        // A frame has 28 words: the ring holds three.
        assert_eq!((reader.head(), reader.oldest()), (20, 16));
        assert!((0..17).all(|number| reader.frame(number).is_none()));
        assert!((17..20).all(|number| reader.copy(number, &mut copied).is_some()));
        assert_eq!(readers[0].head(), 0);
        let (pieces, bytes) = (pieces(9, 101), vec![0; 909]);
        let record = record(&pieces, 0, 0);
        let about = LiveFrame { release_ns: 0, captured_ns: 0, entry: true, record };
        assert!(!writer.put(about, &bytes, &pieces), "larger than the ring");
    }

    #[test]
    fn a_concurrent_reader_sees_whole_frames_or_none() {
        let (writers, readers) = pair(&[Shape { slots: 4, words: 200 }]);
        let (writer, reader) = (writers[0], readers[0]);
        let writing = std::thread::spawn(move || {
            for number in 0..20_000u64 {
                let packets = usize::try_from(number % 5).unwrap() + 1;
                put(&writer, number, false, packets, u8::try_from(number % 251).unwrap());
            }
        });
        let (mut copied, mut seen, mut last) = (FrameBuffer::default(), 0, 0);
        while last < 20_000 {
            last = reader.head();
            let number = last.saturating_sub(1);
            if let Some(frame) = reader.copy(number, &mut copied) {
                seen += 1;
                assert_eq!(frame.release_ns, number);
                let payload = usize::try_from(number % 5 + 1).unwrap() * 101;
                let fill = u8::try_from(number % 251).unwrap();
                assert!(copied.bytes[..payload].iter().all(|byte| *byte == fill), "frame {number}");
            }
        }
        writing.join().unwrap();
        assert!(seen > 0);
    }

    #[test]
    fn arbitrary_ring_contents_do_not_panic() {
        let file = create(&[Shape { slots: 4, words: 30 }]).unwrap();
        let (all, reader) = (writable(&file).unwrap(), read(&file).unwrap()[0]);
        let mut copied = FrameBuffer::default();
        for value in [u64::MAX, 1, 5, 1 << 40 | 7, u64::MAX - 3] {
            for word in &all[HEADER + 2..] {
                word.store(value, Ordering::Relaxed);
            }
            for number in [0, 1, 4, value.wrapping_sub(1), value] {
                let _ = (reader.frame(number), reader.copy(number, &mut copied), reader.oldest());
            }
        }
    }

    #[test]
    fn invalid_rings_are_rejected() {
        let file = File::from(memfd_create("test", MemfdFlags::empty()).unwrap());
        ftruncate(&file, 4096).unwrap();
        assert!(read(&file).is_err() && write(&file).is_err());
        let file = create(&[Shape { slots: 4, words: 30 }]).unwrap();
        let all = writable(&file).unwrap();
        let far = (HEADER + 2, MAX_FRAMES + 1);
        for (at, value) in [(HEADER, 3), (HEADER + 1, u64::MAX), far, (1, 2), (0, 7)] {
            let before = all[at].swap(value, Ordering::Relaxed);
            assert!(read(&file).is_err(), "word {at}");
            all[at].store(before, Ordering::Relaxed);
        }
        assert!(read(&file).is_ok());
    }
}
