//! The state of a sweep: waiting, running and completed runs, and the points with enough seeds.
//!
//! A point's seeds start in order. The point is complete at the first number of seeds whose runs
//! have all ended with narrow enough intervals. Idle threads may have run later seeds by then; they
//! do not count. The counted seeds are therefore independent of thread timing.

use crate::outcome::{Cell, Column};
use crate::stop_rule::{FEWEST, StopRule};

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Counted runs that have ended.
    pub ended: usize,
    /// Runs that count or may still count.
    pub of: usize,
}

/// The state of one run.
#[derive(Clone, Debug)]
enum Run {
    Waiting,
    UnderWay,
    Done(Vec<Vec<Cell>>),
    Failed(String),
}

/// The runs of a point, in the order of seeds.
struct Point {
    runs: Vec<Run>,
    /// Index before which no run waits.
    begun: usize,
    /// Length of the prefix of ended runs that the stop rules have checked.
    judged: usize,
    /// Number of runs that count, once known.
    enough: Option<usize>,
}

/// The state of all runs of a sweep.
pub(crate) struct State<'a> {
    points: Vec<Point>,
    until: &'a [StopRule],
    columns: &'a [Column],
    /// Index before which no point has a waiting run that may count.
    open: usize,
    progress: Progress,
}

impl<'a> State<'a> {
    /// Creates the state of a sweep that has not started, with `seeds` seeds for each point.
    pub(crate) fn new(
        points: usize,
        seeds: usize,
        until: &'a [StopRule],
        columns: &'a [Column],
    ) -> Self {
        let point = || Point { runs: vec![Run::Waiting; seeds], begun: 0, judged: 0, enough: None };
        Self {
            points: (0..points).map(|_| point()).collect(),
            until,
            columns,
            open: 0,
            progress: Progress { ended: 0, of: points * seeds },
        }
    }

    /// Starts the next run; returns the index of its point and of its seed.
    ///
    /// Runs that are certainly needed come first. If there are none, starts a speculative run,
    /// which may turn out not to count.
    pub(crate) fn next(&mut self) -> Option<(usize, usize)> {
        while self.points.get_mut(self.open).is_some_and(|point| !point.waits()) {
            self.open += 1;
        }
        let mut speculative = None;
        for at in self.open..self.points.len() {
            let until = !self.until.is_empty();
            let point = &mut self.points[at];
            if !point.waits() {
                continue;
            }
            if !until || point.begun < (point.judged + 1).max(FEWEST) {
                return Some((at, self.begin(at)));
            }
            speculative = speculative.or(Some(at));
        }
        speculative.map(|at| (at, self.begin(at)))
    }

    fn begin(&mut self, at: usize) -> usize {
        let point = &mut self.points[at];
        point.runs[point.begun] = Run::UnderWay;
        point.begun
    }

    /// Records a completed run; returns whether it was not completed before.
    pub(crate) fn done(&mut self, point: usize, seed: usize, rows: Vec<Vec<Cell>>) -> bool {
        !matches!(self.end(point, seed, Run::Done(rows)), Run::Done(_))
    }

    /// Records a failed run.
    pub(crate) fn failed(&mut self, point: usize, seed: usize, why: String) {
        self.end(point, seed, Run::Failed(why));
    }

    /// Ends a run; returns its previous state.
    fn end(&mut self, at: usize, seed: usize, run: Run) -> Run {
        let before = self.points[at].progress();
        let was = std::mem::replace(&mut self.points[at].runs[seed], run);
        self.judge(at);
        let after = self.points[at].progress();
        self.progress.ended = self.progress.ended - before.ended + after.ended;
        self.progress.of = self.progress.of - before.of + after.of;
        was
    }

    /// Extends the checked prefix of a point, and completes the point if the stop rules hold.
    fn judge(&mut self, at: usize) {
        let point = &mut self.points[at];
        while point.enough.is_none() {
            match point.runs.get(point.judged) {
                Some(Run::Done(_) | Run::Failed(_)) => point.judged += 1,
                _ => return,
            }
            let first = &point.runs[..point.judged];
            let done: Vec<&[Vec<Cell>]> = first.iter().filter_map(Run::rows).collect();
            let tight = !self.until.is_empty()
                && done.len() >= FEWEST
                && self.until.iter().all(|until| until.satisfied(&done, self.columns));
            if tight || point.judged == point.runs.len() {
                point.enough = Some(point.judged);
            }
        }
    }

