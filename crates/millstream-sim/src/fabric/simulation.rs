//! An exact simulation of a fabric.
//!
//! Across the whole fabric, the events of one instant are processed in this order: transmissions
//! and transfers end and credits return; packets arrive; crossbars arbitrate; links decide. Hence
//! the result does not depend on the order in which simultaneous events are found. Every link has
//! the scheduler that also serves a single link.
//!
//! ```text
//! injection ─> scheduler ─link─> input ─crossbar─> scheduler ─link─> … ─link─> destination
//!                  ^               │                   ^
//!                  └── credits ────┘                   └ room of the output's buffer
//! ```
//!
//! Consider a packet with transmission start t on a link of rate r and delay d, into a switch of
//! latency c. With virtual cut-through it may cross that switch from t + d + c on, with store and
//! forward from t + L/r + d + c on. A transfer lasts until the whole packet has passed, at
//! least L over the crossbar's rate. Transmission may start together with the transfer. The end of
//! the transfer frees the packet's room at the input and sends its credits back. The end of the
//! transmission frees its room at the output. A destination accepts every packet.

use millstream::catalogue::DynScheduler;
use millstream::{Packet, StreamId};

mod assembly;
mod credit_accounts;
mod multicast;

use super::crossbar::{Switch, Transfer, credits};
use super::error::FabricError;
use super::event_queue::EventQueue;
use super::listener::{Delivery, FabricListener, PacketStep, Step};
use super::packets::Packets;
use super::parameters::{Forwarding, LinkParameters, SwitchParameters};
use super::topology::{Node, Topology};
use super::traffic::{EndPointTraffic, Injection};
use credit_accounts::CreditAccounts;
use multicast::Multicast;

pub use multicast::Replication;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The transmission on this link ends.
    Sent(u32),
    /// The transfer to this output of the switch ends.
    Transferred(u32, u8),
    /// Credits of a channel reach the link's sender.
    Credits { link: u32, channel: u8, credits: u16 },
    /// A packet that arrived on this link may leave the switch behind it.
    Ready { link: u32, packet: u32 },
    /// This end-point injects its next packet.
    Injection(u32),
    /// A rate cap at this link's sender makes a packet eligible.
    Wake(u32),
}

/// The sending end of a link.
struct Transmitter {
    scheduler: Box<dyn DynScheduler + Send>,
    from: Node,
    from_port: u8,
    to: Node,
    to_port: u8,
    /// Whether a transmission is in progress.
    busy: bool,
    /// Channel and credits of the packet in transmission.
    sending: (u8, u16),
    /// Whether the link is on the list of links that decide at this instant.
    marked: bool,
    /// Time of the scheduled [`Event::Wake`], ns, if any.
    wake_ns: Option<u64>,
    /// End of the last transmission that is in progress or known in advance, ns.
    free_ns: u64,
    /// Total transmission time, ns.
    busy_ns: u64,
}

/// Links by their place in the fabric, as indices in [`Topology::links`].
struct Wiring {
    /// Index of each switch's first port in `inputs` and `outputs`.
    first_port: Vec<u32>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// The link out of each end-point.
    injections: Vec<u32>,
}

impl Wiring {
    /// Returns the link into a switch's port.
    #[inline]
    fn input(&self, switch: u32, port: u8) -> u32 {
        self.inputs[(self.first_port[switch as usize] + u32::from(port)) as usize]
    }

    /// Returns the link out of a switch's port.
    #[inline]
    fn output(&self, switch: u32, port: u16) -> u32 {
        self.outputs[(self.first_port[switch as usize] + u32::from(port)) as usize]
    }
}

