//! End-to-end tests of `millstream sweep`.
use assert_cmd::Command;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LINK: &str = r#"
[scenario]
duration = "300 ms"

[link]
rate = "10 Mbps"

[scheduler]
discipline = "fifo"

[[stream]]
name = "calls"
period = "5 ms"
queue = 40
source = { kind = "poisson", bytes = 200, rate = "2 Mbps" }

[[stream]]
name = "bulk"
period = "5 ms"
queue = 40
source = { kind = "pareto", bytes = 1000, rate = "7 Mbps" }
"#;

const FABRIC: &str = r#"
[scenario]
duration = "0.5 ms"

[link]
rate = "1 Gbps"

[fabric]
topology = { kind = "folded-shuffle", arity = 2, levels = 2 }

[scheduler]
discipline = "wfq"

[[stream]]
name = "calls"
weight = 3
source = { kind = "cbr", bytes = 200, interval = "100 us", load = 0.2 }

[[stream]]
name = "bulk"
source = { kind = "poisson", bytes = 1000, rate = "600 Mbps" }
"#;

const GRID: [&str; 6] = [
    "--set",
    "scheduler.discipline=fifo,drr,wf2q+",
    "--set",
    "stream.calls.weight=1,4",
    "--seeds",
    "4",
];

fn folder(text: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("s.toml"), text).unwrap();
    folder
}

fn sweep(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("millstream").unwrap();
    command.current_dir(folder).args(["sweep", "s.toml"]).args(arguments);
    command
}

