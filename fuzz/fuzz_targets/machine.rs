//! The target `machine` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("machine");
