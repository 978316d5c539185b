//! What a scenario asks of its link, and whether theory says that the contracts can be kept.
//!
//! The tests are those of the algorithms page: DWCS keeps every window (consecutive blocks of y
//! packets) if all packets take the same time C, all periods are equal and a multiple of C, the
//! order is edf-first under standard rules, and U = Σ (1 − x/y)·C/T ≤ 1. EDF meets every deadline
//! of unit packets if Σ C/T ≤ 1. Where a premise fails, what is said is that nothing is promised,
//! and why. Floating point is fine here: nothing is scheduled by it.

use millstream::Rules;
use millstream::catalogue::DwcsOrder;
use serde::Serialize;

use crate::scenario::Scenario;

/// What a stream's source offered over the run, or the part of it that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Packets.
    pub packets: u64,
    /// Bytes, without the link's overhead.
    pub bytes: u64,
    /// The largest packet, bytes.
    pub largest_bytes: u32,
    /// The smallest packet, bytes.
    pub smallest_bytes: u32,
    /// The last arrival, ns.
    pub last_ns: u64,
}

impl Offered {
    /// Counts one arrival.
    pub fn count(&mut self, time_ns: u64, bytes: u32) {
        self.smallest_bytes =
            if self.packets == 0 { bytes } else { self.smallest_bytes.min(bytes) };
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.last_ns = time_ns;
    }
}

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
    /// Its share of the discipline's utilisation bound; `None` where the discipline has none.
    pub utilisation: Option<f64>,
}

/// What will be run and what can be promised.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The scenario's name.
    pub scenario: String,
    /// The discipline.
    pub discipline: &'static str,
    /// The structure.
    pub structure: &'static str,
    /// Link rate, bits/s.
    pub rate_bps: u64,
    /// The streams in file order.
    pub streams: Vec<StreamExplanation>,
    /// Offered load as a share of the link's rate.
    pub load: f64,
    /// The discipline's utilisation; `None` where it has no bound.
    pub utilisation: Option<f64>,
    /// Whether every contract will be kept: `Some(false)` if it cannot be, `None` if theory is
    /// silent.
    pub feasible: Option<bool>,
    /// The verdict in words.
    pub verdict: String,
    /// What the file gives and the discipline does not use.
    pub notes: Vec<String>,
}

/// Explains `scenario` given what its sources offer, in stream order.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn explain(scenario: &Scenario, offered: &[Offered]) -> Explanation {
    let last_ns = offered.iter().map(|stream| stream.last_ns).max().unwrap_or(0);
    let span_ns = scenario.duration_ns.unwrap_or(last_ns).min(last_ns.max(1)).max(1);
    let mut load = 0.0;
    let streams: Vec<_> = scenario
        .streams
        .iter()
        .zip(offered)
        .map(|(stream, offered)| {
            let wire_bytes =
                offered.bytes as f64 + offered.packets as f64 * f64::from(scenario.link.overhead);
            load += wire_bytes * 8e9 / span_ns as f64 / scenario.link.rate_bps as f64;
            let bits = u128::from(offered.bytes) * 8_000_000_000;
            let service_ns = scenario.link.transmission_ns(offered.largest_bytes) as f64;
            let required = match scenario.scheduler.discipline.name {
                "dwcs" => match stream.window {
                    (_, 0) => Some(0.0),
                    (lost, of) => Some(1.0 - f64::from(lost) / f64::from(of)),
                },
                "edf" => Some(1.0),
                _ => None,
            };
            let period_ns = stream.period_ns.map(|period_ns| period_ns as f64);
            StreamExplanation {
                name: stream.name.clone(),
                packets: offered.packets,
                offered_bps: u64::try_from(bits / u128::from(span_ns)).unwrap_or(u64::MAX),
                largest_bytes: offered.largest_bytes,
                utilisation: required
                    .zip(period_ns)
                    .map(|(required, period_ns)| required * service_ns / period_ns),
            }
        })
        .collect();
    let utilisation: Option<f64> = streams.iter().map(|stream| stream.utilisation).sum();
    let (feasible, verdict) = verdict(scenario, offered, utilisation);
    Explanation {
        scenario: scenario.name.clone(),
        discipline: scenario.scheduler.discipline.name,
        structure: scenario.scheduler.structure.name(),
        rate_bps: scenario.link.rate_bps,
        streams,
        load,
        utilisation,
        feasible,
        verdict,
        notes: scenario.notes.clone(),
    }
}

/// Sums of rounded terms may stray from 1 by this much without meaning it.
const ROUNDING: f64 = 1e-9;

fn verdict(
    scenario: &Scenario,
    offered: &[Offered],
    utilisation: Option<f64>,
) -> (Option<bool>, String) {
    let Some(utilisation) = utilisation else {
        return (
            None,
            format!("{} promises no stream anything", scenario.scheduler.discipline.name),
        );
    };
    let contract = if scenario.scheduler.discipline.name == "edf" { "deadline" } else { "window" };
    if utilisation > 1.0 + ROUNDING {
        let text = format!(
            "not feasible: the contracts need {:.1} % of the link; if every stream stays \
             backlogged, some {contract} must be missed",
            utilisation * 100.0
        );
        return (Some(false), text);
    }
    let failed = failed_premises(scenario, offered);
    if failed.is_empty() {
        let text = format!(
            "feasible: the contracts need {:.1} % of the link; no {contract} will be missed",
            utilisation * 100.0
        );
        (Some(true), text)
    } else {
        let text = format!(
            "the contracts need {:.1} % of the link, but nothing is guaranteed: {}",
            utilisation * 100.0,
            failed.join("; ")
        );
        (None, text)
    }
}

/// The premises of the feasibility theorem that do not hold.
fn failed_premises(scenario: &Scenario, offered: &[Offered]) -> Vec<&'static str> {
    let mut failed = Vec::new();
    let periods: Vec<u64> = scenario.streams.iter().filter_map(|stream| stream.period_ns).collect();
    let used = || offered.iter().filter(|stream| stream.packets > 0);
    let sizes = used().flat_map(|stream| [stream.smallest_bytes, stream.largest_bytes]);
    let equal_sizes = sizes.clone().min() == sizes.max();
    let service_ns = used()
        .next()
        .map_or(1, |stream| scenario.link.transmission_ns(stream.largest_bytes).max(1));
    if !equal_sizes {
        failed.push("packets differ in length");
    }
    if scenario.scheduler.discipline.name == "edf" {
        return failed;
    }
    if periods.iter().any(|period| period != &periods[0]) {
        failed.push("periods differ");
    } else if equal_sizes && periods.first().is_some_and(|period| period % service_ns != 0) {
        failed.push("the period is not a multiple of a packet's transmission time");
    }
    if scenario.scheduler.options.order != DwcsOrder::EdfFirst {
        failed.push("the order is loss-first");
    }
    if scenario.scheduler.options.dwcs.rules != Rules::Standard {
        failed.push("the rules are those of 1999");
    }
    failed
}
