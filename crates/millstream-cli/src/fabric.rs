//! `millstream run` and `check` for a scenario with a fabric.

use miette::miette;
use millstream_report::{DelayBound, fabric_table, human};
use millstream_scenario::{Answer, Scenario};
use millstream_sim::fabric::{FabricError, FabricListener, Journeys, PrepareError, delay_bounds};
use millstream_sweep::fabric::{
    FabricExplanation, FabricPageRecorder, FabricRun, FabricStreamExplanation,
};
use millstream_traffic::ReadProgress;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::outputs::{self, Output, inputs, refuse_collisions};
use crate::print;
use crate::progress::Progress;
use crate::run;
use crate::selection::selection;
use crate::terminal::{print_text, say, text_table, width};
use crate::trace::write_journeys;

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

/// Runs the scenario's fabric and writes the requested outputs.
pub(crate) fn run(
    arguments: &RunArguments,
    scenario: &Scenario,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let results = "use --summary FILE.json or --json for the results of a fabric";
    for (given, name) in
        [(arguments.departures.is_some(), "--departures"), (arguments.pcap.is_some(), "--pcap")]
    {
        if given {
            return Err(Failure::Input(miette!(
                help = results,
                "{name} is for a single link; {} has a fabric",
                arguments.file.display()
            )));
        }
    }
    let inputs = inputs(&arguments.file, scenario);
    refuse_collisions(&run::output_flags(arguments), &inputs)?;
    let open = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
    let summary_file = open(&arguments.summary)?;
    let report_file = open(&arguments.report)?;
    let mut run = FabricRun::new(scenario)?;
    if arguments.bounds {
        run.bounds_ns = bounds_ns(scenario, &run);
    }
    run.simulation.set_workers(arguments.workers.unwrap_or(1));
    let streams = u8::try_from(scenario.streams.len()).unwrap_or(u8::MAX);
    let end_points = run.simulation.topology().end_points();
    let selection = selection(&arguments.trace_packets, scenario, end_points)?;
    let trace_file = open(&arguments.trace)?;
    let mut recorder = report_file.is_some().then(|| FabricPageRecorder::new(&run));
    let mut journeys =
        trace_file.is_some().then(|| Journeys::new(&run.simulation, streams, selection));
    let ended = if recorder.is_some() || journeys.is_some() {
        finish(&mut run, scenario, interrupted, &mut (&mut recorder, &mut journeys))
    } else {
        finish(&mut run, scenario, interrupted, &mut ())
    };
    if let (Some(mut file), Some(journeys)) = (trace_file, &journeys) {
        let names: Vec<String> =
            scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        let written = write_journeys(&mut file, journeys, run.simulation.topology(), &names);
        let written = written.and_then(|()| match &ended {
            Ok(()) => file.finish(),
            Err(_) => file.keep_partial(),
        });
        written.map_err(|error| Failure::output("--trace", &error))?;
        say(&format!("trace: {}", trace_note(journeys)));
    }
    ended?;
    if let (Some(mut file), Some(recorder)) = (report_file, &recorder) {
        let written = recorder.write_page(&mut file, &run, scenario).and_then(|()| file.finish());
        written.map_err(|error| Failure::output("--report", &error))?;
    }
    let summary = run.summary(scenario);
    scenario.notes.iter().for_each(|note| say(&format!("note: {note}")));
    let json = serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n";
    if let Some(file) = summary_file {
        outputs::write(file, "--summary", &json)?;
    }
    if arguments.json {
        print(&json)?;
    } else {
        print_text(&fabric_table(&summary, width()))?;
    }
    if let Some(path) = &arguments.report {
        say(&format!("report: {}", path.display()));
    }
    for (stream, bound_ns) in summary.streams.iter().zip(&run.bounds_ns) {
        let longest_ns = stream.delay_ns.as_ref().map_or(0, |delay| delay.max);
        run::refuse_broken((&stream.name, DelayBound { bound_ns: *bound_ns, longest_ns }))?;
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!(
            "interrupted at {} of simulated time; everything until then is counted",
            human::time(run.reached_ns)
        )));
    }
    Ok(())
}

