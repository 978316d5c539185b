//! The target `journal` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("journal");
