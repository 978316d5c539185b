//! The events of a network in the order of time.

use millstream::StreamId;
use millstream::aqm::Ecn;
use millstream_scenario::{
    CongestionControl, Direction, Echo, FlowBy, Network, Scenario, Source, Tcp,
};
use millstream_traffic::{Arrival, Feed, Random, TrafficError};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::adaptive::{Ladder, REPORT_NS, Viewer};
use super::connection::{Connection, State};
use super::hop::{HopState, Shared};
use super::packets::{Content, InFlight};
use super::receiver::Ack;
use super::report::{NetworkReport, SourceCounts};
use crate::link::{End, Listener, RunError};

/// The length of a packet that opens a connection, bytes: IPv4 and TCP with its options.
const HANDSHAKE_BYTES: u32 = 60;
/// The headers of a data packet, bytes: IPv4, and TCP with timestamps.
const HEADER_BYTES: u32 = 52;
/// The length of a report of a receiver, bytes: IPv4, UDP and RTCP.
const REPORT_BYTES: u32 = 80;

/// Something that happens at a later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A link ends a transmission, or may have an eligible packet.
    Free(u16),
    /// See [`Free`](Self::Free).
    Wake(u16),
    /// A packet comes to its next link.
    Arrive(u32),
    /// A packet comes to the end of its way.
    Deliver(u32),
    /// A connection's transfer begins.
    Begin(u32),
    /// A connection's sender or receiver has a timer.
    Sender(u32),
    /// See [`Sender`](Self::Sender).
    Receiver(u32),
    /// A stream's echo source sends a request.
    Request(u32),
    /// A stream's adaptive source sends a frame, or its receiver a report.
    Frame(u32),
    /// See [`Frame`](Self::Frame).
    Report(u32),
}

/// A running network.
pub(super) struct Simulation<'a, L> {
    scenario: &'a Scenario,
    network: &'a Network,
    now_ns: u64,
    until_ns: u64,
    end_ns: u64,
    /// Events by time, then by the order in which they were scheduled.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    hops: Vec<HopState<'a>>,
    /// The links of each direction.
    routes: [Vec<u16>; 2],
    shared: Shared<'a, L>,
    connections: Vec<Connection<'a>>,
    streams: Vec<StreamState<'a>>,
}

/// A stream of the network.
struct StreamState<'a> {
    direction: Direction,
    /// The stream of the schedulers that has its packets.
    queue: StreamId,
    echo: Option<&'a Echo>,
    /// The sender and the receiver of adaptive video.
    video: Option<(Ladder<'a>, Viewer)>,
    /// The time from the last link to the receiver, and from there back to the sender, ns.
    there_ns: u64,
    /// See `there_ns`.
    back_ns: u64,
    flow: u32,
    sent: u64,
    random: Random,
    counts: SourceCounts,
}

impl<'a, L: Listener> Simulation<'a, L> {
    pub(super) fn new(scenario: &'a Scenario, network: &'a Network, listener: &'a mut L) -> Self {
        let hops = (0..).zip(&network.hops);
        let of = |direction| {
            let hops = (0..).zip(&network.hops).filter(move |(_, hop)| hop.direction == direction);
            hops.map(|(number, _)| number).collect::<Vec<u16>>()
        };
        let routes = [of(Direction::Forward), of(Direction::Return)];
        let last =
            |direction: Direction| routes[direction as usize].last().copied().unwrap_or(u16::MAX);
        let last_hop = scenario.streams.iter().map(|stream| last(stream.direction)).collect();
        let mut simulation = Self {
            scenario,
            network,
            now_ns: 0,
            until_ns: scenario.duration_ns.unwrap_or(u64::MAX),
            end_ns: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            hops: hops.map(|(number, hop)| HopState::new(scenario, number, hop)).collect(),
            shared: Shared { packets: Slab::new(), listener, failed: None, last_hop },
            routes,
            connections: Vec::new(),
            streams: Vec::with_capacity(scenario.streams.len()),
        };
        for (number, stream) in (0..).zip(&scenario.streams) {
            simulation.add_stream(number, stream);
        }
        simulation
    }

