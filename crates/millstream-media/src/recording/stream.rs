//! The recording of one stream: decides which file a frame belongs to, and writes the files.
//!
//! A file begins with a key frame: at the start of a publication, when the file before is long
//! enough, and when the parameter sets change. Audio arrives later than the video that it belongs
//! to, so the file before stays open until audio of the next one arrives.

use millstream_sync::clock::system::now_ns;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::directory::{Directory, RecordedFile, unix_ms};
use super::segment::{Segment, SegmentError};
use super::tap::{Counts, RecordedFrame};

/// How long a file waits for audio after the next file began, ns.
const AUDIO_WAIT_NS: u64 = 2_000_000_000;

/// The silence after which a file ends, ns.
const SILENCE_NS: u64 = 10_000_000_000;

/// The least time between two reports of failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A file that is being written.
#[derive(Debug)]
struct OpenFile {
    segment: Segment,
    file: File,
    /// The UTC time in its name, ms since 1970.
    start_ms: u64,
    publication: u64,
    bytes: u64,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0}")]
    Segment(#[from] SegmentError),
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("the limit of all recordings is reached, and no complete file is left to remove")]
    NoRoom,
}

/// The recording of a stream.
#[derive(Debug)]
pub(crate) struct StreamRecording {
    stream: String,
    directory: Directory,
    /// The length of a file, ns, and the size that ends one earlier, bytes.
    segment_ns: u64,
    max_bytes: u64,
    counts: Arc<Counts>,
    current: Option<OpenFile>,
    /// The file before, which still waits for audio.
    previous: Option<OpenFile>,
    /// Files that were completed since they were last taken.
    completed: Vec<RecordedFile>,
    last_frame_ns: u64,
    /// Whether frames are lost until the next key frame, since a file could not be written.
    is_failed: bool,
    last_log: Option<Instant>,
}

