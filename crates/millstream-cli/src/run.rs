//! `millstream run FILE`: runs a scenario on a simulated link or fabric.

use miette::miette;
use millstream_hw::end_system::Cost;
use millstream_report::{DeparturesWriter, Recorder, RecorderOptions, ReportInput, Results};
use millstream_scenario::{Input, Scenario};
use millstream_sim::{End, RunError, link};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arguments::RunArguments;
use crate::fabric;
use crate::failure::Failure;
use crate::hardware::{self, BackendError};
use crate::interrupt::watch_interrupts;
use crate::outputs::{self, Output, Outputs, inputs, refuse_collisions};
use crate::print;
use crate::progress::Progress;

/// Runs the scenario and writes the requested outputs.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let mut scenario = Scenario::load(&arguments.file)?;
    if let Some(seed) = arguments.seed {
        scenario.seed = seed;
    }
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
    let mut scheduler = match scenario.end_system {
        Some(_) => None,
        None => Some(hardware::scheduler(&scenario)?),
    };
    let inputs = inputs(&arguments.file, &scenario);
    let open = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
    let mut input = millstream_scenario::open(&scenario, arguments.pcap.is_some())?;
    refuse_collisions(&output_flags(arguments), &inputs)?;
    let departures = open(&arguments.departures)?;
    let summary_file = open(&arguments.summary)?;
    let report_file = open(&arguments.report)?;
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
        departures,
        capture,
        progress: Progress::new(scenario.duration_ns, Arc::clone(&input.reading)),
        interrupted: &interrupted,
        failed: None,
    };
    let feed = input.feed.as_mut();
    let ended = match (&scenario.end_system, &mut scheduler) {
        (Some(card), _) => {
            hardware::run(&scenario, card, feed, &mut outputs).map(|(end, cost)| (end, Some(cost)))
        }
        (None, scheduler) => {
            let scheduler =
                scheduler.as_mut().expect("a scheduler, unless there is a card").as_mut();
            let ended = link::run_on(&scenario, scheduler, feed, &mut outputs);
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
    if let Err(failure) = scheduler.as_ref().map_or(Ok(()), hardware::Backend::check) {
        outputs.keep_partial();
        return Err(failure);
    }
    let results = outputs.finish()?.finish(end.end_ns);
    let mut notes = notes(&scenario, &input, end, &interrupted);
    notes.extend(cost.as_ref().map(hardware::note));
    let summary = || summary_json(&scenario, &results, cost.as_ref());
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    if let Some(file) = summary_file {
        outputs::write(file, "--summary", &summary())?;
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
    } else if arguments.departures.as_deref() != Some(Path::new("-")) {
        print(&millstream_report::table(&results))?;
    }
    if let Some(path) = &arguments.report {
        eprintln!("report: {}", path.display());
    }
    interruption(end, interrupted.load(Ordering::Relaxed))
}

/// Returns every output file of the command line with its flag.
pub(crate) fn output_flags(arguments: &RunArguments) -> [(&'static str, Option<&Path>); 5] {
    // `--pcap -` names a file; for other flags, `-` is standard output.
    let pcap = arguments.pcap.as_deref();
    let pcap = pcap.map(|path| if path == Path::new("-") { Path::new("./-") } else { path });
    [
        ("--departures", arguments.departures.as_deref()),
        ("--summary", arguments.summary.as_deref()),
        ("--report", arguments.report.as_deref()),
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
            "interrupted at {:.3} s of simulated time, {} packets still waiting; \
             everything until then is written",
            std::time::Duration::from_nanos(end.end_ns).as_secs_f64(),
            end.waiting
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
            "{} packets are queued at the end: they need more credits than are ever returned",
            end.waiting
        )
    });
    scenario.notes.iter().cloned().chain(input.notes()).chain(waiting).collect()
}
