//! The reader of fragmented MP4 does not panic; its samples lie inside their fragments.

use millstream_traffic::mpeg::FragmentedMp4;
use std::io::Cursor;

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "fragments",
    first_parser: "a file with fragments",
    seeds,
    words: &[b"moov", b"moof", b"traf", b"trun", b"tfhd", b"tfdt", b"mdat", b"mvex", b"avcC"],
    mutate: Mutation::bytes,
    admits: Some(is_fragmented),
    run,
};

/// Returns a recording, and its start, so that most changes hit a header.
fn seeds() -> Vec<Vec<u8>> {
    let file = millstream_media::fuzzing::recorded_file();
    let short = file[..file.len().min(2_500)].to_vec();
    vec![file, short]
}

fn is_fragmented(input: &[u8]) -> bool {
    FragmentedMp4::open(Cursor::new(input)).is_ok_and(|file| file.is_some())
}

fn run(input: &[u8]) -> bool {
    let Ok(Some(mut file)) = FragmentedMp4::open(Cursor::new(input)) else { return false };
    let mut last = file.position();
    while let Ok(Some(fragment)) = file.next_fragment() {
        assert!(fragment.samples.iter().all(|one| one.range.end <= fragment.bytes.len()));
        assert!(file.position() > last);
        last = file.position();
    }
    true
}
