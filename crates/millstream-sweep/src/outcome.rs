//! The result of a run as rows of the dataset, one per stream.

use millstream_report::{FabricStream, FabricSummary, StreamSummary, Summary};
use millstream_scenario::Scenario;
use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The result of a run on one link.
    Link(Summary),
    /// The result of a run in a fabric.
    Fabric(FabricSummary),
}

/// A value of the dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value, such as the delay of a stream that sent nothing.
    None,
    /// A count, a time in ns, a length in bytes, or a rate in bits/s.
    Count(u64),
    /// A share, 0 to 1.
    Share(f64),
    /// A name.
    Text(String),
}

impl Cell {
    /// Returns the value as a number; `None` for names and missing values.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(count) => Some(*count as f64),
            Cell::Share(share) => Some(*share),
            Cell::None | Cell::Text(_) => None,
        }
    }
}

/// The type of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Cell::Count`].
    Count,
    /// [`Cell::Share`].
    Share,
    /// [`Cell::Text`].
    Text,
}

/// A column of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column, ending in its unit.
    pub name: &'static str,
    /// Type of its cells.
    pub kind: Kind,
}

const fn count(name: &'static str) -> Column {
    Column { name, kind: Kind::Count }
}

const fn share(name: &'static str) -> Column {
    Column { name, kind: Kind::Share }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const LINK: [Column; 21] = [
    text("scenario"),
    count("busy_ns"),
    count("end_ns"),
    share("utilisation"),
    text("name"),
    count("arrived"),
    count("sent"),
    count("sent_bytes"),
    count("dropped_late"),
    count("dropped_full"),
    count("queued"),
    count("missed"),
    count("violations"),
    count("rate_bps"),
    count("delay_mean_ns"),
    count("delay_p50_ns"),
    count("delay_p99_ns"),
    count("delay_p999_ns"),
    count("delay_max_ns"),
    count("jitter_mean_ns"),
    count("jitter_max_ns"),
];

const FABRIC: [Column; 25] = [
    text("scenario"),
    count("end_points"),
    count("switches"),
    count("links"),
    count("warm_up_ns"),
    count("end_ns"),
    count("packet_hops"),
    count("under_way"),
    share("mean_utilisation"),
    share("highest_utilisation"),
    text("busiest_link"),
    text("name"),
    count("connections_asked"),
    count("connections_admitted"),
    count("injected"),
    count("injected_bytes"),
    count("delivered"),
    count("delivered_bytes"),
    share("offered"),
    share("throughput"),
    count("delay_mean_ns"),
    count("delay_p50_ns"),
    count("delay_p99_ns"),
    count("delay_p999_ns"),
    count("delay_max_ns"),
];

const FABRIC_JITTER: Column = count("jitter_max_ns");

/// The additional columns of a network. All but the first are null for streams without `tcp`,
/// `web`, `echo` or `adaptive` source. A class of sizes ends with the size in its name.
const NETWORK: [Column; 24] = [
    count("dropped_aqm"),
    count("goodput_bps"),
    count("retransmissions"),
    count("marked"),
    count("rtt_mean_ns"),
    count("rtt_p50_ns"),
    count("rtt_p99_ns"),
    count("transfer_mean_ns"),
    count("transfer_p50_ns"),
    count("transfer_p95_ns"),
    count("transfer_p99_ns"),
    count("transfers_unfinished"),
    count("transfer_10kb_mean_ns"),
    count("transfer_10kb_p99_ns"),
    count("transfer_100kb_mean_ns"),
    count("transfer_100kb_p99_ns"),
    count("transfer_1mb_mean_ns"),
    count("transfer_1mb_p99_ns"),
    count("transfer_larger_mean_ns"),
    count("transfer_larger_p99_ns"),
    count("page_mean_ns"),
    count("page_p50_ns"),
    count("page_p95_ns"),
    count("page_p99_ns"),
];

/// What a sweep runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// A link.
    Link,
    /// A network; some points may be a single link.
    Network,
    /// A fabric.
    Fabric,
}

impl Simulated {
    /// Returns what runs `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        match (&scenario.fabric, &scenario.network) {
            (Some(_), _) => Self::Fabric,
            (None, Some(_)) => Self::Network,
            (None, None) => Self::Link,
        }
    }
}

