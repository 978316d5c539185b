//! Whatever a client sends on an RTSP connection, it is answered or closed, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let answers = millstream_media::fuzzing::requests(bytes);
    assert!(answers.is_empty() || answers.starts_with(b"RTSP/1.0 "));
});
