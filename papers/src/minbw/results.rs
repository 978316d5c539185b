//! The results of all runs, stored in a file: runs take minutes, so a check repeats only a few.

use miette::{IntoDiagnostic, miette};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Instant;
use std::{io, thread};

use super::interval;
use super::network::{CLASSES, Row, SCHEDULERS, run, start_of};
use crate::claim::Estimate;

const HEAD: &str = "scheduler,load,seed,class,offered_millionths,got_millionths,mean_ns,p99_ns,\
                    max_ns,jitter_ns,first_half_millionths,second_half_millionths,\
                    first_half_mean_ns,second_half_mean_ns,truncated_us,start_packets,\
                    start_latency_sum_ns\n";

/// Offered loads in hundredths of the links' rate, and the number of seeds of each.
///
/// Table II goes from 61.9 to 138.1. Most statements are judged at full load, which has most seeds.
pub(crate) const PLAN: [(u32, u64); 4] = [(77, 3), (93, 3), (FULL_LOAD, 4), (138, 3)];
pub(crate) const LOADS: [u32; PLAN.len()] = {
    let mut loads = [0; PLAN.len()];
    let mut at = 0;
    while at < loads.len() {
        loads[at] = PLAN[at].0;
        at += 1;
    }
    loads
};
/// Confidence of the intervals in tables and figures, as in the paper.
const SHOWN_CONFIDENCE: f64 = 0.9;

/// The number of the paper's schedulers, the first of [`SCHEDULERS`].
pub(crate) const PAPER_SCHEDULERS: usize = 3;
pub(crate) const FULL_LOAD: u32 = 100;

/// A quantity of a class, by run.
pub(crate) type Quantity = fn(&Row) -> f64;

/// A quantity of a class under a scheduler at a load.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) scheduler: usize,
    pub(crate) load: u32,
    pub(crate) class: usize,
    pub(crate) quantity: Quantity,
}

/// All runs, by scheduler, load and class.
///
/// A file may lack planned runs: statements about them are not judged.
pub(crate) struct Results(BTreeMap<(usize, u32, usize), Vec<Row>>);

/// Returns the runs in reverse order of execution, by seed, so that all loads progress.
fn plan() -> Vec<(usize, u32, u64)> {
    let mut plan = Vec::new();
    for scheduler in 0..PAPER_SCHEDULERS {
        for (load, seeds) in PLAN {
            plan.extend((1..=seeds).map(|seed| (scheduler, load, seed)));
        }
    }
    plan.sort_unstable_by_key(|(scheduler, load, seed)| (Reverse(*seed), *load, *scheduler));
    plan
}

