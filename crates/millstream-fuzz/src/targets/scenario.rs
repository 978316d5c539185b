//! The scenario parser does not panic, and a parsed scenario has a scheduler.

use millstream_scenario::Scenario;
use std::path::Path;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "scenario",
    first_parser: "TOML",
    seeds: scenarios,
    words: &[
        b"[link]",
        b"[scheduler]",
        b"[[stream]]",
        b"[[class]]",
        b"[fabric]",
        b"[media]",
        b"[scenario]",
        b"name",
        b"rate",
        b"period",
        b"window",
        b"late",
        b"weight",
        b"queue",
        b"source",
        b"kind",
        b"cbr",
        b"pareto",
        b"mpeg",
        b"trace",
        b"pcap",
        b"backlog",
        b"on-off",
        b"\"dwcs\"",
        b"\"edf\"",
        b"\"wfq\"",
        b"\"drr\"",
        b"\"fifo\"",
        b"\"drop\"",
        b"\"send\"",
        b"\"1/4\"",
        b"\"0/0\"",
        b"\"40 ms\"",
        b"\"1 Mbps\"",
        b"\"auto\"",
        b"\"hilq-exact\"",
        b"true",
        b"-1",
        b"1e9",
        b"{",
        b"}",
        b"[",
        b"]",
    ],
    mutate: Mutation::text,
    admits: Some(is_toml),
    run,
};

fn scenarios() -> Vec<Vec<u8>> {
    let examples = seeds::files("examples", "scenario.toml");
    let traces = seeds::files("conformance/traces", "scenario.toml");
    examples.into_iter().chain(traces).collect()
}

/// Returns whether the input is UTF-8 and TOML.
pub(super) fn is_toml(input: &[u8]) -> bool {
    std::str::from_utf8(input).is_ok_and(|text| text.parse::<toml::Table>().is_ok())
}

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Scenario::parse("fuzz.toml", text, Path::new("")) {
        Ok(scenario) => drop(scenario.scheduler()),
        Err(error) => assert!(!error.problems.is_empty()),
    }
    is_toml(input)
}
