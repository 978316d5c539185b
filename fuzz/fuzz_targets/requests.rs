//! The target `requests` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("requests");
