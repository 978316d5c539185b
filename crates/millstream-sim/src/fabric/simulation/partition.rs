//! A part of a fabric: some switches, their end-points, and the links that these send on.
//!
//! A packet or a credit that leaves the partition becomes a [`Message`]. Each carries the time of
//! its event, at least the lookahead after the instant that made it.

use std::sync::Arc;

use millstream::catalogue::DynScheduler;
use millstream::prefetch::prefetch;
use millstream::{Packet, StreamId};

use super::credit_accounts::CreditAccounts;
use super::log::{Phase, Sink};
use super::multicast::Multicast;
use crate::fabric::crossbar::{Switch, Transfer, credits};
use crate::fabric::event_queue::EventQueue;
use crate::fabric::listener::{Delivery, PacketStep, Step};
use crate::fabric::packets::{PacketState, Packets};
use crate::fabric::parameters::{Buffering, Forwarding, LinkParameters, SwitchParameters};
use crate::fabric::topology::Topology;
use crate::fabric::traffic::{EndPointTraffic, Injection};

/// What all partitions of a fabric read.
pub(super) struct Fabric {
    pub(super) topology: Topology,
    pub(super) link: LinkParameters,
    pub(super) switch: SwitchParameters,
    pub(super) layers: u8,
    /// Whether links have no flow control and no caps, and serve in order of arrival. A packet's
    /// transmission time is then known on arrival, so no decisions are needed.
    pub(super) first_come: bool,
    /// Transmission time on a link, by packet length, ns.
    pub(super) link_ns: Box<[u64]>,
    /// Transfer time through a crossbar, by packet length, ns.
    pub(super) crossbar_ns: Box<[u64]>,
    /// Length of the smallest packet, bytes.
    pub(super) smallest_bytes: u32,
    /// Virtual channels of each link.
    pub(super) channels: usize,
}

impl Fabric {
    /// Returns the least time from an instant to an event that it causes at the other end of a
    /// link, ns; at least 1.
    ///
    /// The end of a transfer, and hence the return of its credits, is known at its start.
    pub(super) fn lookahead_ns(&self) -> u64 {
        let smallest = self.smallest_bytes as usize;
        let ahead_ns = self.link.delay_ns + self.switch.latency_ns;
        let packet_ns = match self.switch.forwarding {
            Forwarding::CutThrough => ahead_ns,
            Forwarding::StoreAndForward => ahead_ns + self.link_ns[smallest],
        };
        let credits_ns = self.crossbar_ns[smallest] + self.link.delay_ns;
        let lookahead_ns = match self.switch.buffering {
            Buffering::Output => packet_ns,
            Buffering::Combined(_) => packet_ns.min(credits_ns),
        };
        lookahead_ns.max(1)
    }
}

/// A scheduled event. Links, inputs and switches are indices in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The transmission on this link ends.
    Sent(u32),
    /// The transfer to this output of the switch ends.
    Transferred(u32, u8),
    /// Credits of a channel reach the link's sender.
    Credits { link: u32, channel: u8, credits: u16 },
    /// A packet that arrived at this input may leave the switch.
    Ready { input: u32, packet: u32 },
    /// This source injects its next packet.
    Injection(u32),
    /// A rate cap at this link's sender makes a packet eligible.
    Wake(u32),
}

/// An event that one partition causes in another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A packet may leave the switch behind this input from `time_ns` on.
    Packet { time_ns: u64, input: u32, state: PacketState },
    /// Credits reach the sender of this link at `time_ns`.
    Credits { time_ns: u64, link: u32, channel: u8, credits: u16 },
}

impl Message {
    pub(super) fn time_ns(&self) -> u64 {
        match *self {
            Self::Packet { time_ns, .. } | Self::Credits { time_ns, .. } => time_ns,
        }
    }
}

/// The receiving end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Far {
    EndPoint(u32),
    /// The input of a switch, by partition and index there.
    Input {
        partition: u16,
        input: u32,
    },
}

/// The switch of an end-point's link: none.
pub(super) const NO_SWITCH: u32 = u32::MAX;

