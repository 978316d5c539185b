//! `millstream bench`: measures the cost of a decision on this machine.

use std::collections::BTreeSet;

use millstream::catalogue::StructureName;
use millstream_bench::{
    Deadlines, Measurement, Subject, Work, Workload, measure, measure_peer, pin_to_one_core,
};
use millstream_report::chart::{self, Chart, Line};

use crate::arguments::{BenchArguments, BenchDeadlines, BenchWork};
use crate::failure::Failure;
use crate::outputs::{self, Output, refuse_collisions};
use crate::print;
use crate::terminal::{print_text, say, whole_table};

/// The largest number of streams for which a scan is measured; a larger scan takes milliseconds.
const MAX_SCANNED_STREAMS: u32 = 16_384;

/// Measures the requested structures and prints a table or JSON.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    if pin_to_one_core().is_none() {
        say("note: not pinned to one core, so times vary more");
    }
    let subjects = subjects(&arguments.structures)?;
    refuse_collisions(&[("--figure", arguments.figure.as_deref())], &arguments.peers)?;
    let figure_file = arguments.figure.as_deref().map(Output::create).transpose()?;
    let mut measurements = Vec::new();
    for workload in workloads(arguments) {
        let fits = |subject: &&Subject| {
            **subject != Subject::Structure(StructureName::Scan)
                || workload.streams <= MAX_SCANNED_STREAMS
        };
        measurements.extend(subjects.iter().filter(fits).filter_map(|s| measure(*s, workload)));
        if (workload.work, workload.missed_percent) == (Work::Packet, 0) {
            for peer in &arguments.peers {
                let measured = measure_peer(peer, workload.streams);
                measurements.push(measured.map_err(|why| Failure::Run(miette::miette!("{why}")))?);
            }
        }
    }
    if let Some(file) = figure_file {
        let svg = figure(&measurements)
            .map_err(|why| Failure::Run(miette::miette!("cannot draw --figure: {why}")))?;
        outputs::write(file, "--figure", &svg)?;
    }
    if arguments.json {
        print(&(serde_json::to_string_pretty(&measurements).unwrap_or_default() + "\n"))
    } else {
        print_text(&table(&measurements))
    }
}

/// Lists the requested measurements in table order.
fn workloads(arguments: &BenchArguments) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for work in &arguments.works {
        let (work, missed) = match work {
            BenchWork::Decision => (Work::Decision, arguments.missed.as_slice()),
            BenchWork::Packet => (Work::Packet, arguments.missed.as_slice()),
            BenchWork::Sparse => (Work::Sparse, &[0][..]),
        };
        for deadlines in &arguments.deadlines {
            let deadlines = match deadlines {
                BenchDeadlines::Spread => Deadlines::Spread,
                BenchDeadlines::Tied => Deadlines::Tied,
            };
            for &missed_percent in missed {
                let with =
                    |streams: &u32| Workload { work, streams: *streams, deadlines, missed_percent };
                workloads.extend(arguments.streams.iter().map(with));
            }
        }
    }
    workloads
}

fn subjects(names: &[String]) -> Result<Vec<Subject>, Failure> {
    let parse = |name: &String| {
        Subject::parse(name).ok_or_else(|| {
            let structures = StructureName::ALL.iter().map(|structure| structure.name());
            let queues = Subject::QUEUES.iter().map(|queue| queue.name());
            let names: Vec<_> = structures.chain(queues).collect();
            let help = format!("structures: {}", names.join(", "));
            Failure::Input(miette::miette!(help = help, "unknown structure `{name}`"))
        })
    };
    names.iter().map(parse).collect()
}

fn work(measured: &Measurement) -> &'static str {
    match measured.work {
        Work::Decision => "decision",
        Work::Packet => "packet",
        Work::Sparse => "sparse",
    }
}

fn deadlines(measured: &Measurement) -> &'static str {
    match measured.deadlines {
        Deadlines::Spread => "spread",
        Deadlines::Tied => "tied",
    }
}

fn table(measurements: &[Measurement]) -> String {
    let rows = measurements.iter().map(|measured| {
        vec![
            work(measured).to_owned(),
            deadlines(measured).to_owned(),
            measured.streams.to_string(),
            measured.structure.clone(),
            format!("{:.2}", measured.misses),
            format!("{:.1}", measured.ns),
            format!("{:.1}", measured.tenth_ns),
        ]
    });
    let header =
        ["work", "deadlines", "streams", "structure", "misses a step", "ns a step", "p10 (ns)"];
    whole_table(&header, rows, 4)
}

/// Draws a line for each structure, and for each workload if there are several.
fn figure(measurements: &[Measurement]) -> Result<String, String> {
    let kinds = |kind: fn(&Measurement) -> String| -> BTreeSet<_> {
        measurements.iter().map(kind).collect()
    };
    // The title has the properties that all lines share, and a line's name has the others.
    let parts: [fn(&Measurement) -> String; 3] = [
        |measured| work(measured).into(),
        |measured| format!("{} deadlines", deadlines(measured)),
        |measured| format!("{} % missed", measured.missed_percent),
    ];
    let varying: Vec<_> = parts.into_iter().filter(|part| kinds(*part).len() > 1).collect();
    let mut lines: Vec<Line> = Vec::new();
    for measured in measurements {
        let more = varying.iter().map(|part| part(measured));
        let name: Vec<_> = std::iter::once(measured.structure.clone()).chain(more).collect();
        let name = name.join(", ");
        let point = (f64::from(measured.streams), measured.ns);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    }
    let common: Vec<_> = parts
        .into_iter()
        .filter_map(|part| Some(kinds(part)).filter(|all| all.len() == 1)?.pop_first())
        .collect();
    let chart = Chart {
        title: &common.join(", "),
        x_label: "streams",
        y_label: "ns a step, median",
        x_log: true,
        y_log: true,
        standalone: true,
        size: (900, 600),
    };
    chart::lines(&chart, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(structure: &str, streams: u32, missed_percent: u32) -> Measurement {
        Measurement {
            work: Work::Decision,
            structure: structure.into(),
            streams,
            missed_percent,
            deadlines: Deadlines::Spread,
            misses: 0.0,
            ns: 20.0,
            tenth_ns: 19.0,
            least_ns: 18.0,
        }
    }

    #[test]
    fn tables_have_every_row() {
        let all: Vec<_> = (1..=100).map(|streams| measured("heap", streams, 0)).collect();
        assert_eq!(table(&all).lines().count(), 101);
    }

    #[test]
    fn common_properties_are_in_the_title_and_varying_ones_in_the_names() {
        let mut all = vec![measured("heap", 4, 0), measured("heap", 16, 0), measured("scan", 4, 0)];
        let svg = figure(&all).expect("a figure");
        assert!(
            svg.contains(">\nheap\n<") && svg.contains("decision, spread deadlines, 0 % missed")
        );
        all.push(measured("heap", 4, 63));
        let svg = figure(&all).expect("a figure");
        assert!(svg.contains("heap, 63 % missed") && !svg.contains("deadlines, 0 %"));
    }
}
