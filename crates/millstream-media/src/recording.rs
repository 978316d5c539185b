//! The recording of live streams to files of fragmented MP4.
//!
//! ```text
//! ingest ── tap ── bounded queue ──> writer thread: stream ── segment ──> file
//! ```
//! The host copies each released frame into the queue and never waits for the disk. The writer is a
//! thread of its own. It starts after the server is confined, which allows it to write only in the
//! directory of the recordings.

pub(crate) mod directory;
pub(crate) mod playback;
pub(crate) mod reader;
pub(crate) mod segment;
pub(crate) mod stream;
pub(crate) mod tap;

use millstream_scenario::{Recording, Scenario};
use millstream_sync::clock::system::now_ns;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use crate::MediaError;
use crate::files::library::Library;
use crate::live::publishing::{LiveSpec, Publishing};
use crate::pages::status::RecordingStatus;
use directory::{Directory, RecordedFile, unix_ms};
use playback::{Place, PlaceTrack, Playbacks};
use stream::StreamRecording;
use tap::{Counts, Message, tap_tracks};

/// The most messages in the queue for each recorded stream.
const MESSAGES: usize = 512;

/// The time for which a stream's frames may wait in the queue at its rate, s.
const QUEUED_SECONDS: u64 = 4;

/// How often the writer looks for silent streams and old files.
const TICK: Duration = Duration::from_millis(500);

/// The longest wait for the writer at the end of the server.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A file takes at most this share of the space of all recordings, so that older ones remain.
const SHARE: u64 = 8;

/// Called by the writer for each completed file.
pub(crate) type OnCompleted = Box<dyn Fn(&RecordedFile, &Path) + Send>;

/// The recordings of a server, and their writer.
#[derive(Debug)]
pub(crate) struct Recorder {
    directory: Directory,
    /// The recorded streams: the index of the live stream, and the counters.
    streams: Vec<(usize, Arc<Counts>)>,
    queue: SyncSender<Message>,
    /// The writer's part, until it starts.
    writer: Option<Writer>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Opens the directory of the recordings. Returns `None` without `recording` in the scenario.
    ///
    /// # Errors
    /// Fails if the directory cannot be used.
    pub(crate) fn open(
        scenario: &Scenario,
        specs: &[LiveSpec],
    ) -> Result<Option<Self>, MediaError> {
        let Some(recording) = &scenario.media.recording else { return Ok(None) };
        let folder = scenario.folder.join(&recording.folder);
        let video = specs.iter().enumerate();
        let video = video.filter(|(_, spec)| spec.record && spec.audio.is_none());
        let (live, mut names): (Vec<usize>, Vec<&str>) =
            video.map(|(number, spec)| (number, spec.stream.as_str())).unzip();
        names.dedup();
        let open = || -> io::Result<Directory> {
            let Recording { max_bytes, max_age_ns, .. } = *recording;
            std::fs::create_dir_all(&folder)?;
            let directory = Directory::open(&folder, &names, max_bytes, max_age_ns)?;
            // An error at start is better than one at the first key frame.
            names.iter().try_for_each(|name| tempfile::tempfile_in(folder.join(name)).map(drop))?;
            Ok(directory)
        };
        let directory = open().map_err(|error| {
            MediaError::new(format!("recordings in {}: {error}", folder.display()))
                .help("`folder` of `recording` must be a directory that this user can write to")
        })?;
        let (queue, messages) = sync_channel(MESSAGES * live.len().max(1));
        let streams: Vec<(usize, Arc<Counts>)> =
            live.into_iter().map(|number| (number, Arc::default())).collect();
        let of = |(number, counts): &(usize, Arc<Counts>)| {
            let max_bytes = recording.max_bytes / SHARE;
            let (name, counts) = (&specs[*number].stream, Arc::clone(counts));
            StreamRecording::new(name, directory.clone(), recording.segment_ns, max_bytes, counts)
        };
        let streams_of_writer = streams.iter().map(of).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = Some(Writer {
            directory: directory.clone(),
            streams: streams_of_writer,
            counts: streams.iter().map(|(_, counts)| Arc::clone(counts)).collect(),
            messages,
            stop: Arc::clone(&stop),
        });
        Ok(Some(Self { directory, streams, queue, writer, stop, thread: None }))
    }

