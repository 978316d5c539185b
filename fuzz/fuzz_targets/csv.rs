//! No bytes make the arrivals CSV reader panic, and times never decrease.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_traffic::{CsvTrace, Feed};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let streams = [("a".to_owned(), 0), ("b".to_owned(), 1)];
    if let Ok(mut trace) = CsvTrace::new(bytes, Path::new("fuzz.csv"), streams, vec!["c".into()]) {
        let mut last_ns = 0;
        while let Ok(Some(arrival)) = trace.next_arrival() {
            assert!(arrival.time_ns >= last_ns && arrival.stream < 2);
            last_ns = arrival.time_ns;
        }
    }
});
