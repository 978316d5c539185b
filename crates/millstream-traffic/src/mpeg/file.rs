//! Video files: detects container and codec from the contents, and reads the frames.
//!
//! Files are read in chunks. The result takes eight bytes per frame, plus the elementary stream if
//! requested. A frame above 16 MiB is an error. A file truncated inside a frame or a packet ends
//! there without an error, since recordings often do.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use super::codec::{Assembler, Codec, MAX_FRAME_BYTES, Units};
use super::{Frame, FrameRate, container, ivf, mp4};
use crate::arrival::TrafficError;

/// The frames of a video file, in coding order.
#[derive(Clone, Debug)]
pub struct VideoFile {
    /// The frames, in coding order.
    pub frames: Vec<Frame>,
    /// Frame rate; 25 frames/s if the file has none.
    pub rate: FrameRate,
}

pub(super) const EXPECTED: &str = "expected MPEG-1/2, H.264 or H.265 video: an elementary, \
 program or transport stream, or MP4; or AV1, VP8 or VP9: IVF or MP4";

/// The frame rate of streams without timing information.
pub(super) const DEFAULT_RATE: FrameRate = FrameRate { frames: 25, seconds: 1 };

/// The container formats that are recognised.
enum Container {
    Elementary(Codec),
    Program,
    Transport,
    Mp4,
    Ivf,
}

impl VideoFile {
    /// Reads the frames of the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or contains no supported video.
    pub fn open(path: &Path) -> Result<Self, TrafficError> {
        let file =
            File::open(path).map_err(|error| TrafficError::new(error.to_string()).path(path))?;
        Self::read(file).map_err(|error| error.path(path))
    }

    /// Reads the frames of `input`.
    ///
    /// # Errors
    /// See [`VideoFile::open`].
    pub fn read(input: impl Read + Seek) -> Result<Self, TrafficError> {
        read_into(input, &mut None).map(|(_, video)| video)
    }
}

/// The part of the elementary stream that is kept.
pub(super) struct KeptStream {
    to: KeptStorage,
    length: usize,
    limit: usize,
}

enum KeptStorage {
    Memory(Vec<u8>),
    File(BufWriter<File>, Option<std::io::Error>),
}

impl KeptStream {
    /// Appends `bytes` up to the limit; one byte beyond it marks the overflow.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_add(1).saturating_sub(self.length);
        let bytes = &bytes[..bytes.len().min(room)];
        self.length += bytes.len();
        match &mut self.to {
            KeptStorage::Memory(to) => to.extend_from_slice(bytes),
            KeptStorage::File(to, failed @ None) => *failed = to.write_all(bytes).err(),
            KeptStorage::File(..) => {}
        }
    }

    /// Returns whether the limit is exceeded or a write failed; then no more bytes are needed.
    pub(super) fn is_full(&self) -> bool {
        self.length > self.limit || matches!(self.to, KeptStorage::File(_, Some(_)))
    }
}

/// Reads codec, frames and elementary stream of `input`, from the first start code on.
///
/// Fails if the stream has more than `limit` bytes.
pub(super) fn read_kept(
    input: impl Read + Seek,
    limit: usize,
) -> Result<(Codec, VideoFile, Vec<u8>), TrafficError> {
    let mut kept = Some(KeptStream { to: KeptStorage::Memory(Vec::new()), length: 0, limit });
    let (codec, video) = read_into(input, &mut kept)?;
    let full = || {
        TrafficError::new(format!("more than {limit} bytes of video"))
            .help("raise the limit, or serve a shorter file")
    };
    let kept = kept.filter(|kept| !kept.is_full()).map(|kept| kept.to);
    let Some(KeptStorage::Memory(mut bytes)) = kept else { return Err(full()) };
    bytes.drain(..start(codec, &bytes));
    Ok((codec, video, bytes))
}

