//! Times one structure or deadline queue under one workload.

use millstream::catalogue::StructureName;
use millstream::selector::{Backlog, HilqExact, NewHead, Observer, Select, Selector};
use millstream::{
    DualHeap, Dwcs, DwcsOptions, EdfFirst, Head, Heap, Packet, Scan, Scheduler, StreamId,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

use crate::queue::{self, Cffs, Queue, Wheel};
use crate::workload::{Deadlines, Random, SLOT_NS, Work, Workload};

/// The number of samples of a measurement; of 11 samples the second is the tenth percentile.
const SAMPLES: usize = 11;

/// The minimum number of steps of a sample. A sample has at least one step per stream, so that it
/// serves most streams. A debug build measures nothing of use: it only shows that the code runs.
const STEPS: u64 = if cfg!(debug_assertions) { 3_000 } else { 300_000 };

/// Streams × steps of a scan's sample, about a tenth of a second.
const SCAN_WORK: u64 = if cfg!(debug_assertions) { 200_000 } else { 20_000_000 };

/// The structure or queue under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// DWCS on a structure of the engine.
    Structure(StructureName),
    /// The standard library's binary heap, by deadline.
    BinaryHeap,
    /// A circular hierarchical find-first-set queue, as in Eiffel.
    Cffs,
    /// A timing wheel.
    TimingWheel,
}

impl Subject {
    /// The deadline queues.
    pub const QUEUES: [Self; 3] = [Self::BinaryHeap, Self::Cffs, Self::TimingWheel];

    /// Returns the name in the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Structure(structure) => structure.name(),
            Self::BinaryHeap => "binary-heap",
            Self::Cffs => "cffs",
            Self::TimingWheel => "timing-wheel",
        }
    }

    /// Returns the subject called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let queue = Self::QUEUES.into_iter().find(|queue| queue.name() == name);
        queue.or_else(|| StructureName::parse(name).map(Self::Structure))
    }
}

/// The result of a measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measurement {
    /// The step that is measured.
    pub work: Work,
    /// The structure or peer.
    pub structure: String,
    /// Number of streams.
    pub streams: u32,
    /// Missed request periods of the workload, percent.
    pub missed_percent: u32,
    /// The distribution of deadlines.
    #[serde(default)]
    pub deadlines: Deadlines,
    /// Misses charged in a step.
    pub misses: f64,
    /// The median sample, ns a step.
    pub ns: f64,
    /// The tenth percentile of the samples, ns a step.
    pub tenth_ns: f64,
    /// The fastest sample, ns a step.
    pub least_ns: f64,
}

/// Counts missed deadlines.
struct Misses(u64);

impl Observer for Misses {
    #[inline]
    fn missed(&mut self, _: StreamId, _: u64, missed: u64, _: u64) {
        self.0 += missed;
    }
}

/// Times `subject` under `workload`. Returns `None` if the structure does not support DWCS or the
/// queue does not support the workload: deadline queues only make decisions without misses.
#[must_use]
pub fn measure(subject: Subject, workload: Workload) -> Option<Measurement> {
    let mut misses = Misses(0);
    let dwcs = Dwcs::<EdfFirst>::default();
    let samples = match subject {
        Subject::Structure(StructureName::HilqExact) => {
            run(HilqExact::new(DwcsOptions::default()), workload, &mut misses)
        }
        Subject::Structure(StructureName::Heap) => {
            run(Selector::new(dwcs, Heap::default()), workload, &mut misses)
        }
        Subject::Structure(StructureName::DualHeap) => {
            run(Selector::new(dwcs, DualHeap::default()), workload, &mut misses)
        }
        Subject::Structure(StructureName::Scan) => {
            run_for(scan_steps, Selector::new(dwcs, Scan::default()), workload, &mut misses)
        }
        Subject::Structure(_) => None,
        Subject::BinaryHeap => run_queue::<queue::Heap>(workload),
        Subject::Cffs => run_queue::<Cffs>(workload),
        Subject::TimingWheel => run_queue::<Wheel>(workload),
    }?;
    let (mut sorted, steps) = samples;
    sorted.sort_by(f64::total_cmp);
    // Counts of steps are far below 2⁵³.
    #[allow(clippy::cast_precision_loss)]
    let misses = misses.0 as f64 / (steps * SAMPLES as u64) as f64;
    Some(Measurement {
        work: workload.work,
        structure: subject.name().into(),
        streams: workload.streams,
        missed_percent: workload.missed_percent,
        deadlines: workload.deadlines,
        misses,
        ns: sorted[SAMPLES / 2],
        tenth_ns: sorted[SAMPLES / 10],
        least_ns: sorted[0],
    })
}

/// Samples in ns a step, and the steps of one sample.
type Samples = (Vec<f64>, u64);

fn steps(streams: u64) -> u64 {
    streams.max(STEPS)
}

/// Returns the steps of a scan's sample: fewer for many streams, because they slow a step.
fn scan_steps(streams: u64) -> u64 {
    streams.max((SCAN_WORK / streams.max(1)).min(STEPS))
}

/// Times `SAMPLES` runs of `steps` steps, after twice as many steps as warm-up.
fn sample(steps: u64, misses: &mut Misses, mut step: impl FnMut(&mut Misses)) -> Vec<f64> {
    (0..steps * 2).for_each(|_| step(misses));
    misses.0 = 0;
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        (0..steps).for_each(|_| step(misses));
        // Samples take seconds.
        #[allow(clippy::cast_precision_loss)]
        samples.push(start.elapsed().as_nanos() as f64 / steps as f64);
    }
    samples
}