/// Returns the columns of a dataset after point, settings and seed.
#[must_use]
pub fn columns(of: Simulated) -> Vec<Column> {
    match of {
        Simulated::Link => LINK.to_vec(),
        Simulated::Network => LINK.into_iter().chain(NETWORK).collect(),
        Simulated::Fabric => FABRIC.into_iter().chain([FABRIC_JITTER]).collect(),
    }
}

/// Returns the index of the column with the stream's name.
pub(crate) fn name_column(columns: &[Column]) -> usize {
    columns.iter().position(|column| column.name == "name").expect("every dataset has names")
}

impl Outcome {
    /// Returns a row for each stream, with a cell for each column of a dataset of such outcomes.
    pub(crate) fn rows(&self, of: Simulated) -> Vec<Vec<Cell>> {
        match self {
            Outcome::Link(summary) => {
                let row = |stream: &StreamSummary| {
                    let mut row = link_row(summary, stream);
                    if of == Simulated::Network {
                        row.extend(network_cells(summary, stream));
                    }
                    row
                };
                summary.streams.iter().map(row).collect()
            }
            Outcome::Fabric(summary) => {
                summary.streams.iter().map(|stream| fabric_row(summary, stream)).collect()
            }
        }
    }
}

fn optional(count: Option<u64>) -> Cell {
    count.map_or(Cell::None, Cell::Count)
}

fn link_row(summary: &Summary, stream: &StreamSummary) -> Vec<Cell> {
    let delay = stream.delay_ns.as_ref();
    let jitter = stream.jitter_ns.as_ref();
    vec![
        Cell::Text(summary.scenario.clone()),
        Cell::Count(summary.link.busy_ns),
        Cell::Count(summary.link.end_ns),
        Cell::Share(summary.link.utilisation),
        Cell::Text(stream.name.clone()),
        Cell::Count(stream.arrived),
        Cell::Count(stream.sent),
        Cell::Count(stream.sent_bytes),
        Cell::Count(stream.dropped_late),
        Cell::Count(stream.dropped_full),
        Cell::Count(stream.queued),
        Cell::Count(stream.missed),
        Cell::Count(stream.violations),
        Cell::Count(stream.rate_bps),
        optional(delay.map(|delay| delay.mean)),
        optional(delay.map(|delay| delay.p50)),
        optional(delay.map(|delay| delay.p99)),
        optional(delay.map(|delay| delay.p999)),
        optional(delay.map(|delay| delay.max)),
        optional(jitter.map(|jitter| jitter.mean)),
        optional(jitter.map(|jitter| jitter.max)),
    ]
}

fn network_cells(summary: &Summary, stream: &StreamSummary) -> [Cell; NETWORK.len()] {
    let source = summary
        .network
        .as_ref()
        .and_then(|network| network.sources.iter().find(|source| source.stream == stream.name));
    let rtt = source.and_then(|source| source.rtt_ns.as_ref());
    let transfer = source.and_then(|source| source.transfer_ns.as_ref());
    let transfers = source.and_then(|source| source.transfers.as_ref());
    let class = |at: usize| transfers?.by_size.get(at)?.transfer_ns.as_ref();
    let page = source.and_then(|source| source.pages.as_ref()?.load_ns.as_ref());
    [
        optional(stream.dropped_aqm),
        optional(source.map(|source| source.goodput_bps)),
        optional(source.map(|source| source.retransmissions)),
        optional(source.map(|source| source.marked)),
        optional(rtt.map(|rtt| rtt.mean)),
        optional(rtt.map(|rtt| rtt.p50)),
        optional(rtt.map(|rtt| rtt.p99)),
        optional(transfer.map(|transfer| transfer.mean)),
        optional(transfer.map(|transfer| transfer.p50)),
        optional(transfer.map(|transfer| transfer.p95)),
        optional(transfer.map(|transfer| transfer.p99)),
        optional(transfers.map(|transfers| transfers.unfinished)),
        optional(class(0).map(|class| class.mean)),
        optional(class(0).map(|class| class.p99)),
        optional(class(1).map(|class| class.mean)),
        optional(class(1).map(|class| class.p99)),
        optional(class(2).map(|class| class.mean)),
        optional(class(2).map(|class| class.p99)),
        optional(class(3).map(|class| class.mean)),
        optional(class(3).map(|class| class.p99)),
        optional(page.map(|page| page.mean)),
        optional(page.map(|page| page.p50)),
        optional(page.map(|page| page.p95)),
        optional(page.map(|page| page.p99)),
    ]
}