/// Runs a sweep; returns exit status, standard output and standard error.
fn outcome(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = sweep(folder, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn done(folder: &Path, arguments: &[&str]) -> (String, String) {
    let (status, out, err) = outcome(folder, arguments);
    assert_eq!(status, 0, "{err}");
    (out, err)
}

/// Returns the rows of a CSV file, by column.
fn rows(text: &str) -> Vec<HashMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn the_number_of_workers_does_not_change_the_output() {
    for (text, until) in [(LINK, "delay_mean=40%"), (FABRIC, "bulk.delay_mean=3%")] {
        let folder = folder(text);
        let path = folder.path();
        for more in [&[][..], &["--until", until]] {
            let mut printed = Vec::new();
            let mut files = Vec::new();
            for workers in ["1", "2", "5"] {
                let fixed = ["--workers", workers, "--out", workers];
                printed.push(done(path, &[&GRID, &fixed[..], more].concat()).0);
                let read = |name: &str| fs::read(path.join(workers).join(name)).unwrap();
                files.push((read("sweep.csv"), read("sweep.parquet")));
                fs::remove_dir_all(path.join(workers)).unwrap();
            }
            assert_eq!(printed[0], printed[1]);
            assert_eq!(printed[0], printed[2]);
            assert!(files[0] == files[1] && files[0] == files[2]);
        }
    }
}

#[test]
fn a_row_matches_a_single_run() {
    let folder = folder(LINK);
    done(folder.path(), &[&GRID, &["--out", "d.csv"][..]].concat());
    let rows = rows(&fs::read_to_string(folder.path().join("d.csv")).unwrap());
    assert_eq!(rows.len(), 3 * 2 * 4 * 2);
    let order: Vec<(usize, u64)> = rows
        .iter()
        .map(|row| (row["point"].parse().unwrap(), row["seed"].parse().unwrap()))
        .collect();
    assert!(order.is_sorted());
    // Point 3 is drr with weight 4: the last setting changes fastest.
    let row = rows.iter().find(|row| row["point"] == "3" && row["seed"] == "2").unwrap();
    assert_eq!((&*row["scheduler.discipline"], &*row["stream.calls.weight"]), ("drr", "4"));
    let alone = LINK.replace("\"fifo\"", "\"drr\"").replace("\"calls\"", "\"calls\"\nweight = 4");
    fs::write(folder.path().join("alone.toml"), alone).unwrap();
    let mut run = Command::cargo_bin("millstream").unwrap();
    run.current_dir(folder.path()).args(["run", "alone.toml", "--seed", "2", "--json"]);
    let summary: Value = serde_json::from_slice(&run.output().unwrap().stdout).unwrap();
    let stream = &summary["streams"][0];
    for (column, value) in [
        ("name", &stream["name"]),
        ("sent", &stream["sent"]),
        ("dropped_full", &stream["dropped_full"]),
        ("delay_p99_ns", &stream["delay_ns"]["p99"]),
        ("delay_p999_ns", &stream["delay_ns"]["p999"]),
        ("jitter_max_ns", &stream["jitter_ns"]["max"]),
        ("utilisation", &summary["link"]["utilisation"]),
    ] {
        assert_eq!(row[column], value.to_string().trim_matches('"'), "{column}");
    }
}

#[test]
fn means_and_intervals_follow_from_the_dataset() {
    let folder = folder(LINK);
    let (out, _) = done(folder.path(), &["--seeds", "5..9", "--json", "--out", "d.csv"]);
    let lines: Value = serde_json::from_str(&out).unwrap();
    let delay = &lines[1]["metrics"]["delay_mean_ns"];
    let rows = rows(&fs::read_to_string(folder.path().join("d.csv")).unwrap());
    let values: Vec<f64> = rows
        .iter()
        .filter(|row| row["name"] == "bulk")
        .map(|row| row["delay_mean_ns"].parse().unwrap())
        .collect();
    assert_eq!(values.len(), 5);
    let mean = values.iter().sum::<f64>() / 5.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4.0;
    assert!((delay["mean"].as_f64().unwrap() - mean).abs() < 1e-6 * mean);
    assert_eq!(lines[1]["confidence"], 0.95);
    // Student's t for 95 % and five runs, from a printed table.
    let half = 2.776 * (variance / 5.0).sqrt();
    assert!((delay["half_width"].as_f64().unwrap() - half).abs() < 1e-3 * half);
    let table = done(folder.path(), &["--seeds", "5..9", "--out", "d.csv"]).0;
    let line = table.lines().find(|line| line.starts_with("bulk")).unwrap();
    assert!(line.contains(" ± "), "{table}");
    assert!(table.contains("p99.9 delay ±\u{a0}95\u{a0}%"), "{table}");
    let single = done(folder.path(), &[]).0;
    assert!(single.contains("p99.9 delay") && !single.contains('±'), "{single}");
}

/// Student's t for 95 % with 2, 3, … degrees of freedom, from a printed table.
const STUDENT: [f64; 10] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201];

#[test]
fn until_stops_at_the_first_sufficient_number_of_seeds() {
    let folder = folder(LINK);
    let grid = ["--set", "link.rate=10 Mbps,20 Mbps", "--seeds", "12"];
    done(folder.path(), &[&grid[..], &["--out", "all.csv"]].concat());
    let until = ["--until", "calls.delay_mean=20%", "--until", "rate=90%", "--out", "few.csv"];
    let (_, err) = done(folder.path(), &[&grid[..], &until].concat());
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let (all, few) = (rows(&read("all.csv")), rows(&read("few.csv")));
    let mut needed = Vec::new();
    for point in ["0", "1"] {
        let of = |row: &&HashMap<String, String>| row["point"] == point && row["name"] == "calls";
        let delays: Vec<f64> =
            all.iter().filter(of).map(|row| row["delay_mean_ns"].parse().unwrap()).collect();
        assert_eq!(delays.len(), 12);
        #[allow(clippy::cast_precision_loss)]
        let tight = |runs: &usize| {
            let first = &delays[..*runs];
            let count = *runs as f64;
            let mean = first.iter().sum::<f64>() / count;
            let squares = first.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>();
            STUDENT[runs - 3] * (squares / (count - 1.0) / count).sqrt() <= 0.2 * mean
        };
        let enough = (3..=12).find(tight).unwrap_or(12);
        let seeds: Vec<u64> =
            few.iter().filter(of).map(|row| row["seed"].parse().unwrap()).collect();
        assert!(seeds.iter().copied().eq(1..=enough as u64), "{enough}: {seeds:?}");
        needed.push(enough);
    }
    assert!(needed[1] > 3 && needed[1] < 12, "the rule takes effect: {needed:?}");
    let skipped = 24 - needed.iter().sum::<usize>();
    assert!(err.contains(&format!("{skipped} of 24 not needed")), "{err}");
}

#[test]
fn wrong_arguments_are_errors_before_the_first_run() {
    let folder = folder(LINK);
    let cases: [(&[&str], &[&str]); 12] = [
        (&["--set", "link.rate"], &["`link.rate`: there is no `=`", "PLACE=VALUE"]),
        (&["--set", "links.rate=1"], &["--set links.rate=1", "a place is scenario.KEY, link.KEY"]),
        (
            &["--set", "stream.video.weight=1"],
            &["--set stream.video.weight=1", "the file has `calls`, `bulk`"],
        ),
        (
            &["--set", "stream.calls.wieght=1"],
            &["--set stream.calls.wieght=1", "unknown field `wieght`", "did you mean `weight`?"],
        ),
        (
            &["--set", "link.rate=10 Mbps,10 miles", "--set", "stream.*.queue=1,2"],
            &["`--set link.rate=10 miles`:", "Mbit/s"],
        ),
        (
            &["--set", "scheduler.discipline=fifo,dwsc"],
            &["`--set scheduler.discipline=dwsc`", "unknown discipline `dwsc`", "did you mean"],
        ),
        (&["--set", "link.rate=1 Mbps", "--set", "link.rate=2 Mbps"], &["is set twice"]),
        (&["--set", "scenario.seed=1,2"], &["use --seeds for the seeds"]),
        (&["--seeds", "9..1"], &["`9..1`: an empty range of seeds", "means 5, 6, 7 and 8"]),
        (
            &["--until", "delay_maen=2%"],
            &["there is no metric `delay_maen`", "did you mean `delay_me"],
        ),
        (&["--until", "video.delay_mean=2%"], &["no stream called `video`", "`calls`, `bulk`"]),
        (&["--until", "delay_mean=2"], &["`2` is not a percentage above 0"]),
    ];
    for (arguments, expected) in cases {
        let (status, out, err) = outcome(folder.path(), &[arguments, &["--out", "d"]].concat());
        let err = err.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?} {err}");
        for part in expected {
            assert!(err.contains(part), "{arguments:?}: {part}\n{err}");
        }
        assert!(!folder.path().join("d").exists());
    }
}

