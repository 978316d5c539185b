//! No bytes make the capture reader panic, and times never decrease.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_traffic::{CaptureFeed, Feed};
use std::io::Write;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::Builder::new().tempfile_in("/dev/shm") else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let claims = [(0, Some("udp or greater 100".to_owned())), (1, None)];
    if let Ok(mut feed) = CaptureFeed::open(file.path(), &claims, true) {
        let mut last_ns = 0;
        while let Ok(Some(arrival)) = feed.next_arrival() {
            assert!(arrival.time_ns >= last_ns && arrival.stream < 2);
            last_ns = arrival.time_ns;
        }
    }
});
