//! The conformance traces, committed and generated, replayed on every structure.

use millstream::Departure;
use millstream_reference::files;
use millstream_report::DeparturesWriter;
use millstream_scenario::{Direction, Hop, Network, Scenario};
use millstream_sim::{Listener, link, network};
use millstream_traffic::FrameBytes;
use std::io;
use std::path::{Path, PathBuf};

struct Rows(DeparturesWriter<Vec<u8>>);

impl Listener for Rows {
    fn departed(&mut self, departure: &Departure, _: Option<&FrameBytes>) -> io::Result<()> {
        self.0.write(departure)
    }
}

#[test]
fn every_trace_replays_on_every_structure() {
    let generated = tempfile::tempdir().unwrap();
    for trace in files::generated() {
        trace.write(generated.path()).unwrap();
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/traces");
    let folders = [committed, generated.path().to_owned()].map(|folder| folders_in(&folder));
    let (mut replayed, mut as_networks) = (0, 0);
    for folder in folders.into_iter().flatten() {
        let expected = std::fs::read_to_string(folder.join("departures.csv")).unwrap();
        let sharing = Scenario::load(&folder.join("scenario.toml")).unwrap().scheduler;
        let structures = sharing.discipline.structures(&sharing.options);
        for structure in structures {
            let mut scenario = Scenario::load(&folder.join("scenario.toml")).unwrap();
            scenario.scheduler.structure = structure;
            let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
            let mut rows = Rows(DeparturesWriter::new(Vec::new(), names).unwrap());
            let mut input = millstream_scenario::open(&scenario, false).unwrap();
            let end = link::run(&scenario, input.feed.as_mut(), &mut rows).unwrap();
            assert_eq!(end.waiting, 0);
            let found = String::from_utf8(rows.0.into_inner()).unwrap();
            assert_eq!(found, expected, "{} on {}", folder.display(), structure.name());
            replayed += 1;
            if scenario.link.credits.is_none() {
                let found = by_network(&scenario);
                let (folder, structure) = (folder.display(), structure.name());
                assert_eq!(found, expected, "{folder} on {structure}, as a network");
                as_networks += 1;
            }
        }
    }
    assert!(replayed >= 52 * 3 && as_networks >= 100, "{replayed} {as_networks}");
}

/// Returns the departures of the scenario on a network of its one link.
fn by_network(scenario: &Scenario) -> String {
    let hop = Hop {
        name: "link".into(),
        direction: Direction::Forward,
        link: scenario.link,
        scheduler: None,
        delay_ns: 0,
        loss: 0,
        queue: None,
    };
    let network = Network { hops: vec![hop] };
    let names = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
    let mut rows = Rows(DeparturesWriter::new(Vec::new(), names).unwrap());
    let mut input = millstream_scenario::open(scenario, false).unwrap();
    network::run(scenario, &network, input.feed.as_mut(), &mut rows).unwrap();
    String::from_utf8(rows.0.into_inner()).unwrap()
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
