//! The store: every frame that may be served, once, in memory that processes share.
//!
//! ```text
//! header | media records | frame records | packet records | the files' bytes
//! ```
//! The bytes of media files that are read ahead stay in their files. The store holds the position
//! and the checksum of each of their frames.
//!
//! The store is written once, into a memory file that is then sealed against every change. So a
//! mapping never changes under any reader, and the frames survive the process that loaded them.
//! Frames are cut into packets when they are stored, not when they are sent.

use memmap2::Mmap;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::rtp::{Piece, RTP_HEADER};
use crate::shared_memory::importance::Importance;
use crate::shared_memory::live_frames::FrameRing;

/// The magic number: "MSTREAM" and the version of the layout.
const MAGIC: u64 = 0x4d53_5452_4541_4d05;

/// How often sealing is tried while the kernel uses pages of the file.
const SEAL_CALLS: u32 = 20;

/// The longest supported loss window, frames.
pub(crate) const MAX_WINDOW: u32 = 4_096;

/// The upper limit of a client's queue, frames.
pub(crate) const MAX_QUEUE: u32 = 1 << 16;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Header {
    magic: u64,
    media: u64,
    frames: u64,
    packets: u64,
}

/// A stream and its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct MediaRecord {
    /// The period T between frames, ns.
    pub(crate) period_ns: u64,
    /// The time from a frame's release to its deadline, ns.
    pub(crate) deadline_ns: u64,
    /// The index of its first frame record.
    pub(crate) first_frame: u64,
    /// The number of its frames; 0 only for a live stream.
    pub(crate) frames: u64,
    /// The time from the start of its media file to its first frame, ns.
    pub(crate) offset_ns: u64,
    /// The duration of the media file, ns: the frames repeat after it. Live streams: one period.
    /// [`StoreBuilder::add`] increases it to that of the frames.
    pub(crate) round_ns: u64,
    /// The offset of its bytes in the store. [`StoreBuilder::add`] takes the offset in the media
    /// file instead if the bytes stay there.
    pub(crate) first_byte: u64,
    /// The index of the stream in the scenario, from 0.
    pub(crate) stream: u32,
    /// 0: its bytes are in the store; n > 0: they are in media file n − 1.
    pub(crate) media_file: u32,
    /// The x of the window constraint.
    pub(crate) lost: u32,
    /// The y of the window constraint.
    pub(crate) of: u32,
    /// The limit of a client's queue, frames.
    pub(crate) queue: u32,
    /// The RTP payload type.
    pub(crate) payload_type: u32,
    /// The rate of RTP timestamps, Hz.
    pub(crate) clock_rate: u32,
    /// 1: audio, which is served before all video.
    pub(crate) audio: u32,
    /// The numerator of the frame rate: frames …
    pub(crate) rate_frames: u32,
    /// … and its denominator: seconds.
    pub(crate) rate_seconds: u32,
    /// 1: it repeats from its start at its end.
    pub(crate) repeat: u32,
    /// 0: a file; n > 0: the live stream of ring n − 1.
    pub(crate) live: u32,
    /// Media files outside the store: the number of cached frames from the oldest needed one on.
    pub(crate) ahead: u32,
    /// Media files outside the store: the number of frames kept before the oldest waiting one.
    ///
    /// The host may still forward them to interleaved clients.
    pub(crate) behind: u32,
}

impl MediaRecord {
    /// Returns the time of a frame's release since the start of its media file, ns, over all
    /// repeats.
    pub(crate) fn release_ns(&self, number: u64) -> u64 {
        let frames = self.frames.max(1);
        let in_round = (number % frames).saturating_mul(self.period_ns);
        let rounds = (number / frames).saturating_mul(self.round_ns);
        rounds.saturating_add(self.offset_ns).saturating_add(in_round)
    }

