//! The target `canary` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("canary");
