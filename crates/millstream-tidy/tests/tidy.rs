//! The form of the tree: arrows between crates, file headers, line lengths, names, the README's
//! map.
//!
//! A rule that no check enforces drifts; each rule that the contributing guide states about form
//! is checked here.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the tree with one of the given extensions, what is generated left out.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    fn walk(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | "out" | ".git" | "artifacts" | "corpus") {
                    walk(&path, extensions, found);
                }
            } else if extensions.iter().any(|extension| name.ends_with(extension)) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), extensions, &mut found);
    assert!(!found.is_empty());
    found
}

/// Which of our crates each crate may depend on outside its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("millstream", &[]),
    ("millstream-traffic", &["millstream"]),
    ("millstream-scenario", &["millstream", "millstream-traffic"]),
    ("millstream-report", &["millstream"]),
    ("millstream-pipeline", &["millstream"]),
    ("millstream-sim", &["millstream", "millstream-traffic", "millstream-scenario"]),
    ("millstream-extension", &[]),
    ("millstream-player", &[]),
    ("millstream-tidy", &[]),
    (
        "millstream-router",
        &[
            "millstream",
            "millstream-extension",
            "millstream-traffic",
            "millstream-scenario",
            "millstream-report",
        ],
    ),
    (
        "millstream-media",
        &[
            "millstream",
            "millstream-extension",
            "millstream-traffic",
            "millstream-scenario",
            "millstream-report",
        ],
    ),
    ("millstream-bench", &["millstream"]),
    ("millstream-hw", &["millstream", "millstream-traffic", "millstream-scenario"]),
    (
        "millstream-sweep",
        &[
            "millstream",
            "millstream-traffic",
            "millstream-scenario",
            "millstream-report",
            "millstream-sim",
        ],
    ),
    (
        "millstream-fuzz",
        &[
            "millstream",
            "millstream-media",
            "millstream-router",
            "millstream-scenario",
            "millstream-sweep",
            "millstream-traffic",
        ],
    ),
    (
        "millstream-cli",
        &[
            "millstream",
            "millstream-bench",
            "millstream-hw",
            "millstream-media",
            "millstream-traffic",
            "millstream-scenario",
            "millstream-report",
            "millstream-router",
            "millstream-sim",
            "millstream-sweep",
        ],
    ),
    (
        "millstream-python",
        &[
            "millstream",
            "millstream-traffic",
            "millstream-scenario",
            "millstream-report",
            "millstream-sim",
            "millstream-sweep",
        ],
    ),
];

