//! A fabric, simulated exactly.
//!
//! Whatever happens at one instant happens in this order, wherever it is: transmissions and
//! transfers end and credits come back; packets arrive; crossbars are matched; links decide. So
//! nothing depends on the order in which simultaneous events are found, and the same scheduler as on
//! a single link serves every link.
//!
//! ```text
//! injection ─> scheduler ─link─> input ─crossbar─> scheduler ─link─> … ─link─> destination
//!                  ^               │                   ^
//!                  └── credits ────┘                   └ room of the output's buffer
//! ```
//!
//! A packet whose transmission starts at t on a link of rate r and delay d, into a switch of latency
//! c, may cross that switch from t + d + c on (virtual cut-through) or from t + L/r + d + c on (store
//! and forward). A transfer lasts until all of the packet has come through, L over the crossbar's
//! rate at least; its transmission may start as soon as its transfer does. The room that a packet
//! takes at an input is free, and its credits set out, when its transfer ends; that at an output when
//! its transmission ends. A destination takes what comes.

use millstream::catalogue::DynScheduler;
use millstream::{ContractError, Packet, StreamId};

use super::crossbar::{Switch, Transfer, credits};
use super::packets::Packets;
use super::parameters::{
    Buffering, Egress, Forwarding, LinkParameters, PORTS_MOST, SwitchParameters,
};
use super::timeline::Timeline;
use super::topology::{Node, Topology};
use super::traffic::{EndPointTraffic, Injection};

/// A packet that has reached its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its last byte arrived, ns.
    pub time_ns: u64,
    /// When it was injected, ns.
    pub injected_ns: u64,
    /// Its service class.
    pub class: u8,
    /// Where it was injected.
    pub source: u32,
    /// Where it is.
    pub destination: u32,
    /// Its connection's number at its source.
    pub connection: u32,
    /// Its length, bytes.
    pub bytes: u32,
}

/// Is told what happens in a fabric.
pub trait FabricListener {
    /// An end-point's application has injected a packet.
    fn injected(&mut self, source: u32, injection: &Injection) {
        let _ = (source, injection);
    }

    /// A packet's last transmission has begun; it arrives at `delivery.time_ns`. At one instant in
    /// no particular order.
    fn delivered(&mut self, delivery: &Delivery) {
        let _ = delivery;
    }
}

impl FabricListener for () {}

/// Why a fabric cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A contract lacks what the discipline needs.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A switch is too large.
    #[error("switch {switch} has {ports} ports; a simulated switch has at most {PORTS_MOST}")]
    Ports {
        /// The switch.
        switch: u32,
        /// Its ports.
        ports: u16,
    },
    /// More channels than an arbiter's word holds.
    #[error("{classes} classes on {layers} layers are more than 64 virtual channels")]
    Channels {
        /// Service classes.
        classes: usize,
        /// Layers of the routes.
        layers: u8,
    },
    /// A packet could leave a switch before it came.
    #[error("latency of the switches and delay of the links are both 0; one must be 1 ns at least")]
    NoLatency,
    /// The crossbar could not keep a transmission fed.
    #[error("a crossbar of {crossbar_bps} bits/s is slower than a link of {link_bps} bits/s")]
    SlowCrossbar {
        /// The crossbar's rate, bits/s.
        crossbar_bps: u64,
        /// The link's rate, bits/s.
        link_bps: u64,
    },
    /// A buffer that the largest packet does not fit into would stop its channel for ever.
    #[error("a buffer of {credits} credits holds no packet of {bytes} bytes, which needs {needed}")]
    SmallBuffer {
        /// The buffer's size, credits.
        credits: u32,
        /// The largest packet, bytes.
        bytes: u32,
        /// The credits that it needs.
        needed: u32,
    },
    /// Packets wait for one another in a ring.
    #[error("deadlock at {time_ns} ns: packets wait for one another along {cycle}")]
    Deadlock {
        /// When nothing moved any more, ns.
        time_ns: u64,
        /// The links of the ring, or what is known of it.
        cycle: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The transmission on this link ends.
    Sent(u32),
    /// The transfer to this switch's output ends.
    Transferred(u32, u8),
    /// Credits of a channel reach the link's sender.
    Credits { link: u32, channel: u8, credits: u16 },
    /// A packet that came by this link can leave the switch behind it.
    Ready { link: u32, packet: u32 },
    /// The next packet of this end-point.
    Injection(u32),
    /// A rate cap at this link's sender gives leave.
    Wake(u32),
}