/// A running simulation of a fabric.
pub struct Simulation {
    topology: Topology,
    link: LinkParameters,
    switch: SwitchParameters,
    layers: u8,
    /// Whether links have no flow control and no caps, and serve in order of arrival. A packet's
    /// transmission time is then known on arrival, so no decisions are needed.
    first_come: bool,
    event_queue: EventQueue<Event>,
    packets: Packets,
    transmitters: Vec<Transmitter>,
    /// The switches' crossbars; empty without crossbars.
    switches: Vec<Switch>,
    wiring: Wiring,
    sources: Vec<EndPointTraffic>,
    /// The next injection of each source.
    upcoming: Vec<Option<Injection>>,
    /// Transmission time on a link, by packet length, ns.
    link_ns: Box<[u64]>,
    /// Transfer time through a crossbar, by packet length, ns.
    crossbar_ns: Box<[u64]>,
    work: InstantWork,
    credit_accounts: CreditAccounts,
    /// Packets in switches or on a link into one.
    packets_in_switches: u64,
    /// End-points with a scheduled [`Event::Injection`].
    pending_injections: usize,
    hops: u64,
    /// The multicast classes, if there are any.
    multicast: Option<Box<Multicast>>,
}

/// Work of the current instant; kept between instants to reuse its memory.
#[derive(Debug, Default)]
struct InstantWork {
    events: Vec<Event>,
    injections: Vec<u32>,
    /// Pairs of link and packet that arrives on it.
    arrivals: Vec<(u32, u32)>,
    switches: Vec<u32>,
    switch_marked: Vec<bool>,
    links: Vec<u32>,
    transfers: Vec<Transfer>,
}

impl Simulation {
    /// Makes `classes` multicast: a packet injected to end-point d reaches all of `groups[d]`.
    ///
    /// The source is left out of its group; a packet without another member disappears. Each class
    /// keeps its own virtual channel, contract and credits. A listener hears of one injection and
    /// of a delivery for each end-point. Admission of connections does not count the copies.
    ///
    /// # Panics
    /// Panics after the first [`run`](Self::run), unless there is one group of end-points for each
    /// end-point.
    pub fn set_multicast(
        &mut self,
        classes: &[u8],
        groups: Vec<Vec<u32>>,
        replication: Replication,
    ) {
        assert_eq!(self.now_ns(), 0, "the simulation has started");
        let end_points = self.topology.end_points();
        assert_eq!(groups.len(), end_points as usize, "one group per end-point");
        let exists = |member: &u32| *member < end_points;
        assert!(groups.iter().flatten().all(exists), "a member is not an end-point");
        let is_multicast = (0..=u8::MAX).map(|class| classes.contains(&class)).collect();
        self.multicast = Some(Box::new(Multicast::new(replication, is_multicast, groups)));
    }

    /// Runs until `until_ns`, or until no event is left. Returns whether events are left.
    ///
    /// # Errors
    /// Returns [`Deadlock`](FabricError::Deadlock) if the fabric holds packets that can never move.
    ///
    /// # Panics
    /// Panics if the listener asks for steps and the fabric has multicast classes: steps do not
    /// describe copies.
    pub fn run<L: FabricListener>(
        &mut self,
        until_ns: u64,
        listener: &mut L,
    ) -> Result<bool, FabricError> {
        assert!(!L::STEPS || self.multicast.is_none(), "steps do not describe multicast copies");
        while let Some(time_ns) = self.event_queue.next_ns() {
            if time_ns > until_ns {
                return Ok(true);
            }
            self.process_instant(time_ns, listener);
            if self.packets_in_switches > 0 && self.event_queue.len() == self.pending_injections {
                return Err(self.deadlock());
            }
        }
        if self.packets.alive() == 0 {
            self.credit_accounts.assert_all_returned();
        }
        Ok(false)
    }

