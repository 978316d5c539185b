//! Tests of readers of media files in memory: frames that reach the cache, and frames that fail.

use super::*;
use crate::rtp::Piece;
use crate::shared_memory::frame_cache::{EntryState, create};
use crate::shared_memory::importance::Importance;
use crate::shared_memory::store::tests::media;
use crate::shared_memory::store::{NewFrame, StoreBuilder};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A media file in memory that answers immediately, or on a message.
pub(crate) struct GatedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) answers: Option<Receiver<()>>,
    pub(crate) fails_at: Option<u64>,
    pub(crate) buffer: Vec<u8>,
}

impl GatedFile {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), answers: None, fails_at: None, buffer: Vec::new() }
    }

    pub(crate) fn gated(bytes: &[u8]) -> (Self, Sender<()>) {
        let (to, from) = channel();
        (Self { answers: Some(from), ..Self::of(bytes) }, to)
    }
}

impl MediaFile for GatedFile {
    fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        if let Some(answers) = &self.answers {
            let _ = answers.recv();
        }
        if self.fails_at.is_some_and(|fails| (at..at + length as u64).contains(&fails)) {
            return Err(io::Error::other("a bad block"));
        }
        let from = usize::try_from(at).unwrap().min(self.bytes.len());
        let to = (from + length).min(self.bytes.len());
        self.buffer = self.bytes[from..to].to_vec();
        Ok(&self.buffer)
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

/// Adds a media file of `frames` frames of 100 to 400 bytes to a store, and returns its bytes.
pub(crate) fn media_file(
    builder: &mut StoreBuilder,
    number: u32,
    frames: u32,
    repeat: u32,
) -> Vec<u8> {
    let (mut bytes, mut new) = (Vec::new(), Vec::new());
    for frame in 0..frames {
        let from = bytes.len();
        for packet in 0..=frame % 4 {
            bytes.extend([u8::try_from((frame * 7 + packet + number) % 251).unwrap(); 100]);
        }
        let piece =
            |at: usize| Piece { header: [0; 4], header_bytes: 0, range: at * 100..at * 100 + 100 };
        let pieces = (0..(bytes.len() - from) / 100).map(piece).collect();
        let range = from..bytes.len();
        new.push(NewFrame { importance: Importance::P, display: frame, range, pieces });
    }
    let media = media(40_000_000, 1, 3);
    builder.add(
        crate::shared_memory::store::MediaRecord {
            media_file: number,
            repeat,
            ahead: 10,
            behind: 2,
            ..media
        },
        &new,
        &bytes,
    );
    bytes
}

/// Waits until a frame is read or has failed.
pub(crate) fn await_done(cache: FrameCache, place: usize, number: u64) -> EntryState {
    let end = Instant::now() + Duration::from_secs(30);
    while cache.entry_state(place, number) == EntryState::Missing {
        assert!(Instant::now() < end, "frame {number} was not read");
        std::thread::sleep(Duration::from_millis(1));
    }
    cache.entry_state(place, number)
}

fn open(builder: &StoreBuilder, places: u32) -> (Store, Store, FrameCache) {
    let file = builder.seal().unwrap();
    let cache = create(places, Shape::new(16, 16 * 50 + 50)).unwrap();
    (Store::open(&file).unwrap(), Store::open(&file).unwrap(), FrameCache::open(&cache).unwrap())
}

#[test]
fn a_session_gets_every_frame_of_its_file_in_every_round() {
    let mut builder = StoreBuilder::default();
    let bytes = media_file(&mut builder, 1, 7, 1);
    let once = media_file(&mut builder, 2, 5, 0);
    let (store, other, cache) = open(&builder, 2);
    let _readers =
        Readers::of(other, cache, vec![GatedFile::of(&bytes), GatedFile::of(&once)]).unwrap();
    cache.begin(0, 0, 3);
    cache.begin(1, 1, 0);
    let mut copy = Vec::new();
    for (place, bytes, numbers) in [(0, &bytes, 3..60u64), (1, &once, 0..5)] {
        let media = store.media()[place];
        for number in numbers {
            assert_eq!(await_done(cache, place, number), EntryState::Ready);
            let at = usize::try_from(number % media.frames).unwrap();
            let record = store.frames(&media)[at];
            assert!(cache.copy(place, number, record.length, &mut copy), "frame {number}");
            let from = usize::try_from(record.at).unwrap();
            assert_eq!(copy, bytes[from..from + record.length as usize]);
            cache.advance_demand(place, number);
        }
    }
    assert_eq!(cache.entry_state(1, 5), EntryState::Missing, "played once");
}

#[test]
fn changed_truncated_and_unreadable_frames_fail() {
    let mut builder = StoreBuilder::default();
    let bytes = media_file(&mut builder, 1, 8, 0);
    let (store, ..) = open(&builder, 1);
    let media = store.media()[0];
    let records = store.frames(&media).to_vec();
    let at = |frame: usize| usize::try_from(records[frame].at).unwrap();
    let mut changed = GatedFile::of(&bytes);
    changed.bytes[at(2) + 5] ^= 1;
    let mut truncated = GatedFile::of(&bytes);
    truncated.bytes.truncate(at(5) + 1);
    let mut broken = GatedFile::of(&bytes);
    broken.fails_at = Some(records[4].at);
    for (media_file, out) in
        [(changed, vec![2]), (truncated, vec![5, 6, 7]), (broken, vec![0, 1, 2, 3, 4])]
    {
        let (_, other, cache) = open(&builder, 1);
        let _readers = Readers::of(other, cache, vec![media_file]).unwrap();
        cache.begin(0, 0, 0);
        for number in 0..8 {
            let failed = await_done(cache, 0, number) == EntryState::Failed;
            assert_eq!(failed, out.contains(&number), "frame {number} of {out:?}");
        }
        assert!(cache.get(CacheField::Failures) > 0);
    }
}

#[test]
fn a_place_that_gets_a_new_session_during_a_read_discards_the_frames() {
    let mut builder = StoreBuilder::default();
    let bytes = media_file(&mut builder, 1, 8, 1);
    let (_, other, cache) = open(&builder, 1);
    let (slow, answer) = GatedFile::gated(&bytes);
    let _readers = Readers::of(other, cache, vec![slow]).unwrap();
    cache.begin(0, 0, 0);
    cache.end(0);
    cache.begin(0, 0, 4);
    // Completes the pending reads, including one for the first turn.
    for _ in 0..100 {
        let _ = answer.send(());
    }
    assert_eq!(await_done(cache, 0, 4), EntryState::Ready);
    assert_eq!(cache.entry_state(0, 0), EntryState::Missing);
    drop(answer);
}
