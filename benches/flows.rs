//! The cost of a packet in flow queues: one push and one pull, by queue management and number of
//! flows.
//!
//! Each flow has four packets waiting. `one queue` is CoDel without flows. Flows of `by host` are
//! of 16 hosts. `standing` is a link of 100 Mbit/s, where packets wait for longer than the targets
//! and some are dropped; in the others, they wait for less.

// The macros of Criterion make undocumented functions.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use millstream::Packet;
use millstream::aqm::cobalt::CobaltOptions;
use millstream::aqm::codel::CodelOptions;
use millstream::aqm::dual_pi2::DualPi2Options;
use millstream::aqm::pie::PieOptions;
use millstream::aqm::red::RedOptions;
use millstream::aqm::{Aqm, Ecn};
use millstream::flow_queue::{Flow, FlowOptions, FlowQueues, HostFairness};
use std::hint::black_box;

/// The packets that wait in each flow.
const WAITING: u32 = 4;
/// The bits of a flow's number that are its host.
const HOSTS: u32 = 15;

/// Returns the flow of a number, with a hash that spreads flows over the buckets.
fn flow(number: u32) -> Flow {
    let hash = number.wrapping_mul(0x9e37_79b1);
    Flow { hash, host: number & HOSTS, ecn: Ecn::NotCapable }
}

fn packet(number: u64) -> Packet {
    Packet { bytes: 1_000 + (number % 500) as u32, tag: number }
}

fn packets(criterion: &mut Criterion) {
    let default = FlowOptions::default();
    let with = |aqm| FlowOptions { aqm, ..default };
    let mut group = criterion.benchmark_group("flows");
    for (name, options, flows, gap_ns) in [
        ("one queue", FlowOptions { buckets: 1, ..default }, 1, 1_000),
        ("fq-codel", default, 16, 1_000),
        ("none", with(Aqm::None), 1_024, 1_000),
        ("fq-codel", default, 1_024, 1_000),
        ("fq-codel standing", with(Aqm::Codel(CodelOptions::default())), 1_024, 100_000),
        ("pie", with(Aqm::Pie(PieOptions::default())), 1_024, 1_000),
        ("pie standing", with(Aqm::Pie(PieOptions::default())), 1_024, 100_000),
        ("red", with(Aqm::Red(RedOptions::default())), 1_024, 1_000),
        ("cobalt", with(Aqm::Cobalt(CobaltOptions::default())), 1_024, 1_000),
        ("cobalt standing", with(Aqm::Cobalt(CobaltOptions::default())), 1_024, 100_000),
        ("dualpi2", with(Aqm::DualPi2(DualPi2Options::default())), 1_024, 1_000),
        ("by host", FlowOptions { hosts: HostFairness::ByHost, ..default }, 1_024, 1_000),
    ] {
        let mut queues = FlowQueues::new(options);
        let (mut number, mut now_ns) = (0, 0);
        for of in (0..WAITING).flat_map(|_| 0..flows) {
            queues.push(now_ns, flow(of), packet(number), number, &mut |_, _| {});
            number += 1;
        }
        let mut of = 0;
        group.bench_function(BenchmarkId::new(name, flows), |bench| {
            bench.iter(|| {
                now_ns += gap_ns;
                let pulled = queues.pull(now_ns, &mut |_, _| {});
                of = (of + 7) % flows;
                number += 1;
                queues.push(now_ns, flow(of), packet(number), number, &mut |_, _| {});
                black_box(pulled)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
