//! Runs every fuzz target on a fixed set of inputs. A minimum share must pass the first parser.
//!
//! `MILLSTREAM_SMOKE_INPUTS` sets the number of inputs per target, `MILLSTREAM_SMOKE_SEED` the
//! random seed. A failure names the file that holds the failing input.

use millstream_fuzz::smoke::smoke;
use millstream_fuzz::{CANARY, Depth, MIN_SHARE, TARGETS, Target, target};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Default number of inputs per target.
const INPUTS: usize = 250;

fn setting(name: &str) -> Option<usize> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} = {text}")))
}

fn run(target: &'static Target, inputs: usize) -> Depth {
    let inputs = setting("MILLSTREAM_SMOKE_INPUTS").unwrap_or(inputs);
    let seed = setting("MILLSTREAM_SMOKE_SEED").unwrap_or(1);
    let depth = smoke(target, inputs, seed as u64, Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Depth { inputs, passed } = depth;
    println!("{}: {passed} of {inputs} inputs passed {}", target.name, target.first_parser);
    depth
}

/// Defines one test per target, so that they run in parallel.
macro_rules! smoke_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let depth = run(target(stringify!($name)), INPUTS);
            assert!(depth.is_enough(), "{} % of inputs, not {MIN_SHARE}", depth.share());
        })*

        /// The targets of the tests above.
        const RUN: &[&str] = &[$(stringify!($name)),*];
    };
}

smoke_tests! {
    access_files audio browsers c_calls capture cluster codecs credentials csv extension fragments
    hilq_exact hls journal machine mpeg orders packet proxy published recorded requests router rtmp
    rtnetlink scenario segments takeover transport_receiver transport_stream
}

#[test]
fn every_target_is_run_here_and_under_libfuzzer() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, RUN);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let files = fs::read_dir(folder).expect("the folder of binaries").flatten();
    let stem = |file: fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
    let binaries: BTreeSet<String> = files.filter_map(stem).collect();
    let all = names.iter().chain([&CANARY.name]).map(|name| (*name).to_owned());
    assert_eq!(binaries, all.collect());
}

#[test]
fn at_least_half_of_the_seeds_pass_the_first_parser() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        let passed = seeds.iter().filter(|seed| (target.run)(seed)).count();
        assert!(2 * passed >= seeds.len(), "{}: {passed} of {} seeds", target.name, seeds.len());
    }
}

#[test]
fn the_planted_bug_is_found() {
    let seeds = (CANARY.seeds)();
    assert!(seeds.iter().all(|seed| (CANARY.run)(seed)), "a seed triggers the bug");
    let found = catch_unwind(|| run(target(CANARY.name), INPUTS)).expect_err("a panic");
    let message = found.downcast_ref::<String>().expect("a message");
    assert!(message.contains("canary: an input panics: the planted bug"), "{message}");
}
