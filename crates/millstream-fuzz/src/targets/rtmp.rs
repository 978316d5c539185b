//! No bytes of an RTMP client cause a panic; every frame is accounted for.

use millstream_media::fuzzing::rtmp_publication;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "rtmp",
    first_parser: "a command of RTMP",
    seeds,
    words: &[
        b"connect",
        b"publish",
        b"app",
        b"live",
        b"cam/a",
        b"?token=x",
        &[2, 0, 0],
        &[0x17, 1],
    ],
    mutate: Mutation::bytes,
    admits: None,
    run: millstream_media::fuzzing::rtmp,
};

fn seeds() -> Vec<Vec<u8>> {
    [("live", ""), ("cam", "a?user=a&pass=b"), ("film", "")]
        .map(|(app, key)| rtmp_publication(app, key))
        .to_vec()
}
