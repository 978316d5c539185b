//! The target `capture` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("capture");