impl Results {
    /// Runs all experiments, one per core at a time.
    pub(crate) fn measure() -> miette::Result<Self> {
        let plan = plan();
        let (count, started) = (plan.len(), Instant::now());
        let plan = Mutex::new(plan);
        let rows = Mutex::new(Vec::new());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let work = || -> miette::Result<()> {
            loop {
                let next = plan.lock().expect("no thread panics while holding the lock").pop();
                let Some((scheduler, load, seed)) = next else { return Ok(()) };
                let run = run(scheduler, load, seed)?;
                let mut rows = rows.lock().expect("no thread panics while holding the lock");
                rows.extend(run);
                let done = rows.len() / CLASSES.len();
                eprintln!("minbw: run {done} of {count} ({} s)", started.elapsed().as_secs());
            }
        };
        thread::scope(|threads| {
            let working: Vec<_> = (0..cores).map(|_| threads.spawn(work)).collect();
            working.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| miette!("a run panicked")).flatten()
            })
        })?;
        Ok(Self::of(rows.into_inner().expect("no thread panics while holding the lock")))
    }

    fn of(rows: Vec<Row>) -> Self {
        let mut results = BTreeMap::<_, Vec<Row>>::new();
        for row in rows {
            results.entry((row.scheduler, row.load, row.class)).or_default().push(row);
        }
        results.values_mut().for_each(|rows| rows.sort_unstable_by_key(|row| row.seed));
        Self(results)
    }

    /// Returns the planned loads at which each of the paper's schedulers has at least two runs.
    pub(crate) fn loads(&self) -> Vec<u32> {
        let has_runs = |load: &u32| {
            (0..PAPER_SCHEDULERS).all(|scheduler| self.rows(scheduler, *load, 0).len() > 1)
        };
        LOADS.into_iter().filter(has_runs).collect()
    }

    /// Returns the rows of a class in order of seeds.
    pub(crate) fn rows(&self, scheduler: usize, load: u32, class: usize) -> &[Row] {
        self.0.get(&(scheduler, load, class)).map_or(&[], Vec::as_slice)
    }

    /// Returns a quantity of each run, by seed.
    fn by_seed(&self, of: Point) -> impl Iterator<Item = (u64, f64)> {
        let rows = self.rows(of.scheduler, of.load, of.class);
        rows.iter().map(move |row| (row.seed, (of.quantity)(row)))
    }

    /// Returns the mean of a quantity over the seeds, with its interval at [`SHOWN_CONFIDENCE`].
    pub(crate) fn estimate(&self, of: Point) -> Estimate {
        self.mean(of, SHOWN_CONFIDENCE)
    }

    /// Returns the mean of a quantity over the seeds, with its interval at `confidence`.
    pub(crate) fn mean(&self, of: Point, confidence: f64) -> Estimate {
        let values: Vec<f64> = self.by_seed(of).map(|(_, value)| value).collect();
        interval::mean(&values, confidence)
    }

    /// Returns the mean difference of runs with equal seeds, `one` − `other`, in % of `other`'s
    /// mean over those seeds, with its interval at `confidence`.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn paired(&self, one: Point, other: Point, confidence: f64) -> Estimate {
        let others: BTreeMap<u64, f64> = self.by_seed(other).collect();
        let pairs: Vec<(f64, f64)> = self
            .by_seed(one)
            .filter_map(|(seed, value)| Some((value, *others.get(&seed)?)))
            .collect();
        let base = pairs.iter().map(|pair| pair.1).sum::<f64>() / pairs.len() as f64;
        let differences: Vec<f64> =
            pairs.iter().map(|(one, other)| 100.0 * (one - other) / base).collect();
        interval::mean(&differences, confidence)
    }

    /// Returns whether a class injected any traffic.
    pub(crate) fn injects(&self, scheduler: usize, load: u32, class: usize) -> bool {
        self.0.get(&(scheduler, load, class)).into_iter().flatten().any(|row| row.offered > 0)
    }

    /// Returns the runs as CSV.
    pub(crate) fn write(&self) -> String {
        let mut text = String::from(HEAD);
        for row in self.0.values().flatten() {
            let (scheduler, class) = (SCHEDULERS[row.scheduler], CLASSES[row.class]);
            let Row { load, seed, offered, throughput, mean_ns, p99_ns, max_ns, jitter_ns, .. } =
                row;
            let [first, second] = row.half_throughputs;
            let [first_ns, second_ns] = row.half_means_ns;
            let truncated_us = row.truncated_us.map_or(String::new(), |us| us.to_string());
            let (packets, sum_ns) = row.start;
            let _ = writeln!(
                text,
                "{scheduler},{load},{seed},{class},{offered},{throughput},{mean_ns},{p99_ns},\
                 {max_ns},{jitter_ns},{first},{second},{first_ns},{second_ns},{truncated_us},\
                 {packets},{sum_ns}"
            );
        }
        text
    }

    /// Reads the runs from CSV.
    pub(crate) fn read(text: impl io::Read) -> miette::Result<Self> {
        let mut reader = csv::Reader::from_reader(text);
        let position = |names: &[&str], name: &str| {
            names.iter().position(|known| *known == name).ok_or_else(|| miette!("unknown {name}"))
        };
        let rows = reader.records().map(|record| {
            let record = record.into_diagnostic()?;
            let field = |at: usize| record.get(at).unwrap_or_default();
            let number = |at: usize| field(at).parse::<u64>().into_diagnostic();
            let truncated_us = if field(14).is_empty() { None } else { Some(number(14)?) };
            Ok(Row {
                scheduler: position(&SCHEDULERS, field(0))?,
                load: u32::try_from(number(1)?).into_diagnostic()?,
                seed: number(2)?,
                class: position(&CLASSES, field(3))?,
                offered: number(4)?,
                throughput: number(5)?,
                mean_ns: number(6)?,
                p99_ns: number(7)?,
                max_ns: number(8)?,
                jitter_ns: number(9)?,
                half_throughputs: [number(10)?, number(11)?],
                half_means_ns: [number(12)?, number(13)?],
                truncated_us,
                start: (number(15)?, field(16).parse().into_diagnostic()?),
            })
        });
        Ok(Self::of(rows.collect::<miette::Result<_>>()?))
    }

    /// Returns whether the repeated start of a run equals the stored one.
    pub(crate) fn agrees(&self, scheduler: usize, load: u32, seed: u64) -> miette::Result<bool> {
        let again = start_of(scheduler, load, seed)?;
        Ok(again.into_iter().enumerate().all(|(class, start)| {
            let rows = self.rows(scheduler, load, class);
            rows.iter().any(|row| row.seed == seed && row.start == start)
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Point, Results, Row};
    use crate::claim::Estimate;

    /// Returns a row of the first class whose mean latency is `mean_ns`.
    fn row(scheduler: usize, seed: u64, mean_ns: u64) -> Row {
        Row {
            scheduler,
            load: 100,
            seed,
            class: 0,
            offered: 20,
            throughput: 19,
            mean_ns,
            p99_ns: 3,
            max_ns: 4,
            jitter_ns: 5,
            half_throughputs: [18, 20],
            half_means_ns: [6, 7],
            truncated_us: (seed != 2).then_some(2_500),
            start: (8, 9),
        }
    }

    fn latency(scheduler: usize) -> Point {
        Point {
            scheduler,
            load: 100,
            class: 0,
            quantity: |row| f64::from(u32::try_from(row.mean_ns).unwrap_or(u32::MAX)),
        }
    }

    #[test]
    fn csv_is_read_as_it_was_written() {
        let rows = [row(0, 1, 10), row(0, 2, 20), row(1, 1, 30)];
        let results = Results::of(rows.to_vec());
        let text = results.write();
        let again = Results::read(text.as_bytes()).unwrap();
        assert_eq!(again.rows(0, 100, 0), &rows[..2]);
        assert_eq!(again.rows(1, 100, 0), &rows[2..]);
        assert!(again.rows(2, 100, 0).is_empty());
        assert_eq!(again.write(), text);
    }

    #[test]
    fn pairs_have_equal_seeds() {
        // Seeds 1 and 2 are common: differences of 10 each, 50 % of the others' mean of 20.
        let rows = [row(0, 1, 20), row(0, 2, 40), row(0, 3, 900), row(1, 1, 10), row(1, 2, 30)];
        let results = Results::of(rows.to_vec());
        assert_eq!(results.paired(latency(0), latency(1), 0.95), Estimate::exact(50.0));
        let mean = results.mean(latency(1), 0.95);
        // t is 12.706 with one degree of freedom; the standard error is 10.
        assert!((mean.value - 20.0).abs() < 1e-9 && (mean.high - 147.06).abs() < 0.01, "{mean:?}");
    }
}
