//! `--trace-packets`: selects packets by clauses such as `stream=voice` or `every=10`.

use miette::miette;
use millstream_report::human;
use millstream_scenario::{Scenario, parse_duration_ns};
use millstream_sim::fabric::{MAX_JOURNEYS, Selection};
use std::ops::RangeInclusive;

use crate::failure::Failure;

/// The default number of packets of each stream.
const FIRST: usize = 20;
const CLAUSES: &str = "stream=NAME, source=N or N-M, destination=N or N-M, connection=N or N-M, \
                       from=TIME, until=TIME, every=N, first=N";

/// Parses `clauses`. By default it selects the first packets of each stream after the warm-up.
/// `end_points` is the size of the fabric.
pub(crate) fn selection(
    clauses: &[String],
    scenario: &Scenario,
    end_points: u32,
) -> Result<Selection, Failure> {
    let warm_up_ns = scenario.fabric.as_ref().map_or(0, |fabric| fabric.warm_up_ns);
    let mut selection = Selection {
        classes: Vec::new(),
        sources: Vec::new(),
        destinations: Vec::new(),
        connections: Vec::new(),
        time_ns: warm_up_ns..u64::MAX,
        every: 1,
        first: FIRST,
    };
    for clause in clauses.iter().map(|clause| clause.trim()).filter(|clause| !clause.is_empty()) {
        apply_clause(&mut selection, clause, scenario, end_points)
            .map_err(|problem| Failure::Input(miette!("--trace-packets {clause}: {problem}")))?;
    }
    if selection.time_ns.is_empty() {
        let (from_ns, until_ns) = (selection.time_ns.start, selection.time_ns.end);
        return Err(Failure::Input(miette!(
            "--trace-packets: from={from_ns}ns is not before until={until_ns}ns; without from=, \
             the trace begins at the end of the warm-up, {warm_up_ns} ns"
        )));
    }
    let streams = match selection.classes.len() {
        0 => scenario.streams.len(),
        named => named,
    };
    if selection.first.saturating_mul(streams) > MAX_JOURNEYS {
        return Err(Failure::Input(miette!(
            "--trace-packets first={}: with {} this exceeds the {MAX_JOURNEYS} \
             packets of a trace; the maximum is first={}",
            selection.first,
            human::count(streams as u64, "stream"),
            MAX_JOURNEYS / streams
        )));
    }
    Ok(selection)
}

fn apply_clause(
    selection: &mut Selection,
    clause: &str,
    scenario: &Scenario,
    end_points: u32,
) -> Result<(), String> {
    let Some((key, value)) = clause.split_once('=') else {
        return Err(format!("no `=` in the clause; clauses: {CLAUSES}"));
    };
    let (key, value) = (key.trim(), value.trim());
    match key {
        "stream" => {
            let mut names = scenario.streams.iter().map(|stream| stream.name.as_str());
            let Some(number) = names.clone().position(|name| name == value) else {
                let known = names.by_ref().map(|name| format!("`{name}`"));
                return Err(format!(
                    "unknown stream `{value}`; streams: {}",
                    known.collect::<Vec<_>>().join(", ")
                ));
            };
            // A fabric has at most 64 streams.
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            if !selection.classes.contains(&number) {
                selection.classes.push(number);
            }
        }
        "source" => selection.sources.push(numbers(value, Some(end_points))?),
        "destination" => selection.destinations.push(numbers(value, Some(end_points))?),
        "connection" => selection.connections.push(numbers(value, None)?),
        "from" => selection.time_ns.start = parse_duration_ns(value)?,
        "until" => selection.time_ns.end = parse_duration_ns(value)?,
        "every" => selection.every = count(value)?,
        "first" => selection.first = usize::try_from(count(value)?).unwrap_or(usize::MAX),
        other => return Err(format!("unknown clause `{other}`; clauses: {CLAUSES}")),
    }
    Ok(())
}

fn count(value: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("`{value}` is not a positive integer")),
    }
}

/// Parses `N` or `N-M`; end-points are limited to those of the fabric.
fn numbers(value: &str, end_points: Option<u32>) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    let wrong = || format!("`{value}` is not a number N or a range N-M with N at most M");
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(wrong());
    }
    match end_points {
        Some(end_points) if last >= end_points => Err(format!(
            "unknown end-point {last}; end-points: 0 to {}",
            end_points.saturating_sub(1)
        )),
        _ => Ok(first..=last),
    }
}