    fn add_stream(&mut self, number: u32, stream: &'a millstream_scenario::Stream) {
        let queue = stream.shares.map_or(number, |shared| u32::try_from(shared).unwrap_or(number));
        let (rtt_ns, echo, video) = match &stream.source {
            Source::Tcp(tcp) => (tcp.rtt_ns, None, None),
            Source::Echo(echo) => (echo.rtt_ns, Some(echo), None),
            Source::Adaptive(of) => (of.rtt_ns, None, Some((Ladder::new(of), Viewer::default()))),
            _ => (0, None, None),
        };
        self.streams.push(StreamState {
            direction: stream.direction,
            queue: StreamId(queue),
            echo,
            video,
            there_ns: rtt_ns / 2,
            back_ns: rtt_ns - rtt_ns / 2,
            flow: flow_hash(number, 0),
            sent: 0,
            random: Random::new(self.scenario.seed, u64::from(number)),
            counts: SourceCounts::default(),
        });
        match &stream.source {
            Source::Tcp(tcp) => self.add_connections(number, tcp, queue),
            Source::Echo(echo) => self.schedule(echo.start_ns, Event::Request(number)),
            Source::Adaptive(of) => {
                self.schedule(of.start_ns, Event::Frame(number));
                self.schedule(of.start_ns.saturating_add(REPORT_NS), Event::Report(number));
            }
            _ => {}
        }
    }

    fn add_connections(&mut self, stream: u32, tcp: &'a Tcp, queue: u32) {
        let stop_ns = tcp.stop_ns.min(self.until_ns);
        let by = self.scenario.streams[queue as usize].flow_by;
        for at in 0..tcp.connections {
            let member = if by == FlowBy::FiveTuple { at } else { 0 };
            let flow = flow_hash(stream, member);
            let number = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
            self.connections.push(Connection::new(tcp, stream, flow, stop_ns));
            // Spread over a round trip, so that equal connections are not in step.
            let offset_ns = u128::from(tcp.rtt_ns) * u128::from(at) / u128::from(tcp.connections);
            let offset_ns = u64::try_from(offset_ns).unwrap_or(0);
            self.schedule(tcp.start_ns.saturating_add(offset_ns), Event::Begin(number));
        }
    }

