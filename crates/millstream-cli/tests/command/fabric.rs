//! End-to-end tests of scenarios with a fabric.
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const SMALL: &str = r#"
[scenario]
duration = "2 ms"

[link]
rate = "1 Gbps"

[fabric]
topology = { kind = "folded-shuffle", arity = 2, levels = 2 }
warm-up = "0.5 ms"

[scheduler]
discipline = "wfq"

[[stream]]
name = "calls"
weight = 3
source = { kind = "cbr", bytes = 200, interval = "100 us", load = 0.2 }

[[stream]]
name = "video"
weight = 3
[stream.source]
kind = "mpeg"
model = "mpeg4"
rate = "50 Mbps"
packet-bytes = 1500
spread = true
load = 0.2

[[stream]]
name = "bulk"
source = { kind = "poisson", bytes = 1000, rate = "900 Mbps" }
"#;

/// Runs a command on the scenario `text`; returns exit status, standard output and standard error.
fn run(text: &str, arguments: &[&str]) -> (i32, String, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, text).unwrap();
    let mut command = Command::cargo_bin("millstream").unwrap();
    let (verb, options) = arguments.split_first().unwrap();
    command.current_dir(folder.path()).arg(verb).arg("s.toml").args(options);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(text: &str, options: &[&str]) -> Value {
    let (status, out, err) = run(text, &[&["run", "--json"], options].concat());
    assert_eq!(status, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn reserved_streams_keep_their_throughput_beside_bulk_traffic() {
    let summary = json(SMALL, &[]);
    let streams = &summary["streams"];
    assert_eq!(summary["fabric"]["end_points"], 4);
    assert_eq!(summary["fabric"]["switches"], 4);
    for (stream, least) in [(0, 0.18), (1, 0.1)] {
        let (offered, got) = (&streams[stream]["offered"], &streams[stream]["throughput"]);
        let (offered, got) = (offered.as_f64().unwrap(), got.as_f64().unwrap());
        assert!(got > least && got > 0.95 * offered, "{offered} {got}");
    }
    let (calls, bulk) = (&streams[0]["delay_ns"], &streams[2]["delay_ns"]);
    assert!(calls["mean"].as_u64().unwrap() * 2 < bulk["mean"].as_u64().unwrap());
    assert!(streams[2]["throughput"].as_f64().unwrap() < streams[2]["offered"].as_f64().unwrap());
    assert!(streams[2]["jitter_max_ns"].is_null());
    // Each end-point needs 12.5 connections of 16 Mbit/s for its load of 0.2.
    assert_eq!(streams[0]["connections_asked"], 50);
}

#[test]
fn equal_seeds_give_equal_bytes_and_other_seeds_do_not() {
    let once = run(SMALL, &["run", "--json"]).1;
    assert_eq!(run(SMALL, &["run", "--json"]).1, once);
    assert_ne!(run(SMALL, &["run", "--json", "--seed", "2"]).1, once);
    assert!(run(SMALL, &["run"]).1.contains("throughput"));
}

#[test]
fn the_report_shows_streams_fabric_and_busiest_links() {
    let hostile = SMALL.replace("\"bulk\"", "\"<b>bulk\"");
    let page = || {
        let out = run(&hostile, &["run", "--report", "-"]).1;
        out.split_once("</html>").unwrap().0.to_owned()
    };
    let html = page();
    for part in [
        "Results by stream",
        "16 of 1.00 Gbit/s",
        "<title>The fabric, links coloured by utilisation</title>",
        "switch 0 to end-point 0: ",
        "The busiest links",
        "The fullest buffers",
        "Throughput over time",
        "Delay over time",
        "Delay distribution",
        "Delay tail",
        "Share of a stream&#39;s delivered packets",
        "p99.9\n",
        "levels = 2",
        "&#60;b&#62;bulk",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<b>bulk"));
    assert_eq!(page(), html);
}

#[test]
fn every_topology_runs_and_is_checked() {
    for (topology, end_points) in [
        (r#"{ kind = "shuffle", radix = 2, stages = 3 }"#, 8),
        (r#"{ kind = "fat-tree", ports = 4 }"#, 16),
        (r#"{ kind = "mesh", sizes = [2, 3] }"#, 6),
        (r#"{ kind = "torus", sizes = [3, 3], concentration = 2 }"#, 18),
        (r#"{ kind = "dragonfly", end-points = 1, switches = 2, globals = 1 }"#, 6),
        (
            concat!(
                r#"{ kind = "custom", end-points = 2, switches = [2], "#,
                r#"cables = [["e0", "s0:0"], ["e1", "s0:1"]] }"#
            ),
            2,
        ),
    ] {
        let text = SMALL.replace(r#"{ kind = "folded-shuffle", arity = 2, levels = 2 }"#, topology);
        let summary = json(&text, &[]);
        assert_eq!(summary["fabric"]["end_points"], end_points, "{topology}");
        assert!(summary["streams"][2]["delivered"].as_u64().unwrap() > 0, "{topology}");
        let (status, out, err) = run(&text, &["check"]);
        assert_eq!(status, 0, "{err}");
        assert!(out.contains("free of deadlock"), "{out}");
    }
}

#[test]
fn unsupported_settings_of_a_fabric_are_errors_with_the_line() {
    for (old, new, messages) in [
        ("arity = 2", "arity = 1", vec!["fabric.topology", "arity", "1"]),
        ("arity = 2", "arty = 2", vec!["unknown field `arty`"]),
        ("levels = 2", "levels = 30", vec!["fabric.topology"]),
        (
            "weight = 3\nsource = { kind = \"cbr\"",
            "late = \"drop\"\nsource = { kind = \"cbr\"",
            vec!["drops no packet", "late = \"send\""],
        ),
        ("name = \"bulk\"", "name = \"bulk\"\nqueue = 5", vec!["drops no packet", "queue = 5"]),
        ("bytes = 1000", "bytes = 3000", vec!["packets of 3000 bytes", "largest-packet"]),
        ("load = 0.2", "load = 1.5", vec!["a load of 1.5", "from 0 to 1"]),
        ("duration = \"2 ms\"", "", vec!["never ends", "duration"]),
        ("warm-up = \"0.5 ms\"", "warm-up = \"2 ms\"", vec!["warm-up is as long as the run"]),
        ("warm-up = \"0.5 ms\"", "latency = \"0 ns\"", vec!["without a delay"]),
        (
            "warm-up = \"0.5 ms\"",
            "input-buffer = \"2 KB\"",
            vec!["2000 B for packets of 2176", "2176 B"],
        ),
        ("warm-up = \"0.5 ms\"", "speed-up = 0.5", vec!["a speed-up of 0.5", "at least 1"]),
        (
            "warm-up = \"0.5 ms\"",
            "buffering = \"output\"\nspeed-up = 2.0",
            vec!["`speed-up` without a crossbar"],
        ),
        (
            "kind = \"poisson\", bytes = 1000, rate = \"900 Mbps\"",
            "kind = \"backlog\", bytes = 1000, packets = 5",
            vec!["not supported in a fabric"],
        ),
    ] {
        assert!(SMALL.contains(old), "{old}");
        let (status, _, err) = run(&SMALL.replacen(old, new, 1), &["run"]);
        assert_eq!(status, 2, "{new}: {err}");
        let text = err.split_whitespace().collect::<Vec<_>>().join(" ");
        for message in messages {
            assert!(text.contains(message), "{new}: {err}");
        }
    }
    let (status, _, err) = run(SMALL, &["run", "--departures", "d.csv"]);
    assert_eq!(status, 2);
    assert!(err.contains("--departures is for a single link"), "{err}");
    let alone = SMALL.replace(
        "[fabric]\ntopology = { kind = \"folded-shuffle\", arity = 2, \
     levels = 2 }\nwarm-up = \"0.5 ms\"\n",
        "",
    );
    let (status, _, err) = run(&alone, &["run"]);
    assert_eq!(status, 2);
    assert!(err.contains("here is no fabric"), "{err}");
}

#[test]
fn the_example_behaves_as_its_comments_say() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/scenario.toml");
    let text = fs::read_to_string(example).unwrap();
    let short = text.replace("10 ms", "3 ms").replace("warm-up = \"2 ms\"", "warm-up = \"0.5 ms\"");
    let summary = json(&short, &[]);
    let share = |stream: usize, key: &str| summary["streams"][stream][key].as_f64().unwrap();
    for stream in 0..4 {
        assert!(share(stream, "throughput") > 0.95 * share(stream, "offered"), "{stream}");
    }
    let [excellent, best, background] = [4, 5, 6].map(|stream| share(stream, "throughput"));
    assert!(excellent > best && best > background);
}

/// Connections of constant bit rate have bounds behind output queues, on paths in a cycle only up
/// to some load.
#[test]
fn delays_behind_output_queues_are_bounded() {
    let text = |topology: &str, load: &str| {
        format!(
            "[scenario]\nduration = \"1 ms\"\n[link]\nrate = \"1 Gbit/s\"\n[fabric]\ntopology = \
             {topology}\nbuffering = \"output\"\nlatency = \"100 ns\"\nforwarding = \
             \"store-and-forward\"\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\nname = \
             \"calls\"\nsource = {{ kind = \"cbr\", bytes = 125, interval = \"100 us\"{load} }}\n"
        )
    };
    let pair = concat!(
        r#"{ kind = "custom", end-points = 2, switches = [2], "#,
        r#"cables = [["e0", "s0:0"], ["e1", "s0:1"]] }"#
    );
    let (status, out, err) = run(&text(pair, ""), &["check", "--json"]);
    assert_eq!(status, 0, "{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    // A packet of 1 µs on two links, and the switch between.
    assert_eq!(value["streams"][0]["worst_delay_ns"], 2_100, "{value}");
    let (status, out, err) = run(&text(pair, ""), &["run", "--bounds", "--json"]);
    assert_eq!(status, 0, "{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    let stream = &value["streams"][0];
    assert_eq!((&stream["delay_bound_ns"], &stream["tightness"]), (&2_100.into(), &1.0.into()));
    let torus = text(r#"{ kind = "torus", sizes = [7] }"#, ", load = 0.5");
    let (status, out, _) = run(&torus, &["check", "--require-guarantee"]);
    assert!(status == 0 && out.contains("guaranteed: the worst delays"), "{out}");
    let torus = torus.replace("\"fifo\"", "\"wf2q+\"").replace("0.5", "0.7");
    let (status, out, _) = run(&torus, &["check"]);
    assert_eq!(status, 0);
    assert!(out.contains("form a cycle") && out.contains("switch 0 to switch"), "{out}");
    let (status, out, err) = run(&torus, &["run", "--bounds"]);
    assert!(status == 0 && err.contains("no bound on delays: the paths of"), "{err}");
    assert!(!out.contains("tightness"), "{out}");
}
