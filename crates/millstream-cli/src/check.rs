//! `millstream check FILE`: describes a scenario and gives the verdict on its contracts.

use millstream_report::human;
use millstream_scenario::{
    Answer, Explanation, HopBounds, RouterScenario, StreamBounds, StreamExplanation, explain,
};
use serde::Serialize;
use std::fmt::Write as _;

use crate::arguments::CheckArguments;
use crate::fabric;
use crate::failure::Failure;
use crate::print;
use crate::route;
use crate::run::load;
use crate::serve::{self, TitleAdmission};
use crate::terminal::{print_text, text_table};

/// The largest number of arrivals read to compute the offered load; the verdict covers only these.
pub(crate) const MAX_ARRIVALS_READ: u64 = 5_000_000;

/// Validates the scenario and its inputs, and explains it.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let answer = answer(arguments)?;
    match answer {
        Answer::Infeasible => Err(Failure::Contract("a contract is infeasible".into())),
        Answer::NotKnown if arguments.require_guarantee => {
            Err(Failure::Contract("a contract is not guaranteed".into()))
        }
        Answer::NotKnown | Answer::Guaranteed => Ok(()),
    }
}

/// The JSON form.
#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// Present for files with a `[media]` section.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<&'a [TitleAdmission]>,
}

/// Prints the description; returns the answer for all contracts.
fn answer(arguments: &CheckArguments) -> Result<Answer, Failure> {
    if RouterScenario::is_router_file(&arguments.file) {
        if let Some(setting) = arguments.settings.first() {
            return Err(Failure::Input(miette::miette!(
                help = "change the file instead",
                "`--set {setting}` is for a scenario; {} is a router file",
                arguments.file.display()
            )));
        }
        return route::check(&arguments.file, arguments.json);
    }
    let scenario = load(&arguments.file, &arguments.settings)?;
    if scenario.fabric.is_some() {
        return fabric::check(&scenario, arguments.json);
    }
    let explanation = explain(&scenario, MAX_ARRIVALS_READ)?;
    let admission = if scenario.has_media { Some(serve::admission(&scenario)?) } else { None };
    if arguments.json {
        let output = Output { explanation: &explanation, admission: admission.as_deref() };
        print(&(serde_json::to_string_pretty(&output).unwrap_or_default() + "\n"))?;
    } else {
        let media = admission.as_deref().map_or(String::new(), serve::admission_text);
        let queues = if arguments.dimension { queues(&explanation) } else { String::new() };
        print_text(&(text(&explanation) + &queues + &media))?;
    }
    let of_link = match explanation.feasible {
        Some(true) => Answer::Guaranteed,
        Some(false) => Answer::Infeasible,
        None => Answer::NotKnown,
    };
    // Admission decides on the clients' contracts, unless the link's contracts are infeasible.
    Ok(match admission {
        Some(admission) if of_link != Answer::Infeasible => serve::answer(&admission),
        _ => of_link,
    })
}

