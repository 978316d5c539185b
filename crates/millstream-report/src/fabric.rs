//! The summary JSON and the table of a fabric's run.
//!
//! Names end in their units and integers are exact, as in the summary of a link. Injected and
//! delivered packets count from the end of the warm-up to the end of the run.

use serde::Serialize;

use crate::human;
use crate::recorder::DelayBound;
use crate::summary::DelaySummary;
use crate::table::{OF_BOUNDS, bound_cells, text_table};

/// The summary of a run.
#[derive(Clone, Debug, Serialize)]
pub struct FabricSummary {
    /// The scenario's name.
    pub scenario: String,
    /// The totals of the fabric.
    pub fabric: FabricNumbers,
    /// The summaries of the streams in file order.
    pub streams: Vec<FabricStream>,
}

/// The totals of a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct FabricNumbers {
    /// The number of end-points.
    pub end_points: u32,
    /// The number of switches.
    pub switches: u32,
    /// The number of unidirectional links.
    pub links: usize,
    /// The end of the warm-up, when counting begins, ns.
    pub warm_up_ns: u64,
    /// The end of the run, ns.
    pub end_ns: u64,
    /// The number of transmissions begun on all links in the whole run.
    pub packet_hops: u64,
    /// The number of packets queued at end-points or in flight at the end.
    pub under_way: usize,
    /// The mean utilisation of the links as a share of the run, six decimals.
    pub mean_utilisation: f64,
    /// The utilisation of the busiest link as a share of the run, six decimals.
    pub highest_utilisation: f64,
    /// The name of the busiest link.
    pub busiest_link: String,
}

/// The summary of a stream over all end-points.
#[derive(Clone, Debug, Serialize)]
pub struct FabricStream {
    /// The stream's name.
    pub name: String,
    /// The number of requested connections; 0 for sources without connections.
    pub connections_asked: u64,
    /// The number of connections admitted on every link of their path.
    pub connections_admitted: u64,
    /// The number of injected packets.
    pub injected: u64,
    /// The bytes of the injected packets.
    pub injected_bytes: u64,
    /// The number of delivered packets.
    pub delivered: u64,
    /// The bytes of the delivered packets.
    pub delivered_bytes: u64,
    /// The injected bytes as a share of the capacity of all end-points' links, six decimals.
    pub offered: f64,
    /// The delivered bytes as a share of the capacity of all end-points' links, six decimals.
    pub throughput: f64,
    /// The delay from injection to the arrival of the last byte; null without delivered packets.
    pub delay_ns: Option<DelaySummary>,
    /// The largest difference of delay between successive packets of a connection, ns; null for
    /// sources without connections.
    pub jitter_max_ns: Option<u64>,
    /// The guaranteed longest delay, ns; absent if no bounds were computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_bound_ns: Option<u64>,
    /// The longest delay over `delay_bound_ns`, rounded to six decimals; absent without a bound or
    /// delivered packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tightness: Option<f64>,
}

/// The column headings of the table.
const HEADER: [&str; 13] = [
    "stream",
    "connections",
    "injected",
    "delivered",
    "offered",
    "throughput",
    "mean delay",
    "p99 delay",
    "p99.9 delay",
    "max delay",
    "max jitter",
    "delay bound",
    "tightness",
];

/// Returns the column headings of a run's table; those of bounds only if a stream has one.
pub(crate) fn header(summary: &FabricSummary) -> &'static [&'static str] {
    let has_bounds = summary.streams.iter().any(|stream| stream.delay_bound_ns.is_some());
    &HEADER[..HEADER.len() - if has_bounds { 0 } else { OF_BOUNDS }]
}

/// Returns the cells of a stream's row, those of bounds included.
pub(crate) fn row(stream: &FabricStream) -> Vec<String> {
    let longest_ns = stream.delay_ns.as_ref().map_or(0, |delay| delay.max);
    let bound = stream.delay_bound_ns.map(|bound_ns| DelayBound { bound_ns, longest_ns });
    let [bound, tightness] = bound_cells(bound);
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
        time(|delay| delay.p999),
        time(|delay| delay.max),
        stream.jitter_max_ns.map_or("–".into(), human::time),
        bound,
        tightness,
    ]
}

/// Returns the text table of a run, at most `width` columns wide as in [`text_table`].
#[must_use]
pub fn fabric_table(summary: &FabricSummary, width: Option<usize>) -> String {
    let of = &summary.fabric;
    let (streams, header) = (|| summary.streams.iter(), header(summary));
    let rows = streams().map(|stream| row(stream)[..header.len()].to_vec());
    text_table(header, rows, 1, width)
        + &format!(
            "{} of {} delivered from {} to {}; throughput {:.1} % of {} end-points' links; \
             links busy {:.1} %, at most {:.1} % ({})\n",
            streams().map(|stream| stream.delivered).sum::<u64>(),
            human::count(streams().map(|stream| stream.injected).sum(), "packet"),
            human::time(of.warm_up_ns),
            human::time(of.end_ns),
            streams().map(|stream| stream.throughput).sum::<f64>() * 100.0,
            of.end_points,
            of.mean_utilisation * 100.0,
            of.highest_utilisation * 100.0,
            of.busiest_link,
        )
}