/// The sending end of a link, in one cache line.
#[repr(align(64))]
pub(super) struct Transmitter {
    pub(super) scheduler: Box<dyn DynScheduler + Send>,
    /// Number of the link in [`Topology::links`].
    pub(super) number: u32,
    /// The switch that sends, as an index in the partition; [`NO_SWITCH`] for an end-point.
    pub(super) switch: u32,
    /// The sending port.
    pub(super) port: u8,
    pub(super) far: Far,
    /// Whether a transmission is in progress.
    pub(super) busy: bool,
    /// Channel and credits of the packet in transmission.
    pub(super) sending: (u8, u16),
    /// Whether the link is on the list of links that decide at this instant.
    pub(super) marked: bool,
    /// Time of the scheduled [`Event::Wake`], ns; `u64::MAX` if there is none.
    pub(super) wake_ns: u64,
    /// End of the last transmission that is in progress or known in advance, ns.
    pub(super) free_ns: u64,
    /// Total transmission time, ns.
    pub(super) busy_ns: u64,
}

const _: () = assert!(size_of::<Transmitter>() == 64);

/// The input of a switch.
pub(super) struct Input {
    /// Number of the link in [`Topology::links`].
    pub(super) number: u32,
    /// The switch, as an index in the partition.
    pub(super) switch: u32,
    pub(super) port: u8,
    /// Partition of the link's sender.
    pub(super) partition: u16,
    /// Index of the link in its sender's partition.
    pub(super) link: u32,
}

/// An end-point's application.
pub(super) struct Source {
    pub(super) end_point: u32,
    /// The link out of the end-point, as an index in the partition.
    pub(super) link: u32,
    pub(super) traffic: EndPointTraffic,
    pub(super) next: Option<Injection>,
    /// Packets injected so far.
    pub(super) injected: u32,
}

/// Links and inputs by switch and port, as indices in the partition.
#[derive(Default)]
pub(super) struct Wiring {
    /// Number of each switch in the topology.
    pub(super) numbers: Vec<u32>,
    /// Index of each switch's first port in `inputs` and `outputs`.
    pub(super) first_port: Vec<u32>,
    pub(super) inputs: Vec<u32>,
    pub(super) outputs: Vec<u32>,
}

impl Wiring {
    /// Returns the input at a switch's port.
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

/// A part of a fabric and its events.
pub(super) struct Partition {
    pub(super) fabric: Arc<Fabric>,
    /// Index of this partition.
    pub(super) number: u16,
    pub(super) event_queue: EventQueue<Event>,
    pub(super) packets: Packets,
    /// The links that are sent on from here, in order of their numbers.
    pub(super) transmitters: Vec<Transmitter>,
    /// The inputs of all switches, in order of their links' numbers.
    pub(super) inputs: Vec<Input>,
    /// The switches' crossbars; empty without crossbars.
    pub(super) switches: Vec<Switch>,
    pub(super) wiring: Wiring,
    pub(super) sources: Vec<Source>,
    pub(super) work: InstantWork,
    pub(super) credit_accounts: CreditAccounts,
    /// Packets that entered the switches from an end-point here, less those that left them to one.
    pub(super) packets_in_switches: i64,
    /// Sources with a scheduled [`Event::Injection`].
    pub(super) pending_injections: usize,
    pub(super) hops: u64,
    /// The multicast classes, if there are any; only in a fabric of one partition.
    pub(super) multicast: Option<Box<Multicast>>,
    /// Messages to each partition since they were last taken.
    pub(super) outgoing: Vec<Vec<Message>>,
}

/// Work of the current instant; kept between instants to reuse its memory.
#[derive(Debug, Default)]
pub(super) struct InstantWork {
    injections: Vec<u32>,
    /// Pairs of input and packet that arrives at it.
    arrivals: Vec<(u32, u32)>,
    switches: Vec<u32>,
    pub(super) switch_marked: Vec<bool>,
    links: Vec<u32>,
    transfers: Vec<Transfer>,
}

/// The simultaneous arrivals from which on it pays to prefetch what they will change.
const MANY: usize = 4;

impl Partition {
    /// Processes all events before `end_ns`.
    pub(super) fn run_until(&mut self, end_ns: u64, sink: &mut impl Sink) {
        while let Some(time_ns) = self.event_queue.next_ns()
            && time_ns < end_ns
        {
            self.process_instant(time_ns, sink);
        }
    }

