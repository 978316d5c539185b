//! End-to-end tests of `millstream run`: outputs, exit statuses, errors, interruptions. Also of
//! `check`, `route calibrate` and `schema`.
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

const SCENARIO: &str = r#"
[link]
rate = "1 Mbps"

[scheduler]
discipline = "dwcs"

[[stream]]
name = "a"
period = "10 ms"
window = "1/2"
queue = 4
source = { kind = "trace", file = "arrivals.csv" }

[[stream]]
name = "b"
period = "4 ms"
late = "drop"
source = { kind = "trace", file = "arrivals.csv" }
"#;

fn millstream() -> Command {
    Command::cargo_bin("millstream").unwrap()
}

/// Returns a folder with a scenario and `rows` of its trace.
fn folder(rows: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    fs::write(folder.path().join("arrivals.csv"), format!("time_ns,stream,bytes\n{rows}")).unwrap();
    folder
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Returns rows that keep a 1 Mbit/s link busy.
fn busy_rows(count: u64) -> String {
    (0..count)
        .map(|k| format!("{},{},1250\n", k * 1_000_000, if k % 2 == 0 { "a" } else { "b" }))
        .collect()
}

/// Runs `command`; returns exit status, standard output and standard error.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_run_writes_all_requested_outputs_with_consistent_counts() {
    let folder = folder(&busy_rows(100));
    let path = |name: &str| folder.path().join(name);
    let (status, table, _) = outcome(
        millstream()
            .arg("run")
            .arg(path("s.toml"))
            .arg("--departures")
            .arg(path("d.csv"))
            .arg("--summary")
            .arg(path("s.json"))
            .arg("--report")
            .arg(path("r.html")),
    );
    assert_eq!(status, 0);
    let departures = fs::read_to_string(path("d.csv")).unwrap();
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(path("s.json")).unwrap()).unwrap();
    let rows = |stream: &str, event: &str| {
        let wanted = |row: &&str| {
            row.split(',').nth(1) == Some(stream) && row.ends_with(&format!(",{event}"))
        };
        departures.lines().filter(wanted).count() as u64
    };
    assert_eq!(departures.lines().count(), 101, "every arrival departs once");
    for stream in summary["streams"].as_array().unwrap() {
        let name = stream["name"].as_str().unwrap();
        assert_eq!(stream["arrived"], 50);
        assert_eq!(stream["sent"], rows(name, "sent"));
        assert_eq!(stream["dropped_late"], rows(name, "dropped-late"));
        assert_eq!(stream["dropped_full"], rows(name, "dropped-full"));
        assert!(table.contains(name));
    }
    assert!(rows("a", "dropped-full") > 0 && rows("b", "dropped-late") > 0);
    assert!(fs::read_to_string(path("r.html")).unwrap().contains("Rate over time"));
}

#[test]
fn equal_scenarios_and_seeds_give_equal_bytes() {
    let folder = folder("");
    let random = SCENARIO.replace(
        "{ kind = \"trace\", file = \"arrivals.csv\" }",
        "{ kind = \"pareto\", rate = \"800 Kbps\", bytes = 500, stop = \"5 s\" }",
    );
    fs::write(folder.path().join("r.toml"), random).unwrap();
    let run = |seed: &str| {
        outcome(
            millstream()
                .args(["run", "--departures", "-", "--seed", seed])
                .arg(folder.path().join("r.toml")),
        )
        .1
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
    assert!(run("7").lines().count() > 100);
}

#[test]
fn json_replaces_the_table_and_check_explains() {
    let folder = folder(&busy_rows(20));
    let file = folder.path().join("s.toml");
    let (status, json, _) = outcome(millstream().args(["run", "--json"]).arg(&file));
    assert_eq!(status, 0);
    let summary: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["scenario"], "s");
    assert_eq!(summary["link"]["busy_ns"].as_u64().unwrap() % 10_000_000, 0);
    let (status, text, _) = outcome(millstream().arg("check").arg(&file));
    assert_eq!(status, 0);
    assert!(text.contains("offered load") && text.contains("not known for `a`"), "{text}");
    let (_, json, _) = outcome(millstream().args(["check", "--json"]).arg(&file));
    let explanation: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(explanation["feasible"], Value::Null, "a deadline can be missed");
    assert_eq!(explanation["streams"][0]["verdict"], "not-known");
    assert_eq!(explanation["streams"][1]["verdict"], "guaranteed", "its window requires nothing");
    let fair = fs::read_to_string(&file).unwrap().replace("\"dwcs\"", "\"wfq\"");
    fs::write(&file, fair).unwrap();
    let (_, json, _) = outcome(millstream().args(["check", "--json"]).arg(&file));
    let explanation: Value = serde_json::from_str(&json).unwrap();
    let stream = &explanation["streams"][0];
    assert_eq!(stream["guaranteed_bps"], 500_000);
    assert!(stream["worst_delay_ns"].is_null() != stream["no_promise"].is_null(), "{stream}");
}

