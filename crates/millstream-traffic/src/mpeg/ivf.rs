//! IVF, the container of AV1, VP8 and VP9 test files: a header, then frames with length and time.
//!
//! ```text
//! DKIF | version 2 | header bytes 2 | codec 4 | size 4 | rate 4 | scale 4 | …   little endian
//! frame bytes 4 | time 8 | frame                                           in scale / rate seconds
//! ```
//! It is read here: the crate `ivf` allocates what a frame's length says.

use std::io::{BufRead, Read};

use super::VideoFile;
use super::codec::{Codec, MAX_FRAME_BYTES};
use super::file::{EXPECTED, KeptStream, io_error, oversized};
use super::mp4::fraction;
use super::whole_frames::WholeFrames;
use crate::arrival::TrafficError;

/// The first bytes of a file.
pub(super) const SIGNATURE: &[u8] = b"DKIF";

/// The size of a file's header, bytes.
const HEADER: usize = 32;

/// Reads codec and frames of `input`. A truncated last frame is left out.
pub(super) fn read(
    mut input: impl BufRead,
    kept: &mut Option<KeptStream>,
) -> Result<(Codec, VideoFile), TrafficError> {
    let damaged = |_| TrafficError::new("the header of the IVF is truncated").help(EXPECTED);
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(damaged)?;
    let codec = match &header[8..12] {
        b"AV01" => Codec::Av1,
        b"VP80" => Codec::Vp8,
        b"VP90" => Codec::Vp9,
        other => {
            let message = format!("an IVF of `{}`", String::from_utf8_lossy(other).escape_debug());
            return Err(TrafficError::new(message).help("expected AV01, VP80 or VP90"));
        }
    };
    let word = |at: usize| {
        let bytes = header[at..at + 4].iter().rev();
        bytes.fold(0u128, |word, byte| word << 8 | u128::from(*byte))
    };
    let (rate, scale) = (word(16), word(20));
    let mut frames = WholeFrames::new(codec, kept);
    let (mut count, mut first, mut last) = (0u128, 0, 0);
    let mut frame = Vec::new();
    loop {
        let (mut bytes, mut time) = ([0; 4], [0; 8]);
        if input.read_exact(&mut bytes).and_then(|()| input.read_exact(&mut time)).is_err() {
            break;
        }
        let bytes = u64::from(u32::from_le_bytes(bytes));
        if bytes > MAX_FRAME_BYTES {
            return Err(oversized(usize::try_from(count).unwrap_or(usize::MAX), bytes));
        }
        frame.clear();
        let read = (&mut input).take(bytes).read_to_end(&mut frame).map_err(io_error)?;
        if (read as u64) < bytes || !frames.push(&frame)? {
            break;
        }
        last = u64::from_le_bytes(time);
        if count == 0 {
            first = last;
        }
        count += 1;
    }
    let ticks = u128::from(last.saturating_sub(first));
    let rate = fraction(count.saturating_sub(1) * rate, ticks.saturating_mul(scale));
    Ok((codec, frames.finish(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpeg::{FrameKind, FrameRate};
    use std::io::Cursor;

    /// A file of VP9 frames, 25 a second by times in 1/50 s.
    fn file(frames: &[&[u8]]) -> Vec<u8> {
        let mut file = b"DKIF\0\0\x20\0VP90\x10\0\x10\0\x32\0\0\0\x01\0\0\0".to_vec();
        file.resize(HEADER, 0);
        for (number, frame) in (0u64..).zip(frames) {
            file.extend(u32::try_from(frame.len()).unwrap().to_le_bytes());
            file.extend((number * 2).to_le_bytes());
            file.extend(*frame);
        }
        file
    }

    const KEY: &[u8] = &[0x83, 0x49, 0x83, 0x42, 0];

    #[test]
    fn frames_have_the_rate_of_their_times() {
        let file = file(&[KEY, &[0x87, 1], &[0x87, 0]]);
        let (codec, video) = read(&file[..], &mut None).unwrap();
        let kinds: Vec<_> = video.frames.iter().map(|frame| (frame.kind, frame.bytes)).collect();
        assert_eq!(codec, Codec::Vp9);
        assert_eq!(kinds, [(FrameKind::I, 5), (FrameKind::P, 2), (FrameKind::B, 2)]);
        assert_eq!(video.rate, FrameRate { frames: 25, seconds: 1 });
        let cut = read(&file[..file.len() - 1], &mut None).unwrap().1;
        assert_eq!(cut.frames.len(), 2, "the last frame is truncated");
        let (_, kept, bytes) = super::super::file::read_kept(Cursor::new(file), 100).unwrap();
        assert_eq!((kept.frames.len(), bytes.len()), (3, 9));
    }

    #[test]
    fn damaged_files_are_errors_with_their_place() {
        let error = |bytes: &[u8]| read(bytes, &mut None).unwrap_err().to_string();
        assert!(error(b"DKIF").contains("truncated"));
        let other = error(
            &file(&[]).iter().map(|b| if *b == b'V' { b'X' } else { *b }).collect::<Vec<_>>(),
        );
        assert!(other.contains("an IVF of `XP90`"), "{other}");
        assert!(error(&file(&[KEY, &[1, 2]])).contains("frame 1: the frame has no valid header"));
        let mut long = file(&[KEY]);
        long[HEADER + 3] = 9;
        assert!(error(&long).contains("frame 0: a video frame of 150994949 bytes"));
    }
}
