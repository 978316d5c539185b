//! The conformance traces, replayed by the C scheduler on the simulated link.

use millstream::Departure;
use millstream_bpf::{Config, NativeScheduler};
use millstream_reference::files;
use millstream_report::DeparturesWriter;
use millstream_scenario::Scenario;
use millstream_sim::{Listener, link};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

struct Rows(DeparturesWriter<Vec<u8>>);

impl Listener for Rows {
    fn departed(
        &mut self,
        departure: &Departure,
        _: Option<&millstream_traffic::FrameBytes>,
    ) -> io::Result<()> {
        self.0.write(departure)
    }
}

#[test]
fn the_traces_of_its_disciplines_replay() {
    let generated = tempfile::tempdir().unwrap();
    for trace in files::generated() {
        trace.write(generated.path()).unwrap();
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/traces");
    let mut replayed: BTreeMap<&str, usize> = BTreeMap::new();
    for folder in [&*committed, generated.path()] {
        for folder in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let scenario = Scenario::load(&folder.join("scenario.toml")).unwrap();
            let Ok(config) = Config::of_scenario(&scenario) else { continue };
            let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
            let mut rows = Rows(DeparturesWriter::new(Vec::new(), names).unwrap());
            let mut input = millstream_scenario::open(&scenario, false).unwrap();
            let mut scheduler = NativeScheduler::new(config);
            link::run_on(&scenario, &mut scheduler, input.feed.as_mut(), &mut rows).unwrap();
            let found = String::from_utf8(rows.0.into_inner()).unwrap();
            let expected = std::fs::read_to_string(folder.join("departures.csv")).unwrap();
            assert_eq!(found, expected, "{}", folder.display());
            *replayed.entry(scenario.scheduler.discipline.name).or_default() += 1;
        }
    }
    println!("replayed: {replayed:?}");
    let expected = [("drr", 1), ("dwcs", 11), ("edf", 3), ("static-priority", 2), ("wf2q+", 1)];
    assert!(replayed.into_iter().eq(expected));
}
