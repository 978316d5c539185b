//! Builds the simulation of a scenario's fabric.

use millstream_scenario::{
    CableEnd, Fabric, FabricTopology, Pace, Scenario, Source, Stream, VideoInput,
};
use millstream_traffic::PacketBytes;

use super::error::FabricError;
use super::parameters::{
    Arbiter, Buffering, Crossbar, Egress, Forwarding, LinkParameters, Queueing, SwitchParameters,
};
use super::simulation::Simulation;
use super::topology::{
    Cable, Node, Topology, TopologyError, custom, dragonfly, fat_tree, folded_shuffle, mesh,
    shuffle, torus,
};
use super::traffic::{self, ClassCount, ClassTraffic, Kind};

/// A fabric that is ready to run.
pub struct Prepared {
    /// The simulation in its initial state.
    pub simulation: Simulation,
    /// Number of connections of each stream, over all end-points.
    pub connections: Vec<ClassCount>,
}

/// The reason a scenario's fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The topology is invalid.
    #[error("fabric.topology: {0}")]
    Topology(#[from] TopologyError),
    /// The fabric's parameters or contracts are invalid.
    #[error("fabric: {0}")]
    Fabric(#[from] FabricError),
    /// The scenario has more than 64 streams.
    #[error("a fabric has at most 64 streams, not {0}")]
    Streams(usize),
    /// A stream of this name is from or to an end-point that does not exist, of this many.
    #[error("stream `{0}`: end-point {1} of {2}; they are numbered from 0")]
    EndPoint(String, u32, u32),
}

/// Builds the topology of `fabric`.
///
/// # Errors
/// Fails if the parameters are out of range or inconsistent.
pub fn topology(fabric: &Fabric) -> Result<Topology, TopologyError> {
    match &fabric.topology {
        FabricTopology::FoldedShuffle { arity, levels } => folded_shuffle(*arity, *levels),
        FabricTopology::Shuffle { radix, stages } => shuffle(*radix, *stages),
        FabricTopology::FatTree { ports } => fat_tree(*ports),
        FabricTopology::Grid { sizes, concentration, wrapped: false } => {
            mesh(sizes, *concentration)
        }
        FabricTopology::Grid { sizes, concentration, wrapped: true } => {
            torus(sizes, *concentration)
        }
        FabricTopology::Dragonfly { end_points, switches, globals } => {
            dragonfly(*end_points, *switches, *globals)
        }
        FabricTopology::Custom { end_points, switches, cables } => {
            let end = |end: CableEnd| match end {
                CableEnd::EndPoint(number) => (Node::EndPoint(number), 0),
                CableEnd::Switch(number, port) => (Node::Switch(number), port),
            };
            let joined = |(one, other): &(CableEnd, CableEnd)| -> Cable {
                let ((one, one_port), (other, other_port)) = (end(*one), end(*other));
                (one, one_port, other, other_port)
            };
            let cables: Vec<Cable> = cables.iter().map(joined).collect();
            custom(*end_points, switches, &cables)
        }
    }
}

/// Returns the traffic of a stream from each end-point that sends it.
///
/// A load of 0 selects the source's own rate.
///
/// # Panics
/// Panics if the source reads a file; validation rejects such sources in a fabric.
#[allow(clippy::cast_precision_loss)]
fn class(stream: &Stream, link_bps: u64, largest_bytes: u32) -> ClassTraffic {
    let (source, load) = (&stream.source, stream.load);
    let kind = match source {
        Source::Cbr { bytes, pace, start_ns, .. } => {
            let interval_ns = match pace {
                Pace::IntervalNs(interval_ns) => *interval_ns,
                Pace::RateBps(rate_bps) => (u64::from(*bytes) * 8_000_000_000).div_ceil(*rate_bps),
            };
            // A run injects nothing before 1 ns.
            let (bytes, start_ns) = (*bytes, (*start_ns).max(1));
            match stream.virtual_link {
                None => Kind::Connections { bytes, interval_ns },
                Some((from, to)) => Kind::VirtualLink { bytes, interval_ns, start_ns, from, to },
            }
        }
        Source::Mpeg {
            input: VideoInput::Model { rate_bps, frame_rate }, packet_bytes, ..
        } => Kind::Video {
            mean_rate_bps: *rate_bps,
            frame_ns: 1_000_000_000 / u64::from(*frame_rate).max(1),
            packet_bytes: packet_bytes.unwrap_or(largest_bytes),
        },
        Source::Pareto { bytes, largest, peak_rate_bps, sources, .. } => Kind::SelfSimilar {
            packet_bytes: PacketBytes::up_to(*bytes, *largest),
            sources: *sources,
            peak_share: *peak_rate_bps as f64 / link_bps as f64,
        },
        Source::Poisson { bytes, .. } => Kind::Poisson { bytes: *bytes },
        other => unreachable!("validation rejects this source in a fabric: {other:?}"),
    };
    let rate_bps = match source {
        Source::Pareto { rate_bps, .. } | Source::Poisson { rate_bps, .. } => *rate_bps as f64,
        _ => kind.connection_rate_bps().unwrap_or(0.0),
    };
    ClassTraffic { load: if load > 0.0 { load } else { rate_bps / link_bps as f64 }, kind }
}

/// Builds the fabric of `scenario`.
///
/// A connection is admitted if every link on its path has enough rate that no connection of any
/// stream has reserved.
///
/// # Errors
/// Fails if the fabric cannot be simulated.
///
/// # Panics
/// Panics if the scenario has no fabric.
pub fn prepare(scenario: &Scenario) -> Result<Prepared, PrepareError> {
    let fabric = scenario.fabric.as_ref().expect("the scenario has a fabric");
    let topology = topology(fabric)?;
    if scenario.streams.len() > 64 {
        return Err(PrepareError::Streams(scenario.streams.len()));
    }
    for stream in &scenario.streams {
        if let Some((from, to)) = stream.virtual_link
            && from.max(to) >= topology.end_points()
        {
            let (name, end_points) = (stream.name.clone(), topology.end_points());
            return Err(PrepareError::EndPoint(name, from.max(to), end_points));
        }
    }
    let rate_bps = scenario.link.rate_bps;
    let classes: Vec<ClassTraffic> = scenario
        .streams
        .iter()
        .map(|stream| class(stream, rate_bps, fabric.largest_bytes))
        .collect();
    let stop_ns = scenario.duration_ns.unwrap_or(u64::MAX);
    let (sources, admitted) =
        traffic::end_point_traffic(&topology, rate_bps, 1.0, &classes, scenario.seed, stop_ns);
    let link = LinkParameters { wire: scenario.link.wire(), delay_ns: fabric.delay_ns };
    let buffering = match &fabric.crossbar {
        None => Buffering::Output,
        Some(of) => Buffering::Combined(Crossbar {
            rate_bps: of.rate_bps,
            input_credits: of.input_credits,
            output_credits: of.output_credits,
            queueing: if of.fifo { Queueing::Fifo } else { Queueing::VirtualOutput },
            arbiter: if of.islip { Arbiter::Islip } else { Arbiter::RoundRobin },
        }),
    };
    let forwarding =
        if fabric.cut_through { Forwarding::CutThrough } else { Forwarding::StoreAndForward };
    let switch = SwitchParameters { latency_ns: fabric.latency_ns, forwarding, buffering };
    let egress = Egress {
        discipline: scenario.scheduler.discipline,
        options: scenario.scheduler.options.clone(),
        structure: Some(scenario.scheduler.structure),
        classes: scenario.streams.iter().map(|stream| stream.contract.clone()).collect(),
    };
    let simulation =
        Simulation::new(topology, link, switch, &egress, sources, fabric.largest_bytes)?;
    Ok(Prepared { simulation, connections: admitted.counts().to_vec() })
}