impl StreamRecording {
    /// Creates the recording of `stream` in `directory`, in files of `segment_ns`, and of
    /// `max_bytes` if that is shorter.
    pub(crate) fn new(
        stream: &str,
        directory: Directory,
        segment_ns: u64,
        max_bytes: u64,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            stream: stream.to_owned(),
            directory,
            segment_ns,
            max_bytes,
            counts,
            current: None,
            previous: None,
            completed: Vec::new(),
            last_frame_ns: 0,
            is_failed: false,
            last_log: None,
        }
    }

    /// Records a frame.
    pub(crate) fn frame(&mut self, frame: &RecordedFrame) {
        self.last_frame_ns = now_ns();
        let is_new = |open: &OpenFile| open.publication != frame.publication;
        if self.current.as_ref().is_some_and(is_new) {
            self.end();
        }
        let written = if frame.is_audio { self.audio(frame) } else { self.video(frame) };
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    fn video(&mut self, frame: &RecordedFrame) -> Result<(), WriteError> {
        if frame.key && self.current.as_ref().is_none_or(|open| self.ends_before(open, frame)) {
            self.finish_previous();
            self.previous = self.current.take();
            if frame.audio.is_none() {
                self.finish_previous();
            }
            self.current = Some(self.begin(frame)?);
            self.is_failed = false;
        } else if let Some(open) = &mut self.current {
            if !open.segment.video(&frame.bytes, frame.captured_ns, frame.key)? {
                Counts::add(&self.counts.lost_frames, 1);
            }
        } else {
            self.lose();
            return Ok(());
        }
        let begun_ns = self.current.as_ref().map_or(0, |open| open.segment.start_ns());
        if frame.captured_ns.saturating_sub(begun_ns) > AUDIO_WAIT_NS {
            self.finish_previous();
        }
        self.write()
    }

    fn audio(&mut self, frame: &RecordedFrame) -> Result<(), WriteError> {
        let Some(config) = frame.audio.as_ref() else { return Ok(()) };
        for (bytes, after_ns) in config.frames(&frame.bytes) {
            let present_ns = frame.captured_ns.saturating_add(after_ns);
            let Some(open) = &mut self.current else {
                self.lose();
                continue;
            };
            if open.segment.audio(bytes, present_ns)? {
                self.finish_previous();
            } else if let Some(previous) = &mut self.previous {
                previous.segment.audio(bytes, present_ns)?;
            }
        }
        self.write()
    }

    /// Returns whether a file ends before the key frame `frame`.
    fn ends_before(&self, open: &OpenFile, frame: &RecordedFrame) -> bool {
        frame.captured_ns.saturating_sub(open.segment.start_ns()) >= self.segment_ns
            || open.bytes >= self.max_bytes
            || open.segment.is_other_format(&frame.bytes)
    }

    /// Begins a file with a key frame.
    fn begin(&self, frame: &RecordedFrame) -> Result<OpenFile, WriteError> {
        let segment = Segment::begin(&frame.bytes, frame.captured_ns, frame.audio.as_deref())?;
        let ago = Duration::from_nanos(now_ns().saturating_sub(frame.captured_ns));
        let start = SystemTime::now().checked_sub(ago).map_or(0, unix_ms);
        // Also bounds the number of files.
        if !self.directory.make_room(0) {
            return Err(WriteError::NoRoom);
        }
        let (file, start_ms) = self.directory.create(&self.stream, start)?;
        Ok(OpenFile { segment, file, start_ms, publication: frame.publication, bytes: 0 })
    }

    /// Writes the whole fragments of the current file.
    fn write(&mut self) -> Result<(), WriteError> {
        let Some(open) = &mut self.current else { return Ok(()) };
        write(open, &self.directory, &self.stream, &self.counts)
    }

    /// Completes the file before the current one.
    fn finish_previous(&mut self) {
        if let Some(open) = self.previous.take() {
            self.complete(open);
        }
    }

    /// Writes the last fragment of a file and closes it.
    fn complete(&mut self, mut open: OpenFile) {
        let finished = open.segment.finish().map_err(WriteError::from);
        let written =
            finished.and_then(|()| write(&mut open, &self.directory, &self.stream, &self.counts));
        if let Err(error) = written {
            self.count_failure(&error);
        }
        Counts::add(&self.counts.files, 1);
        self.completed.extend(self.directory.closed(&self.stream, open.start_ms));
    }

    /// Ends the recording of a publication.
    pub(crate) fn end(&mut self) {
        self.finish_previous();
        if let Some(open) = self.current.take() {
            self.complete(open);
        }
    }

    /// Ends the files of a silent stream.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if self.current.is_some() && now_ns.saturating_sub(self.last_frame_ns) > SILENCE_NS {
            self.end();
        }
    }

    /// Takes the files that were completed since the last call.
    pub(crate) fn take_completed(&mut self) -> Vec<RecordedFile> {
        std::mem::take(&mut self.completed)
    }

    /// Counts a frame that no file has. Frames before the first key frame are not lost.
    fn lose(&self) {
        Counts::add(&self.counts.lost_frames, u64::from(self.is_failed));
    }

    /// Gives the current file up: frames are lost until the next key frame.
    fn fail(&mut self, error: &WriteError) {
        self.count_failure(error);
        self.is_failed = true;
        self.finish_previous();
        if let Some(open) = self.current.take() {
            self.completed.extend(self.directory.closed(&self.stream, open.start_ms));
        }
    }

    fn count_failure(&mut self, error: &WriteError) {
        Counts::add(&self.counts.failures, 1);
        Counts::add(&self.counts.lost_groups, 1);
        if self.last_log.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            self.last_log = Some(Instant::now());
            eprintln!("the recording of stream `{}` failed: {error}", self.stream);
        }
    }
}

/// Writes the whole fragments of a file, if all recordings stay below their limit.
fn write(
    open: &mut OpenFile,
    directory: &Directory,
    stream: &str,
    counts: &Counts,
) -> Result<(), WriteError> {
    let output = open.segment.take_output();
    if output.is_empty() {
        return Ok(());
    }
    let length = output.len() as u64;
    if !directory.make_room(length) {
        return Err(WriteError::NoRoom);
    }
    open.file.write_all(&output)?;
    open.bytes += length;
    let lasted_ms = (open.segment.end_ns() - open.segment.start_ns()) / 1_000_000;
    directory.grown(stream, open.start_ms, length, open.start_ms + lasted_ms);
    Counts::add(&counts.bytes, length);
    Ok(())
}
