//! Times one structure under one workload.

use millstream::catalogue::StructureName;
use millstream::selector::{Backlog, HilqExact, NewHead, Observer, Select, Selector};
use millstream::{
    DualHeap, Dwcs, DwcsOptions, EdfFirst, Head, Heap, Packet, Scan, Scheduler, StreamId,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

use crate::workload::{Random, SLOT_NS, Work, Workload};

/// Samples of a measurement.
const SAMPLES: usize = 7;

/// Steps of a sample: at least as many as streams, so that it visits most of them.
const STEPS: u64 = 300_000;

/// What was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measurement {
    /// What one step is.
    pub work: Work,
    /// On which structure, or which peer.
    pub structure: String,
    /// How many streams.
    pub streams: u32,
    /// Which part of request periods was to be missed, percent.
    pub missed_percent: u32,
    /// Misses that were charged in a step.
    pub misses: f64,
    /// The median sample, ns a step.
    pub ns: f64,
    /// The fastest sample, ns a step.
    pub least_ns: f64,
}

/// Counts misses.
struct Misses(u64);

impl Observer for Misses {
    #[inline]
    fn missed(&mut self, _: StreamId, _: u64, missed: u64, _: u64) {
        self.0 += missed;
    }
}

/// Times `structure` under `workload`; `None` if it does not hold DWCS, or not for this work.
#[must_use]
pub fn measure(structure: StructureName, workload: Workload) -> Option<Measurement> {
    let mut misses = Misses(0);
    let dwcs = Dwcs::<EdfFirst>::default();
    let samples = match structure {
        StructureName::HilqExact => {
            run(HilqExact::new(DwcsOptions::default()), workload, &mut misses)
        }
        StructureName::Heap => run(Selector::new(dwcs, Heap::default()), workload, &mut misses),
        StructureName::DualHeap => {
            run(Selector::new(dwcs, DualHeap::default()), workload, &mut misses)
        }
        StructureName::Scan => run(Selector::new(dwcs, Scan::default()), workload, &mut misses),
        _ => None,
    }?;
    let (mut sorted, steps) = samples;
    sorted.sort_by(f64::total_cmp);
    // Counts of steps are far below 2⁵³.
    #[allow(clippy::cast_precision_loss)]
    let misses = misses.0 as f64 / (steps * SAMPLES as u64) as f64;
    Some(Measurement {
        work: workload.work,
        structure: structure.name().into(),
        streams: workload.streams,
        missed_percent: workload.missed_percent,
        misses,
        ns: sorted[SAMPLES / 2],
        least_ns: sorted[0],
    })
}

/// Samples, ns a step, and the steps of one.
type Samples = (Vec<f64>, u64);

fn steps(streams: u64) -> u64 {
    streams.max(STEPS)
}

/// Runs `step` so often, after as many to warm up, and times it.
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
    mut selector: S,
    workload: Workload,
    misses: &mut Misses,
) -> Option<Samples> {
    let contracts = workload.contracts().ok()?;
    if workload.work == Work::Decision {
        for contract in &contracts {
            selector.add_stream(contract).ok()?;
        }
        return Some(decisions(selector, misses));
    }
    let mut scheduler = Scheduler::over(selector);
    for contract in contracts {
        scheduler.add_stream(contract).ok()?;
    }
    Some(packets(scheduler, workload, misses))
}

/// Streams that never run out, and drop nothing.
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

fn decisions<S: Select<Stamp = ()>>(mut selector: S, misses: &mut Misses) -> Samples {
    let head = |arrival_ns| NewHead { head: Head { arrival_ns, bytes: 64 }, stamp: (), open: true };
    for stream in 0..u32::try_from(selector.streams()).unwrap_or(0) {
        selector.became_backlogged(StreamId(stream), head(0));
    }
    let mut now_ns = 0;
    let steps = steps(selector.streams() as u64);
    let samples = sample(steps, misses, |misses| {
        if let Some(stream) = selector.select(now_ns, &mut Endless, misses) {
            selector.served(stream, now_ns);
            selector.follow(stream, Some(head(now_ns)));
        }
        now_ns += SLOT_NS;
    });
    (samples, steps)
}

fn packets<S: Select>(
    mut scheduler: Scheduler<S>,
    workload: Workload,
    misses: &mut Misses,
) -> Samples {
    let packet = Packet::new(64);
    let streams = u64::from(workload.streams);
    let stream = |number: u64| StreamId(u32::try_from(number).unwrap_or(0));
    let sparse = workload.work == Work::Sparse;
    let waiting = if sparse { (streams / 16).max(1) } else { streams * 2 };
    // Sparse ones are spread; where all are backlogged each has two.
    for number in 0..waiting {
        let to = if sparse { stream(number * 16 % streams) } else { stream(number % streams) };
        let _ = scheduler.enqueue(0, to, packet);
    }
    let mut random = Random(2);
    let mut now_ns = 0;
    let steps = steps(streams);
    let samples = sample(steps, misses, |misses| {
        let sent = scheduler.decide(now_ns, misses);
        now_ns += SLOT_NS;
        let to = match sent {
            Some(sent) if !sparse => sent.stream,
            _ => stream(random.below(streams)),
        };
        let _ = scheduler.enqueue(now_ns, to, packet);
    });
    (samples, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_miss_what_they_say() {
        for (missed_percent, misses) in [(0, 0.0), (10, 0.11), (50, 1.0), (63, 1.7)] {
            let workload = Workload { work: Work::Decision, streams: 256, missed_percent };
            let measured = measure(StructureName::HilqExact, workload).expect("it holds DWCS");
            assert!((measured.misses - misses).abs() < 0.08 * (1.0 + misses), "{measured:?}");
            assert!(measured.ns >= measured.least_ns);
        }
        let workload = Workload { work: Work::Packet, streams: 4, missed_percent: 0 };
        assert!(measure(StructureName::Ring, workload).is_none());
    }
}