#[test]
fn settings_that_are_wrong_only_together_are_named_together() {
    let text = LINK.replace("period = \"5 ms\"\n", "");
    let folder = folder(&text);
    let both = ["--set", "scheduler.discipline=edf", "--set", "stream.calls.period=1 ms,2 ms"];
    let (status, _, err) = outcome(folder.path(), &both);
    assert_eq!(status, 2);
    assert!(err.contains("--set scheduler.discipline=edf"), "{err}");
    done(folder.path(), &["--set", "scheduler.discipline=edf", "--set", "stream.*.period=1 ms"]);
}

#[test]
fn a_failed_run_is_reported_with_its_settings_and_does_not_stop_the_sweep() {
    let text = LINK.replace(
        r#"{ kind = "poisson", bytes = 200, rate = "2 Mbps" }"#,
        r#"{ kind = "trace", file = "there.csv" }"#,
    );
    let folder = folder(&text);
    let trace = "time_ns,stream,bytes\n0,calls,100\n";
    fs::write(folder.path().join("there.csv"), trace).unwrap();
    let arguments =
        ["--set", "stream.calls.source.file=lost.csv,there.csv", "--seeds", "2", "--out", "d.csv"];
    let (status, out, err) = outcome(folder.path(), &arguments);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("2 of 4 runs failed"), "{err}");
    assert!(err.contains("stream.calls.source.file=lost.csv seed 1: "), "{err}");
    assert!(out.contains("there.csv") && !out.contains("lost.csv"), "{out}");
    let dataset = || rows(&fs::read_to_string(folder.path().join("d.csv")).unwrap());
    assert!(dataset().iter().all(|row| row["point"] == "1"));
    assert_eq!(dataset().len(), 4);
    // Failed runs and runs with a changed input run again; finished runs do not.
    fs::write(folder.path().join("lost.csv"), trace).unwrap();
    let (_, err) = done(folder.path(), &arguments);
    assert!(err.contains("4 runs, 2 of them from the journal"), "{err}");
    assert_eq!(dataset().len(), 8);
    fs::write(folder.path().join("lost.csv"), format!("{trace}5,calls,100\n")).unwrap();
    let (_, err) = done(folder.path(), &arguments);
    assert!(err.contains("4 runs, 2 of them from the journal"), "{err}");
    assert_eq!(dataset()[0]["arrived"], "2");
}

