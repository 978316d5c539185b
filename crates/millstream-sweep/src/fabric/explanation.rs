//! What a fabric is before it runs: its size, its connections, whether its routes can deadlock.

use millstream_scenario::Scenario;
use millstream_sim::fabric::{PrepareError, Prepared, prepare};
use serde::Serialize;

/// What `millstream check` says of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FabricExplanation {
    /// The scenario's name.
    pub scenario: String,
    /// What orders the streams at each link.
    pub discipline: String,
    /// Speed of each link, bits/s.
    pub rate_bps: u64,
    /// End-points.
    pub end_points: u32,
    /// Switches.
    pub switches: u32,
    /// One-way links.
    pub links: usize,
    /// The streams, in the order of the file.
    pub streams: Vec<FabricStreamExplanation>,
    /// Links that wait for one another in a circle: the fabric may deadlock. 0: it cannot.
    pub deadlock_links: usize,
    /// Virtual layers that routes are spread over so that they cannot deadlock.
    pub layers: u8,
    /// What the user should know beside.
    pub notes: Vec<String>,
}

/// The connections of a stream, over all end-points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FabricStreamExplanation {
    /// Its name.
    pub name: String,
    /// How many its `load` asks for; 0 for sources that are no connections.
    pub connections_asked: u64,
    /// How many of them found room on every link of their way.
    pub connections_admitted: u64,
}

impl FabricExplanation {
    /// Of the fabric of `scenario`.
    ///
    /// # Errors
    /// If it cannot be simulated.
    ///
    /// # Panics
    /// If the scenario has none.
    pub fn of(scenario: &Scenario) -> Result<Self, PrepareError> {
        let Prepared { simulation, connections } = prepare(scenario)?;
        let topology = simulation.topology();
        let streams = scenario.streams.iter().zip(&connections);
        Ok(Self {
            scenario: scenario.name.clone(),
            discipline: scenario.scheduler.discipline.name.to_owned(),
            rate_bps: scenario.link.rate_bps,
            end_points: topology.end_points(),
            switches: topology.switches(),
            links: topology.links().len(),
            streams: streams
                .map(|(stream, connections)| FabricStreamExplanation {
                    name: stream.name.clone(),
                    connections_asked: connections.asked,
                    connections_admitted: connections.admitted,
                })
                .collect(),
            deadlock_links: topology.dependency_cycle().map_or(0, |cycle| cycle.len()),
            layers: topology.layers(),
            notes: scenario.notes.clone(),
        })
    }
}
