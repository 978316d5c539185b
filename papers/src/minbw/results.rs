//! The results of all runs, stored in a file: runs take minutes, so a check repeats only a few.

use miette::{IntoDiagnostic, miette};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::{io, thread};

use super::network::{CLASSES, Row, SCHEDULERS, run};

/// Offered loads, in hundredths of the links' rate.
pub(crate) const LOADS: [u32; 8] = [30, 62, 70, 80, 90, 100, 120, 138];
pub(crate) const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;
/// Student's t for 90 % confidence with ten runs.
const STUDENT_T: f64 = 1.833;

/// The number of the paper's schedulers, the first of [`SCHEDULERS`].
///
/// They run at every load, the others only at full load.
pub(crate) const PAPER_SCHEDULERS: usize = 3;
const OTHERS_LOAD: u32 = 100;

/// A quantity of a class, by run.
pub(crate) type Quantity = fn(&Row) -> f64;

/// The mean over the seeds, and half of its 90 % confidence interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) half_width: f64,
}

/// All runs, by scheduler, load and class.
pub(crate) struct Results(BTreeMap<(usize, u32, usize), Vec<Row>>);

fn plan() -> Vec<(usize, u32, u64)> {
    let mut plan = Vec::new();
    for scheduler in 0..SCHEDULERS.len() {
        let loads =
            LOADS.into_iter().filter(|load| scheduler < PAPER_SCHEDULERS || *load == OTHERS_LOAD);
        plan.extend(loads.flat_map(|load| SEEDS.map(move |seed| (scheduler, load, seed))));
    }
    plan
}

impl Results {
    /// Runs all experiments, one per core at a time.
    pub(crate) fn measure() -> miette::Result<Self> {
        let plan = Mutex::new(plan());
        let rows = Mutex::new(Vec::new());
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let work = || -> miette::Result<()> {
            loop {
                let next = plan.lock().expect("no thread panics while holding the lock").pop();
                let Some((scheduler, load, seed)) = next else { return Ok(()) };
                let run = run(scheduler, load, seed)?;
                rows.lock().expect("no thread panics while holding the lock").extend(run);
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

    /// Returns the estimate of a quantity.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn estimate(
        &self,
        scheduler: usize,
        load: u32,
        class: usize,
        quantity: Quantity,
    ) -> Estimate {
        let values: Vec<f64> =
            self.0.get(&(scheduler, load, class)).into_iter().flatten().map(quantity).collect();
        let count = values.len().max(2) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Estimate { mean, half_width: STUDENT_T * (squares / (count - 1.0) / count).sqrt() }
    }

    /// Returns whether a class injected any traffic.
    pub(crate) fn injects(&self, scheduler: usize, load: u32, class: usize) -> bool {
        self.0.get(&(scheduler, load, class)).into_iter().flatten().any(|row| row.offered > 0)
    }

    /// Returns the runs as CSV.
    pub(crate) fn write(&self) -> String {
        let mut text = String::from(
            "scheduler,load,seed,class,offered_millionths,got_millionths,mean_ns,p99_ns,max_ns,\
             jitter_ns\n",
        );
        for row in self.0.values().flatten() {
            let (scheduler, class) = (SCHEDULERS[row.scheduler], CLASSES[row.class]);
            let Row { load, seed, offered, throughput, mean_ns, p99_ns, max_ns, jitter_ns, .. } =
                row;
            let _ = writeln!(
                text,
                "{scheduler},{load},{seed},{class},{offered},{throughput},{mean_ns},{p99_ns},\
                 {max_ns},{jitter_ns}"
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
            })
        });
        Ok(Self::of(rows.collect::<miette::Result<_>>()?))
    }

    /// Returns whether a repeated run equals the stored one.
    pub(crate) fn agrees(&self, scheduler: usize, load: u32, seed: u64) -> miette::Result<bool> {
        let kept = |row: &Row| {
            let rows = self.0.get(&(scheduler, load, row.class));
            rows.is_some_and(|rows| rows.contains(row))
        };
        Ok(run(scheduler, load, seed)?.iter().all(kept))
    }
}
