//! Bounds on delays through a fabric, where they are known.
//!
//! ```text
//! connections ─> [injection link] ─> [link] ─> [link] ─> end-point     links in the order of paths
//! ```
//!
//! Every connection of constant bit rate sends at most one packet and its rate: a token bucket. At
//! each link, every packet leaves in the busy period in which it arrives, whatever the discipline;
//! under FIFO it waits for no more than all bursts.
//! Let y bound the length of a busy period; then so does F(y)/r, where F(y) is what can arrive in
//! y: for each link before this one, the lesser of the buckets of its connections and L + r·y.
//! Behind the link, a bucket grows by its rate times the difference of the longest and the shortest
//! delay. Links are taken in the order in which paths pass them, which needs paths without a cycle.
//!
//! Source: Cruz 1991, part II; Le Boudec and Thiran 2001, theorems 1.4.3 and 6.2.1. The limit of a
//! link before: Grieu 2004, "Analyse et évaluation de techniques de commutation Ethernet".

use std::collections::{BTreeMap, BTreeSet};

use millstream::Link;
use millstream::bounds::{Bounds, ServiceCurve, Source, StreamLimits};
use millstream_scenario::{Pace, Scenario, Source as TrafficSource};

use super::simulation::Simulation;

/// Repetitions of the bound on a busy period; each one is valid.
const REFINEMENTS: usize = 16;

/// The reason why delays through a fabric have no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFabricBound {
    /// Switches have crossbars, and links credits.
    #[error(
        "credits and the crossbars of switches can hold packets back; bounds are for `buffering = \
         \"output\"`"
    )]
    Crossbar,
    /// The stream of this name is not of constant bit rate.
    #[error("`{0}` is not of constant bit rate, so a burst of any length may come")]
    Source(String),
    /// The stream of this name has a rate cap.
    #[error("`{0}` has a rate cap, which can hold its packets back")]
    Cap(String),
    /// Paths wait for each other in a cycle of these links.
    #[error("the paths of connections form a cycle, so delays depend on themselves: {0}")]
    Cycle(String),
    /// The connections over this link need its rate or more.
    #[error("the connections over {0} need all of its rate")]
    Overload(String),
}

/// A connection of constant bit rate.
struct Connection {
    class: usize,
    path: Vec<usize>,
    bucket: Source,
    /// The transmission time of its packets, ns.
    packet_ns: u64,
    /// The sum of the links' delays so far, ns.
    delay_ns: u64,
    /// The difference of its longest and its shortest delay so far, ns.
    spread_ns: u64,
}

/// Returns the longest time from the injection of a packet of each stream to its delivery, ns; 0
/// for streams without connections.
///
/// # Errors
/// Returns the reason why there is no bound.
pub fn delay_bounds(
    scenario: &Scenario,
    simulation: &Simulation,
) -> Result<Vec<u64>, NoFabricBound> {
    if simulation.has_crossbars() {
        return Err(NoFabricBound::Crossbar);
    }
    let wire = scenario.link.wire();
    let mut connections = connections(scenario, simulation, wire)?;
    let links = simulation.topology().links().len();
    let mut on_link = vec![Vec::new(); links];
    for (number, connection) in connections.iter().enumerate() {
        for (place, link) in connection.path.iter().enumerate() {
            on_link[*link].push((number, place));
        }
    }
    let order = order_of_links(simulation, &connections)?;
    let in_order = scenario.scheduler.discipline.name == "fifo";
    let cut_through = scenario.fabric.as_ref().is_some_and(|fabric| fabric.cut_through);
    for link in order {
        let worst_ns = worst_delay_ns(wire, &connections, &on_link[link], in_order)
            .ok_or_else(|| NoFabricBound::Overload(describe(simulation, link)))?;
        for (number, place) in &on_link[link] {
            let connection = &mut connections[*number];
            let waits_ns = worst_ns.saturating_sub(connection.packet_ns);
            // With cut-through, a packet is sent on while it arrives.
            let is_last = place + 1 == connection.path.len();
            let takes_ns = if cut_through && !is_last { waits_ns } else { worst_ns };
            connection.delay_ns = connection.delay_ns.saturating_add(takes_ns);
            connection.spread_ns = connection.spread_ns.saturating_add(waits_ns);
        }
    }
    let fabric = scenario.fabric.as_ref();
    let (delay_ns, latency_ns) = fabric.map_or((0, 0), |of| (of.delay_ns, of.latency_ns));
    let mut bounds = vec![0; scenario.streams.len()];
    for connection in &connections {
        let links = connection.path.len() as u64;
        let fixed_ns = links * delay_ns + links.saturating_sub(1) * latency_ns;
        let bound = &mut bounds[connection.class];
        *bound = (*bound).max(connection.delay_ns.saturating_add(fixed_ns));
    }
    Ok(bounds)
}

