//! Seeds from files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of a seed from a file, bytes.
const MAX_SEED_BYTES: usize = 20_000;

/// Returns the path of a repository file.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Reads a whole repository file.
///
/// # Panics
/// Panics if it cannot be read.
#[must_use]
pub fn whole(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads the first 20,000 bytes of a repository file.
///
/// # Panics
/// Panics if it cannot be read.
#[must_use]
pub fn file(name: &str) -> Vec<u8> {
    let mut bytes = whole(name);
    bytes.truncate(MAX_SEED_BYTES);
    bytes
}

/// Reads the files `name` in the subfolders of `folder`, in alphabetical order.
///
/// # Panics
/// Panics if the folder cannot be read.
#[must_use]
pub fn files(folder: &str, name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(path(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let found = entries.flatten().map(|entry| entry.path().join(name));
    let mut found: Vec<PathBuf> = found.filter(|path| path.is_file()).collect();
    found.sort();
    found
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .filter(|f| f.len() <= MAX_SEED_BYTES)
        .collect()
}

/// Returns the first `most` Ethernet frames of the example capture.
#[must_use]
pub fn frames(most: usize) -> Vec<Vec<u8>> {
    let capture = file("examples/data/uplink.pcap");
    let mut rest = capture.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((head, more)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some(frame) = more.get(..length).filter(|_| frames.len() < most) else { break };
        frames.push(frame.to_vec());
        rest = &more[length..];
    }
    frames
}
