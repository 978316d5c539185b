//! Bounds on delays through a fabric, where they are known.
//!
//! ```text
//! connections ─> [injection link] ─> [link] ─> [link] ─> end-point     waits in front of each link
//! ```
//!
//! A connection of constant bit rate sends at most a packet and one more each interval. A bound on
//! the wait in front of a link says how much later than others its packets can come to the next
//! one. [`stations`] computes the waits; a delay is the sum of those on the path, and of the times
//! in which a packet does not wait.
//!
//! Source: Cruz 1991, part II, also for waits that depend on each other (time stopping). The limit
//! of the line before a link: Grieu 2004, "Analyse et évaluation de techniques de commutation
//! Ethernet".

mod stations;

use millstream::{CREDIT_BYTES, Link};
use millstream_scenario::{Fabric, Pace, Scenario, Source, Stream};

use self::stations::{Class, PathLink, Stations, Switching, Unbounded};
use super::crossbar::credits;
use super::simulation::Simulation;
use super::topology::{Node, Topology};

/// The reason why delays through a fabric have no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFabricBound {
    /// The stream of this name is not of constant bit rate.
    #[error("`{0}` is not of constant bit rate, so a burst of any length may come")]
    Source(String),
    /// The stream of this name has a rate cap.
    #[error("`{0}` has a rate cap, which can hold its packets back")]
    Cap(String),
    /// Paths wait for each other in a cycle of these links.
    #[error(
        "the paths of connections form a cycle, so delays depend on themselves, and grow without \
         end: {0}"
    )]
    Cycle(String),
    /// The connections over this link need its rate or more, or so nearly that a wait may take
    /// minutes.
    #[error("the connections over {0} need all of its rate")]
    Overload(String),
    /// The crossbar in front of this link may be busy without end.
    #[error(
        "waits before {0} grow without end: an input's transfers to other links can hold its \
         packets back, which come in bursts then"
    )]
    Crossbar(String),
    /// Credits of this link run out; an input buffer of these bytes always has some.
    #[error(
        "waits before {0} grow without end: its credits can run out; with `input-buffer = \"{1} \
         B\"` they do not"
    )]
    Credits(String, u64),
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
    let Some(fabric) = &scenario.fabric else { return Ok(vec![0; scenario.streams.len()]) };
    let topology = simulation.topology();
    let layers = usize::from(topology.layers());
    let classes = classes(scenario, fabric)?;
    let connections = connections(scenario, simulation);
    let paths = connections.iter().map(|(class, source, destination)| {
        (*class, path(topology, *class * layers, (*source, *destination)))
    });
    let switching = Switching {
        crossbar: fabric.crossbar.is_some(),
        fifo_inputs: fabric.crossbar.is_some_and(|of| of.fifo),
        cut_through: fabric.cut_through,
        takes_turns: fabric.crossbar.is_some_and(|of| {
            // With several requests, an input may refuse an output again and again under iSLIP.
            !of.islip || of.fifo && scenario.streams.len() * layers == 1
        }),
        in_order: scenario.scheduler.discipline.name == "fifo",
        delay_ns: fabric.delay_ns,
        latency_ns: fabric.latency_ns,
        input_credits: fabric.crossbar.map_or(u64::MAX, |of| of.input_credits.into()),
        output_credits: fabric.crossbar.map_or(u64::MAX, |of| of.output_credits.into()),
    };
    let size = (topology.links().len(), scenario.streams.len() * layers);
    let mut stations = Stations::new(switching, classes.clone(), size, paths);
    if let Err(reason) = stations.solve() {
        return Err(no_bound(topology, &mut stations, reason));
    }
    let mut bounds = vec![0; scenario.streams.len()];
    for (flow, (number, ..)) in connections.iter().enumerate() {
        let class = classes[*number];
        let (links, waits_ns) = stations.waits_ns(flow);
        let on_the_way_ns = links.saturating_sub(1).saturating_mul(switching.ahead_ns(class));
        let last_ns = class.link_ns.saturating_add(fabric.delay_ns);
        let delay_ns = waits_ns.saturating_add(on_the_way_ns).saturating_add(last_ns);
        bounds[*number] = delay_ns.max(bounds[*number]);
    }
    Ok(bounds)
}

/// Returns the packets of each stream.
fn classes(scenario: &Scenario, fabric: &Fabric) -> Result<Vec<Class>, NoFabricBound> {
    // A management channel goes before all.
    let managed = scenario.streams.iter().any(|stream| stream.contract.is_fmc());
    let by_priority = scenario.scheduler.discipline.name == "static-priority" && !managed;
    let class = |stream: &Stream| {
        let Source::Cbr { bytes, pace, .. } = &stream.source else {
            return Err(NoFabricBound::Source(stream.name.clone()));
        };
        if stream.contract.is_limited() {
            return Err(NoFabricBound::Cap(stream.name.clone()));
        }
        let interval_ns = match pace {
            Pace::IntervalNs(interval_ns) => *interval_ns,
            Pace::RateBps(rate_bps) => (u64::from(*bytes) * 8_000_000_000).div_ceil(*rate_bps),
        };
        let link_ns = scenario.link.wire().transmission_ns(*bytes);
        let cross_ns =
            fabric.crossbar.map_or(0, |of| Link::new(of.rate_bps, 0).transmission_ns(*bytes));
        let arrives_ns = if fabric.cut_through { link_ns } else { 0 };
        Ok(Class {
            interval_ns: interval_ns.max(1),
            link_ns,
            cross_ns,
            transfer_ns: cross_ns.max(arrives_ns),
            credits: u64::from(credits(*bytes)),
            priority: if by_priority { stream.contract.terms().priority } else { 0 },
        })
    };
    scenario.streams.iter().map(class).collect()
}

/// Returns the connections: stream, source and destination.
fn connections(scenario: &Scenario, simulation: &Simulation) -> Vec<(usize, u32, u32)> {
    let mut connections = Vec::new();
    for class in 0..scenario.streams.len() {
        let number = u8::try_from(class).unwrap_or(u8::MAX);
        for (source, traffic) in (0..).zip(simulation.sources()) {
            let of = traffic.destinations(number).iter();
            connections.extend(of.map(|destination| (class, source, *destination)));
        }
    }
    connections
}

/// Returns the links and channels of a path; `first` is the class's channel on layer 0.
fn path(topology: &Topology, first: usize, (source, destination): (u32, u32)) -> Vec<PathLink> {
    let mut channel = first;
    let mut path = Vec::new();
    for link in topology.path(source, destination) {
        path.push(PathLink { link, channel });
        if let Node::Switch(switch) = topology.links()[link].to {
            channel = first + usize::from(topology.hop(switch, destination).layer);
        }
    }
    path
}

/// Returns the reason why there is no bound, in terms of the fabric.
fn no_bound(topology: &Topology, stations: &mut Stations, reason: Unbounded) -> NoFabricBound {
    let describe = |link: usize| {
        let link = topology.links()[link];
        format!("{} to {}", link.from, link.to)
    };
    match reason {
        Unbounded::Overload(link) => NoFabricBound::Overload(describe(link)),
        Unbounded::Grows(link) => match stations.sufficient_credits() {
            Some(credits) => {
                NoFabricBound::Credits(describe(link), credits.saturating_mul(CREDIT_BYTES.into()))
            }
            None => NoFabricBound::Crossbar(describe(link)),
        },
        Unbounded::Cycle(links) => {
            let names: Vec<_> = links.into_iter().map(describe).collect();
            NoFabricBound::Cycle(names.join(", "))
        }
    }
}
