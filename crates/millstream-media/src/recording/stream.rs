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

/// The time without video after which a file ends, ns.
pub(crate) const SILENCE_NS: u64 = 10_000_000_000;

/// The least time from the start of a file to that of the next one with other parameter sets or
/// earlier times, ns. A publisher can change them with each frame.
const LEAST_FILE_NS: u64 = 1_000_000_000;

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
    /// Whether it has a fragment, besides the declaration of its tracks.
    has_fragment: bool,
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
    /// The name of the published stream.
    stream: Arc<str>,
    directory: Directory,
    /// The length of a file, ns, and the size that ends one earlier, bytes: at the next key frame,
    /// or at twice this size.
    segment_ns: u64,
    max_bytes: u64,
    least_ns: u64,
    counts: Arc<Counts>,
    current: Option<OpenFile>,
    /// The file before, which still waits for audio.
    previous: Option<OpenFile>,
    /// Files that were completed since they were last taken.
    completed: Vec<RecordedFile>,
    /// When the last file began, and when its last frame of video arrived, ns.
    begun_ns: u64,
    last_video_ns: u64,
    /// No file begins before this instant, ns.
    not_before_ns: u64,
    /// Whether frames are lost until the next key frame, since the file before ended without one.
    is_losing: bool,
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
            stream: Arc::from(stream),
            directory,
            segment_ns,
            max_bytes,
            least_ns: LEAST_FILE_NS,
            counts,
            current: None,
            previous: None,
            completed: Vec::new(),
            begun_ns: 0,
            last_video_ns: 0,
            not_before_ns: 0,
            is_losing: false,
            last_log: None,
        }
    }

    /// Records a frame.
    pub(crate) fn frame(&mut self, frame: &RecordedFrame) {
        let is_new = |open: &OpenFile| open.publication != frame.publication;
        if self.current.as_ref().is_some_and(is_new) {
            self.end();
        }
        // A path has another name when its place has another publisher.
        if self.stream != frame.stream {
            self.end();
            self.stream = Arc::clone(&frame.stream);
        }
        let written = if frame.is_audio { self.audio(frame) } else { self.video(frame) };
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    fn video(&mut self, frame: &RecordedFrame) -> Result<(), WriteError> {
        let arrived_ns = now_ns();
        if frame.key && self.current.as_ref().is_some_and(|open| cannot_hold(open, frame)) {
            let not_before_ns = self.begun_ns.saturating_add(self.least_ns);
            if arrived_ns < not_before_ns {
                self.not_before_ns = not_before_ns;
                self.give_up();
            }
        }
        if frame.key && self.current.as_ref().is_none_or(|open| self.ends_before(open, frame)) {
            if arrived_ns < self.not_before_ns {
                self.lose();
                Counts::add(&self.counts.lost_groups, 1);
                return Ok(());
            }
            self.finish_previous();
            self.previous = self.current.take();
            if frame.audio.is_none() {
                self.finish_previous();
            }
            self.current = Some(self.begin(frame)?);
            self.is_losing = false;
            (self.begun_ns, self.last_video_ns) = (arrived_ns, arrived_ns);
        } else if let Some(open) = &mut self.current {
            if open.segment.video(&frame.bytes, frame.captured_ns, frame.key)? {
                self.last_video_ns = arrived_ns;
            } else {
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
        let frames = config.frames(&frame.bytes);
        if frames.is_empty() {
            // Malformed, or the end of a frame that has several packets.
            Counts::add(&self.counts.lost_frames, 1);
        }
        for (bytes, after_ns) in frames {
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
            || cannot_hold(open, frame)
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
        Ok(OpenFile {
            segment,
            file,
            start_ms,
            publication: frame.publication,
            bytes: 0,
            has_fragment: false,
        })
    }

    /// Writes the whole fragments of the open files.
    fn write(&mut self) -> Result<(), WriteError> {
        for open in self.previous.iter_mut().chain(&mut self.current) {
            write(open, &self.directory, &self.stream, &self.counts)?;
        }
        let most = self.max_bytes.saturating_mul(2);
        if self.previous.as_ref().is_some_and(|open| open.bytes >= most) {
            self.finish_previous();
        }
        if self.current.as_ref().is_some_and(|open| open.bytes >= most) {
            self.give_up();
            Counts::add(&self.counts.lost_groups, 1);
        }
        Ok(())
    }

    /// Completes the files without a key frame: frames are lost until the next one.
    fn give_up(&mut self) {
        self.end();
        self.is_losing = true;
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
        self.close(&open);
    }

    /// Closes a file, and removes it if it has no frame.
    fn close(&mut self, open: &OpenFile) {
        let Some(closed) = self.directory.closed(&self.stream, open.start_ms) else { return };
        if open.has_fragment {
            Counts::add(&self.counts.files, 1);
            self.completed.push(closed);
        } else {
            self.directory.remove(&closed);
        }
    }

    /// Ends the recording of a publication.
    pub(crate) fn end(&mut self) {
        self.finish_previous();
        if let Some(open) = self.current.take() {
            self.complete(open);
        }
        self.is_losing = false;
    }

    /// Ends the files of a stream without video.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if self.current.is_some() && now_ns.saturating_sub(self.last_video_ns) > SILENCE_NS {
            self.give_up();
        }
    }

    /// Takes the files that were completed since the last call.
    pub(crate) fn take_completed(&mut self) -> Vec<RecordedFile> {
        std::mem::take(&mut self.completed)
    }

    /// Counts a frame that no file has. Frames before the first key frame are not lost.
    fn lose(&self) {
        Counts::add(&self.counts.lost_frames, u64::from(self.is_losing));
    }

    /// Gives the current file up: frames are lost until the next key frame.
    fn fail(&mut self, error: &WriteError) {
        self.count_failure(error);
        self.is_losing = true;
        self.finish_previous();
        if let Some(open) = self.current.take() {
            self.close(&open);
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
    let (written, result) = write_counted(&mut open.file, &output);
    let lasted_ms = (open.segment.end_ns() - open.segment.start_ns()) / 1_000_000;
    directory.grown(stream, open.start_ms, written, open.start_ms + lasted_ms);
    Counts::add(&counts.bytes, written);
    result?;
    // The first output declares the tracks.
    open.has_fragment |= open.bytes > 0;
    open.bytes += length;
    Ok(())
}

/// Returns whether a file cannot have the key frame `frame`: it has other parameter sets, or
/// precedes the file.
fn cannot_hold(open: &OpenFile, frame: &RecordedFrame) -> bool {
    frame.captured_ns < open.segment.start_ns() || open.segment.is_other_format(&frame.bytes)
}

/// Writes all of `bytes`. Returns how many are written, also if an error ends it.
fn write_counted(file: &mut impl Write, bytes: &[u8]) -> (u64, io::Result<()>) {
    let mut rest = bytes;
    let result = loop {
        if rest.is_empty() {
            break Ok(());
        }
        match file.write(rest) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    ((bytes.len() - rest.len()) as u64, result)
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
            stream: Arc::from("cam"),
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

    #[test]
    fn a_disk_that_takes_half_a_fragment_is_counted() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let taken = bytes.len().min(self.0).min(3);
                self.0 -= taken;
                if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (written, result) = write_counted(&mut Full(7), &[0; 10]);
        assert_eq!((written, result.unwrap_err().kind()), (7, io::ErrorKind::StorageFull));
        let (written, result) = write_counted(&mut Full(10), &[0; 10]);
        assert_eq!((written, result.is_ok()), (10, true));
    }

    #[test]
    fn a_file_without_a_fragment_is_removed() {
        let (_folder, directory, mut recording, counts) = recording(1 << 20);
        let start_ns = now_ns() - 10_000 * MS;
        for number in 0..30 {
            recording.frame(&frame(number, start_ns, 1));
            if let Some(open) = &mut recording.current {
                // Nothing can be written to it any more.
                open.file = File::open(directory.path("cam", open.start_ms)).unwrap();
            }
        }
        recording.end();
        assert_eq!((on_disk(&directory), directory.bytes()), (0, 0));
        assert_eq!((directory.list(9, |_| true), recording.take_completed()), (vec![], vec![]));
        assert_eq!((of(&counts.failures), of(&counts.files)), (3, 0));
    }

    #[test]
    fn times_that_go_back_begin_a_file() {
        let (_folder, directory, mut recording, counts) = recording(1 << 20);
        recording.least_ns = 0;
        let start_ns = now_ns() - 10_000 * MS;
        (0..15).for_each(|number| recording.frame(&frame(number, start_ns, 1)));
        // The frames until the next key frame are of no file.
        (15..40).for_each(|number| recording.frame(&frame(number, start_ns - 9_000 * MS, 1)));
        recording.end();
        assert_eq!((directory.list(9, |_| true).len(), of(&counts.lost_frames)), (4, 5));
    }

    #[test]
    fn a_file_ends_without_a_key_frame_at_twice_its_size() {
        let (_folder, directory, mut recording, counts) = recording(1 << 20);
        recording.max_bytes = 20_000;
        let start_ns = now_ns() - 10_000 * MS;
        let number = |number: u64| {
            let mut frame = RecordedFrame { key: number == 0, ..frame(number % 100, start_ns, 1) };
            frame.captured_ns = start_ns + number * 40 * MS;
            frame.bytes = coded(1, number == 0);
            frame.bytes.extend([3; 1_000]);
            frame
        };
        (0..200).for_each(|n| recording.frame(&number(n)));
        assert!((40_000..70_000).contains(&directory.bytes()), "{}", directory.bytes());
        assert_eq!((of(&counts.files), of(&counts.lost_groups)), (1, 1));
        let lost_frames = of(&counts.lost_frames);
        assert!((120..170).contains(&lost_frames), "{lost_frames}");
        // The next key frame begins a file.
        recording.frame(&RecordedFrame { key: true, bytes: coded(1, true), ..number(201) });
        recording.end();
        assert_eq!((of(&counts.files), of(&counts.lost_frames)), (2, lost_frames));
    }

    #[test]
    fn changing_parameter_sets_do_not_make_a_file_for_each_frame() {
        let (_folder, directory, mut recording, counts) = recording(1 << 20);
        recording.least_ns = u64::MAX;
        let start_ns = now_ns() - 10_000 * MS;
        for number in 0..20u64 {
            let mut frame = frame(number * 10, start_ns + number, 1);
            frame.captured_ns = start_ns + number * 40 * MS;
            let other = [0, 0, 1, 0x68, 1];
            frame.bytes.extend(other.iter().filter(|_| !number.is_multiple_of(2)));
            recording.frame(&frame);
        }
        recording.end();
        assert_eq!(directory.list(99, |_| true).len(), 1);
        assert_eq!((of(&counts.lost_frames), of(&counts.lost_groups)), (19, 19));
    }

    #[test]
    fn sound_without_video_is_written_and_its_file_ends() {
        let (_folder, directory, mut recording, counts) = recording(1 << 20);
        let start_ns = now_ns() - 10_000 * MS;
        let audio = Some(Arc::new(AudioConfig::Opus { stereo: false }));
        recording.frame(&RecordedFrame { audio: audio.clone(), ..frame(0, start_ns, 1) });
        let declared = directory.bytes();
        let sound = |number: u64| RecordedFrame {
            is_audio: true,
            captured_ns: start_ns + number * 20 * MS,
            bytes: vec![7; 3],
            audio: audio.clone(),
            ..frame(0, 0, 1)
        };
        (0..150).for_each(|number| recording.frame(&sound(number)));
        assert!(directory.bytes() > declared, "a fragment of two seconds");
        recording.tick(recording.last_video_ns + SILENCE_NS + 1);
        (150..160).for_each(|number| recording.frame(&sound(number)));
        assert_eq!((of(&counts.files), of(&counts.lost_frames)), (1, 10));
        // A packet with a part of a frame of AAC.
        let sample_rate = 48_000.try_into().unwrap();
        let aac = AudioConfig::Aac { config: vec![0x11, 0x90], sample_rate, channels: 2 };
        let part = RecordedFrame {
            audio: Some(Arc::new(aac)),
            bytes: vec![0, 16, 40, 0, 1],
            ..sound(160)
        };
        recording.frame(&part);
        assert_eq!(of(&counts.lost_frames), 11);
    }
}
