//! The target `takeover` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("takeover");
