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
    /// The streams with `tcp`, `web`, `echo` or `adaptive` sources, in file order.
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

/// The summary of a `tcp`, `web`, `echo` or `adaptive` source.
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
    /// The transfers of a `tcp` source with an end; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<TransfersSummary>,
    /// The pages of a `web` source; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<PagesSummary>,
}

/// The transfers of a `tcp` source.
#[derive(Clone, Debug, Serialize)]
pub struct TransfersSummary {
    /// The transfers that began or waited to begin.
    pub offered: u64,
    /// The transfers that waited for a connection.
    pub waited: u64,
    /// The transfers that were not complete at the end, or still waited.
    pub unfinished: u64,
    /// The completed transfers by size, from the smallest class to the largest.
    pub by_size: Vec<SizeClassSummary>,
}

/// The completed transfers of a class of sizes.
#[derive(Clone, Debug, Serialize)]
pub struct SizeClassSummary {
    /// The largest size of the class, bytes; null without a limit.
    pub up_to_bytes: Option<u64>,
    /// The durations; null without any.
    pub transfer_ns: Option<TimesSummary>,
}

/// The pages of a `web` source.
#[derive(Clone, Debug, Serialize)]
pub struct PagesSummary {
    /// The pages that a client began to load.
    pub begun: u64,
    /// The pages that were not complete at the end.
    pub unfinished: u64,
    /// The load times; null without any.
    pub load_ns: Option<TimesSummary>,
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
    /// The 95th percentile, at most 0.1 % too high.
    pub p95: u64,
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

const COMPLETION_HEADER: [&str; 9] =
    ["source", "what", "complete", "not\ncomplete", "mean", "p50", "p95", "p99", "longest"];

/// A table as text, with the column of each heading.
pub(crate) struct NetworkTable {
    pub(crate) title: &'static str,
    pub(crate) header: &'static [&'static str],
    /// The number of columns with text, before those with numbers.
    pub(crate) text_columns: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns the tables of the links, the sources, and their transfers and pages, which fit `width`
/// columns as [`text_table`](crate::text_table) does.
#[must_use]
pub fn network_tables(network: &NetworkSummary, width: Option<usize>) -> String {
    let tables = tables(network).into_iter().filter(|table| !table.rows.is_empty());
    let text =
        |table: NetworkTable| text_table(table.header, table.rows, table.text_columns, width);
    tables.map(text).collect::<Vec<_>>().join("\n")
}

/// Returns the rows of a source's transfers and pages.
fn completions(source: &SourceSummary) -> Vec<Vec<String>> {
    let row = |what: String, unfinished: Option<u64>, times: &Option<TimesSummary>| {
        let time = |of: fn(&TimesSummary) -> u64| {
            times.as_ref().map_or("–".into(), |times| human::time(of(times)))
        };
        vec![
            source.stream.clone(),
            what,
            times.as_ref().map_or(0, |times| times.count).to_string(),
            unfinished.map_or("–".into(), |count| count.to_string()),
            time(|times| times.mean),
            time(|times| times.p50),
            time(|times| times.p95),
            time(|times| times.p99),
            time(|times| times.max),
        ]
    };
    let mut rows = Vec::new();
    if let Some(transfers) = &source.transfers {
        rows.push(row("transfers".into(), Some(transfers.unfinished), &source.transfer_ns));
        let classes = transfers.by_size.iter().filter(|class| class.transfer_ns.is_some());
        rows.extend(classes.map(|class| row(class.name(), None, &class.transfer_ns)));
    }
    if let Some(pages) = &source.pages {
        rows.push(row("pages".into(), Some(pages.unfinished), &pages.load_ns));
    }
    rows
}

impl SizeClassSummary {
    fn name(&self) -> String {
        match self.up_to_bytes {
            Some(bytes) if bytes >= 1_000_000 => format!("≤ {} MB", bytes / 1_000_000),
            Some(bytes) => format!("≤ {} kB", bytes / 1_000),
            None => "larger".into(),
        }
    }
}

/// Returns the tables of the links, the sources, and their transfers and pages.
pub(crate) fn tables(network: &NetworkSummary) -> [NetworkTable; 3] {
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
            text_columns: 1,
            rows: network.links.iter().map(link).collect(),
        },
        NetworkTable {
            title: "Sources that react",
            header: &SOURCE_HEADER,
            text_columns: 1,
            rows: network.sources.iter().map(source).collect(),
        },
        NetworkTable {
            title: "Transfers and pages",
            header: &COMPLETION_HEADER,
            text_columns: 2,
            rows: network.sources.iter().flat_map(completions).collect(),
        },
    ]
}
