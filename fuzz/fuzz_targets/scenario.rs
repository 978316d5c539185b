//! The target `scenario` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("scenario");
