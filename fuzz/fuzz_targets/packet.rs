//! The target `packet` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("packet");
