//! The target `router` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("router");
