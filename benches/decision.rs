//! The cost of a decision cycle: one packet leaves and one arrives, and every stream is backlogged.
//!
//! `dwcs`: every structure from 4 to 1,048,576 streams, with mixed windows on a slightly overloaded
//! link, so that deadlines are missed. `disciplines`: each on the structure that "auto" selects.
//! `tree`: three levels. Results are ns per decision cycle; compare them only within one run.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use millstream::catalogue::{DISCIPLINES, DisciplineRow, DynScheduler, StructureName};
use millstream::{ClassId, Contract, Packet, Tree};
use std::time::Duration;

mod backlog;
use backlog::{BYTES, SLOT_NS, backlogged, contract, fill, options};

fn measure(
    group: &mut BenchmarkGroup<WallTime>,
    id: BenchmarkId,
    scheduler: &mut dyn DynScheduler,
) {
    let mut now_ns = 1000;
    group.throughput(Throughput::Elements(1));
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            let departure = scheduler.decide(now_ns, &mut ()).unwrap();
            now_ns += SLOT_NS;
            let _ = scheduler.enqueue(now_ns, departure.stream, Packet::new(BYTES));
            departure.packet
        });
    });
}

fn structures(criterion: &mut Criterion) {
    let row = DisciplineRow::parse("dwcs").unwrap();
    let mut group = criterion.benchmark_group(row.name);
    for exponent in [2, 4, 6, 8, 10, 12, 14, 16, 18, 20] {
        let streams = 1u32 << exponent;
        for structure in row.structures(&options(0)) {
            // A scan of a million streams takes milliseconds per decision: 2^16 is the limit.
            if structure == StructureName::Scan && exponent > 16 {
                continue;
            }
            let id = BenchmarkId::new(structure.name(), streams);
            measure(&mut group, id, backlogged(row, structure, streams).as_mut());
        }
    }
    group.finish();
}

fn disciplines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("disciplines");
    for streams in [7, 20, 1_000, 100_000] {
        for row in DISCIPLINES {
            let structure = row.auto_structure(&options(0), streams as usize);
            let id = BenchmarkId::new(row.name, streams);
            measure(&mut group, id, backlogged(row, structure, streams).as_mut());
        }
    }
    group.finish();
}

/// Measures 10 classes of 10 classes of leaves with WF²Q+, and these leaves without classes.
fn tree(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tree");
    let row = DisciplineRow::parse("wf2q+").unwrap();
    for streams in [1_000, 10_000] {
        let options = options(0);
        let mut tree = Tree::new(row, StructureName::Heap, &options);
        for top in 0..10 {
            let mut add = |parent, number: u32| {
                let contract = Contract::new().weight(1 + number % 4).unwrap();
                tree.add_class(parent, contract, row, StructureName::Heap, &options).unwrap()
            };
            let middle = add(ClassId::ROOT, top);
            let leaves: Vec<_> = (0..10).map(|number| add(middle, number)).collect();
            for class in leaves {
                for stream in 0..streams / 100 {
                    tree.add_stream(class, contract(stream, streams)).unwrap();
                }
            }
        }
        fill(&mut tree, streams);
        measure(&mut group, BenchmarkId::new("three levels", streams), &mut tree);
        let mut flat = backlogged(row, StructureName::Heap, streams);
        measure(&mut group, BenchmarkId::new("flat", streams), flat.as_mut());
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700));
    targets = structures, disciplines, tree
}
criterion_main!(benches);