#[test]
fn hilq_runs_without_guarantees() {
    let folder = folder(&busy_rows(200));
    let file = folder.path().join("s.toml");
    let on_hilq = SCENARIO
        .replace("\"dwcs\"", "\"dwcs\"\nstructure = \"hilq\"")
        .replace("queue = 4", "queue = 4\nlate = \"drop\"");
    fs::write(&file, on_hilq).unwrap();
    let (status, json, errors) = outcome(millstream().args(["run", "--json"]).arg(&file));
    assert_eq!(status, 0, "{errors}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let streams = json["streams"].as_array().unwrap();
    let total = |key: &str| streams.iter().map(|s| s[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(total("sent") + total("dropped_late") + total("dropped_full"), 200, "{json}");
    assert!(total("dropped_late") > 0 && total("sent") > 0, "{json}");
    let (status, text, _) = outcome(millstream().arg("check").arg(&file));
    assert_eq!(status, 0);
    assert!(text.contains("structure hilq does not order deadlines"), "{text}");
}

#[test]
fn every_example_runs_and_is_explained() {
    for name in ["classes", "minbw", "compare"] {
        let file = example(name).join("scenario.toml");
        let (status, table, errors) = outcome(millstream().arg("run").arg(&file));
        assert_eq!((status, errors.contains("error")), (0, false), "{name}: {errors}");
        assert!(table.contains("packets sent"), "{table}");
        let (status, text, _) = outcome(millstream().arg("check").arg(&file));
        assert_eq!(status, 0);
        assert!(text.contains("guaranteed") && text.contains("worst delay"), "{text}");
    }
}

/// The example keeps a ping and calls short beside TCP in both directions, as other queues by flow
/// do. One queue does not, and in DualPI2 a ping that is not ECN-capable waits with CUBIC.
#[test]
fn the_bufferbloat_example_behaves_as_its_comments_say() {
    let run = |name: &str| {
        let mut command = millstream();
        command.arg("run").arg(example(&format!("bufferbloat/{name}.toml"))).arg("--json");
        let (status, summary, errors) = outcome(&mut command);
        assert_eq!(status, 0, "{errors}");
        serde_json::from_str::<Value>(&summary).unwrap()
    };
    let ping_ns = |summary: &Value, of: &str| {
        let sources = summary["network"]["sources"].as_array().unwrap();
        let ping = sources.iter().find(|source| source["stream"] == "ping").unwrap();
        ping["rtt_ns"][of].as_u64().unwrap()
    };
    let flows = run("scenario");
    assert!((31_000_000..32_000_000).contains(&ping_ns(&flows, "p50")), "{flows:#}");
    // Two links at 30 ms without load.
    assert!(ping_ns(&flows, "p99") < 35_000_000, "{flows:#}");
    for call in &flows["streams"].as_array().unwrap()[3..] {
        assert!(call["delay_ns"]["max"].as_u64().unwrap() < 2_000_000, "{call:#}");
    }
    for name in ["fq-codel", "cake-like", "dwcs"] {
        let summary = run(name);
        assert!(ping_ns(&summary, "p99") < 36_000_000, "{name}: {summary:#}");
        // A round of the four uploads takes 4.8 ms.
        let calls = summary["streams"].as_array().unwrap().iter().rev().take(2);
        for call in calls {
            assert!(call["delay_ns"]["p99"].as_u64().unwrap() < 4_800_000, "{name}: {call:#}");
        }
    }
    assert!(ping_ns(&run("fifo"), "p50") > 300_000_000);
    assert!((45_000_000..60_000_000).contains(&ping_ns(&run("dualpi2"), "p50")));
}

#[test]
fn calibrate_prints_costs_that_the_router_file_accepts() {
    let file = example("router/extension.toml");
    let (status, table, error) = outcome(millstream().args(["route", "calibrate"]).arg(&file));
    assert_eq!(status, 0, "{error}");
    for function in ["input lan", "path rtp", "extension of rtp", "path best-effort", "output wan"]
    {
        assert!(table.contains(function), "{table}");
    }
    let line = table.split_once("[[path]]  # rtp\n").unwrap().1.lines().next().unwrap();
    let folder = TempDir::new().unwrap();
    let text = fs::read_to_string(&file).unwrap().replace("cost = \"1 us\"", line);
    assert!(text.contains(line), "{text}");
    let text = text.replace("mark.wasm", &example("router/mark.wasm").display().to_string());
    let text = text.replace("../data/", &format!("{}/", example("data").display()));
    let copy = folder.path().join("router.toml");
    fs::write(&copy, text.replace("50 kpps", "1 kpps")).unwrap();
    let (status, _, error) = outcome(millstream().arg("check").arg(&copy));
    assert_eq!(status, 0, "{error}");
    let (status, json, _) = outcome(millstream().args(["route", "calibrate", "--json"]).arg(&copy));
    assert_eq!(status, 0);
    let costs: Value = serde_json::from_str(&json).unwrap();
    let of = |function: &str| {
        let functions = costs["functions"].as_array().unwrap();
        let found = functions.iter().find(|of| of["function"] == function).unwrap();
        found["ns"][0].as_u64()
    };
    assert!(of("path rtp") > Some(0) && of("output wan") > Some(0), "{costs}");
    assert!(of("input wan") > Some(0) && of("output lan").is_none(), "{costs}");
    let whole = costs["cost_ns"]["paths"]["rtp"].as_u64();
    assert!(whole >= of("path rtp") && whole >= of("extension of rtp"), "{costs}");
}

/// The delays of `run` stay within the bounds of `check` during a flood: below a management
/// channel, and by a table.
#[test]
fn measured_delays_stay_within_the_checked_bounds() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("s.toml");
    let minbw = r#"discipline = "minbw""#;
    let table = r#"discipline = "table"
table = ["voice", "flood", "voice", "management"]"#;
    for (scheduler, share_bps) in [(minbw, 5_400_000), (table, 1_333_333)] {
        let text = format!(
            r#"
[link]
rate = "8 Mbps"
[scheduler]
{scheduler}
[[stream]]
name = "management"
fmc = true
max-rate = "800 Kbps"
burst = "2000 B"
source = {{ kind = "backlog", packets = 100, bytes = 1000 }}
[[stream]]
name = "voice"
weight = 3
source = {{ kind = "cbr", bytes = 200, interval = "3 ms", stop = "1 s" }}
[[stream]]
name = "flood"
source = {{ kind = "backlog", packets = 900, bytes = 1000 }}
"#
        );
        fs::write(&file, text).unwrap();
        let (_, json, _) = outcome(millstream().args(["check", "--json"]).arg(&file));
        let explanation: Value = serde_json::from_str(&json).unwrap();
        let voice = &explanation["streams"][1];
        // Rounding costs at most 1 ns per packet.
        let guaranteed_bps = voice["guaranteed_bps"].as_u64().unwrap();
        assert!((share_bps - 50..=share_bps).contains(&guaranteed_bps), "{voice}");
        let promised_ns = voice["worst_delay_ns"].as_u64().unwrap();
        let (_, json, _) = outcome(millstream().args(["run", "--json"]).arg(&file));
        let summary: Value = serde_json::from_str(&json).unwrap();
        let start_ns = summary["streams"][1]["delay_ns"]["max"].as_u64().unwrap();
        let worst_ns = start_ns + 200_000;
        assert!(worst_ns <= promised_ns, "{worst_ns} of {promised_ns}");
        assert!(worst_ns > 500_000, "the flood has no effect: {worst_ns}");
    }
}

/// A receiver with two credits allows one packet in flight, so its buffer never overflows.
#[test]
fn credits_return_after_the_return_delay() {
    let folder = TempDir::new().unwrap();
    let text = r#"
[link]
rate = "512 Mbps"
credits = { buffer = "128 B", return-delay = "3 us" }
[scheduler]
discipline = "scfq"
[[stream]]
name = "a"
source = { kind = "backlog", packets = 3, bytes = 128 }
[[stream]]
name = "too long"
source = { kind = "backlog", packets = 1, bytes = 129 }
"#;
    let file = folder.path().join("s.toml");
    fs::write(&file, text).unwrap();
    let (status, rows, errors) =
        outcome(millstream().args(["run", "--departures", "-"]).arg(&file));
    assert_eq!(status, 0);
    // 2 us of transmission, then 3 us until the credits return.
    let times: Vec<_> =
        rows.lines().skip(1).map(|row| row.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(times, ["0", "5000", "10000"]);
    assert!(errors.contains("1 packet queued at the end"), "{errors}");
}

#[test]
fn mistakes_exit_with_status_2_and_name_file_line_and_value() {
    for (rows, parts) in [
        ("5,a,10\n4,a,10\n", vec!["arrivals.csv", "line 3", "from 5 to 4"]),
        ("5,aa,10\n", vec!["line 2", "unknown stream `aa`", "`a`"]),
        ("5,a,x\n", vec!["line 2", "`x`", "bytes"]),
    ] {
        let folder = folder(rows);
        let (status, _, errors) =
            outcome(millstream().arg("run").arg(folder.path().join("s.toml")));
        assert_eq!(status, 2, "{errors}");
        parts.iter().for_each(|part| assert!(errors.contains(part), "{errors} lacks {part}"));
    }
    let folder = folder("");
    let file = folder.path().join("s.toml");
    fs::write(&file, SCENARIO.replace("1/2", "3/2")).unwrap();
    let (status, _, errors) = outcome(millstream().arg("check").arg(&file));
    assert_eq!(status, 2);
    for part in ["s.toml:11", "3/2", "x must be at most y"] {
        assert!(errors.contains(part), "{errors} lacks {part}");
    }
    fs::write(&file, SCENARIO.replace("arrivals.csv", "nowhere.csv")).unwrap();
    let (status, _, errors) = outcome(millstream().arg("run").arg(&file));
    assert!(status == 2 && errors.contains("nowhere.csv"), "{errors}");
    let (status, _, errors) = outcome(millstream().args(["run", "/nonexistent.toml"]));
    assert!(status == 2 && errors.contains("/nonexistent.toml"), "{errors}");
    assert_eq!(outcome(millstream().args(["run"])).0, 2);
    fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    let (status, _, errors) = outcome(millstream().arg("run").arg(&file));
    assert!(status == 2 && errors.contains("not UTF-8"), "{errors}");
}

#[test]
fn an_output_never_overwrites_an_input() {
    let folder = folder("1,a,1\n");
    let trace = folder.path().join("arrivals.csv");
    let before = fs::read_to_string(&trace).unwrap();
    let (status, _, errors) = outcome(
        millstream().arg("run").arg(folder.path().join("s.toml")).arg("--departures").arg(&trace),
    );
    assert!(status == 2 && errors.contains("is an input of this run"), "{errors}");
    assert_eq!(fs::read_to_string(&trace).unwrap(), before);
}

#[test]
fn a_full_disk_exits_with_status_1() {
    let folder = folder(&busy_rows(20_000));
    let (status, _, errors) = outcome(
        millstream()
            .arg("run")
            .arg(folder.path().join("s.toml"))
            .args(["--departures", "/dev/full"]),
    );
    assert_eq!(status, 1, "{errors}");
    assert!(errors.contains("--departures") && errors.contains("No space left"), "{errors}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = folder(&busy_rows(50_000));
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("millstream"))
        .args(["run", "--departures", "-"])
        .arg(folder.path().join("s.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn an_interrupted_run_keeps_its_outputs_and_reports_the_time() {
    let folder = folder("");
    let endless = SCENARIO.replace("[link]", "[scenario]\nduration = \"2000 h\"\n[link]").replace(
        "{ kind = \"trace\", file = \"arrivals.csv\" }",
        "{ kind = \"cbr\", interval = \"1 ms\", bytes = 100 }",
    );
    fs::write(folder.path().join("e.toml"), endless).unwrap();
    let departures = folder.path().join("d.csv");
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("millstream"))
        .arg("run")
        .arg(folder.path().join("e.toml"))
        .arg("--departures")
        .arg(&departures)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The output has a temporary name until the run ends.
    let largest = || {
        let lengths = fs::read_dir(folder.path()).unwrap();
        lengths.map(|entry| entry.unwrap().metadata().map_or(0, |data| data.len())).max().unwrap()
    };
    while largest() < 200_000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The shell's builtin: minimal systems have no `kill` program.
    let interrupt = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("interrupted at") && errors.contains("still waiting"), "{errors}");
    let rows = fs::read_to_string(&departures).unwrap();
    assert!(rows.ends_with('\n'), "the last row is complete");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("packets sent"), "{table}");
}

#[test]
fn captured_packets_are_written_in_departure_order() {
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("out.pcap");
    let scenario = example("uplink/scenario.toml");
    let (status, _, errors) =
        outcome(millstream().arg("run").arg(&scenario).arg("--pcap").arg(&copy));
    assert_eq!(status, 0, "{errors}");
    let again = folder.path().join("again.toml");
    let text = r#"
[link]
rate = "100 Gbps"
[scheduler]
discipline = "fifo"
[[stream]]
name = "all"
source = { kind = "pcap", file = "out.pcap" }
"#;
    fs::write(&again, text).unwrap();
    let summary = |file: &Path| -> Value {
        serde_json::from_str(&outcome(millstream().args(["run", "--json"]).arg(file)).1).unwrap()
    };
    let sent: u64 = summary(&scenario)["streams"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|stream| !stream["name"].as_str().unwrap().starts_with("clip"))
        .map(|stream| stream["sent"].as_u64().unwrap())
        .sum();
    assert_eq!(summary(&again)["streams"][0]["sent"], sent);
    let folder = self::folder("");
    let (status, _, errors) = outcome(
        millstream().arg("run").arg(folder.path().join("s.toml")).args(["--pcap", "/tmp/x.pcap"]),
    );
    assert!(status == 2 && errors.contains("no capture"), "{errors}");
}

#[test]
fn extreme_packet_lengths_and_names_are_accepted() {
    let folder = TempDir::new().unwrap();
    let name = "Größe, \"語\" 🎙";
    let scenario = format!(
        "[link]\nrate = \"1 Gbps\"\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\nname = \
         '{name}'\n\
         source = {{ kind = \"trace\", file = \"t.csv\" }}\n"
    );
    fs::write(folder.path().join("s.toml"), scenario).unwrap();
    let field = format!("\"{}\"", name.replace('"', "\"\""));
    let rows = format!("time_ns,stream,bytes\n0,{field},0\n0,{field},65535\n7,{field},0\n");
    fs::write(folder.path().join("t.csv"), rows).unwrap();
    let (status, rows, _) =
        outcome(millstream().args(["run", "--departures", "-"]).arg(folder.path().join("s.toml")));
    assert_eq!(status, 0);
    let expected = format!(
        "time_ns,stream,packet,bytes,arrival_ns,deadline_ns,event\n0,{field},0,0,0,,sent\n\
         0,{field},1,65535,0,,sent\n524280,{field},2,0,7,,sent\n"
    );
    assert_eq!(rows, expected);
}

/// Flent's data file has the goodput of each connection and the round trips of the ping.
#[test]
fn a_network_writes_the_data_file_of_flent() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.flent");
    let run = || {
        let mut command = millstream();
        command.arg("run").arg(example("bufferbloat/scenario.toml")).args([
            "--set",
            "scenario.duration=10 s",
            "--json",
            "--flent",
        ]);
        let (status, summary, errors) = outcome(command.arg(&path));
        assert_eq!(status, 0, "{errors}");
        (fs::read(&path).unwrap(), serde_json::from_str::<Value>(&summary).unwrap())
    };
    let (bytes, summary) = run();
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    let sum = |name: &str| {
        let values = file["results"][name].as_array().unwrap();
        values.iter().filter_map(Value::as_f64).sum::<f64>()
    };
    for (direction, at) in [("download", 0), ("upload", 1)] {
        let delivered = summary["network"]["sources"][at]["delivered_bytes"].as_f64().unwrap();
        // Steps of 0.2 s, in Mbit/s.
        let mbit = sum(&format!("TCP {direction} sum")) * 0.2;
        assert!((mbit - delivered * 8e-6).abs() < 1e-6, "{direction}: {mbit}");
        let parts: f64 = (1..=4).map(|k| sum(&format!("TCP {direction} BE::{k}"))).sum();
        assert!((parts * 0.2 - mbit).abs() < 1e-6);
    }
    let pings = file["raw_values"]["Ping (ms) ICMP"].as_array().unwrap();
    let count = summary["network"]["sources"][2]["rtt_ns"]["count"].as_u64().unwrap();
    assert_eq!(pings.len() as u64, count);
    assert_eq!(run().0, bytes, "equal runs give equal bytes");
}

#[test]
fn flents_data_file_is_refused_where_it_would_be_empty_or_unreadable() {
    let folder = folder("1,a,100\n");
    let scenario = folder.path().join("s.toml");
    let bloat = example("bufferbloat/scenario.toml");
    for (file, flent, message) in [
        (&scenario, "run.flent", "--flent is for a network"),
        (&bloat, "run.flent.gz", "the file is written without"),
    ] {
        let path = folder.path().join(flent);
        let (status, _, errors) =
            outcome(millstream().arg("run").arg(file).arg("--flent").arg(&path));
        assert!(status != 0 && errors.contains(message), "{errors}");
        assert!(!path.exists());
    }
}
