//! The load of a scenario and the guarantees that theory gives its streams.
//!
//! Each stream gets its guaranteed rate, its worst delay and backlog, and a verdict: guaranteed,
//! infeasible or not known, with the checked premises. Sources are read twice: the lengths of
//! packets determine each stream's guaranteed rate, and that rate determines the token bucket that
//! its packets fit into. Floating point is used only to show percentages.

mod analysis;
mod deadlines;
mod network;
mod offered;
mod path;
mod repair;
mod tree;
mod verdict;

use millstream::bounds::Bounds;
use millstream_traffic::TrafficError;
use serde::Serialize;

pub use self::analysis::{StreamBounds, guarantees_shares};
use self::offered::{BUCKETS, OfferedLoads};
pub use self::path::HopBounds;
pub use self::verdict::{Answer, PremiseCheck, Verdict};
use crate::scenario::Scenario;

/// One stream of an [`Explanation`].
#[derive(Clone, Debug, Serialize)]
pub struct StreamExplanation {
    /// The stream's name.
    pub name: String,
    /// The number of offered packets.
    pub packets: u64,
    /// The mean offered rate over the run, bits/s.
    pub offered_bps: u64,
    /// The largest packet, bytes.
    pub largest_bytes: u32,
    /// The window x/y of its contract.
    #[serde(skip)]
    pub window: (u32, u32),
    /// The stream's guarantee.
    #[serde(flatten)]
    pub bounds: StreamBounds,
    /// Whether its contract is kept, and the reason.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The load of a scenario and the guarantees of its streams.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The scenario's name.
    pub scenario: String,
    /// The discipline; with classes, the root's.
    pub discipline: &'static str,
    /// The structure; with classes, the root's.
    pub structure: &'static str,
    /// The rate of the link, bits/s.
    pub rate_bps: u64,
    /// The streams in file order.
    pub streams: Vec<StreamExplanation>,
    /// The offered load as a share of the link's rate.
    pub load: f64,
    /// The share of the link that deadlines and windows need; `None` if the discipline has none.
    pub utilisation: Option<f64>,
    /// `Some(true)` if every contract is guaranteed, `Some(false)` if one is infeasible.
    pub feasible: Option<bool>,
    /// The verdict of all streams in words.
    pub verdict: String,
    /// Attributes that the discipline does not use, and findings in the inputs.
    pub notes: Vec<String>,
}

/// Explains `scenario` from at most `most` arrivals of its sources.
///
/// # Errors
/// Returns the first input that cannot be read.
pub fn explain(scenario: &Scenario, most: u64) -> Result<Explanation, TrafficError> {
    explain_assuming(scenario, most, None)
}

/// Explains `scenario` without checking the premise called `assumed`: for tests which show that the
/// premise is needed.
///
/// # Errors
/// Returns the first input that cannot be read.
#[doc(hidden)]
#[allow(clippy::cast_precision_loss)]
pub fn explain_assuming(
    scenario: &Scenario,
    most: u64,
    assumed: Option<&'static str>,
) -> Result<Explanation, TrafficError> {
    let first = OfferedLoads::of(scenario, most, &vec![[0; BUCKETS]; scenario.streams.len()])?;
    let span_ns = scenario.duration_ns.unwrap_or(first.last_ns()).min(first.last_ns()).max(1);
    let rates = analysis::bucket_rates(scenario, &first, span_ns);
    let read = if rates.as_flattened().iter().any(|rate| *rate > 0) {
        OfferedLoads::of(scenario, most, &rates)?
    } else {
        first
    };
    let analyses = analysis::analyse(scenario, &read, span_ns, assumed);
    let mut load = 0.0;
    let streams = scenario.streams.iter().zip(&read.streams).zip(analyses);
    let streams: Vec<_> = streams
        .map(|((stream, offered), of_stream)| {
            let mean_bps = offered.mean_bps(span_ns);
            load += mean_bps as f64 / scenario.link.rate_bps as f64;
            let bits = u128::from(offered.bytes) * 8_000_000_000;
            StreamExplanation {
                name: stream.name.clone(),
                packets: offered.packets,
                offered_bps: u64::try_from(bits / u128::from(span_ns)).unwrap_or(u64::MAX),
                largest_bytes: offered.largest_bytes,
                window: stream.window,
                bounds: of_stream.bounds,
                verdict: of_stream.verdict,
            }
        })
        .collect();
    let limits = analysis::limits(scenario, &read.streams);
    let overall =
        overall(scenario, &Bounds::new(analysis::link(scenario), &limits), &streams, load);
    let mut notes = scenario.notes.clone();
    notes.extend(read.notes);
    if let Some(card) = &scenario.end_system {
        notes.push(format!(
            "the bounds are for the link alone: the end-system card adds its decisions at {} MHz \
             and bus {}, and counts deadlines in decisions of {} ns",
            card.clock_hz as f64 / 1e6,
            card.bus,
            card.packet_time_ns
        ));
    }
    if !read.complete {
        notes.push(format!("only the first {most} arrivals were read"));
    }
    Ok(Explanation {
        scenario: scenario.name.clone(),
        discipline: scenario.scheduler.discipline.name,
        structure: scenario.structure_name(),
        rate_bps: scenario.link.rate_bps,
        streams,
        load,
        utilisation: overall.ppm.map(|ppm| ppm as f64 / 1e6),
        feasible: overall.feasible,
        verdict: overall.text,
        notes,
    })
}

/// The answer for the whole scenario.
struct Overall {
    feasible: Option<bool>,
    /// Utilisation in 10⁻⁶.
    ppm: Option<u64>,
    text: String,
}

fn overall(
    scenario: &Scenario,
    bounds: &Bounds,
    streams: &[StreamExplanation],
    load: f64,
) -> Overall {
    let count = |answer| streams.iter().filter(|stream| stream.verdict.answer == answer).count();
    let first = |answer| streams.iter().find(|stream| stream.verdict.answer == answer);
    let guaranteed = scenario.scheduler.discipline.guarantee.deadlines();
    let flat = guaranteed.filter(|_| scenario.classes.is_empty());
    let ppm = flat.map(|guarantee| bounds.need(guarantee.every_request, false).0);
    let needs = ppm.map_or(String::new(), |ppm| {
        format!(": the contracts need {} % of the link", deadlines::percent(ppm))
    });
    let (feasible, text) = if let Some(of) = first(Answer::Infeasible) {
        let text = format!("infeasible for `{}`: {}", of.name, of.verdict.because);
        (Some(false), text)
    } else if count(Answer::NotKnown) > 0 {
        let overload = (guaranteed.is_none() && load > 1.0)
            .then_some("; the offered load exceeds the link rate, so queues grow");
        let text = format!(
            "not known for {} of {} streams{needs}{}",
            count(Answer::NotKnown),
            streams.len(),
            overload.unwrap_or_default()
        );
        (None, text)
    } else {
        let theorem = streams.iter().find_map(|stream| stream.verdict.theorem.as_deref());
        let by = theorem.map_or(String::new(), |theorem| format!(" by {theorem}"));
        (Some(true), format!("guaranteed{by}{needs}"))
    };
    Overall { feasible, ppm, text }
}
