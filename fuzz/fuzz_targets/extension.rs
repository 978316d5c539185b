//! The target `extension` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("extension");
