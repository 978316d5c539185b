//! The work that `scripts/instructions.py` counts in instructions: one packet out and one in, for
//! every discipline on the structure that "auto" selects, and DWCS with misses on every structure.
//!
//! Calls [`counted`] once a row and prints the row's name and steps. Two runs execute the same
//! instructions: times, phases and lengths are from fixed seeds.

#![allow(clippy::unwrap_used)]

use millstream::catalogue::{DISCIPLINES, DisciplineRow, DynScheduler, Options, StructureName};
use millstream::{Contract, Link, Packet, StreamId};
use millstream_bench::{Deadlines, Work, Workload};

/// The length of a packet.
const BYTES: u32 = 64;
/// The transmission time of a packet, ns.
const SLOT_NS: u64 = 1_000;
/// The steps that are counted, and as many before them that are not.
const STEPS: u64 = 4_096;

fn main() {
    for streams in [16, 1_024] {
        for row in DISCIPLINES {
            let structure = row.auto_structure(&options(streams), streams as usize);
            run(row, structure, streams, 10);
        }
        let dwcs = DisciplineRow::parse("dwcs").unwrap();
        for structure in dwcs.structures(&options(streams)) {
            run(dwcs, structure, streams, 63);
        }
    }
}

fn run(row: &DisciplineRow, structure: StructureName, streams: u32, missed_percent: u32) {
    let mut scheduler = row.build(&options(streams), structure);
    for contract in contracts(streams, missed_percent) {
        let stream = scheduler.add_stream(contract).unwrap();
        for _ in 0..2 {
            scheduler.enqueue(0, stream, Packet::new(BYTES)).unwrap();
        }
    }
    let now_ns = steps(scheduler.as_mut(), SLOT_NS);
    counted(scheduler.as_mut(), now_ns);
    let (row, structure) = (row.name, structure.name());
    println!("{row} {structure} {streams} {missed_percent} {STEPS}");
}

// Callgrind collects in this function only, and writes its count when it returns.
#[inline(never)]
fn counted(scheduler: &mut dyn DynScheduler, now_ns: u64) {
    steps(scheduler, now_ns);
}

/// Sends a packet in each slot from `now_ns`, replaces it, and returns the time after the last.
#[inline(always)]
fn steps(scheduler: &mut dyn DynScheduler, mut now_ns: u64) -> u64 {
    for _ in 0..STEPS {
        let departure = scheduler.decide(now_ns, &mut ());
        now_ns += SLOT_NS;
        // A table may leave a slot without a packet.
        if let Some(departure) = departure {
            let _ = scheduler.enqueue(now_ns, departure.stream, Packet::new(BYTES));
        }
    }
    now_ns
}

fn options(streams: u32) -> Options {
    let link = Link::new(u64::from(BYTES) * 8_000_000_000 / SLOT_NS, 0);
    Options { link, table: (0..streams).map(StreamId).collect(), ..Options::default() }
}

/// Returns contracts with the attributes of all disciplines.
fn contracts(streams: u32, missed_percent: u32) -> impl Iterator<Item = Contract> {
    let deadlines = Deadlines::Spread;
    let workload = Workload { work: Work::Packet, streams, deadlines, missed_percent };
    (0..).zip(workload.contracts().unwrap()).map(|(number, contract): (u32, Contract)| {
        let contract = contract.priority(number % 8).weight(1 + number % 16).unwrap();
        contract.quantum_bytes(BYTES * (1 + number % 16)).unwrap()
    })
}
