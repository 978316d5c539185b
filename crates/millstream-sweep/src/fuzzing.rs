//! Entry points for fuzz targets and tests: reads a journal that may be damaged.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::error::SweepError;
use crate::grid::Grid;
use crate::journal::Journal;
use crate::single;

/// Opens the journal at `path` for a sweep of `grid` twice and appends a run; returns the number of
/// runs that it held.
///
/// # Errors
/// Fails if the journal is rejected.
///
/// # Panics
/// Panics if the second open returns other runs, or a third one lacks the appended run.
pub fn journal(path: &Path, grid: &Grid) -> Result<usize, SweepError> {
    let (journal, entries) = Journal::open(path, grid)?;
    drop(journal);
    let (mut journal, again) = Journal::open(path, grid).expect("it was accepted before");
    assert_eq!(again, entries);
    let scenario = grid.scenario(0).expect("the grid was checked");
    let stop = AtomicBool::new(false);
    let outcome = single::run(&scenario, &stop).expect("a run").expect("nothing stops it");
    let entry = grid.entry(0, 7, &outcome);
    journal.append(&entry).expect("it is open");
    drop(journal);
    let (_, more) = Journal::open(path, grid).expect("it was accepted before");
    assert_eq!(more.split_last(), Some((&entry, &entries[..])));
    Ok(entries.len())
}
