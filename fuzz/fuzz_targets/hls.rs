//! The target `hls` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("hls");
