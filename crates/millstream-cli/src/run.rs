//! `millstream run FILE`: runs a scenario on a simulated link or fabric.

use miette::miette;
use millstream_hw::end_system::Cost;
use millstream_report::{
    DelayBound, DeparturesWriter, FlentRecorder, FlentStream, Recorder, RecorderOptions,
    ReportInput, Results, human,
};
use millstream_scenario::{Direction, Input, Scenario, Source, Stream, explain};
use millstream_sim::{End, RunError, link};
use millstream_sweep::{Grid, Setting, network_summary};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use crate::arguments::RunArguments;
use crate::fabric;
use crate::failure::Failure;
use crate::hardware::{self, BackendError};
use crate::interrupt::watch_interrupts;
use crate::outputs::{self, Output, Outputs, inputs, refuse_collisions};
use crate::print;
use crate::progress::Progress;
use crate::terminal::{print_text, say, width};

/// Runs the scenario and writes the requested outputs.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    refuse_json_with_standard_output(arguments)?;
    let mut scenario = load(&arguments.file, &arguments.settings)?;
    if let Some(seed) = arguments.seed {
        scenario.seed = seed;
    }
    refuse_flent(arguments, &scenario)?;
    let interrupted = watch_interrupts()?;
    if scenario.fabric.is_some() {
        return fabric::run(arguments, &scenario, &interrupted);
    }
    if arguments.trace.is_some() {
        return Err(Failure::Input(miette!(
            help = "--departures FILE.csv has the arrival and departure times of a link's packets",
            "--trace is for a fabric; {} has a single link",
            arguments.file.display()
        )));
    }
    if arguments.workers.is_some() {
        return Err(Failure::Input(miette!(
            help = "`millstream sweep --workers` runs several seeds or settings at once",
            "--workers is for a fabric; {} has a single link",
            arguments.file.display()
        )));
    }
    let is_core = scenario.hardware && scenario.end_system.is_none();
    let mut core = is_core.then(|| hardware::scheduler(&scenario)).transpose()?;
    let bounds = if arguments.bounds { bounds(&scenario)? } else { Vec::new() };
    let inputs = inputs(&arguments.file, &scenario);
    let open = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
    let mut input = millstream_scenario::open(&scenario, arguments.pcap.is_some())?;
    if available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        input = input.compute_ahead();
    }
    refuse_collisions(&output_flags(arguments), &inputs)?;
    let departures = open(&arguments.departures)?;
    let summary_file = open(&arguments.summary)?;
    let report_file = open(&arguments.report)?;
    let flent_file = open(&arguments.flent)?;
    let capture = match &arguments.pcap {
        Some(path) => {
            let mut capture = scenario.capture_writer(outputs::file(path)?)?;
            capture.flush().map_err(|error| Failure::output("--pcap", &error))?;
            Some(capture)
        }
        None => None,
    };
    let names: Vec<String> = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
    let departures = departures
        .map(|file| DeparturesWriter::new(file, names.clone()))
        .transpose()
        .map_err(|error| Failure::output("--departures", &error))?;
    let options = RecorderOptions { series: arguments.report.is_some() };
    let mut outputs = Outputs {
        recorder: Recorder::new(names, options),
        bounds,
        last_links: scenario.streams.iter().map(|of| scenario.last_link(of).wire()).collect(),
        network: None,
        flent: flent_file.as_ref().map(|_| flent(&scenario)),
        departures,
        capture,
        progress: Progress::new(scenario.duration_ns, Arc::clone(&input.reading)),
        interrupted: &interrupted,
        failed: None,
    };
    let feed = input.feed.as_mut();
    let ended = match (&scenario.end_system, &mut core) {
        (Some(card), _) => {
            hardware::run(&scenario, card, feed, &mut outputs).map(|(end, cost)| (end, Some(cost)))
        }
        (None, Some(core)) => {
            let ended = link::run_on(&scenario, core.as_mut(), feed, &mut outputs);
            ended.map(|end| (end, None)).map_err(BackendError::Run)
        }
        (None, None) => {
            let ended = link::run(&scenario, feed, &mut outputs);
            ended.map(|end| (end, None)).map_err(BackendError::Run)
        }
    };
    outputs.progress.finish();
    let (end, cost) = match ended {
        Ok(ended) => ended,
        Err(broken) => {
            let failed = outputs.failed;
            outputs.keep_partial();
            return Err(match (broken, failed) {
                (BackendError::Run(RunError::Output(error)), Some(name)) => {
                    Failure::output(name, &error)
                }
                (BackendError::Run(error), _) => error.into(),
                (BackendError::Card(what), _) => Failure::Run(miette!("{what}")),
            });
        }
    };
    if let Err(failure) = core.as_ref().map_or(Ok(()), hardware::Backend::check) {
        outputs.keep_partial();
        return Err(failure);
    }
    let flent = outputs.flent.take();
    let network = outputs.network.take().map(|report| network_summary(&report, end.end_ns));
    let bounds = std::mem::take(&mut outputs.bounds);
    let mut results = outputs.finish()?.finish(end.end_ns);
    results.network = network;
    results.bounds = bounds;
    let mut notes = notes(&scenario, &input, end, &interrupted);
    notes.extend(cost.as_ref().map(hardware::note));
    let summary = || summary_json(&scenario, &results, cost.as_ref());
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    if let Some(file) = summary_file {
        outputs::write(file, "--summary", &summary())?;
    }
    if let (Some(mut file), Some(flent)) = (flent_file, flent) {
        let written = flent.write(&scenario.name, end.end_ns, &mut file);
        let written = written.and_then(|()| file.finish());
        written.map_err(|error| Failure::output("--flent", &error))?;
    }
    if let Some(mut file) = report_file {
        let written = millstream_report::write_report(
            &mut file,
            &ReportInput {
                results: &results,
                scenario_name: &scenario.name,
                scenario_text: &scenario.text,
                discipline: scenario.scheduler.discipline.name,
                structure: match scenario.end_system {
                    Some(_) => "rtl, end-system",
                    None => scenario.structure_name(),
                },
                link_rate_bps: scenario.link.rate_bps,
                notes: &notes,
            },
        );
        let written = written.and_then(|()| file.finish());
        written.map_err(|error| Failure::output("--report", &error))?;
    }
    if arguments.json {
        print(&summary())?;
    } else if ![&arguments.departures, &arguments.flent]
        .iter()
        .any(|path| path.as_deref() == Some(Path::new("-")))
    {
        print_text(&millstream_report::table(&results, width()))?;
    }
    if let Some(path) = &arguments.report {
        say(&format!("report: {}", path.display()));
    }
    refuse_broken_bounds(&results)?;
    interruption(end, interrupted.load(Ordering::Relaxed))
}