    /// Returns the number of frames released by `since_ns` after the start of its media file.
    pub(crate) fn released_by(&self, since_ns: u64) -> u64 {
        let Some(since_ns) = since_ns.checked_sub(self.offset_ns) else { return 0 };
        let frames = self.frames.max(1);
        let in_round = (since_ns % self.round_ns / self.period_ns + 1).min(frames);
        (since_ns / self.round_ns).saturating_mul(frames).saturating_add(in_round)
    }

    /// Returns whether its frames are at least a period apart, also from round to round.
    fn is_periodic(&self) -> bool {
        let length_ns = self.frames.max(1).checked_mul(self.period_ns);
        self.period_ns > 0 && length_ns.is_some_and(|length_ns| length_ns <= self.round_ns)
    }
}

/// A frame of a stream.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct FrameRecord {
    /// The index of its first packet record.
    pub(crate) first_packet: u64,
    /// The number of its packets; never 0.
    pub(crate) packets: u32,
    /// The size of its RTP packets, headers included, bytes.
    pub(crate) bytes: u32,
    /// The frame's position in display order.
    pub(crate) display: u32,
    /// The frame's [`Importance`] as a number.
    pub(crate) importance: u32,
    /// Media files outside the store: the frame's offset in the file.
    pub(crate) at: u64,
    /// Media files outside the store: the frame's length, bytes; 0: the bytes are in the store.
    ///
    /// The offsets of its packets count from the frame's start.
    pub(crate) length: u32,
    /// Media files outside the store: the CRC-32 of the frame's bytes.
    pub(crate) check: u32,
}

/// The contents of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct PacketRecord {
    /// The offset of its payload in the store's bytes, or in a frame outside the store.
    start: u64,
    /// The size of the payload without the payload format's header, bytes.
    bytes: u32,
    header: [u8; 4],
    header_bytes: u32,
    reserved: u32,
}

impl PacketRecord {
    /// Creates a record of `bytes` payload bytes at offset `start`.
    ///
    /// The payload follows the first `header_bytes` bytes of the payload format's header.
    pub(crate) fn of(start: u64, bytes: u32, header: [u8; 4], header_bytes: u32) -> Self {
        Self { start, bytes, header, header_bytes, reserved: 0 }
    }

    /// Returns whether `header_bytes` is within the header.
    pub(crate) fn is_valid(&self) -> bool {
        self.header_bytes as usize <= self.header.len()
    }

    /// Returns the size of the whole RTP packet, bytes.
    pub(crate) fn length(&self) -> u32 {
        let headers = u32::try_from(RTP_HEADER).unwrap_or(u32::MAX);
        headers.saturating_add(self.header_bytes).saturating_add(self.bytes)
    }
}

/// A frame to be stored.
pub(crate) struct NewFrame {
    pub(crate) importance: Importance,
    pub(crate) display: u32,
    /// The frame's range of the file's bytes.
    pub(crate) range: Range<usize>,
    /// The pieces that its packets carry; their ranges are relative to the frame.
    pub(crate) pieces: Vec<Piece>,
}

/// A builder of a store.
#[derive(Default)]
pub(crate) struct StoreBuilder {
    media: Vec<MediaRecord>,
    frames: Vec<FrameRecord>,
    packets: Vec<PacketRecord>,
    bytes: Vec<u8>,
}

