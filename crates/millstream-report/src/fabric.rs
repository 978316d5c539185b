//! A fabric's run in numbers: the summary JSON and the table.
//!
//! Names end in their units and integers are exact, as in the summary of a link. What was injected
//! and delivered is counted from the end of the warm-up to the end of the run.

use serde::Serialize;

use crate::human;
use crate::summary::DelaySummary;
use crate::table::text_table;

/// A run in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct FabricSummary {
    /// The scenario's name.
    pub scenario: String,
    /// The fabric as a whole.
    pub fabric: FabricNumbers,
    /// The streams in file order.
    pub streams: Vec<FabricStream>,
}

/// The fabric in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct FabricNumbers {
    /// End-points.
    pub end_points: u32,
    /// Switches.
    pub switches: u32,
    /// One-way links.
    pub links: usize,
    /// Where counting begins, ns.
    pub warm_up_ns: u64,
    /// The end of the run, ns.
    pub end_ns: u64,
    /// Transmissions begun, on all links, in the whole run.
    pub packet_hops: u64,
    /// Packets still waiting at end-points or on their way at the end.
    pub under_way: usize,
    /// Mean share of the run that links transmitted, six decimals.
    pub mean_utilisation: f64,
    /// The same of the busiest link.
    pub highest_utilisation: f64,
    /// The busiest link.
    pub busiest_link: String,
}

/// A stream, over all end-points.
#[derive(Clone, Debug, Serialize)]
pub struct FabricStream {
    /// Its name.
    pub name: String,
    /// Connections that were asked for; 0 for sources without connections.
    pub connections_asked: u64,
    /// Connections that found room on every link of their way.
    pub connections_admitted: u64,
    /// Packets injected.
    pub injected: u64,
    /// Their bytes.
    pub injected_bytes: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Bytes injected as a share of all end-points' links, six decimals.
    pub offered: f64,
    /// Bytes delivered as the same.
    pub throughput: f64,
    /// From injection until the last byte arrived; null if nothing did.
    pub delay_ns: Option<DelaySummary>,
    /// Largest difference of delay between successive packets of a connection; null for sources
    /// without connections.
    pub jitter_max_ns: Option<u64>,
}

/// Heads of the table.
pub(crate) const HEADER: [&str; 10] = [
    "stream",
    "connections",
    "injected",
    "delivered",
    "offered",
    "throughput",
    "mean delay",
    "p99 delay",
    "max delay",
    "max jitter",
];

/// A stream's row of the table.
pub(crate) fn row(stream: &FabricStream) -> Vec<String> {
    let time = |pick: fn(&DelaySummary) -> u64| {
        stream.delay_ns.as_ref().map_or("–".into(), |delay| human::time(pick(delay)))
    };
    vec![
        stream.name.clone(),
        match stream.connections_asked {
            0 => "–".into(),
            asked if asked == stream.connections_admitted => asked.to_string(),
            asked => format!("{} of {asked}", stream.connections_admitted),
        },
        stream.injected.to_string(),
        stream.delivered.to_string(),
        format!("{:.2} %", stream.offered * 100.0),
        format!("{:.2} %", stream.throughput * 100.0),
        time(|delay| delay.mean),
        time(|delay| delay.p99),
        time(|delay| delay.max),
        stream.jitter_max_ns.map_or("–".into(), human::time),
    ]
}

/// The table of a run.
#[must_use]
pub fn fabric_table(summary: &FabricSummary) -> String {
    let of = &summary.fabric;
    let streams = || summary.streams.iter();
    text_table(&HEADER, streams().map(row))
        + &format!(
            "{} of {} packets delivered from {} to {}; throughput {:.1} % of {} end-points' links; \
             links busy {:.1} %, at most {:.1} % ({})\n",
            streams().map(|stream| stream.delivered).sum::<u64>(),
            streams().map(|stream| stream.injected).sum::<u64>(),
            human::time(of.warm_up_ns),
            human::time(of.end_ns),
            streams().map(|stream| stream.throughput).sum::<f64>() * 100.0,
            of.end_points,
            of.mean_utilisation * 100.0,
            of.highest_utilisation * 100.0,
            of.busiest_link,
        )
}
