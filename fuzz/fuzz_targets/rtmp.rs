//! The target `rtmp` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("rtmp");