fn fabric_row(summary: &FabricSummary, stream: &FabricStream) -> Vec<Cell> {
    let fabric = &summary.fabric;
    let delay = stream.delay_ns.as_ref();
    vec![
        Cell::Text(summary.scenario.clone()),
        Cell::Count(fabric.end_points.into()),
        Cell::Count(fabric.switches.into()),
        Cell::Count(fabric.links as u64),
        Cell::Count(fabric.warm_up_ns),
        Cell::Count(fabric.end_ns),
        Cell::Count(fabric.packet_hops),
        Cell::Count(fabric.under_way as u64),
        Cell::Share(fabric.mean_utilisation),
        Cell::Share(fabric.highest_utilisation),
        Cell::Text(fabric.busiest_link.clone()),
        Cell::Text(stream.name.clone()),
        Cell::Count(stream.connections_asked),
        Cell::Count(stream.connections_admitted),
        Cell::Count(stream.injected),
        Cell::Count(stream.injected_bytes),
        Cell::Count(stream.delivered),
        Cell::Count(stream.delivered_bytes),
        Cell::Share(stream.offered),
        Cell::Share(stream.throughput),
        optional(delay.map(|delay| delay.mean)),
        optional(delay.map(|delay| delay.p50)),
        optional(delay.map(|delay| delay.p99)),
        optional(delay.map(|delay| delay.p999)),
        optional(delay.map(|delay| delay.max)),
        optional(stream.jitter_max_ns),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    fn rows(text: &str) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let scenario = millstream_scenario::Scenario::parse("s", text, Path::new("")).unwrap();
        let outcome = crate::run_one(&scenario, &AtomicBool::new(false)).unwrap().unwrap();
        let of = Simulated::of(&scenario);
        (columns(of), outcome.rows(of))
    }

    const LINK_TEXT: &str = r#"
        scenario = { duration = "10 ms" }
        link = { rate = "8 Mbit/s" }
        scheduler = { discipline = "fifo" }
        stream = [
            { name = "a", source = { kind = "backlog", packets = 2, bytes = 1000 } },
            { name = "b", source = { kind = "poisson", bytes = 1000, rate = "1 bit/s" } },
        ]
    "#;

    const FABRIC_TEXT: &str = r#"
        scenario = { duration = "100 us" }
        link = { rate = "1 Gbit/s" }
        fabric = { topology = { kind = "folded-shuffle", arity = 2, levels = 2 } }
        scheduler = { discipline = "fifo" }
        stream = [{ name = "a", source = { kind = "poisson", bytes = 100, rate = "100 Mbit/s" } }]
    "#;

    #[test]
    fn every_cell_matches_the_kind_of_its_column() {
        for text in [LINK_TEXT, FABRIC_TEXT] {
            let (columns, rows) = rows(text);
            assert!(!rows.is_empty());
            for row in rows {
                assert_eq!(row.len(), columns.len());
                for (cell, column) in row.iter().zip(&columns) {
                    let fits = match cell {
                        Cell::None => {
                            column.name.starts_with("delay") || column.name.starts_with("jitter")
                        }
                        Cell::Count(_) => column.kind == Kind::Count,
                        Cell::Share(_) => column.kind == Kind::Share,
                        Cell::Text(_) => column.kind == Kind::Text,
                    };
                    assert!(fits, "{}: {cell:?}", column.name);
                }
            }
        }
    }

    #[test]
    fn metrics_of_two_packets_match_a_calculation_by_hand() {
        let (columns, rows) = rows(LINK_TEXT);
        let cell = |row: usize, name: &str| {
            &rows[row][columns.iter().position(|column| column.name == name).unwrap()]
        };
        // 1,000 bytes at 8 Mbit/s take 1 ms.
        assert_eq!(*cell(0, "busy_ns"), Cell::Count(2_000_000));
        assert_eq!(*cell(0, "utilisation"), Cell::Share(1.0));
        assert_eq!(*cell(0, "delay_max_ns"), Cell::Count(1_000_000));
        assert_eq!(*cell(1, "name"), Cell::Text("b".into()));
        assert_eq!(*cell(1, "delay_mean_ns"), Cell::None);
    }

    #[test]
    fn cells_survive_json() {
        let cells = vec![
            Cell::None,
            Cell::Count(u64::MAX),
            Cell::Share(1.0),
            Cell::Share(0.123_457),
            Cell::Share(0.1 + 0.2),
            Cell::Text("1".into()),
        ];
        let text = serde_json::to_string(&cells).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&text).unwrap(), cells);
    }
}
