//! The flows and the queue management of a path or a stream.

use millstream::aqm::Aqm;
use millstream::aqm::codel::CodelOptions;
use millstream::flow_queue::{FlowOptions, HostFairness};
use toml::Spanned;

use super::{aqm, check_range};
use crate::error::Problem;
use crate::file::aqm::AqmText;
use crate::file::flows::FlowsTable;
use crate::file::router::PathTable;
use crate::file::{LateName, StreamTable};
use crate::router::PathAction;

/// The default number of flows with a queue of their own.
const BUCKETS: u32 = 1_024;
/// The default bytes of a flow's turn: the largest untagged Ethernet frame without its FCS.
const QUANTUM_BYTES: u32 = 1_514;

/// The keys of a path or a stream that define its flows.
struct Keys<'a> {
    /// The kind of table for messages: "path" or "stream".
    what: &'static str,
    flows: Option<&'a Spanned<FlowsTable>>,
    aqm: Option<&'a Spanned<AqmText>>,
    late: Option<LateName>,
}

/// Returns the flows of a path, at most `queue` packets together; `None` if it has neither `flows`
/// nor `aqm`.
pub(super) fn of_path(
    table: &PathTable,
    queue: u32,
    problems: &mut Vec<Problem>,
) -> Option<FlowOptions> {
    let (flows, aqm) = (table.flows.as_ref(), table.aqm.as_ref());
    let keys = Keys { what: "path", flows, aqm, late: table.late };
    // The queue is limited by packets.
    let limits = (queue, u64::MAX);
    options(&keys, limits, problems)
}

/// Returns the flows of a best-effort path: at most `queue` packets together.
pub(super) fn best_effort(queue: u32) -> FlowOptions {
    FlowOptions { limit_bytes: u64::MAX, limit_packets: queue, ..FlowOptions::default() }
}

/// Returns whether a path forwards, and its file says nothing about its contract and its queues.
pub(super) fn is_best_effort(table: &PathTable) -> bool {
    let given = [
        table.flows.is_some(),
        table.aqm.is_some(),
        table.weight.is_some(),
        table.priority.is_some(),
        table.period.is_some(),
        table.window.is_some(),
        table.late.is_some(),
        table.max_rate.is_some(),
        table.queue.is_some(),
    ];
    !matches!(table.action, Some(PathAction::Drop)) && !given.contains(&true)
}

/// Returns the flows of a stream; `None` if it has neither `flows` nor `aqm`.
pub(super) fn of_stream(table: &StreamTable, problems: &mut Vec<Problem>) -> Option<FlowOptions> {
    let (flows, aqm) = (table.flows.as_deref(), table.aqm.as_deref());
    let keys = Keys { what: "stream", flows, aqm, late: table.late };
    let default = FlowOptions::default();
    let limits = match table.queue {
        Some(queue) => (queue, u64::MAX),
        None => (default.limit_packets, default.limit_bytes),
    };
    options(&keys, limits, problems)
}

/// Returns the flows with these limits of packets and bytes.
fn options(
    keys: &Keys,
    (limit_packets, limit_bytes): (u32, u64),
    problems: &mut Vec<Problem>,
) -> Option<FlowOptions> {
    let span = keys.flows.map(Spanned::span).or_else(|| Some(keys.aqm?.span()))?;
    let aqm = match keys.aqm {
        Some(given) => aqm::aqm(given.get_ref(), &given.span(), problems),
        None => Aqm::Codel(CodelOptions::default()),
    };
    if let (Some(flows), Aqm::DualPi2(_)) = (keys.flows, aqm) {
        let message = format!("`flows` with queue management \"dualpi2\" on a {}", keys.what);
        let help = "take out `flows`: DualPI2 has two queues of its own, by the ECN field";
        problems.push(Problem::new(flows.span(), message).help(help));
    }
    if matches!(keys.late, Some(LateName::Drop)) {
        let message =
            format!("flows or queue management on a {} that drops late packets", keys.what);
        let help =
            "take out `late = \"drop\"`, or `flows` and `aqm`: its deadlines limit its delay";
        problems.push(Problem::new(span, message).help(help));
    }
    let (buckets, quantum) = match keys.flows.map(Spanned::get_ref) {
        None => (1, None),
        Some(of) => {
            let buckets = of.buckets.as_ref();
            let buckets =
                check_range(buckets, BUCKETS, 1..=65_536, "a number of buckets", problems);
            (buckets, of.quantum.as_ref())
        }
    };
    let quantum_bytes = quantum.map_or(u64::from(QUANTUM_BYTES), |quantum| quantum.get_ref().0);
    if let Some(given) = quantum.filter(|_| !(64..=1 << 20).contains(&quantum_bytes)) {
        let problem = Problem::new(given.span(), "a `quantum` outside 64 bytes to 1 MiB");
        problems.push(problem.help("for example \"1514 B\""));
    }
    if buckets == 1 && aqm == Aqm::None {
        // One flow without management is a plain queue, which drops at its tail.
        return None;
    }
    Some(FlowOptions {
        buckets,
        quantum_bytes: u32::try_from(quantum_bytes).unwrap_or(QUANTUM_BYTES),
        limit_bytes,
        limit_packets,
        hosts: match keys.flows.and_then(|flows| flows.get_ref().hosts) {
            Some(_) => HostFairness::ByHost,
            None => HostFairness::None,
        },
        aqm,
        ..FlowOptions::default()
    })
}
