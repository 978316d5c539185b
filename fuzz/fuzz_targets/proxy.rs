//! The target `proxy` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("proxy");
