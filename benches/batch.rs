//! 32 decisions at one instant, one by one and as a batch, for every discipline on the structure
//! that "auto" selects.
//!
//! Two schedulers make the same decisions by turns; every batch must equal the single decisions.
//! After each batch a packet arrives for each that left, which is not measured. Prints the median
//! ns and the instructions a decision, the latter by `callgrind` if valgrind is installed.

#![allow(clippy::unwrap_used)]

use millstream::catalogue::{DISCIPLINES, DisciplineRow, DynScheduler};
use millstream::{Departure, Packet};
use std::process::Command;
use std::time::Instant;

mod backlog;
use backlog::{BYTES, SLOT_NS, backlogged, options};

/// The decisions of a batch.
const BATCH: usize = 32;
/// The number of timed batches; the median is printed.
const BATCHES: usize = if cfg!(debug_assertions) { 10 } else { 10_000 };
/// The batches that are counted under valgrind.
const COUNTED: u64 = 100;

/// A scheduler, the time and the departures of its last batch.
struct Subject {
    scheduler: Box<dyn DynScheduler + Send>,
    now_ns: u64,
    sent: Vec<Departure>,
}

impl Subject {
    fn new(row: &DisciplineRow, streams: u32) -> Self {
        let structure = row.auto_structure(&options(0), streams as usize);
        let scheduler = backlogged(row, structure, streams);
        Self { scheduler, now_ns: 1_000, sent: Vec::with_capacity(BATCH) }
    }

    /// Replaces the packets that the last batch sent, and advances time by their transmission.
    fn refill(&mut self) {
        self.now_ns += SLOT_NS * BATCH as u64;
        for departure in self.sent.drain(..) {
            let _ = self.scheduler.enqueue(self.now_ns, departure.stream, Packet::new(BYTES));
        }
    }
}

/// Both ways to decide.
const WAYS: [fn(&mut Subject); 2] = [one_by_one, as_a_batch];

// Not inlined: callgrind counts the instructions of these two by name.
#[inline(never)]
fn one_by_one(subject: &mut Subject) {
    for _ in 0..BATCH {
        let Some(departure) = subject.scheduler.decide(subject.now_ns, &mut ()) else { break };
        subject.sent.push(departure);
    }
}

#[inline(never)]
fn as_a_batch(subject: &mut Subject) {
    subject.scheduler.decide_batch(subject.now_ns, BATCH, &mut (), &mut subject.sent);
}

/// Returns the median times of a decision one by one and in a batch, ns.
fn measure(row: &DisciplineRow, streams: u32) -> (f64, f64) {
    let mut subjects = [Subject::new(row, streams), Subject::new(row, streams)];
    let mut times_ns = [Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES)];
    for number in 0..BATCHES {
        // The first to decide trains the branch predictor for the other.
        for way in [number % 2, 1 - number % 2] {
            let start = Instant::now();
            WAYS[way](&mut subjects[way]);
            times_ns[way].push(start.elapsed().as_nanos());
        }
        assert_eq!(subjects[0].sent, subjects[1].sent, "a batch is not the single decisions");
        subjects.iter_mut().for_each(Subject::refill);
    }
    let [single, batch] = times_ns.map(|mut times_ns| {
        times_ns.sort_unstable();
        // A batch takes far fewer ns than 2⁵³.
        #[allow(clippy::cast_precision_loss)]
        let ns = times_ns[BATCHES / 2] as f64 / BATCH as f64;
        ns
    });
    (single, batch)
}

/// Returns the instructions of a decision in `function`; `None` without valgrind.
fn instructions(function: &str, row: &DisciplineRow, streams: u32) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*::{function}"))
        .arg(std::env::current_exe().ok()?)
        .args(["--count", row.name, &streams.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : "))?.1;
    Some(count.trim().parse::<u64>().ok()? / (COUNTED * BATCH as u64))
}

/// Makes the decisions that valgrind counts.
fn count(row: &DisciplineRow, streams: u32) {
    let mut subjects = [Subject::new(row, streams), Subject::new(row, streams)];
    for _ in 0..COUNTED {
        WAYS.iter().zip(&mut subjects).for_each(|(decide, subject)| decide(subject));
        subjects.iter_mut().for_each(Subject::refill);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--count") {
        let row = DisciplineRow::parse(&arguments[at + 1]).unwrap();
        return count(row, arguments[at + 2].parse().unwrap());
    }
    println!(
        "{:>7} {:<16} {:<12} {:>7} {:>7} {:>6} {:>8} {:>8} {:>6}",
        "streams",
        "discipline",
        "structure",
        "single",
        "batch",
        "ratio",
        "instr.",
        "batch",
        "ratio"
    );
    for streams in [64, 1_024] {
        for row in DISCIPLINES {
            let (single_ns, batch_ns) = measure(row, streams);
            let ratio = batch_ns / single_ns;
            let structure = row.auto_structure(&options(0), streams as usize).name();
            let counted = ["one_by_one", "as_a_batch"].map(|way| instructions(way, row, streams));
            // Counts are far below 2⁵³.
            #[allow(clippy::cast_precision_loss)]
            let counts = match counted {
                [Some(single), Some(batch)] => {
                    format!("{single:>8} {batch:>8} {:>6.2}", batch as f64 / single as f64)
                }
                _ => format!("{:>8} {:>8} {:>6}", "-", "-", "-"),
            };
            println!(
                "{streams:>7} {:<16} {structure:<12} {single_ns:>7.1} {batch_ns:>7.1} {ratio:>6.2} \
                 {counts}",
                row.name
            );
        }
    }
}
