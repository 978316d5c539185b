//! End-to-end tests of `--trace`: the events of the file, and errors for wrong selections.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

const SCENARIO: &str = r#"
[scenario]
duration = "1 ms"

[link]
rate = "1 Gbps"

[fabric]
topology = { kind = "folded-shuffle", arity = 2, levels = 2 }
delay = "30 ns"
warm-up = "0.2 ms"

[scheduler]
discipline = "wfq"

[[stream]]
name = "calls"
weight = 3
source = { kind = "cbr", bytes = 200, interval = "100 us", load = 0.2 }

[[stream]]
name = "bulk <b>"
source = { kind = "poisson", bytes = 1000, rate = "900 Mbps" }
"#;

/// Runs with `--trace`; returns exit status, standard error and the trace, empty without one.
fn trace(text: &str, options: &[&str]) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("s.toml"), text).unwrap();
    let mut command = Command::cargo_bin("millstream").unwrap();
    command.current_dir(folder.path()).args(["run", "s.toml", "--trace", "t.json"]).args(options);
    let output = command.output().unwrap();
    let trace = fs::read_to_string(folder.path().join("t.json")).unwrap_or_default();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), error, trace)
}

fn events(options: &[&str]) -> (Vec<Value>, Value) {
    let (status, error, trace) = trace(SCENARIO, options);
    assert_eq!(status, 0, "{error}");
    let file: Value = serde_json::from_str(&trace).unwrap();
    (file["traceEvents"].as_array().unwrap().clone(), file["otherData"].clone())
}

/// Returns a time of an event, ns.
fn ns(event: &Value, key: &str) -> u64 {
    let us = event[key].as_f64().unwrap();
    let ns = (us * 1e3).round();
    assert!((us * 1e3 - ns).abs() < 1e-3, "{us}");
    ns as u64
}

fn of<'a>(events: &'a [Value], key: &str, value: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event[key] == value).collect()
}

/// Returns the events by row.
fn by_row<'a>(events: &[&'a Value]) -> BTreeMap<(u64, u64), Vec<&'a Value>> {
    let mut rows = BTreeMap::<_, Vec<&Value>>::new();
    for event in events {
        let row = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        rows.entry(row).or_default().push(event);
    }
    rows
}

#[test]
fn a_packets_stages_add_up_to_its_latency() {
    let (events, more) = events(&[]);
    assert_eq!(more["packets_kept"], 40, "20 of each stream");
    assert!(more["packets_selected_but_not_kept"].as_u64().unwrap() > 100);
    let journeys = by_row(&of(&events, "cat", "journey"));
    let stages = by_row(&of(&events, "cat", "stage"));
    assert_eq!(journeys.len(), 40);
    for (row, journey) in &journeys {
        let [journey] = journey[..] else { panic!("{journey:?}") };
        assert!(ns(journey, "ts") >= 200_000, "after the warm-up");
        let mut at_ns = ns(journey, "ts");
        for stage in &stages[row] {
            assert_eq!(ns(stage, "ts"), at_ns, "{journey}");
            at_ns += ns(stage, "dur");
        }
        assert_eq!(at_ns, ns(journey, "ts") + ns(journey, "dur"));
        assert_eq!(journey["args"]["latency_ns"], ns(journey, "dur"));
        // 1 Gbit/s is 8 ns a byte; every link takes 30 ns, every switch 145 ns.
        let links = stages[row].iter().filter(|stage| stage["name"] == "link and switch").count();
        let bytes = journey["args"]["bytes"].as_u64().unwrap();
        let unloaded_ns = links as u64 * (145 + 30) + 30 + bytes * 8;
        let waited: Vec<_> = stages[row]
            .iter()
            .filter(|stage| stage["name"].as_str().unwrap().starts_with("waits"))
            .map(|stage| ns(stage, "dur"))
            .collect();
        assert_eq!(ns(journey, "dur"), unloaded_ns + waited.iter().sum::<u64>(), "{journey}");
        assert!(links == 1 || links == 3, "{links}");
    }
}

