//! `millstream plan`: lists the structures and hardware that keep up with a line.
//!
//! Software runs DWCS with 1.7 missed deadlines a decision, measured now on one core or read from a
//! file. Hardware updates missed streams in the same cycles. EDF and static priority do less work
//! than DWCS, so the answers for them are conservative.

use std::fs;
use std::path::Path;

use millstream::catalogue::StructureName;
use millstream_bench::plan::{Candidate, Demand, Platform, cores, plan as candidates};
use millstream_bench::{Deadlines, Measurement, Subject, Work, Workload, measure, pin_to_one_core};
use millstream_report::chart::{self, Chart, Line};
use millstream_report::human;
use serde_json::json;

use crate::arguments::{PlanArguments, PlanDiscipline};
use crate::failure::Failure;
use crate::outputs::{self, Output, refuse_collisions};
use crate::print;
use crate::terminal::{print_text, say, whole_table};

/// Missed request periods, percent: 1.7 a decision.
const MISSED_PERCENT: u32 = 63;

/// The largest number of streams for which a scan is measured; a larger scan takes milliseconds.
const MAX_SCANNED_STREAMS: u32 = 16_384;

/// Numbers of streams in the chart besides the requested one.
const CHARTED: [u32; 5] = [4, 16, 64, 1024, 16_384];

const STRUCTURES: [StructureName; 4] =
    [StructureName::Scan, StructureName::Heap, StructureName::DualHeap, StructureName::HilqExact];

/// Prints every candidate, the fastest first.
pub(crate) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let demand = Demand {
        streams: arguments.streams,
        bytes: arguments.bytes + u32::from(arguments.overhead),
        rate_bps: arguments.rate,
    };
    let inputs: Vec<_> = arguments.software.iter().cloned().collect();
    refuse_collisions(&[("--figure", arguments.figure.as_deref())], &inputs)?;
    let figure_file = arguments.figure.as_deref().map(Output::create).transpose()?;
    let software = match &arguments.software {
        Some(file) => read(file, arguments.streams)?,
        None => measure_all(arguments),
    };
    let found = candidates(&demand, &software);
    if let Some(file) = figure_file {
        let svg = figure(&demand, &software)
            .map_err(|why| Failure::Run(miette::miette!("cannot draw --figure: {why}")))?;
        outputs::write(file, "--figure", &svg)?;
    }
    if arguments.json {
        let answer = json!({
            "demand": demand,
            "packet_time_ns": demand.packet_time_ns(),
            "candidates": found,
        });
        print(&(serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"))
    } else {
        print_text(&text(&demand, arguments.discipline, &found))
    }
}

/// Returns the decision measurements of a file.
///
/// # Errors
/// Fails if none has this number of streams, or if the file cannot be read.
fn read(file: &Path, streams: u32) -> Result<Vec<Measurement>, Failure> {
    let place = file.display();
    let input = |why: String| Failure::Input(miette::miette!("{why}"));
    let text = fs::read_to_string(file).map_err(|error| input(format!("{place}: {error}")))?;
    let mut all: Vec<Measurement> = serde_json::from_str(&text).map_err(|error| {
        input(format!("{place}: {error}; expected the output of `millstream bench --json`"))
    })?;
    all.retain(|measured| measured.work == Work::Decision);
    // The highest miss rate gives the slowest decisions.
    let most = all.iter().map(|measured| measured.missed_percent).max();
    all.retain(|measured| Some(measured.missed_percent) == most);
    if !all.iter().any(|measured| measured.streams == streams) {
        return Err(input(format!(
            "{place}: no decisions with {}; measure them with `millstream bench \
             --streams {streams} --work decision --missed {MISSED_PERCENT} --json`",
            human::count(streams.into(), "stream")
        )));
    }
    Ok(all)
}

fn measure_all(arguments: &PlanArguments) -> Vec<Measurement> {
    if pin_to_one_core().is_none() {
        say("note: not pinned to one core, so times vary more");
    }
    let mut streams = vec![arguments.streams];
    if arguments.figure.is_some() {
        streams.extend(CHARTED.iter().filter(|charted| **charted != arguments.streams));
        streams.sort_unstable();
    }
    let mut measured = Vec::new();
    for streams in streams {
        for structure in STRUCTURES {
            if structure == StructureName::Scan && streams > MAX_SCANNED_STREAMS {
                continue;
            }
            let workload = Workload {
                work: Work::Decision,
                streams,
                deadlines: Deadlines::Spread,
                missed_percent: MISSED_PERCENT,
            };
            measured.extend(measure(Subject::Structure(structure), workload));
        }
    }
    measured
}

fn text(demand: &Demand, discipline: PlanDiscipline, found: &[Candidate]) -> String {
    let Demand { streams, bytes, rate_bps } = demand;
    let mut text = format!(
        "{}, packets of {} at {}: a decision must fit in {:.1} ns\n",
        human::count((*streams).into(), "stream"),
        human::count((*bytes).into(), "byte"),
        human::rate(*rate_bps),
        demand.packet_time_ns(),
    );
    let rows = found.iter().map(|candidate| {
        vec![
            match candidate.place {
                Platform::Software => format!("software, {}", candidate.name),
                Platform::Hardware => format!("rtl, {}", candidate.name),
            },
            if candidate.keeps_up { "yes" } else { "no" }.into(),
            format!("{:.2}", candidate.margin),
            format!("{:.1}", candidate.decision_ns),
            format!("{:.2}", candidate.decisions_per_second / 1e6),
            candidate.needs.clone(),
        ]
    });
    let header = ["", "keeps up", "margin", "ns a decision", "M decisions/s", "needs"];
    text += &whole_table(&header, rows, 1);
    if cores().iter().all(|core| core.streams < *streams) {
        text += "No placed and routed core of rtl/ supports this number of streams.\n";
    }
    if discipline != PlanDiscipline::Dwcs {
        text += "Software was measured with DWCS; this discipline does less work per decision.\n";
    }
    text
}

/// Draws decision times by number of streams, with packet-times as horizontal lines.
fn figure(demand: &Demand, software: &[Measurement]) -> Result<String, String> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |name: String, streams: u32, ns: f64| {
        let point = (f64::from(streams), ns);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    };
    for measured in software {
        add(measured.structure.clone(), measured.streams, measured.ns);
    }
    for core in cores() {
        add(format!("rtl {}", core.design), core.streams, core.decision_ns());
    }
    let streams = software.iter().map(|measured| measured.streams);
    let all = || streams.clone().chain(cores().into_iter().map(|core| core.streams));
    let (least, most) = (all().min().unwrap_or(1), all().max().unwrap_or(1));
    let name = format!("packet-time, {} bytes", demand.bytes);
    for streams in [least, most] {
        add(name.clone(), streams, demand.packet_time_ns());
    }
    let rate = millstream_report::human::rate(demand.rate_bps);
    chart::lines(
        &Chart {
            title: &format!("Feasible below the packet-time: {rate}"),
            x_label: "streams",
            y_label: "ns a decision",
            x_log: true,
            y_log: true,
            standalone: true,
            size: (900, 600),
        },
        &lines,
    )
}
