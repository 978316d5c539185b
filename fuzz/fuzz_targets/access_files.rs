//! The target `access_files` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("access_files");
