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
fn virtual_links_name_two_end_points() {
    let of = |keys: &str| {
        format!(
            "[[stream]]\nname = \"v\"\nsource = {{ kind = \"cbr\", bytes = 64, interval = \"1 \
             ms\", {keys} }}\n"
        )
    };
    let scenario = parse("fifo", &of("from = \"e0\", to = \"e3\", start = \"5 us\""));
    assert_eq!(scenario.streams[0].virtual_link, Some((0, 3)));
    let text = |fabric: &str, keys: &str| {
        format!(
            "[scenario]\nduration = \"1 ms\"\n[link]\nrate = \"1 Gbps\"\n{fabric}\
             [scheduler]\ndiscipline = \"fifo\"\n{}",
            of(keys)
        )
    };
    let fabric = "[fabric]\ntopology = { kind = \"folded-shuffle\", arity = 2, levels = 2 }\n";
    for (fabric, keys, message) in [
        (fabric, "from = \"e0\"", "one of `from` and `to`"),
        (fabric, "from = \"e0\", to = \"s1:0\"", "`s1:0` is not an end-point"),
        (fabric, "from = \"e1\", to = \"e1\"", "end-point 1 sends to itself"),
        (fabric, "from = \"e0\", to = \"e1\", load = 0.5", "is one connection"),
        (fabric, "from = \"e0\", to = \"e1\", stop = \"5 us\"", "run from start to end"),
        (fabric, "start = \"5 us\"", "run from start to end"),
        ("", "from = \"e0\", to = \"e1\"", "there is no fabric"),
    ] {
        let error = Scenario::parse("s.toml", &text(fabric, keys), Path::new("")).unwrap_err();
        assert!(error.problems.iter().any(|of| of.message.contains(message)), "{keys}: {error:?}");
    }
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
