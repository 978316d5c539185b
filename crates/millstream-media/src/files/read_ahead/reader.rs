//! The readers: a thread of ordinary priority per media file, which fills the frame cache.
//!
//! A file on a slow or missing disk delays only its own thread. A reader verifies the checksum of
//! each frame against the one from loading. A frame with another checksum, or past a truncated
//! file's end, is marked as failed, reported and not played.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::media_file::{DiskFile, MediaFile};
use crate::shared_memory::frame_cache::{CacheField, FrameCache, ReadDemand, Shape};
use crate::shared_memory::store::{FrameRecord, MediaRecord, Store};

/// How long a reader sleeps while its file is played, ns; a fraction of any `read-ahead`. While the
/// file is not played, it sleeps [`IDLE_NS`], because a client that starts wakes it.
const PAUSE_NS: u64 = 10_000_000;
const IDLE_NS: u64 = 1_000_000_000;

/// The largest read, bytes, unless a single frame is larger.
const BATCH: u64 = 256 << 10;

/// The minimum interval between two reports of a file's failures.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The reader threads. Dropping it ends them, once a pending disk read has returned.
#[derive(Debug)]
pub(crate) struct Readers {
    stop: Arc<AtomicBool>,
    frame_cache: FrameCache,
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.frame_cache.wake();
    }
}

impl Readers {
    /// Starts threads that read the media files of `store` from `files`.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub(crate) fn start(
        store: Store,
        frame_cache: FrameCache,
        files: Vec<File>,
    ) -> io::Result<Self> {
        let media_files: Vec<DiskFile> = files.into_iter().map(DiskFile::new).collect();
        if let Some(media_file) = media_files.first() {
            frame_cache.set(CacheField::ReadMode, media_file.read_mode() as u64);
        }
        Self::of(store, frame_cache, media_files)
    }

    /// Starts threads as [`start`](Self::start) does, for any implementation of [`MediaFile`].
    pub(crate) fn of(
        store: Store,
        frame_cache: FrameCache,
        media_files: Vec<impl MediaFile + 'static>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let readers = Self { stop, frame_cache };
        let store = Arc::new(store);
        let places: Arc<[Mutex<()>]> = (0..frame_cache.places()).map(|_| Mutex::new(())).collect();
        for (number, media_file) in (1..).zip(media_files) {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&readers.stop));
            let places = Arc::clone(&places);
            let mut reader =
                Reader { store, frame_cache, places, number, media_file, last_log: None };
            let thread = std::thread::Builder::new().name(format!("reader {number}"));
            thread.spawn(move || reader.run(&stop))?;
        }
        Ok(readers)
    }
}

/// Starts a thread that starts the readers of `media_files` once the returned sender sends a
/// message.
///
/// The readers end when the sender is dropped. The thread calls `begin` before it starts them. They
/// inherit the scheduling class and the cores that the caller has now; its later changes do not
/// affect them.
///
/// # Errors
/// Fails if a thread cannot be started.
pub(crate) fn start_later(
    store: File,
    frame_cache: File,
    media_files: Vec<File>,
    begin: fn(),
) -> io::Result<Sender<()>> {
    let (to, from) = channel();
    let start =
        move || Readers::start(Store::open(&store)?, FrameCache::open(&frame_cache)?, media_files);
    std::thread::Builder::new().name("readers".to_owned()).spawn(move || {
        begin();
        if from.recv().is_err() {
            return;
        }
        match start() {
            // Runs until the sender is dropped.
            Ok(_readers) => while from.recv().is_ok() {},
            Err(error) => eprintln!("media files cannot be read: {error}"),
        }
    })?;
    Ok(to)
}

struct Reader<F> {
    store: Arc<Store>,
    frame_cache: FrameCache,
    /// A lock per place: a place can pass to a session of another file, but has only one writer.
    places: Arc<[Mutex<()>]>,
    /// The media file's number, counted from 1.
    number: u32,
    media_file: F,
    /// The time of the last failure report.
    last_log: Option<Instant>,
}

