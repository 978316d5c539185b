//! Whatever RTP a publisher sends, nothing panics and every frame is accounted for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| millstream_media::fuzzing::published(bytes));
