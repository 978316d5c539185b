//! The target `audio` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("audio");