impl StoreBuilder {
    /// Adds a stream with the given frames of `bytes`, and sets its record's indices.
    ///
    /// Keeps the bytes unless they stay in a media file.
    pub(crate) fn add(&mut self, media: MediaRecord, frames: &[NewFrame], bytes: &[u8]) {
        let (first_frame, first_byte) = (self.frames.len() as u64, self.bytes.len() as u64);
        for frame in frames {
            let first_packet = self.packets.len() as u64;
            let kept = media.media_file == 0;
            let base = if kept { first_byte + frame.range.start as u64 } else { 0 };
            let (at, length, check) = if kept {
                (0, 0, 0)
            } else {
                let bytes = &bytes[frame.range.clone()];
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                (frame.range.start as u64 + media.first_byte, length, crc32fast::hash(bytes))
            };
            self.packets.extend(frame.pieces.iter().map(|piece| PacketRecord {
                start: base + piece.range.start as u64,
                bytes: u32::try_from(piece.range.len()).unwrap_or(u32::MAX),
                header: piece.header,
                header_bytes: u32::from(piece.header_bytes),
                reserved: 0,
            }));
            let of_frame = &self.packets[usize::try_from(first_packet).unwrap_or(usize::MAX)..];
            self.frames.push(FrameRecord {
                first_packet,
                packets: u32::try_from(frame.pieces.len()).unwrap_or(u32::MAX),
                bytes: of_frame.iter().fold(0, |sum, packet| sum.saturating_add(packet.length())),
                display: frame.display,
                importance: frame.importance as u32,
                at,
                length,
                check,
            });
        }
        let count = frames.len() as u64;
        let round_ns = count.max(1).saturating_mul(media.period_ns).max(media.round_ns);
        self.media.push(MediaRecord { first_frame, frames: count, first_byte, round_ns, ..media });
        if media.media_file == 0 {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Adds stream number `file` once more, with `lost` as its window's x.
    pub(crate) fn add_window(&mut self, file: usize, lost: u32) {
        self.media.push(MediaRecord { lost, ..self.media[file] });
    }

    /// Writes the store into a sealed memory file.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub(crate) fn seal(&self) -> io::Result<File> {
        let header = Header {
            magic: MAGIC,
            media: self.media.len() as u64,
            frames: self.frames.len() as u64,
            packets: self.packets.len() as u64,
        };
        let (media, frames) = (self.media.as_bytes(), self.frames.as_bytes());
        Self::sealed(&[header.as_bytes(), media, frames, self.packets.as_bytes(), &self.bytes])
    }

    /// Creates a sealed memory file of these concatenated parts.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub(crate) fn sealed(parts: &[&[u8]]) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("millstream-media", flags)?);
        for part in parts {
            file.write_all(part)?;
        }
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        until_not_busy(|| fcntl_add_seals(&file, seals))?;
        Ok(file)
    }
}

/// Calls `seal` until it is not refused with `EBUSY`, at most [`SEAL_CALLS`] times.
///
/// The kernel refuses a seal while it uses pages of the file, for example to reclaim them. It waits
/// 0.15 s for them at each call.
fn until_not_busy(mut seal: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    let mut sealed = Err(Errno::BUSY);
    for _ in 0..SEAL_CALLS {
        sealed = seal();
        if sealed != Err(Errno::BUSY) {
            break;
        }
    }
    sealed
}

/// A mapped sealed store.
#[derive(Debug)]
pub(crate) struct Store {
    map: Mmap,
    media: Range<usize>,
    frames: Range<usize>,
    packets: Range<usize>,
    bytes: Range<usize>,
    /// The rings of live streams; empty in a process that does not serve them.
    pub(crate) rings: Vec<FrameRing>,
}

/// The packets of one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets<'a> {
    pub(crate) records: &'a [PacketRecord],
    /// The bytes that the records point into.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Packets<'a> {
    /// Returns a packet's payload: the payload format's header, then a part of the frame.
    pub(crate) fn payload(&self, packet: &'a PacketRecord) -> (&'a [u8], &'a [u8]) {
        let start = index(packet.start);
        let header = &packet.header[..packet.header_bytes as usize];
        (header, &self.bytes[start..start + packet.bytes as usize])
    }
}

