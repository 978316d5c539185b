//! The target `published` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("published");