/// Rejects `--flent` without a network, and a name for which Flent expects compressed data.
fn refuse_flent(arguments: &RunArguments, scenario: &Scenario) -> Result<(), Failure> {
    let Some(path) = &arguments.flent else { return Ok(()) };
    if scenario.network.is_none() {
        return Err(Failure::Input(miette!(
            help = "it has the series of `tcp`, `web` and `echo` sources; --report and --summary \
                    are for any scenario",
            "--flent is for a network; {} has neither a `[[hop]]` nor sources that react",
            arguments.file.display()
        )));
    }
    let ending = path.extension().unwrap_or_default();
    if ["gz", "bz2", "flnt"].iter().any(|compressed| ending == *compressed) {
        return Err(Failure::Input(miette!(
            help = "give a name such as run.flent, which Flent reads too; gzip compresses it",
            "--flent {}: the file is written without compression",
            path.display()
        )));
    }
    Ok(())
}

/// Returns the recorder of the data file of Flent.
fn flent(scenario: &Scenario) -> FlentRecorder {
    let kind = |stream: &Stream| {
        let connections = match &stream.source {
            Source::Echo(_) => return FlentStream::Ping,
            Source::Tcp(tcp) if tcp.interval_ns.is_none() => tcp.connections,
            Source::Tcp(_) | Source::Web(_) => 1,
            _ => return FlentStream::None,
        };
        match stream.direction {
            Direction::Forward => FlentStream::Download(connections),
            Direction::Return => FlentStream::Upload(connections),
        }
    };
    FlentRecorder::new(scenario.streams.iter().map(|stream| (stream.name.clone(), kind(stream))))
}

/// Loads a scenario and replaces the values of `settings`, each `PLACE=VALUE`.
pub(crate) fn load(file: &Path, settings: &[String]) -> Result<Scenario, Failure> {
    if settings.is_empty() {
        return Ok(Scenario::load(file)?);
    }
    let settings: Vec<Setting> =
        settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if let Some(setting) = settings.iter().find(|setting| setting.values.len() > 1) {
        return Err(Failure::Input(miette!(
            help = "`millstream sweep` runs all values of a key",
            "`--set {setting}`: more than one value"
        )));
    }
    Ok(Grid::load(file, settings)?.into_first())
}

