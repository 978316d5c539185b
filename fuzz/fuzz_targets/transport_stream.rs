//! The target `transport_stream` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("transport_stream");
