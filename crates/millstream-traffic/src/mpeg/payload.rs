//! Frames with their bytes: what a server sends, where [`VideoFile`](super::VideoFile) only counts.
//!
//! The elementary stream is kept whole and frames are ranges of it, one behind the other. H.264 is
//! an Annex B byte stream whatever the container held: lengths in MP4 become start codes, and its
//! parameter sets go before the first frame.

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;

use super::codec::Codec;
use super::display::{display_order, is_reference};
use super::file::read_kept;
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
    pub bytes: Vec<u8>,
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
        Ok(Self { codec, rate: video.rate, frames, bytes })
    }

    /// The bytes of a frame of this video.
    #[must_use]
    pub fn frame(&self, frame: &CodedFrame) -> &[u8] {
        &self.bytes[frame.start..frame.start + frame.bytes as usize]
    }
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
    fn more_than_the_limit_is_an_error_that_says_so() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let error = VideoPayload::open(&clip, 1000).unwrap_err().to_string();
        assert!(error.contains("more than 1000 bytes"), "{error}");
    }

    #[test]
    fn bytes_before_the_first_start_code_are_no_frames() {
        let stream = [0, 0, 0, 1, 0x65, 0b1000_1000, 9, 0, 0, 0, 1, 0x41, 0b1001_1000, 1];
        let video = VideoPayload::read(Cursor::new(stream), 100).unwrap();
        assert_eq!(video.bytes, stream);
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
