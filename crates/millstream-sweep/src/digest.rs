//! Digests of a sweep's scenario and inputs, so a journal is not continued with different ones.

use millstream_scenario::Scenario;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use toml::Table;

/// Returns the digest of the scenario's tables, without its seed, and of its name.
pub(crate) fn scenario_digest(scenario: &Scenario, table: &Table) -> String {
    let mut table = table.clone();
    if let Some(of) = table.get_mut("scenario").and_then(toml::Value::as_table_mut) {
        of.remove("seed");
    }
    let mut hash = Sha256::new();
    hash.update(&scenario.name);
    hash.update([0]);
    hash.update(table.to_string());
    text(hash)
}

/// A cache of input file digests; each file is read once.
#[derive(Debug, Default)]
pub(crate) struct Inputs(BTreeMap<PathBuf, Vec<u8>>);

impl Inputs {
    /// Returns a digest of the names and contents of these files; empty if there are none.
    ///
    /// A file that cannot be read counts as empty; the run reports its error.
    pub(crate) fn digest(&mut self, files: impl IntoIterator<Item = PathBuf>) -> String {
        let mut hash = Sha256::new();
        let mut any = false;
        for path in files {
            any = true;
            hash.update(path.to_string_lossy().as_bytes());
            hash.update([0]);
            let content =
                self.0.entry(path).or_insert_with_key(|path| of_file(path).unwrap_or_default());
            hash.update(content);
        }
        if any { text(hash) } else { String::new() }
    }

    /// Returns the files that were read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

fn of_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(Vec::new());
    }
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hash.finalize().to_vec()),
            read => hash.update(&block[..read]),
        }
    }
}

fn text(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
