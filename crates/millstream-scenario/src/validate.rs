//! From the file's tables to a [`Scenario`]: every rule of the format that types cannot say.

use millstream::catalogue::{DISCIPLINES, DisciplineRow, DwcsOrder, Options, StructureName};
use millstream::{Contract, DwcsOptions, Late, Rules, Window, ZeroWindow};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

use crate::error::{Problem, list, nearest};
use crate::file::{
    File, LateName, OrderName, RulesName, SchedulerTable, SourceTable, StreamTable, ZeroWindowName,
};
use crate::scenario::{Link, Scenario, Stream};
use crate::source::{Pace, Source, SourceKind, VideoInput};
use crate::units::{Duration, Rate};

/// Validates `text`; `name` is the file's name, `folder` what its inputs are relative to.
pub(crate) fn validate(name: &str, text: &str, folder: &Path) -> Result<Scenario, Vec<Problem>> {
    let file: File = toml::from_str(text).map_err(|error| vec![syntax_problem(&error, text)])?;
    let mut problems = Vec::new();
    let discipline = discipline(file.scheduler.get_ref(), &mut problems);
    let structure = structure(file.scheduler.get_ref(), file.stream.len(), &mut problems);
    let duration_ns = file.scenario.duration.map(|duration| duration.0);
    if file.stream.is_empty() {
        problems.push(
            Problem::whole_file("there is no stream").help("add at least one [[stream]] table"),
        );
    }
    let mut names: HashMap<&str, Range<usize>> = HashMap::with_capacity(file.stream.len());
    let mut streams = Vec::with_capacity(file.stream.len());
    let mut unused = Unused::default();
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
        let source = source(&stream.source, duration_ns, &mut problems);
        let contract = contract(table, discipline, &mut problems);
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
            link: Link { rate_bps: file.link.rate.0, overhead: file.link.overhead },
            discipline,
            structure,
            options: options(file.scheduler.get_ref()),
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
            ("class" | "max-rate" | "burst", None) => {
                problem.help("classes and rate caps are not part of this version")
            }
            _ => problem,
        };
    } else if message.starts_with("missing field") {
        problem = problem.label("in this table");
    }
    problem
}

fn discipline(
    table: &SchedulerTable,
    problems: &mut Vec<Problem>,
) -> Option<&'static DisciplineRow> {
    let name = table.discipline.get_ref();
    let row = DisciplineRow::parse(name);
    if row.is_none() {
        let names = || DISCIPLINES.iter().map(|row| row.name);
        let meant =
            nearest(name, names()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
        problems.push(
            Problem::new(table.discipline.span(), format!("unknown discipline `{name}`"))
                .help(format!("{meant}disciplines: {}", list(names()))),
        );
    }
    row
}

fn structure(
    table: &SchedulerTable,
    streams: usize,
    problems: &mut Vec<Problem>,
) -> Option<StructureName> {
    let Some(name) = &table.structure else { return Some(StructureName::auto(streams)) };
    if name.get_ref() == "auto" {
        return Some(StructureName::auto(streams));
    }
    let structure = StructureName::parse(name.get_ref());
    if structure.is_none() {
        let names = || StructureName::ALL.iter().map(|s| s.name()).chain(["auto"]);
        problems.push(
            Problem::new(name.span(), format!("unknown structure `{}`", name.get_ref()))
                .help(format!("structures: {}", list(names()))),
        );
    }
    structure
}

fn options(table: &SchedulerTable) -> Options {
    Options {
        dwcs: DwcsOptions {
            rules: match table.rules {
                Some(RulesName::Rtas99) => Rules::Rtas99,
                Some(RulesName::Standard) | None => Rules::Standard,
            },
            zero_window: match table.zero_window {
                Some(ZeroWindowName::LowestDenominator) => ZeroWindow::LowestDenominator,
                Some(ZeroWindowName::HighestDenominator) | None => ZeroWindow::HighestDenominator,
            },
        },
        order: match table.order {
            Some(OrderName::LossFirst) => DwcsOrder::LossFirst,
            Some(OrderName::EdfFirst) | None => DwcsOrder::EdfFirst,
        },
    }
}