    /// Returns the counted runs of `point`: index of the seed, and the rows or the error.
    pub(crate) fn counted(
        &self,
        point: usize,
    ) -> impl Iterator<Item = (usize, Result<&[Vec<Cell>], &str>)> {
        let point = &self.points[point];
        let count = point.enough.unwrap_or(point.judged);
        point.runs[..count].iter().enumerate().filter_map(|(seed, run)| match run {
            Run::Done(rows) => Some((seed, Ok(rows.as_slice()))),
            Run::Failed(why) => Some((seed, Err(why.as_str()))),
            Run::Waiting | Run::UnderWay => None,
        })
    }

    /// Returns the progress of the sweep.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }
}

impl Point {
    fn progress(&self) -> Progress {
        let of = self.enough.unwrap_or(self.runs.len());
        let ended = |run: &&Run| matches!(run, Run::Done(_) | Run::Failed(_));
        Progress { ended: self.runs[..of].iter().filter(ended).count(), of }
    }

    /// Returns whether a run can start, and advances `begun` to it.
    fn waits(&mut self) -> bool {
        while self.runs.get(self.begun).is_some_and(|run| !matches!(run, Run::Waiting)) {
            self.begun += 1;
        }
        self.enough.is_none() && self.begun < self.runs.len()
    }
}

impl Run {
    fn rows(&self) -> Option<&[Vec<Cell>]> {
        match self {
            Run::Done(rows) => Some(rows),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{columns, name_column};

    /// Returns a rule that holds once the first three delays are equal.
    fn until() -> Vec<StopRule> {
        let column = columns(false).iter().position(|column| column.name == "delay_mean_ns");
        vec![StopRule::of(None, column.unwrap_or(0), 0.01)]
    }

    fn rows(delay_ns: u64) -> Vec<Vec<Cell>> {
        let columns = columns(false);
        let mut row = vec![Cell::Count(delay_ns); columns.len()];
        row[name_column(&columns)] = Cell::Text("a".into());
        vec![row]
    }

    #[test]
    fn without_stop_rules_runs_start_in_grid_order() {
        let columns = columns(false);
        let mut state = State::new(2, 2, &[], &columns);
        state.done(0, 1, rows(1));
        let begun: Vec<_> = std::iter::from_fn(|| state.next()).collect();
        assert_eq!(begun, [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(state.progress(), Progress { ended: 1, of: 4 });
    }

    #[test]
    fn speculative_runs_come_last() {
        let (columns, until) = (columns(false), until());
        let mut state = State::new(2, 5, &until, &columns);
        let begun: Vec<_> = (0..6).filter_map(|_| state.next()).collect();
        assert_eq!(begun, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        assert_eq!(state.next(), Some((0, 3)), "a thread with nothing else to do");
        for seed in 0..3 {
            state.done(1, seed, rows(if seed == 0 { 100 } else { 200 }));
        }
        assert_eq!(state.next(), Some((1, 3)), "needed goes before what may be in vain");
    }

    #[test]
    fn the_shortest_sufficient_prefix_of_seeds_counts_in_any_order() {
        let (columns, until) = (columns(false), until());
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut state = State::new(1, 5, &until, &columns);
            for seed in order {
                state.done(0, seed, rows(100));
            }
            let counted: Vec<usize> = state.counted(0).map(|(seed, _)| seed).collect();
            assert_eq!(counted, [0, 1, 2]);
            assert_eq!(state.next(), None);
            assert_eq!(state.progress(), Progress { ended: 3, of: 3 });
        }
    }

    #[test]
    fn a_failed_run_is_reported_but_does_not_count_for_stop_rules() {
        let (columns, until) = (columns(false), until());
        let mut state = State::new(1, 5, &until, &columns);
        state.failed(0, 1, "lost".into());
        for seed in [0, 2, 3] {
            state.done(0, seed, rows(100));
        }
        let counted: Vec<_> = state.counted(0).map(|(seed, run)| (seed, run.is_ok())).collect();
        assert_eq!(counted, [(0, true), (1, false), (2, true), (3, true)]);
        assert!(!state.done(0, 0, rows(100)), "it was done before");
    }
}