/// Returns the guaranteed longest delay of each stream, ns, and prints them; empty without bounds.
fn bounds_ns(scenario: &Scenario, run: &FabricRun) -> Vec<u64> {
    match delay_bounds(scenario, &run.simulation) {
        Ok(bounds_ns) => {
            for (stream, bound_ns) in scenario.streams.iter().zip(&bounds_ns) {
                say(&run::before_the_run(&stream.name, &run::at_most(*bound_ns)));
            }
            bounds_ns
        }
        Err(reason) => {
            say(&format!("before the run: no bound on delays: {reason}"));
            Vec::new()
        }
    }
}

/// Runs to the end, or until interrupted.
fn finish(
    run: &mut FabricRun,
    scenario: &Scenario,
    interrupted: &AtomicBool,
    listener: &mut (impl FabricListener + Send),
) -> Result<(), FabricError> {
    let mut progress = Progress::new(scenario.duration_ns, Arc::<ReadProgress>::default());
    let mut more = true;
    while more && !interrupted.load(Ordering::Relaxed) {
        let before = run.simulation.hops();
        more = run.step_for(listener)?;
        progress.packets(run.simulation.hops() - before, run.reached_ns);
    }
    progress.finish();
    Ok(())
}

/// Returns the numbers of packets and buffer samples that a trace contains and omits.
fn trace_note(journeys: &Journeys) -> String {
    let kept = journeys.journeys().len() as u64;
    let mut text = format!("{kept} of {}", human::count(journeys.allowed(), "selected packet"));
    if journeys.samples_dropped() > 0 {
        let _ =
            write!(text, "; {} omitted", human::count(journeys.samples_dropped(), "buffer sample"));
    }
    text
}

/// Prints the fabric, whether its routes can deadlock, and the admission of connections.
///
/// Connections that admission rejects are infeasible. Delays are guaranteed where they have bounds.
pub(crate) fn check(scenario: &Scenario, json: bool) -> Result<Answer, Failure> {
    let explanation = FabricExplanation::of(scenario)?;
    let refused = |of: &FabricStreamExplanation| of.connections_admitted < of.connections_asked;
    let refused = explanation.streams.iter().any(refused);
    let answer = match &explanation.no_bound {
        _ if refused => Answer::Infeasible,
        None => Answer::Guaranteed,
        Some(_) => Answer::NotKnown,
    };
    if json {
        print(&(serde_json::to_string_pretty(&explanation).unwrap_or_default() + "\n"))?;
        return Ok(answer);
    }
    let mut text = format!(
        "{}: {}, {}, {} of {}, discipline {}\n",
        explanation.scenario,
        human::count(explanation.end_points.into(), "end-point"),
        human::count(explanation.switches.into(), "switch"),
        human::count(explanation.links as u64, "one-way link"),
        human::rate(explanation.rate_bps),
        explanation.discipline,
    );
    let rows = explanation.streams.iter().map(|stream| {
        let shown = |count: u64| {
            if stream.connections_asked > 0 { count.to_string() } else { "–".into() }
        };
        vec![
            stream.name.clone(),
            shown(stream.connections_asked),
            shown(stream.connections_admitted),
            stream.worst_delay_ns.map_or("–".into(), human::time),
        ]
    });
    text += &text_table(&["stream", "connections", "admitted", "worst delay"], rows);
    let verdict = match explanation.deadlock_links {
        0 => "free of deadlock".to_owned(),
        links => {
            let links = human::count(links as u64, "link");
            format!("may deadlock: {links} in dependency cycles")
        }
    };
    let layers = match explanation.layers {
        1 => "on one layer".to_owned(),
        layers => format!("on {layers} layers"),
    };
    let _ = writeln!(text, "routes: {verdict}, {layers}");
    if refused {
        text.push_str("infeasible: more connections are requested than the links can carry\n");
    }
    let _ = match &explanation.no_bound {
        Some(reason) => writeln!(text, "not known: {reason}"),
        None => writeln!(text, "guaranteed: the worst delays, by busy periods (Cruz 1991)"),
    };
    for note in &explanation.notes {
        let _ = writeln!(text, "note: {note}");
    }
    print_text(&text)?;
    Ok(answer)
}
