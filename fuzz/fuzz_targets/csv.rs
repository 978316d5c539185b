//! The target `csv` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("csv");