fn contract(
    table: &Spanned<StreamTable>,
    discipline: Option<&DisciplineRow>,
    problems: &mut Vec<Problem>,
) -> Option<Contract> {
    let stream = table.get_ref();
    let before = problems.len();
    for (key, value) in [("weight", &stream.weight), ("quantum", &stream.quantum)] {
        if let Some(value) = value.as_ref().filter(|value| *value.get_ref() == 0) {
            problems.push(Problem::new(value.span(), format!("`{key}` is 0; it must be positive")));
        }
    }
    let mut contract = Contract::new().priority(stream.priority.unwrap_or(0));
    if let Some(period) = &stream.period {
        match contract.clone().period_ns(period.get_ref().0) {
            Ok(with_period) => contract = with_period,
            Err(error) => problems.push(Problem::new(period.span(), error.to_string())),
        }
    } else if let Some(row) = discipline.filter(|row| row.needs.contains(&"period")) {
        let message = format!("stream `{}` has no `period`", stream.name.get_ref());
        problems.push(Problem::new(stream.name.span(), message).label("this stream").help(
            format!("{} needs the request period T, for example period = \"40 ms\"", row.name),
        ));
    }
    if let Some(window) = stream.window {
        contract = contract.window(window.0);
    }
    if let Some(deadline) = stream.first_deadline {
        contract = contract.first_deadline_ns(deadline.0);
    }
    if let Some(queue) = stream.queue {
        contract = contract.queue(queue);
    }
    contract = contract.late(match stream.late {
        Some(LateName::Drop) => Late::Drop,
        Some(LateName::Send) | None => Late::Send,
    });
    (problems.len() == before).then_some(contract)
}

fn source(
    table: &Spanned<SourceTable>,
    duration_ns: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    let span = table.span();
    let keys = table.get_ref();
    let kind = SourceKind::check(keys, &span, problems)?;
    let before = problems.len();
    let time = |value: &Option<Spanned<Duration>>| value.as_ref().map(|time| time.get_ref().0);
    let rate = |value: &Option<Spanned<Rate>>| value.as_ref().map(|rate| rate.get_ref().0);
    let start_ns = time(&keys.start).unwrap_or(0);
    let stop_ns = time(&keys.stop).unwrap_or(u64::MAX);
    let bytes = keys.bytes.as_ref().map_or(0, |bytes| *bytes.get_ref());
    let file = keys.file.as_ref().map(|file| file.get_ref().clone());
    positive(&keys.sources, "sources", problems);
    positive(&keys.packet_bytes, "packet-bytes", problems);
    positive(&keys.frame_rate, "frame-rate", problems);
    if let Some(interval) = keys.interval.as_ref().filter(|interval| interval.get_ref().0 == 0) {
        problems.push(
            Problem::new(interval.span(), "an interval of 0 never ends at any instant")
                .help("for packets that are all there at once use kind = \"backlog\""),
        );
    }
    if let (Some(stop), true) = (&keys.stop, stop_ns <= start_ns) {
        problems.push(Problem::new(stop.span(), "the source stops before it starts"));
    }
    let source = match kind.name {
        "cbr" => {
            if let Some(bytes) = keys.bytes.as_ref().filter(|b| *b.get_ref() == 0)
                && keys.rate.is_some()
            {
                let message = "packets of 0 bytes have no rate";
                problems.push(Problem::new(bytes.span(), message).help("give an `interval`"));
            }
            let pace = match rate(&keys.rate) {
                Some(rate_bps) => Pace::RateBps(rate_bps),
                None => Pace::IntervalNs(time(&keys.interval)?),
            };
            Source::Cbr { bytes, pace, start_ns, stop_ns }
        }
        "pareto" => {
            if let Some(bytes) = keys.bytes.as_ref().filter(|bytes| *bytes.get_ref() == 0) {
                problems.push(Problem::new(bytes.span(), "packets of 0 bytes have no rate"));
            }
            let rate_bps = rate(&keys.rate)?;
            let sources = keys.sources.as_ref().map_or(16, |sources| *sources.get_ref());
            let mean_bps = rate_bps.div_ceil(u64::from(sources.max(1)));
            let peak_rate_bps = rate(&keys.peak_rate).unwrap_or_else(|| mean_bps.saturating_mul(4));
            if let (Some(peak), true) = (&keys.peak_rate, peak_rate_bps <= mean_bps) {
                problems.push(Problem::new(
                    peak.span(),
                    format!("the peak rate must exceed each source's mean of {mean_bps} bps"),
                ));
            }
            Source::Pareto { bytes, rate_bps, peak_rate_bps, sources, start_ns, stop_ns }
        }
        "mpeg" => Source::Mpeg {
            input: video_input(keys, &span, problems)?,
            frames: frames(keys, problems),
            packet_bytes: keys.packet_bytes.as_ref().map(|bytes| *bytes.get_ref()),
            spread: keys.spread.as_ref().is_some_and(|spread| *spread.get_ref()),
            start_ns,
            stop_ns,
        },
        "trace" => Source::Trace { file: file? },
        "pcap" => {
            let filter = keys.r#match.as_ref().map(|expression| {
                if let Err(error) = millstream_traffic::validate_filter(expression.get_ref()) {
                    let message = format!("not a pcap-filter expression: {error}");
                    problems.push(
                        Problem::new(expression.span(), message)
                            .help("write it as for tcpdump, for example \"udp port 5004\""),
                    );
                }
                expression.get_ref().clone()
            });
            Source::Pcap { file: file?, filter }
        }
        "backlog" => {
            Source::Backlog { packets: *keys.packets.as_ref()?.get_ref(), bytes, start_ns }
        }
        _ => return None,
    };
    if problems.len() == before && duration_ns.is_none() && !source.ends() {
        problems.push(Problem::new(span, "this source never ends").help(
            "give the scenario a `duration`, for example duration = \"10 s\", or the source a `stop`",
        ));
    }
    (problems.len() == before).then_some(source)
}

