//! Which runs wait, are under way and have ended, and which point has enough seeds.
//!
//! A point's seeds are begun in their order. It has enough at the first number of seeds whose runs
//! have all ended and whose intervals are tight; runs of later seeds, which threads that had
//! nothing else to do may have made, do not count. So the same seeds count whatever the threads
//! did.

use crate::outcome::{Cell, Column};
use crate::until::{FEWEST, Until};

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs that have ended and count.
    pub ended: usize,
    /// Runs that count, or may yet.
    pub of: usize,
}

#[derive(Clone, Debug)]
enum Run {
    Waiting,
    UnderWay,
    Done(Vec<Vec<Cell>>),
    Failed(String),
}

/// A point's runs, in the order of seeds.
struct Point {
    runs: Vec<Run>,
    /// No run before this one waits.
    begun: usize,
    /// The first runs that have all ended, and were found not to be enough.
    judged: usize,
    /// How many of the first runs count, once it is known.
    enough: Option<usize>,
}

/// All runs of a sweep.
pub(crate) struct State<'a> {
    points: Vec<Point>,
    until: &'a [Until],
    columns: &'a [Column],
    /// No point before this one has a run that waits and may count.
    open: usize,
    progress: Progress,
}

impl<'a> State<'a> {
    /// Nothing of so many points with so many seeds each has begun.
    pub(crate) fn new(
        points: usize,
        seeds: usize,
        until: &'a [Until],
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

    /// The next run to make, as the point's number and the seed's.
    ///
    /// First those that are needed whatever comes of the runs under way; if there are none, one
    /// that may be in vain.
    pub(crate) fn next(&mut self) -> Option<(usize, usize)> {
        while self.points.get_mut(self.open).is_some_and(|point| !point.waits()) {
            self.open += 1;
        }
        let mut perhaps = None;
        for at in self.open..self.points.len() {
            let until = !self.until.is_empty();
            let point = &mut self.points[at];
            if !point.waits() {
                continue;
            }
            if !until || point.begun < (point.judged + 1).max(FEWEST) {
                return Some((at, self.begin(at)));
            }
            perhaps = perhaps.or(Some(at));
        }
        perhaps.map(|at| (at, self.begin(at)))
    }

    fn begin(&mut self, at: usize) -> usize {
        let point = &mut self.points[at];
        point.runs[point.begun] = Run::UnderWay;
        point.begun
    }

    /// A run is done. Whether it was not before.
    pub(crate) fn done(&mut self, point: usize, seed: usize, rows: Vec<Vec<Cell>>) -> bool {
        !matches!(self.end(point, seed, Run::Done(rows)), Run::Done(_))
    }

    /// A run has failed.
    pub(crate) fn failed(&mut self, point: usize, seed: usize, why: String) {
        self.end(point, seed, Run::Failed(why));
    }

    /// What the run was before.
    fn end(&mut self, at: usize, seed: usize, run: Run) -> Run {
        let before = self.points[at].progress();
        let was = std::mem::replace(&mut self.points[at].runs[seed], run);
        self.judge(at);
        let after = self.points[at].progress();
        self.progress.ended = self.progress.ended - before.ended + after.ended;
        self.progress.of = self.progress.of - before.of + after.of;
        was
    }

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

    /// The runs of `point` that count, by the seed's number, each with its rows or why it failed.
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

    /// How far the sweep is.
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

    /// Whether there is a run to begin; moves to it.
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

    /// A point has enough once the first three delays are equal.
    fn until() -> Vec<Until> {
        let column = columns(false).iter().position(|column| column.name == "delay_mean_ns");
        vec![Until::of(None, column.unwrap_or(0), 0.01)]
    }

    fn rows(delay_ns: u64) -> Vec<Vec<Cell>> {
        let columns = columns(false);
        let mut row = vec![Cell::Count(delay_ns); columns.len()];
        row[name_column(&columns)] = Cell::Text("a".into());
        vec![row]
    }

    #[test]
    fn without_an_end_runs_are_begun_in_the_order_of_the_grid() {
        let columns = columns(false);
        let mut state = State::new(2, 2, &[], &columns);
        state.done(0, 1, rows(1));
        let begun: Vec<_> = std::iter::from_fn(|| state.next()).collect();
        assert_eq!(begun, [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(state.progress(), Progress { ended: 1, of: 4 });
    }

    #[test]
    fn runs_that_may_be_in_vain_come_last() {
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
    fn the_first_seeds_that_are_enough_count_in_whatever_order_they_end() {
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
    fn a_failed_run_counts_for_nothing_but_is_told() {
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
