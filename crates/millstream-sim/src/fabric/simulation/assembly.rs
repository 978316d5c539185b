//! Construction of a fabric: a scheduler for each link, a crossbar for each switch.

use millstream::catalogue::DynScheduler;

use super::credit_accounts::CreditAccounts;
use super::{Event, InstantWork, Simulation, Transmitter, Wiring};
use crate::fabric::crossbar::{Switch, credits};
use crate::fabric::error::FabricError;
use crate::fabric::event_queue::EventQueue;
use crate::fabric::packets::Packets;
use crate::fabric::parameters::{Buffering, Egress, LinkParameters, MAX_PORTS, SwitchParameters};
use crate::fabric::topology::{Link, Node, Topology};
use crate::fabric::traffic::EndPointTraffic;

/// A port without a cable.
const NO_LINK: u32 = u32::MAX;
/// The maximum number of virtual channels: an arbiter keeps them in one 64-bit word.
const MAX_CHANNELS: usize = 64;

/// The largest packet that the tables of transmission times cover, bytes.
const MAX_BYTES: u32 = 65_535;

/// Returns a table of transmission times by packet length, ns.
fn durations(link: millstream::Link, largest_bytes: u32) -> Box<[u64]> {
    (0..=largest_bytes).map(|bytes| link.transmission_ns(bytes)).collect()
}

/// Checks that a fabric with these parameters can be simulated.
fn check(
    topology: &Topology,
    link: &LinkParameters,
    switch: &SwitchParameters,
    egress: &Egress,
    largest_bytes: u32,
) -> Result<(), FabricError> {
    let (classes, layers) = (egress.classes.len(), topology.layers());
    if classes * usize::from(layers) > MAX_CHANNELS {
        return Err(FabricError::Channels { classes, layers });
    }
    if link.delay_ns + switch.latency_ns == 0 {
        return Err(FabricError::NoLatency);
    }
    for switch in 0..topology.switches() {
        let ports = topology.ports(switch);
        if ports > MAX_PORTS {
            return Err(FabricError::Ports { switch, ports });
        }
    }
    let Buffering::Combined(crossbar) = &switch.buffering else { return Ok(()) };
    if crossbar.rate_bps < link.wire.rate_bps {
        let (crossbar_bps, link_bps) = (crossbar.rate_bps, link.wire.rate_bps);
        return Err(FabricError::SlowCrossbar { crossbar_bps, link_bps });
    }
    let needed = credits(largest_bytes);
    match [crossbar.input_credits, crossbar.output_credits].into_iter().min() {
        Some(credits) if credits < needed => {
            Err(FabricError::SmallBuffer { credits, bytes: largest_bytes, needed })
        }
        _ => Ok(()),
    }
}

impl Wiring {
    fn new(topology: &Topology) -> Self {
        let mut first_port = Vec::new();
        let mut ports = 0;
        for switch in 0..topology.switches() {
            first_port.push(ports);
            ports += u32::from(topology.ports(switch));
        }
        let mut wiring = Self {
            inputs: vec![NO_LINK; ports as usize],
            outputs: vec![NO_LINK; ports as usize],
            injections: vec![NO_LINK; topology.end_points() as usize],
            first_port,
        };
        for (number, ends) in (0_u32..).zip(topology.links()) {
            if let Node::Switch(to) = ends.to {
                let port = wiring.first_port[to as usize] + u32::from(ends.to_port);
                wiring.inputs[port as usize] = number;
            }
            match ends.from {
                Node::Switch(from) => {
                    let port = wiring.first_port[from as usize] + u32::from(ends.from_port);
                    wiring.outputs[port as usize] = number;
                }
                Node::EndPoint(from) => wiring.injections[from as usize] = number,
            }
        }
        wiring
    }
}

impl Transmitter {
    fn new(scheduler: Box<dyn DynScheduler + Send>, ends: &Link) -> Self {
        // A simulated switch has at most 64 ports.
        let port = |port: u16| port.to_le_bytes()[0];
        Self {
            scheduler,
            from: ends.from,
            from_port: port(ends.from_port),
            to: ends.to,
            to_port: port(ends.to_port),
            busy: false,
            sending: (0, 0),
            marked: false,
            wake_ns: None,
            free_ns: 0,
            busy_ns: 0,
        }
    }
}

impl Simulation {
    /// Creates a fabric at time 0.
    ///
    /// `sources` holds the traffic of each end-point. None of its packets may be larger than
    /// `largest_bytes`.
    ///
    /// # Errors
    /// Fails if the fabric cannot be simulated.
    ///
    /// # Panics
    /// Panics unless there is one source per end-point and `largest_bytes` is at most 65,535.
    pub fn new(
        topology: Topology,
        link: LinkParameters,
        switch: SwitchParameters,
        egress: &Egress,
        sources: Vec<EndPointTraffic>,
        largest_bytes: u32,
    ) -> Result<Self, FabricError> {
        assert_eq!(sources.len(), topology.end_points() as usize, "one source per end-point");
        assert!(largest_bytes <= MAX_BYTES, "{largest_bytes} bytes exceed {MAX_BYTES}");
        let layers = topology.layers();
        let channels = egress.classes.len() * usize::from(layers);
        let crossbar = match switch.buffering {
            Buffering::Output => None,
            Buffering::Combined(crossbar) => Some(crossbar),
        };
        check(&topology, &link, &switch, egress, largest_bytes)?;
        let wiring = Wiring::new(&topology);
        let mut transmitters = Vec::with_capacity(topology.links().len());
        for ends in topology.links() {
            // A destination accepts every packet, so the link to it needs no credits.
            let credits = match (ends.to, &crossbar) {
                (Node::Switch(_), Some(crossbar)) => Some(crossbar.input_credits),
                _ => None,
            };
            let scheduler = egress.scheduler(&link, layers, credits)?;
            transmitters.push(Transmitter::new(scheduler, ends));
        }
        let switches = match &crossbar {
            None => Vec::new(),
            Some(crossbar) => (0..topology.switches())
                .map(|number| {
                    let ports = topology.ports(number);
                    Switch::new(ports, channels, crossbar, credits(largest_bytes))
                })
                .collect(),
        };
        let work = InstantWork {
            switch_marked: vec![false; topology.switches() as usize],
            ..InstantWork::default()
        };
        let capacity = crossbar.map(|crossbar| crossbar.input_credits);
        let credit_accounts = CreditAccounts::new(topology.links().len(), channels, capacity);
        let crossbar_bps = crossbar.map_or(link.wire.rate_bps, |crossbar| crossbar.rate_bps);
        let mut simulation = Self {
            link,
            switch,
            layers,
            first_come: crossbar.is_none() && egress.is_first_come(),
            event_queue: EventQueue::new(),
            packets: Packets::default(),
            transmitters,
            switches,
            wiring,
            upcoming: Vec::with_capacity(sources.len()),
            sources,
            link_ns: durations(link.wire, largest_bytes),
            crossbar_ns: durations(millstream::Link::new(crossbar_bps, 0), largest_bytes),
            work,
            credit_accounts,
            packets_in_switches: 0,
            pending_injections: 0,
            hops: 0,
            multicast: None,
            topology,
        };
        for end_point in 0..simulation.topology.end_points() {
            let next = simulation.sources[end_point as usize].next();
            simulation.upcoming.push(next);
            if let Some(injection) = next {
                // The event queue accepts only times after now, which is 0.
                let time_ns = injection.time_ns.max(1);
                simulation.event_queue.schedule(time_ns, Event::Injection(end_point));
                simulation.pending_injections += 1;
            }
        }
        Ok(simulation)
    }
}
