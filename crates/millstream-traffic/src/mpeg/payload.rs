//! Frames with their bytes: what a server sends, where [`VideoFile`](super::VideoFile) only counts.
//!
//! The elementary stream is kept whole and frames are ranges of it, one behind the other. H.264 is
//! an Annex B byte stream whatever the container held: lengths in MP4 become start codes, and its
//! parameter sets go before the first frame.

use memmap2::Mmap;
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use super::codec::Codec;
use super::display::{display_order, is_reference};
use super::file::{VideoFile, read_kept, read_to_file, start};
use super::{FrameKind, FrameRate};
use crate::arrival::TrafficError;

/// A frame of a [`VideoPayload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedFrame {
    /// How it is coded.
    pub kind: FrameKind,
    /// Where it begins in [`VideoPayload::bytes`].
    pub start: usize,
    /// Its length, bytes.
    pub bytes: u32,
    /// Its place in the order in which frames are shown, from 0.
    pub display: u32,
    /// Another frame is predicted from it.
    pub reference: bool,
}

/// A video file's frames in coding order, and its elementary stream.
#[derive(Clone, Debug)]
pub struct VideoPayload {
    /// What it is coded by.
    pub codec: Codec,
    /// Frames a second; 25 where the file does not say.
    pub rate: FrameRate,
    /// The frames.
    pub frames: Vec<CodedFrame>,
    /// The elementary stream.
    pub bytes: VideoBytes,
}

/// An elementary stream, in memory or in a file.
#[derive(Clone, Debug)]
pub struct VideoBytes(Place);

#[derive(Clone, Debug)]
enum Place {
    Memory(Vec<u8>),
    File { map: Arc<Mmap>, start: usize, file: Arc<File> },
}

impl VideoBytes {
    /// The file that it is in and where it begins there, if it is in one.
    #[must_use]
    pub fn file(&self) -> Option<(&File, u64)> {
        match &self.0 {
            Place::Memory(_) => None,
            Place::File { start, file, .. } => Some((file, *start as u64)),
        }
    }
}

impl Deref for VideoBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Memory(bytes) => bytes,
            Place::File { map, start, .. } => &map[*start..],
        }
    }
}

impl From<Vec<u8>> for VideoBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Place::Memory(bytes))
    }
}

impl VideoPayload {
    /// Reads the file at `path`, of whose elementary stream at most `limit` bytes are kept.
    ///
    /// # Errors
    /// If the file cannot be read, holds no video that is understood, or more than `limit` bytes of
    /// it.
    pub fn open(path: &Path, limit: usize) -> Result<Self, TrafficError> {
        let file =
            File::open(path).map_err(|error| TrafficError::new(error.to_string()).path(path))?;
        Self::read(file, limit).map_err(|error| error.path(path))
    }

    /// The same of `input`.
    ///
    /// # Errors
    /// As [`VideoPayload::open`].
    pub fn read(input: impl Read + Seek, limit: usize) -> Result<Self, TrafficError> {
        let (codec, video, bytes) = read_kept(input, limit)?;
        Ok(Self::of(codec, &video, bytes.into()))
    }

    /// Reads the file at `path`, of which next to nothing stays in memory: its elementary stream
    /// goes into a file without a name in `folder`. For films of any length.
    ///
    /// # Errors
    /// If the file cannot be read, holds no video that is understood, or more than `folder` has
    /// room for.
    pub fn unpack(path: &Path, folder: &Path) -> Result<Self, TrafficError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| TrafficError::new(error.to_string()).path(&path)
        };
        let input = File::open(path).map_err(failed(path))?;
        let file = tempfile::tempfile_in(folder).map_err(failed(folder))?;
        let (codec, video, file) = read_to_file(input, file).map_err(|error| error.path(path))?;
        let map = Arc::new(map(&file).map_err(failed(folder))?);
        let start = start(codec, &map);
        let bytes = VideoBytes(Place::File { map, start, file: Arc::new(file) });
        Ok(Self::of(codec, &video, bytes))
    }

    fn of(codec: Codec, video: &VideoFile, bytes: VideoBytes) -> Self {
        let mut start = 0;
        let ranges: Vec<Range<usize>> = video
            .frames
            .iter()
            .map(|frame| {
                let from = start;
                start += frame.bytes as usize;
                from..start
            })
            .collect();
        debug_assert!(start <= bytes.len(), "frames are parts of the stream");
        let display = display_order(codec, &video.frames, &ranges, &bytes);
        let frames = video.frames.iter().zip(&ranges).zip(display);
        let frames = frames
            .map(|((frame, range), display)| CodedFrame {
                kind: frame.kind,
                start: range.start,
                bytes: frame.bytes,
                display,
                reference: is_reference(codec, frame.kind, &bytes[range.clone()]),
            })
            .collect();
        Self { codec, rate: video.rate, frames, bytes }
    }

    /// The bytes of a frame of this video.
    #[must_use]
    pub fn frame(&self, frame: &CodedFrame) -> &[u8] {
        &self.bytes[frame.start..frame.start + frame.bytes as usize]
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file has no name and nobody else writes it, so the mapped bytes exist and do not
    // change.
    unsafe { Mmap::map(file) }
}

