//! End-to-end tests of `millstream plan`; the times of software come from a file.
use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

fn measured(structure: &str, work: &str, missed_percent: u32, ns: f64) -> Value {
    json!({
        "work": work, "structure": structure, "streams": 4, "missed_percent": missed_percent,
        "deadlines": "spread", "misses": 0.0, "ns": ns, "tenth_ns": ns, "least_ns": ns,
    })
}

/// Runs `plan`; returns exit status, standard output, standard error and the working folder.
fn plan(arguments: &[&str]) -> (i32, String, String, TempDir) {
    let folder = TempDir::new().unwrap();
    let all = json!([
        measured("heap", "decision", 0, 1.0),
        measured("heap", "decision", 63, 600.0),
        measured("hilq-exact", "decision", 63, 40.0),
        measured("scan", "packet", 63, 1.0),
    ]);
    fs::write(folder.path().join("bench.json"), all.to_string()).unwrap();
    fs::write(folder.path().join("wrong.json"), "{}").unwrap();
    let mut command = Command::cargo_bin("millstream").unwrap();
    let output = command.current_dir(folder.path()).arg("plan").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr), folder)
}

const DEMAND: [&str; 6] = ["--streams", "4", "--bytes", "64", "--rate", "1 Gbps"];

#[test]
fn the_highest_miss_rate_counts_and_the_margin_is_packet_time_over_decision_time() {
    let (status, out, err, _folder) =
        plan(&[&DEMAND[..], &["--software", "bench.json", "--json"]].concat());
    assert_eq!(status, 0, "{err}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["packet_time_ns"], 512.0);
    let found = answer["candidates"].as_array().unwrap();
    let software: Vec<_> = found
        .iter()
        .filter(|candidate| candidate["place"] == "software")
        .map(|candidate| (&candidate["name"], &candidate["keeps_up"], &candidate["margin"]))
        .map(|(name, keeps_up, margin)| (name.clone(), keeps_up.clone(), margin.clone()))
        .collect();
    assert_eq!(software[0], (json!("hilq-exact"), json!(true), json!(12.8)));
    assert_eq!((&software[1].0, &software[1].1), (&json!("heap"), &json!(false)));
    assert_eq!(software.len(), 2);
    // The smallest sufficient core of each design.
    let hardware: Vec<_> = found
        .iter()
        .filter(|candidate| candidate["place"] == "hardware")
        .map(|candidate| candidate["name"].as_str().unwrap())
        .collect();
    assert!(hardware.contains(&"ba 4") && hardware.contains(&"tiled 64"), "{hardware:?}");
    assert!(!hardware.contains(&"ba 8") && !hardware.contains(&"tiled 256"), "{hardware:?}");
}

#[test]
fn a_chart_is_drawn_and_overhead_lengthens_packets() {
    let more = ["--software", "bench.json", "--overhead", "24", "--figure", "chart.svg"];
    let (status, out, err, folder) = plan(&[&DEMAND[..], &more].concat());
    assert_eq!(status, 0, "{err}");
    assert!(out.starts_with("4 streams, packets of 88 bytes at 1.00 Gbit/s"), "{out}");
    assert!(out.contains("must fit in 704.0 ns"), "{out}");
    let chart = fs::read_to_string(folder.path().join("chart.svg")).unwrap();
    assert!(chart.contains("packet-time, 88 bytes") && chart.contains("hilq-exact"));
}

#[test]
fn wrong_files_and_arguments_are_errors() {
    for (arguments, expected) in [
        (&["--software", "none.json"][..], "none.json"),
        (&["--software", "wrong.json"][..], "millstream bench --json"),
        (&["--streams", "17", "--software", "bench.json"][..], "no decisions with 17 streams"),
        (&["--rate", "fast"][..], "is not a rate"),
    ] {
        let mut given = DEMAND.to_vec();
        for pair in arguments.chunks(2) {
            match given.iter().position(|known| *known == pair[0]) {
                Some(at) => given[at + 1] = pair[1],
                None => given.extend(pair),
            }
        }
        let (status, out, err, _folder) = plan(&given);
        let flat = err.split_whitespace().collect::<Vec<_>>().join(" ").replace("│ ", "");
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        assert!(flat.contains(expected), "{err}");
    }
}
