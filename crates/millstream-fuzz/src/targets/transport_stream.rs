//! Every video is packed into whole transport packets, without a panic.

use super::mpeg::{START_CODES, clips};
use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "transport_stream",
    first_parser: "a stream with a sequence header and a frame",
    seeds: clips,
    words: START_CODES,
    mutate: Mutation::bytes,
    admits: Some(|input| millstream_media::fuzzing::transport_stream(input).is_some()),
    run,
};

fn run(input: &[u8]) -> bool {
    let Some(stream) = millstream_media::fuzzing::transport_stream(input) else { return false };
    assert!(stream.len() % 188 == 0 && stream.chunks(188).all(|packet| packet[0] == 0x47));
    true
}
