//! The code's own form: arrows between crates, file headers and sizes, the README's map.
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
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for dependency in dependencies.keys().filter(|key| key.starts_with("millstream")) {
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

#[test]
fn no_file_outgrows_a_head() {
    for file in files(&[".rs", ".sh", ".py"]) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 600, "{} has {lines} lines; split it along its ideas", file.display());
    }
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
fn the_readme_maps_every_room() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut rooms: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        rooms.insert(format!("crates/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    for folder in ["papers", "examples", "docs", "conformance", "fuzz", "rtl", "scripts"] {
        assert!(root().join(folder).is_dir(), "{folder} is missing");
        rooms.insert(folder.to_owned());
    }
    for room in rooms {
        assert!(readme.contains(&format!("`{room}/`")), "README.md has no line for {room}/");
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
