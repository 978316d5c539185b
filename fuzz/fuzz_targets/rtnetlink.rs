//! The target `rtnetlink` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("rtnetlink");