impl<F: MediaFile> Reader<F> {
    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let wake_count = self.frame_cache.wake_count();
            let (mut played, mut busy) = (false, false);
            for place in 0..self.frame_cache.used() {
                let Some(wanted) = self.wanted(place) else { continue };
                played = true;
                busy |= self.read_next(place, &wanted);
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
            if !busy {
                self.frame_cache.sleep(wake_count, if played { PAUSE_NS } else { IDLE_NS });
            }
        }
    }

    /// Returns the demand of the session at a place, if it plays this file.
    fn wanted(&self, place: usize) -> Option<ReadDemand> {
        let wanted = self.frame_cache.wanted(place)?;
        let media = self.store.media().get(wanted.media)?;
        (media.media_file == self.number).then_some(wanted)
    }

    /// Reads the next frames that a session needs. Returns whether there were any.
    fn read_next(&mut self, place: usize, wanted: &ReadDemand) -> bool {
        let Some(media) = self.store.media().get(wanted.media).copied() else { return false };
        let Some(batch) = self.next(place, wanted, &media) else { return false };
        self.read(place, wanted, &batch);
        true
    }

    /// Returns the next frames to read, adjacent in the file, or `None` if enough are in the cache.
    fn next(
        &self,
        place: usize,
        wanted: &ReadDemand,
        media: &MediaRecord,
    ) -> Option<Vec<PendingRead>> {
        let frames = self.store.frames(media);
        let ahead = u64::from(media.ahead).min(self.frame_cache.slots());
        let end = wanted.from.saturating_add(ahead);
        let end = if media.repeat == 0 { end.min(media.frames) } else { end };
        let missing = |number: &u64| !self.frame_cache.is_done(place, wanted, *number);
        let first = (wanted.from..end).find(missing)?;
        // While more than half is present, waits to read several frames at once.
        if first - wanted.from > ahead / 2 && end - first < ahead / 4 {
            return None;
        }
        let mut room = self.frame_cache.room(place, wanted);
        let (mut batch, mut bytes): (Vec<PendingRead>, u64) = (Vec::new(), 0);
        for number in first..end {
            let record = frames[usize::try_from(number % media.frames).unwrap_or(0)];
            let words = Shape::words_of(record.length);
            bytes += u64::from(record.length);
            let joins = batch.last().is_none_or(|last| {
                bytes <= BATCH && record.at == last.record.at + u64::from(last.record.length)
            });
            if !joins || words > room || !missing(&number) {
                break;
            }
            room -= words;
            batch.push(PendingRead { number, record });
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn read(&mut self, place: usize, wanted: &ReadDemand, batch: &[PendingRead]) {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return };
        let start = first.record.at;
        let length = last.record.at - start + u64::from(last.record.length);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut failed = None;
        match self.media_file.read(start, length) {
            Ok(bytes) => {
                let _alone = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
                for due in batch {
                    let from = usize::try_from(due.record.at - start).unwrap_or(usize::MAX);
                    let frame = bytes.get(from..).and_then(|b| b.get(..due.record.length as usize));
                    let sound = frame.filter(|frame| crc32fast::hash(frame) == due.record.check);
                    if sound.is_none() && failed.is_none() {
                        let why = match frame {
                            None => "the file was truncated",
                            Some(_) => "the file was changed: the checksum differs",
                        };
                        failed = Some((*due, why.to_owned()));
                    }
                    self.frame_cache.put(place, wanted, due.number, sound);
                }
            }
            Err(error) => {
                let _alone = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
                self.frame_cache.put(place, wanted, first.number, None);
                failed = Some((*first, error.to_string()));
            }
        }
        if let Some((due, why)) = failed {
            self.report_failure(&due, &why);
        }
    }

    /// Counts a frame that could not be read, and reports it at most once per [`LOG_INTERVAL`].
    fn report_failure(&mut self, due: &PendingRead, why: &str) {
        self.frame_cache
            .set(CacheField::Failures, self.frame_cache.get(CacheField::Failures).wrapping_add(1));
        if self.last_log.is_some_and(|last_log| last_log.elapsed() < LOG_INTERVAL) {
            return;
        }
        self.last_log = Some(Instant::now());
        let PendingRead { number, record } = due;
        eprintln!(
            "{}: frame {number} ({} bytes at offset {}) is dropped: {why}",
            self.media_file.name(),
            record.length,
            record.at
        );
    }
}

/// A frame to be read.
#[derive(Clone, Copy, Debug)]
struct PendingRead {
    number: u64,
    record: FrameRecord,
}

#[cfg(test)]
pub(crate) mod tests;
