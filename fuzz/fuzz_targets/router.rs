//! No text makes the parser of a router's file panic; what it refuses it says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_scenario::RouterScenario;
use std::path::Path;

fuzz_target!(|text: &str| {
    match RouterScenario::parse("fuzz.toml", text, Path::new("")) {
        Ok(scenario) => {
            let ports = scenario.ports.len();
            assert!(scenario.routes.iter().all(|route| route.port < ports));
            assert!(scenario.paths.iter().all(|path| path.to.is_none_or(|to| to < ports)));
        }
        Err(error) => assert!(!error.problems.is_empty()),
    }
});
