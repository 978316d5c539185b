//! Validation of the file's tables into a [`Scenario`]: the rules that types cannot express.

use miette::SourceSpan;
use millstream::Window;
use millstream::catalogue::StructureName;
use millstream::flow_queue::FlowOptions;
use std::collections::HashSet;
use std::path::Path;
use toml::Spanned;

use self::contract::{ContractKeys, Defaults, IgnoredAttributes};
pub(crate) use self::router::validate_router;
use self::scheduler::Keys;
pub(crate) use self::source::CheckedSource;
use crate::error::{Problem, nearest};
use crate::file::File;
use crate::network::Direction;
use crate::parse::parse;
use crate::router::FlowBy;
use crate::scenario::{Link, LinkCredits, Scenario, SchedulerConfig, Stream};

mod aqm;
mod classes;
mod contract;
mod end_system;
mod fabric;
mod flows;
mod hilq;
mod media;
mod network;
mod router;
mod rtl;
mod scheduler;
mod source;
mod stream_match;

/// Validates the text of a scenario file called `name`; its inputs are relative to `folder`. The
/// caller sets the scenario's text.
pub(crate) fn validate(name: &str, text: &str, folder: &Path) -> Result<Scenario, Vec<Problem>> {
    let file = parse(text).map_err(|error| {
        vec![not_a_scenario(name, text).unwrap_or_else(|| syntax_problem(&error, text))]
    })?;
    let mut problems = Vec::new();
    file.link.overhead.check(file.link.framing.as_ref(), &mut problems);
    let duration_ns = file.scenario.duration.map(|duration| duration.0);
    if file.stream.is_empty() {
        problems.push(
            Problem::whole_file("there is no stream").help("add at least one [[stream]] table"),
        );
    }
    let fabric = fabric::fabric(&file, &mut problems);
    let of_file = file.stream.iter().map(|stream| stream.get_ref().name.get_ref().as_str());
    let media = media::media(file.media.as_ref(), &of_file.collect::<Vec<_>>(), &mut problems);
    if let (Some(media), true) = (&file.media, file.link.overhead.assumes_ethernet()) {
        let message = "the name of an `overhead` assumes lengths with an Ethernet header, but \
                       media packets are UDP payloads";
        let help = "give bytes: overhead = 66 for Ethernet (38, and 28 of the IP and UDP headers)";
        problems.push(Problem::new(media.span(), message).help(help));
    }
    media::check_recorded_streams(&file, &mut problems);
    source::check_paths(&file, &mut problems);
    source::check_udp(&file, &mut problems);
    let defaults = Defaults::of(&file);
    let in_fabric = file.fabric.is_some();
    let mut ignored = IgnoredAttributes::new(&file);
    let tree = classes::Tree::of(&file, &mut problems);
    let scheduler = scheduler::scheduler(&Keys::of_root(&file), tree.children(None), &mut problems);
    let classes = tree.classes(&file, scheduler.as_ref(), &defaults, &mut ignored, &mut problems);
    let discipline_of = |class: Option<usize>| match class {
        None => scheduler.as_ref().map(|scheduler| scheduler.discipline),
        Some(class) => classes.get(class).map(|class| class.scheduler.discipline),
    };
    let on_hilq = |scheduler: &SchedulerConfig| scheduler.structure == StructureName::Hilq;
    let on_hilq = scheduler.as_ref().is_some_and(on_hilq);
    let hardware = rtl::is_requested(&file);
    let end_system = end_system::end_system(&file, &link(&file), &mut problems);
    let mut unsupported = hilq::UnsupportedAttributes::default();
    let mut names: HashSet<&str> = HashSet::with_capacity(file.stream.len());
    let mut streams = Vec::with_capacity(file.stream.len());
    for (table, class) in file.stream.iter().map(Spanned::get_ref).zip(tree.classes_of_streams()) {
        let name = table.name.get_ref().as_str();
        if name.is_empty() {
            problems.push(Problem::new(table.name.span(), "a stream's name is empty"));
        }
        if !names.insert(name) {
            let message = format!("two streams are called `{name}`");
            problems.push(Problem::new(table.name.span(), message).label("the second"));
        }
        let shares = network::shares(table, &file, &mut problems);
        let source = table.source.of_duration(duration_ns, &mut problems);
        let of_fabric = fabric.as_ref();
        let load = fabric::stream(table, source.as_ref(), of_fabric, in_fabric, &mut problems);
        let virtual_link = fabric::virtual_link(table, in_fabric, &mut problems);
        let discipline = discipline_of(class);
        let of_contract = shares.map_or(table, |shared| file.stream[shared].get_ref());
        let matches = stream_match::of_stream(table, &mut problems);
        let contract_keys = ContractKeys::of_stream(of_contract);
        // The problems of a shared contract are those of its own stream.
        let mut of_other = Vec::new();
        let problems_of_contract = if shares.is_some() { &mut of_other } else { &mut problems };
        let contract =
            contract::contract(&contract_keys, discipline, &defaults, problems_of_contract);
        let flows = flows::of_stream(of_contract, problems_of_contract);
        let contract = contract.map(|contract| match flows {
            Some(flows) => {
                let number = streams.len() as u64;
                let seed = file.scenario.seed.unwrap_or(1).wrapping_add(number);
                contract.flows(FlowOptions { seed, ..flows })
            }
            None => contract,
        });
        if let Some(discipline) = discipline {
            ignored.note(&contract_keys, discipline);
        }
        if let Some(contract) = contract.as_ref().filter(|_| on_hilq) {
            unsupported.check(table, contract);
        }
        if let Some(contract) = contract.as_ref().filter(|_| hardware) {
            rtl::check(table, contract, &mut problems);
        }
        if let (Some(contract), Some(card)) = (&contract, &end_system) {
            end_system::check(table, contract, card, &mut problems);
        }
        if let (Some(source), Some(contract)) = (source, contract) {
            let period_ns = table.period.as_ref().map(|period| period.get_ref().0);
            let window = table.window.map_or(Window::default(), |window| window.0);
            let window = (window.lost(), window.of());
            streams.extend(source::with_paths(Stream {
                name: name.to_owned(),
                contract,
                period_ns,
                window,
                source,
                class,
                load,
                virtual_link,
                shares,
                flow_by: table.flows.as_ref().map_or(FlowBy::default(), |of| of.get_ref().by),
                hosts_by: table.flows.as_ref().and_then(|of| of.get_ref().hosts),
                direction: table.direction.as_ref().map_or(Direction::Forward, |of| *of.get_ref()),
                matches,
            }));
        }
    }
    let network = network::network(&file, &streams, &tree, &defaults, &mut problems);
    unsupported.report(&mut problems);
    if let (Some(fabric), true) = (&file.fabric, on_hilq) {
        let message = "structure hilq serves one link without credits, not a fabric";
        problems.push(Problem::new(fabric.span(), message).help("structure = \"auto\""));
    }
    if let (Some(fabric), true) = (&file.fabric, hardware) {
        let message = "structure rtl serves one link, not a fabric";
        problems.push(Problem::new(fabric.span(), message).help("structure = \"auto\""));
    }
    match scheduler {
        Some(scheduler) if problems.is_empty() => Ok(Scenario {
            file: name.to_owned(),
            name: file.scenario.name.clone().unwrap_or_else(|| stem(name)),
            seed: file.scenario.seed.unwrap_or(1),
            duration_ns,
            link: link(&file),
            fabric,
            network,
            media,
            has_media: file.media.is_some(),
            scheduler,
            hardware,
            end_system,
            classes,
            streams,
            notes: ignored.into_notes(),
            text: String::new(),
            folder: folder.to_path_buf(),
        }),
        _ => Err(problems),
    }
}

