//! Who reads: a thread a film, of ordinary priority, which puts what sessions will want onto the
//! shelf.
//!
//! A film whose disk is slow or gone holds up its own thread and no other. A frame whose checksum
//! is not that of when the film was loaded, or that the file ends before, is not played: it is
//! noted as failed, and said.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::frame_cache::{CacheField, FrameCache, Shape, Wanted};
use super::media_file::{DiskFile, MediaFile};
use crate::shared_memory::store::{FrameRecord, MediaRecord, Store};

/// How long a reader sleeps whose film is played, ns: a part of any `read-ahead`; and one whose
/// film is not, as whoever begins wakes it.
const PAUSE_NS: u64 = 10_000_000;
const IDLE_NS: u64 = 1_000_000_000;

/// The most that is read at once, if it is more than one frame, bytes.
const BATCH: u64 = 256 << 10;

/// How often a film's failures are said at most.
const SAID: Duration = Duration::from_secs(1);

/// Threads that read; they end when this is dropped, one that waits for a disk when the disk
/// answers.
#[derive(Debug)]
pub(crate) struct Readers {
    stop: Arc<AtomicBool>,
    shelf: FrameCache,
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shelf.ring();
    }
}

impl Readers {
    /// Reads the films of `store` from `files`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(store: Store, shelf: FrameCache, files: Vec<File>) -> io::Result<Self> {
        let films: Vec<DiskFile> = files.into_iter().map(DiskFile::new).collect();
        if let Some(film) = films.first() {
            shelf.set(CacheField::Way, film.way() as u64);
        }
        Self::of(store, shelf, films)
    }

    /// The same of any films.
    pub(crate) fn of(
        store: Store,
        shelf: FrameCache,
        films: Vec<impl MediaFile + 'static>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let readers = Self { stop, shelf };
        let store = Arc::new(store);
        let places: Arc<[Mutex<()>]> = (0..shelf.places()).map(|_| Mutex::new(())).collect();
        for (number, film) in (1..).zip(films) {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&readers.stop));
            let places = Arc::clone(&places);
            let mut reader = Reader { store, shelf, places, number, film, said: None };
            let thread = std::thread::Builder::new().name(format!("film {number}"));
            thread.spawn(move || reader.run(&stop))?;
        }
        Ok(readers)
    }
}

/// Starts threads that will read `films` for the store and the shelf in these files, once the
/// sender says so; they end with it. The first of them calls `begin` before the others start. They
/// are of this thread's class and on its cores, whatever becomes of it meanwhile.
///
/// # Errors
/// If a thread cannot be started.
pub(crate) fn start_later(
    store: File,
    shelf: File,
    films: Vec<File>,
    begin: fn(),
) -> io::Result<Sender<()>> {
    let (to, from) = channel();
    let start = move || Readers::start(Store::open(&store)?, FrameCache::open(&shelf)?, films);
    std::thread::Builder::new().name("films".to_owned()).spawn(move || {
        begin();
        if from.recv().is_err() {
            return;
        }
        match start() {
            // Until the other end is gone.
            Ok(_readers) => while from.recv().is_ok() {},
            Err(error) => eprintln!("films cannot be read: {error}"),
        }
    })?;
    Ok(to)
}

struct Reader<F> {
    store: Arc<Store>,
    shelf: FrameCache,
    /// A place may change hands between two films: one thread at a time puts something there.
    places: Arc<[Mutex<()>]>,
    /// The film's number + 1.
    number: u32,
    film: F,
    /// When its failures were said last.
    said: Option<Instant>,
}

impl<F: MediaFile> Reader<F> {
    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            let rung = self.shelf.rung();
            let (mut played, mut busy) = (false, false);
            for place in 0..self.shelf.used() {
                let Some(wanted) = self.wanted(place) else { continue };
                played = true;
                busy |= self.attend(place, &wanted);
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
            if !busy {
                self.shelf.sleep(rung, if played { PAUSE_NS } else { IDLE_NS });
            }
        }
    }

    /// What the session at a place wants, if it plays this film.
    fn wanted(&self, place: usize) -> Option<Wanted> {
        let wanted = self.shelf.wanted(place)?;
        let media = self.store.media().get(wanted.media)?;
        (media.film == self.number).then_some(wanted)
    }

    /// Reads what a session will want next. Returns whether there was something.
    fn attend(&mut self, place: usize, wanted: &Wanted) -> bool {
        let Some(media) = self.store.media().get(wanted.media).copied() else { return false };
        let Some(batch) = self.next(place, wanted, &media) else { return false };
        self.read(place, wanted, &batch);
        true
    }

    /// The frames that are to be read next, which lie end to end in the film; `None` if enough are
    /// there.
    fn next(&self, place: usize, wanted: &Wanted, media: &MediaRecord) -> Option<Vec<Due>> {
        let frames = self.store.frames(media);
        let ahead = u64::from(media.ahead).min(self.shelf.slots());
        let end = wanted.from.saturating_add(ahead);
        let end = if media.repeat == 0 { end.min(media.frames) } else { end };
        let missing = |number: &u64| !self.shelf.is_done(place, wanted, *number);
        let first = (wanted.from..end).find(missing)?;
        // As long as more than half is there it can wait, to be read with others.
        if first - wanted.from > ahead / 2 && end - first < ahead / 4 {
            return None;
        }
        let mut room = self.shelf.room(place, wanted);
        let (mut batch, mut bytes): (Vec<Due>, u64) = (Vec::new(), 0);
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
            batch.push(Due { number, record });
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn read(&mut self, place: usize, wanted: &Wanted, batch: &[Due]) {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return };
        let start = first.record.at;
        let length = last.record.at - start + u64::from(last.record.length);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut failed = None;
        match self.film.read(start, length) {
            Ok(bytes) => {
                let _alone = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
                for due in batch {
                    let from = usize::try_from(due.record.at - start).unwrap_or(usize::MAX);
                    let frame = bytes.get(from..).and_then(|b| b.get(..due.record.length as usize));
                    let sound = frame.filter(|frame| crc32fast::hash(frame) == due.record.check);
                    if sound.is_none() && failed.is_none() {
                        let why = match frame {
                            None => "the file ends before it: it was truncated",
                            Some(_) => {
                                "its bytes are not those that were loaded: the file was changed"
                            }
                        };
                        failed = Some((*due, why.to_owned()));
                    }
                    self.shelf.put(place, wanted, due.number, sound);
                }
            }
            Err(error) => {
                let _alone = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
                self.shelf.put(place, wanted, first.number, None);
                failed = Some((*first, error.to_string()));
            }
        }
        if let Some((due, why)) = failed {
            self.say(&due, &why);
        }
    }

    /// Says that a frame could not be read, once a while.
    fn say(&mut self, due: &Due, why: &str) {
        self.shelf.set(CacheField::Failures, self.shelf.get(CacheField::Failures).wrapping_add(1));
        if self.said.is_some_and(|said| said.elapsed() < SAID) {
            return;
        }
        self.said = Some(Instant::now());
        let Due { number, record } = due;
        eprintln!(
            "film {}: frame {number} ({} bytes from {} on) is left out: {why}",
            self.film.name(),
            record.length,
            record.at
        );
    }
}

/// A frame that is to be read.
#[derive(Clone, Copy, Debug)]
struct Due {
    number: u64,
    record: FrameRecord,
}

#[cfg(test)]
pub(crate) mod tests;
