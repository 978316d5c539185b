//! No text makes the parser of a router's file panic; what it refuses it says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_scenario::{MOST_IPV6, NextHop, RouterScenario};
use std::path::Path;

fuzz_target!(|text: &str| {
    match RouterScenario::parse("fuzz.toml", text, Path::new("")) {
        Ok(scenario) => {
            let ports = scenario.ports.len();
            assert!(scenario.routes.iter().all(|route| route.port < ports));
            assert!(scenario.routes.iter().all(|route| match route.next {
                NextHop::Gateway(via) => via.is_ipv6() == route.prefix.addr().is_ipv6(),
                NextHop::Neighbour(_) | NextHop::Connected => true,
            }));
            assert!(scenario.ports.iter().all(|port| {
                let v6 = port.addresses.iter().filter(|net| net.addr().is_ipv6()).count();
                port.addresses.len() - v6 <= 1 && v6 <= MOST_IPV6
            }));
            assert!(scenario.paths.iter().all(|path| path.to.is_none_or(|to| to < ports)));
        }
        Err(error) => assert!(!error.problems.is_empty()),
    }
});
