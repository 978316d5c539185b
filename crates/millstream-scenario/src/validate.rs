//! From the file's tables to a [`Scenario`]: every rule of the format that types cannot say.

use millstream::Window;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use self::contract::{Defaults, Unused};
use crate::error::{Problem, nearest};
use crate::file::File;
use crate::scenario::{Link, LinkCredits, Scenario, Stream};

mod contract;
mod scheduler;
mod source;

/// Validates `text`; `name` is the file's name, `folder` what its inputs are relative to.
pub(crate) fn validate(name: &str, text: &str, folder: &Path) -> Result<Scenario, Vec<Problem>> {
    let file: File = toml::from_str(text).map_err(|error| vec![syntax_problem(&error, text)])?;
    let mut problems = Vec::new();
    let discipline = scheduler::discipline(file.scheduler.get_ref(), &mut problems);
    let structure = discipline.and_then(|discipline| {
        scheduler::structure(file.scheduler.get_ref(), discipline, file.stream.len(), &mut problems)
    });
    let duration_ns = file.scenario.duration.map(|duration| duration.0);
    if file.stream.is_empty() {
        problems.push(
            Problem::whole_file("there is no stream").help("add at least one [[stream]] table"),
        );
    }
    let mut names: HashMap<&str, Range<usize>> = HashMap::with_capacity(file.stream.len());
    let mut streams = Vec::with_capacity(file.stream.len());
    let mut unused = Unused::default();
    let defaults = Defaults::of(&file);
    let options = scheduler::options(&file, &mut problems);
    for table in &file.stream {
        let stream = table.get_ref();
        let stream_name = stream.name.get_ref().as_str();
        if stream_name.is_empty() {
            problems.push(Problem::new(stream.name.span(), "a stream's name is empty"));
        }
        if names.insert(stream_name, stream.name.span()).is_some() {
            let message = format!("two streams are called `{stream_name}`");
            problems.push(Problem::new(stream.name.span(), message).label("the second"));
        }
        let source = source::source(&stream.source, duration_ns, &mut problems);
        let contract = contract::contract(table, discipline, &defaults, &mut problems);
        if let Some(discipline) = discipline {
            unused.note(stream, discipline);
        }
        if let (Some(source), Some(contract)) = (source, contract) {
            let period_ns = stream.period.as_ref().map(|period| period.get_ref().0);
            let window = stream.window.map_or(Window::default(), |window| window.0);
            let window = (window.lost(), window.of());
            let name = stream_name.to_owned();
            streams.push(Stream { name, contract, period_ns, window, source });
        }
    }
    match (discipline, structure) {
        (Some(discipline), Some(structure)) if problems.is_empty() => Ok(Scenario {
            name: file.scenario.name.clone().unwrap_or_else(|| stem(name)),
            seed: file.scenario.seed.unwrap_or(1),
            duration_ns,
            link: Link {
                rate_bps: file.link.rate.0,
                overhead: file.link.overhead,
                credits: file.link.credits.as_ref().map(|credits| LinkCredits {
                    return_delay_ns: credits.return_delay.map_or(0, |delay| delay.0),
                }),
            },
            discipline,
            structure,
            options,
            streams,
            notes: unused.into_notes(discipline),
            text: text.to_owned(),
            folder: folder.to_path_buf(),
        }),
        _ => Err(problems),
    }
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(|| name.to_owned(), |s| s.to_string_lossy().into())
}

/// A TOML error as a problem: its place, and what was meant where a known word is near.
fn syntax_problem(error: &toml::de::Error, text: &str) -> Problem {
    let message = error.message().trim().to_owned();
    let span = error.span().map(|span| span.start.min(text.len())..span.end.min(text.len()));
    let mut problem = match span {
        Some(span) => Problem::new(span, message.clone()),
        None => Problem::whole_file(message.clone()),
    };
    let mut words = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown")
        && let Some(word) = words.next()
    {
        problem = match (word, nearest(word, words)) {
            (_, Some(near)) => problem.help(format!("did you mean `{near}`?")),
            ("class", None) => problem.help("classes are not part of this version"),
            _ => problem,
        };
    } else if message.starts_with("missing field") {
        problem = problem.label("in this table");
    }
    problem
}
