//! The target `transport_receiver` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("transport_receiver");