    /// Returns the number of scheduled events other than injections.
    pub(super) fn moving(&self) -> usize {
        self.event_queue.len() - self.pending_injections
    }

    /// Schedules the event of a message from another partition.
    pub(super) fn receive(&mut self, message: Message) {
        let event = match message {
            Message::Packet { input, state, .. } => {
                Event::Ready { input, packet: self.packets.insert_state(state) }
            }
            Message::Credits { link, channel, credits, .. } => {
                Event::Credits { link, channel, credits }
            }
        };
        self.event_queue.schedule(message.time_ns(), event);
    }

    /// Processes all events at `now_ns`.
    ///
    /// The listener hears of them in order of phase and place, so the order does not depend on the
    /// partition.
    #[inline]
    fn process_instant(&mut self, now_ns: u64, sink: &mut impl Sink) {
        let mut instant = self.event_queue.advance_to(now_ns);
        while let Some(event) = self.event_queue.take(&mut instant) {
            match event {
                Event::Sent(link) => self.sent(link),
                Event::Transferred(switch, output) => self.transferred(now_ns, switch, output),
                Event::Credits { link, channel, credits } => {
                    self.give_credits(now_ns, link, channel, credits);
                }
                Event::Ready { input, packet } => {
                    if self.switches.is_empty() {
                        prefetch(&self.inputs, input as usize);
                        self.packets.prefetch(packet);
                        self.work.arrivals.push((input, packet));
                    } else {
                        self.ready(input, packet);
                    }
                }
                Event::Injection(source) => {
                    prefetch(&self.sources, source as usize);
                    self.work.injections.push(source);
                }
                Event::Wake(link) => {
                    self.transmitters[link as usize].wake_ns = u64::MAX;
                    self.mark_link(link);
                }
            }
        }
        // Packets of several inputs can reach one queue at once; the lower link number goes first.
        if self.work.arrivals.len() > 1 {
            self.work.arrivals.sort_unstable();
        }
        if self.work.arrivals.len() >= MANY {
            for &(input, packet) in &self.work.arrivals {
                let (switch, port, _) = self.route(input, packet);
                prefetch(&self.transmitters, self.wiring.output(switch, port) as usize);
            }
        }
        for index in 0..self.work.arrivals.len() {
            let (input, packet) = self.work.arrivals[index];
            sink.at(now_ns, Phase::Arrival, self.inputs[input as usize].number);
            self.arrive(now_ns, input, packet, sink);
        }
        self.work.arrivals.clear();
        sort_descending(&mut self.work.injections);
        while let Some(source) = self.work.injections.pop() {
            sink.at(now_ns, Phase::Injection, self.sources[source as usize].end_point);
            self.inject(now_ns, source, sink);
        }
        sort_descending(&mut self.work.switches);
        while let Some(switch) = self.work.switches.pop() {
            self.work.switch_marked[switch as usize] = false;
            sink.at(now_ns, Phase::Arbitration, self.wiring.numbers[switch as usize]);
            self.arbitrate(now_ns, switch, sink);
        }
        sort_descending(&mut self.work.links);
        while let Some(link) = self.work.links.pop() {
            let transmitter = &mut self.transmitters[link as usize];
            transmitter.marked = false;
            sink.at(now_ns, Phase::Decision, transmitter.number);
            self.decide(now_ns, link, sink);
        }
    }

    /// Ends the transmission on `link`: frees the link and the packet's room at the output.
    #[inline]
    fn sent(&mut self, link: u32) {
        let transmitter = &mut self.transmitters[link as usize];
        transmitter.busy = false;
        // There are none at end-points, and none without crossbars.
        if let Some(state) = self.switches.get_mut(transmitter.switch as usize) {
            let (channel, credits) = transmitter.sending;
            let output = usize::from(transmitter.port);
            state.release_credits(output, usize::from(channel), u32::from(credits));
            let switch = transmitter.switch;
            self.mark_switch(switch);
        }
        self.mark_link(link);
    }

