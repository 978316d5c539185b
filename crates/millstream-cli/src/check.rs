//! `millstream check FILE`: what will be run, and whether its contracts can be kept.

use millstream_report::human;
use millstream_scenario::{Explanation, RouterScenario, Scenario, explain};
use std::fmt::Write as _;

use crate::arguments::CheckArguments;
use crate::fabric;
use crate::failure::Failure;
use crate::print;
use crate::route;

/// Arrivals that are read to learn what sources offer; beyond, the answer is about these.
const READ_AT_MOST: u64 = 5_000_000;

/// Validates the scenario, its inputs included, and explains it.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    if RouterScenario::is_one(&arguments.file) {
        return route::check(&arguments.file, arguments.json);
    }
    let scenario = Scenario::load(&arguments.file)?;
    if scenario.fabric.is_some() {
        return fabric::check(&scenario, arguments.json);
    }
    let explanation = explain(&scenario, READ_AT_MOST)?;
    if arguments.json {
        print(&(serde_json::to_string_pretty(&explanation).unwrap_or_default() + "\n"))
    } else {
        print(&text(&explanation))
    }
}

fn text(explanation: &Explanation) -> String {
    let mut text = format!(
        "{}: {} streams, discipline {}, structure {}, link {}\n",
        explanation.scenario,
        explanation.streams.len(),
        explanation.discipline,
        explanation.structure,
        human::rate(explanation.rate_bps),
    );
    let rows = explanation.streams.iter().map(|stream| {
        vec![
            stream.name.clone(),
            stream.packets.to_string(),
            human::rate(stream.offered_bps),
            stream.largest_bytes.to_string(),
            or_none(stream.promise.guaranteed_bps, human::rate),
            or_none(stream.promise.worst_delay_ns, human::time),
            or_none(stream.promise.worst_backlog_bytes, |bytes| format!("{bytes} B")),
        ]
    });
    let header = [
        "stream",
        "packets",
        "offered",
        "largest (bytes)",
        "guaranteed",
        "worst delay",
        "worst backlog",
    ];
    text += &millstream_report::text_table(&header, rows);
    let _ = writeln!(text, "offered load: {:.1} % of the link", explanation.load * 100.0);
    let _ = writeln!(text, "{}", explanation.verdict);
    for (why, names) in reasons(explanation) {
        let _ = writeln!(text, "no bound on the delay of {names}: {why}");
    }
    for note in &explanation.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn or_none(value: Option<u64>, show: impl Fn(u64) -> String) -> String {
    value.map_or("–".into(), show)
}

/// How many names are listed for one reason.
const NAMED: usize = 5;

/// Why streams have no bound, each reason once, with whose it is.
fn reasons(explanation: &Explanation) -> Vec<(&str, String)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for stream in &explanation.streams {
        let Some(why) = stream.promise.no_promise.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&stream.name),
            None => reasons.push((why, vec![&stream.name])),
        }
    }
    let listed = |(why, names): (_, Vec<&str>)| {
        let mut list = names.iter().take(NAMED).map(|n| format!("`{n}`")).collect::<Vec<_>>();
        if names.len() > NAMED {
            list.push(format!("{} more", names.len() - NAMED));
        }
        (why, list.join(", "))
    };
    reasons.into_iter().map(listed).collect()
}
