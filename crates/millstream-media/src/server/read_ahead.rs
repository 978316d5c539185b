//! Read-ahead of media files in session control: the frame cache and, if configured, the producer
//! process.

use millstream_scenario::FramePath;
use mio::net::UnixStream;
use mio::{Interest, Poll};
use std::io;
use std::time::Instant;

use super::{MediaServer, PRODUCER, RESTART, SHORT_LIFE, SHORT_LIVES, failed};
use crate::MediaError;
use crate::data_plane::drain;
use crate::data_plane::placement::SharedResources;
use crate::files::read_ahead::frame_cache::FrameCache;
use crate::files::read_ahead::producer::Producer;
use crate::live::frames::Copied;
use crate::pages::status::Reading;
use crate::shared_memory::store::FrameRecord;

/// The read-ahead state; empty if all media files are in the store.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    path: FramePath,
    frame_cache: Option<FrameCache>,
    copied: Copied,
    producer: Option<Running>,
    /// The number of producers started.
    producers: u64,
}

/// A running producer.
#[derive(Debug)]
struct Running {
    producer: Producer,
    waker: UnixStream,
    started: Instant,
    short_lives: u32,
}

impl Running {
    fn start(resources: &SharedResources, poll: &Poll, short_lives: u32) -> io::Result<Self> {
        let (producer, waker) = Producer::start(resources)?;
        let mut waker = UnixStream::from_std(waker);
        poll.registry().register(&mut waker, PRODUCER, Interest::READABLE)?;
        Ok(Self { producer, waker, started: Instant::now(), short_lives })
    }
}

impl ReadAhead {
    /// Opens the frame cache of `resources` and starts the producer, if the path needs one.
    pub(super) fn open(
        resources: &SharedResources,
        path: FramePath,
        poll: &Poll,
    ) -> Result<Self, MediaError> {
        if resources.media_files.is_empty() {
            return Ok(Self::default());
        }
        let frame_cache = FrameCache::open(&resources.frame_cache)
            .map_err(|error| failed("the frame cache", &error))?;
        let mut media_files = Self { path, frame_cache: Some(frame_cache), ..Self::default() };
        if path == FramePath::Producer {
            let running = Running::start(resources, poll, 0);
            media_files.producer =
                Some(running.map_err(|error| failed("the producer of frames", &error))?);
            media_files.producers = 1;
        }
        Ok(media_files)
    }

    /// Returns the process id of the producer, if one runs.
    pub(super) fn producer_id(&self) -> Option<u32> {
        self.producer.as_ref().map(|running| running.producer.id())
    }

    /// Copies a session's frame; `None` if it is not in the cache any more.
    pub(super) fn copy(
        &mut self,
        session: usize,
        number: u64,
        record: &FrameRecord,
    ) -> Option<&[u8]> {
        let to = self.copied.replace();
        let there = self.frame_cache?.copy(session, number, record.length, to);
        there.then_some(&self.copied.bytes[..])
    }

    /// Returns the read-ahead state for `/status`.
    pub(super) fn reading(&self) -> Reading {
        Reading::of(self.path, self.frame_cache, self.producers)
    }

    /// Closes the producer's wake socket and waits for its end.
    pub(super) fn end(&mut self) {
        if let Some(running) = self.producer.take() {
            let Running { mut producer, waker, .. } = running;
            drop(waker);
            producer.wait();
        }
    }
}

impl MediaServer {
    /// Handles an event of the producer's wake socket: starts another producer if this one has
    /// ended.
    pub(super) fn attend_producer(&mut self) -> Result<(), MediaError> {
        let Some(running) = &mut self.media_files.producer else { return Ok(()) };
        if drain(&mut running.waker) {
            return Ok(());
        }
        let why = running.producer.wait();
        let short = running.started.elapsed() < SHORT_LIFE;
        let short_lives = if short { running.short_lives + 1 } else { 0 };
        if short_lives == SHORT_LIVES {
            let message = format!("{SHORT_LIVES} producers of frames died at once: {why}");
            return Err(MediaError::new(message).help("frame-path = \"host\" does without one"));
        }
        eprintln!("the producer of frames is gone ({why}); starting another");
        let _ = self.poll.registry().deregister(&mut running.waker);
        std::thread::sleep(RESTART.saturating_sub(running.started.elapsed()));
        let another = Running::start(&self.resources, &self.poll, short_lives);
        self.media_files.producer =
            Some(another.map_err(|error| failed("the producer of frames", &error))?);
        self.media_files.producers += 1;
        Ok(())
    }
}
