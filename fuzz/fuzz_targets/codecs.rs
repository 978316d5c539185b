//! The target `codecs` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("codecs");