    /// Taps the recorded streams, and gives their recordings places for players.
    pub(crate) fn tap(&self, library: &Library, live: &mut Publishing) {
        let track = |at: usize| PlaceTrack { title: live.streams[at].spec.title, live: at };
        let place = |(stream, at): &(String, usize)| {
            let of = (stream.clone(), live.has_paths(stream));
            Place::new(of, track(*at), live.audio_of(*at).map(track))
        };
        let places = library.places.iter().map(place).collect();
        live.playbacks = Playbacks::new(self.directory.clone(), places);
        tap_tracks(&mut live.streams, &self.queue, QUEUED_SECONDS, |spec, video| {
            let found = self.streams.iter().position(|(other, _)| *other == video);
            let found = found.filter(|_| spec.record)?;
            Some((found, Arc::clone(&self.streams[found].1)))
        });
    }

    /// Starts the writer. It calls `on_completed` for each completed file.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub(crate) fn start(&mut self, on_completed: OnCompleted) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let thread = thread::Builder::new().name("recording".to_owned());
        self.thread = Some(thread.spawn(move || writer.run(&on_completed))?);
        Ok(())
    }

    /// Returns the directory of the recordings.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the state of each recorded stream; of the paths of a stream those that have a name.
    pub(crate) fn status(&self, live: &Publishing) -> Vec<RecordingStatus> {
        let named = self.streams.iter().filter(|(number, _)| live.streams[*number].is_named());
        let status = |(number, counts): &(usize, Arc<Counts>)| RecordingStatus {
            stream: live.streams[*number].name.clone(),
            frames: counts.frames.load(Ordering::Relaxed),
            lost_frames: counts.lost_frames.load(Ordering::Relaxed),
            lost_groups: counts.lost_groups.load(Ordering::Relaxed),
            files: counts.files.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            failures: counts.failures.load(Ordering::Relaxed),
            queued_bytes: counts.queued() as u64,
        };
        named.map(status).collect()
    }

    /// Ends the writer, which completes the files, unless the disk blocks it for too long.
    pub(crate) fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < END_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The writer thread's state.
#[derive(Debug)]
struct Writer {
    directory: Directory,
    streams: Vec<StreamRecording>,
    counts: Vec<Arc<Counts>>,
    messages: Receiver<Message>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self, on_completed: &OnCompleted) {
        let mut ticked = Instant::now();
        loop {
            // Messages that were sent before the request to stop are recorded.
            let stopping = self.stop.load(Ordering::Acquire);
            match self.messages.recv_timeout(if stopping { Duration::ZERO } else { TICK / 5 }) {
                Ok(Message::Frame(stream, frame)) => {
                    self.counts[stream].taken(&frame);
                    self.streams[stream].frame(&frame);
                }
                Ok(Message::End(stream)) => self.streams[stream].end(),
                Err(RecvTimeoutError::Timeout) if !stopping => {}
                Err(_) => break,
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                let now_ns = now_ns();
                self.streams.iter_mut().for_each(|stream| stream.tick(now_ns));
                self.directory.remove_old(unix_ms(SystemTime::now()));
            }
            self.report(on_completed);
        }
        self.streams.iter_mut().for_each(StreamRecording::end);
        self.report(on_completed);
    }

    fn report(&mut self, on_completed: &OnCompleted) {
        for stream in &mut self.streams {
            for file in stream.take_completed() {
                on_completed(&file, &self.directory.path(&file.stream, file.start_ms));
            }
        }
    }
}