/// Starts a long sweep; returns its process.
fn started(folder: &Path, arguments: &[&str]) -> Child {
    let program = assert_cmd::cargo::cargo_bin("millstream");
    let mut command = std::process::Command::new(program);
    command.current_dir(folder).args(["sweep", "s.toml"]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn journal_lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// Waits until the header and `runs` runs are in the journal.
fn wait_for(child: &mut Child, journal: &Path, runs: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while journal_lines(journal) <= runs {
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended before it was interrupted");
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
}

const LONG: [&str; 8] = [
    "--set",
    "scenario.duration=20 s",
    "--set",
    "scheduler.discipline=fifo,drr,wf2q+",
    "--seeds",
    "8",
    "--workers",
    "2",
];

#[test]
fn a_killed_sweep_resumes_and_gives_equal_bytes() {
    let folder = folder(LINK);
    let path = folder.path();
    done(path, &[&LONG, &["--out", "whole"][..]].concat());
    let killed = [&LONG, &["--out", "killed"][..]].concat();
    let journal = path.join("killed/sweep.journal");
    let mut runs = 2;
    for _ in 0..2 {
        let mut child = started(path, &killed);
        wait_for(&mut child, &journal, runs);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!path.join("killed/sweep.csv").exists());
        runs = journal_lines(&journal) + 2;
    }
    // A partial line, as after a crash during a write.
    let mut torn = fs::read(&journal).unwrap();
    torn.extend(br#"{"point":0,"se"#);
    fs::write(&journal, torn).unwrap();
    let before = journal_lines(&journal) - 1;
    let (_, err) = done(path, &killed);
    assert!(err.contains(&format!("24 runs, {before} of them from the journal")), "{err}");
    for file in ["sweep.csv", "sweep.parquet"] {
        let read = |folder: &str| fs::read(path.join(folder).join(file)).unwrap();
        assert!(read("killed") == read("whole"), "{file}");
    }
    assert_eq!(journal_lines(&journal), 25);
    let (_, err) = done(path, &killed);
    assert!(err.contains("24 runs, 24 of them from the journal"), "{err}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_finished_runs() {
    let folder = folder(LINK);
    let arguments = [&LONG, &["--out", "d.csv"][..]].concat();
    let journal = folder.path().join("d.csv.journal");
    let mut child = started(folder.path(), &arguments);
    wait_for(&mut child, &journal, 2);
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    let kept = journal_lines(&journal) - 1;
    assert!(err.contains(&format!("interrupted: {kept} runs kept in d.csv.journal")), "{err}");
    assert!(!folder.path().join("d.csv").exists());
    let (_, err) = done(folder.path(), &arguments);
    assert!(err.contains(&format!("24 runs, {kept} of them from the journal")), "{err}");
}

#[test]
fn more_seeds_add_to_a_sweep_and_another_grid_is_refused() {
    let folder = folder(LINK);
    let path = folder.path();
    done(path, &["--seeds", "2", "--out", "d.csv"]);
    let (_, err) = done(path, &["--seeds", "3,2,1", "--out", "d.csv"]);
    assert!(err.contains("3 runs, 2 of them from the journal"), "{err}");
    let seeds = rows(&fs::read_to_string(path.join("d.csv")).unwrap());
    let seeds: Vec<&str> = seeds.iter().map(|row| &*row["seed"]).collect();
    assert_eq!(seeds, ["3", "3", "2", "2", "1", "1"]);
    let before = fs::read(path.join("d.csv")).unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let (status, _, err) = outcome(path, &[arguments, &["--out", "d.csv"]].concat());
        let err = err.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert_eq!(status, 2, "{err}");
        assert!(err.contains("d.csv.journal holds the runs of another sweep"), "{err}");
        assert!(err.contains(why), "{err}");
        assert_eq!(fs::read(path.join("d.csv")).unwrap(), before);
    };
    refused(&["--set", "link.rate=9 Mbps"], "no --set, not --set link.rate=9 Mbps");
    fs::write(path.join("s.toml"), LINK.replace("300 ms", "200 ms")).unwrap();
    refused(&[], "another scenario");
    fs::write(path.join("s.toml"), format!("# The same.\n{LINK}")).unwrap();
    done(path, &["--seeds", "1", "--out", "d.csv"]);
    // A file that is not a journal is not changed.
    fs::write(path.join("e.csv.journal"), "mine").unwrap();
    let (status, _, err) = outcome(path, &["--out", "e.csv"]);
    assert_eq!(status, 2);
    assert!(err.contains("e.csv.journal is not a sweep journal"), "{err}");
    assert_eq!(fs::read_to_string(path.join("e.csv.journal")).unwrap(), "mine");
}

#[test]
fn an_input_is_not_overwritten() {
    let text = LINK.replace(
        r#"{ kind = "poisson", bytes = 200, rate = "2 Mbps" }"#,
        r#"{ kind = "trace", file = "t.csv" }"#,
    );
    let folder = folder(&text);
    let trace = "time_ns,stream,bytes\n0,calls,100\n";
    fs::write(folder.path().join("t.csv"), trace).unwrap();
    let (status, _, err) = outcome(folder.path(), &["--out", "t.csv"]);
    assert_eq!(status, 2);
    assert!(err.contains("is an input of this run"), "{err}");
    assert_eq!(fs::read_to_string(folder.path().join("t.csv")).unwrap(), trace);
}

#[test]
fn the_page_has_settings_rows_and_charts() {
    let folder = folder(LINK);
    let page = |arguments: &[&str]| {
        let report = [&["--report", "page.html"], arguments].concat();
        let (_, err) = done(folder.path(), &report);
        assert!(err.contains("report: page.html"), "{err}");
        fs::read_to_string(folder.path().join("page.html")).unwrap()
    };
    let rates = "link.rate=8 Mbit/s,9 Mbit/s,10 Mbit/s";
    let html = page(&["--set", rates, "--seeds", "3", "--workers", "2"]);
    assert!(html == page(&["--set", rates, "--seeds", "3", "--workers", "1"]));
    for text in [
        "Mean delay",
        "p99 delay (ms) ± 95 %",
        "p99.9 delay (ms) ± 95 %",
        "link.rate (Mbit/s)",
        "3 (1 to 3)",
        "± half",
    ] {
        assert!(html.contains(text), "no {text}");
    }
    assert_eq!(html.matches("<td class=\"name\">calls</td>").count(), 3);
    assert!(!html.contains("<script") && !html.contains(" src=\""));
    let html = page(&["--set", "scheduler.discipline=fifo,drr", "--until", "sent=1%"]);
    assert!(html.contains("<h2>Sent</h2>") && html.contains("<circle"));
}

#[test]
fn the_page_is_not_another_output_or_an_input() {
    let folder = folder(LINK);
    let refused = |arguments: &[&str]| {
        let (status, _, err) = outcome(folder.path(), arguments);
        assert_eq!(status, 2, "{err}");
        err
    };
    assert!(refused(&["--report", "s.toml"]).contains("is an input"));
    assert!(refused(&["--out", "d.csv", "--report", "d.csv"]).contains("the same file"));
    assert!(refused(&["--json", "--report", "-"]).contains("both write to standard output"));
    let (page, _) = done(folder.path(), &["--report", "-"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
}
