//! The target `c_calls` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("c_calls");
