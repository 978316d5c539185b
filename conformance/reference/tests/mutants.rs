//! The committed traces are the reference's, each tells a mutant apart, and no mutant survives.
#![allow(clippy::unwrap_used)]

use millstream_reference::{Mutant, run, traces};
use std::path::Path;

#[test]
fn the_committed_traces_are_what_the_reference_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let all = traces::all();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), all.len(), "a stray folder");
    for trace in all {
        let read = |file| std::fs::read_to_string(folder.join(trace.name).join(file)).unwrap();
        assert_eq!(read("scenario.toml"), trace.scenario(), "{}", trace.name);
        assert_eq!(read("arrivals.csv"), trace.arrivals_csv(), "{}", trace.name);
        let outcome = run(&trace.spec, &trace.arrivals, None);
        assert_eq!(read("departures.csv"), traces::departures_csv(&outcome), "{}", trace.name);
    }
}

#[test]
fn every_mutant_is_killed_and_every_trace_kills() {
    let all = traces::all();
    let mut killed_by = vec![Vec::new(); Mutant::ALL.len()];
    for trace in &all {
        let right = run(&trace.spec, &trace.arrivals, None).rows;
        let mut kills = 0;
        for (mutant, killers) in Mutant::ALL.iter().zip(&mut killed_by) {
            if run(&trace.spec, &trace.arrivals, Some(*mutant)).rows != right {
                killers.push(trace.name);
                kills += 1;
            }
        }
        println!("{:32} kills {kills} of {}", trace.name, Mutant::ALL.len());
        assert!(kills > 0, "{} kills no mutant", trace.name);
    }
    for (mutant, killers) in Mutant::ALL.iter().zip(&killed_by) {
        println!("{mutant:?}: {}", killers.join(" "));
        assert!(!killers.is_empty(), "{mutant:?} survives");
    }
}
