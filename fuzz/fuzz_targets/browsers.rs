//! The target `browsers` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("browsers");
