//! Frames with their bytes, as a media server sends them.
//!
//! [`VideoFile`](super::VideoFile) has only their sizes. The elementary stream is kept whole;
//! frames are consecutive ranges of it. H.264 and H.265 are always Annex B byte streams: lengths in
//! MP4 are replaced by start codes, and the parameter sets precede the first frame. AV1 is a
//! sequence of temporal units in which each OBU has a size, without temporal delimiters.

use memmap2::Mmap;
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use super::codec::Codec;
use super::display::display_order;
use super::file::{VideoFile, read_kept, read_to_file, start};
use super::picture::Classifier;
use super::{FrameKind, FrameRate};
use crate::arrival::TrafficError;

/// A frame of a [`VideoPayload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedFrame {
    /// Coding type.
    pub kind: FrameKind,
    /// Offset of the frame in [`VideoPayload::bytes`].
    pub start: usize,
    /// Length, bytes.
    pub bytes: u32,
    /// Position in display order, from 0.
    pub display: u32,
    /// Whether another frame is predicted from it.
    pub reference: bool,
}

/// The frames of a video file in coding order, with the elementary stream.
#[derive(Clone, Debug)]
pub struct VideoPayload {
    /// Codec of the stream.
    pub codec: Codec,
    /// Frame rate; 25 frames/s if the file has none.
    pub rate: FrameRate,
    /// The frames, in coding order.
    pub frames: Vec<CodedFrame>,
    /// The elementary stream.
    pub bytes: VideoBytes,
}

/// An elementary stream, in memory or in a file.
#[derive(Clone, Debug)]
pub struct VideoBytes(Storage);

#[derive(Clone, Debug)]
enum Storage {
    Memory(Vec<u8>),
    File { map: Arc<Mmap>, start: usize, file: Arc<File> },
}

impl VideoBytes {
    /// Returns the file that holds the stream and the stream's offset there, if it is in a file.
    #[must_use]
    pub fn file(&self) -> Option<(&File, u64)> {
        match &self.0 {
            Storage::Memory(_) => None,
            Storage::File { start, file, .. } => Some((file, *start as u64)),
        }
    }
}

impl Deref for VideoBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Memory(bytes) => bytes,
            Storage::File { map, start, .. } => &map[*start..],
        }
    }
}

impl From<Vec<u8>> for VideoBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Storage::Memory(bytes))
    }
}

impl VideoPayload {
    /// Reads the file at `path` into memory; its elementary stream has at most `limit` bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be read, contains no supported video, or has more than `limit`
    /// bytes of it.
    pub fn open(path: &Path, limit: usize) -> Result<Self, TrafficError> {
        let file =
            File::open(path).map_err(|error| TrafficError::new(error.to_string()).path(path))?;
        Self::read(file, limit).map_err(|error| error.path(path))
    }

    /// Reads `input` into memory; its elementary stream has at most `limit` bytes.
    ///
    /// # Errors
    /// See [`VideoPayload::open`].
    pub fn read(input: impl Read + Seek, limit: usize) -> Result<Self, TrafficError> {
        let (codec, video, bytes) = read_kept(input, limit)?;
        Ok(Self::of(codec, &video, bytes.into()))
    }

    /// Reads the file at `path` and unpacks its elementary stream into an unnamed file in `folder`.
    ///
    /// Use it for media files of any length: the stream does not stay in memory.
    ///
    /// # Errors
    /// Fails if the file cannot be read, contains no supported video, or `folder` has too little
    /// space.
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
        let bytes = VideoBytes(Storage::File { map, start, file: Arc::new(file) });
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
        debug_assert!(start <= bytes.len(), "frames lie inside the stream");
        let display = display_order(codec, &video.frames, &ranges, &bytes);
        let frames = video.frames.iter().zip(&ranges).zip(display);
        let mut classifier = Classifier::new(codec);
        let frames = frames
            .map(|((frame, range), display)| CodedFrame {
                kind: frame.kind,
                start: range.start,
                bytes: frame.bytes,
                display,
                reference: classifier.is_reference(frame.kind, &bytes[range.clone()]),
            })
            .collect();
        Self { codec, rate: video.rate, frames, bytes }
    }

    /// Returns the bytes of a frame of this video.
    #[must_use]
    pub fn frame(&self, frame: &CodedFrame) -> &[u8] {
        &self.bytes[frame.start..frame.start + frame.bytes as usize]
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file has no name and no other code writes to it, so the mapped bytes exist and
    // do not change.
    unsafe { Mmap::map(file) }
}

/// Returns the units of an elementary stream: the ranges between start codes.
///
/// A range excludes the start code and the zeros before the next one. In H.264 and H.265 the units
/// are NAL units; in MPEG video they start with the start code's value.
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

/// Returns the offset of the next 00 00 01.
fn next_code(stream: &[u8], from: usize) -> Option<usize> {
    let rest = stream.get(from..)?;
    rest.windows(3).position(|window| window == [0, 0, 1]).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn the_example_clip_is_split_into_pictures_with_display_order() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let video = VideoPayload::open(&clip, 1 << 24).unwrap();
        assert_eq!((video.codec, video.frames.len()), (Codec::Mpeg, 200));
        for frame in &video.frames {
            let bytes = video.frame(frame);
            assert_eq!(bytes[..3], [0, 0, 1]);
            let pictures = units(bytes).filter(|unit| bytes[unit.start] == 0).count();
            assert_eq!(pictures, 1, "one picture per frame");
            assert_eq!(frame.reference, frame.kind != FrameKind::B);
        }
        let mut shown: Vec<u32> = video.frames.iter().map(|frame| frame.display).collect();
        assert_eq!(shown[..7], [0, 3, 1, 2, 6, 4, 5], "I P B B P B B");
        shown.sort_unstable();
        assert!(shown.iter().copied().eq(0..200));
    }

    #[test]
    fn unpacking_into_a_file_gives_equal_frames_and_bytes() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let folder = tempfile::tempdir().unwrap();
        let there = VideoPayload::unpack(&clip, folder.path()).unwrap();
        let here = VideoPayload::open(&clip, 1 << 24).unwrap();
        assert_eq!((there.codec, there.rate, &there.frames), (here.codec, here.rate, &here.frames));
        assert_eq!(there.bytes[..], here.bytes[..]);
        let (file, start) = there.bytes.file().unwrap();
        assert_eq!(file.metadata().unwrap().len(), start + here.bytes.len() as u64);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file is unnamed");
        let error = VideoPayload::unpack(&clip, &folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }

    #[test]
    fn exceeding_the_limit_is_an_error() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let error = VideoPayload::open(&clip, 1000).unwrap_err().to_string();
        assert!(error.contains("more than 1000 bytes"), "{error}");
    }

    #[test]
    fn zeros_of_a_long_start_code_belong_to_the_next_frame() {
        let stream = [0, 0, 0, 1, 0x65, 0b1000_1000, 9, 0, 0, 0, 1, 0x41, 0b1001_1000, 1];
        let video = VideoPayload::read(Cursor::new(stream), 100).unwrap();
        assert_eq!(video.bytes[..], stream);
        assert_eq!(video.frame(&video.frames[1]), &stream[7..]);
    }

    proptest::proptest! {
        #[test]
        fn no_file_causes_a_panic_and_frames_lie_inside_it(
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
