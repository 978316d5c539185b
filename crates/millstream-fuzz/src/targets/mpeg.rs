//! The video reader does not panic; a video that it accepts has frames and a frame rate.

use millstream_traffic::mpeg::VideoFile;
use std::io::Cursor;

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

/// Start codes of MPEG systems and video, and of H.264.
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
    &[0x47, 0x40, 0, 0x10],
];

/// Returns the start of the example clip: long, and short so that most changes hit a header.
pub(super) fn clips() -> Vec<Vec<u8>> {
    let clip = seeds::file("examples/data/clip.mpg");
    let short = clip[..6_000].to_vec();
    vec![clip, short]
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
