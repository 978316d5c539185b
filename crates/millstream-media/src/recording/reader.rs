//! Reads recordings for a player: a thread that goes through the files of a stream.
//!
//! It begins with the last key frame before the requested time and continues with the files that
//! follow, to the end of what is recorded. Its queue is bounded: it reads as fast as it is played.

use millstream_traffic::mpeg::{
    AudioFormat, FragmentFormats, FragmentSample, FragmentTrack, FragmentedMp4, append_byte_stream,
};
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use std::{io, thread};

use super::directory::{Directory, RecordedFile};
use crate::MediaError;

/// The most frames that wait to be played.
const QUEUE: usize = 64;

/// The most damaged files that a request skips.
const MAX_DAMAGED: usize = 16;

/// How often and how long a reader looks for the rest of a file that is still written, although
/// there is a next one: the file waits for its audio.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const POLLS: usize = 300;

/// The start code of a parameter set.
const START: [u8; 4] = [0, 0, 0, 1];

/// A frame of a recording.
#[derive(Debug)]
pub(crate) struct PlayedFrame {
    pub(crate) is_audio: bool,
    /// When it was decoded and presented, ns of UTC since 1970.
    pub(crate) decode_ns: u64,
    pub(crate) present_ns: u64,
    /// Video with start codes, key frames with their parameter sets; or a frame of audio.
    pub(crate) bytes: Vec<u8>,
}

/// Returns the file that has frames of `stream` at `start_ms`, or else the next one.
pub(crate) fn first_file(
    directory: &Directory,
    stream: &str,
    start_ms: u64,
) -> Option<RecordedFile> {
    let has =
        |file: &RecordedFile| file.stream == stream && file.end_ms >= start_ms && file.bytes > 0;
    let mut found = directory.list(2, has);
    // The times of successive files can overlap by the last sound.
    if found.get(1).is_some_and(|next| next.start_ms > start_ms) {
        found.truncate(1);
    }
    found.pop()
}

/// Returns the file that has frames of `stream` at `start_ms`, or else the next one, with the
/// formats of its tracks. Calls `on_damaged` for each file that is skipped, since it cannot be read
/// or has no H.264 video.
pub(crate) fn first_readable(
    directory: &Directory,
    stream: &str,
    start_ms: u64,
    mut on_damaged: impl FnMut(&RecordedFile, &MediaError),
) -> Option<(RecordedFile, FragmentFormats)> {
    let mut next = first_file(directory, stream, start_ms);
    for _ in 0..=MAX_DAMAGED {
        let file = next?;
        match open(directory, &file) {
            Ok(opened) => return Some((file, opened.formats().clone())),
            Err(error) => on_damaged(&file, &error),
        }
        next = next_file(directory, &file);
    }
    None
}

/// Returns the file of the same stream that follows `file`.
fn next_file(directory: &Directory, file: &RecordedFile) -> Option<RecordedFile> {
    let follows =
        |other: &RecordedFile| other.stream == file.stream && other.start_ms > file.start_ms;
    directory.list(1, |other| follows(other) && other.bytes > 0).pop()
}

/// Returns whether a file is still written.
fn is_open(directory: &Directory, file: &RecordedFile) -> bool {
    directory.file(&file.stream, file.start_ms).is_some_and(|entry| entry.open)
}

fn open(
    directory: &Directory,
    file: &RecordedFile,
) -> Result<FragmentedMp4<BufReader<File>>, MediaError> {
    let path = directory.path(&file.stream, file.start_ms);
    let wrong = |why: &dyn std::fmt::Display| MediaError::new(format!("{}: {why}", path.display()));
    let input = File::open(&path).map_err(|error| wrong(&error))?;
    let opened =
        FragmentedMp4::open(BufReader::new(input)).map_err(|error| wrong(&error.message))?;
    let opened = opened.filter(|opened| opened.formats().h264.is_some());
    opened.ok_or_else(|| wrong(&"not a recording with H.264 video"))
}

/// The frames of a reader. Dropping it ends the reader, even while it sends none.
#[derive(Debug)]
pub(crate) struct PlayedFrames {
    frames: Receiver<PlayedFrame>,
    stop: Arc<AtomicBool>,
}

/// The reader's side of [`PlayedFrames`].
#[derive(Debug)]
pub(super) struct Output {
    frames: SyncSender<PlayedFrame>,
    stop: Arc<AtomicBool>,
}

/// Returns the two sides of a queue of frames.
pub(super) fn queue() -> (Output, PlayedFrames) {
    let (sender, frames) = sync_channel(QUEUE);
    let stop = Arc::new(AtomicBool::new(false));
    (Output { frames: sender, stop: Arc::clone(&stop) }, PlayedFrames { frames, stop })
}

impl Output {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for a place in the queue. Returns whether the player continues.
    pub(super) fn send(&self, frame: PlayedFrame) -> bool {
        self.frames.send(frame).is_ok()
    }
}

