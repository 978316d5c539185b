//! What a network adds to the analysis of one link: sources that react, shared queues, flows, and
//! further links.
//!
//! A stream with a guaranteed rate keeps its bounds beside any traffic of other streams, if the
//! largest packet of each is known. So `check` states them also beside TCP and queue management.
//! Links in series are in `path.rs`.

use millstream::aqm::Aqm;
use millstream::bounds::StreamLimits;
use millstream::flow_queue::{FlowOptions, HostFairness};

use super::verdict::FailedPremise;
use super::{deadlines, path};
use crate::network::{Adaptive, Direction, Network, Tcp};
use crate::scenario::{Scenario, Stream};
use crate::source::Source;

/// Adds the sizes of packets that the simulation generates to the limits of their streams, and
/// those of streams that share a queue to its limits.
pub(super) fn add_packets(scenario: &Scenario, limits: &mut [StreamLimits]) {
    for (at, stream) in scenario.streams.iter().enumerate() {
        let (smallest, largest) = match &stream.source {
            Source::Tcp(tcp) => {
                (Tcp::HEADER_BYTES.min(tcp.bytes), tcp.bytes.max(Tcp::LARGEST_ACK_BYTES))
            }
            Source::Web(web) => {
                let largest = web.tcp.bytes.max(Tcp::LARGEST_ACK_BYTES).max(web.request_bytes);
                (Tcp::HEADER_BYTES.min(web.tcp.bytes).min(web.request_bytes), largest)
            }
            Source::Echo(echo) => (echo.bytes, echo.bytes),
            Source::Adaptive(of) => (1, of.bytes.max(Adaptive::REPORT_BYTES)),
            _ if stream.shares.is_some() => (limits[at].smallest_bytes, limits[at].largest_bytes),
            _ => continue,
        };
        let of = &mut limits[stream.shares.unwrap_or(at)];
        of.smallest_bytes =
            if of.largest_bytes == 0 { smallest } else { of.smallest_bytes.min(smallest) };
        of.largest_bytes = of.largest_bytes.max(largest);
    }
}

/// The other flows in the queue of a stream that is one flow.
pub(super) struct QueueFlows {
    /// The stream that the queue belongs to.
    pub(super) queue: usize,
    pub(super) options: FlowOptions,
    /// The largest packets of the other flows, bytes.
    pub(super) others: Vec<u32>,
}

/// Returns the flows beside stream `at`, which is one flow, if each has its own queue; `lengths`
/// are the largest packets that the sources send, bytes.
pub(super) fn queue_flows(
    scenario: &Scenario,
    at: usize,
    lengths: impl Fn(usize) -> u32,
) -> Option<QueueFlows> {
    let stream = &scenario.streams[at];
    let queue = stream.shares.unwrap_or(at);
    let options = scenario.streams[queue].contract.flow_options()?;
    let series = |network: &Network| path::is_series(network, &scenario.streams[queue]);
    let network = scenario.network.as_ref().filter(|network| !series(network))?;
    let mut hops = network.hops.iter().filter(|hop| hop.direction == Direction::Forward);
    let is_alone =
        stream.shares.is_none() && !scenario.streams.iter().any(|of| of.shares == Some(at));
    let applies = !is_alone
        && !stream.source.reacts()
        && stream.direction == Direction::Forward
        && hops.all(|hop| hop.queue.is_none())
        && options.hosts == HostFairness::None
        && !matches!(options.aqm, Aqm::DualPi2(_))
        && !deadlines::is_ordered_by_deadline(scenario, queue);
    if !applies {
        return None;
    }
    let mut others = Vec::new();
    for (other, of) in scenario.streams.iter().enumerate() {
        if of.shares.unwrap_or(other) != queue {
            continue;
        }
        let (flows, largest) = match &of.source {
            Source::Tcp(tcp) if tcp.interval_ns.is_none() => {
                (tcp.connections, tcp.bytes.max(Tcp::LARGEST_ACK_BYTES))
            }
            Source::Echo(echo) => (1, echo.bytes),
            Source::Adaptive(of) => (1, of.bytes.max(Adaptive::REPORT_BYTES)),
            Source::Tcp(_) | Source::Web(_) | Source::Pcap { .. } => return None,
            _ => (1, lengths(other)),
        };
        if flows > MOST_FLOWS {
            return None;
        }
        others.extend((0..flows).filter(|_| other != at).map(|_| largest));
    }
    // A set of the hash table then has an entry for each.
    let apart = others.len() < MOST_FLOWS as usize && options.buckets >= MOST_FLOWS;
    apart.then_some(QueueFlows { queue, options, others })
}

/// The flows for which every set of the engine's table of flows has room.
const MOST_FLOWS: u32 = 8;

/// Removes the token buckets of queues with unknown arrivals.
pub(super) fn forget_sources(scenario: &Scenario, limits: &mut [StreamLimits]) {
    for (at, stream) in scenario.streams.iter().enumerate() {
        if stream.source.reacts() || stream.shares.is_some() {
            limits[stream.shares.unwrap_or(at)].source = None;
        }
    }
}

/// Returns the reason why the bounds of a single link do not apply to stream `at`; `None` if they
/// apply, or it has flows and the busy periods of the stream apply. `before` returns whether the
/// packets of another stream may precede it without a limit.
pub(super) fn obstacle(
    scenario: &Scenario,
    at: usize,
    before: impl Fn(usize) -> bool,
) -> Option<FailedPremise> {
    let network = scenario.network.as_ref()?;
    let stream = &scenario.streams[at];
    let failed = |detail: &str, change: Option<&str>| {
        Some(FailedPremise { detail: detail.into(), change: change.map(str::to_owned) })
    };
    if stream.source.reacts() {
        return failed("its source reacts, so what it offers is not known", None);
    }
    let mut hops = network.hops.iter().filter(|hop| hop.direction == stream.direction);
    if hops.any(|hop| hop.queue.is_some()) {
        let detail = "the link's `queue` is shared, so other streams may fill it";
        return failed(detail, Some("a `queue` of each stream instead of the link's"));
    }
    let is_shared = |other: &Stream| other.shares == Some(at);
    if stream.shares.is_some() || scenario.streams.iter().any(is_shared) {
        return failed("other streams share its queue", Some("a stream without `shares`"));
    }
    if stream.contract.flow_options().is_some() {
        let ordered = deadlines::is_ordered_by_deadline(scenario, at);
        let detail = "its flows are scheduled and may be dropped from";
        let change = Some("a stream without `flows` and `aqm`");
        let applies = path::is_series(network, stream) || ordered;
        return if applies { failed(detail, change) } else { None };
    }
    if path::is_series(network, stream) {
        return None;
    }
    let unknown = |other: &usize| {
        let of = &scenario.streams[*other];
        (of.source.reacts() || of.shares.is_some()) && before(of.shares.unwrap_or(*other))
    };
    let other = (0..scenario.streams.len()).find(unknown)?;
    let name = &scenario.streams[other].name;
    let why = if scenario.streams[other].source.reacts() {
        "its source reacts"
    } else {
        "shares a queue"
    };
    let detail = format!("`{name}` may go before it, and {why}");
    let change = "a discipline that guarantees rates, or a higher priority";
    Some(FailedPremise::new(detail, change))
}
