//! What a scenario asks of its link, and what theory promises in return.
//!
//! For each stream: the rate it is guaranteed, its worst delay and backlog, or why there is no such
//! promise. For the whole: whether every deadline or window will be kept. Sources are read twice:
//! how long their packets are decides what rate each is guaranteed, and that rate decides which
//! token bucket its packets fit into. Floating point is only for showing percentages.

mod offered;
mod promise;

use millstream::Rules;
use millstream::Window;
use millstream::bounds::{Bounds, EdfVerdict, Premise, WindowVerdict, Windows};
use millstream::catalogue::{DwcsOrder, StructureName};
use millstream_traffic::TrafficError;
use serde::Serialize;

use self::offered::Read;
pub use self::promise::Promise;
use crate::scenario::Scenario;

/// One stream of an [`Explanation`].
#[derive(Clone, Debug, Serialize)]
pub struct StreamExplanation {
    /// The stream's name.
    pub name: String,
    /// Packets offered.
    pub packets: u64,
    /// Mean offered rate over the time of the run, bits/s.
    pub offered_bps: u64,
    /// The largest packet, bytes.
    pub largest_bytes: u32,
    /// What it is promised.
    #[serde(flatten)]
    pub promise: Promise,
}

/// What will be run and what can be promised.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The scenario's name.
    pub scenario: String,
    /// The discipline; with classes, the root's.
    pub discipline: &'static str,
    /// The structure; with classes, the root's.
    pub structure: &'static str,
    /// Link rate, bits/s.
    pub rate_bps: u64,
    /// The streams in file order.
    pub streams: Vec<StreamExplanation>,
    /// Offered load as a share of the link's rate.
    pub load: f64,
    /// Which part of the link deadlines and windows need; `None` where the discipline has none.
    pub utilisation: Option<f64>,
    /// Whether every contract will be kept: `Some(false)` if it cannot be, `None` if theory is
    /// silent.
    pub feasible: Option<bool>,
    /// The verdict in words.
    pub verdict: String,
    /// What the file gives and the discipline does not use, and what was found in the inputs.
    pub notes: Vec<String>,
}

/// Explains `scenario`, of whose sources at most `most` arrivals are read.
///
/// # Errors
/// The first input that cannot be read.
#[allow(clippy::cast_precision_loss)]
pub fn explain(scenario: &Scenario, most: u64) -> Result<Explanation, TrafficError> {
    let first = Read::of(scenario, most, &vec![0; scenario.streams.len()])?;
    let span_ns = scenario.duration_ns.unwrap_or(first.last_ns()).min(first.last_ns()).max(1);
    let rates = promise::bucket_rates(scenario, &first, span_ns);
    let read =
        if rates.iter().any(|rate| *rate > 0) { Read::of(scenario, most, &rates)? } else { first };
    let promises = promise::promises(scenario, &read, span_ns);
    let mut load = 0.0;
    let streams = scenario.streams.iter().zip(&read.streams).zip(promises);
    let streams: Vec<_> = streams
        .map(|((stream, offered), promise)| {
            let mean_bps = offered.mean_bps(span_ns, &scenario.link);
            load += mean_bps as f64 / scenario.link.rate_bps as f64;
            let bits = u128::from(offered.bytes) * 8_000_000_000;
            StreamExplanation {
                name: stream.name.clone(),
                packets: offered.packets,
                offered_bps: u64::try_from(bits / u128::from(span_ns)).unwrap_or(u64::MAX),
                largest_bytes: offered.largest_bytes,
                promise,
            }
        })
        .collect();
    let limits = promise::limits(scenario, &read.streams);
    let verdict = verdict(scenario, &Bounds::new(promise::link(scenario), &limits), load);
    let mut notes = scenario.notes.clone();
    notes.extend(read.notes);
    if let Some(card) = &scenario.end_system {
        notes.push(format!(
            "what is said is of the link; the end-system card adds its decisions at {} MHz and bus \
             {}, and counts deadlines in decisions, {} ns each",
            card.clock_hz as f64 / 1e6,
            card.bus,
            card.packet_time_ns
        ));
    }
    if !read.complete {
        notes.push(format!("what is said is of the first {most} arrivals"));
    }
    Ok(Explanation {
        scenario: scenario.name.clone(),
        discipline: scenario.scheduler.discipline.name,
        structure: scenario.structure_name(),
        rate_bps: scenario.link.rate_bps,
        streams,
        load,
        utilisation: verdict.ppm.map(|ppm| ppm as f64 / 1e6),
        feasible: verdict.feasible,
        verdict: verdict.text,
        notes,
    })
}

/// The answer for the whole scenario.
struct Verdict {
    feasible: Option<bool>,
    /// Utilisation in 10⁻⁶.
    ppm: Option<u64>,
    text: String,
}

