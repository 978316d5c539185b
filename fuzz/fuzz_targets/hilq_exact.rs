//! The target `hilq_exact` under libFuzzer.
#![no_main]

millstream_libfuzzer::target!("hilq_exact");
