//! Tests of the form of the tree: dependencies between crates, file headers, line lengths, names,
//! files of a type's `impl`s, the README's map.
//!
//! A rule that no check enforces drifts; each rule that the contributing guide states about form
//! is checked here.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every file of the tree with one of the given extensions, except in generated folders.
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

/// The crates of the workspace that each crate may depend on outside its tests.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("millstream", &[]),
    ("millstream-traffic", &["millstream"]),
    ("millstream-scenario", &["millstream", "millstream-traffic"]),
    ("millstream-report", &["millstream"]),
    ("millstream-c", &["millstream"]),
    ("millstream-bpf", &["millstream", "millstream-scenario"]),
    ("millstream-pipeline", &["millstream", "millstream-sync"]),
    ("millstream-sim", &["millstream", "millstream-traffic", "millstream-scenario"]),
    ("millstream-extension", &[]),
    ("millstream-sync", &[]),
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
            "millstream-sync",
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
            "millstream-sync",
        ],
    ),
    ("millstream-bench", &["millstream"]),
    (
        "millstream-hw",
        &["millstream", "millstream-sync", "millstream-traffic", "millstream-scenario"],
    ),
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
            "millstream-c",
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
            "millstream-bpf",
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
        let (_, allowed) = ALLOWED_DEPENDENCIES
            .iter()
            .find(|(krate, _)| *krate == name)
            .unwrap_or_else(|| panic!("{name} has no row in ALLOWED_DEPENDENCIES"));
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

/// A layer inside the media server: its module, the modules of the crate that it may use, and
/// system interfaces that it must not use.
type Layer = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Interfaces to clocks, sockets and event loops.
const CLOCKS_AND_SOCKETS: &[&str] = &[
    "std::net",
    "std::os",
    "std::time",
    "std::thread",
    "mio::",
    "rustix::net",
    "clock_gettime",
    "millstream_sync::clock",
];

/// The same, and files.
const SYSTEM: &[&str] = &[
    "std::net",
    "std::os",
    "std::time",
    "std::thread",
    "std::fs",
    "mio::",
    "rustix::",
    "millstream_sync::clock",
];

/// The lowest layers of the media server.
const MEDIA_LAYERS: &[Layer] = &[
    ("rtp", &["rtp"], SYSTEM),
    ("shared_memory", &["rtp", "shared_memory"], CLOCKS_AND_SOCKETS),
    ("scheduler", &["rtp", "scheduler", "shared_memory"], SYSTEM),
    ("payload", &["rtp", "payload"], SYSTEM),
];

/// Returns the uses in `text` that the layer does not allow. `depth` is the number of modules from
/// the crate's root to the file's. Comments and a final test module are not examined.
fn disallowed(text: &str, depth: usize, (_, allowed, system): Layer) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
        let line = line.split("//").next().unwrap_or_default();
        for (at, _) in line.match_indices("crate::") {
            let path = &line[at + "crate::".len()..];
            let module = path.split(|of: char| !of.is_alphanumeric() && of != '_').next();
            if !allowed.contains(&module.unwrap_or_default()) {
                found.push(format!("crate::{path}"));
            }
        }
        found.extend(system.iter().filter(|of| line.contains(**of)).map(|of| (*of).to_owned()));
        if line.contains(&"super::".repeat(depth)) {
            found.push("a path to the crate's root".to_owned());
        }
    }
    found
}

