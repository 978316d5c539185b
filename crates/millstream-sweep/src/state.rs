//! The state of a sweep: waiting, running and completed runs, and the points with enough seeds.
//!
//! A point's seeds start in order. The point is complete at the least n for which the runs of the
//! first n seeds have ended and their intervals are narrow enough. Idle threads may have run later
//! seeds; these do not count. The counted seeds are therefore independent of thread timing.

use crate::outcome::{Cell, Column};
use crate::stop_rule::{MIN_RUNS, StopRule};

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
    Running,
    Done(Vec<Vec<Cell>>),
    Failed(String),
}

/// The runs of a point, in the order of seeds.
struct Point {
    runs: Vec<Run>,
    /// Index before which no run waits.
    first_waiting: usize,
    /// Length of the prefix of ended runs that the stop rules have checked.
    checked_len: usize,
    /// Number of runs that count, once known.
    counted_len: Option<usize>,
}

/// The state of all runs of a sweep.
pub(crate) struct State<'a> {
    points: Vec<Point>,
    stop_rules: &'a [StopRule],
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
        stop_rules: &'a [StopRule],
        columns: &'a [Column],
    ) -> Self {
        let point = || Point {
            runs: vec![Run::Waiting; seeds],
            first_waiting: 0,
            checked_len: 0,
            counted_len: None,
        };
        Self {
            points: (0..points).map(|_| point()).collect(),
            stop_rules,
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
        while self.points.get_mut(self.open).is_some_and(|point| !point.has_waiting_run()) {
            self.open += 1;
        }
        let mut speculative = None;
        for at in self.open..self.points.len() {
            let has_stop_rules = !self.stop_rules.is_empty();
            let point = &mut self.points[at];
            if !point.has_waiting_run() {
                continue;
            }
            if !has_stop_rules || point.first_waiting < (point.checked_len + 1).max(MIN_RUNS) {
                return Some((at, self.begin(at)));
            }
            speculative = speculative.or(Some(at));
        }
        speculative.map(|at| (at, self.begin(at)))
    }

    fn begin(&mut self, at: usize) -> usize {
        let point = &mut self.points[at];
        point.runs[point.first_waiting] = Run::Running;
        point.first_waiting
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
        self.check_stop_rules(at);
        let after = self.points[at].progress();
        self.progress.ended = self.progress.ended - before.ended + after.ended;
        self.progress.of = self.progress.of - before.of + after.of;
        was
    }

    /// Extends the checked prefix of a point, and completes the point if the stop rules hold.
    fn check_stop_rules(&mut self, at: usize) {
        let point = &mut self.points[at];
        while point.counted_len.is_none() {
            match point.runs.get(point.checked_len) {
                Some(Run::Done(_) | Run::Failed(_)) => point.checked_len += 1,
                _ => return,
            }
            let first = &point.runs[..point.checked_len];
            let done: Vec<&[Vec<Cell>]> = first.iter().filter_map(Run::rows).collect();
            let is_narrow = !self.stop_rules.is_empty()
                && done.len() >= MIN_RUNS
                && self.stop_rules.iter().all(|rule| rule.satisfied(&done, self.columns));
            if is_narrow || point.checked_len == point.runs.len() {
                point.counted_len = Some(point.checked_len);
            }
        }
    }

    /// Returns the counted runs of `point`: index of the seed, and the rows or the error.
    pub(crate) fn counted(
        &self,
        point: usize,
    ) -> impl Iterator<Item = (usize, Result<&[Vec<Cell>], &str>)> {
        let point = &self.points[point];
        let count = point.counted_len.unwrap_or(point.checked_len);
        point.runs[..count].iter().enumerate().filter_map(|(seed, run)| match run {
            Run::Done(rows) => Some((seed, Ok(rows.as_slice()))),
            Run::Failed(why) => Some((seed, Err(why.as_str()))),
            Run::Waiting | Run::Running => None,
        })
    }

    /// Returns the progress of the sweep.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }
}

impl Point {
    fn progress(&self) -> Progress {
        let of = self.counted_len.unwrap_or(self.runs.len());
        let ended = |run: &&Run| matches!(run, Run::Done(_) | Run::Failed(_));
        Progress { ended: self.runs[..of].iter().filter(ended).count(), of }
    }

    /// Returns whether a run can start, and advances `first_waiting` to it.
    fn has_waiting_run(&mut self) -> bool {
        while self.runs.get(self.first_waiting).is_some_and(|run| !matches!(run, Run::Waiting)) {
            self.first_waiting += 1;
        }
        self.counted_len.is_none() && self.first_waiting < self.runs.len()
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
    use crate::outcome::{Simulated, columns, name_column};

    /// Returns a rule that holds once the first three delays are equal.
    fn stop_rules() -> Vec<StopRule> {
        let column =
            columns(Simulated::Link).iter().position(|column| column.name == "delay_mean_ns");
        vec![StopRule::of(None, column.unwrap_or(0), 0.01)]
    }

    fn rows(delay_ns: u64) -> Vec<Vec<Cell>> {
        let columns = columns(Simulated::Link);
        let mut row = vec![Cell::Count(delay_ns); columns.len()];
        row[name_column(&columns)] = Cell::Text("a".into());
        vec![row]
    }

    #[test]
    fn without_stop_rules_runs_start_in_grid_order() {
        let columns = columns(Simulated::Link);
        let mut state = State::new(2, 2, &[], &columns);
        state.done(0, 1, rows(1));
        let started: Vec<_> = std::iter::from_fn(|| state.next()).collect();
        assert_eq!(started, [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(state.progress(), Progress { ended: 1, of: 4 });
    }

    #[test]
    fn speculative_runs_come_last() {
        let (columns, stop_rules) = (columns(Simulated::Link), stop_rules());
        let mut state = State::new(2, 5, &stop_rules, &columns);
        let started: Vec<_> = (0..6).filter_map(|_| state.next()).collect();
        assert_eq!(started, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
        assert_eq!(state.next(), Some((0, 3)), "an idle thread runs speculatively");
        for seed in 0..3 {
            state.done(1, seed, rows(if seed == 0 { 100 } else { 200 }));
        }
        assert_eq!(state.next(), Some((1, 3)), "required runs precede speculative ones");
    }

    #[test]
    fn the_shortest_sufficient_prefix_of_seeds_counts_in_any_order() {
        let (columns, stop_rules) = (columns(Simulated::Link), stop_rules());
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let mut state = State::new(1, 5, &stop_rules, &columns);
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
        let (columns, stop_rules) = (columns(Simulated::Link), stop_rules());
        let mut state = State::new(1, 5, &stop_rules, &columns);
        state.failed(0, 1, "lost".into());
        for seed in [0, 2, 3] {
            state.done(0, seed, rows(100));
        }
        let counted: Vec<_> = state.counted(0).map(|(seed, run)| (seed, run.is_ok())).collect();
        assert_eq!(counted, [(0, true), (1, false), (2, true), (3, true)]);
        assert!(!state.done(0, 0, rows(100)), "the run was completed before");
    }
}