/// Reads like [`read_kept`], but writes the stream to `file`, which must be at its start.
pub(super) fn read_to_file(
    input: impl Read + Seek,
    file: File,
) -> Result<(Codec, VideoFile, File), TrafficError> {
    let to = KeptStorage::File(BufWriter::with_capacity(1 << 18, file), None);
    let mut kept = Some(KeptStream { to, length: 0, limit: usize::MAX });
    let (codec, video) = read_into(input, &mut kept)?;
    let failed =
        |error: std::io::Error| TrafficError::new(format!("cannot unpack the video: {error}"));
    match kept.map(|kept| kept.to) {
        Some(KeptStorage::File(_, Some(error))) => Err(failed(error)),
        Some(KeptStorage::File(to, None)) => {
            let file = to.into_inner().map_err(|error| failed(error.into_error()))?;
            Ok((codec, video, file))
        }
        _ => Err(TrafficError::new("no video frames found").help(EXPECTED)),
    }
}

/// Returns the offset of the first start code in a kept stream.
pub(super) fn start(codec: Codec, bytes: &[u8]) -> usize {
    if !codec.has_start_codes() {
        return 0;
    }
    let code = bytes.windows(3).position(|window| window == [0, 0, 1]).unwrap_or(0);
    let long = codec != Codec::Mpeg && code > 0 && bytes[code - 1] == 0;
    code - usize::from(long)
}

fn read_into(
    input: impl Read + Seek,
    kept: &mut Option<KeptStream>,
) -> Result<(Codec, VideoFile), TrafficError> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let start = input.fill_buf().map_err(io_error)?;
    let container = detect_container(start).ok_or_else(|| {
        let message = if start.is_empty() { "the file is empty" } else { "not a video file" };
        TrafficError::new(message).help(EXPECTED)
    })?;
    let (codec, video) = match container {
        Container::Mp4 => mp4::read(input, kept)?,
        Container::Ivf => ivf::read(input, kept)?,
        Container::Elementary(codec) => (codec, read_elementary(input, codec, kept)?),
        Container::Program => (Codec::Mpeg, read_program(input, kept)?),
        Container::Transport => read_transport(input, kept)?,
    };
    if video.frames.is_empty() {
        return Err(TrafficError::new("no video frames found").help(EXPECTED));
    }
    Ok((codec, video))
}

pub(super) fn io_error(error: std::io::Error) -> TrafficError {
    TrafficError::new(error.to_string())
}

/// Returns the error of an oversized frame, counted from 0.
pub(super) fn oversized(number: usize, bytes: u64) -> TrafficError {
    TrafficError::new(format!("a video frame of {bytes} bytes"))
        .place(format!("frame {number}"))
        .help(format!("frames have at most {MAX_FRAME_BYTES} bytes: the file is damaged"))
}

fn detect_container(start: &[u8]) -> Option<Container> {
    let zeros = start.iter().take_while(|byte| **byte == 0).count();
    match start.get(zeros..) {
        Some([1, 0xba, ..]) if zeros >= 2 => Some(Container::Program),
        Some([1, 0xb3, ..]) if zeros >= 2 => Some(Container::Elementary(Codec::Mpeg)),
        // VPS, SPS, PPS, delimiter or SEI of the lowest layer. In H.264 these are no valid units.
        Some([1, 0x40 | 0x42 | 0x44 | 0x46 | 0x4e, 1, ..]) if zeros >= 2 => {
            Some(Container::Elementary(Codec::H265))
        }
        Some([1, nal, ..]) if zeros >= 2 && matches!(nal & 0x9f, 1 | 5..=9) => {
            Some(Container::Elementary(Codec::H264))
        }
        _ if matches!(start.get(4..8), Some(b"ftyp" | b"moov" | b"mdat" | b"free")) => {
            Some(Container::Mp4)
        }
        _ if start.starts_with(ivf::SIGNATURE) => Some(Container::Ivf),
        _ if start.first() == Some(&0x47) && start.get(188).is_none_or(|byte| *byte == 0x47) => {
            Some(Container::Transport)
        }
        _ => None,
    }
}

/// Returns whether `input` begins like a transport stream; reads nothing from it.
pub(super) fn is_transport_stream(input: &mut impl BufRead) -> Result<bool, TrafficError> {
    let start = input.fill_buf().map_err(io_error)?;
    Ok(matches!(detect_container(start), Some(Container::Transport)))
}

/// A parser of units and the frames that they form.
struct Parser<'a> {
    units: Units,
    assembler: Assembler,
    kept: &'a mut Option<KeptStream>,
}