#[test]
fn slices_of_a_link_do_not_overlap_and_arrows_follow_a_packet() {
    let (events, _) = events(&["--trace-packets", "first=400"]);
    for category in ["transmission", "transfer"] {
        let rows = by_row(&of(&events, "cat", category));
        assert!(rows.len() > 5, "{category}");
        for (row, mut slices) in rows {
            slices.sort_by_key(|slice| ns(slice, "ts"));
            for pair in slices.windows(2) {
                assert!(ns(pair[0], "ts") + ns(pair[0], "dur") <= ns(pair[1], "ts"), "{row:?}");
            }
        }
    }
    let named = of(&events, "name", "thread_name");
    let named = by_row(&named);
    let slices = by_row(&of(&events, "ph", "X"));
    assert!(slices.keys().all(|row| named.contains_key(row)));
    let mut arrows = BTreeMap::<u64, Vec<&Value>>::new();
    for point in events.iter().filter(|event| event["cat"] == "packet") {
        arrows.entry(point["id"].as_u64().unwrap()).or_default().push(point);
        // The point is at the start of a slice of its row.
        let row = (point["pid"].as_u64().unwrap(), point["tid"].as_u64().unwrap());
        assert!(slices[&row].iter().any(|slice| ns(slice, "ts") == ns(point, "ts")), "{point}");
    }
    assert!(arrows.len() > 400);
    for points in arrows.values() {
        let kinds: String = points.iter().map(|point| point["ph"].as_str().unwrap()).collect();
        assert!(kinds.starts_with('s') && kinds.ends_with('f'), "{kinds}");
        assert_eq!(kinds[1..kinds.len() - 1].replace('t', ""), "");
        assert!(points.windows(2).all(|pair| ns(pair[0], "ts") <= ns(pair[1], "ts")));
    }
    assert!(of(&events, "ph", "C").iter().any(|event| event["args"]["credits"].is_u64()));
}

#[test]
fn selections_filter_packets_and_equal_runs_give_equal_bytes() {
    let clauses =
        "stream=bulk <b>,source=1-2,destination=0,from=0.1ms,until=0.6 ms,every=2,first=100";
    let (events, more) = events(&["--trace-packets", clauses]);
    let journeys = of(&events, "cat", "journey");
    assert!(journeys.len() > 5);
    for journey in &journeys {
        let source = journey["args"]["source"].as_u64().unwrap();
        assert!((1..=2).contains(&source) && journey["args"]["destination"] == 0);
        assert_eq!(journey["args"]["stream"], "bulk <b>");
        assert!((100_000..600_000).contains(&ns(journey, "ts")));
    }
    let left_out = more["packets_selected_but_not_kept"].as_u64().unwrap();
    assert!(left_out.abs_diff(journeys.len() as u64) <= 1, "every other: {left_out}");
    let again = || trace(SCENARIO, &["--trace-packets", clauses]).2;
    assert_eq!(again(), again());
}

#[test]
fn wrong_selections_are_errors_with_the_valid_values() {
    for (clause, messages) in [
        ("stream=video", vec!["unknown stream `video`", "`calls`, `bulk <b>`"]),
        ("source=4", vec!["unknown end-point 4", "0 to 3"]),
        ("destination=3-1", vec!["3-1", "N at most M"]),
        ("connection=x", vec!["`x` is not a number"]),
        ("every=0", vec!["`0`", "positive integer"]),
        ("first=9999", vec!["10000", "first=5000"]),
        ("from=3", vec!["has no unit", "40 ms"]),
        ("until=0.1ms", vec!["not before", "200000 ns"]),
        ("hop=3", vec!["unknown clause `hop`", "stream=NAME", "every=N"]),
        ("calls", vec!["no `=`", "stream=NAME"]),
    ] {
        let (status, error, _) = trace(SCENARIO, &["--trace-packets", clause]);
        assert_eq!(status, 2, "{clause}: {error}");
        let text = error.replace(['│', '×', '╰', '─', '▶'], " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for message in messages {
            assert!(text.contains(message), "{clause}: {error}");
        }
    }
    let alone = "[scenario]\nduration = \"1 ms\"\n[link]\nrate = \"1 Gbps\"\n[scheduler]\n\
                 discipline = \"fifo\"\n[[stream]]\nname = \"a\"\nsource = { kind = \"cbr\", \
                 bytes = 100, rate = \"1 Mbps\" }\n";
    let (status, error, _) = trace(alone, &[]);
    assert_eq!(status, 2);
    assert!(error.contains("--trace is for a fabric"), "{error}");
}
