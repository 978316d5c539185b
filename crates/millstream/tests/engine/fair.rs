//! Fair queueing and round robin. Every discipline equals the reference, departure by departure,
//! with credits, rate caps and a management channel. Other tests check properties independent of
//! the reference.

use crate::support::fair::{Load, loads, loads_of, names};
use crate::support::scaled;
use millstream::catalogue::{Options, StructureName};
use proptest::prelude::*;

/// The number of random scenarios per discipline.
const EACH: u32 = 700;

#[test]
fn every_discipline_equals_the_reference() {
    let config =
        ProptestConfig { cases: scaled(EACH), failure_persistence: None, ..Default::default() };
    for discipline in names() {
        let mut runner = proptest::test_runner::TestRunner::new(config.clone());
        let result = runner.run(&loads_of(Just(discipline)), |load: Load| {
            let expected = load.reference();
            let options = load.options();
            let structure = load.row().structures(&options)[0];
            let found = load.run(load.scheduler(structure, &options).as_mut());
            prop_assert_eq!(found, expected, "{}", load.discipline);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{discipline}: {error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(4_000), ..ProptestConfig::default() })]

    #[test]
    fn every_structure_gives_the_same_schedule(load in loads()) {
        let options = load.options();
        let structures = load.row().structures(&options);
        let expected = load.run(load.scheduler(structures[0], &options).as_mut());
        for structure in &structures[1..] {
            let found = load.run(load.scheduler(*structure, &options).as_mut());
            prop_assert_eq!(&found, &expected, "{} on {}", load.discipline, structure.name());
        }
    }

    /// Virtual time starts just before its wrap, or just before half its range, where the sign
    /// changes; also at these points of near tags.
    #[test]
    fn a_wrapping_clock_changes_nothing(load in loads(), before in 0u128..1 << 95) {
        let structure = StructureName::Heap;
        let run = |virtual_origin| {
            let options = Options { virtual_origin, ..load.options() };
            load.run(load.scheduler(structure, &options).as_mut())
        };
        let expected = run(0);
        for origin in [1u128 << 127, 0, 1 << 114, 1 << 113] {
            // Shifts the origin by a multiple of the grain, so that rounding does not change.
            let origin = origin.wrapping_sub(before >> 51 << 51);
            prop_assert_eq!(&run(origin), &expected, "{} from {}", load.discipline, origin);
        }
    }

    /// A class that is alone on the link shares it as a scheduler without classes does.
    #[test]
    fn a_lone_class_changes_nothing(mut load in loads()) {
        load.streams.iter_mut().for_each(|stream| stream.fmc = false);
        let count = u32::try_from(load.streams.len()).unwrap();
        load.table = (0..count).map(millstream::StreamId).collect();
        let options = load.options();
        let flat = load.run(load.scheduler(StructureName::Heap, &options).as_mut());
        let tree = load.run(&mut load.tree(StructureName::Heap, &options));
        prop_assert_eq!(tree, flat, "{}", load.discipline);
    }

    /// Every packet is sent or dropped once, in its stream's order, or waits for credits.
    #[test]
    fn packets_are_conserved_and_the_link_does_not_idle(load in loads()) {
        let mut scheduler = load.scheduler(StructureName::Heap, &load.options());
        let rows = load.run(scheduler.as_mut());
        let waiting = scheduler.total_waiting();
        prop_assert_eq!(rows.len() as u64 + waiting, load.arrivals.len() as u64);
        for (stream, limits) in (0u32..).zip(&load.streams) {
            let sent: Vec<_> = rows.iter().filter(|row| row.1 == stream && row.3).collect();
            prop_assert!(sent.is_sorted_by_key(|row| row.2));
            let limited = limits.credits.is_some();
            prop_assert!(limited || scheduler.waiting(millstream::StreamId(stream)) == 0);
        }
        let free = load.streams.iter().all(|s| s.credits.is_none() && s.shaper.is_none());
        if free {
            // Busy from each arrival on, until nothing waits.
            let mut busy_until = 0;
            for row in rows.iter().filter(|row| row.3) {
                let arrival = load
                    .arrivals
                    .iter()
                    .filter(|arrival| arrival.stream == row.1)
                    .nth(usize::try_from(row.2).unwrap())
                    .unwrap();
                let on_arrival = row.0 >= busy_until && row.0 == arrival.time_ns;
                prop_assert!(row.0 == busy_until || on_arrival);
                busy_until = row.0 + load.link.transmission_ns(arrival.bytes);
            }
        }
    }
}
