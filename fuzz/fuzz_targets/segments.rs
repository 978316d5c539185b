//! The target `segments` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("segments");