/// Returns the connections with their paths.
fn connections(
    scenario: &Scenario,
    simulation: &Simulation,
    wire: Link,
) -> Result<Vec<Connection>, NoFabricBound> {
    let mut connections = Vec::new();
    for (class, stream) in scenario.streams.iter().enumerate() {
        let TrafficSource::Cbr { bytes, pace, .. } = &stream.source else {
            return Err(NoFabricBound::Source(stream.name.clone()));
        };
        if stream.contract.is_limited() {
            return Err(NoFabricBound::Cap(stream.name.clone()));
        }
        let interval_ns = match pace {
            Pace::IntervalNs(interval_ns) => *interval_ns,
            Pace::RateBps(rate_bps) => (u64::from(*bytes) * 8_000_000_000).div_ceil(*rate_bps),
        };
        let burst_bytes = wire.wire_bytes(*bytes);
        let bits = u128::from(burst_bytes) * 8_000_000_000;
        let rate_bps = bits.div_ceil(u128::from(interval_ns.max(1)));
        let rate_bps = u64::try_from(rate_bps).unwrap_or(u64::MAX);
        let number = u8::try_from(class).unwrap_or(u8::MAX);
        for (source, traffic) in (0..).zip(simulation.sources()) {
            for destination in traffic.destinations(number) {
                connections.push(Connection {
                    class,
                    path: simulation.topology().path(source, *destination).collect(),
                    bucket: Source { rate_bps, burst_bytes },
                    packet_ns: wire.transmission_ns(*bytes),
                    delay_ns: 0,
                    spread_ns: 0,
                });
            }
        }
    }
    Ok(connections)
}

/// Returns the links of all paths, each after the links before it.
fn order_of_links(
    simulation: &Simulation,
    connections: &[Connection],
) -> Result<Vec<usize>, NoFabricBound> {
    let pairs = connections.iter().flat_map(|of| of.path.windows(2).map(|pair| (pair[0], pair[1])));
    let pairs: BTreeSet<_> = pairs.collect();
    let mut before: BTreeMap<usize, usize> =
        connections.iter().flat_map(|of| &of.path).map(|link| (*link, 0)).collect();
    for (_, next) in &pairs {
        *before.entry(*next).or_default() += 1;
    }
    let mut order: Vec<_> =
        before.iter().filter(|(_, links)| **links == 0).map(|(link, _)| *link).collect();
    let mut done = 0;
    while let Some(link) = order.get(done).copied() {
        done += 1;
        before.remove(&link);
        for (_, next) in pairs.range((link, 0)..=(link, usize::MAX)) {
            if let Some(links) = before.get_mut(next) {
                *links -= 1;
                if *links == 0 {
                    order.push(*next);
                }
            }
        }
    }
    if before.is_empty() {
        return Ok(order);
    }
    // Every link that is left has one before it that is left, too.
    let previous = |link: usize| {
        let of = |pair: &&(usize, usize)| pair.1 == link && before.contains_key(&pair.0);
        pairs.iter().find(of).map(|pair| pair.0)
    };
    let mut walk: Vec<usize> = before.keys().take(1).copied().collect();
    while let Some(link) = walk.last().and_then(|link| previous(*link)) {
        if let Some(begin) = walk.iter().position(|seen| *seen == link) {
            walk.drain(..begin);
            break;
        }
        walk.push(link);
    }
    walk.reverse();
    let names: Vec<_> = walk.iter().map(|link| describe(simulation, *link)).collect();
    Err(NoFabricBound::Cycle(names.join(", ")))
}

fn describe(simulation: &Simulation, link: usize) -> String {
    let link = simulation.topology().links()[link];
    format!("{} to {}", link.from, link.to)
}

/// Returns the longest time from a packet's arrival at a link to the end of its transmission, ns:
/// the longest busy period or, under FIFO, the sum of all bursts. `None` if there may be no end.
fn worst_delay_ns(
    wire: Link,
    connections: &[Connection],
    on_link: &[(usize, usize)],
    in_order: bool,
) -> Option<u64> {
    // Sums by the link before, with the longest packet; injected packets come without a limit.
    let mut groups = BTreeMap::<Option<usize>, (Source, u64)>::new();
    let mut limits = Vec::new();
    let mut all = Source::default();
    for (number, place) in on_link {
        let connection = &connections[*number];
        let Source { rate_bps, burst_bytes: longest } = connection.bucket;
        let burst_bytes = connection.bucket.bytes_in(connection.spread_ns);
        let arrives = Source { rate_bps, burst_bytes };
        all = all.plus(arrives);
        let previous = place.checked_sub(1).map(|before| connection.path[before]);
        let group = groups.entry(previous).or_default();
        *group = (group.0.plus(arrives), group.1.max(longest));
        limits.push(longest);
    }
    limits.sort_unstable();
    limits.dedup();
    let bare = Link::new(wire.rate_bps, 0);
    let length = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let limits: Vec<_> =
        limits.into_iter().map(|bytes| StreamLimits::new(length(bytes), length(bytes))).collect();
    let rate_bps = Bounds::new(bare, &limits).effective_rate_bps();
    let link = ServiceCurve { rate_bps, latency_ns: 0 };
    let served_ns = |burst_bytes: u64| {
        link.remainder(Source { rate_bps: 0, burst_bytes }).map(|left| left.latency_ns)
    };
    let mut busy_ns = link.remainder(all)?.latency_ns;
    for _ in 0..REFINEMENTS {
        let arrives = groups.iter().map(|(previous, (sum, longest))| {
            let line = Source { rate_bps: wire.rate_bps, burst_bytes: *longest };
            let by_line = previous.map_or(u64::MAX, |_| line.bytes_in(busy_ns));
            sum.bytes_in(busy_ns).min(by_line)
        });
        let bytes = arrives.fold(0u64, u64::saturating_add);
        busy_ns = busy_ns.min(served_ns(bytes)?);
    }
    if in_order { Some(busy_ns.min(served_ns(all.burst_bytes)?)) } else { Some(busy_ns) }
}