    fn schedule(&mut self, time_ns: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time_ns, self.scheduled, event)));
    }

    /// Runs to the end.
    pub(super) fn run(mut self, feed: &mut dyn Feed) -> Result<End, RunError> {
        let mut next = next_arrival_before(feed, self.until_ns)?;
        loop {
            let event_ns = self.events.peek().map(|event| event.0.0);
            let arrival_ns = next.as_ref().map(|arrival| arrival.time_ns);
            let Some(now_ns) = event_ns.into_iter().chain(arrival_ns).min() else { break };
            self.now_ns = now_ns;
            while let Some(Reverse((_, _, event))) =
                self.events.peek().copied().filter(|event| event.0.0 == now_ns)
            {
                self.events.pop();
                self.handle(event);
            }
            while let Some(arrival) = next.take_if(|arrival| arrival.time_ns == now_ns) {
                self.arrive_from_feed(arrival);
                next = next_arrival_before(feed, self.until_ns)?;
            }
            if !self.decide() {
                break;
            }
            if let Some(error) = self.shared.failed.take() {
                return Err(error.into());
            }
        }
        let waiting = self.hops.iter().map(HopState::waiting).sum();
        self.collect_counts();
        let counts: Vec<SourceCounts> =
            self.streams.into_iter().map(|stream| stream.counts).collect();
        let hops = self.hops.iter().map(|hop| &hop.counts);
        let report = NetworkReport::new(self.scenario, self.network, hops, &counts);
        self.shared.listener.network(report);
        Ok(End { end_ns: self.end_ns, waiting })
    }

    /// Decides at each link that is ready; returns whether the run goes on.
    fn decide(&mut self) -> bool {
        for number in 0..self.hops.len() {
            let hop = &mut self.hops[number];
            if !std::mem::take(&mut hop.is_ready) || hop.is_busy(self.now_ns) {
                continue;
            }
            if self.shared.listener.stop(self.now_ns) {
                return false;
            }
            #[allow(clippy::cast_possible_truncation)]
            let number = number as u16;
            let hop = &mut self.hops[usize::from(number)];
            match hop.decide(number, self.now_ns, &mut self.shared) {
                Some(free_ns) => {
                    self.end_ns = self.end_ns.max(free_ns);
                    self.schedule(free_ns, Event::Free(number));
                }
                None if hop.wake_ns != u64::MAX => {
                    let wake_ns = hop.wake_ns;
                    self.schedule(wake_ns, Event::Wake(number));
                }
                None => {}
            }
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Free(number) => {
                let hop = &mut self.hops[usize::from(number)];
                hop.is_ready = true;
                let delay_ns = hop.delay_ns();
                if let Some(at) = hop.transmitted(&mut self.shared) {
                    self.pass_on(at, delay_ns);
                }
            }
            Event::Wake(number) => {
                let hop = &mut self.hops[usize::from(number)];
                hop.is_ready |= hop.wake_ns <= self.now_ns;
            }
            Event::Arrive(at) => self.queue_at_hop(at as usize),
            Event::Deliver(at) => self.deliver(at as usize),
            Event::Begin(number) => self.begin(number),
            Event::Sender(number) => self.sender_timer(number),
            Event::Receiver(number) => self.receiver_timer(number),
            Event::Request(stream) => self.request(stream),
            Event::Frame(stream) => self.frame(stream),
            Event::Report(stream) => self.report(stream),
        }
    }

    /// Sends a packet of a stream on the way of its direction.
    fn send(&mut self, packet: InFlight) {
        if packet.number.is_some() {
            let stream = StreamId(packet.stream);
            self.shared.listener.arrived(stream, self.now_ns, packet.bytes);
        }
        let at = self.shared.packets.insert(packet);
        self.queue_at_hop(at);
    }

    /// Queues a packet at the next link of its way, or brings it to the end.
    fn queue_at_hop(&mut self, at: usize) {
        let packet = &self.shared.packets[at];
        let route = &self.routes[packet.direction as usize];
        let Some(number) = route.get(usize::from(packet.passed)).copied() else {
            return self.pass_on(at, 0);
        };
        let queue = self.streams[packet.stream as usize].queue;
        let hop = &mut self.hops[usize::from(number)];
        hop.enqueue(number, queue, at, self.now_ns, &mut self.shared);
        hop.is_ready = true;
    }

    /// Sends a packet to its next link or its end, `delay_ns` from now.
    fn pass_on(&mut self, at: usize, delay_ns: u64) {
        let packet = &mut self.shared.packets[at];
        packet.passed = packet.passed.saturating_add(1);
        let has_next = usize::from(packet.passed) < self.routes[packet.direction as usize].len();
        let stream = &self.streams[packet.stream as usize];
        // Fewer packets than 2^32 fit in memory.
        #[allow(clippy::cast_possible_truncation)]
        let key = at as u32;
        let (delay_ns, event) = match (has_next, &packet.content) {
            (true, _) => (delay_ns, Event::Arrive(key)),
            (false, Content::Unanswered) => {
                self.shared.packets.remove(at);
                return;
            }
            (
                false,
                Content::Syn { .. }
                | Content::Data { .. }
                | Content::Media { .. }
                | Content::Request { .. },
            ) => (delay_ns + stream.there_ns, Event::Deliver(key)),
            (false, _) => (delay_ns + stream.back_ns, Event::Deliver(key)),
        };
        if delay_ns == 0 {
            self.handle(event);
        } else {
            self.schedule(self.now_ns.saturating_add(delay_ns), event);
        }
    }

    fn arrive_from_feed(&mut self, arrival: Arrival) {
        let stream = &mut self.streams[arrival.stream as usize];
        let number = stream.sent;
        stream.sent += 1;
        let packet = InFlight {
            stream: arrival.stream,
            connection: 0,
            transfer: 0,
            direction: stream.direction,
            passed: 0,
            bytes: arrival.bytes,
            flow: stream.flow,
            ecn: Ecn::NotCapable,
            number: Some(number),
            entered_ns: self.now_ns,
            queued_ns: self.now_ns,
            content: Content::Unanswered,
            frame: arrival.frame,
        };
        self.send(packet);
    }

    /// Sends a packet of a connection, from its sender or back.
    fn send_of(&mut self, connection: u32, content: Content, bytes: u32) {
        let of = &self.connections[connection as usize];
        let (number, transfer, flow) = (of.stream, of.transfer, of.flow);
        let ecn = match (of.tcp.ecn, of.tcp.control) {
            (false, _) => Ecn::NotCapable,
            (true, CongestionControl::Prague) => Ecn::Scalable,
            (true, _) => Ecn::Capable,
        };
        let ecn = if matches!(content, Content::Data { .. }) { ecn } else { Ecn::NotCapable };
        self.send_content(number, (connection, transfer, flow), content, bytes, ecn);
    }

    fn send_content(
        &mut self,
        number: u32,
        (connection, transfer, flow): (u32, u32, u32),
        content: Content,
        bytes: u32,
        ecn: Ecn,
    ) {
        let stream = &mut self.streams[number as usize];
        let is_back = matches!(
            content,
            Content::SynAck { .. } | Content::Ack(_) | Content::Answer { .. } | Content::Report(_)
        );
        let direction = if is_back { stream.direction.opposite() } else { stream.direction };
        let counted = (!is_back).then(|| {
            stream.sent += 1;
            stream.counts.sent_packets += 1;
            stream.sent - 1
        });
        self.send(InFlight {
            stream: number,
            connection,
            transfer,
            direction,
            passed: 0,
            bytes,
            flow,
            ecn,
            number: counted,
            entered_ns: self.now_ns,
            queued_ns: self.now_ns,
            content,
            frame: None,
        });
    }

    fn begin(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[number as usize];
        if now_ns >= connection.stop_ns {
            return;
        }
        connection.begin(now_ns);
        self.send_of(number, Content::Syn { sent_ns: now_ns }, HANDSHAKE_BYTES);
        self.arm(number);
    }

    fn request(&mut self, number: u32) {
        let Some(echo) = self.streams[number as usize].echo else { return };
        if self.now_ns >= echo.stop_ns.min(self.until_ns) {
            return;
        }
        let (flow, sent_ns) = (self.streams[number as usize].flow, self.now_ns);
        let content = Content::Request { sent_ns };
        self.send_content(number, (0, 0, flow), content, echo.bytes, Ecn::NotCapable);
        self.schedule(self.now_ns.saturating_add(echo.interval_ns), Event::Request(number));
    }

    /// Sends a frame of adaptive video.
    fn frame(&mut self, number: u32) {
        let (now_ns, until_ns) = (self.now_ns, self.until_ns);
        let stream = &mut self.streams[number as usize];
        let flow = (0, 0, stream.flow);
        let Some((ladder, _)) = &mut stream.video else { return };
        let of = ladder.source();
        if now_ns >= of.stop_ns.min(until_ns) {
            return;
        }
        let mut left = ladder.frame_bytes(now_ns);
        let mut next = ladder.next;
        while left > 0 {
            let bytes = u32::try_from(left).unwrap_or(u32::MAX).min(of.bytes);
            left -= u64::from(bytes);
            let content = Content::Media { number: next, sent_ns: now_ns };
            next += 1;
            self.send_content(number, flow, content, bytes, Ecn::NotCapable);
        }
        if let Some((ladder, _)) = &mut self.streams[number as usize].video {
            ladder.next = next;
        }
        self.schedule(now_ns.saturating_add(of.interval_ns), Event::Frame(number));
    }

    /// Sends the report of a receiver of adaptive video.
    fn report(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let flow = (0, 0, stream.flow);
        let Some((ladder, viewer)) = &mut stream.video else { return };
        if self.now_ns >= ladder.source().stop_ns.min(self.until_ns) {
            return;
        }
        let content = Content::Report(viewer.report());
        self.send_content(number, flow, content, REPORT_BYTES, Ecn::NotCapable);
        self.schedule(self.now_ns.saturating_add(REPORT_NS), Event::Report(number));
    }

    fn sender_timer(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[number as usize];
        if connection.sender_event_ns <= now_ns {
            connection.sender_event_ns = u64::MAX;
        }
        if now_ns >= connection.stop_ns {
            return;
        }
        if connection.sender_timer_ns() <= now_ns {
            match connection.state {
                State::Idle => {}
                State::Opening { .. } => {
                    connection.repeat_handshake(now_ns);
                    self.send_of(number, Content::Syn { sent_ns: now_ns }, HANDSHAKE_BYTES);
                }
                State::Open => {
                    connection.sender.timer(now_ns);
                    self.send_data(number);
                }
            }
        }
        self.arm(number);
    }

    fn receiver_timer(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        if connection.receiver_event_ns <= self.now_ns {
            connection.receiver_event_ns = u64::MAX;
        }
        if connection.receiver.due_ns() <= self.now_ns {
            let ack = connection.receiver.acknowledge();
            self.send_of(number, Content::Ack(ack), ack.bytes());
        }
        self.arm(number);
    }

    /// Sends what the window permits.
    fn send_data(&mut self, number: u32) {
        loop {
            let connection = &mut self.connections[number as usize];
            if connection.state != State::Open || self.now_ns >= connection.stop_ns {
                return;
            }
            let Some(packet) = connection.sender.next_packet(self.now_ns) else { return };
            let bytes = connection.tcp.bytes;
            let content = Content::Data { number: packet, sent_ns: self.now_ns };
            self.send_of(number, content, bytes);
        }
    }

    /// Schedules the next timers of a connection, unless earlier ones are scheduled.
    fn arm(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let (sender_ns, receiver_ns) = (connection.sender_timer_ns(), connection.receiver.due_ns());
        let sender = sender_ns < connection.sender_event_ns;
        if sender {
            connection.sender_event_ns = sender_ns;
        }
        let receiver = receiver_ns < connection.receiver_event_ns;
        if receiver {
            connection.receiver_event_ns = receiver_ns;
        }
        if sender {
            self.schedule(sender_ns.max(self.now_ns), Event::Sender(number));
        }
        if receiver {
            self.schedule(receiver_ns.max(self.now_ns), Event::Receiver(number));
        }
    }

    /// Delivers a packet at the end of its way.
    fn deliver(&mut self, at: usize) {
        let packet = self.shared.packets.remove(at);
        let (now_ns, of) = (self.now_ns, packet.connection);
        let counts = &mut self.streams[packet.stream as usize].counts;
        match packet.content {
            Content::Unanswered => {}
            Content::Request { sent_ns } => {
                let content = Content::Answer { sent_ns };
                let flow = (0, 0, packet.flow);
                self.send_content(packet.stream, flow, content, packet.bytes, Ecn::NotCapable);
            }
            Content::Media { number, sent_ns } => {
                counts.delivered_bytes += u64::from(packet.bytes);
                if let Some((_, viewer)) = &mut self.streams[packet.stream as usize].video {
                    viewer.receive(number, now_ns - sent_ns);
                }
            }
            Content::Report(report) => {
                let stream = &mut self.streams[packet.stream as usize];
                if let Some((ladder, _)) = &mut stream.video {
                    let changed = ladder.reported(report, now_ns);
                    stream.counts.rate_changes += u64::from(changed);
                }
            }
            Content::Answer { sent_ns } => {
                counts.rtt.record(now_ns - sent_ns);
                counts.delivered_bytes += u64::from(packet.bytes);
                let stream = StreamId(packet.stream);
                self.shared.listener.round_trip(stream, now_ns, now_ns - sent_ns);
            }
            _ if self.connections[of as usize].transfer != packet.transfer => {}
            Content::Syn { sent_ns } => {
                self.send_of(of, Content::SynAck { sent_ns }, HANDSHAKE_BYTES);
            }
            Content::SynAck { sent_ns } => {
                let connection = &mut self.connections[of as usize];
                if matches!(connection.state, State::Opening { .. }) {
                    connection.state = State::Open;
                    connection.sender.connected(now_ns - sent_ns);
                    self.send_data(of);
                    self.arm(of);
                }
            }
            Content::Data { number, sent_ns } => {
                let marked = packet.ecn == Ecn::Congested;
                counts.marked += u64::from(marked);
                let receiver = &mut self.connections[of as usize].receiver;
                let before = receiver.received();
                let ack = receiver.receive(number, sent_ns, marked, now_ns);
                let new = receiver.received() - before;
                counts.delivered_bytes += u64::from(new) * u64::from(packet.bytes - HEADER_BYTES);
                if let Some(ack) = ack {
                    self.send_of(of, Content::Ack(ack), ack.bytes());
                }
                self.arm(of);
            }
            Content::Ack(ack) => self.acknowledged(of, &ack),
        }
    }

    fn acknowledged(&mut self, number: u32, ack: &Ack) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[number as usize];
        let stream = &mut self.streams[connection.stream as usize];
        if let Some(rtt_ns) = connection.sender.acknowledged(ack, now_ns) {
            stream.counts.rtt.record(rtt_ns);
            let id = StreamId(connection.stream);
            self.shared.listener.round_trip(id, now_ns, rtt_ns);
        }
        if connection.state == State::Open && connection.sender.is_complete() {
            stream.counts.transfers.record(now_ns - connection.began_ns);
            stream.counts.retransmissions += connection.sender.retransmissions;
            stream.counts.timeouts += connection.sender.timeouts;
            connection.state = State::Idle;
            if let Some(pause_ns) = connection.tcp.pause_ns {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_precision_loss,
                    clippy::cast_sign_loss
                )]
                let pause_ns = (stream.random.exponential() * pause_ns as f64) as u64;
                let next_ns = now_ns.saturating_add(pause_ns);
                self.schedule(next_ns, Event::Begin(number));
            }
            return;
        }
        self.send_data(number);
        self.arm(number);
    }

    /// Adds what the unfinished transfers counted.
    fn collect_counts(&mut self) {
        for connection in self.connections.iter().filter(|of| of.state == State::Open) {
            let counts = &mut self.streams[connection.stream as usize].counts;
            counts.retransmissions += connection.sender.retransmissions;
            counts.timeouts += connection.sender.timeouts;
        }
    }
}

/// Returns the hash of a flow: the finaliser of SplitMix64.
fn flow_hash(stream: u32, member: u32) -> u32 {
    let mut bits = u64::from(stream) << 32 | u64::from(member);
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    #[allow(clippy::cast_possible_truncation)]
    let hash = (bits ^ (bits >> 31)) as u32;
    hash
}

/// Returns the next arrival before `until_ns`.
fn next_arrival_before(
    feed: &mut dyn Feed,
    until_ns: u64,
) -> Result<Option<Arrival>, TrafficError> {
    Ok(feed.next_arrival()?.filter(|arrival| arrival.time_ns < until_ns))
}