    /// Returns the current simulation time, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.event_queue.now_ns()
    }

    /// Deprecated alias of [`packets_in_transit`](Self::packets_in_transit).
    #[deprecated(note = "renamed to `packets_in_transit`")]
    #[must_use]
    pub fn packets_under_way(&self) -> usize {
        self.packets_in_transit()
    }

    /// Returns the number of packets that wait at end-points or are in transit.
    #[must_use]
    pub fn packets_in_transit(&self) -> usize {
        self.packets.alive()
    }

    /// Returns the number of transmissions started on all links.
    #[must_use]
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Returns the total transmission time of each link, ns, in the order of [`Topology::links`].
    /// A transmission in progress counts in full.
    pub fn busy_ns(&self) -> impl Iterator<Item = u64> {
        self.transmitters.iter().map(|transmitter| transmitter.busy_ns)
    }

    /// Returns the topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the number of virtual channels per link: one per class and layer, class by class.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.credit_accounts.channels()
    }

    /// Returns whether switches have crossbars and links have credits.
    #[must_use]
    pub fn has_crossbars(&self) -> bool {
        !self.switches.is_empty()
    }

    /// Returns the traffic of each end-point.
    #[must_use]
    pub fn sources(&self) -> &[EndPointTraffic] {
        &self.sources
    }

    fn deadlock(&self) -> FabricError {
        let cycle = self.topology.dependency_cycle().map_or_else(
            || String::from("no cycle of links: a scheduler withholds the waiting packets"),
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

    /// Processes all events at `now_ns`.
    #[inline]
    fn process_instant(&mut self, now_ns: u64, listener: &mut impl FabricListener) {
        let Self { event_queue, work, .. } = self;
        event_queue.advance_to(now_ns, |event| work.events.push(event));
        for index in 0..self.work.events.len() {
            match self.work.events[index] {
                Event::Sent(link) => self.sent(link),
                Event::Transferred(switch, output) => self.transferred(now_ns, switch, output),
                Event::Credits { link, channel, credits } => {
                    self.give_credits(now_ns, link, channel, credits);
                }
                Event::Ready { link, packet } => {
                    if self.switches.is_empty() {
                        self.work.arrivals.push((link, packet));
                    } else {
                        self.ready(link, packet);
                    }
                }
                Event::Injection(end_point) => self.work.injections.push(end_point),
                Event::Wake(link) => {
                    self.transmitters[link as usize].wake_ns = None;
                    self.mark_link(link);
                }
            }
        }
        self.work.events.clear();
        // Packets of several inputs can reach one queue at once; the lower link number goes first.
        if self.work.arrivals.len() > 1 {
            self.work.arrivals.sort_unstable();
        }
        for index in 0..self.work.arrivals.len() {
            let (link, packet) = self.work.arrivals[index];
            self.arrive(now_ns, link, packet, listener);
        }
        self.work.arrivals.clear();
        while let Some(end_point) = self.work.injections.pop() {
            self.inject(now_ns, end_point, listener);
        }
        while let Some(switch) = self.work.switches.pop() {
            self.work.switch_marked[switch as usize] = false;
            self.arbitrate(now_ns, switch, listener);
        }
        while let Some(link) = self.work.links.pop() {
            self.transmitters[link as usize].marked = false;
            self.decide(now_ns, link, listener);
        }
    }

    /// Ends the transmission on `link`: frees the link and the packet's room at the output.
    #[inline]
    fn sent(&mut self, link: u32) {
        let transmitter = &mut self.transmitters[link as usize];
        transmitter.busy = false;
        if let Node::Switch(switch) = transmitter.from
            && let Some(state) = self.switches.get_mut(switch as usize)
        {
            let (channel, credits) = transmitter.sending;
            let output = usize::from(transmitter.from_port);
            state.release_credits(output, usize::from(channel), u32::from(credits));
            self.mark_switch(switch);
        }
        self.mark_link(link);
    }

    /// Ends a transfer: the packet has left the input buffer, so its credits return.
    #[inline]
    fn transferred(&mut self, now_ns: u64, switch: u32, output: u8) {
        let transfer = self.switches[switch as usize].transferred(usize::from(output));
        if let Some(multicast) = &mut self.multicast
            && !multicast.frees_room(switch, output)
        {
            return self.mark_switch(switch);
        }
        let link = self.wiring.input(switch, transfer.input);
        let credits = u16::try_from(transfer.credits).expect("a packet has at most 65,535 bytes");
        self.credit_accounts.left(link, transfer.from_channel, transfer.credits);
        if self.link.delay_ns == 0 {
            self.give_credits(now_ns, link, transfer.from_channel, credits);
        } else {
            let event = Event::Credits { link, channel: transfer.from_channel, credits };
            self.event_queue.schedule(now_ns + self.link.delay_ns, event);
        }
        self.mark_switch(switch);
    }

    #[inline]
    fn give_credits(&mut self, now_ns: u64, link: u32, channel: u8, credits: u16) {
        self.credit_accounts.returned(link, channel, u32::from(credits));
        let stream = StreamId(u32::from(channel));
        let transmitter = &mut self.transmitters[link as usize];
        transmitter.scheduler.add_credits(now_ns, stream, u64::from(credits));
        self.mark_link(link);
    }

    /// Returns the switch, output port and channel of a packet that arrived on `link`.
    #[inline]
    fn route(&self, link: u32, packet: u32) -> (u32, u16, u8) {
        let Node::Switch(switch) = self.transmitters[link as usize].to else {
            unreachable!("only switches forward")
        };
        let state = self.packets.get(packet);
        let hop = self.topology.hop(switch, state.destination);
        (switch, hop.port, channel(state.class, hop.layer, self.layers))
    }

    /// Makes a packet that arrived on `link` available to the crossbar there.
    #[inline]
    fn ready(&mut self, link: u32, packet: u32) {
        let state = self.packets.get(packet);
        self.credit_accounts.ready(link, state.channel, credits(state.bytes));
        if self.multicast.is_none() {
            return self.request_transfer(link, packet);
        }
        let copies = self.split(link, packet);
        if let Some(multicast) = &mut self.multicast {
            multicast.share_room(&copies);
        }
        for copy in copies {
            self.request_transfer(link, copy);
        }
    }

    /// Splits a packet that arrived on `link` by output; returns its copies, itself the first.
    fn split(&mut self, link: u32, packet: u32) -> Vec<u32> {
        let Node::Switch(switch) = self.transmitters[link as usize].to else {
            unreachable!("only switches forward")
        };
        let Self { multicast, topology, packets, .. } = self;
        let copies = match multicast {
            Some(multicast) => multicast.split(packet, switch, topology, packets),
            None => vec![packet],
        };
        self.packets_in_switches += copies.len() as u64 - 1;
        copies
    }

    #[inline]
    fn request_transfer(&mut self, link: u32, packet: u32) {
        let (switch, port, channel) = self.route(link, packet);
        let input = usize::from(self.transmitters[link as usize].to_port);
        let (output, channel) = (usize::from(port), usize::from(channel));
        self.switches[switch as usize].ready(input, packet, output, channel, &mut self.packets);
        self.mark_switch(switch);
    }

    /// Queues a packet that arrived on `link` at its output, behind an ideal crossbar.
    #[inline]
    fn arrive(&mut self, now_ns: u64, link: u32, packet: u32, listener: &mut impl FabricListener) {
        if self.multicast.is_none() {
            return self.queue_at_output(now_ns, link, packet, listener);
        }
        for copy in self.split(link, packet) {
            self.queue_at_output(now_ns, link, copy, listener);
        }
    }

    #[inline]
    fn queue_at_output(
        &mut self,
        now_ns: u64,
        link: u32,
        packet: u32,
        listener: &mut impl FabricListener,
    ) {
        let (switch, port, channel) = self.route(link, packet);
        let link = self.wiring.output(switch, port);
        self.report_step(packet, Step::Queued { link, time_ns: now_ns }, listener);
        self.enqueue(now_ns, link, channel, packet, listener);
    }

    /// Queues a packet at the sending end of `link`.
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
        self.enqueue_at_scheduler(now_ns, link, channel, packet, bytes);
    }

    /// Passes a packet to the scheduler of `link`.
    #[inline]
    fn enqueue_at_scheduler(
        &mut self,
        now_ns: u64,
        link: u32,
        channel: u8,
        packet: u32,
        bytes: u32,
    ) {
        let offered = Packet { bytes, tag: u64::from(packet) };
        let scheduler = &mut self.transmitters[link as usize].scheduler;
        let refused = scheduler.enqueue(now_ns, StreamId(u32::from(channel)), offered).is_err();
        assert!(!refused, "a fabric queue dropped a packet");
        self.mark_link(link);
    }

    /// Injects the packets of `end_point` that are due at `now_ns`.
    #[inline]
    fn inject(&mut self, now_ns: u64, end_point: u32, listener: &mut impl FabricListener) {
        self.pending_injections -= 1;
        let link = self.wiring.injections[end_point as usize];
        while let Some(injection) = self.upcoming[end_point as usize] {
            if injection.time_ns > now_ns {
                self.event_queue.schedule(injection.time_ns, Event::Injection(end_point));
                self.pending_injections += 1;
                return;
            }
            let packet = self.packets.insert(end_point, &injection);
            listener.injected(end_point, &injection);
            let channel = channel(injection.class, 0, self.layers);
            let Self { multicast, packets, .. } = self;
            match multicast {
                Some(multicast) if multicast.is_multicast(injection.class) => {
                    let group = injection.destination;
                    for packet in multicast.address(packet, group, end_point, packets) {
                        self.enqueue(now_ns, link, channel, packet, listener);
                    }
                }
                _ => {
                    self.report_step(packet, Step::Injected { link }, listener);
                    self.enqueue(now_ns, link, channel, packet, listener);
                }
            }
            self.upcoming[end_point as usize] = self.sources[end_point as usize].next();
        }
    }

    /// Arbitrates the crossbar of `switch` and starts the resulting transfers.
    #[inline]
    fn arbitrate<L: FabricListener>(&mut self, now_ns: u64, switch: u32, listener: &mut L) {
        let Self { topology, switches, packets, work, .. } = self;
        let route = |packet: u32, packets: &Packets| {
            let state = packets.get(packet);
            let hop = topology.hop(switch, state.destination);
            (usize::from(hop.port), usize::from(channel(state.class, hop.layer, self.layers)))
        };
        let transfers = &mut work.transfers;
        switches[switch as usize].arbitrate(packets, route, |transfer| transfers.push(transfer));
        while let Some(transfer) = self.work.transfers.pop() {
            if let Some(multicast) = &mut self.multicast {
                multicast.crosses(transfer.packet, switch, transfer.output);
            }
            let state = self.packets.get(transfer.packet);
            let bytes = state.bytes;
            let end_ns = (now_ns + self.crossbar_ns[bytes as usize]).max(state.tail_ns);
            self.event_queue.schedule(end_ns, Event::Transferred(switch, transfer.output));
            let link = self.wiring.output(switch, u16::from(transfer.output));
            if L::STEPS {
                let step = Step::Crossed {
                    from: self.wiring.input(switch, transfer.input),
                    channel: transfer.from_channel,
                    onto: link,
                    begins_ns: now_ns,
                    ends_ns: end_ns,
                };
                self.report_step(transfer.packet, step, listener);
            }
            self.enqueue_at_scheduler(now_ns, link, transfer.channel, transfer.packet, bytes);
        }
    }

    /// Lets an idle link decide, and starts the transmission of its packet.
    #[inline]
    fn decide(&mut self, now_ns: u64, link: u32, listener: &mut impl FabricListener) {
        let transmitter = &mut self.transmitters[link as usize];
        if transmitter.busy {
            return;
        }
        let Some(departure) = transmitter.scheduler.decide(now_ns, &mut ()) else {
            if let Some(from_ns) = transmitter.scheduler.next_eligible_ns()
                && transmitter.wake_ns.is_none_or(|wake_ns| from_ns < wake_ns)
            {
                transmitter.wake_ns = Some(from_ns);
                self.event_queue.schedule(from_ns.max(now_ns + 1), Event::Wake(link));
            }
            return;
        };
        transmitter.busy = true;
        let channel = departure.stream.0.to_le_bytes()[0];
        transmitter.sending =
            (channel, u16::try_from(credits(departure.bytes)).expect("at most 1,024 credits"));
        let packet = u32::try_from(departure.tag).expect("a tag is a packet's slot");
        let sent_ns = now_ns + self.link_ns[departure.bytes as usize];
        self.event_queue.schedule(sent_ns, Event::Sent(link));
        self.send(now_ns, link, packet, departure.bytes, listener);
    }

    /// Starts a packet's transmission on `link` at `begins_ns`.
    #[inline]
    fn send<L: FabricListener>(
        &mut self,
        begins_ns: u64,
        link: u32,
        packet: u32,
        bytes: u32,
        listener: &mut L,
    ) {
        let transmitter = &mut self.transmitters[link as usize];
        let sent_ns = begins_ns + self.link_ns[bytes as usize];
        transmitter.free_ns = sent_ns;
        transmitter.busy_ns += sent_ns - begins_ns;
        self.hops += 1;
        let injected = matches!(transmitter.from, Node::EndPoint(_));
        let to = transmitter.to;
        let ahead_ns = self.link.delay_ns + self.switch.latency_ns;
        let ready_ns = match (to, self.switch.forwarding) {
            (Node::EndPoint(_), _) => sent_ns + self.link.delay_ns,
            (Node::Switch(_), Forwarding::CutThrough) => begins_ns + ahead_ns,
            (Node::Switch(_), Forwarding::StoreAndForward) => sent_ns + ahead_ns,
        };
        if L::STEPS {
            let channel = self.packets.get(packet).channel;
            let last = matches!(to, Node::EndPoint(_));
            let ends_ns = sent_ns;
            let step = Step::Sent { link, channel, begins_ns, ends_ns, ready_ns, last };
            self.report_step(packet, step, listener);
        }
        match to {
            Node::Switch(_) => {
                self.packets_in_switches += u64::from(injected);
                let state = self.packets.get_mut(packet);
                state.tail_ns = sent_ns + ahead_ns;
                self.credit_accounts.sent(link, state.channel, credits(bytes));
                self.event_queue.schedule(ready_ns, Event::Ready { link, packet });
            }
            Node::EndPoint(destination) => {
                self.packets_in_switches -= u64::from(!injected);
                let state = self.packets.get(packet);
                listener.delivered(&Delivery {
                    time_ns: ready_ns,
                    injected_ns: state.injected_ns,
                    class: state.class,
                    source: state.source,
                    destination,
                    connection: state.connection,
                    bytes,
                });
                self.packets.remove(packet);
            }
        }
    }

    /// Reports a packet's step if the listener asks for steps.
    #[inline]
    fn report_step<L: FabricListener>(&self, packet: u32, step: Step, listener: &mut L) {
        if L::STEPS {
            let state = self.packets.get(packet);
            listener.on_step(&PacketStep {
                packet,
                injected_ns: state.injected_ns,
                class: state.class,
                source: state.source,
                destination: state.destination,
                connection: state.connection,
                bytes: state.bytes,
                step,
            });
        }
    }

    #[inline]
    fn mark_switch(&mut self, switch: u32) {
        let InstantWork { switches, switch_marked, .. } = &mut self.work;
        if !switch_marked[switch as usize] {
            switch_marked[switch as usize] = true;
            switches.push(switch);
        }
    }

    /// Marks a link for a decision at this instant, unless it transmits.
    #[inline]
    fn mark_link(&mut self, link: u32) {
        let transmitter = &mut self.transmitters[link as usize];
        if !transmitter.busy && !transmitter.marked {
            transmitter.marked = true;
            self.work.links.push(link);
        }
    }
}

/// Returns the virtual channel of a class on a layer.
#[inline]
fn channel(class: u8, layer: u8, layers: u8) -> u8 {
    class * layers + layer
}