/// The sending end of a link.
struct Transmitter {
    scheduler: Box<dyn DynScheduler + Send>,
    from: Node,
    from_port: u8,
    to: Node,
    to_port: u8,
    /// Whether a packet is being sent, and its channel and credits.
    busy: bool,
    sending: (u8, u16),
    /// Whether it is among those that decide at this instant.
    marked: bool,
    /// When it will be woken, if it will.
    wakes_ns: Option<u64>,
    /// When what is being sent, or known to be sent, has been.
    free_ns: u64,
    busy_ns: u64,
}

/// The largest packet that the tables of transmission times hold, bytes.
const BYTES_MOST: u32 = 65_535;

/// Times by length, ns.
fn durations(rate_bps: u64, overhead_bytes: u32, largest_bytes: u32) -> Box<[u64]> {
    let link = millstream::Link { rate_bps, overhead_bytes };
    (0..=largest_bytes).map(|bytes| link.transmission_ns(bytes)).collect()
}

/// A fabric in motion.
pub struct Simulation {
    topology: Topology,
    link: LinkParameters,
    switch: SwitchParameters,
    layers: u8,
    /// Links without flow control or caps that serve in order of arrival: when a packet is sent is
    /// known as soon as it comes, so nobody need decide.
    first_come: bool,
    timeline: Timeline<Event>,
    packets: Packets,
    transmitters: Vec<Transmitter>,
    /// With crossbars.
    switches: Vec<Switch>,
    /// The link into each switch's port, by `first_port + port`.
    input_links: Vec<u32>,
    output_links: Vec<u32>,
    first_port: Vec<u32>,
    injection_links: Vec<u32>,
    sources: Vec<EndPointTraffic>,
    /// What each source injects next.
    upcoming: Vec<Option<Injection>>,
    link_ns: Box<[u64]>,
    crossbar_ns: Box<[u64]>,
    moment: Moment,
    /// Packets in switches, on their way into one included.
    inside: u64,
    pending_injections: usize,
    hops: u64,
}

/// What is to be looked at, at one instant; kept to reuse its memory.
#[derive(Debug, Default)]
struct Moment {
    events: Vec<Event>,
    injections: Vec<u32>,
    /// By the link that they came by.
    arrivals: Vec<(u32, u32)>,
    switches: Vec<u32>,
    switch_marked: Vec<bool>,
    links: Vec<u32>,
    transfers: Vec<Transfer>,
}

const NO_LINK: u32 = u32::MAX;

