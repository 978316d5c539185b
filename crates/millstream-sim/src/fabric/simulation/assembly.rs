//! Construction of a fabric: a scheduler for each link, a crossbar for each switch.

use std::sync::Arc;

use super::Simulation;
use super::credit_accounts::CreditAccounts;
use super::division::divide;
use super::partition::{
    Event, Fabric, Far, Input, InstantWork, NO_SWITCH, Partition, Source, Transmitter, Wiring,
};
use crate::fabric::crossbar::{Switch, credits};
use crate::fabric::error::FabricError;
use crate::fabric::event_queue::EventQueue;
use crate::fabric::packets::Packets;
use crate::fabric::parameters::{Buffering, Egress, LinkParameters, MAX_PORTS, SwitchParameters};
use crate::fabric::topology::{Node, Topology};
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
        let mut transmitters = Vec::with_capacity(topology.links().len());
        for (number, ends) in (0..).zip(topology.links()) {
            // A destination accepts every packet, so the link to it needs no credits.
            let credits = match (ends.to, &crossbar) {
                (Node::Switch(_), Some(crossbar)) => Some(crossbar.input_credits),
                _ => None,
            };
            transmitters.push(Transmitter {
                scheduler: egress.scheduler(&link, layers, credits)?,
                number,
                switch: NO_SWITCH,
                // A simulated switch has at most 64 ports.
                port: ends.from_port.to_le_bytes()[0],
                far: Far::EndPoint(0),
                busy: false,
                sending: (0, 0),
                marked: false,
                wake_ns: u64::MAX,
                free_ns: 0,
                busy_ns: 0,
            });
        }
        let switches = crossbar.iter().flat_map(|crossbar| {
            (0..topology.switches()).map(|number| {
                let ports = topology.ports(number);
                (number, Switch::new(ports, channels, crossbar, credits(largest_bytes)))
            })
        });
        let parts = Parts {
            transmitters,
            switches: switches.collect(),
            sources: sources
                .into_iter()
                .zip(0..)
                .map(|(mut traffic, end_point)| {
                    let next = traffic.next();
                    Source { end_point, link: 0, traffic, next, injected: 0 }
                })
                .collect(),
        };
        let smallest_bytes = parts.sources.iter().map(|source| source.traffic.smallest_bytes());
        let smallest_bytes = smallest_bytes.min().unwrap_or(0).min(largest_bytes);
        let crossbar_bps = crossbar.map_or(link.wire.rate_bps, |crossbar| crossbar.rate_bps);
        let fabric = Arc::new(Fabric {
            link,
            switch,
            layers,
            first_come: crossbar.is_none() && egress.is_first_come(),
            link_ns: durations(link.wire, largest_bytes),
            crossbar_ns: durations(millstream::Link::new(crossbar_bps, 0), largest_bytes),
            smallest_bytes,
            channels,
            topology,
        });
        let mut simulation = Self {
            lookahead_ns: fabric.lookahead_ns(),
            fabric,
            partitions: Vec::new(),
            link_places: Vec::new(),
            source_places: Vec::new(),
            workers: 1,
        };
        simulation.assemble(parts, 1);
        Ok(simulation)
    }

    /// Divides a fabric that has not started into up to `count` partitions.
    pub(super) fn divide(&mut self, count: usize) {
        if count == self.partitions.len() {
            return;
        }
        let mut parts = Parts::default();
        for partition in self.partitions.drain(..) {
            let numbers = partition.wiring.numbers;
            parts.transmitters.extend(partition.transmitters);
            parts.switches.extend(numbers.into_iter().zip(partition.switches));
            parts.sources.extend(partition.sources);
        }
        parts.transmitters.sort_unstable_by_key(|transmitter| transmitter.number);
        parts.switches.sort_unstable_by_key(|(number, _)| *number);
        parts.sources.sort_unstable_by_key(|source| source.end_point);
        self.assemble(parts, count);
    }

    /// Joins the parts of a fabric in up to `count` partitions.
    fn assemble(&mut self, parts: Parts, count: usize) {
        let fabric = &self.fabric;
        let topology = &fabric.topology;
        let division = divide(topology, count);
        let mut partitions: Vec<Partition> = (0..division.count)
            .map(|number| Partition::new(number, division.count, Arc::clone(fabric)))
            .collect();
        // Indices of switches in their partitions.
        let mut switch_index = Vec::new();
        for number in 0..topology.switches() {
            let partition = &mut partitions[usize::from(division.switches[number as usize])];
            switch_index.push(index(partition.wiring.numbers.len()));
            partition.wiring.add(number, topology.ports(number));
            partition.work.switch_marked.push(false);
        }
        for (number, switch) in parts.switches {
            partitions[usize::from(division.switches[number as usize])].switches.push(switch);
        }
        self.source_places.clear();
        for source in parts.sources {
            let of = division.end_points[source.end_point as usize];
            let sources = &mut partitions[usize::from(of)].sources;
            self.source_places.push((of, index(sources.len())));
            sources.push(source);
        }
        self.link_places.clear();
        for (ends, mut transmitter) in topology.links().iter().zip(parts.transmitters) {
            let number = transmitter.number;
            let sender = division.of(ends.from);
            let link = index(partitions[usize::from(sender)].transmitters.len());
            self.link_places.push((sender, link));
            transmitter.far = match ends.to {
                Node::EndPoint(end_point) => Far::EndPoint(end_point),
                Node::Switch(to) => {
                    let (switch, partition) = (switch_index[to as usize], division.of(ends.to));
                    let receiver = &mut partitions[usize::from(partition)];
                    let input = index(receiver.inputs.len());
                    let port = ends.to_port.to_le_bytes()[0];
                    receiver.inputs.push(Input { number, switch, port, partition: sender, link });
                    *receiver.wiring.input_mut(switch, ends.to_port) = input;
                    Far::Input { partition, input }
                }
            };
            let partition = &mut partitions[usize::from(sender)];
            match ends.from {
                Node::EndPoint(end_point) => {
                    let (_, source) = self.source_places[end_point as usize];
                    partition.sources[source as usize].link = link;
                }
                Node::Switch(from) => {
                    let switch = switch_index[from as usize];
                    transmitter.switch = switch;
                    *partition.wiring.output_mut(switch, ends.from_port) = link;
                }
            }
            partition.transmitters.push(transmitter);
        }
        for partition in &mut partitions {
            partition.start();
        }
        self.partitions = partitions;
    }
}