#[allow(clippy::cast_precision_loss)]
fn verdict(scenario: &Scenario, bounds: &Bounds, load: f64) -> Verdict {
    let percent = |ppm: u64| ppm as f64 / 1e4;
    let kept = |what: &str, feasible: Option<bool>, ppm: u64| {
        let needs = format!("the contracts need {:.1} % of the link", percent(ppm));
        let text = match feasible {
            Some(true) => format!("feasible: {needs}; no {what} will be missed"),
            Some(false) => format!(
                "not feasible: {needs}; if every stream stays backlogged, some {what} must be missed"
            ),
            None => format!("{needs}, too near to all of it to tell"),
        };
        Verdict { feasible, ppm: Some(ppm), text }
    };
    let name = scenario.scheduler.discipline.name;
    let window = |result: Result<WindowVerdict, String>| match result {
        Ok(WindowVerdict { windows, utilisation_ppm }) => match windows {
            Windows::Kept => kept("window", Some(true), utilisation_ppm),
            Windows::Overloaded => kept("window", Some(false), utilisation_ppm),
            Windows::TooClose => kept("window", None, utilisation_ppm),
            Windows::Unproven { stream } => Verdict {
                feasible: None,
                ppm: Some(utilisation_ppm),
                text: unproven(
                    &scenario.streams[stream].name,
                    bounds.streams[stream].window,
                    percent(utilisation_ppm),
                ),
            },
        },
        Err(premise) => {
            let text = format!("nothing is guaranteed: {premise}");
            Verdict { feasible: None, ppm: None, text }
        }
    };
    if !scenario.classes.is_empty() {
        let text = "classes: what each stream is promised depends on all above it".to_owned();
        return Verdict { feasible: None, ppm: None, text };
    }
    match name {
        "edf" => match bounds.edf() {
            Some(EdfVerdict::Feasible { utilisation_ppm }) => {
                kept("deadline", Some(true), utilisation_ppm)
            }
            Some(EdfVerdict::Infeasible { utilisation_ppm, at_ns }) => {
                let mut verdict = kept("deadline", Some(false), utilisation_ppm);
                if utilisation_ppm <= 1_000_000 {
                    let at = at_ns.unwrap_or(0);
                    verdict.text = format!(
                        "not feasible: a deadline can be missed {at} ns after a rush begins, though \
                         the contracts need only {:.1} % of the link",
                        percent(utilisation_ppm)
                    );
                }
                verdict
            }
            Some(EdfVerdict::TooLong { utilisation_ppm }) => {
                kept("deadline", None, utilisation_ppm)
            }
            None => Verdict { feasible: None, ppm: None, text: "nothing is guaranteed".into() },
        },
        "dwcs" | "vds" | "pd2" => window(windows(scenario, bounds)),
        "static-priority" | "fifo" if load > 1.0 => Verdict {
            feasible: None,
            ppm: None,
            text: "more is offered than the link carries: queues grow".into(),
        },
        _ => Verdict {
            feasible: None,
            ppm: None,
            text: format!("{name} has no deadlines; what each stream is promised is in the table"),
        },
    }
}

/// Why a sum of at most 1 promises nothing, and a window that would be promised and implies that of
/// the stream.
fn unproven(name: &str, window: Window, percent: f64) -> String {
    let (lost, of) = (window.lost(), window.of());
    let block = of / (of - lost);
    format!(
        "nothing is guaranteed: the contracts need {percent:.1} % of the link, which is enough only \
         where every window asks for all of its packets or for one; {lost}/{of} of `{name}` asks for \
         {} of {of}. {}/{block} would imply it; pd2 keeps all windows of equal periods. A run shows \
         what these sources get",
        of - lost,
        block - 1,
    )
}

/// The verdict of a discipline of windows, or the premise that fails.
fn windows(scenario: &Scenario, bounds: &Bounds) -> Result<WindowVerdict, String> {
    let verdict = match scenario.scheduler.discipline.name {
        "vds" => bounds.vds(),
        "pd2" => bounds.pd2(),
        _ => return dwcs(scenario, bounds),
    };
    verdict.map_err(|premise| premise_of(scenario, premise))
}

/// DWCS's verdict, or the premise that fails.
fn dwcs(scenario: &Scenario, bounds: &Bounds) -> Result<WindowVerdict, String> {
    if scenario.scheduler.structure == StructureName::Hilq {
        return Err("hilq is nearly dwcs, not quite".into());
    }
    let options = &scenario.scheduler.options;
    if options.order != DwcsOrder::EdfFirst {
        return Err("the order is loss-first".into());
    }
    if options.dwcs.rules != Rules::Standard {
        return Err("the rules are those of 1999".into());
    }
    bounds.dwcs().map_err(|premise| premise_of(scenario, premise))
}

/// A premise that fails, with names instead of numbers.
fn premise_of(scenario: &Scenario, premise: Premise) -> String {
    let name = |stream: usize| scenario.streams.get(stream).map_or("?", |s| s.name.as_str());
    match premise {
        Premise::UnequalLengths { stream } => format!(
            "packets differ in length (those of `{}` are not all as long as those of `{}`)",
            name(stream),
            name(0)
        ),
        Premise::UnequalPeriods { stream } => {
            format!("periods differ (those of `{}` and `{}`)", name(stream), name(0))
        }
        Premise::PeriodNotMultiple { stream } => format!(
            "the period of `{}` is not a multiple of a packet's transmission time",
            name(stream)
        ),
        Premise::NoRate => "the link has no rate".into(),
    }
}
