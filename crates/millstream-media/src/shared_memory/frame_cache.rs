//! The frame cache: shared memory in which a reader stores frames for the data plane.
//!
//! ```text
//! header | place 0: turn, media, from | reserved | slots, one per frame | words | place 1 …
//!                   the data plane's    the reader's
//! ```
//! A session uses the place with the number of its row. Its frame n, counted over all repeats, has
//! slot n modulo the slots; the words of the frame lie in the place's ring. A *turn* is the use of
//! a place by one session; its number is odd while the session lasts. The reader never overwrites
//! frames from number `from` on, which the session may still need.
//!
//! The frames are under a sequence lock, like live frames. Invariant: before the reader writes a
//! frame's words, it sets the slot's number to 0 and advances `reserved` past them. The advance
//! marks the overwritten words of older frames. The slot's number is the frame's number + 1 once
//! all is written. The data plane copies a frame and then checks that both still hold. All words
//! are atomic, so a concurrent write makes a frame wrong but is never undefined behaviour.

use memmap2::MmapMut;
use millstream_sync::waker::futex::Waker;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use zerocopy::FromBytes;

/// The magic number: "MSTREAM" and the version of the layout.
const MAGIC: u64 = 0x4d53_5452_4541_4601;

/// The size of the wake-up counter before the header, bytes; readers sleep on it (futex).
const WAKE_COUNTER_BYTES: usize = 64;

/// The number of words of the header, before the places.
const HEADER: usize = 16;

/// The number of words of a place before its slots: a cache line each for data plane and reader.
const PLACE_HEADER: usize = 16;

/// The number of words of a slot.
const SLOT: usize = 4;

/// The largest numbers of places, slots and words that are accepted.
const MAX_PLACES: u64 = 1 << 16;
const MAX_WORDS: u64 = 1 << 37;

/// The length value of a frame that could not be read.
const FAILED: u64 = u64::MAX;

/// The size of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The number of frames; a power of two.
    slots: u64,
    /// The number of words for the frames' bytes.
    words: u64,
}

impl Shape {
    /// Creates a shape for `frames` frames that take at most `words` words together.
    pub(crate) fn new(frames: u64, words: u64) -> Self {
        Self { slots: frames.max(1).next_power_of_two(), words: words.max(1) }
    }

    /// Returns the number of words that a frame of `bytes` bytes takes.
    pub(crate) fn words_of(bytes: u32) -> u64 {
        u64::from(bytes).div_ceil(8)
    }

    /// Returns the size of `places` places, bytes.
    pub(crate) fn bytes(self, places: u32) -> usize {
        usize::try_from(self.place_words().saturating_mul(u64::from(places)).saturating_mul(8))
            .unwrap_or(usize::MAX)
    }

    fn place_words(self) -> u64 {
        self.slots.saturating_mul(SLOT as u64).saturating_add(self.words) + PLACE_HEADER as u64
    }
}

/// The words of the header.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum CacheField {
    Magic,
    Places,
    Slots,
    Words,
    /// The number of places that were ever used; all of them have lower numbers.
    Used,
    /// The identifier of the producer process.
    Reader,
    /// The core that the producer is pinned to, + 1; 0: none.
    ReaderCore,
    /// The number of frames that could not be read.
    Failures,
    /// How files are read: a `ReadMode` of the reader as a number.
    ReadMode,
}

/// The words of a place.
#[repr(usize)]
enum PlaceField {
    Turn,
    Media,
    From,
    /// The number of words that were ever written; the reader's.
    Reserved = 8,
}

/// The words of a slot.
#[repr(usize)]
enum SlotField {
    /// The frame's number + 1.
    Number,
    Turn,
    Begin,
    /// The length, bytes, or [`FAILED`].
    Length,
}

/// The demand of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadDemand {
    turn: u64,
    /// The number of the media file.
    pub(crate) media: usize,
    /// The oldest frame that the session may still need.
    pub(crate) from: u64,
}

/// The state of a frame in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// The frame has not been read yet, or was overwritten.
    Missing,
    /// The frame is in the cache.
    Ready,
    /// The frame cannot be read.
    Failed,
}

/// A mapped frame cache. Each place has one reader at a time, and one data plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCache {
    waker: Waker,
    words: &'static [AtomicU64],
    shape: Shape,
    places: usize,
}