/// The state of a fabric that has not started, in order of links, switches and end-points.
#[derive(Default)]
struct Parts {
    transmitters: Vec<Transmitter>,
    /// The crossbars with the numbers of their switches; empty without crossbars.
    switches: Vec<(u32, Switch)>,
    sources: Vec<Source>,
}

fn index(index: usize) -> u32 {
    u32::try_from(index).expect("a network has fewer than 2^32 links")
}

impl Wiring {
    /// Adds a switch without cables.
    fn add(&mut self, number: u32, ports: u16) {
        self.numbers.push(number);
        self.first_port.push(index(self.inputs.len()));
        let ports = self.inputs.len() + usize::from(ports);
        self.inputs.resize(ports, NO_LINK);
        self.outputs.resize(ports, NO_LINK);
    }

    fn input_mut(&mut self, switch: u32, port: u16) -> &mut u32 {
        &mut self.inputs[self.first_port[switch as usize] as usize + usize::from(port)]
    }

    fn output_mut(&mut self, switch: u32, port: u16) -> &mut u32 {
        &mut self.outputs[self.first_port[switch as usize] as usize + usize::from(port)]
    }
}

impl Partition {
    /// Creates a partition without switches and end-points, one of `count`.
    fn new(number: u16, count: u16, fabric: Arc<Fabric>) -> Self {
        Self {
            fabric,
            number,
            event_queue: EventQueue::new(),
            packets: Packets::default(),
            transmitters: Vec::new(),
            inputs: Vec::new(),
            switches: Vec::new(),
            wiring: Wiring::default(),
            sources: Vec::new(),
            work: InstantWork::default(),
            credit_accounts: CreditAccounts::new(0, 0, None),
            packets_in_switches: 0,
            pending_injections: 0,
            hops: 0,
            multicast: None,
            outgoing: vec![Vec::new(); usize::from(count)],
        }
    }

    /// Opens the credit accounts and schedules the first injection of each source.
    fn start(&mut self) {
        let fabric = &self.fabric;
        let capacity = match fabric.switch.buffering {
            Buffering::Output => None,
            Buffering::Combined(crossbar) => Some(crossbar.input_credits),
        };
        self.credit_accounts =
            CreditAccounts::new(self.transmitters.len(), fabric.channels, capacity);
        for (index, source) in (0..).zip(&self.sources) {
            if let Some(injection) = source.next {
                // The event queue accepts only times after now, which is 0.
                self.event_queue.schedule(injection.time_ns.max(1), Event::Injection(index));
                self.pending_injections += 1;
            }
        }
    }
}
