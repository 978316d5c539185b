//! The cost of a packet in flow queues with CoDel: one push and one pull, by the number of flows.
//!
//! Each flow has four packets waiting. `one queue` is CoDel without flows.

// The macros of Criterion make undocumented functions.
#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use millstream::Packet;
use millstream::aqm::Ecn;
use millstream::flow_queue::{FlowOptions, FlowPacket, FlowQueues};
use std::hint::black_box;

/// The packets that wait in each flow.
const WAITING: u32 = 4;

/// Returns a hash that spreads flows over the buckets.
fn hash(flow: u32) -> u32 {
    flow.wrapping_mul(0x9e37_79b1)
}

fn arrival(number: u64, arrival_ns: u64) -> FlowPacket {
    let packet = Packet { bytes: 1_000 + (number % 500) as u32, tag: number };
    FlowPacket { packet, number, arrival_ns, ecn: Ecn::NotCapable }
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flows");
    for (name, buckets, count) in
        [("one queue", 1, 1), ("fq-codel", 1_024, 16), ("fq-codel", 1_024, 1_024)]
    {
        let mut flows = FlowQueues::new(FlowOptions { buckets, ..FlowOptions::default() });
        let (mut number, mut now_ns) = (0, 0);
        for flow in (0..WAITING).flat_map(|_| 0..count) {
            flows.push(hash(flow), arrival(number, now_ns), &mut |_| {});
            number += 1;
        }
        let mut flow = 0;
        group.bench_function(BenchmarkId::new(name, count), |bench| {
            bench.iter(|| {
                // A link of 10 Gbit/s: packets wait for less than the target.
                now_ns += 1_000;
                let pulled = flows.pull(now_ns, &mut |_| {});
                flow = (flow + 7) % count;
                number += 1;
                flows.push(hash(flow), arrival(number, now_ns), &mut |_| {});
                black_box(pulled)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