impl Store {
    /// Maps a store.
    ///
    /// # Errors
    /// Fails if `file` is not a sealed store, or a record points outside it.
    #[allow(unsafe_code)]
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a media store");
        let needed = SealFlags::WRITE | SealFlags::SHRINK;
        if !rustix::fs::fcntl_get_seals(file)?.contains(needed) {
            return Err(damaged());
        }
        // SAFETY: the file is a memory file sealed against writing and shrinking, which cannot be
        // undone: the mapped bytes exist and never change.
        let map = unsafe { Mmap::map(file)? };
        let (header, _) = Header::read_from_prefix(&map).map_err(|_| damaged())?;
        if header.magic != MAGIC {
            return Err(damaged());
        }
        let mut from = size_of::<Header>();
        let mut part = |count: u64, size: usize| {
            let bytes = usize::try_from(count).ok()?.checked_mul(size)?;
            let to = from.checked_add(bytes).filter(|to| *to <= map.len())?;
            Some(std::mem::replace(&mut from, to)..to)
        };
        let media = part(header.media, size_of::<MediaRecord>()).ok_or_else(damaged)?;
        let frames = part(header.frames, size_of::<FrameRecord>()).ok_or_else(damaged)?;
        let packets = part(header.packets, size_of::<PacketRecord>()).ok_or_else(damaged)?;
        let bytes = packets.end..map.len();
        let rings = Vec::new();
        let store = Self { map, media, frames, packets, bytes, rings };
        if store.is_consistent() { Ok(store) } else { Err(damaged()) }
    }

    /// Returns whether every record lies inside the store, so that no later lookup can fail.
    fn is_consistent(&self) -> bool {
        let inside = |first: u64, count: u64, all: usize| {
            first.checked_add(count).is_some_and(|end| end <= all as u64)
        };
        let bytes = self.bytes.len();
        self.media().iter().all(|media| {
            (media.frames > 0) == (media.live == 0)
                && media.is_periodic()
                && media.rate_frames > 0
                && media.lost <= media.of
                && media.of <= MAX_WINDOW
                && media.queue <= MAX_QUEUE
                && inside(media.first_frame, media.frames, self.all_frames().len())
        }) && self.all_frames().iter().all(|frame| {
            let bytes = if frame.length > 0 { frame.length as usize } else { bytes };
            frame.packets > 0
                && inside(frame.first_packet, frame.packets.into(), self.all_packets().len())
                && frame.at.checked_add(frame.length.into()).is_some()
                && self.packets(frame).records.iter().all(|packet| {
                    packet.is_valid() && inside(packet.start, packet.bytes.into(), bytes)
                })
        }) && self.media().iter().all(|media| {
            self.frames(media).iter().all(|frame| (frame.length > 0) == (media.media_file > 0))
        })
    }

    /// Returns whether both stores hold the same streams in identical packets.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.map[..] == other.map[..]
    }

    /// Returns all bytes of the store, including the header.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns the records of all streams.
    pub(crate) fn media(&self) -> &[MediaRecord] {
        <[MediaRecord]>::ref_from_bytes(&self.map[self.media.clone()]).unwrap_or_default()
    }

    fn all_frames(&self) -> &[FrameRecord] {
        <[FrameRecord]>::ref_from_bytes(&self.map[self.frames.clone()]).unwrap_or_default()
    }

    fn all_packets(&self) -> &[PacketRecord] {
        <[PacketRecord]>::ref_from_bytes(&self.map[self.packets.clone()]).unwrap_or_default()
    }

    /// Returns the frames of a stream of this store.
    pub(crate) fn frames(&self, media: &MediaRecord) -> &[FrameRecord] {
        let first = index(media.first_frame);
        &self.all_frames()[first..first + index(media.frames)]
    }

    /// Returns the packets of a frame of this store.
    ///
    /// The bytes do not belong to the frame if its stream's bytes are in a media file.
    pub(crate) fn packets(&self, frame: &FrameRecord) -> Packets<'_> {
        let first = index(frame.first_packet);
        let records = &self.all_packets()[first..first + frame.packets as usize];
        Packets { records, bytes: &self.map[self.bytes.clone()] }
    }
}