/// Creates a frame cache of `places` places in a memory file.
///
/// # Errors
/// Fails if there is no memory for it.
pub(crate) fn create(places: u32, shape: Shape) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("millstream-frame-cache", flags)?);
    let bytes = shape.bytes(places).saturating_add(WAKE_COUNTER_BYTES + 8 * HEADER);
    ftruncate(&file, bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    let (_, words) = map(&file)?;
    words[CacheField::Places as usize].store(places.into(), Ordering::Relaxed);
    words[CacheField::Slots as usize].store(shape.slots, Ordering::Relaxed);
    words[CacheField::Words as usize].store(shape.words, Ordering::Relaxed);
    words[CacheField::Magic as usize].store(MAGIC, Ordering::Release);
    Ok(file)
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<(&'static AtomicU32, &'static [AtomicU64])> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a frame cache");
    if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(damaged());
    }
    // SAFETY: the file is a memory file sealed against shrinking, so the pages exist. They are
    // accessed only as atomic words, which other processes may change at any time.
    let map = unsafe { MmapMut::map_mut(file)? };
    // One mapping per server run, used until the process ends.
    let bytes: &'static mut MmapMut = Box::leak(Box::new(map));
    let (waker, words) = bytes.split_at_mut_checked(WAKE_COUNTER_BYTES).ok_or_else(damaged)?;
    let wakers = <[AtomicU32]>::mut_from_bytes(waker).map_err(|_| damaged())?;
    let words = <[AtomicU64]>::mut_from_bytes(words).map_err(|_| damaged())?;
    Ok((&wakers[0], words))
}

