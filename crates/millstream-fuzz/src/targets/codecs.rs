//! No RTP of any codec causes a panic in the assembly of frames, the parsers of their headers or
//! the packetization for players; every frame is accounted for. H.264 has a target of its own.

use millstream_traffic::mpeg::Codec;

use super::published::{self, packet};
use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "codecs",
    first_parser: "an RTP packet of the stream",
    seeds,
    words: &[
        &[0x80, 96],
        &[0x80, 0xe0],
        &[0x62, 1, 0x93],
        &[0x62, 1, 0x53],
        &[0x60, 1],
        &[0x18, 8],
        &[0x50, 0x30],
        &[0x90],
        &[0x90, 0xe0, 0x80],
        &[0x83, 0x49, 0x83, 0x42],
        &[0x9d, 1, 0x2a],
    ],
    mutate,
    admits: None,
    run,
};

/// The codec that the first byte of an input selects.
const CODECS: [Codec; 5] = [Codec::H265, Codec::Av1, Codec::Vp8, Codec::Vp9, Codec::Mpeg];

/// Parameter sets of x265 for 176 × 144 at 25 frames/s, with two temporal layers.
pub(super) const H265_SETS: [&[u8]; 3] = [
    &[
        0x40, 0x01, 0x0c, 0x02, 0xff, 0xff, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00,
        0x03, 0x00, 0x00, 0x03, 0x00, 0x3c, 0x00, 0x00, 0x95, 0x94, 0xac, 0xa0, 0x48,
    ],
    &[
        0x42, 0x01, 0x02, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00,
        0x03, 0x00, 0x3c, 0x00, 0x00, 0xa0, 0x16, 0x20, 0x24, 0x59, 0x65, 0x65, 0x2b, 0x2c, 0x92,
        0x65, 0x78, 0x0b, 0x4a, 0x41, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x19,
        0x08,
    ],
    &[0x44, 0x01, 0xc1, 0x72, 0xb4, 0x22, 0x40],
];

/// OBUs of SVT-AV1 without sizes: its sequence header, and the starts of a key frame and of a frame
/// that refreshes nothing.
const AV1_PAYLOADS: [&[u8]; 3] = [
    &[0x08, 0x00, 0x00, 0x00, 0x03, 0xbd, 0x7c, 0x79, 0xf7, 0xf2, 0x00, 0x80],
    &[0x30, 0x10, 0x00, 0x82, 0x00, 0x80, 0x00, 0x01, 0x00, 0x00, 0x80, 0x80, 0xdd],
    &[0x30, 0x30, 0x06, 0x00, 0x1b, 0x6d, 0x6d, 0x6a, 0x36, 0x00, 0x00, 0x00, 0x81],
];

/// A VP8 key frame of 176 × 144 pixels by libvpx. Its first partition has 20 bytes.
const VP8_KEY: &[u8] = &[
    0x90, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0xb0, 0x00, 0x90, 0x00, 0x39, 0x05, 0x00, 0x00, 0x1c, 0x24,
    0x0c, 0x2c, 0x2c, 0x44, 0xcc, 0x24, 0x40, 0x10, 0x00, 0x14, 0xe8, 0xdb, 0xd9, 0x4e, 0xf7, 0xef,
    0xc4, 0xcf, 0xda, 0x2f, 0xf0, 0x1f, 0x25, 0x95,
];

/// Returns an input: the packets of `frames`, each a list of payloads.
fn input(codec: u8, frames: &[&[&[u8]]]) -> Vec<u8> {
    let mut input = vec![codec];
    let mut number = 0;
    for (frame, time) in frames.iter().zip((0..).step_by(3_600)) {
        for (at, payload) in frame.iter().enumerate() {
            number += 1;
            input.extend(packet(number, time, at + 1 == frame.len(), payload));
        }
    }
    input
}

fn seeds() -> Vec<Vec<u8>> {
    let with = |first: u8, rest: &[u8]| [&[first][..], rest].concat();
    let [video, sequence, picture] = H265_SETS;
    let h265 = input(
        0,
        &[
            // An IDR picture in fragments, pictures of both layers, an aggregate.
            &[video, sequence, picture, &[0x62, 1, 0x93, 0xac, 5], &[0x62, 1, 0x53, 6]],
            &[&[0x02, 1, 0xd0, 0x08, 1, 2]],
            &[&[0x00, 2, 0xd0, 0x09, 3, 4]],
            &[&[0x60, 1, 0, 4, 0x4e, 1, 5, 4, 0, 4, 0x02, 1, 0xd0, 9]],
        ],
    );
    let [sequence, key, inter] = AV1_PAYLOADS;
    // A key frame, a frame in two packets, and one that shows a hidden picture.
    let av1 = input(
        1,
        &[
            &[&with(0x18, sequence), &with(0x10, key)],
            &[&with(0x50, inter), &[0x90, 1, 2]],
            &[&[0x20, 2, 0x18, 0xb8, 0x34, 0x20, 0x30, 5]],
        ],
    );
    // A key frame, and frames of two layers with picture numbers.
    let vp8 = input(
        2,
        &[
            &[&with(0x10, VP8_KEY)],
            &[&[0x90, 0xe0, 0x80, 2, 1, 0x00, 0x11, 2, 0, 5, 6, 7], &[0x80, 0x80, 2, 8]],
            &[&[0xb0, 0x20, 0x80, 0x11, 2, 0, 9, 9, 9, 9]],
        ],
    );
    let vp9 = input(
        3,
        &[
            &[&[0x0e, 0x18, 0, 9, 0, 9, 2, 0, 4, 1, 0x83, 0x49, 0x83, 0x42, 0, 1]],
            &[&[0xec, 0x81, 2, 0x20, 9, 0x87, 1, 2, 3]],
            &[&[0x48, 0x87, 0, 4], &[0x44, 5, 0x87, 0, 2, 0xc0, 3, 0xc0]],
        ],
    );
    let mpeg = input(4, &[&[&[0, 0, 0x20, 0, 0, 0, 1, 0xb3, 1, 2, 3, 4, 0, 0, 1, 0, 0, 8]]]);
    vec![h265, av1, vp8, vp9, mpeg]
}

/// Changes the packets; the codec stays.
fn mutate(mutation: &mut Mutation, input: &mut Vec<u8>) {
    let codec = input.first().copied().unwrap_or(0);
    let mut packets = input.split_off(input.len().min(1));
    published::mutate(mutation, &mut packets);
    *input = [&[codec], &packets[..]].concat();
}

fn run(input: &[u8]) -> bool {
    let Some((codec, packets)) = input.split_first() else { return false };
    let codec = CODECS[usize::from(*codec) % CODECS.len()];
    millstream_media::fuzzing::published(codec, packets)
}