#[test]
fn layers_of_the_media_server_point_one_way() {
    let source = root().join("crates/millstream-media/src");
    let mut wrong = Vec::new();
    let mut examined = 0;
    for file in files(&[".rs"]) {
        let Ok(path) = file.strip_prefix(&source) else { continue };
        let module = path.with_extension("");
        let names: Vec<_> = module.iter().map(|name| name.to_string_lossy()).collect();
        let Some(layer) = MEDIA_LAYERS.iter().find(|layer| names[0] == layer.0) else { continue };
        if names.iter().any(|name| name == "tests") {
            continue;
        }
        examined += 1;
        let text = fs::read_to_string(&file).unwrap();
        let uses = disallowed(&text, names.len(), *layer);
        wrong.extend(uses.into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(examined > MEDIA_LAYERS.len(), "the layers' files have moved");
    assert!(wrong.is_empty(), "uses that the layers do not allow:\n{}", wrong.join("\n"));
}

#[test]
fn the_check_of_layers_finds_each_kind_of_use() {
    let scheduler = MEDIA_LAYERS[2];
    for wrong in [
        "use crate::files::library::Library;",
        "use crate::{live, rtp};",
        "    pub(in crate::server) fn f(of: crate::data_plane::Inputs) {}",
        "use std::net::UdpSocket;",
        "use std::time::Instant;",
        "use millstream_sync::clock::system::now_ns;",
        "use std::fs::File;",
        "use super::super::rtsp;",
    ] {
        assert!(!disallowed(wrong, 2, scheduler).is_empty(), "{wrong}");
    }
    let right = "//! See crate::files.\nuse super::Client;\nuse crate::rtp::RTP_HEADER;\n\
                 #[cfg(test)]\nuse crate::files;\n";
    assert_eq!(disallowed(right, 2, scheduler), [""; 0]);
    let file = "use std::fs::File;";
    assert_eq!(disallowed(file, 2, MEDIA_LAYERS[1]), [""; 0], "shared memory is a file");
}

#[test]
fn every_rust_file_begins_with_what_it_is() {
    for file in files(&[".rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} has no header comment", file.display());
    }
}

/// The page names tests as `FILE.rs`, then `NAME`, or `NAME_…` for its beginning.
#[test]
fn the_tests_named_by_the_page_of_features_exist() {
    let page = fs::read_to_string(root().join("docs/src/media/features.md")).unwrap();
    let tests = root().join("crates/millstream-cli/tests/media");
    let (mut file, mut named) = (String::new(), 0);
    for word in page.split('`').skip(1).step_by(2) {
        if word.ends_with(".rs") {
            file = fs::read_to_string(tests.join(word)).expect(word);
        } else if word.contains('_') && !word.starts_with("SCHED_") {
            let start = word.trim_end_matches('…');
            assert!(file.contains(&format!("fn {start}")), "no test {word} in the file before it");
            named += 1;
        } else if word.ends_with(".sh") || word.ends_with(".py") {
            assert!(root().join(word).is_file(), "no file {word}");
        }
    }
    assert!(named >= 16, "{named} tests are named");
}

/// The maximum length of a line, columns.
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

/// Retired names, the field's terms that replaced them, and the path prefix where this applies.
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
    ("Said", "SegmentMeta or StreamAnalysis", ""),
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
                    found.push(format!("{}:{}: {name} is now {term}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "retired names:\n{}", found.join("\n"));
}

#[test]
fn comments_have_no_task_markers() {
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
    for folder in
        ["papers", "examples", "docs", "conformance", "fuzz", "integrations", "rtl", "scripts"]
    {
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

/// The maximum number of files that hold the inherent `impl`s of a type.
const MAX_IMPL_FILES: usize = 2;

/// A Rust source file outside tests.
struct Source {
    krate: String,
    path: PathBuf,
    /// Its lines, the module of its unit tests left out.
    lines: Vec<String>,
}

/// Returns every Rust source file outside tests, with its crate.
fn sources() -> Vec<Source> {
    let manifests = files(&["Cargo.toml"]);
    let mut sources = Vec::new();
    let mut of_tests = BTreeSet::new();
    for path in files(&[".rs"]) {
        let above = |manifest: &&PathBuf| path.starts_with(manifest.parent().unwrap());
        let manifest = manifests.iter().filter(above).max_by_key(|of| of.components().count());
        let Some(manifest) = manifest else { continue };
        let folder = manifest.parent().unwrap();
        if path.strip_prefix(folder).unwrap().iter().any(|name| name == "tests") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut cut = lines.len();
        for at in 1..lines.len() {
            let Some(module) = lines[at].strip_prefix("mod ") else { continue };
            if lines[at - 1] != "#[cfg(test)]" {
                continue;
            }
            match module.strip_suffix(';') {
                Some(name) => {
                    let inner = match path.file_stem().unwrap().to_str().unwrap() {
                        "lib" | "main" | "mod" => path.parent().unwrap().join(name),
                        _ => path.with_extension("").join(name),
                    };
                    of_tests.insert(inner);
                }
                None => cut = cut.min(at),
            }
        }
        lines.truncate(cut);
        let krate = folder.strip_prefix(root()).unwrap();
        let krate = krate.strip_prefix("crates").unwrap_or(krate).display().to_string();
        sources.push(Source { krate, path, lines });
    }
    sources
        .retain(|source| !of_tests.iter().any(|of| source.path.with_extension("").starts_with(of)));
    sources
}

/// Returns the type of an inherent `impl` that begins on this line.
fn inherent_impl(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|&(at, of)| {
            depth += i32::from(of == '<') - i32::from(of == '>' && !rest[..at].ends_with('-'));
            depth == 0
        });
        rest = &rest[end?.0 + 1..];
    }
    let rest = rest.strip_prefix(' ')?;
    let is_of_trait = rest.split([' ', '{']).any(|word| word == "for");
    let path = rest.split(['<', ' ', '{']).next()?;
    (!is_of_trait).then(|| path.rsplit("::").next()).flatten().filter(|name| !name.is_empty())
}

/// Returns the type that this line defines.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(|of: char| !of.is_alphanumeric() && of != '_');
    let is_keyword = |word: &&str| matches!(*word, "struct" | "enum" | "union");
    words
        .find(|word| !matches!(*word, "pub" | "crate" | "super" | "in" | ""))
        .filter(is_keyword)?;
    words.next()
}

#[test]
fn an_inherent_impl_is_told_from_that_of_a_trait() {
    assert_eq!(inherent_impl("impl Bounds<'_> {"), Some("Bounds"));
    assert_eq!(inherent_impl("impl<F: Fn(u32) -> u32> crate::Timer<F> {"), Some("Timer"));
    assert_eq!(inherent_impl("impl<T> Memory for Timer<T> {"), None);
    assert_eq!(inherent_impl("    impl Timer {"), None);
    assert_eq!(inherent_impl("implied"), None);
    assert_eq!(defined_type("pub(crate) struct Timer<T>(T);"), Some("Timer"));
    assert_eq!(defined_type("let timer = Timer;"), None);
}

#[test]
fn the_impls_of_a_type_are_in_two_files_at_most() {
    let sources = sources();
    let mut definitions: BTreeMap<(&str, &str), Vec<&Path>> = BTreeMap::new();
    for source in &sources {
        for name in source.lines.iter().filter_map(|line| defined_type(line)) {
            definitions.entry((&source.krate, name)).or_default().push(&source.path);
        }
    }
    let common = |a: &Path, b: &Path| a.iter().zip(b.iter()).take_while(|(a, b)| a == b).count();
    let mut impls: BTreeMap<(&str, &str, &Path), BTreeSet<&Path>> = BTreeMap::new();
    for source in &sources {
        for name in source.lines.iter().filter_map(|line| inherent_impl(line)) {
            // Several modules may define types of one name; the nearest is meant.
            let of = definitions.get(&(&*source.krate, name)).into_iter().flatten();
            let nearest =
                of.max_by_key(|of| common(&of.with_extension(""), &source.path.with_extension("")));
            let Some(defined) = nearest else { continue };
            impls.entry((&source.krate, name, defined)).or_default().insert(&source.path);
        }
    }
    assert!(impls.len() > 500, "only {} types were found", impls.len());
    let mut found = Vec::new();
    for ((_, name, defined), files) in &impls {
        if files.len() > MAX_IMPL_FILES {
            let path = defined.strip_prefix(root()).unwrap().display();
            found.push(format!("{name} of {path}: {} files", files.len()));
        }
    }
    assert!(found.is_empty(), "split these types by their state:\n{}", found.join("\n"));
}
