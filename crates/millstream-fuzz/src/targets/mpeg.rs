//! The video reader does not panic; a video that it accepts has frames and a frame rate.

use millstream_traffic::mpeg::VideoFile;
use std::io::Cursor;

use super::codecs::H265_SETS;
use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "mpeg",
    first_parser: "a stream with a sequence header and a frame",
    seeds: clips,
    words: START_CODES,
    mutate: Mutation::bytes,
    admits: Some(is_video),
    run,
};

/// Start codes of MPEG systems and video, of H.264 and H.265, and the codecs of IVF.
pub(super) const START_CODES: &[&[u8]] = &[
    &[0, 0, 1, 0xb3],
    &[0, 0, 1, 0xb5],
    &[0, 0, 1, 0xb8],
    &[0, 0, 1, 0xb7],
    &[0, 0, 1, 0],
    &[0, 0, 1, 1],
    &[0, 0, 1, 0xba],
    &[0, 0, 1, 0xbb],
    &[0, 0, 1, 0xe0],
    &[0, 0, 1, 0xc0],
    &[0, 0, 1, 0xbe],
    &[0, 0, 1, 0xb9],
    &[0, 0, 0, 1, 0x67],
    &[0, 0, 0, 1, 0x68],
    &[0, 0, 0, 1, 0x65],
    &[0, 0, 0, 1, 0x41],
    &[0, 0, 0, 1, 9],
    &[0, 0, 1, 0x40, 1],
    &[0, 0, 1, 0x42, 1],
    &[0, 0, 1, 0x44, 1],
    &[0, 0, 1, 0x26, 1],
    &[0, 0, 1, 0x02, 1],
    b"DKIF",
    b"AV01",
    b"VP80",
    b"VP90",
    &[0x47, 0x40, 0, 0x10],
];

/// Returns the start of the example clip: long, and short so that most changes hit a header; and
/// short files of H.265 and VP9.
pub(super) fn clips() -> Vec<Vec<u8>> {
    let clip = seeds::file("examples/data/clip.mpg");
    let short = clip[..6_000].to_vec();
    let slices: [&[u8]; 3] = [&[0x26, 1, 0xac, 9], &[2, 1, 0xd0, 9], &[0, 2, 0xd0, 9]];
    let units = H265_SETS.iter().chain(&slices);
    let h265 = units.flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect();
    let mut vp9 = b"DKIF\0\0\x20\0VP90\xb0\0\x90\0\x19\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    let frames: [&[u8]; 3] = [&[0x83, 0x49, 0x83, 0x42, 0], &[0x87, 1, 9], &[0x87, 0, 9]];
    for (frame, time) in frames.iter().zip(0u8..) {
        let length = u8::try_from(frame.len()).unwrap_or(0);
        vp9.extend([length, 0, 0, 0, time, 0, 0, 0, 0, 0, 0, 0]);
        vp9.extend(*frame);
    }
    vec![clip, short, h265, vp9]
}

fn is_video(input: &[u8]) -> bool {
    VideoFile::read(Cursor::new(input)).is_ok()
}

fn run(input: &[u8]) -> bool {
    let Ok(video) = VideoFile::read(Cursor::new(input)) else { return false };
    assert!(!video.frames.is_empty());
    assert!(video.rate.frames > 0 && video.rate.seconds > 0);
    true
}
