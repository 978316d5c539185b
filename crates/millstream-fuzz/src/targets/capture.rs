//! The capture reader does not panic, and times never decrease.

use millstream_traffic::{CaptureFeed, Feed};
use std::io::Write;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "capture",
    first_parser: "libpcap's file header and first packet",
    seeds: captures,
    words: &[
        &[0x4d, 0x3c, 0xb2, 0xa1],
        &[0xd4, 0xc3, 0xb2, 0xa1],
        &[0xa1, 0xb2, 0xc3, 0xd4],
        &[0x0a, 0x0d, 0x0d, 0x0a],
    ],
    mutate: Mutation::bytes,
    admits: Some(|input| read(input) > 0),
    run: |input| read(input) > 0,
};

fn captures() -> Vec<Vec<u8>> {
    let long = seeds::file("examples/data/uplink.pcap");
    let short = long[..400].to_vec();
    // Section header, interface description, an enhanced packet block of 16 bytes.
    let mut next_generation = Vec::new();
    for words in [
        &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28][..],
        &[1, 20, 1, 65_535, 20],
        &[6, 48, 0, 0, 7, 16, 16, 1, 2, 3, 4, 48],
    ] {
        next_generation.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
    }
    vec![long, short, next_generation]
}

/// Returns the number of arrivals read.
fn read(input: &[u8]) -> usize {
    let Ok(mut file) = tempfile::Builder::new().tempfile_in("/dev/shm") else { return 0 };
    if file.write_all(input).is_err() {
        return 0;
    }
    let claims = [(0, Some("udp or greater 100".to_owned())), (1, None)];
    let (mut arrivals, mut last_ns) = (0, 0);
    if let Ok(mut feed) = CaptureFeed::open(file.path(), &claims, true) {
        while let Ok(Some(arrival)) = feed.next_arrival() {
            assert!(arrival.time_ns >= last_ns && arrival.stream < 2);
            last_ns = arrival.time_ns;
            arrivals += 1;
        }
    }
    arrivals
}
