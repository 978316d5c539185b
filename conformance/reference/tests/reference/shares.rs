//! The traces of fair queueing, round robins, MinBW and VDS: they are up to date, and each
//! distinguishes its discipline from all others.

use millstream_reference::shares;
use std::path::Path;

#[test]
fn the_committed_traces_match_the_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    for trace in shares::all() {
        let read = |file| std::fs::read_to_string(folder.join(&trace.name).join(file)).unwrap();
        assert_eq!(read("scenario.toml"), trace.scenario(), "{}", trace.name);
        assert_eq!(read("arrivals.csv"), trace.arrivals_csv(), "{}", trace.name);
        assert_eq!(read("departures.csv"), trace.departures_csv(), "{}", trace.name);
    }
}

#[test]
fn every_trace_distinguishes_its_discipline() {
    for trace in shares::all() {
        let rows = trace.rows();
        for (other, rows_under_others) in trace.rows_under_others() {
            assert!(rows != rows_under_others, "{}: {other} gives the same departures", trace.name);
        }
    }
}