impl<'a> Parser<'a> {
    fn new(codec: Codec, kept: &'a mut Option<KeptStream>) -> Self {
        Self { units: Units::new(codec), assembler: Assembler::new(codec), kept }
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(kept) = self.kept {
            kept.push(bytes);
        }
        let assembler = &mut self.assembler;
        self.units.push(bytes, &mut |kept, length| assembler.unit(kept, length));
    }

    fn finish(mut self) -> Result<VideoFile, TrafficError> {
        let assembler = &mut self.assembler;
        self.units.finish(&mut |kept, length| assembler.unit(kept, length));
        assembler.end_frame();
        if let Some((number, bytes)) = self.assembler.oversized {
            return Err(oversized(number, bytes));
        }
        let rate = self.assembler.rate.unwrap_or(DEFAULT_RATE);
        Ok(VideoFile { frames: self.assembler.frames, rate })
    }
}

fn read_elementary(
    mut input: impl BufRead,
    codec: Codec,
    kept: &mut Option<KeptStream>,
) -> Result<VideoFile, TrafficError> {
    let mut parser = Parser::new(codec, kept);
    loop {
        let bytes = input.fill_buf().map_err(io_error)?;
        if bytes.is_empty() {
            return parser.finish();
        }
        parser.push(bytes);
        let used = bytes.len();
        input.consume(used);
    }
}

fn read_program(
    input: impl BufRead,
    kept: &mut Option<KeptStream>,
) -> Result<VideoFile, TrafficError> {
    // Program streams carry MPEG video; H.264 in them is rare and not supported.
    let mut parser = Parser::new(Codec::Mpeg, kept);
    container::program_stream(input, &mut |bytes| parser.push(bytes)).map_err(io_error)?;
    parser.finish()
}

fn read_transport(
    input: impl BufRead,
    kept: &mut Option<KeptStream>,
) -> Result<(Codec, VideoFile), TrafficError> {
    let mut wanted = Some(kept);
    let mut parser: Option<(Codec, Parser)> = None;
    container::transport_stream(input, &mut |codec, bytes| {
        if let Some(kept) = wanted.take() {
            parser = Some((codec, Parser::new(codec, kept)));
        }
        if let Some((_, parser)) = &mut parser {
            parser.push(bytes);
        }
    })?;
    let (codec, parser) = parser.ok_or_else(|| {
        let message = "the transport stream has no supported video";
        TrafficError::new(message).help(EXPECTED)
    })?;
    Ok((codec, parser.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpeg::FrameKind;
    use std::io::Cursor;

    fn error(bytes: &[u8]) -> String {
        VideoFile::read(Cursor::new(bytes.to_vec())).unwrap_err().to_string()
    }

    #[test]
    fn files_without_video_are_errors() {
        assert!(error(b"").contains("empty"));
        assert!(error(b"MZ\0\0").contains("not a video file"));
        assert!(error(&[0, 0, 1, 0xb3, 0, 0, 0, 0x13]).contains("no video frames"));
        assert!(error(&[0, 0, 1, 0xba, 0x44]).contains("no video frames"));
        assert!(error(b"\0\0\0\x10ftypisom\0\0\0\0").contains("MP4"));
        assert!(error(&[0x47; 188]).contains("transport stream"));
    }

    #[test]
    fn the_example_clip_has_the_frames_that_its_readme_lists() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let video = VideoFile::open(&clip).unwrap();
        assert_eq!(video.rate, FrameRate { frames: 25, seconds: 1 });
        let count = |kind| video.frames.iter().filter(|frame| frame.kind == kind).count();
        let counts = [count(FrameKind::I), count(FrameKind::P), count(FrameKind::B)];
        assert_eq!(counts.iter().sum::<usize>(), video.frames.len());
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_file_causes_a_panic(
            head in proptest::sample::select(vec![
                &b"\0\0\x01\xba"[..], b"\0\0\x01\xb3", b"\0\0\0\x01\x67", b"G",
                b"\0\0\0\x18ftypmp42",
            ]),
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..4, 0u8..=255], 0..400),
        ) {
            let _ = VideoFile::read(Cursor::new([head, &bytes[..]].concat()));
        }
    }
}
