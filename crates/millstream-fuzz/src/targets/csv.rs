//! The arrivals CSV reader does not panic, and times never decrease.

use millstream_traffic::{CsvTrace, Feed};
use std::path::Path;

use crate::{Mutation, Target, seeds};

pub(crate) const TARGET: Target = Target {
    name: "csv",
    first_parser: "the header and the first row",
    seeds: traces,
    words: &[
        b"time_ns,stream,bytes\n",
        b"a",
        b"b",
        b"c",
        b",",
        b"\"",
        b"\"\"",
        b"\r\n",
        b"\xef\xbb\xbf",
    ],
    mutate: Mutation::text,
    admits: Some(|input| read(input) > 0),
    run: |input| read(input) > 0,
};

fn traces() -> Vec<Vec<u8>> {
    let mut traces =
        vec![b"time_ns,stream,bytes\n0,a,100\n5,b,1500\n5, a ,64\n\"9\",\"c\",1\n".to_vec()];
    for trace in seeds::files("conformance/traces", "arrivals.csv").into_iter().take(12) {
        let text = String::from_utf8_lossy(&trace).into_owned();
        // Renames the streams to those of this target.
        let rows = text.lines().skip(1).map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            let names = ["a", "b", "c"];
            let name = names[fields[1].bytes().map(usize::from).sum::<usize>() % names.len()];
            format!("{},{name},{}\n", fields[0], fields[2])
        });
        traces.push(format!("time_ns,stream,bytes\n{}", rows.collect::<String>()).into_bytes());
    }
    traces
}

/// Returns the number of arrivals read.
fn read(input: &[u8]) -> usize {
    let streams = [("a".to_owned(), 0), ("b".to_owned(), 1)];
    let (mut arrivals, mut last_ns) = (0, 0);
    if let Ok(mut trace) = CsvTrace::new(input, Path::new("fuzz.csv"), streams, vec!["c".into()]) {
        while let Ok(Some(arrival)) = trace.next_arrival() {
            assert!(arrival.time_ns >= last_ns && arrival.stream < 2);
            last_ns = arrival.time_ns;
            arrivals += 1;
        }
    }
    arrivals
}
