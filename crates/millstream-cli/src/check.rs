//! `millstream check FILE`: what will be run, and whether its contracts can be kept.

use millstream_report::human;
use millstream_scenario::{Explanation, Input, Offered, Scenario, explain};
use std::fmt::Write as _;

use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::print;

/// Arrivals that are read to learn what sources offer; beyond, the answer is about these.
const READ_AT_MOST: u64 = 5_000_000;

/// Validates the scenario, its inputs included, and explains it.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let scenario = Scenario::load(&arguments.file)?;
    let mut input = millstream_scenario::open(&scenario, false)?;
    let (offered, complete) = offered(&scenario, &mut input)?;
    let mut explanation = explain(&scenario, &offered);
    explanation.notes.extend(input.notes());
    if !complete {
        let note = format!("the load is that of the first {READ_AT_MOST} arrivals");
        explanation.notes.push(note);
    }
    if arguments.json {
        print(&(serde_json::to_string_pretty(&explanation).unwrap_or_default() + "\n"))
    } else {
        print(&text(&explanation))
    }
}

/// Reads the sources and counts what they offer.
fn offered(scenario: &Scenario, input: &mut Input) -> Result<(Vec<Offered>, bool), Failure> {
    let mut offered = vec![Offered::default(); scenario.streams.len()];
    let until_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    for _ in 0..READ_AT_MOST {
        match input.feed.next_arrival()? {
            Some(arrival) if arrival.time_ns < until_ns => {
                offered[arrival.stream as usize].count(arrival.time_ns, arrival.bytes);
            }
            _ => return Ok((offered, true)),
        }
    }
    Ok((offered, false))
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
            stream.utilisation.map_or("–".into(), |share| format!("{:.1} %", share * 100.0)),
        ]
    });
    let header = ["stream", "packets", "offered", "largest (bytes)", "contract needs"];
    text += &millstream_report::text_table(&header, rows);
    let _ = writeln!(text, "offered load: {:.1} % of the link", explanation.load * 100.0);
    let _ = writeln!(text, "{}", explanation.verdict);
    for note in &explanation.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