impl Simulation {
    /// A fabric at rest. `sources` are the traffic of each end-point; no packet of theirs is larger
    /// than `largest_bytes`.
    ///
    /// # Errors
    /// If it cannot be simulated.
    ///
    /// # Panics
    /// If there is not one source for each end-point, or `largest_bytes` is above 65,535.
    pub fn new(
        topology: Topology,
        link: LinkParameters,
        switch: SwitchParameters,
        egress: &Egress,
        sources: Vec<EndPointTraffic>,
        largest_bytes: u32,
    ) -> Result<Self, FabricError> {
        assert_eq!(sources.len(), topology.end_points() as usize, "one source an end-point");
        assert!(largest_bytes <= BYTES_MOST, "packets of {largest_bytes} bytes");
        let layers = topology.layers();
        let channels = egress.classes.len() * usize::from(layers);
        if channels > 64 {
            return Err(FabricError::Channels { classes: egress.classes.len(), layers });
        }
        if link.delay_ns + switch.latency_ns == 0 {
            return Err(FabricError::NoLatency);
        }
        let mut first_port = Vec::new();
        let mut ports_in_all = 0;
        for number in 0..topology.switches() {
            let ports = topology.ports(number);
            if ports > PORTS_MOST {
                return Err(FabricError::Ports { switch: number, ports });
            }
            first_port.push(ports_in_all);
            ports_in_all += u32::from(ports);
        }
        let mut input_links = vec![NO_LINK; ports_in_all as usize];
        let mut output_links = input_links.clone();
        let crossbar = match switch.buffering {
            Buffering::Output => None,
            Buffering::Combined(crossbar) => Some(crossbar),
        };
        if let Some(crossbar) = &crossbar {
            if crossbar.rate_bps < link.rate_bps {
                let (crossbar_bps, link_bps) = (crossbar.rate_bps, link.rate_bps);
                return Err(FabricError::SlowCrossbar { crossbar_bps, link_bps });
            }
            for buffer in [crossbar.input_credits, crossbar.output_credits] {
                if buffer < credits(largest_bytes) {
                    return Err(FabricError::SmallBuffer {
                        credits: buffer,
                        bytes: largest_bytes,
                        needed: credits(largest_bytes),
                    });
                }
            }
        }
        let mut injection_links = vec![NO_LINK; sources.len()];
        let mut transmitters = Vec::with_capacity(topology.links().len());
        for (number, ends) in (0_u32..).zip(topology.links()) {
            if let Node::Switch(to) = ends.to {
                input_links[(first_port[to as usize] + u32::from(ends.to_port)) as usize] = number;
            }
            match ends.from {
                Node::Switch(from) => {
                    let port = first_port[from as usize] + u32::from(ends.from_port);
                    output_links[port as usize] = number;
                }
                Node::EndPoint(from) => injection_links[from as usize] = number,
            }
            // A destination takes what comes, so the link to it needs no credits.
            let credits = match (ends.to, &crossbar) {
                (Node::Switch(_), Some(crossbar)) => Some(crossbar.input_credits),
                _ => None,
            };
            transmitters.push(Transmitter {
                scheduler: egress.scheduler(&link, layers, credits)?,
                from: ends.from,
                from_port: ends.from_port.to_le_bytes()[0],
                to: ends.to,
                to_port: ends.to_port.to_le_bytes()[0],
                busy: false,
                sending: (0, 0),
                marked: false,
                wakes_ns: None,
                free_ns: 0,
                busy_ns: 0,
            });
        }
        let switches = match &crossbar {
            None => Vec::new(),
            Some(crossbar) => (0..topology.switches())
                .map(|number| Switch::new(topology.ports(number), channels, crossbar))
                .collect(),
        };
        let moment = Moment {
            switch_marked: vec![false; topology.switches() as usize],
            ..Moment::default()
        };
        let crossbar_bps = crossbar.map_or(link.rate_bps, |crossbar| crossbar.rate_bps);
        let mut simulation = Self {
            link,
            switch,
            layers,
            first_come: crossbar.is_none() && egress.is_first_come(),
            timeline: Timeline::new(),
            packets: Packets::default(),
            transmitters,
            switches,
            input_links,
            output_links,
            first_port,
            injection_links,
            upcoming: Vec::with_capacity(sources.len()),
            sources,
            link_ns: durations(link.rate_bps, link.overhead_bytes, largest_bytes),
            crossbar_ns: durations(crossbar_bps, 0, largest_bytes),
            moment,
            inside: 0,
            pending_injections: 0,
            hops: 0,
            topology,
        };
        for end_point in 0..simulation.topology.end_points() {
            let next = simulation.sources[end_point as usize].next();
            simulation.upcoming.push(next);
            if let Some(injection) = next {
                // Events lie after now, which is 0.
                let time_ns = injection.time_ns.max(1);
                simulation.timeline.schedule(time_ns, Event::Injection(end_point));
                simulation.pending_injections += 1;
            }
        }
        Ok(simulation)
    }

    /// Runs until `until_ns`, or until nothing is left to happen. Returns whether something is.
    ///
    /// # Errors
    /// [`Deadlock`](FabricError::Deadlock) if packets are in the fabric and none can ever move.
    pub fn run(
        &mut self,
        until_ns: u64,
        listener: &mut impl FabricListener,
    ) -> Result<bool, FabricError> {
        while let Some(time_ns) = self.timeline.next_ns() {
            if time_ns > until_ns {
                return Ok(true);
            }
            self.instant(time_ns, listener);
            if self.inside > 0 && self.timeline.waiting() == self.pending_injections {
                return Err(self.deadlock());
            }
        }
        Ok(false)
    }

