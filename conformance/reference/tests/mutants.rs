//! The committed traces are the reference's, each tells a mutant apart, and no mutant survives.
#![allow(clippy::unwrap_used)]

use millstream_reference::{Mutant, kills, run, shares, traces};
use std::path::{Path, PathBuf};

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_committed_traces_are_what_the_reference_makes() {
    let folder = conformance().join("traces");
    let all = traces::all();
    let count = all.len() + shares::all().len();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), count, "a stray folder");
    for trace in all {
        let read = |file| std::fs::read_to_string(folder.join(&trace.name).join(file)).unwrap();
        assert_eq!(read("scenario.toml"), trace.scenario(), "{}", trace.name);
        assert_eq!(read("arrivals.csv"), trace.arrivals_csv(), "{}", trace.name);
        let outcome = run(&trace.spec, &trace.arrivals, None);
        assert_eq!(read("departures.csv"), traces::departures_csv(&outcome), "{}", trace.name);
    }
}

#[test]
fn every_mutant_is_killed_and_every_trace_kills() {
    let all = traces::all();
    let kills: Vec<_> = all.iter().map(kills::killed_by).collect();
    for (trace, killed) in all.iter().zip(&kills) {
        println!("{:48} kills {:2} of {}", trace.name, killed.len(), Mutant::ALL.len());
        assert!(!killed.is_empty(), "{} kills no mutant", trace.name);
    }
    let killers = |mutant: &Mutant| -> Vec<_> {
        let pairs = all.iter().zip(&kills).filter(|(_, killed)| killed.contains(mutant));
        pairs.map(|(trace, _)| trace.name.as_str()).collect()
    };
    let killers: Vec<_> = Mutant::ALL.iter().map(killers).collect();
    for (mutant, names) in Mutant::ALL.iter().zip(&killers) {
        println!("{mutant:?}: {} {}", names.len(), names.join(" "));
    }
    for (mutant, names) in Mutant::ALL.iter().zip(&killers) {
        assert!(!names.is_empty(), "{mutant:?} survives");
    }
}

#[test]
fn the_readme_shows_the_kill_matrix_as_it_is() {
    let readme = std::fs::read_to_string(conformance().join("README.md")).unwrap();
    let fresh = kills::replace_summary(&readme, &kills::summary(&traces::all())).unwrap();
    assert!(readme == fresh, "`make traces` writes it");
}