fn run<S: Select<Stamp = ()>>(
    selector: S,
    workload: Workload,
    misses: &mut Misses,
) -> Option<Samples> {
    run_for(steps, selector, workload, misses)
}

fn run_for<S: Select<Stamp = ()>>(
    steps: impl Fn(u64) -> u64,
    mut selector: S,
    workload: Workload,
    misses: &mut Misses,
) -> Option<Samples> {
    let steps = steps(workload.streams.into());
    let contracts = workload.contracts().ok()?;
    if workload.work == Work::Decision {
        for contract in &contracts {
            selector.add_stream(contract).ok()?;
        }
        return Some((decisions(selector, steps, misses), steps));
    }
    let mut scheduler = Scheduler::over(selector);
    for contract in contracts {
        scheduler.add_stream(contract).ok()?;
    }
    Some((packets(scheduler, workload, steps, misses), steps))
}

/// Streams that never become idle and never drop a packet.
struct Endless;

impl Backlog<()> for Endless {
    fn drop_head(
        &mut self,
        _: StreamId,
        _: u64,
        _: Option<u64>,
        _: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<()>> {
        None
    }
}

fn decisions<S: Select<Stamp = ()>>(mut selector: S, steps: u64, misses: &mut Misses) -> Vec<f64> {
    let head = |arrival_ns| NewHead { head: Head { arrival_ns, bytes: 64 }, stamp: (), open: true };
    for stream in 0..u32::try_from(selector.streams()).unwrap_or(0) {
        selector.became_backlogged(StreamId(stream), head(0));
    }
    let mut now_ns = 0;
    sample(steps, misses, |misses| {
        if let Some(stream) = selector.select(now_ns, &mut Endless, misses) {
            selector.served(stream, now_ns);
            selector.head_departed(stream, Some(head(now_ns)));
        }
        now_ns += SLOT_NS;
    })
}

/// Times the decisions of a deadline queue: each removes the first stream and inserts it a period
/// later.
fn run_queue<Q: Queue>(workload: Workload) -> Option<Samples> {
    if workload.work != Work::Decision || workload.missed_percent > 0 {
        return None;
    }
    let all: Vec<_> = workload.all().collect();
    let horizon_ns = all.iter().map(|stream| stream.period_ns).max()?;
    // One bucket for each packet time, up to the longest period.
    let mut queue = Q::new(all.len(), horizon_ns, SLOT_NS);
    (0..).zip(&all).for_each(|(number, stream)| queue.push(number, stream.first_ns));
    let mut now_ns = 0;
    let steps = steps(workload.streams.into());
    let samples = sample(steps, &mut Misses(0), |_| {
        if let Some((deadline_ns, stream)) = queue.pop() {
            queue.push(stream, deadline_ns.max(now_ns) + all[stream as usize].period_ns);
        }
        now_ns += SLOT_NS;
    });
    Some((samples, steps))
}

fn packets<S: Select>(
    mut scheduler: Scheduler<S>,
    workload: Workload,
    steps: u64,
    misses: &mut Misses,
) -> Vec<f64> {
    let packet = Packet::new(64);
    let streams = u64::from(workload.streams);
    let stream = |number: u64| StreamId(u32::try_from(number).unwrap_or(0));
    let sparse = workload.work == Work::Sparse;
    let waiting = if sparse { (streams / 16).max(1) } else { streams * 2 };
    // A sparse backlog is spread over the streams; a full one has two packets per stream.
    for number in 0..waiting {
        let to = if sparse { stream(number * 16 % streams) } else { stream(number % streams) };
        let _ = scheduler.enqueue(0, to, packet);
    }
    let mut random = Random(2);
    let mut now_ns = 0;
    sample(steps, misses, |misses| {
        let sent = scheduler.decide(now_ns, misses);
        now_ns += SLOT_NS;
        let to = match sent {
            Some(sent) if !sparse => sent.stream,
            _ => stream(random.below(streams)),
        };
        let _ = scheduler.enqueue(now_ns, to, packet);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HILQ_EXACT: Subject = Subject::Structure(StructureName::HilqExact);

    fn decisions(streams: u32, deadlines: Deadlines, missed_percent: u32) -> Workload {
        Workload { work: Work::Decision, streams, deadlines, missed_percent }
    }

    #[test]
    fn workloads_miss_the_requested_percentage() {
        for deadlines in [Deadlines::Spread, Deadlines::Tied] {
            for (missed_percent, misses) in [(0, 0.0), (10, 0.11), (50, 1.0), (63, 1.7)] {
                let workload = decisions(256, deadlines, missed_percent);
                let measured = measure(HILQ_EXACT, workload).expect("HILQ-exact supports DWCS");
                assert!((measured.misses - misses).abs() < 0.08 * (1.0 + misses), "{measured:?}");
                assert!(measured.ns >= measured.tenth_ns && measured.tenth_ns >= measured.least_ns);
            }
        }
        let workload = Workload { work: Work::Packet, ..decisions(4, Deadlines::Spread, 0) };
        assert!(measure(Subject::Structure(StructureName::Ring), workload).is_none());
    }

    #[test]
    fn deadline_queues_are_measured_without_misses() {
        for queue in Subject::QUEUES {
            assert_eq!(Subject::parse(queue.name()), Some(queue));
            assert!(measure(queue, decisions(100, Deadlines::Spread, 0)).is_some());
            assert!(measure(queue, decisions(100, Deadlines::Spread, 50)).is_none());
        }
        assert_eq!(Subject::parse("hilq-exact"), Some(HILQ_EXACT));
    }
}