impl PlayedFrames {
    /// Returns the next frame.
    ///
    /// # Errors
    /// Fails if none is read yet, or the recording has ended.
    pub(crate) fn try_recv(&self) -> Result<PlayedFrame, TryRecvError> {
        self.frames.try_recv()
    }
}

impl Drop for PlayedFrames {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Starts a reader of `stream` from the last key frame before `start_ms` of UTC. It ends when the
/// returned frames are dropped.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn start(
    directory: Directory,
    stream: String,
    start_ms: u64,
) -> io::Result<PlayedFrames> {
    let (frames, receiver) = queue();
    let read = move || {
        let mut next = first_file(&directory, &stream, start_ms);
        let mut target_ns = Some(start_ms);
        let mut audio = None;
        while let Some(file) = next {
            let since_ms = target_ns.take().map(|start_ms| start_ms.saturating_sub(file.start_ms));
            match play(&directory, &file, since_ms.map(|ms| ms * 1_000_000), &mut audio, &frames) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => eprintln!("a recording is left out: {error}"),
            }
            next = next_file(&directory, &file);
        }
    };
    thread::Builder::new().name("playback".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// Sends the frames of a file from the last key frame before `target_ns` on, ns from its start.
/// Returns whether the player continues; a change of the audio's format ends it.
fn play(
    directory: &Directory,
    file: &RecordedFile,
    target_ns: Option<u64>,
    audio: &mut Option<Option<AudioFormat>>,
    frames: &Output,
) -> Result<bool, MediaError> {
    let mut opened = open(directory, file)?;
    let formats = opened.formats().clone();
    if *audio.get_or_insert_with(|| formats.audio.clone()) != formats.audio {
        return Ok(false);
    }
    let wrong = |error: millstream_traffic::TrafficError| MediaError::new(error.to_string());
    let mut from_ns = 0;
    if let Some(target_ns) = target_ns.filter(|target_ns| *target_ns > 0) {
        let mut best = opened.position();
        loop {
            if frames.is_stopped() {
                return Ok(false);
            }
            let at = opened.position();
            let Some(samples) = opened.next_samples().map_err(wrong)? else { break };
            let is_key = |one: &FragmentSample| one.track == FragmentTrack::Video && one.key;
            let is_before = |one: &&FragmentSample| is_key(one) && one.present_ns <= target_ns;
            if let Some(key) = samples.iter().rfind(is_before) {
                (best, from_ns) = (at, key.decode_ns);
            }
            if samples.first().is_some_and(|one| one.decode_ns > target_ns) {
                break;
            }
        }
        opened.set_position(best);
    }
    let mut polls = 0..POLLS;
    loop {
        // If it is complete now, nothing follows its last fragment.
        let is_open = is_open(directory, file);
        let Some(fragment) = opened.next_fragment().map_err(wrong)? else {
            let waits = is_open && !frames.is_stopped() && polls.next().is_some();
            if !waits || next_file(directory, file).is_none() {
                break;
            }
            thread::sleep(POLL_INTERVAL);
            continue;
        };
        // Tracks follow each other in a fragment.
        let mut samples: Vec<&FragmentSample> =
            fragment.samples.iter().filter(|one| one.decode_ns >= from_ns).collect();
        samples.sort_by_key(|one| one.decode_ns);
        for one in samples {
            let bytes = &fragment.bytes[one.range.clone()];
            let is_audio = one.track == FragmentTrack::Audio;
            let bytes =
                if is_audio { bytes.to_vec() } else { with_start_codes(bytes, one.key, &formats) };
            let start_ns = file.start_ms.saturating_mul(1_000_000);
            let frame = PlayedFrame {
                is_audio,
                decode_ns: start_ns.saturating_add(one.decode_ns),
                present_ns: start_ns.saturating_add(one.present_ns),
                bytes,
            };
            if !frames.send(frame) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns a sample as a byte stream, a key frame with its parameter sets.
fn with_start_codes(sample: &[u8], key: bool, formats: &FragmentFormats) -> Vec<u8> {
    let mut frame = Vec::with_capacity(sample.len() + 64);
    let Some(h264) = &formats.h264 else { return frame };
    for set in h264.sets.iter().filter(|set| key && !set.is_empty()) {
        frame.extend_from_slice(&START);
        frame.extend_from_slice(set);
    }
    append_byte_stream(sample, h264.length_bytes, &mut frame);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::segment::Segment;
    use crate::recording::segment::tests::frame;
    use std::io::{Cursor, Read, Seek, SeekFrom, Write};
    use std::sync::atomic::AtomicUsize;

    const MS: u64 = 1_000_000;

    /// Returns a file of 60 frames each 40 ms, as its declaration with one fragment, and the rest.
    fn recorded() -> [Vec<u8>; 2] {
        let mut segment = Segment::begin(&frame(0, true), 0, None).unwrap();
        let mut first = segment.take_output();
        for number in 1..60 {
            segment.video(&frame(number, false), u64::from(number) * 40 * MS, false).unwrap();
            if number == 30 {
                first.extend(segment.take_output());
            }
        }
        segment.finish().unwrap();
        [first, segment.take_output()]
    }

    fn write(directory: &Directory, (file, start_ms): &mut (File, u64), bytes: &[u8]) {
        file.write_all(bytes).unwrap();
        directory.grown("cam", *start_ms, bytes.len() as u64, *start_ms + 2_000);
    }

    #[test]
    fn a_reader_waits_for_the_end_of_a_file_that_is_still_written() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), &["cam"], 1 << 20, None).unwrap();
        let [first, rest] = recorded();
        let mut file = directory.create("cam", 1_000).unwrap();
        write(&directory, &mut file, &first);
        let mut next = directory.create("cam", 5_000).unwrap();
        write(&directory, &mut next, &first);
        let frames = start(directory.clone(), "cam".to_owned(), 0).unwrap();
        let mut times = Vec::new();
        let mut take = || frames.frames.recv().map(|frame| times.push(frame.decode_ns / MS));
        (0..25).for_each(|_| take().unwrap());
        write(&directory, &mut file, &rest);
        directory.closed("cam", 1_000).unwrap();
        while take().is_ok() {}
        let expected = (0..60).map(|n| 1_000 + n * 40).chain((0..25).map(|n| 5_000 + n * 40));
        assert_eq!(times, expected.collect::<Vec<u64>>());
    }

    #[test]
    fn damaged_files_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), &["cam"], 1 << 20, None).unwrap();
        for start_ms in [1_000, 4_000] {
            let mut file = directory.create("cam", start_ms).unwrap();
            write(&directory, &mut file, &[0; 5_000]);
            directory.closed("cam", start_ms).unwrap();
        }
        let mut damaged = Vec::new();
        let mut first = || {
            damaged.clear();
            let found = first_readable(&directory, "cam", 0, |file, error| {
                damaged.push((file.start_ms, error.to_string()));
            });
            (found.map(|(file, _)| file.start_ms), damaged.len())
        };
        assert_eq!(first(), (None, 2));
        let mut file = directory.create("cam", 7_000).unwrap();
        write(&directory, &mut file, &recorded()[0]);
        assert_eq!(first(), (Some(7_000), 2));
        assert!(damaged[0].0 == 1_000 && damaged[0].1.contains("cam"), "{damaged:?}");
    }

    /// Counts the bytes that are read.
    struct Counted(Cursor<Vec<u8>>, Arc<AtomicUsize>);

    impl Read for Counted {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let length = self.0.read(to)?;
            self.1.fetch_add(length, Ordering::Relaxed);
            Ok(length)
        }
    }

    impl Seek for Counted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn the_search_for_a_key_frame_reads_no_frames() {
        let file = crate::fuzzing::recorded_file();
        let read = Arc::new(AtomicUsize::new(0));
        let counted = |file: &[u8]| Counted(Cursor::new(file.to_vec()), Arc::clone(&read));
        let open = |file: &[u8]| FragmentedMp4::open(counted(file)).unwrap().unwrap();
        let (mut whole, mut lists) = (open(&file), open(&file));
        let (mut fragments, mut frame_bytes) = (0, 0);
        loop {
            read.store(0, Ordering::Relaxed);
            let expected = whole.next_fragment().unwrap().map(|found| found.samples.to_vec());
            let of_fragment = read.swap(0, Ordering::Relaxed);
            let found = lists.next_samples().unwrap().map(<[_]>::to_vec);
            let of_list = read.load(Ordering::Relaxed);
            assert_eq!(found, expected);
            let Some(samples) = found else { break };
            let bytes: usize = samples.iter().map(|one| one.range.len()).sum();
            // A long header of `mdat` would have eight more bytes.
            assert_eq!(of_list, of_fragment - bytes + bytes.min(8));
            (fragments, frame_bytes) = (fragments + 1, frame_bytes + bytes);
        }
        assert!(fragments > 1 && frame_bytes > 0);
        // Both stop before a fragment that is not whole.
        let (mut whole, mut lists) = (open(&file[..file.len() - 1]), open(&file[..file.len() - 1]));
        for _ in 1..fragments {
            assert!(whole.next_fragment().unwrap().is_some());
            assert!(lists.next_samples().unwrap().is_some());
        }
        assert!(whole.next_fragment().unwrap().is_none());
        assert!(lists.next_samples().unwrap().is_none());
    }

    #[test]
    fn a_player_that_leaves_ends_the_search_for_its_key_frame() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), &["cam"], 0, None).unwrap();
        let (stream, start_ms) = ("cam".to_owned(), 5_000);
        // A box of four bytes is an error, which only the whole search meets.
        let bytes = [&crate::fuzzing::recorded_file()[..], &[0, 0, 0, 4], b"moof"].concat();
        std::fs::write(directory.path("cam", start_ms), &bytes).unwrap();
        let file = RecordedFile {
            stream,
            start_ms,
            end_ms: 9_000,
            bytes: bytes.len() as u64,
            open: false,
        };
        let (output, frames) = queue();
        let search = || play(&directory, &file, Some(u64::MAX), &mut None, &output);
        assert!(search().is_err());
        drop(frames);
        assert!(!search().unwrap());
    }
}