    /// Ends a transfer: the packet has left the input buffer, so its credits return.
    #[inline]
    fn transferred(&mut self, now_ns: u64, switch: u32, output: u8) {
        let transfer = self.switches[switch as usize].transferred(usize::from(output));
        self.mark_switch(switch);
        if let Some(multicast) = &mut self.multicast
            && !multicast.frees_room(switch, output)
        {
            return;
        }
        let input = self.wiring.input(switch, transfer.input);
        let Input { partition, link, .. } = self.inputs[input as usize];
        if partition != self.number {
            // `arbitrate` has sent them.
            return;
        }
        let (channel, credits) = (transfer.from_channel, narrow(transfer.credits));
        self.credit_accounts.left(link, channel, transfer.credits);
        let delay_ns = self.fabric.link.delay_ns;
        if delay_ns == 0 {
            self.give_credits(now_ns, link, channel, credits);
        } else {
            let event = Event::Credits { link, channel, credits };
            self.event_queue.schedule(now_ns + delay_ns, event);
        }
    }

    #[inline]
    fn give_credits(&mut self, now_ns: u64, link: u32, channel: u8, credits: u16) {
        let stream = StreamId(u32::from(channel));
        let transmitter = &mut self.transmitters[link as usize];
        if matches!(transmitter.far, Far::Input { partition, .. } if partition == self.number) {
            self.credit_accounts.returned(link, channel, u32::from(credits));
        }
        transmitter.scheduler.add_credits(now_ns, stream, u64::from(credits));
        self.mark_link(link);
    }

    /// Returns the switch, output port and channel of a packet that arrived at `input`.
    #[inline]
    fn route(&self, input: u32, packet: u32) -> (u32, u16, u8) {
        let Input { switch, .. } = self.inputs[input as usize];
        let state = self.packets.get(packet);
        let number = self.wiring.numbers[switch as usize];
        let hop = self.fabric.topology.hop(number, state.destination);
        (switch, hop.port, channel(state.class, hop.layer, self.fabric.layers))
    }

    /// Makes a packet that arrived at `input` available to the crossbar there.
    #[inline]
    fn ready(&mut self, input: u32, packet: u32) {
        let state = self.packets.get(packet);
        let Input { partition, link, .. } = self.inputs[input as usize];
        if partition == self.number {
            self.credit_accounts.ready(link, state.channel, credits(state.bytes));
        }
        if self.multicast.is_none() {
            return self.request_transfer(input, packet);
        }
        let copies = self.split(input, packet);
        if let Some(multicast) = &mut self.multicast {
            multicast.share_room(&copies);
        }
        for copy in copies {
            self.request_transfer(input, copy);
        }
    }

    /// Splits a packet that arrived at `input` by output; returns its copies, itself the first.
    fn split(&mut self, input: u32, packet: u32) -> Vec<u32> {
        let number = self.wiring.numbers[self.inputs[input as usize].switch as usize];
        let Self { multicast, fabric, packets, .. } = self;
        let copies = match multicast {
            Some(multicast) => multicast.split(packet, number, &fabric.topology, packets),
            None => vec![packet],
        };
        self.packets_in_switches += copies.len() as i64 - 1;
        copies
    }

    #[inline]
    fn request_transfer(&mut self, input: u32, packet: u32) {
        let (switch, port, channel) = self.route(input, packet);
        let input = usize::from(self.inputs[input as usize].port);
        let (output, channel) = (usize::from(port), usize::from(channel));
        self.switches[switch as usize].ready(input, packet, output, channel, &mut self.packets);
        self.mark_switch(switch);
    }

    /// Queues a packet that arrived at `input` at its output, behind an ideal crossbar.
    #[inline]
    fn arrive(&mut self, now_ns: u64, input: u32, packet: u32, sink: &mut impl Sink) {
        if self.multicast.is_none() {
            return self.queue_at_output(now_ns, input, packet, sink);
        }
        for copy in self.split(input, packet) {
            self.queue_at_output(now_ns, input, copy, sink);
        }
    }