/// Returns a number, and checks that it is in `range`; `what` begins the message.
fn check_range(
    given: Option<&Spanned<u32>>,
    default: u32,
    range: std::ops::RangeInclusive<u32>,
    what: &str,
    problems: &mut Vec<Problem>,
) -> u32 {
    let Some(given) = given else { return default };
    let value = *given.get_ref();
    if !range.contains(&value) {
        let help = format!("from {} to {}", range.start(), range.end());
        problems.push(Problem::new(given.span(), format!("{what} of {value}")).help(help));
    }
    value
}

fn link(file: &File) -> Link {
    let credits = file.link.credits.as_ref().map(|credits| LinkCredits {
        return_delay_ns: credits.return_delay.map_or(0, |delay| delay.0),
    });
    Link { credits, ..Link::of(file.link.wire()) }
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(|| name.to_owned(), |s| s.to_string_lossy().into())
}

/// Returns the problem of a router file that was read as a scenario.
fn not_a_scenario(name: &str, text: &str) -> Option<Problem> {
    let keys = toml::from_str::<toml::Table>(text).ok()?;
    let is_router_file = keys.contains_key("router") && !keys.contains_key("scheduler");
    let help = format!("`millstream route {name}` runs it, `millstream check {name}` checks it");
    is_router_file.then(|| Problem::whole_file("this is a router file, not a scenario").help(help))
}

