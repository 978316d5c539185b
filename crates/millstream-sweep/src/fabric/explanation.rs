//! A description of a fabric before it runs: its size, connections, and freedom from deadlock.

use millstream_scenario::Scenario;
use millstream_sim::fabric::{PrepareError, Prepared, delay_bounds, prepare};
use serde::Serialize;

/// The output of `millstream check` for a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FabricExplanation {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the discipline that orders the streams at each link.
    pub discipline: String,
    /// Rate of each link, bits/s.
    pub rate_bps: u64,
    /// Number of end-points.
    pub end_points: u32,
    /// Number of switches.
    pub switches: u32,
    /// Number of one-way links.
    pub links: usize,
    /// The streams, in the order of the file.
    pub streams: Vec<FabricStreamExplanation>,
    /// The reason why delays have no bound; `None` if they have one.
    pub no_bound: Option<String>,
    /// Number of links in a cycle of waiting packets; 0 if the fabric cannot deadlock.
    pub deadlock_links: usize,
    /// Number of virtual layers that the routes use to avoid deadlock.
    pub layers: u8,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The connections of a stream, over all end-points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FabricStreamExplanation {
    /// Name of the stream.
    pub name: String,
    /// Number of connections that its `load` requests; 0 for sources without connections.
    pub connections_asked: u64,
    /// Number of connections admitted: every link on their path has enough free rate.
    pub connections_admitted: u64,
    /// The longest time from a packet's injection to its delivery, ns; `None` if it is not known.
    pub worst_delay_ns: Option<u64>,
}

impl FabricExplanation {
    /// Describes the fabric of `scenario`.
    ///
    /// # Errors
    /// Fails if the fabric cannot be simulated.
    ///
    /// # Panics
    /// Panics if the scenario has no fabric.
    pub fn of(scenario: &Scenario) -> Result<Self, PrepareError> {
        let Prepared { simulation, connections } = prepare(scenario)?;
        let topology = simulation.topology();
        let (bounds, no_bound) = match delay_bounds(scenario, &simulation) {
            Ok(bounds) => (bounds.into_iter().map(Some).collect(), None),
            Err(reason) => (vec![None; connections.len()], Some(reason.to_string())),
        };
        let streams = scenario.streams.iter().zip(&connections).zip(bounds);
        Ok(Self {
            scenario: scenario.name.clone(),
            discipline: scenario.scheduler.discipline.name.to_owned(),
            rate_bps: scenario.link.rate_bps,
            end_points: topology.end_points(),
            switches: topology.switches(),
            links: topology.links().len(),
            streams: streams
                .map(|((stream, connections), worst_delay_ns)| FabricStreamExplanation {
                    name: stream.name.clone(),
                    connections_asked: connections.requested,
                    connections_admitted: connections.admitted,
                    worst_delay_ns,
                })
                .collect(),
            no_bound,
            deadlock_links: topology.dependency_cycle().map_or(0, |cycle| cycle.len()),
            layers: topology.layers(),
            notes: scenario.notes.clone(),
        })
    }
}