/// Converts a number that was checked when the store was opened.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a store of one stream: frames of `packets` packets of 100 payload bytes each.
    pub(crate) fn store(media: MediaRecord, frames: &[(Importance, u32)]) -> Store {
        let mut builder = StoreBuilder::default();
        builder.add_plain(media, frames);
        Store::open(&builder.seal().unwrap()).unwrap()
    }

    impl StoreBuilder {
        pub(crate) fn add_plain(&mut self, media: MediaRecord, frames: &[(Importance, u32)]) {
            let mut at = 0;
            let frames: Vec<NewFrame> = frames
                .iter()
                .zip(0..)
                .map(|(&(importance, packets), display)| {
                    let bytes = packets as usize * 100;
                    let piece = |number: usize| Piece {
                        header: [0; 4],
                        header_bytes: 0,
                        range: number * 100..(number + 1) * 100,
                    };
                    let pieces = (0..packets as usize).map(piece).collect();
                    at += bytes;
                    NewFrame { importance, display, range: at - bytes..at, pieces }
                })
                .collect();
            self.add(media, &frames, &vec![7; at]);
        }
    }

    /// Returns a record of a stream; [`StoreBuilder::add`] makes it as long as its frames.
    pub(crate) fn media(period_ns: u64, lost: u32, of: u32) -> MediaRecord {
        MediaRecord {
            period_ns,
            deadline_ns: 5 * period_ns,
            first_frame: 0,
            frames: 0,
            offset_ns: 0,
            round_ns: 0,
            clock_rate: 90_000,
            audio: 0,
            first_byte: 0,
            lost,
            of,
            queue: 8,
            payload_type: 96,
            rate_frames: 25,
            rate_seconds: 1,
            repeat: 1,
            live: 0,
            stream: 0,
            media_file: 0,
            ahead: 0,
            behind: 0,
        }
    }

    #[test]
    fn a_seal_is_tried_again_while_pages_are_in_use() {
        let calls_until = |errors: &[Errno]| {
            let mut calls = 0;
            let result = until_not_busy(|| {
                calls += 1;
                errors.get(calls - 1).map_or(Ok(()), |error| Err(*error))
            });
            (calls, result)
        };
        assert_eq!(calls_until(&[]), (1, Ok(())));
        assert_eq!(calls_until(&[Errno::BUSY; 2]), (3, Ok(())));
        assert_eq!(calls_until(&[Errno::BUSY, Errno::PERM]), (2, Err(Errno::PERM)));
        let most = SEAL_CALLS as usize;
        assert_eq!(calls_until(&vec![Errno::BUSY; most]), (most, Err(Errno::BUSY)));
    }

    #[test]
    fn a_store_returns_the_frames_that_were_added() {
        let store = store(media(40, 1, 3), &[(Importance::I, 3), (Importance::B, 1)]);
        let media = store.media()[0];
        let frames = store.frames(&media);
        assert_eq!((media.frames, frames[0].bytes, frames[1].bytes), (2, 336, 112));
        let packets = store.packets(&frames[0]);
        assert_eq!((packets.records.len(), packets.records[2].length()), (3, 112));
        assert_eq!(packets.payload(&packets.records[2]), (&[][..], &[7; 100][..]));
    }

    #[test]
    fn an_unsealed_or_invalid_store_is_refused() {
        let open = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        let mut file = File::from(open);
        file.write_all(&[1; 100]).unwrap();
        assert!(Store::open(&file).is_err(), "not sealed");
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK).unwrap();
        assert!(Store::open(&file).is_err(), "not a store");
        let mut builder = StoreBuilder::default();
        builder.add_plain(media(40, 1, 3), &[(Importance::I, 1)]);
        builder.packets[0].bytes = 101;
        assert!(Store::open(&builder.seal().unwrap()).is_err(), "a packet beyond the end");
        for (of, queue) in [(MAX_WINDOW + 1, 8), (3, MAX_QUEUE + 1)] {
            let mut builder = StoreBuilder::default();
            let long = MediaRecord { queue, ..media(40, 1, of) };
            builder.add_plain(long, &[(Importance::I, 1)]);
            let opened = Store::open(&builder.seal().unwrap());
            assert!(opened.is_err(), "a window of {of} and a queue of {queue} are accepted");
        }
    }
}