#[test]
fn dependencies_point_one_way() {
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest: toml::Table =
            fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap();
        let (_, allowed) = ARROWS
            .iter()
            .find(|(krate, _)| *krate == name)
            .unwrap_or_else(|| panic!("{name} has no row in ARROWS"));
        let none = toml::Table::new();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in
            dependencies.unwrap_or(&none).keys().filter(|key| key.starts_with("millstream"))
        {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn every_rust_file_begins_with_what_it_is() {
    for file in files(&[".rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} has no header comment", file.display());
    }
}

/// The longest line, columns.
const MAX_COLUMNS: usize = 100;
/// Pages that commands generate.
const GENERATED: &[&str] =
    &["docs/src/api.md", "docs/src/commands.md", "docs/src/keys.md", "docs/src/papers/", "papers/"];

#[test]
fn no_line_is_longer_than_100_columns() {
    let mut long = Vec::new();
    for file in files(&[".rs", ".py", ".sh", ".c", ".h", ".sv", ".md", ".toml"]) {
        let name = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_page = name.ends_with(".md");
        if is_page && GENERATED.iter().any(|of| name.starts_with(of)) {
            continue;
        }
        for (at, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            // A row of a Markdown table, an inline table of TOML and a URL cannot be wrapped.
            let is_row = if is_page {
                line.starts_with('|')
            } else {
                name.ends_with(".toml") && line.trim_start().starts_with('{')
            };
            let wraps = !(is_row || line.contains("://"));
            if wraps && line.chars().count() > MAX_COLUMNS {
                long.push(format!("{name}:{}", at + 1));
            }
        }
    }
    assert!(long.is_empty(), "{} lines exceed 100 columns:\n{}", long.len(), long.join("\n"));
}

/// Names that were replaced by the field's terms, the terms, and where: a path's beginning.
const RETIRED: &[(&str, &str, &str)] = &[
    ("Around", "ConnectionContext", ""),
    ("Aside", "Backup", ""),
    ("Because", "a template view named by its page", ""),
    ("Bell", "Waker", ""),
    ("Board", "SharedOccupancy or InstructionTable", ""),
    ("Broken", "BackendError", "crates/millstream-cli/"),
    ("Chosen", "Backend", "crates/millstream-cli/"),
    ("Course", "ShutdownMode", ""),
    ("Crossing", "InterCoreLinks", "crates/millstream-router/"),
    ("Curves", "TimeSeries", "crates/millstream-sim/"),
    ("Cutter", "Packetizer", "crates/millstream-media/"),
    ("Cutter", "Segmenter", "crates/millstream-router/"),
    ("Desk", "ExtensionApi, RtspHandler or SchedulerStage", ""),
    ("Door", "Listener", ""),
    ("Doors", "ListenerSet", ""),
    ("Elsewhere", "RemoteOwnership", ""),
    ("Errand", "CrossCoreDestination", ""),
    ("Estate", "SharedResources", ""),
    ("Film", "MediaFile", ""),
    ("Gone", "Disconnected", ""),
    ("Ground", "ClusterContext", ""),
    ("Held", "HeldFrames or PendingNeighbours", ""),
    ("Hop", "NextHop", "crates/millstream-router/"),
    ("Joined", "Coalescer", "crates/millstream-router/"),
    ("Joint", "TcpPair", ""),
    ("Ledger", "CreditAccounts", ""),
    ("Level", "Occupancy", "crates/millstream-sim/"),
    ("Line", "PacedLink", "crates/millstream-router/"),
    ("Met", "NatLookup", ""),
    ("Naps", "SleepCalibrator", ""),
    ("Note", "SynOptions", "crates/millstream-router/"),
    ("Outlet", "PacketSender", ""),
    ("Parcel", "batch", ""),
    ("Party", "Endpoint", ""),
    ("Passage", "GateState", "crates/millstream/"),
    ("Passing", "Handover", ""),
    ("Quiet", "IdleDetector", ""),
    ("Refusals", "RejectCounters", ""),
    ("Returns", "CreditReturns", ""),
    ("Rooms", "ClassBacklog", ""),
    ("Said", "SegmentMeta or StreamPromise", ""),
    ("Seat", "WorkerState", ""),
    ("Setting", "GlobalField", "crates/millstream-media/"),
    ("Shelf", "FrameCache", ""),
    ("Side", "PortState", "crates/millstream-router/"),
    ("Sleeper", "Parker", ""),
    ("Splice", "SplicedFlow", ""),
    ("Standing", "CoreSnapshot", ""),
    ("Tally", "RejectCounters", ""),
    ("Teller", "EventSink", ""),
    ("Told", "Observer", ""),
    ("Trouble", "RtlError", ""),
    ("Trunk", "VlanDemux", ""),
    ("Until", "StopRule", ""),
    ("Visitor", "round-robin turn", ""),
    ("Waitroom", "PacketStore", ""),
    ("Wake", "Parker", ""),
    ("Way", "NextHopKind, ReadMode or Route", "crates/"),
    ("Ways", "Fib", ""),
    ("Whose", "LocalDestination", ""),
    ("Word", "SessionField", ""),
    ("Work", "FunctionCost or Task", "crates/millstream-router/"),
];

#[test]
fn no_retired_name_comes_back() {
    let mut found = Vec::new();
    for file in files(&[".rs"]) {
        for (at, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let mut words = line.split(|of: char| !of.is_alphanumeric() && of != '_');
            while let Some(word) = words.next() {
                if !matches!(word, "struct" | "enum" | "trait" | "union") {
                    continue;
                }
                let name = words.next().unwrap_or_default();
                let path = file.strip_prefix(root()).unwrap();
                let is_retired =
                    |row: &&(&str, &str, &str)| row.0 == name && path.starts_with(row.2);
                if let Some((_, term, _)) = RETIRED.iter().find(is_retired) {
                    found.push(format!("{}:{}: {name} is called {term}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "retired names:\n{}", found.join("\n"));
}

#[test]
fn nothing_is_left_behind_in_comments() {
    let forbidden = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()];
    for file in files(&[".rs", ".sh", ".py", ".md", ".toml"]) {
        let text = fs::read_to_string(&file).unwrap();
        for word in &forbidden {
            assert!(!text.contains(word), "{} contains {word}", file.display());
        }
    }
}

#[test]
fn the_readme_maps_every_directory() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut directories: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        directories.insert(format!("crates/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    for folder in ["papers", "examples", "docs", "conformance", "fuzz", "rtl", "scripts"] {
        assert!(root().join(folder).is_dir(), "{folder} is missing");
        directories.insert(folder.to_owned());
    }
    for directory in directories {
        assert!(
            readme.contains(&format!("`{directory}/`")),
            "README.md has no line for {directory}/"
        );
    }
}

#[test]
fn the_book_lists_every_page() {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    for file in files(&[".md"]) {
        if let Ok(page) = file.strip_prefix(root().join("docs/src"))
            && page != Path::new("SUMMARY.md")
        {
            assert!(summary.contains(&format!("({})", page.display())), "{}", page.display());
        }
    }
}