/// Returns the bound on the delay of each stream, and prints those that are known.
///
/// Reads every arrival: the bounds must cover the whole run.
fn bounds(scenario: &Scenario) -> Result<Vec<Option<DelayBound>>, Failure> {
    let explanation = explain(scenario, u64::MAX)?;
    for stream in &explanation.streams {
        let unknown = || format!("no bound on the delay ({})", stream.verdict.answer.name());
        let bound_ns = stream.bounds.worst_delay_ns;
        say(&before_the_run(&stream.name, &bound_ns.map_or_else(unknown, at_most)));
    }
    let unmeasured = |bound_ns| DelayBound { bound_ns, longest_ns: 0 };
    let streams = explanation.streams.iter();
    Ok(streams.map(|stream| stream.bounds.worst_delay_ns.map(unmeasured)).collect())
}

/// Returns the guarantee of a stream as a line of text.
pub(crate) fn before_the_run(name: &str, guarantee: &str) -> String {
    format!("before the run: `{name}` has {guarantee}")
}

/// Returns a bound as text.
pub(crate) fn at_most(bound_ns: u64) -> String {
    format!("a delay of at most {}", human::time(bound_ns))
}

/// Fails if a delay exceeds its bound: either the bound or the scheduler is then wrong.
fn refuse_broken_bounds(results: &Results) -> Result<(), Failure> {
    let streams = results.names.iter().zip(&results.bounds);
    streams.filter_map(|(name, bound)| bound.map(|of| (name, of))).try_for_each(refuse_broken)
}

/// Fails if the longest delay of the stream called `name` exceeds its bound.
pub(crate) fn refuse_broken((name, of): (&String, DelayBound)) -> Result<(), Failure> {
    let DelayBound { bound_ns, longest_ns } = of;
    if longest_ns <= bound_ns {
        return Ok(());
    }
    Err(Failure::Run(miette!(
        help = "this is a defect of Millstream: please report it with the scenario",
        "stream `{name}`: the longest delay, {longest_ns} ns, exceeds its bound, {bound_ns} ns"
    )))
}

/// Rejects `--json` beside another output to standard output.
fn refuse_json_with_standard_output(arguments: &RunArguments) -> Result<(), Failure> {
    let standard = Some(Path::new("-"));
    match output_flags(arguments).into_iter().find(|(_, path)| *path == standard) {
        Some((flag, _)) if arguments.json => Err(Failure::Input(miette!(
            help = format!("give {flag} the name of a file"),
            "{flag} - and --json both write to standard output"
        ))),
        _ => Ok(()),
    }
}

/// Returns every output file of the command line with its flag.
pub(crate) fn output_flags(arguments: &RunArguments) -> [(&'static str, Option<&Path>); 6] {
    // `--pcap -` names a file; for other flags, `-` is standard output.
    let pcap = arguments.pcap.as_deref();
    let pcap = pcap.map(|path| if path == Path::new("-") { Path::new("./-") } else { path });
    [
        ("--departures", arguments.departures.as_deref()),
        ("--summary", arguments.summary.as_deref()),
        ("--report", arguments.report.as_deref()),
        ("--flent", arguments.flent.as_deref()),
        ("--pcap", pcap),
        ("--trace", arguments.trace.as_deref()),
    ]
}

fn summary_json(scenario: &Scenario, results: &Results, cost: Option<&Cost>) -> String {
    let mut summary = results.summary(&scenario.name);
    summary.end_system = cost.map(hardware::summary);
    serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
}

fn interruption(end: End, interrupted: bool) -> Result<(), Failure> {
    if interrupted {
        Err(Failure::Interrupted(format!(
            "interrupted at {:.3} s of simulated time, {} still waiting; everything until then is \
             written",
            std::time::Duration::from_nanos(end.end_ns).as_secs_f64(),
            human::count(end.waiting, "packet")
        )))
    } else {
        Ok(())
    }
}

/// Returns the notes on the results.
fn notes(scenario: &Scenario, input: &Input, end: End, interrupted: &AtomicBool) -> Vec<String> {
    let stuck = end.waiting > 0 && !interrupted.load(Ordering::Relaxed);
    let waiting = stuck.then(|| {
        format!(
            "{} queued at the end: more credits are needed than are ever returned",
            human::count(end.waiting, "packet")
        )
    });
    scenario.notes.iter().cloned().chain(input.notes()).chain(waiting).collect()
}
