//! The audio reader does not panic; the frames of a track that it accepts lie in its bytes.

use millstream_traffic::mpeg::{AudioCodec, AudioTrack, audio_frames};
use std::io::Cursor;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "audio",
    first_parser: "a transport stream with a frame of audio",
    seeds: clips,
    words: HEADERS,
    mutate: Mutation::bytes,
    admits: Some(|input| matches!(AudioTrack::read(Cursor::new(input), LIMIT), Ok(Some(_)))),
    run,
};

/// The most bytes of audio that are read.
const LIMIT: usize = 1 << 16;

/// Headers of ADTS, of MPEG audio, of PES packets with time stamps, and of transport packets.
const HEADERS: &[&[u8]] = &[
    &[0xff, 0xf1, 0x60, 0x40],
    &[0xff, 0xfb, 0x92, 0x40],
    &[0xff, 0xfd, 0xa4, 0xc0],
    &[0, 0, 1, 0xc0, 0, 0, 0x80, 0x80, 5],
    &[0x47, 0x41, 0x01, 0x30],
    &[0x47, 0x01, 0x01, 0x10],
];

fn clips() -> Vec<Vec<u8>> {
    vec![seeds::file("examples/data/tone.ts")]
}

fn run(input: &[u8]) -> bool {
    for codec in [AudioCodec::Aac, AudioCodec::Mpeg] {
        if let Some((header, frames)) = audio_frames(codec, input) {
            assert!(header.sample_rate > 0 && header.samples > 0 && header.channels > 0);
            assert!(frames.windows(2).all(|two| two[0].end <= two[1].start));
        }
    }
    let Ok(Some(track)) = AudioTrack::read(Cursor::new(input), LIMIT) else { return false };
    assert!(!track.frames.is_empty() && track.bytes.len() <= LIMIT);
    assert!(track.frames.iter().all(|frame| !track.bytes[frame.clone()].is_empty()));
    true
}
