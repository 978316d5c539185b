//! The traces of fair queueing, round robins, MinBW and VDS: as committed, and each tells its
//! discipline from all others.

use millstream_reference::shares;
use std::path::Path;

#[test]
fn the_committed_traces_are_what_the_reference_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    for trace in shares::all() {
        let read = |file| std::fs::read_to_string(folder.join(&trace.name).join(file)).unwrap();
        assert_eq!(read("scenario.toml"), trace.scenario(), "{}", trace.name);
        assert_eq!(read("arrivals.csv"), trace.arrivals_csv(), "{}", trace.name);
        assert_eq!(read("departures.csv"), trace.departures_csv(), "{}", trace.name);
    }
}

#[test]
fn every_trace_tells_its_discipline_from_all_others() {
    for trace in shares::all() {
        let rows = trace.rows();
        for (other, rows_otherwise) in trace.rows_otherwise() {
            assert!(rows != rows_otherwise, "{} is also {other}'s", trace.name);
        }
    }
}