impl FrameCache {
    /// Maps the frame cache in `file`.
    ///
    /// # Errors
    /// Fails if `file` holds no frame cache.
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        let (waker, words) = map(file)?;
        Self::of(waker, words)
    }

    /// Returns the frame cache in `words`; its readers sleep on `waker`.
    ///
    /// # Errors
    /// Fails if `words` hold no frame cache.
    pub(crate) fn of(waker: &'static AtomicU32, words: &'static [AtomicU64]) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a frame cache");
        if words.len() < HEADER {
            return Err(damaged());
        }
        let get = |of: CacheField| words[of as usize].load(Ordering::Acquire);
        let shape = Shape { slots: get(CacheField::Slots), words: get(CacheField::Words) };
        let sound = get(CacheField::Magic) == MAGIC
            && get(CacheField::Places) <= MAX_PLACES
            && shape.slots.is_power_of_two()
            && shape.slots <= MAX_WORDS
            && (1..=MAX_WORDS).contains(&shape.words);
        let places =
            u32::try_from(get(CacheField::Places)).ok().filter(|_| sound).ok_or_else(damaged)?;
        if shape.bytes(places) != 8 * (words.len() - HEADER) {
            return Err(damaged());
        }
        Ok(Self { waker: Waker::new(waker), words, shape, places: places as usize })
    }

    pub(crate) fn get(&self, of: CacheField) -> u64 {
        self.words[of as usize].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, of: CacheField, value: u64) {
        self.words[of as usize].store(value, Ordering::Release);
    }

    /// Returns the number of places.
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Returns the number of places that were ever used; all of them have lower numbers.
    pub(crate) fn used(&self) -> usize {
        usize::try_from(self.get(CacheField::Used)).unwrap_or(usize::MAX).min(self.places)
    }

    fn place(&self, place: usize) -> &'static [AtomicU64] {
        let words = usize::try_from(self.shape.place_words()).unwrap_or(usize::MAX);
        &self.words[HEADER + place * words..][..words]
    }

    fn slot(&self, place: &'static [AtomicU64], number: u64) -> &'static [AtomicU64] {
        let at = usize::try_from(number & (self.shape.slots - 1)).unwrap_or(0);
        &place[PLACE_HEADER + at * SLOT..][..SLOT]
    }

    /// Returns the `length` words written from `begin` on, in order; at most the whole ring.
    fn span(
        &self,
        place: &'static [AtomicU64],
        begin: u64,
        length: u64,
    ) -> impl Iterator<Item = &'static AtomicU64> + use<> {
        let index = |value: u64| usize::try_from(value).unwrap_or(0);
        let ring = &place[PLACE_HEADER + index(self.shape.slots) * SLOT..];
        let (start, length) = (index(begin % self.shape.words), index(length).min(ring.len()));
        let first = length.min(ring.len() - start);
        ring[start..start + first].iter().chain(&ring[..length - first])
    }

    // Functions for the data plane.

    /// Starts a turn: a session needs the frames of a file from number `from` on.
    pub(crate) fn begin(&self, place: usize, media: usize, from: u64) {
        let words = self.place(place);
        let turn = words[PlaceField::Turn as usize].load(Ordering::Relaxed);
        words[PlaceField::Turn as usize].store(turn & !1, Ordering::Release);
        words[PlaceField::Media as usize].store(media as u64, Ordering::Release);
        words[PlaceField::From as usize].store(from, Ordering::Release);
        words[PlaceField::Turn as usize].store((turn & !1).wrapping_add(3), Ordering::Release);
        self.set(CacheField::Used, self.get(CacheField::Used).max(place as u64 + 1));
        self.wake();
    }

    /// Records that a session no longer needs frames before number `from`.
    pub(crate) fn advance_demand(&self, place: usize, from: u64) {
        let word = &self.place(place)[PlaceField::From as usize];
        if word.load(Ordering::Relaxed) < from {
            word.store(from, Ordering::Release);
        }
    }

    /// Ends the turn of a place.
    pub(crate) fn end(&self, place: usize) {
        let word = &self.place(place)[PlaceField::Turn as usize];
        let turn = word.load(Ordering::Relaxed);
        if turn & 1 == 1 {
            word.store(turn.wrapping_add(1), Ordering::Release);
        }
    }

    /// Returns the state of a session's frame.
    pub(crate) fn entry_state(&self, place: usize, number: u64) -> EntryState {
        let words = self.place(place);
        self.entry(words, words[PlaceField::Turn as usize].load(Ordering::Relaxed), number).0
    }

    fn entry(&self, place: &'static [AtomicU64], turn: u64, number: u64) -> (EntryState, u64, u64) {
        let slot = self.slot(place, number);
        let stored =
            slot[SlotField::Number as usize].load(Ordering::Acquire) == number.wrapping_add(1);
        let get = |of: SlotField| slot[of as usize].load(Ordering::Relaxed);
        let (begin, length) = (get(SlotField::Begin), get(SlotField::Length));
        if !stored || get(SlotField::Turn) != turn {
            return (EntryState::Missing, 0, 0);
        }
        if length == FAILED {
            return (EntryState::Failed, begin, 0);
        }
        let written =
            place[PlaceField::Reserved as usize].load(Ordering::Relaxed).wrapping_sub(begin);
        let overwritten = written > self.shape.words || length.div_ceil(8) > self.shape.words;
        (if overwritten { EntryState::Missing } else { EntryState::Ready }, begin, length)
    }

    /// Copies a session's frame of `length` bytes into `to`. Returns whether the copy is complete.
    pub(crate) fn copy(&self, place: usize, number: u64, length: u32, to: &mut Vec<u8>) -> bool {
        let words = self.place(place);
        let turn = words[PlaceField::Turn as usize].load(Ordering::Relaxed);
        let (state, begin, bytes) = self.entry(words, turn, number);
        if state != EntryState::Ready || bytes != u64::from(length) {
            return false;
        }
        to.clear();
        let span = self.span(words, begin, Shape::words_of(length));
        to.resize(length.next_multiple_of(8) as usize, 0);
        for (bytes, word) in to.chunks_exact_mut(8).zip(span) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        to.truncate(length as usize);
        fence(Ordering::Acquire);
        self.entry(words, turn, number) == (EntryState::Ready, begin, bytes)
    }

    /// Wakes the readers.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    // Functions for the reader.

    /// Returns the wake-up counter, for a later [`sleep`](Self::sleep).
    pub(crate) fn wake_count(&self) -> u32 {
        self.waker.wakes()
    }

    /// Sleeps until the wake-up counter differs from `wake_count`, for at most `time_ns`.
    pub(crate) fn sleep(&self, wake_count: u32, time_ns: u64) {
        self.waker.wait(wake_count, time_ns);
    }

    /// Returns the demand of the session at a place, if there is one.
    pub(crate) fn wanted(&self, place: usize) -> Option<ReadDemand> {
        let words = self.place(place);
        let turn = words[PlaceField::Turn as usize].load(Ordering::Acquire);
        let media =
            usize::try_from(words[PlaceField::Media as usize].load(Ordering::Acquire)).ok()?;
        let from = words[PlaceField::From as usize].load(Ordering::Acquire);
        fence(Ordering::Acquire);
        let same = words[PlaceField::Turn as usize].load(Ordering::Relaxed) == turn;
        (turn & 1 == 1 && same).then_some(ReadDemand { turn, media, from })
    }

    /// Returns whether a frame has been read or has failed.
    pub(crate) fn is_done(&self, place: usize, wanted: &ReadDemand, number: u64) -> bool {
        self.entry(self.place(place), wanted.turn, number).0 != EntryState::Missing
    }

    /// Returns the number of words that can be written without overwriting a needed frame.
    pub(crate) fn room(&self, place: usize, wanted: &ReadDemand) -> u64 {
        let words = self.place(place);
        let reserved = words[PlaceField::Reserved as usize].load(Ordering::Relaxed);
        let oldest = (wanted.from..wanted.from.saturating_add(self.shape.slots))
            .map(|number| self.entry(words, wanted.turn, number))
            .find(|(entry_state, ..)| *entry_state == EntryState::Ready)
            .map_or(reserved, |(_, begin, _)| begin);
        self.shape.words.saturating_sub(reserved.wrapping_sub(oldest))
    }

    /// Returns the number of slots of a place.
    pub(crate) fn slots(&self) -> u64 {
        self.shape.slots
    }

    /// Stores a frame of a session, or its failure if `frame` is `None`.
    ///
    /// Returns `false` if the session's turn is over or the frame is larger than the place.
    pub(crate) fn put(
        &self,
        place: usize,
        wanted: &ReadDemand,
        number: u64,
        frame: Option<&[u8]>,
    ) -> bool {
        let words = self.place(place);
        let length = frame.map_or(0, |frame| frame.len() as u64);
        let still = words[PlaceField::Turn as usize].load(Ordering::Acquire) == wanted.turn;
        if !still || length.div_ceil(8) > self.shape.words {
            return false;
        }
        let slot = self.slot(words, number);
        let begin = words[PlaceField::Reserved as usize].load(Ordering::Relaxed);
        slot[SlotField::Number as usize].store(0, Ordering::Relaxed);
        let end = begin.wrapping_add(length.div_ceil(8));
        words[PlaceField::Reserved as usize].store(end, Ordering::Relaxed);
        fence(Ordering::Release);
        let span = self.span(words, begin, length.div_ceil(8));
        for (part, word) in frame.unwrap_or_default().chunks(8).zip(span) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        for (of, value) in [
            (SlotField::Turn, wanted.turn),
            (SlotField::Begin, begin),
            (SlotField::Length, if frame.is_some() { length } else { FAILED }),
        ] {
            slot[of as usize].store(value, Ordering::Relaxed);
        }
        slot[SlotField::Number as usize].store(number.wrapping_add(1), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(places: u32, shape: Shape) -> (FrameCache, FrameCache) {
        let file = create(places, shape).unwrap();
        (FrameCache::open(&file).unwrap(), FrameCache::open(&file).unwrap())
    }

    #[test]
    fn the_data_plane_gets_the_frames_that_the_reader_stores() {
        let (consumer, reader) = pair(3, Shape::new(4, 100));
        assert_eq!(reader.wanted(1), None);
        consumer.begin(1, 7, 5);
        let wanted = reader.wanted(1).unwrap();
        assert_eq!((wanted.media, wanted.from, reader.used()), (7, 5, 2));
        assert_eq!(consumer.entry_state(1, 5), EntryState::Missing);
        assert!(reader.put(1, &wanted, 5, Some(&[9; 101])) && reader.put(1, &wanted, 6, None));
        assert_eq!(consumer.entry_state(1, 5), EntryState::Ready);
        assert_eq!(consumer.entry_state(1, 6), EntryState::Failed);
        let mut copy = Vec::new();
        assert!(consumer.copy(1, 5, 101, &mut copy));
        assert_eq!(copy, [9; 101]);
        assert!(!consumer.copy(1, 5, 100, &mut copy), "another length");
        assert!(!consumer.copy(1, 6, 0, &mut copy), "not read");
        // The next session of the place sees none of it; a late frame of the last turn is refused.
        consumer.end(1);
        assert_eq!(reader.wanted(1), None);
        consumer.begin(1, 7, 5);
        assert_eq!(consumer.entry_state(1, 5), EntryState::Missing);
        assert!(!reader.put(1, &wanted, 7, Some(&[1])));
        assert_eq!(consumer.entry_state(0, 5), EntryState::Missing);
    }

    #[test]
    fn frames_that_are_no_longer_needed_make_room() {
        let (consumer, reader) = pair(1, Shape::new(8, 30));
        consumer.begin(0, 0, 0);
        let wanted = reader.wanted(0).unwrap();
        assert_eq!(reader.room(0, &wanted), 30);
        for number in 0..3 {
            assert!(reader.put(0, &wanted, number, Some(&[3; 80])));
        }
        assert_eq!(reader.room(0, &wanted), 0);
        consumer.advance_demand(0, 2);
        let wanted = reader.wanted(0).unwrap();
        assert_eq!(reader.room(0, &wanted), 20);
        assert!(reader.put(0, &wanted, 3, Some(&[4; 160])));
        let mut copy = Vec::new();
        assert!(consumer.copy(0, 2, 80, &mut copy) && copy == [3; 80]);
        assert!(consumer.copy(0, 3, 160, &mut copy) && copy == [4; 160]);
        assert_eq!(consumer.entry_state(0, 1), EntryState::Missing, "overwritten");
        assert!(!reader.put(0, &wanted, 4, Some(&[0; 241])), "larger than the place");
    }

    #[test]
    fn a_concurrently_overwritten_frame_is_whole_or_missing() {
        let (consumer, reader) = pair(1, Shape::new(2, 60));
        consumer.begin(0, 0, 0);
        let wanted = reader.wanted(0).unwrap();
        let writing = std::thread::spawn(move || {
            for number in 0..20_000u64 {
                let fill = u8::try_from(number % 251).unwrap();
                assert!(reader.put(0, &wanted, number, Some(&[fill; 200])));
            }
        });
        let (mut copy, mut seen) = (Vec::new(), 0);
        for number in 0..20_000 {
            while consumer.entry_state(0, number) == EntryState::Missing && !writing.is_finished() {
            }
            if consumer.copy(0, number, 200, &mut copy) {
                seen += 1;
                assert_eq!(copy, [u8::try_from(number % 251).unwrap(); 200]);
            }
        }
        writing.join().unwrap();
        assert!(seen > 0);
    }

    #[test]
    fn no_words_of_another_process_cause_a_panic() {
        let (consumer, reader) = pair(2, Shape::new(4, 30));
        for value in [u64::MAX, 1, 5, 1 << 40 | 7, u64::MAX - 3] {
            for word in &consumer.words[HEADER..] {
                word.store(value, Ordering::Relaxed);
            }
            let wanted = reader.wanted(0);
            for number in [0, 1, value.wrapping_sub(1), value] {
                consumer.entry_state(0, number);
                consumer.copy(0, number, 200, &mut Vec::new());
                if let Some(wanted) = &wanted {
                    let _ = (reader.is_done(0, wanted, number), reader.room(0, wanted));
                    reader.put(0, wanted, number, Some(&[1; 50]));
                }
            }
            consumer.begin(1, 0, value);
            consumer.end(1);
        }
    }

    #[test]
    fn a_file_that_is_no_frame_cache_is_refused() {
        let file = File::from(memfd_create("test", MemfdFlags::empty()).unwrap());
        ftruncate(&file, 4096).unwrap();
        assert!(FrameCache::open(&file).is_err());
        let file = create(2, Shape::new(4, 30)).unwrap();
        let (_, words) = map(&file).unwrap();
        for (of, value) in [
            (CacheField::Magic, 0),
            (CacheField::Places, 3),
            (CacheField::Slots, 3),
            (CacheField::Words, u64::MAX),
        ] {
            let before = words[of as usize].swap(value, Ordering::Relaxed);
            assert!(FrameCache::open(&file).is_err(), "{of:?}");
            words[of as usize].store(before, Ordering::Relaxed);
        }
        assert!(FrameCache::open(&file).is_ok());
    }
}
