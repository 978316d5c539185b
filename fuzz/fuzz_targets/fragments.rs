//! The target `fragments` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("fragments");
