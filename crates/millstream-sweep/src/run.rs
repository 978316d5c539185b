//! The execution of a sweep: every point with every seed, over threads, with a journal.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::dataset::Output;
use crate::error::SweepError;
use crate::grid::Grid;
use crate::journal::{Entry, Journal};
use crate::outcome::Cell;
use crate::setting::display_value;
use crate::single;
use crate::state::{Progress, State};
use crate::stop_rule::StopRule;

/// The parameters of a sweep over a grid.
#[derive(Debug)]
pub struct Plan {
    /// The seeds, in the order in which they run.
    pub seeds: Vec<u64>,
    /// Rules that end a point before its last seed once all hold. If empty, every seed runs.
    pub stop_rules: Vec<StopRule>,
    /// Number of threads, at least 1.
    pub workers: usize,
    /// Paths of journal and dataset; `None` writes no files.
    pub output: Option<Output>,
}

/// A failed run; it does not affect other runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the point.
    pub point: usize,
    /// Settings of the point, `link.rate=10 Mbit/s scheduler.discipline=drr`.
    pub settings: String,
    /// Seed of the run.
    pub seed: u64,
    /// Error message.
    pub why: String,
}

/// A completed run of the dataset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletedRun {
    pub(crate) point: usize,
    pub(crate) seed: u64,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// The result of a sweep.
#[derive(Debug)]
pub struct SweepResult {
    /// Counted runs, in the order of points and seeds.
    pub(crate) runs: Vec<CompletedRun>,
    /// Failed runs, in the order of points and seeds; the next sweep repeats them.
    pub failures: Vec<Failure>,
    /// Number of completed runs read from the journal.
    pub resumed: usize,
    /// Number of runs executed now.
    pub executed: usize,
    /// Whether the sweep was stopped before its end; the dataset is then not written.
    pub interrupted: bool,
    /// Progress at the end.
    pub progress: Progress,
}

/// State shared by the threads.
struct Shared<'a> {
    state: State<'a>,
    journal: Option<Journal>,
    executed: usize,
    journal_error: Option<SweepError>,
}

/// Executes the runs of `grid` that `plan` requires and its journal lacks.
///
/// Setting `stop` ends the sweep early and keeps the completed runs. `progress` is called after
/// each run. A run that panics counts as failed.
///
/// # Errors
/// Fails if the journal belongs to another sweep, or a file cannot be read or written.
pub fn run(
    grid: &Grid,
    plan: &Plan,
    stop: &AtomicBool,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<SweepResult, SweepError> {
    let mut state = State::new(grid.points(), plan.seeds.len(), &plan.stop_rules, grid.columns());
    let mut journal = None;
    let mut resumed = 0;
    if let Some(output) = &plan.output {
        let (opened, entries) = Journal::open(output.journal(), grid)?;
        let numbers: HashMap<u64, usize> =
            plan.seeds.iter().enumerate().map(|(number, seed)| (*seed, number)).collect();
        for Entry { point, seed, rows, .. } in entries {
            if let Some(number) = numbers.get(&seed) {
                resumed += usize::from(state.done(point, *number, rows));
            }
        }
        journal = Some(opened);
    }
    progress(state.progress());
    let shared = Mutex::new(Shared { state, journal, executed: 0, journal_error: None });
    let lock = || shared.lock().expect("no thread panics while it holds the lock");
    let work = || {
        while let Some((point, number)) =
            Some(()).filter(|()| !stop.load(Ordering::Relaxed)).and_then(|()| lock().next())
        {
            let seed = plan.seeds[number];
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let scenario = millstream_scenario::Scenario { seed, ..grid.scenario(point)? };
                single::run(&scenario, stop)
            }));
            let mut shared = lock();
            match ended {
                Ok(Ok(Some(outcome))) => shared.record(number, grid.entry(point, seed, &outcome)),
                Ok(Ok(None)) => return,
                Ok(Err(why)) => shared.state.failed(point, number, why.to_string()),
                Err(_) => {
                    let why = "the run panicked: please report it with its scenario and settings";
                    shared.state.failed(point, number, why.into());
                }
            }
            progress(shared.state.progress());
        }
    };
    thread::scope(|threads| {
        for _ in 0..plan.workers.max(1) {
            threads.spawn(work);
        }
    });
    let mut shared = shared.into_inner().expect("no thread panics while it holds the lock");
    let synced = shared.journal.as_mut().map_or(Ok(()), Journal::sync);
    if let Some(error) = shared.journal_error {
        return Err(error);
    }
    synced?;
    let mut swept = SweepResult {
        runs: Vec::new(),
        failures: Vec::new(),
        resumed,
        executed: shared.executed,
        interrupted: stop.load(Ordering::Relaxed),
        progress: shared.state.progress(),
    };
    for point in 0..grid.points() {
        for (number, run) in shared.state.counted(point) {
            let seed = plan.seeds[number];
            match run {
                Ok(rows) => swept.runs.push(CompletedRun { point, seed, rows: rows.to_vec() }),
                Err(why) => swept.failures.push(Failure {
                    point,
                    settings: settings(grid, point),
                    seed,
                    why: why.to_owned(),
                }),
            }
        }
    }
    if let Some(output) = plan.output.as_ref().filter(|_| !swept.interrupted) {
        output.write(grid, &swept.runs)?;
    }
    Ok(swept)
}

impl Shared<'_> {
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.journal_error.is_some() { None } else { self.state.next() }
    }

    fn record(&mut self, number: usize, entry: Entry) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.append(&entry)
        {
            self.journal_error = Some(error);
        }
        self.executed += 1;
        self.state.done(entry.point, number, entry.rows);
    }
}

/// Formats a point's settings in one line.
pub(crate) fn settings(grid: &Grid, point: usize) -> String {
    let one = |(setting, value): (&crate::Setting, &toml::Value)| {
        format!("{}={}", setting.place, display_value(value))
    };
    grid.settings().iter().zip(grid.values(point)).map(one).collect::<Vec<_>>().join(" ")
}
