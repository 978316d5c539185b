//! What fuzz targets and tests call: a journal as another process may have left it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::error::SweepError;
use crate::grid::Grid;
use crate::journal::Journal;
use crate::single;

/// Opens the journal at `path` for a sweep of `grid`, twice, and appends a run. Returns how many
/// runs it held.
///
/// # Errors
/// If the journal is refused.
///
/// # Panics
/// If the second look finds other runs than the first, or not the one that was appended.
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
