//! Validation of fabrics: default quanta and management channels.
#![allow(clippy::unwrap_used)]

use millstream_scenario::Scenario;
use std::path::Path;

fn parse(discipline: &str, streams: &str) -> Scenario {
    let text = format!(
        "[scenario]\nduration = \"1 ms\"\n[link]\nrate = \"1 Gbps\"\n\
         [fabric]\ntopology = {{ kind = \"folded-shuffle\", arity = 2, levels = 2 }}\n\
         [scheduler]\ndiscipline = \"{discipline}\"\n{streams}"
    );
    Scenario::parse("s.toml", &text, Path::new("")).unwrap()
}

fn stream(name: &str, keys: &str) -> String {
    let source = "{ kind = \"pareto\", bytes = 64, largest = 1500, rate = \"100 Mbps\" }";
    format!("[[stream]]\nname = \"{name}\"\n{keys}\nsource = {source}\n")
}

#[test]
fn the_default_quantum_counts_the_largest_packet() {
    let named = parse("drr", &stream("a", "quantum = 1500"));
    let default = parse("drr", &stream("a", ""));
    assert_eq!(default.streams[0].contract, named.streams[0].contract);
}

#[test]
fn a_management_channel_is_used_under_any_discipline() {
    let scenario = parse("wfq", &(stream("a", "fmc = true") + &stream("b", "priority = 1")));
    assert_eq!(scenario.notes, ["1 stream gives `priority`, which wfq does not use"]);
}

#[test]
fn a_management_channel_needs_no_period_under_deadlines() {
    let streams = stream("a", "fmc = true") + &stream("b", "period = \"1 ms\"");
    for discipline in ["edf", "dwcs"] {
        assert!(parse(discipline, &streams).streams[0].contract.is_fmc());
    }
}
