//! The target `credentials` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("credentials");
