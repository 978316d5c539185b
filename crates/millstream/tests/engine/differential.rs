//! Every structure has the schedule of the linear scan, which equals the reference's.

use crate::support::{run_engine, run_named, scaled, scenarios, settings};
use millstream::catalogue::{DISCIPLINES, DisciplineRow, Options};
use millstream_reference::{Discipline, Outcome, fair, run, vds};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(8_000), ..ProptestConfig::default() })]

    #[test]
    fn every_structure_equals_the_reference((spec, arrivals) in scenarios()) {
        let expected = Outcome { decisions: Vec::new(), ..run(&spec, &arrivals, None) };
        let (name, options) = settings(&spec);
        for structure in DisciplineRow::parse(name).unwrap().structures(&options) {
            let found = run_engine(&spec, &arrivals, structure);
            prop_assert_eq!(&found, &expected, "{}", structure.name());
        }
    }

    #[test]
    fn vds_and_pd2_equal_their_references_on_every_structure((spec, arrivals) in scenarios()) {
        let options = Options::default();
        for (name, run) in vds::DISCIPLINES {
            let expected = run(spec.rate_bps, spec.overhead, &spec.streams, &arrivals);
            let expected = Outcome { decisions: Vec::new(), ..expected };
            for structure in DisciplineRow::parse(name).unwrap().structures(&options) {
                let found = run_named(name, &options, &spec, &arrivals, structure);
                prop_assert_eq!(&found, &expected, "{} {}", name, structure.name());
            }
        }
    }
}

#[test]
fn the_reference_has_every_discipline_of_the_catalogue() {
    let plain: Vec<_> = Discipline::PLAIN.iter().map(|(name, _)| *name).collect();
    let windowed = vds::DISCIPLINES.map(|(name, _)| name);
    let fair = fair::Discipline::all(&[]).map(|(name, _)| name);
    for row in DISCIPLINES.iter().filter(|row| row.below(&Options::default()).is_none()) {
        let lists: [&[&str]; 4] = [&plain, &["dwcs"], &windowed, &fair];
        let listed = lists.concat().iter().filter(|name| **name == row.name).count();
        assert_eq!(listed, 1, "{}", row.name);
    }
}