fn text(explanation: &Explanation) -> String {
    let mut text = format!(
        "{}: {}, discipline {}, structure {}, link {}\n",
        explanation.scenario,
        human::count(explanation.streams.len() as u64, "stream"),
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
            or_none(stream.bounds.guaranteed_bps, human::rate),
            or_none(stream.bounds.worst_delay_ns, human::time),
            or_none(stream.bounds.worst_backlog_bytes, |bytes| format!("{bytes} B")),
            stream.verdict.answer.name().to_owned(),
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
        "verdict",
    ];
    text += &text_table(&header, rows);
    text += &hops(explanation);
    text += &windows(explanation);
    let _ = writeln!(text, "offered load: {:.1} % of the link", explanation.load * 100.0);
    let _ = writeln!(text, "{}", explanation.verdict);
    for answer in [Answer::Infeasible, Answer::NotKnown, Answer::Guaranteed] {
        for (reason, names) in reasons(explanation, answer) {
            let _ = writeln!(text, "{} for {names}: {reason}", answer.name());
        }
    }
    for note in &explanation.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Returns the least queues that lose no packet.
fn queues(explanation: &Explanation) -> String {
    let row = |stream: &StreamExplanation, link: &str, packets, bytes| {
        vec![
            stream.name.clone(),
            link.to_owned(),
            or_none(packets, |packets: u64| packets.to_string()),
            or_none(bytes, |bytes| format!("{bytes} B")),
        ]
    };
    let rows = explanation.streams.iter().flat_map(|stream| {
        let StreamBounds { worst_backlog_packets, worst_backlog_bytes, hops, .. } = &stream.bounds;
        if hops.is_empty() {
            return vec![row(stream, "link", *worst_backlog_packets, *worst_backlog_bytes)];
        }
        let of_hop = |hop: &HopBounds| {
            row(stream, &hop.link, hop.worst_backlog_packets, hop.worst_backlog_bytes)
        };
        hops.iter().map(of_hop).collect()
    });
    let table = text_table(&["stream", "link", "packets", "bytes"], rows);
    format!("least queues that lose no packet:\n{table}")
}

/// Returns the bounds at each link of streams that pass several.
fn hops(explanation: &Explanation) -> String {
    let rows: Vec<_> = explanation
        .streams
        .iter()
        .flat_map(|stream| stream.bounds.hops.iter().map(move |hop| (stream, hop)))
        .map(|(stream, hop)| {
            vec![
                stream.name.clone(),
                hop.link.clone(),
                or_none(hop.rate_bps, human::rate),
                or_none(hop.latency_ns, human::time),
                or_none(hop.worst_delay_ns, human::time),
                or_none(hop.worst_backlog_bytes, |bytes| format!("{bytes} B")),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = ["stream", "link", "rate", "latency", "worst delay", "worst backlog"];
    let mut text = text_table(&header, rows);
    for stream in explanation.streams.iter().filter(|stream| !stream.bounds.hops.is_empty()) {
        let _ = writeln!(
            text,
            "`{}` over all links: {} by the sum of their delays, {} by their guarantees in series, \
             {} by all links together",
            stream.name,
            or_none(stream.bounds.sum_of_hops_ns, human::time),
            or_none(stream.bounds.series_ns, human::time),
            or_none(stream.bounds.together_ns, human::time),
        );
    }
    text
}

/// Returns the tightest guaranteed windows of streams with others.
fn windows(explanation: &Explanation) -> String {
    let other = |stream: &&StreamExplanation| {
        let tightest = stream.bounds.tightest_window.as_ref();
        tightest.is_some_and(|of| *of != format!("{}/{}", stream.window.0, stream.window.1))
    };
    let of = |stream: &StreamExplanation| {
        let tightest = stream.bounds.tightest_window.as_deref().unwrap_or_default();
        let (lost, of) = stream.window;
        format!("`{}` {tightest} instead of {lost}/{of}", stream.name)
    };
    let streams = explanation.streams.iter().filter(other);
    let mut named: Vec<_> = streams.clone().take(MAX_NAMES_LISTED).map(of).collect();
    let left_out = streams.count() - named.len();
    if named.is_empty() {
        return String::new();
    }
    named.extend((left_out > 0).then(|| format!("{left_out} more")));
    format!("tightest guaranteed windows, each beside the others' own: {}\n", named.join(", "))
}

fn or_none(value: Option<u64>, show: impl Fn(u64) -> String) -> String {
    value.map_or("–".into(), show)
}

/// The largest number of streams listed for one reason.
const MAX_NAMES_LISTED: usize = 5;

/// Returns each reason of an answer with its streams.
fn reasons(explanation: &Explanation, answer: Answer) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for stream in explanation.streams.iter().filter(|stream| stream.verdict.answer == answer) {
        let verdict = &stream.verdict;
        let reason = match (answer, &verdict.theorem, &verdict.change) {
            // The table shows the bounds, so streams of one theorem share a line.
            (Answer::Guaranteed, theorem @ Some(of), _)
                if stream.bounds.delay_theorem == *theorem =>
            {
                format!("the worst delay, by {of}")
            }
            (Answer::Guaranteed, Some(theorem), _) => format!("{}, by {theorem}", verdict.because),
            (_, _, Some(change)) => format!("{}; suggested change: {change}", verdict.because),
            _ => verdict.because.clone(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&stream.name),
            None => reasons.push((reason, vec![&stream.name])),
        }
    }
    let listed = |(why, names): (_, Vec<&str>)| {
        let mut list =
            names.iter().take(MAX_NAMES_LISTED).map(|n| format!("`{n}`")).collect::<Vec<_>>();
        if names.len() > MAX_NAMES_LISTED {
            list.push(format!("{} more", names.len() - MAX_NAMES_LISTED));
        }
        (why, list.join(", "))
    };
    reasons.into_iter().map(listed).collect()
}