/// The units of an elementary stream: ranges between start codes, these and zeros before them left
/// out. Of H.264 they are NAL units; of MPEG video they begin with the start code's value.
///
/// ```
/// use millstream_traffic::mpeg::units;
/// let stream = [0, 0, 0, 1, 9, 16, 0, 0, 1, 0x65, 7];
/// assert!(units(&stream).eq([4..6, 9..11]));
/// ```
pub fn units(stream: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut from = next_code(stream, 0);
    std::iter::from_fn(move || {
        let start = from? + 3;
        from = next_code(stream, start);
        let end = from.unwrap_or(stream.len());
        let last = stream[start..end].iter().rposition(|byte| *byte != 0);
        Some(start..last.map_or(start, |last| start + last + 1))
    })
    .filter(|unit| !unit.is_empty())
}

/// Where the next 00 00 01 begins.
fn next_code(stream: &[u8], from: usize) -> Option<usize> {
    let rest = stream.get(from..)?;
    rest.windows(3).position(|window| window == [0, 0, 1]).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn the_example_clip_is_cut_at_its_pictures_and_shown_in_order() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let video = VideoPayload::open(&clip, 1 << 24).unwrap();
        assert_eq!((video.codec, video.frames.len()), (Codec::Mpeg, 200));
        for frame in &video.frames {
            let bytes = video.frame(frame);
            assert_eq!(bytes[..3], [0, 0, 1]);
            let pictures = units(bytes).filter(|unit| bytes[unit.start] == 0).count();
            assert_eq!(pictures, 1, "one picture a frame");
            assert_eq!(frame.reference, frame.kind != FrameKind::B);
        }
        let mut shown: Vec<u32> = video.frames.iter().map(|frame| frame.display).collect();
        assert_eq!(shown[..7], [0, 3, 1, 2, 6, 4, 5], "I P B B P B B");
        shown.sort_unstable();
        assert!(shown.iter().copied().eq(0..200));
    }

    #[test]
    fn unpacked_into_a_file_it_is_the_same() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let folder = tempfile::tempdir().unwrap();
        let there = VideoPayload::unpack(&clip, folder.path()).unwrap();
        let here = VideoPayload::open(&clip, 1 << 24).unwrap();
        assert_eq!((there.codec, there.rate, &there.frames), (here.codec, here.rate, &here.frames));
        assert_eq!(there.bytes[..], here.bytes[..]);
        let (file, start) = there.bytes.file().unwrap();
        assert_eq!(file.metadata().unwrap().len(), start + here.bytes.len() as u64);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        let error = VideoPayload::unpack(&clip, &folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }

    #[test]
    fn more_than_the_limit_is_an_error_that_says_so() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let error = VideoPayload::open(&clip, 1000).unwrap_err().to_string();
        assert!(error.contains("more than 1000 bytes"), "{error}");
    }

    #[test]
    fn bytes_before_the_first_start_code_are_no_frames() {
        let stream = [0, 0, 0, 1, 0x65, 0b1000_1000, 9, 0, 0, 0, 1, 0x41, 0b1001_1000, 1];
        let video = VideoPayload::read(Cursor::new(stream), 100).unwrap();
        assert_eq!(video.bytes[..], stream);
        assert_eq!(video.frame(&video.frames[1]), &stream[7..]);
    }

    proptest::proptest! {
        #[test]
        fn no_file_makes_the_reader_panic_and_frames_are_parts_of_it(
            head in proptest::sample::select(vec![
                &b"\0\0\x01\xba"[..], b"\0\0\x01\xb3", b"\0\0\0\x01\x67", b"G",
            ]),
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..4, 0u8..=255], 0..400),
        ) {
            if let Ok(video) = VideoPayload::read(Cursor::new([head, &bytes[..]].concat()), 1000) {
                let total: usize = video.frames.iter().map(|frame| video.frame(frame).len()).sum();
                proptest::prop_assert!(total <= video.bytes.len());
            }
        }
    }
}
