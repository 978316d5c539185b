//! Whatever video a file holds, it is wrapped in whole transport packets, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(stream) = millstream_media::fuzzing::transport_stream(bytes) {
        assert!(stream.len() % 188 == 0 && stream.chunks(188).all(|packet| packet[0] == 0x47));
    }
});
