//! The cost of counting a sojourn time, beside the hdrhistogram crate.
//!
//! The peer does more: it grows with the values, saturates, and subtracts histograms. It has no
//! readers in other threads.

// The macros of Criterion make undocumented functions.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use millstream_sync::histogram::SharedHistogram;
use std::hint::black_box;

/// Returns times from 1 µs to 16 ms, in an order that no branch predictor knows.
fn times() -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let time = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (1_000 << (state >> 60)) + (state >> 40 & 0x3ff)
    };
    (0..4_096).map(time).collect()
}

fn record(criterion: &mut Criterion) {
    let times = times();
    let mut group = criterion.benchmark_group("histogram");
    group.throughput(Throughput::Elements(times.len() as u64));
    let shared = SharedHistogram::default();
    group.bench_function("shared", |bench| {
        bench.iter(|| times.iter().for_each(|ns| shared.record(black_box(*ns))));
    });
    // Two digits: 128 buckets per power of two, where `shared` has 32.
    let mut peer = Histogram::<u64>::new_with_bounds(1, 1 << 36, 2).expect("valid bounds");
    group.bench_function("hdrhistogram", |bench| {
        bench.iter(|| times.iter().for_each(|ns| peer.saturating_record(black_box(*ns))));
    });
    group.finish();
}

criterion_group!(benches, record);
criterion_main!(benches);
