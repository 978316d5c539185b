//! `millstream sweep FILE`: runs every combination of settings with every seed, on threads.

use millstream_report::human::count;
use millstream_sweep::{
    Grid, Output, Plan, Progress, Setting, StopRule, SweepError, SweepResult, parse_seeds,
};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::interrupt::watch_interrupts;
use crate::outputs::{self, refuse_collisions};
use crate::print;
use crate::progress::RunsProgress;
use crate::terminal::{print_text, say, width};

/// The largest number of failed runs that are listed individually.
const LISTED: usize = 20;

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::InvalidArgument { message, help: Some(help) } => {
                Self::Input(miette::miette!(help = help, "{message}"))
            }
            SweepError::InvalidArgument { message, help: None } => {
                Self::Input(miette::miette!("{message}"))
            }
            SweepError::Scenario(error) => error.into(),
            SweepError::File { path, error } => Self::file(Path::new(&path), &error),
        }
    }
}

/// Runs the grid, writes the dataset and prints the table.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let settings: Vec<Setting> =
        arguments.settings.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let seeds = arguments.seeds.as_deref().map(parse_seeds).transpose()?;
    let grid = Grid::load(&arguments.file, settings)?;
    let until: Vec<StopRule> = arguments
        .until
        .iter()
        .map(|text| StopRule::parse(text, &grid))
        .collect::<Result<_, _>>()?;
    let output = arguments.out.as_deref().map(Output::at).transpose()?;
    let is_page_printed = arguments.report.as_deref() == Some(Path::new("-"));
    if is_page_printed && arguments.json {
        return Err(Failure::Input(miette::miette!(
            help = "give --report the name of a file",
            "--report - and --json both write to standard output"
        )));
    }
    let inputs: Vec<PathBuf> = grid.inputs().map(PathBuf::from).collect();
    let files = output.iter().flat_map(Output::files).map(|file| ("--out", Some(file)));
    let files: Vec<_> = files.chain([("--report", arguments.report.as_deref())]).collect();
    refuse_collisions(&files, &inputs)?;
    let page = arguments.report.as_deref().map(outputs::Output::create).transpose()?;
    let plan = Plan {
        seeds: seeds.unwrap_or_else(|| vec![grid.seed()]),
        stop_rules: until,
        workers: arguments
            .workers
            .unwrap_or_else(|| available_parallelism().map_or(1, usize::from)),
        output,
    };
    let interrupted = watch_interrupts()?;
    let bar = RunsProgress::new();
    let report_progress = |Progress { ended, of }| bar.ended(ended as u64, of as u64);
    let swept = millstream_sweep::run(&grid, &plan, &interrupted, &report_progress);
    bar.finish();
    let swept = swept?;
    if swept.interrupted {
        return Err(Failure::Interrupted(interruption(&plan, &swept)));
    }
    if let Some(mut page) = page {
        let written = swept.write_page(&mut page, &grid, &plan).and_then(|()| page.finish());
        written.map_err(|error| Failure::output("--report", &error))?;
    }
    if arguments.json {
        print(&swept.json(&grid))?;
    } else if !is_page_printed {
        print_text(&swept.table(&grid, &plan.stop_rules, width()))?;
    }
    print_notes(&plan, &grid, &swept, arguments.report.as_deref())
}

fn interruption(plan: &Plan, swept: &SweepResult) -> String {
    let Progress { ended, of } = swept.progress;
    match &plan.output {
        Some(output) => format!(
            "interrupted: {} kept in {}; repeat the command to continue",
            count((swept.resumed + swept.executed) as u64, "run"),
            output.journal().display(),
        ),
        None => {
            format!("interrupted after {ended} of {}; --out keeps them", count(of as u64, "run"))
        }
    }
}

/// Prints notes and failed runs. A failed run fails the command.
fn print_notes(
    plan: &Plan,
    grid: &Grid,
    swept: &SweepResult,
    report: Option<&Path>,
) -> Result<(), Failure> {
    let Progress { ended, .. } = swept.progress;
    let all = grid.points() * plan.seeds.len();
    let mut parts = vec![count(ended as u64, "run")];
    if swept.resumed > 0 {
        parts.push(format!("{} of them from the journal", swept.resumed.min(ended)));
    }
    if ended < all {
        parts.push(format!("{} of {all} not needed", all - ended));
    }
    say(&parts.join(", "));
    for file in plan.output.iter().flat_map(Output::datasets) {
        say(&format!("dataset: {}", file.display()));
    }
    if let Some(report) = report {
        say(&format!("report: {}", report.display()));
    }
    if swept.failures.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} of {} failed", swept.failures.len(), count(ended as u64, "run"));
    for failure in swept.failures.iter().take(LISTED) {
        let settings = match failure.settings.as_str() {
            "" => String::new(),
            settings => format!("{settings} "),
        };
        text += &format!("\n{settings}seed {}: {}", failure.seed, failure.why);
    }
    if swept.failures.len() > LISTED {
        text += &format!("\nand {} more", swept.failures.len() - LISTED);
    }
    Err(Failure::Run(miette::miette!("{text}")))
}
