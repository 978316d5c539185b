//! The summary and the tables of a network: its links, and its sources that react.
//!
//! Names end in their units and integers are exact, as in the summary of a link.

use serde::Serialize;

use crate::human;
use crate::table::text_table;

/// The summary of a network.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkSummary {
    /// `[link]`, then the hops in file order.
    pub links: Vec<NetworkLinkSummary>,
    /// The streams with `tcp`, `echo` or `adaptive` sources, in file order.
    pub sources: Vec<SourceSummary>,
}

/// The summary of a link of a network.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkLinkSummary {
    /// The link's name.
    pub name: String,
    /// The direction of its packets: `forward` or `return`.
    pub direction: &'static str,
    /// The number of packets sent.
    pub sent: u64,
    /// The bytes sent, without the link's overhead.
    pub sent_bytes: u64,
    /// The share of the run that the link transmitted, rounded to six decimals.
    pub utilisation: f64,
    /// The number of packets dropped at a limit.
    pub dropped_full: u64,
    /// The number of packets that queue management dropped.
    pub dropped_aqm: u64,
    /// The number of packets dropped late.
    pub dropped_late: u64,
    /// The number of packets that queue management marked.
    pub marked: u64,
    /// The number of packets lost on the link.
    pub lost: u64,
    /// The queueing delay; null if no packet was sent.
    pub delay_ns: Option<TimesSummary>,
}

/// The summary of a `tcp`, `echo` or `adaptive` source.
#[derive(Clone, Debug, Serialize)]
pub struct SourceSummary {
    /// The stream's name.
    pub stream: String,
    /// The number of data packets or requests sent, with retransmissions.
    pub sent: u64,
    /// The bytes that receivers got for the first time, without headers; of an echo source the
    /// bytes of answered requests.
    pub delivered_bytes: u64,
    /// `delivered_bytes` over the whole run, bits/s, rounded down.
    pub goodput_bps: u64,
    /// The number of packets sent again.
    pub retransmissions: u64,
    /// The number of retransmission timeouts.
    pub timeouts: u64,
    /// The number of packets that arrived with a mark.
    pub marked: u64,
    /// The number of changes of the rate of adaptive video; 0 for other sources.
    pub rate_changes: u64,
    /// The round-trip times; null without any.
    pub rtt_ns: Option<TimesSummary>,
    /// The durations of completed transfers; null without any.
    pub transfer_ns: Option<TimesSummary>,
}

/// The statistics of times, ns.
#[derive(Clone, Debug, Serialize)]
pub struct TimesSummary {
    /// The number of times.
    pub count: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// The median, at most 0.1 % too high.
    pub p50: u64,
    /// The 99th percentile, at most 0.1 % too high.
    pub p99: u64,
    /// The 99.9th percentile, at most 0.1 % too high.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

const LINK_HEADER: [&str; 9] = [
    "link",
    "sent",
    "busy",
    "dropped\nfull",
    "dropped\nby AQM",
    "marked",
    "lost",
    "mean\nqueueing",
    "p99\nqueueing",
];

const SOURCE_HEADER: [&str; 9] = [
    "source",
    "goodput",
    "sent",
    "sent\nagain",
    "timeouts",
    "marked",
    "median\nRTT",
    "p99\nRTT",
    "median\ntransfer",
];

/// A table as text, with the column of each heading.
pub(crate) struct NetworkTable {
    pub(crate) title: &'static str,
    pub(crate) header: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns the tables of the links and the sources, which fit `width` columns as
/// [`text_table`](crate::text_table) does.
#[must_use]
pub fn network_tables(network: &NetworkSummary, width: Option<usize>) -> String {
    let tables = tables(network).into_iter().filter(|table| !table.rows.is_empty());
    let text = |table: NetworkTable| text_table(table.header, table.rows, 1, width);
    tables.map(text).collect::<Vec<_>>().join("\n")
}

/// Returns the tables of the links and the sources.
pub(crate) fn tables(network: &NetworkSummary) -> [NetworkTable; 2] {
    let time = |times: &Option<TimesSummary>, of: fn(&TimesSummary) -> u64| {
        times.as_ref().map_or("–".into(), |times| human::time(of(times)))
    };
    let link = |link: &NetworkLinkSummary| {
        vec![
            link.name.clone(),
            link.sent.to_string(),
            format!("{:.1} %", link.utilisation * 100.0),
            link.dropped_full.to_string(),
            link.dropped_aqm.to_string(),
            link.marked.to_string(),
            link.lost.to_string(),
            time(&link.delay_ns, |times| times.mean),
            time(&link.delay_ns, |times| times.p99),
        ]
    };
    let source = |source: &SourceSummary| {
        vec![
            source.stream.clone(),
            human::rate(source.goodput_bps),
            source.sent.to_string(),
            source.retransmissions.to_string(),
            source.timeouts.to_string(),
            source.marked.to_string(),
            time(&source.rtt_ns, |times| times.p50),
            time(&source.rtt_ns, |times| times.p99),
            time(&source.transfer_ns, |times| times.p50),
        ]
    };
    [
        NetworkTable {
            title: "Links",
            header: &LINK_HEADER,
            rows: network.links.iter().map(link).collect(),
        },
        NetworkTable {
            title: "Sources that react",
            header: &SOURCE_HEADER,
            rows: network.sources.iter().map(source).collect(),
        },
    ]
}
