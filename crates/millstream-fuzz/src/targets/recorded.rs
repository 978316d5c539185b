//! No published frame causes a panic of the recording or of HLS, and a reader finds every recorded
//! frame.

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "recorded",
    first_parser: "a key frame with parameter sets",
    seeds: millstream_media::fuzzing::recorded_frames,
    words: &[&[0, 0, 0, 1, 0x67], &[0, 0, 0, 1, 0x68], &[0, 0, 1, 0x65], &[0, 16], &[0, 32]],
    mutate: Mutation::bytes,
    admits: None,
    run: millstream_media::fuzzing::recorded,
};
