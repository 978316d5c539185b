//! The router file parser does not panic, and each rejection has a reason.

use millstream_scenario::{MAX_IPV6_ADDRESSES, NextHop, RouterScenario};
use std::path::Path;

use super::scenario::is_toml;
use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "router",
    first_parser: "TOML",
    seeds: files,
    words: &[
        b"[router]",
        b"[[port]]",
        b"[[path]]",
        b"[[route]]",
        b"name",
        b"kind",
        b"rate",
        b"address",
        b"match",
        b"proxy",
        b"extension",
        b"nat",
        b"forward",
        b"flows",
        b"host-flows",
        b"protocol",
        b"\"tcp\"",
        b"\"udp\"",
        b"destination-port",
        b"source",
        b"vlan",
        b"pcp",
        b"dscp",
        b"filter",
        b"action",
        b"\"drop\"",
        b"prefix",
        b"via",
        b"port",
        b"neighbour",
        b"\"0.0.0.0/0\"",
        b"\"10.0.0.1/24\"",
        b"\"2001:db8::1/64\"",
        b"\"fe80::1\"",
        b"\"02:00:00:00:00:02\"",
        b"\"1 Gbps\"",
        b"\"50 us\"",
        b"\"4 KiB\"",
        b"true",
        b"-1",
        b"{",
        b"}",
        b"[",
        b"]",
    ],
    mutate: Mutation::text,
    admits: Some(is_toml),
    run,
};

fn files() -> Vec<Vec<u8>> {
    let plain = seeds::file("examples/router/router.toml");
    let text = String::from_utf8_lossy(&plain);
    let nat = text.replace(
        "name = \"wan\"\n",
        "name = \"wan\"\naddress = \"10.2.0.9/24\"\nnat = { flows = 9, host-flows = 2, \
         forward = [{ protocol = \"tcp\", port = 80, to = \"10.1.0.5:80\" }] }\n",
    );
    assert_ne!(nat, text, "the example has a port `wan`");
    let others = ["examples/router/proxy.toml", "examples/router/extension.toml"];
    let others = others.map(seeds::file);
    let mut files = vec![nat.into_bytes()];
    files.push(plain);
    files.extend(others);
    files
}

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
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
                port.addresses.len() - v6 <= 1 && v6 <= MAX_IPV6_ADDRESSES
            }));
            assert!(scenario.paths.iter().all(|path| path.to.is_none_or(|to| to < ports)));
        }
        Err(error) => assert!(!error.problems.is_empty()),
    }
    is_toml(input)
}
