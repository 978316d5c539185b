//! The target `cluster` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("cluster");
