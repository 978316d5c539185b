//! The committed traces and digests are up to date, each trace kills a mutant, and none survives.

use millstream_reference::files::{self, TraceFiles};
use millstream_reference::{Mutant, kills, traces};
use std::path::{Path, PathBuf};

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_committed_traces_and_digests_are_up_to_date() {
    let (generated, committed): (Vec<_>, Vec<_>) =
        files::all().into_iter().partition(TraceFiles::is_generated);
    let digests = std::fs::read_to_string(conformance().join("DIGESTS")).unwrap();
    assert!(digests == files::digests(&generated), "out of date: run `make traces`");
    let folder = conformance().join("traces");
    for trace in &committed {
        for (file, text) in &trace.files {
            let found = std::fs::read_to_string(folder.join(&trace.name).join(file)).unwrap();
            assert!(found == *text, "{}/{file} is out of date: run `make traces`", trace.name);
        }
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), committed.len(), "unexpected folder");
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
fn the_readme_has_the_current_kill_matrix() {
    let readme = std::fs::read_to_string(conformance().join("README.md")).unwrap();
    let fresh = kills::replace_summary(&readme, &kills::summary(&traces::all())).unwrap();
    assert!(readme == fresh, "README.md is out of date: run `make traces`");
}
