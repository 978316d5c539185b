//! Every structure gives the schedule of the linear scan, and that is the reference's.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod support;

use millstream::catalogue::{DisciplineRow, Options};
use millstream_reference::{Outcome, run, vds};
use proptest::prelude::*;
use support::{run_engine, run_named, scenarios, settings};

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

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
    fn vds_equals_its_reference_on_every_structure((spec, arrivals) in scenarios()) {
        let expected = vds::run(spec.rate_bps, spec.overhead, &spec.streams, &arrivals);
        let expected = Outcome { decisions: Vec::new(), ..expected };
        let options = Options::default();
        for structure in DisciplineRow::parse("vds").unwrap().structures(&options) {
            let found = run_named("vds", &options, &spec, &arrivals, structure);
            prop_assert_eq!(&found, &expected, "{}", structure.name());
        }
    }
}
