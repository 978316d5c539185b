//! What a decision cycle costs: one packet leaves and one arrives, every stream backlogged.
//!
//! DWCS with mixed windows on a link that is overloaded a little, so that deadlines are missed as
//! in use. Figures are ns a decision cycle; compare structures in one run, never across machines.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::catalogue::{DISCIPLINES, DynScheduler, Options, StructureName};
use millstream::{Contract, Packet, StreamId, Window};
use std::time::Duration;

const SLOT_NS: u64 = 1000;

/// A scheduler with two packets waiting in each of `streams` streams.
fn backlogged(
    discipline: usize,
    structure: StructureName,
    streams: u32,
) -> Box<dyn DynScheduler + Send> {
    let mut scheduler = DISCIPLINES[discipline].build(&Options::default(), structure);
    for stream in 0..streams {
        let of = 2 + stream % 9;
        let lost = stream / 9 % of;
        // Packets come at the link's rate; windows let a part of them miss.
        let period_ns = u64::from(streams) * SLOT_NS * u64::from(7 + stream % 3) / 8;
        let contract = Contract::new()
            .period_ns(period_ns.max(1))
            .unwrap()
            .window(Window::new(lost, of).unwrap())
            .priority(stream % 8);
        scheduler.add_stream(contract).unwrap();
    }
    for stream in 0..streams {
        for _ in 0..2 {
            let now_ns = u64::from(stream) % 64;
            scheduler.enqueue(now_ns, StreamId(stream), Packet::new(1500)).unwrap();
        }
    }
    scheduler
}

fn decisions(criterion: &mut Criterion) {
    for (number, row) in DISCIPLINES.iter().enumerate().filter(|(_, row)| row.name == "dwcs") {
        let mut group = criterion.benchmark_group(row.name);
        group.throughput(Throughput::Elements(1));
        for exponent in [2, 4, 6, 8, 10, 12, 14, 16, 18, 20] {
            let streams = 1u32 << exponent;
            for structure in row.structures {
                // A scan of a million streams takes milliseconds a decision: up to 2^16 is enough.
                if *structure == StructureName::Scan && exponent > 16 {
                    continue;
                }
                let mut scheduler = backlogged(number, *structure, streams);
                let mut now_ns = 1000;
                let id = BenchmarkId::new(structure.name(), streams);
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        let departure = scheduler.decide(now_ns, &mut ()).unwrap();
                        now_ns += SLOT_NS;
                        let _ = scheduler.enqueue(now_ns, departure.stream, Packet::new(1500));
                        departure.packet
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700));
    targets = decisions
}
criterion_main!(benches);
