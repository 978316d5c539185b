//! `millstream run` and `check` of a scenario with a fabric.

use miette::miette;
use millstream_report::{
    DrawnLink, DrawnNode, FabricReportInput, fabric_table, human, write_fabric_report,
};
use millstream_scenario::Scenario;
use millstream_sim::fabric::topology::{Node, Topology};
use millstream_sim::fabric::{
    ClassStatistics, FabricError, PrepareError, Prepared, Statistics, prepare,
};
use millstream_sweep::fabric::{summary, utilisation};
use millstream_traffic::Reading;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::outputs::{create, inputs};
use crate::print;
use crate::progress::Progress;

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
    let mut progress = Progress::new(scenario.duration_ns, Arc::<Reading>::default());
    let mut reached_ns = 0;
    while reached_ns < end_ns && !interrupted.load(Ordering::Relaxed) {
        reached_ns = end_ns.min(reached_ns + (end_ns / STEPS).max(1));
        let before = simulation.hops();
        simulation.run(reached_ns, &mut statistics)?;
        progress.packets(simulation.hops() - before, reached_ns);
    }
    progress.finish();
    let summary = summary(scenario, &simulation, &connections, &statistics, reached_ns);
    if let Some(file) = &mut report_file {
        let utilisation = utilisation(&simulation, reached_ns);
        let (nodes, drawn) = drawing(simulation.topology(), &utilisation);
        let input = FabricReportInput {
            summary: &summary,
            delays: &statistics.classes().iter().map(distribution).collect::<Vec<_>>(),
            nodes: &nodes,
            links: &drawn,
            discipline: scenario.scheduler.discipline.name,
            link_rate_bps: scenario.link.rate_bps,
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

/// Nodes and links as the report draws them.
fn drawing(topology: &Topology, utilisation: &[f64]) -> (Vec<DrawnNode>, Vec<DrawnLink>) {
    let end_points = (0..topology.end_points()).map(Node::EndPoint);
    let nodes =
        end_points.chain((0..topology.switches()).map(Node::Switch)).map(|node| DrawnNode {
            name: node.to_string(),
            switch: matches!(node, Node::Switch(_)),
            place: topology.position(node),
        });
    let index = |node: Node| match node {
        Node::EndPoint(number) => number as usize,
        Node::Switch(number) => (topology.end_points() + number) as usize,
    };
    let links = topology.links().iter().zip(utilisation).map(|(link, &utilisation)| DrawnLink {
        from: index(link.from),
        to: index(link.to),
        utilisation,
    });
    (nodes.collect(), links.collect())
}

/// Points of the distribution of delays: µs, and per cent of packets that took no longer.
#[allow(clippy::cast_precision_loss)]
fn distribution(class: &ClassStatistics) -> Vec<(f64, f64)> {
    if class.delivered == 0 {
        return Vec::new();
    }
    let percents = (1..100).map(f64::from).chain([99.5, 99.9, 100.0]);
    percents
        .map(|percent| {
            (class.latencies_ns.value_at_quantile(percent / 100.0) as f64 / 1e3, percent)
        })
        .collect()
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
    let _ = writeln!(text, "routes: {verdict}, {} layers", topology.layers());
    for note in &scenario.notes {
        let _ = writeln!(text, "note: {note}");
    }
    print(&text)
}
