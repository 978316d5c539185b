//! `millstream run` and `check` of a scenario with a fabric.

use miette::miette;
use millstream_report::{FabricReportInput, fabric_table, human, write_fabric_report};
use millstream_scenario::Scenario;
use millstream_sim::fabric::{
    FabricError, FabricListener, Journeys, PrepareError, Prepared, Simulation, Statistics, prepare,
};
use millstream_sweep::fabric::{summary, utilisation};
use millstream_traffic::Reading;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::looks::{Looks, distribution, drawing};
use crate::outputs::{create, inputs};
use crate::print;
use crate::progress::Progress;
use crate::selection::selection;
use crate::trace::write_journeys;

/// How often a run looks up, in parts of its duration.
const STEPS: u64 = 1_000;

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        Self::Input(miette!("{error}"))
    }
}

impl From<FabricError> for Failure {
    fn from(error: FabricError) -> Self {
        Self::Run(miette!("{error}"))
    }
}

/// Runs the scenario's fabric and writes what was asked for.
pub(crate) fn run(
    arguments: &RunArguments,
    scenario: &Scenario,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    for (given, name) in
        [(arguments.departures.is_some(), "--departures"), (arguments.pcap.is_some(), "--pcap")]
    {
        if given {
            return Err(Failure::Input(miette!(
                help = "--summary FILE.json and --json have a fabric's numbers",
                "{name} is for a single link; {} has a fabric",
                arguments.file.display()
            )));
        }
    }
    let inputs = inputs(&arguments.file, scenario);
    let open = |path: &Option<PathBuf>| path.as_ref().map(|path| create(path, &inputs)).transpose();
    let mut summary_file = open(&arguments.summary)?;
    let mut report_file = open(&arguments.report)?;
    let warm_up_ns = scenario.fabric.as_ref().map_or(0, |fabric| fabric.warm_up_ns);
    let end_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let Prepared { mut simulation, connections } = prepare(scenario)?;
    let streams = u8::try_from(scenario.streams.len()).unwrap_or(u8::MAX);
    let mut statistics = Statistics::new(streams, simulation.sources(), warm_up_ns..end_ns);
    let end_points = simulation.topology().end_points();
    let selection = selection(&arguments.trace_packets, scenario, end_points)?;
    let trace_file = open(&arguments.trace)?;
    let mut looks = report_file.is_some().then(|| Looks::new(&simulation, streams, end_ns));
    let mut journeys = trace_file.is_some().then(|| Journeys::new(&simulation, streams, selection));
    let mut run = Run { simulation: &mut simulation, scenario, end_ns, interrupted };
    let ended = if looks.is_some() || journeys.is_some() {
        run.finish(&mut (&mut statistics, (&mut looks, &mut journeys)))
    } else {
        run.finish(&mut statistics)
    };
    if let (Some(file), Some(journeys)) = (trace_file, &journeys) {
        let names: Vec<String> =
            scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        write_journeys(file, journeys, simulation.topology(), &names)
            .map_err(|error| Failure::output("--trace", &error))?;
        eprintln!("trace: {}", traced(journeys));
    }
    let reached_ns = ended?;
    let rate_bps = scenario.link.rate_bps;
    let summary = summary(scenario, &simulation, &connections, &statistics, reached_ns);
    if let (Some(file), Some(looks)) = (&mut report_file, &looks) {
        let topology = simulation.topology();
        let utilisation = utilisation(&simulation, reached_ns);
        let (nodes, drawn) = drawing(topology, &utilisation, looks, reached_ns);
        let input = FabricReportInput {
            summary: &summary,
            delays: &statistics.classes().iter().map(distribution).collect::<Vec<_>>(),
            nodes: &nodes,
            links: &drawn,
            over_time: &looks.over_time(rate_bps, topology.end_points()),
            buffers: &looks.fullest(&simulation, scenario, reached_ns),
            discipline: scenario.scheduler.discipline.name,
            link_rate_bps: rate_bps,
            scenario_text: &scenario.text,
            notes: &scenario.notes,
        };
        let written = write_fabric_report(file, &input).and_then(|()| file.flush());
        written.map_err(|error| Failure::output("--report", &error))?;
    }
    scenario.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let json = serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n";
    if let Some(file) = &mut summary_file {
        let written = file.write_all(json.as_bytes()).and_then(|()| file.flush());
        written.map_err(|error| Failure::output("--summary", &error))?;
    }
    print(&if arguments.json { json } else { fabric_table(&summary) })?;
    if let Some(path) = &arguments.report {
        eprintln!("report: {}", path.display());
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!(
            "interrupted at {} of simulated time; everything until then is counted",
            human::time(reached_ns)
        )));
    }
    Ok(())
}

/// A fabric on its way.
struct Run<'a> {
    simulation: &'a mut Simulation,
    scenario: &'a Scenario,
    end_ns: u64,
    interrupted: &'a AtomicBool,
}

impl Run<'_> {
    /// Runs until the end, or until it is interrupted; returns how far it came, ns.
    fn finish(&mut self, listener: &mut impl FabricListener) -> Result<u64, FabricError> {
        let mut progress = Progress::new(self.scenario.duration_ns, Arc::<Reading>::default());
        let mut reached_ns = 0;
        while reached_ns < self.end_ns && !self.interrupted.load(Ordering::Relaxed) {
            reached_ns = self.end_ns.min(reached_ns + (self.end_ns / STEPS).max(1));
            let before = self.simulation.hops();
            self.simulation.run(reached_ns, listener)?;
            progress.packets(self.simulation.hops() - before, reached_ns);
        }
        progress.finish();
        Ok(reached_ns)
    }
}

/// What a trace holds, and what it leaves out.
fn traced(journeys: &Journeys) -> String {
    let kept = journeys.journeys().len() as u64;
    let mut text = format!("{kept} of {} packets that were selected", journeys.allowed());
    if journeys.samples_left_out() > 0 {
        let _ = write!(text, "; {} samples of buffers left out", journeys.samples_left_out());
    }
    text
}

/// What a fabric is, whether its routes are free of deadlock, and what admission says.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Failure> {
    let Prepared { simulation, connections } = prepare(scenario)?;
    let topology = simulation.topology();
    let mut text = format!(
        "{}: {} end-points, {} switches, {} one-way links of {}, discipline {}\n",
        scenario.name,
        topology.end_points(),
        topology.switches(),
        topology.links().len(),
        human::rate(scenario.link.rate_bps),
        scenario.scheduler.discipline.name,
    );
    let rows = scenario.streams.iter().zip(&connections).map(|(stream, connections)| {
        let shown =
            |count: u64| if connections.asked > 0 { count.to_string() } else { "–".into() };
        vec![stream.name.clone(), shown(connections.asked), shown(connections.admitted)]
    });
    text += &millstream_report::text_table(&["stream", "connections", "admitted"], rows);
    let verdict = match topology.dependency_cycle() {
        None => "free of deadlock".to_owned(),
        Some(cycle) => format!("may deadlock: {} links wait for one another", cycle.len()),
    };
    let layers = match topology.layers() {
        1 => "on one layer".to_owned(),
        layers => format!("on {layers} layers"),
    };
    let _ = writeln!(text, "routes: {verdict}, {layers}");
    for note in &scenario.notes {
        let _ = writeln!(text, "note: {note}");
    }
    print(&text)
}
