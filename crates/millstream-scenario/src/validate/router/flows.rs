//! The flows and the queue management of a path.

use millstream::aqm::Aqm;
use millstream::aqm::codel::CodelOptions;
use millstream::flow_queue::FlowOptions;

use super::{LARGEST_BYTES, check_range};
use crate::error::Problem;
use crate::file::LateName;
use crate::file::router::{AqmName, AqmText, PathTable};

/// The default number of flows with a queue of their own.
const BUCKETS: u32 = 1_024;

/// Returns the flows of a path, at most `queue` packets together; `None` if the path has neither
/// `flows` nor `aqm`.
pub(super) fn flows(
    table: &PathTable,
    queue: u32,
    problems: &mut Vec<Problem>,
) -> Option<FlowOptions> {
    let given = table.flows.as_ref();
    let span = given.map(|of| of.span()).or_else(|| Some(table.aqm.as_ref()?.span()));
    let span = span?;
    let aqm = match table.aqm.as_ref().map(|aqm| aqm.get_ref()) {
        Some(AqmText::Name(AqmName::None)) => Aqm::None,
        Some(AqmText::Codel(of)) => {
            let default = CodelOptions::default();
            Aqm::Codel(CodelOptions {
                target_ns: of.target.map_or(default.target_ns, |target| target.0),
                interval_ns: of.interval.map_or(default.interval_ns, |interval| interval.0),
                ecn: of.ecn.unwrap_or(default.ecn),
            })
        }
        Some(AqmText::Name(AqmName::Codel)) | None => Aqm::Codel(CodelOptions::default()),
    };
    if let Aqm::Codel(of) = aqm
        && (of.target_ns == 0 || of.target_ns >= of.interval_ns)
    {
        let message = "a `target` that is 0 or not below the `interval` of CoDel";
        let help = "about a twentieth of the interval, for example target = \"5 ms\"";
        problems.push(Problem::new(span.clone(), message).help(help));
    }
    if matches!(table.late, Some(LateName::Drop)) {
        let message = "flows or queue management on a path that drops late packets";
        let help =
            "take out `late = \"drop\"`, or `flows` and `aqm`: its deadlines limit its delay";
        problems.push(Problem::new(span, message).help(help));
    }
    let (buckets, quantum) = match given.map(|given| given.get_ref()) {
        None => (1, None),
        Some(of) => {
            let buckets = of.buckets.as_ref();
            let buckets =
                check_range(buckets, BUCKETS, 1..=65_536, "a number of buckets", problems);
            (buckets, of.quantum.as_ref())
        }
    };
    let quantum_bytes = quantum.map_or(u64::from(LARGEST_BYTES), |quantum| quantum.get_ref().0);
    if let Some(given) = quantum.filter(|_| !(64..=1 << 20).contains(&quantum_bytes)) {
        let problem = Problem::new(given.span(), "a `quantum` outside 64 bytes to 1 MiB");
        problems.push(problem.help("for example \"1514 B\""));
    }
    Some(FlowOptions {
        buckets,
        quantum_bytes: u32::try_from(quantum_bytes).unwrap_or(LARGEST_BYTES),
        // The queue is limited by packets.
        limit_bytes: u64::MAX,
        limit_packets: queue,
        aqm,
    })
}
