//! The target `mpeg` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("mpeg");