/// Returns the problem of a scenario that was read as a router file.
fn not_a_router_file(name: &str, text: &str) -> Option<Problem> {
    let keys = toml::from_str::<toml::Table>(text).ok()?;
    if keys.contains_key("router") || !keys.contains_key("scheduler") {
        return None;
    }
    let (kind, command) = match (keys.contains_key("media"), keys.contains_key("fabric")) {
        (true, _) => ("media server", "serve"),
        (_, true) => ("fabric", "run"),
        _ => ("link", "run"),
    };
    let message = format!("this is the scenario of a {kind}, not a router file");
    Some(Problem::whole_file(message).help(format!("use `millstream {command} {name}`")))
}

/// Converts a TOML error into a problem with its span and a suggestion.
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
        && let Some(near) = nearest(word, words.clone())
    {
        problem = problem.help(format!("did you mean `{near}`?"));
    } else if message.starts_with("missing field") {
        problem = problem.label("in this table");
        if let Some(example) = words.next().and_then(example) {
            problem = problem.help(format!("for example {example}"));
        }
    } else if message == "duplicate key"
        && let Some(help) = duplicate_table_help(text, problem.span.as_ref())
    {
        problem = problem.help(help);
    } else if let Some(help) = type_help(&message, text, problem.span.as_ref()) {
        problem = problem.help(help);
    }
    problem
}

/// Returns an example of a required key.
fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "rate" => "rate = \"100 Mbit/s\"",
        "discipline" => "discipline = \"wf2q+\"",
        "name" => "name = \"voice\"",
        "source" => "source = { kind = \"cbr\", bytes = 200, interval = \"20 ms\" }",
        "link" => "[link], with rate = \"100 Mbit/s\" in the next line",
        "scheduler" => "[scheduler], with discipline = \"wf2q+\" in the next line",
        _ => return None,
    })
}

/// Returns the help for `[stream]` beside another, which should be `[[stream]]`.
fn duplicate_table_help(text: &str, span: Option<&SourceSpan>) -> Option<String> {
    let before = text.get(..span?.offset())?;
    let line = text.get(before.rfind('\n').map_or(0, |end| end + 1)..)?.lines().next()?;
    let name = line.trim().trim_matches(['[', ']']);
    let is_list = ["stream", "class", "port", "path", "route"].contains(&name);
    is_list.then(|| format!("the file may have several: write [[{name}]], with two brackets"))
}

/// Returns the help for a value of the wrong type or range.
fn type_help(message: &str, text: &str, span: Option<&SourceSpan>) -> Option<String> {
    let (found, expected) = message.split_once(", expected ")?;
    if found.ends_with("map") && expected == "a sequence" {
        // The span begins at the header of the table, or at the inline table.
        let header = span.and_then(|span| text.get(span.offset()..)).unwrap_or("");
        if header.starts_with('{') {
            return Some("write a list of tables, with brackets: [{ … }]".into());
        }
        let name = header.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let name = name.map_or("stream", |(name, _)| name.trim());
        return Some(format!("the file may have several: write [[{name}]], with two brackets"));
    }
    let largest: u64 = match expected {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        // TOML's integers have 63 bits.
        "u64" | "usize" => i64::MAX.unsigned_abs(),
        _ => return None,
    };
    let before = span.and_then(|span| text.get(..span.offset())).unwrap_or("").trim_end();
    let key = before.strip_suffix('=').map_or("", str::trim_end);
    let least = u8::from(["weight", "quantum"].iter().any(|positive| key.ends_with(positive)));
    let quotes = if found.contains("string") { ", without quotes" } else { "" };
    Some(format!("write an integer from {least} to {largest}{quotes}"))
}
