//! With stamps, the schedule equals that of one thread on the merged arrivals.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::num::NonZeroU64;

use millstream::catalogue::{DISCIPLINES, DisciplineRow, Options};
use millstream::{Contract, Event, Late, Link, MaxRate, Packet, StreamId, Window};
use millstream_pipeline::Sizes;
use proptest::prelude::*;
use support::{Arrival, Engine, merged, pipelined, single_threaded};

const STREAMS: u32 = 4;

/// Creates a scheduler whose streams differ in every attribute.
///
/// One stream has a rate cap; one drops late packets.
fn engine(row: &DisciplineRow, structure: usize) -> Box<Engine> {
    let options = Options { table: (0..STREAMS).map(StreamId).collect(), ..Options::default() };
    let structures: Vec<_> = row.structures(&options).into_iter().collect();
    let structure = structures[structure % structures.len()];
    let mut scheduler = row.build(&options, structure);
    for number in 0..STREAMS {
        let mut contract = Contract::new()
            .period_ns(u64::from(number + 1) * 700)
            .unwrap()
            .window(Window::new(number, number + 1).unwrap())
            .weight(number + 1)
            .unwrap()
            .quantum_bytes(1500)
            .unwrap()
            .priority(number % 3)
            .queue(6);
        contract = match number {
            0 => contract.fmc(),
            1 => contract.late(Late::Drop),
            2 => {
                let rate_bps = NonZeroU64::new(1_000_000_000).unwrap();
                contract.max_rate(MaxRate { rate_bps, burst_bytes: 200 })
            }
            _ => contract,
        };
        scheduler.add_stream(contract).unwrap();
    }
    scheduler
}

/// Generates the arrivals of one producer: often simultaneous, sometimes after a long gap.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap_ns = prop_oneof![3 => Just(0_u64), 5 => 1..400_u64, 1 => 1000..20_000_u64];
    prop::collection::vec((gap_ns, 0..STREAMS, 0..200_u32), 0..60).prop_map(|packets| {
        let mut time_ns = 0;
        packets
            .into_iter()
            .enumerate()
            .map(|(number, (gap_ns, stream, bytes))| {
                time_ns += gap_ns;
                let packet = Packet { bytes, tag: number as u64 };
                Arrival { time_ns, stream: StreamId(stream), packet }
            })
            .collect()
    })
}

fn sizes() -> impl Strategy<Value = Sizes> {
    (1..9_usize, 1..9_usize, 1..9_usize, 1..5_usize).prop_map(
        |(offers, departures, reclaims, batch)| Sizes { offers, departures, reclaims, batch },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn threads_do_not_change_the_schedule(
        discipline in 0..DISCIPLINES.len(),
        structure in 0..8_usize,
        split in prop::collection::vec(arrivals(), 1..5),
        sizes in sizes(),
    ) {
        let row = &DISCIPLINES[discipline];
        let link = Link::new(2_000_000_000, 4);
        let all = merged(&split);
        let expected = single_threaded(engine(row, structure).as_mut(), &all, link);
        let (outcome, ended) = pipelined(engine(row, structure), &split, link, sizes);
        prop_assert_eq!(&outcome, &expected, "{}", row.name);
        let counts = ended.counts;
        let late = expected.dropped.iter().filter(|d| d.event == Event::DroppedLate).count();
        prop_assert_eq!(counts.taken, all.len() as u64);
        prop_assert_eq!(counts.sent, expected.sent.len() as u64);
        prop_assert_eq!(counts.dropped_late, late as u64);
        prop_assert_eq!(counts.dropped_full, (expected.dropped.len() - late) as u64);
        prop_assert_eq!(counts.waiting(), expected.waiting);
    }
}
