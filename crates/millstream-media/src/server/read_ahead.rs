//! Read-ahead of media files in session control: the frame cache and, if configured, the producer
//! process.

use millstream_scenario::FramePath;
use mio::net::UnixStream;
use mio::{Interest, Registry};
use std::io;

use super::restart::{MAX_EARLY_EXITS, MIN_UPTIME, RestartLimit};
use super::{PRODUCER, failed};
use crate::MediaError;
use crate::data_plane::placement::SharedResources;
use crate::files::read_ahead::producer::Producer;
use crate::pages::status::Reading;
use crate::shared_memory::frame_cache::FrameCache;
use crate::shared_memory::live_frames::FrameBuffer;
use crate::shared_memory::store::FrameRecord;
use crate::wake_socket::drain;

/// The read-ahead state; empty if all media files are in the store.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    path: FramePath,
    frame_cache: Option<FrameCache>,
    copied: FrameBuffer,
    producer: Option<(Running, RestartLimit)>,
    /// The number of producers started.
    producers: u64,
}

/// A running producer.
#[derive(Debug)]
struct Running {
    producer: Producer,
    waker: UnixStream,
}

impl Running {
    fn start(resources: &SharedResources, registry: &Registry) -> io::Result<Self> {
        let (producer, waker) = Producer::start(resources)?;
        let mut waker = UnixStream::from_std(waker);
        registry.register(&mut waker, PRODUCER, Interest::READABLE)?;
        Ok(Self { producer, waker })
    }
}

impl ReadAhead {
    /// Opens the frame cache of `resources` and starts the producer, if the path needs one.
    pub(super) fn open(
        resources: &SharedResources,
        path: FramePath,
        registry: &Registry,
    ) -> Result<Self, MediaError> {
        if resources.media_files.is_empty() {
            return Ok(Self::default());
        }
        let frame_cache = FrameCache::open(&resources.frame_cache)
            .map_err(|error| failed("the frame cache", &error))?;
        let mut media_files = Self { path, frame_cache: Some(frame_cache), ..Self::default() };
        if path == FramePath::Producer {
            let running = Running::start(resources, registry)
                .map_err(|error| failed("the frame producer", &error))?;
            media_files.producer = Some((running, RestartLimit::new()));
            media_files.producers = 1;
        }
        Ok(media_files)
    }

    /// Returns the process id of the producer, if one runs.
    pub(super) fn producer_id(&self) -> Option<u32> {
        self.producer.as_ref().map(|(running, _)| running.producer.id())
    }

    /// Copies a session's frame; `None` if it is not in the cache any more.
    pub(super) fn copy(
        &mut self,
        session: usize,
        number: u64,
        record: &FrameRecord,
    ) -> Option<&[u8]> {
        let to = self.copied.replace();
        let found = self.frame_cache?.copy(session, number, record.length, to);
        found.then_some(&self.copied.bytes[..])
    }

    /// Returns the read-ahead state for `/status`.
    pub(super) fn reading(&self) -> Reading {
        Reading::of(self.path, self.frame_cache, self.producers)
    }

    /// Closes the producer's wake socket and waits for its end.
    pub(super) fn end(&mut self) {
        if let Some((Running { mut producer, waker }, _)) = self.producer.take() {
            drop(waker);
            producer.wait();
        }
    }

    /// Handles an event of the producer's wake socket: starts another producer if this one has
    /// ended.
    pub(super) fn handle_producer_event(
        &mut self,
        resources: &SharedResources,
        registry: &Registry,
    ) -> Result<(), MediaError> {
        let Some((running, restarts)) = &mut self.producer else { return Ok(()) };
        if drain(&mut running.waker) {
            return Ok(());
        }
        let reason = running.producer.wait();
        if !restarts.record_exit() {
            let message = format!(
                "{MAX_EARLY_EXITS} frame producers in a row ended within {MIN_UPTIME:?}: {reason}"
            );
            return Err(MediaError::new(message).help("frame-path = \"host\" needs no producer"));
        }
        eprintln!("the frame producer ended ({reason}); starting another");
        let _ = registry.deregister(&mut running.waker);
        *running = restarts
            .restart(|| Running::start(resources, registry))
            .map_err(|error| failed("the frame producer", &error))?;
        self.producers += 1;
        Ok(())
    }
}
