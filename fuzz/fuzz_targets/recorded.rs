//! The target `recorded` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("recorded");
