//! The journal of completed runs, one line per run, from which an interrupted sweep continues.
//!
//! The first line identifies the sweep; [`Journal::open`] rejects the journal of another sweep. It
//! also truncates a line that a killed process left incomplete. The file is locked while a sweep
//! writes it.
//!
//! Rows are synced to disk in batches: after [`BATCH_ROWS`] rows, after [`BATCH_TIME`] since the
//! last sync, and at the end of the sweep. A machine crash loses the runs since the last sync.

use millstream_traffic::sync_folder;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::SweepError;
use crate::grid::Grid;
use crate::outcome::{Cell, Outcome};

/// The maximum number of rows between two syncs.
const BATCH_ROWS: u32 = 64;
/// The maximum time between two syncs, as long as runs complete.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// The format tag: distinguishes journals from other files and from other journal versions.
const FORMAT: &str = "millstream-sweep-2";

/// The first line of a journal; it identifies the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: String,
    version: String,
    scenario: String,
    settings: Vec<String>,
}

impl Header {
    fn of(grid: &Grid) -> Self {
        Self {
            format: FORMAT.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            scenario: grid.scenario_digest().into(),
            settings: grid.settings().iter().map(ToString::to_string).collect(),
        }
    }

    /// Describes the first difference between this journal's header and the wanted one.
    fn difference(&self, wanted: &Header) -> Option<String> {
        let settings = |of: &Header| {
            let list: Vec<String> = of.settings.iter().map(|s| format!("--set {s}")).collect();
            if list.is_empty() { "no --set".into() } else { list.join(" ") }
        };
        if self.version != wanted.version {
            return Some(format!("version {}, not {}", self.version, wanted.version));
        }
        if self.scenario != wanted.scenario {
            return Some("another scenario, or the file has changed since".into());
        }
        if self.settings != wanted.settings {
            return Some(format!("{}, not {}", settings(self), settings(wanted)));
        }
        None
    }
}

/// A completed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Index of the point.
    pub(crate) point: usize,
    /// Seed of the run.
    pub(crate) seed: u64,
    /// Digest of its input files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) inputs: String,
    /// One row per stream.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// Creates the journal entry of a run of `point`.
    pub(crate) fn entry(&self, point: usize, seed: u64, outcome: &Outcome) -> Entry {
        Entry {
            point,
            seed,
            inputs: self.inputs_digest(point).into(),
            rows: outcome.rows(self.simulated()),
        }
    }
}

/// A journal open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Rows written since the last sync.
    unsynced: u32,
    /// Time of the last sync.
    synced: Instant,
}

impl Journal {
    /// Opens the journal at `path` for the sweep of `grid`, and reads its completed runs.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or written, belongs to another sweep, or is locked by
    /// another process.
    pub(crate) fn open(path: &Path, grid: &Grid) -> Result<(Self, Vec<Entry>), SweepError> {
        let wanted = Header::of(grid);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(SweepError::file(path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => SweepError::invalid_argument(
                format!("{}: another sweep is writing it", path.display()),
                "wait for it, or give another --out",
            ),
            TryLockError::Error(error) => SweepError::file(path)(error),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(SweepError::file(path))?;
        let head = line(&wanted);
        let mut journal = Self { file, path: path.to_owned(), unsynced: 0, synced: Instant::now() };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole == 0 {
            if !head.starts_with(&bytes) {
                return Err(not_a_journal(path));
            }
            journal
                .truncate(0)
                .and_then(|()| journal.file.write_all(&head))
                .and_then(|()| journal.file.sync_all())
                .and_then(|()| sync_folder(path))
                .map_err(SweepError::file(path))?;
            return Ok((journal, Vec::new()));
        }
        let mut lines = bytes[..whole - 1].split(|byte| *byte == b'\n');
        let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
        let header =
            header.filter(|header| header.format == FORMAT).ok_or_else(|| not_a_journal(path))?;
        if let Some(difference) = header.difference(&wanted) {
            return Err(SweepError::invalid_argument(
                format!("{} holds the runs of another sweep: {difference}", path.display()),
                "give another --out, or remove that file to start over",
            ));
        }
        let mut entries = Vec::new();
        for (number, line) in (2..).zip(lines) {
            let entry = serde_json::from_slice::<Entry>(line).map_err(|error| {
                SweepError::invalid_argument(
                    format!("{}, line {number}: {error}", path.display()),
                    "remove that line; the sweep then repeats its run",
                )
            })?;
            let columns = grid.columns().len();
            if entry.point >= grid.points() || entry.rows.iter().any(|row| row.len() != columns) {
                return Err(SweepError::invalid_argument(
                    format!("{}, line {number}: not a run of this sweep", path.display()),
                    "remove that line",
                ));
            }
            // Skip runs whose input files have changed since; the sweep repeats them.
            if entry.inputs == grid.inputs_digest(entry.point) {
                entries.push(entry);
            }
        }
        journal.truncate(whole as u64).map_err(SweepError::file(path))?;
        Ok((journal, entries))
    }

    /// Truncates the file to `end` bytes.
    fn truncate(&mut self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end)).map(|_| ())
    }

    /// Appends a completed run, and syncs if a batch is full.
    ///
    /// # Errors
    /// Fails if this row or an earlier one cannot be written.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), SweepError> {
        self.file.write_all(&line(entry)).map_err(SweepError::file(&self.path))?;
        self.unsynced += 1;
        if self.unsynced >= BATCH_ROWS || self.synced.elapsed() >= BATCH_TIME {
            self.sync()?;
        }
        Ok(())
    }

    /// Waits until all rows are on disk.
    ///
    /// # Errors
    /// Fails if a row cannot be written.
    pub(crate) fn sync(&mut self) -> Result<(), SweepError> {
        if self.unsynced > 0 {
            self.file.sync_data().map_err(SweepError::file(&self.path))?;
        }
        (self.unsynced, self.synced) = (0, Instant::now());
        Ok(())
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("keys are strings and numbers finite");
    line.push(b'\n');
    line
}

fn not_a_journal(path: &Path) -> SweepError {
    SweepError::invalid_argument(
        format!("{} is not a sweep journal", path.display()),
        "give another --out, or remove that file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_synced_by_batch_and_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.toml");
        let scenario = "[link]\nrate = \"1 Mbit/s\"\n[scheduler]\ndiscipline = \"fifo\"\n\
                        [[stream]]\nname = \"a\"\n\
                        source = { kind = \"backlog\", packets = 1, bytes = 100 }\n";
        std::fs::write(&file, scenario).unwrap();
        let grid = Grid::load(&file, Vec::new()).unwrap();
        let (mut journal, entries) = Journal::open(&folder.path().join("j"), &grid).unwrap();
        assert_eq!(entries, []);
        let row = |seed| Entry { point: 0, seed, inputs: String::new(), rows: Vec::new() };
        for seed in 0..2 * u64::from(BATCH_ROWS) {
            journal.append(&row(seed)).unwrap();
            assert!(journal.unsynced < BATCH_ROWS, "{seed}");
        }
        journal.synced = Instant::now() - BATCH_TIME;
        journal.append(&row(1000)).unwrap();
        assert_eq!(journal.unsynced, 0, "after the longest time between syncs");
        journal.append(&row(1001)).unwrap();
        journal.sync().unwrap();
        assert_eq!(journal.unsynced, 0);
        drop(journal);
        let (_, entries) = Journal::open(&folder.path().join("j"), &grid).unwrap();
        assert_eq!(entries.len(), 2 * BATCH_ROWS as usize + 2);
    }
}
