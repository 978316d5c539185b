//! No RTP of any codec causes a panic in the assembly of frames, the parsers of their headers or
//! the packetization for players; every frame is accounted for. H.264 has a target of its own.

use millstream_traffic::mpeg::Codec;

use super::published::{self, packet};
use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "codecs",
    first_parser: "an RTP packet of the stream",
    seeds,
    words: &[&[0x80, 96], &[0x80, 0xe0], &[0x62, 1, 0x93], &[0x62, 1, 0x53], &[0x60, 1]],
    mutate,
    admits: None,
    run,
};

/// The codec that the first byte of an input selects.
const CODECS: [Codec; 2] = [Codec::H265, Codec::Mpeg];

/// Parameter sets of x265 for 176 × 144 at 25 frames/s, with two temporal layers.
const H265_SETS: [&[u8]; 3] = [
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
    let mpeg = input(1, &[&[&[0, 0, 0x20, 0, 0, 0, 1, 0xb3, 1, 2, 3, 4, 0, 0, 1, 0, 0, 8]]]);
    vec![h265, mpeg]
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