    #[inline]
    fn queue_at_output(&mut self, now_ns: u64, input: u32, packet: u32, sink: &mut impl Sink) {
        let (switch, port, channel) = self.route(input, packet);
        let link = self.wiring.output(switch, port);
        let number = self.transmitters[link as usize].number;
        self.report_step(packet, Step::Queued { link: number, time_ns: now_ns }, sink);
        self.enqueue(now_ns, link, channel, packet, sink);
    }

    /// Queues a packet at the sending end of `link`.
    #[inline]
    fn enqueue(&mut self, now_ns: u64, link: u32, channel: u8, packet: u32, sink: &mut impl Sink) {
        let state = self.packets.get_mut(packet);
        state.channel = channel;
        let bytes = state.bytes;
        if self.fabric.first_come {
            let begins_ns = self.transmitters[link as usize].free_ns.max(now_ns);
            return self.send(begins_ns, link, packet, bytes, sink);
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

    /// Injects the packets of a source that are due at `now_ns`.
    #[inline]
    fn inject(&mut self, now_ns: u64, index: u32, sink: &mut impl Sink) {
        self.pending_injections -= 1;
        while let Some(injection) = self.sources[index as usize].next {
            if injection.time_ns > now_ns {
                self.event_queue.schedule(injection.time_ns, Event::Injection(index));
                self.pending_injections += 1;
                return;
            }
            let source = &mut self.sources[index as usize];
            let (end_point, link) = (source.end_point, source.link);
            let packet = self.packets.insert(end_point, source.injected, &injection);
            source.injected = source.injected.wrapping_add(1);
            source.next = source.traffic.next();
            sink.injected(end_point, &injection);
            let channel = channel(injection.class, 0, self.fabric.layers);
            let Self { multicast, packets, .. } = self;
            match multicast {
                Some(multicast) if multicast.is_multicast(injection.class) => {
                    let group = injection.destination;
                    for packet in multicast.address(packet, group, end_point, packets) {
                        self.enqueue(now_ns, link, channel, packet, sink);
                    }
                }
                _ => {
                    let number = self.transmitters[link as usize].number;
                    self.report_step(packet, Step::Injected { link: number }, sink);
                    self.enqueue(now_ns, link, channel, packet, sink);
                }
            }
        }
    }

    /// Arbitrates the crossbar of `switch` and starts the resulting transfers.
    #[inline]
    fn arbitrate<S: Sink>(&mut self, now_ns: u64, switch: u32, sink: &mut S) {
        let Self { fabric, switches, packets, work, wiring, .. } = self;
        let number = wiring.numbers[switch as usize];
        let route = |packet: u32, packets: &Packets| {
            let state = packets.get(packet);
            let hop = fabric.topology.hop(number, state.destination);
            (usize::from(hop.port), usize::from(channel(state.class, hop.layer, fabric.layers)))
        };
        let transfers = &mut work.transfers;
        switches[switch as usize].arbitrate(packets, route, |transfer| transfers.push(transfer));
        while let Some(transfer) = self.work.transfers.pop() {
            if let Some(multicast) = &mut self.multicast {
                multicast.crosses(transfer.packet, switch, transfer.output);
            }
            let state = self.packets.get(transfer.packet);
            let bytes = state.bytes;
            let end_ns = (now_ns + self.fabric.crossbar_ns[bytes as usize]).max(state.tail_ns);
            self.event_queue.schedule(end_ns, Event::Transferred(switch, transfer.output));
            let link = self.wiring.output(switch, u16::from(transfer.output));
            let input = self.wiring.input(switch, transfer.input);
            let input = &self.inputs[input as usize];
            if S::STEPS {
                let step = Step::Crossed {
                    from: input.number,
                    channel: transfer.from_channel,
                    onto: self.transmitters[link as usize].number,
                    begins_ns: now_ns,
                    ends_ns: end_ns,
                };
                self.report_step(transfer.packet, step, sink);
            }
            if input.partition != self.number {
                self.outgoing[usize::from(input.partition)].push(Message::Credits {
                    time_ns: end_ns + self.fabric.link.delay_ns,
                    link: input.link,
                    channel: transfer.from_channel,
                    credits: narrow(transfer.credits),
                });
            }
            self.enqueue_at_scheduler(now_ns, link, transfer.channel, transfer.packet, bytes);
        }
    }

    /// Lets an idle link decide, and starts the transmission of its packet.
    #[inline]
    fn decide(&mut self, now_ns: u64, link: u32, sink: &mut impl Sink) {
        let transmitter = &mut self.transmitters[link as usize];
        if transmitter.busy {
            return;
        }
        let Some(departure) = transmitter.scheduler.decide(now_ns, &mut ()) else {
            if let Some(from_ns) = transmitter.scheduler.next_eligible_ns()
                && from_ns < transmitter.wake_ns
            {
                transmitter.wake_ns = from_ns;
                self.event_queue.schedule(from_ns.max(now_ns + 1), Event::Wake(link));
            }
            return;
        };
        transmitter.busy = true;
        let channel = departure.stream.0.to_le_bytes()[0];
        transmitter.sending = (channel, narrow(credits(departure.bytes)));
        let packet = u32::try_from(departure.tag).expect("a tag is a packet's slot");
        let sent_ns = now_ns + self.fabric.link_ns[departure.bytes as usize];
        self.event_queue.schedule(sent_ns, Event::Sent(link));
        self.send(now_ns, link, packet, departure.bytes, sink);
    }

    /// Starts a packet's transmission on `link` at `begins_ns`.
    #[inline]
    fn send<S: Sink>(&mut self, begins_ns: u64, link: u32, packet: u32, bytes: u32, sink: &mut S) {
        let fabric = &*self.fabric;
        let transmitter = &mut self.transmitters[link as usize];
        let sent_ns = begins_ns + fabric.link_ns[bytes as usize];
        transmitter.free_ns = sent_ns;
        transmitter.busy_ns += sent_ns - begins_ns;
        self.hops += 1;
        let injected = transmitter.switch == NO_SWITCH;
        let (far, number) = (transmitter.far, transmitter.number);
        let ahead_ns = fabric.link.delay_ns + fabric.switch.latency_ns;
        let ready_ns = match (far, fabric.switch.forwarding) {
            (Far::EndPoint(_), _) => sent_ns + fabric.link.delay_ns,
            (Far::Input { .. }, Forwarding::CutThrough) => begins_ns + ahead_ns,
            (Far::Input { .. }, Forwarding::StoreAndForward) => sent_ns + ahead_ns,
        };
        if S::STEPS {
            let channel = self.packets.get(packet).channel;
            let last = matches!(far, Far::EndPoint(_));
            let ends_ns = sent_ns;
            let step = Step::Sent { link: number, channel, begins_ns, ends_ns, ready_ns, last };
            self.report_step(packet, step, sink);
        }
        match far {
            Far::Input { partition, input } => {
                self.packets_in_switches += i64::from(injected);
                let state = self.packets.get_mut(packet);
                state.tail_ns = sent_ns + ahead_ns;
                if partition == self.number {
                    self.credit_accounts.sent(link, state.channel, credits(bytes));
                    self.event_queue.schedule(ready_ns, Event::Ready { input, packet });
                } else {
                    let message = Message::Packet { time_ns: ready_ns, input, state: *state };
                    self.outgoing[usize::from(partition)].push(message);
                    self.packets.remove(packet);
                }
            }
            Far::EndPoint(destination) => {
                self.packets_in_switches -= i64::from(!injected);
                let state = self.packets.get(packet);
                sink.delivered(&Delivery {
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
    fn report_step<S: Sink>(&self, packet: u32, step: Step, sink: &mut S) {
        if S::STEPS {
            let state = self.packets.get(packet);
            sink.on_step(&PacketStep {
                packet: u64::from(state.source) << 32 | u64::from(state.number),
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

/// Returns the credits of one packet, of at most 65,535 bytes.
#[inline]
fn narrow(credits: u32) -> u16 {
    u16::try_from(credits).expect("at most 1,024 credits")
}

/// Sorts a list so that `pop` returns the least element.
#[inline]
fn sort_descending(list: &mut [u32]) {
    if list.len() > 1 {
        list.sort_unstable_by(|one, other| other.cmp(one));
    }
}
