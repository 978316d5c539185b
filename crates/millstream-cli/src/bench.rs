//! `millstream bench`: what a decision costs on this machine.

use millstream::catalogue::StructureName;
use millstream_bench::{Measurement, Work, Workload, measure, measure_peer, pin_to_one_core};

use crate::arguments::{BenchArguments, BenchWork};
use crate::failure::Failure;
use crate::print;

/// Streams beyond which a scan, which takes milliseconds, is left out.
const MOST_SCANNED: u32 = 16_384;

/// Measures every structure that is asked for, and prints a table or JSON.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    if pin_to_one_core().is_none() {
        eprintln!("note: not kept on one core, so times vary more");
    }
    let structures = structures(&arguments.structures)?;
    let mut measurements = Vec::new();
    for work in &arguments.works {
        let (work, missed) = match work {
            BenchWork::Decision => (Work::Decision, arguments.missed.as_slice()),
            BenchWork::Packet => (Work::Packet, arguments.missed.as_slice()),
            BenchWork::Sparse => (Work::Sparse, &[0][..]),
        };
        for &missed_percent in missed {
            for &streams in &arguments.streams {
                let workload = Workload { work, streams, missed_percent };
                let fits = |structure: &&StructureName| {
                    **structure != StructureName::Scan || streams <= MOST_SCANNED
                };
                let measured = structures.iter().filter(fits).filter_map(|s| measure(*s, workload));
                measurements.extend(measured);
                if (work, missed_percent) == (Work::Packet, 0) {
                    for peer in &arguments.peers {
                        let measured = measure_peer(peer, streams);
                        measurements
                            .push(measured.map_err(|why| Failure::Run(miette::miette!("{why}")))?);
                    }
                }
            }
        }
    }
    if arguments.json {
        print(&(serde_json::to_string_pretty(&measurements).unwrap_or_default() + "\n"))
    } else {
        print(&table(&measurements))
    }
}

fn structures(names: &[String]) -> Result<Vec<StructureName>, Failure> {
    let parse = |name: &String| {
        StructureName::parse(name).ok_or_else(|| {
            let names: Vec<_> = StructureName::ALL.iter().map(|s| s.name()).collect();
            let help = format!("structures: {}", names.join(", "));
            Failure::Input(miette::miette!(help = help, "unknown structure `{name}`"))
        })
    };
    names.iter().map(parse).collect()
}

fn table(measurements: &[Measurement]) -> String {
    let rows = measurements.iter().map(|measured| {
        vec![
            match measured.work {
                Work::Decision => "decision",
                Work::Packet => "packet",
                Work::Sparse => "sparse",
            }
            .to_owned(),
            measured.streams.to_string(),
            format!("{:.2}", measured.misses),
            measured.structure.clone(),
            format!("{:.1}", measured.ns),
            format!("{:.1}", measured.least_ns),
        ]
    });
    let header = ["work", "streams", "misses a step", "structure", "ns a step", "least"];
    millstream_report::text_table(&header, rows)
}