fn video_input(
    keys: &SourceTable,
    span: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<VideoInput> {
    if let Some(file) = &keys.file {
        for (key, span) in [
            ("rate", keys.rate.as_ref().map(Spanned::span)),
            ("frame-rate", keys.frame_rate.as_ref().map(Spanned::span)),
        ] {
            if let Some(span) = span {
                let message = format!("`{key}` belongs to a model; a video file has its own");
                problems.push(Problem::new(span, message));
            }
        }
        let repeat = keys.repeat.as_ref().is_some_and(|repeat| *repeat.get_ref());
        return Some(VideoInput::File { file: file.get_ref().clone(), repeat });
    }
    let model = keys.model.as_ref()?;
    if model.get_ref() != "mpeg4" {
        let message = format!("unknown video model `{}`", model.get_ref());
        problems.push(Problem::new(model.span(), message).help("models: `mpeg4`"));
    }
    if let Some(repeat) = &keys.repeat {
        problems.push(Problem::new(repeat.span(), "a model never ends; `repeat` is for files"));
    }
    let Some(rate) = &keys.rate else {
        problems.push(Problem::new(span.clone(), "a video model needs its mean `rate`"));
        return None;
    };
    let frame_rate = keys.frame_rate.as_ref().map_or(25, |frame_rate| *frame_rate.get_ref());
    Some(VideoInput::Model { rate_bps: rate.get_ref().0, frame_rate })
}

fn frames(keys: &SourceTable, problems: &mut Vec<Problem>) -> String {
    let Some(frames) = &keys.frames else { return "IPB".into() };
    let text = frames.get_ref();
    if text.is_empty() || !text.chars().all(|letter| "IPB".contains(letter)) {
        let message = format!("`{text}` does not name frame types");
        problems.push(Problem::new(frames.span(), message).help("any of the letters I, P and B"));
    }
    text.clone()
}

fn positive(value: &Option<Spanned<u32>>, key: &str, problems: &mut Vec<Problem>) {
    if let Some(value) = value.as_ref().filter(|value| *value.get_ref() == 0) {
        problems.push(Problem::new(value.span(), format!("`{key}` is 0; it must be positive")));
    }
}

/// Attributes that streams give and the discipline ignores, with how many streams give them.
#[derive(Default)]
struct Unused(Vec<(&'static str, usize)>);

impl Unused {
    fn note(&mut self, stream: &StreamTable, discipline: &DisciplineRow) {
        let given = [
            ("period", stream.period.is_some()),
            ("window", stream.window.is_some()),
            ("first-deadline", stream.first_deadline.is_some()),
            ("late", stream.late.is_some()),
            ("weight", stream.weight.is_some()),
            ("quantum", stream.quantum.is_some()),
            ("priority", stream.priority.is_some()),
        ];
        for (attribute, given) in given {
            if given
                && !discipline.needs.contains(&attribute)
                && !discipline.uses.contains(&attribute)
            {
                match self.0.iter_mut().find(|entry| entry.0 == attribute) {
                    Some(entry) => entry.1 += 1,
                    None => self.0.push((attribute, 1)),
                }
            }
        }
    }

    fn into_notes(self, discipline: &DisciplineRow) -> Vec<String> {
        let note = |(attribute, streams): (&str, usize)| {
            let plural = if streams == 1 { "stream gives" } else { "streams give" };
            format!("{streams} {plural} `{attribute}`, which {} does not use", discipline.name)
        };
        self.0.into_iter().map(note).collect()
    }
}
