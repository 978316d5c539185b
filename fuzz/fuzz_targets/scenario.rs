//! No text makes the scenario parser panic, and a scenario that parses has a scheduler.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_scenario::Scenario;
use std::path::Path;

fuzz_target!(|text: &str| {
    match Scenario::parse("fuzz.toml", text, Path::new("")) {
        Ok(scenario) => drop(scenario.scheduler()),
        Err(error) => assert!(!error.problems.is_empty()),
    }
});
