//! The target `orders` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("orders");