    /// The time that has been reached, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.timeline.now_ns()
    }

    /// Packets that wait at end-points or are on their way.
    #[must_use]
    pub fn packets_under_way(&self) -> usize {
        self.packets.alive()
    }

    /// Transmissions begun on all links.
    #[must_use]
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// How long each link has transmitted (up to the end of what it transmits now), ns, in the
    /// order of [`Topology::links`].
    pub fn busy_ns(&self) -> impl Iterator<Item = u64> {
        self.transmitters.iter().map(|transmitter| transmitter.busy_ns)
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The traffic of each end-point.
    #[must_use]
    pub fn sources(&self) -> &[EndPointTraffic] {
        &self.sources
    }

    fn deadlock(&self) -> FabricError {
        let cycle = self.topology.dependency_cycle().map_or_else(
            || String::from("no ring of links: a scheduler holds back what waits"),
            |cycle| {
                let links = cycle.iter().map(|&(link, layer)| {
                    let link = self.topology.links()[link];
                    format!("{} to {} (layer {layer})", link.from, link.to)
                });
                links.collect::<Vec<_>>().join(", ")
            },
        );
        FabricError::Deadlock { time_ns: self.now_ns(), cycle }
    }

    /// All that happens at `now_ns`.
    #[inline]
    fn instant(&mut self, now_ns: u64, listener: &mut impl FabricListener) {
        let Self { timeline, moment, .. } = self;
        timeline.take(now_ns, |event| moment.events.push(event));
        for index in 0..self.moment.events.len() {
            match self.moment.events[index] {
                Event::Sent(link) => self.sent(link),
                Event::Transferred(switch, output) => self.transferred(now_ns, switch, output),
                Event::Credits { link, channel, credits } => {
                    self.give_credits(now_ns, link, channel, credits);
                }
                Event::Ready { link, packet } => {
                    if self.switches.is_empty() {
                        self.moment.arrivals.push((link, packet));
                    } else {
                        self.ready(link, packet);
                    }
                }
                Event::Injection(end_point) => self.moment.injections.push(end_point),
                Event::Wake(link) => {
                    self.transmitters[link as usize].wakes_ns = None;
                    self.mark_link(link);
                }
            }
        }
        self.moment.events.clear();
        // Where packets of several inputs reach one queue at once, the lower link goes first.
        if self.moment.arrivals.len() > 1 {
            self.moment.arrivals.sort_unstable();
        }
        for index in 0..self.moment.arrivals.len() {
            let (link, packet) = self.moment.arrivals[index];
            self.arrive(now_ns, link, packet, listener);
        }
        self.moment.arrivals.clear();
        while let Some(end_point) = self.moment.injections.pop() {
            self.inject(now_ns, end_point, listener);
        }
        while let Some(switch) = self.moment.switches.pop() {
            self.moment.switch_marked[switch as usize] = false;
            self.arbitrate(now_ns, switch);
        }
        while let Some(link) = self.moment.links.pop() {
            self.transmitters[link as usize].marked = false;
            self.decide(now_ns, link, listener);
        }
    }

    /// The transmission on `link` ends: the link is free, and so is the room at the output.
    #[inline]
    fn sent(&mut self, link: u32) {
        let transmitter = &mut self.transmitters[link as usize];
        transmitter.busy = false;
        if let Node::Switch(switch) = transmitter.from
            && let Some(state) = self.switches.get_mut(switch as usize)
        {
            let (channel, credits) = transmitter.sending;
            let output = usize::from(transmitter.from_port);
            state.free_room(output, usize::from(channel), u32::from(credits));
            self.mark_switch(switch);
        }
        self.mark_link(link);
    }

    /// A transfer ends: its packet has left the input's buffer.
    #[inline]
    fn transferred(&mut self, now_ns: u64, switch: u32, output: u8) {
        let transfer = self.switches[switch as usize].transferred(usize::from(output));
        let port = self.first_port[switch as usize] + u32::from(transfer.input);
        let link = self.input_links[port as usize];
        let credits = u16::try_from(transfer.credits).expect("a packet has at most 65,535 bytes");
        if self.link.delay_ns == 0 {
            self.give_credits(now_ns, link, transfer.from_channel, credits);
        } else {
            let event = Event::Credits { link, channel: transfer.from_channel, credits };
            self.timeline.schedule(now_ns + self.link.delay_ns, event);
        }
        self.mark_switch(switch);
    }

    #[inline]
    fn give_credits(&mut self, now_ns: u64, link: u32, channel: u8, credits: u16) {
        let stream = StreamId(u32::from(channel));
        let transmitter = &mut self.transmitters[link as usize];
        transmitter.scheduler.add_credits(now_ns, stream, u64::from(credits));
        self.mark_link(link);
    }

    /// Where a packet goes that came by `link`: the switch, and its output port and channel there.
    #[inline]
    fn route(&self, link: u32, packet: u32) -> (u32, u16, u8) {
        let Node::Switch(switch) = self.transmitters[link as usize].to else {
            unreachable!("only switches forward")
        };
        let state = self.packets.get(packet);
        let hop = self.topology.hop(switch, state.destination);
        (switch, hop.port, channel(state.class, hop.layer, self.layers))
    }

    /// A packet that came by `link` can cross the switch there.
    #[inline]
    fn ready(&mut self, link: u32, packet: u32) {
        let (switch, port, channel) = self.route(link, packet);
        let input = usize::from(self.transmitters[link as usize].to_port);
        let (output, channel) = (usize::from(port), usize::from(channel));
        self.switches[switch as usize].ready(input, packet, output, channel, &mut self.packets);
        self.mark_switch(switch);
    }

    /// A packet that came by `link` reaches the output's queue behind an ideal crossbar.
    #[inline]
    fn arrive(&mut self, now_ns: u64, link: u32, packet: u32, listener: &mut impl FabricListener) {
        let (switch, port, channel) = self.route(link, packet);
        let port = self.first_port[switch as usize] + u32::from(port);
        self.enqueue(now_ns, self.output_links[port as usize], channel, packet, listener);
    }

    /// A packet comes to the sending end of `link`.
    #[inline]
    fn enqueue(
        &mut self,
        now_ns: u64,
        link: u32,
        channel: u8,
        packet: u32,
        listener: &mut impl FabricListener,
    ) {
        let state = self.packets.get_mut(packet);
        state.channel = channel;
        let bytes = state.bytes;
        if self.first_come {
            let begins_ns = self.transmitters[link as usize].free_ns.max(now_ns);
            return self.send(begins_ns, link, packet, bytes, listener);
        }
        self.offer(now_ns, link, channel, packet, bytes);
    }

    /// A packet is given to the scheduler of `link`.
    #[inline]
    fn offer(&mut self, now_ns: u64, link: u32, channel: u8, packet: u32, bytes: u32) {
        let offered = Packet { bytes, tag: u64::from(packet) };
        let scheduler = &mut self.transmitters[link as usize].scheduler;
        let refused = scheduler.enqueue(now_ns, StreamId(u32::from(channel)), offered).is_err();
        assert!(!refused, "a fabric drops no packet");
        self.mark_link(link);
    }

    /// The packets of `end_point` at this instant.
    #[inline]
    fn inject(&mut self, now_ns: u64, end_point: u32, listener: &mut impl FabricListener) {
        self.pending_injections -= 1;
        let link = self.injection_links[end_point as usize];
        while let Some(injection) = self.upcoming[end_point as usize] {
            if injection.time_ns > now_ns {
                self.timeline.schedule(injection.time_ns, Event::Injection(end_point));
                self.pending_injections += 1;
                return;
            }
            let packet = self.packets.enter(end_point, &injection);
            listener.injected(end_point, &injection);
            let channel = channel(injection.class, 0, self.layers);
            self.enqueue(now_ns, link, channel, packet, listener);
            self.upcoming[end_point as usize] = self.sources[end_point as usize].next();
        }
    }

    /// Matches the crossbar of `switch`; transfers begin.
    #[inline]
    fn arbitrate(&mut self, now_ns: u64, switch: u32) {
        let Self { topology, switches, packets, moment, .. } = self;
        let route = |packet: u32, packets: &Packets| {
            let state = packets.get(packet);
            let hop = topology.hop(switch, state.destination);
            (usize::from(hop.port), usize::from(channel(state.class, hop.layer, self.layers)))
        };
        let transfers = &mut moment.transfers;
        switches[switch as usize].arbitrate(packets, route, |transfer| transfers.push(transfer));
        let first_port = self.first_port[switch as usize];
        while let Some(transfer) = self.moment.transfers.pop() {
            let state = self.packets.get(transfer.packet);
            let bytes = state.bytes;
            let end_ns = (now_ns + self.crossbar_ns[bytes as usize]).max(state.tail_ns);
            self.timeline.schedule(end_ns, Event::Transferred(switch, transfer.output));
            let link = self.output_links[(first_port + u32::from(transfer.output)) as usize];
            self.offer(now_ns, link, transfer.channel, transfer.packet, bytes);
        }
    }

    /// The link decides, if it is free, and the packet sets out.
    #[inline]
    fn decide(&mut self, now_ns: u64, link: u32, listener: &mut impl FabricListener) {
        let transmitter = &mut self.transmitters[link as usize];
        if transmitter.busy {
            return;
        }
        let Some(departure) = transmitter.scheduler.decide(now_ns, &mut ()) else {
            if let Some(from_ns) = transmitter.scheduler.next_eligible_ns()
                && transmitter.wakes_ns.is_none_or(|wakes_ns| from_ns < wakes_ns)
            {
                transmitter.wakes_ns = Some(from_ns);
                self.timeline.schedule(from_ns.max(now_ns + 1), Event::Wake(link));
            }
            return;
        };
        transmitter.busy = true;
        let channel = departure.stream.0.to_le_bytes()[0];
        transmitter.sending =
            (channel, u16::try_from(credits(departure.bytes)).expect("at most 1,024 credits"));
        let packet = u32::try_from(departure.tag).expect("tags are places of packets");
        let sent_ns = now_ns + self.link_ns[departure.bytes as usize];
        self.timeline.schedule(sent_ns, Event::Sent(link));
        self.send(now_ns, link, packet, departure.bytes, listener);
    }

    /// A packet's transmission on `link` begins at `begins_ns`.
    #[inline]
    fn send(
        &mut self,
        begins_ns: u64,
        link: u32,
        packet: u32,
        bytes: u32,
        listener: &mut impl FabricListener,
    ) {
        let transmitter = &mut self.transmitters[link as usize];
        let sent_ns = begins_ns + self.link_ns[bytes as usize];
        transmitter.free_ns = sent_ns;
        transmitter.busy_ns += sent_ns - begins_ns;
        self.hops += 1;
        let injected = matches!(transmitter.from, Node::EndPoint(_));
        match transmitter.to {
            Node::Switch(_) => {
                self.inside += u64::from(injected);
                let through_ns = self.link.delay_ns + self.switch.latency_ns;
                let tail_ns = sent_ns + through_ns;
                self.packets.get_mut(packet).tail_ns = tail_ns;
                let ready_ns = match self.switch.forwarding {
                    Forwarding::CutThrough => begins_ns + through_ns,
                    Forwarding::StoreAndForward => tail_ns,
                };
                self.timeline.schedule(ready_ns, Event::Ready { link, packet });
            }
            Node::EndPoint(destination) => {
                self.inside -= u64::from(!injected);
                let state = self.packets.get(packet);
                listener.delivered(&Delivery {
                    time_ns: sent_ns + self.link.delay_ns,
                    injected_ns: state.injected_ns,
                    class: state.class,
                    source: state.source,
                    destination,
                    connection: state.connection,
                    bytes,
                });
                self.packets.leave(packet);
            }
        }
    }

    #[inline]
    fn mark_switch(&mut self, switch: u32) {
        let Moment { switches, switch_marked, .. } = &mut self.moment;
        if !switch_marked[switch as usize] {
            switch_marked[switch as usize] = true;
            switches.push(switch);
        }
    }

    /// A link has something to decide on, unless it is transmitting.
    #[inline]
    fn mark_link(&mut self, link: u32) {
        let transmitter = &mut self.transmitters[link as usize];
        if !transmitter.busy && !transmitter.marked {
            transmitter.marked = true;
            self.moment.links.push(link);
        }
    }
}

/// The virtual channel of a class on a layer.
#[inline]
fn channel(class: u8, layer: u8, layers: u8) -> u8 {
    class * layers + layer
}
