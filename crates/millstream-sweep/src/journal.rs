//! The runs that are done, one line each, written as they end: what a sweep continues from.
//!
//! The first line says what the sweep is of; a journal of another is refused. A line that a killed
//! process left unfinished is cut off. The file is locked while a sweep writes it.
//!
//! Rows are synced to the disk by batch: when [`BATCH_ROWS`] were written or [`BATCH_TIME`] has
//! passed since the last sync, and at the sweep's end. A crash of the machine costs the runs since.

use millstream_traffic::sync_folder;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::SweepError;
use crate::grid::Grid;
use crate::outcome::{Cell, Outcome};

/// Rows between two syncs at most.
const BATCH_ROWS: u32 = 64;
/// Time between two syncs at most, as long as runs end.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Told apart from any other file, and from journals of another form.
const FORMAT: &str = "millstream-sweep-1";

/// What a sweep is of.
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

    /// What tells `self`, a journal's, from what is wanted.
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

/// A run that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The point's number.
    pub(crate) point: usize,
    /// The run's seed.
    pub(crate) seed: u64,
    /// What its input files held.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) inputs: String,
    /// A row for each stream.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// The entry of a run of `point`.
    pub(crate) fn entry(&self, point: usize, seed: u64, outcome: &Outcome) -> Entry {
        Entry { point, seed, inputs: self.inputs_digest(point).into(), rows: outcome.rows() }
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Rows that were written since the last sync.
    unsynced: u32,
    synced: Instant,
}

impl Journal {
    /// Opens the journal at `path` for the sweep of `grid`, and reads what is done.
    ///
    /// # Errors
    /// If it cannot be read or written, is of another sweep, or another process writes it.
    pub(crate) fn open(path: &Path, grid: &Grid) -> Result<(Self, Vec<Entry>), SweepError> {
        let wanted = Header::of(grid);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(SweepError::file(path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => SweepError::asked(
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
                return Err(no_journal(path));
            }
            journal
                .cut(0)
                .and_then(|()| journal.file.write_all(&head))
                .and_then(|()| journal.file.sync_all())
                .and_then(|()| sync_folder(path))
                .map_err(SweepError::file(path))?;
            return Ok((journal, Vec::new()));
        }
        let mut lines = bytes[..whole - 1].split(|byte| *byte == b'\n');
        let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
        let header =
            header.filter(|header| header.format == FORMAT).ok_or_else(|| no_journal(path))?;
        if let Some(difference) = header.difference(&wanted) {
            return Err(SweepError::asked(
                format!("{} holds the runs of another sweep: {difference}", path.display()),
                "give another --out, or remove that file to begin anew",
            ));
        }
        let mut entries = Vec::new();
        for (number, line) in (2..).zip(lines) {
            let entry = serde_json::from_slice::<Entry>(line).map_err(|error| {
                SweepError::asked(
                    format!("{}, line {number}: {error}", path.display()),
                    "remove that line, and its run is made again",
                )
            })?;
            let columns = grid.columns().len();
            if entry.point >= grid.points() || entry.rows.iter().any(|row| row.len() != columns) {
                return Err(SweepError::asked(
                    format!("{}, line {number}: no run of this sweep", path.display()),
                    "remove that line",
                ));
            }
            // Of files that have changed since; made anew.
            if entry.inputs == grid.inputs_digest(entry.point) {
                entries.push(entry);
            }
        }
        journal.cut(whole as u64).map_err(SweepError::file(path))?;
        Ok((journal, entries))
    }

    /// Everything from `end` on, bytes, goes.
    fn cut(&mut self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end)).map(|_| ())
    }

    /// One more run is done.
    ///
    /// # Errors
    /// If the row, or one before it, cannot be written.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), SweepError> {
        self.file.write_all(&line(entry)).map_err(SweepError::file(&self.path))?;
        self.unsynced += 1;
        if self.unsynced >= BATCH_ROWS || self.synced.elapsed() >= BATCH_TIME {
            self.sync()?;
        }
        Ok(())
    }

    /// Waits until all rows are on the disk.
    ///
    /// # Errors
    /// If one cannot be written.
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

fn no_journal(path: &Path) -> SweepError {
    SweepError::asked(
        format!("{} is no journal of a sweep", path.display()),
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
        let scenario = "[link]\nrate = \"1 Mbps\"\n[scheduler]\ndiscipline = \"fifo\"\n[[stream]]\n\
                        name = \"a\"\nsource = { kind = \"backlog\", packets = 1, bytes = 100 }\n";
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
        assert_eq!(journal.unsynced, 0, "the time is over");
        journal.append(&row(1001)).unwrap();
        journal.sync().unwrap();
        assert_eq!(journal.unsynced, 0);
        drop(journal);
        let (_, entries) = Journal::open(&folder.path().join("j"), &grid).unwrap();
        assert_eq!(entries.len(), 2 * BATCH_ROWS as usize + 2);
    }
}
