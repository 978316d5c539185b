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
        let Some(open) = self.current.take() else { return };
        let closed = self.directory.closed(&self.stream, open.start_ms);
        match closed.filter(|file| file.bytes == 0) {
            Some(empty) => {
                self.directory.remove(&empty);
            }
            None => self.completed.extend(self.directory.file(&self.stream, open.start_ms)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::segment::AudioConfig;
    use crate::recording::segment::tests::frame as coded;
    use millstream_traffic::mpeg::{FragmentTrack, FragmentedMp4};
    use std::sync::atomic::Ordering;

    const MS: u64 = 1_000_000;

    /// Returns a recording in files of 400 ms, all of them together limited to `max_bytes`.
    fn recording(max_bytes: u64) -> (tempfile::TempDir, Directory, StreamRecording, Arc<Counts>) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), &["cam"], max_bytes, None).unwrap();
        let counts = Arc::new(Counts::default());
        let recording =
            StreamRecording::new("cam", directory.clone(), 400 * MS, u64::MAX, Arc::clone(&counts));
        (folder, directory, recording, counts)
    }

    /// Returns frame `number` of a publication, one each 40 ms, a key frame each 400 ms.
    fn frame(number: u64, start_ns: u64, publication: u64) -> RecordedFrame {
        let key = number.is_multiple_of(10);
        RecordedFrame {
            publication,
            is_audio: false,
            captured_ns: start_ns + number * 40 * MS,
            key,
            bytes: coded(u8::try_from(number).unwrap(), key),
            audio: None,
        }
    }

    fn on_disk(directory: &Directory) -> u64 {
        let files = directory.list(usize::MAX, |_| true);
        let size = |file: &RecordedFile| {
            std::fs::metadata(directory.path("cam", file.start_ms)).unwrap().len()
        };
        files.iter().map(size).sum()
    }

    fn of(counter: &std::sync::atomic::AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    #[test]
    fn all_files_together_stay_below_the_limit() {
        let (_folder, directory, mut recording, counts) = recording(4_000);
        let start_ns = now_ns() - 10_000 * MS;
        for number in 0..100 {
            recording.frame(&frame(number, start_ns, 1));
            assert_eq!(on_disk(&directory), directory.bytes());
            assert!(directory.bytes() <= 4_000, "{number}");
        }
        recording.end();
        let completed = recording.take_completed();
        assert_eq!((completed.len(), of(&counts.files)), (10, 10));
        let left = directory.list(usize::MAX, |_| true);
        assert!((2..10).contains(&left.len()), "{left:?}");
        assert_eq!(left.last().map(|file| file.start_ms), Some(completed[9].start_ms));
        assert_eq!((of(&counts.lost_frames), of(&counts.failures)), (0, 0));
        assert!(of(&counts.bytes) > 4_000);
    }

    #[test]
    fn without_room_groups_of_pictures_are_lost_and_counted() {
        let (_folder, directory, mut recording, counts) = recording(500);
        let start_ns = now_ns() - 10_000 * MS;
        (0..30).for_each(|number| recording.frame(&frame(number, start_ns, 1)));
        recording.end();
        assert_eq!((on_disk(&directory), of(&counts.bytes)), (0, 0));
        assert_eq!((of(&counts.failures), of(&counts.lost_groups)), (3, 3));
        assert_eq!(of(&counts.lost_frames), 27);
    }

    #[test]
    fn a_missing_directory_loses_what_is_published_until_it_is_back() {
        let (folder, directory, mut recording, counts) = recording(1 << 20);
        let start_ns = now_ns() - 10_000 * MS;
        let hidden = folder.path().join("elsewhere");
        std::fs::rename(folder.path().join("cam"), &hidden).unwrap();
        (0..15).for_each(|number| recording.frame(&frame(number, start_ns, 1)));
        std::fs::rename(&hidden, folder.path().join("cam")).unwrap();
        (15..30).for_each(|number| recording.frame(&frame(number, start_ns, 1)));
        recording.end();
        assert_eq!((of(&counts.failures), of(&counts.lost_frames)), (2, 18));
        assert_eq!(directory.list(usize::MAX, |_| true).len(), 1);
    }

    #[test]
    fn late_sound_belongs_to_its_video_and_a_publication_begins_a_file() {
        let (_folder, directory, mut recording, _) = recording(1 << 20);
        let start_ns = now_ns() - 10_000 * MS;
        let audio = Some(Arc::new(AudioConfig::Opus { stereo: false }));
        let sound = |number: u64| RecordedFrame {
            is_audio: true,
            captured_ns: start_ns + number * 20 * MS,
            bytes: vec![7; 3],
            audio: audio.clone(),
            ..frame(0, 0, 1)
        };
        for number in 0..20 {
            recording.frame(&RecordedFrame { audio: audio.clone(), ..frame(number, start_ns, 1) });
            // Sound arrives 100 ms after its video.
            if let Some(late) = (number * 2).checked_sub(5) {
                [late, late + 1].map(&sound).iter().for_each(|frame| recording.frame(frame));
            }
        }
        recording.frame(&frame(20, start_ns, 2));
        recording.end();
        let files = directory.list(usize::MAX, |_| true);
        let counts = files.iter().map(|file| {
            let input = File::open(directory.path("cam", file.start_ms)).unwrap();
            let mut input = FragmentedMp4::open(input).unwrap().unwrap();
            let mut counts = [0; 2];
            while let Some(fragment) = input.next_fragment().unwrap() {
                for one in fragment.samples {
                    counts[usize::from(one.track == FragmentTrack::Audio)] += 1;
                }
            }
            counts
        });
        // The first sound is that at 20 ms; the file begins with video.
        assert_eq!(counts.collect::<Vec<_>>(), [[10, 19], [10, 15], [1, 0]]);
    }
}
