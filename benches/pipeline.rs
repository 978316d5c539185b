//! A pipeline of threads against the same scheduler called by one thread.
//!
//! `cargo bench -p millstream-benches --bench pipeline`. Rings are faster only if producers have
//! their own cores.
#![allow(missing_docs, clippy::unwrap_used)]

use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::selector::HilqExact;
use millstream::{Contract, DwcsOptions, Packet, Scheduler, StreamId};
use millstream_pipeline::{Monotonic, OfferError, Pipeline, Sizes};

const PACKETS: u32 = 1_000_000;
const STREAMS: u32 = 1024;

type Engine = Scheduler<HilqExact>;

fn engine() -> Engine {
    let mut scheduler = Scheduler::hilq_exact(DwcsOptions::default());
    for number in 0..STREAMS {
        let period_ns = 1_000_000 + u64::from(number) * 977;
        scheduler.add_stream(Contract::new().period_ns(period_ns).unwrap().queue(1024)).unwrap();
    }
    scheduler
}

/// Runs one thread: batches of arrivals, then of decisions.
fn single_thread(mut scheduler: Engine) {
    for batch in 0..PACKETS / 32 {
        let now_ns = u64::from(batch) * 32 * 100;
        for number in batch * 32..(batch + 1) * 32 {
            scheduler.enqueue(now_ns, StreamId(number % STREAMS), Packet::new(100)).unwrap();
        }
        for _ in 0..32 {
            scheduler.decide(now_ns, &mut ()).unwrap();
        }
    }
}

/// Runs `producers` producers, and a thread for each stage.
fn run_threads(scheduler: Engine, producers: u32) {
    let pipeline = Pipeline::new(Box::new(scheduler), producers as usize, Sizes::default());
    let Pipeline { producers: offering, scheduling, transmitter, collector, .. } = pipeline;
    thread::scope(|threads| {
        for (first, mut producer) in (0..producers).zip(offering) {
            threads.spawn(move || {
                for number in (first..PACKETS).step_by(producers as usize) {
                    let stream = StreamId(number % STREAMS);
                    while producer.offer(stream, Packet::new(100)) == Err(OfferError::Full) {
                        producer.wait_for_room().unwrap();
                    }
                }
            });
        }
        threads.spawn(|| transmitter.run(|_| ()));
        threads.spawn(|| collector.run(|_| ()));
        scheduling.run(&mut Monotonic::default());
    });
}

fn pipeline(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pipeline");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(PACKETS)));
    group.bench_function("one thread", |bencher| {
        bencher.iter_with_setup(engine, single_thread);
    });
    for producers in [1, 2, 4] {
        group.bench_with_input(
            BenchmarkId::new("producers", producers),
            &producers,
            |bencher, &producers| {
                bencher.iter_with_setup(engine, |scheduler| run_threads(scheduler, producers));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
