//! The events of a network in the order of time, and the way of packets by its links.

mod endpoints;
mod pages;
mod transfers;

use millstream::StreamId;
use millstream::aqm::Ecn;
use millstream::flow_queue::Flow;
use millstream_scenario::{Direction, Echo, FlowBy, Network, Scenario, Source, Tcp, Web};
use millstream_traffic::{Arrival, Feed, Random};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::adaptive::{Ladder, REPORT_NS, Viewer};
use super::connection::Connection;
use super::hop::{HopState, Shared};
use super::packets::{Content, InFlight};
use super::report::{NetworkReport, SourceCounts};
use crate::link::{End, Listener, RunError, next_before};
use pages::Client;
use transfers::OpenTransfers;

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
    /// A transfer of a stream begins, whatever the others do.
    Offer(u32),
    /// A client begins a page.
    Page(u32),
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
pub(super) struct Simulation<'a> {
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
    shared: Shared<'a>,
    connections: Vec<Connection<'a>>,
    clients: Vec<Client<'a>>,
    streams: Vec<StreamState<'a>>,
}

/// A stream of the network.
struct StreamState<'a> {
    direction: Direction,
    /// The stream of the schedulers that has its packets.
    queue: StreamId,
    echo: Option<&'a Echo>,
    /// The transfers that do not wait for others.
    open: Option<OpenTransfers<'a>>,
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

impl<'a> Simulation<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        network: &'a Network,
        listener: &'a mut dyn Listener,
    ) -> Self {
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
            clients: Vec::new(),
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
            Source::Web(web) => (web.tcp.rtt_ns, None, None),
            Source::Echo(echo) => (echo.rtt_ns, Some(echo), None),
            Source::Adaptive(of) => (of.rtt_ns, None, Some((Ladder::new(of), Viewer::default()))),
            _ => (0, None, None),
        };
        let open = match &stream.source {
            Source::Tcp(tcp) => OpenTransfers::new(tcp, self.until_ns),
            _ => None,
        };
        self.streams.push(StreamState {
            direction: stream.direction,
            queue: StreamId(queue),
            echo,
            open,
            video,
            there_ns: rtt_ns / 2,
            back_ns: rtt_ns - rtt_ns / 2,
            flow: flow_hash(number, 0),
            sent: 0,
            random: Random::new(self.scenario.seed, u64::from(number)),
            counts: SourceCounts::default(),
        });
        match &stream.source {
            Source::Tcp(tcp) => self.add_connections(number, tcp),
            Source::Web(web) => self.add_clients(number, web),
            Source::Echo(echo) => self.schedule(echo.start_ns, Event::Request(number)),
            Source::Adaptive(of) => {
                self.schedule(of.start_ns, Event::Frame(number));
                self.schedule(of.start_ns.saturating_add(REPORT_NS), Event::Report(number));
            }
            _ => {}
        }
    }

    /// Adds a connection, number `member` of its stream; returns its number.
    fn add_connection(
        &mut self,
        stream: u32,
        tcp: &'a Tcp,
        member: u32,
        client: Option<u32>,
    ) -> u32 {
        let stop_ns = tcp.stop_ns.min(self.until_ns);
        let queue = self.streams[stream as usize].queue.0;
        let by = self.scenario.streams[queue as usize].flow_by;
        let flow = flow_hash(stream, if by == FlowBy::FiveTuple { member } else { 0 });
        let number = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let seed = self.scenario.seed.wrapping_add(u64::from(flow_hash(stream, member)) << 32);
        self.connections.push(Connection::new(tcp, stream, (flow, seed), stop_ns, client));
        number
    }

    fn add_connections(&mut self, stream: u32, tcp: &'a Tcp) {
        let state = &mut self.streams[stream as usize];
        if let Some(open) = &state.open {
            let first_ns = tcp.start_ns.saturating_add(open.gap_ns(&mut state.random));
            self.schedule(first_ns, Event::Offer(stream));
            return;
        }
        for at in 0..tcp.connections {
            let number = self.add_connection(stream, tcp, at, None);
            self.connections[number as usize].member = at;
            // Spread over a round trip, so that equal connections are not in step.
            let offset_ns = u128::from(tcp.rtt_ns) * u128::from(at) / u128::from(tcp.connections);
            let offset_ns = u64::try_from(offset_ns).unwrap_or(0);
            self.schedule(tcp.start_ns.saturating_add(offset_ns), Event::Begin(number));
        }
    }

    fn add_clients(&mut self, stream: u32, web: &'a Web) {
        let connections = Client::most_connections(web);
        for at in 0..web.clients {
            let number = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
            let first = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
            for member in 0..connections {
                self.add_connection(stream, &web.tcp, at * connections + member, Some(number));
            }
            let connections = first..first + connections;
            self.clients.push(Client::new(web, stream, at, connections, self.scenario.seed));
            self.schedule(Client::first_page_ns(web, at), Event::Page(number));
        }
    }

    fn schedule(&mut self, time_ns: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time_ns, self.scheduled, event)));
    }

    /// Runs to the end.
    pub(super) fn run(mut self, feed: &mut dyn Feed) -> Result<End, RunError> {
        let mut next = None;
        next_before(feed, self.until_ns, &mut next)?;
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
                next_before(feed, self.until_ns, &mut next)?;
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
            Event::Offer(stream) => self.offer(stream),
            Event::Page(client) => self.page(client),
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
        let (delay_ns, event) = match &packet.content {
            _ if has_next => (delay_ns, Event::Arrive(key)),
            Content::Unanswered => {
                self.shared.packets.remove(at);
                return;
            }
            content if content.is_back() => (delay_ns + stream.back_ns, Event::Deliver(key)),
            _ => (delay_ns + stream.there_ns, Event::Deliver(key)),
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
        let of_source = Flow { hash: stream.flow, host: arrival.stream, ecn: Ecn::NotCapable };
        let packet = InFlight {
            stream: arrival.stream,
            connection: 0,
            transfer: 0,
            direction: stream.direction,
            passed: 0,
            bytes: arrival.bytes,
            flow: arrival.flow.unwrap_or(of_source),
            number: Some(number),
            entered_ns: self.now_ns,
            queued_ns: self.now_ns,
            content: Content::Unanswered,
            frame: arrival.frame,
        };
        self.send(packet);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `check` bounds flows in a queue of up to 8, which each need a hash of their own.
    #[test]
    fn flows_of_many_streams_have_different_hashes() {
        let hashes: BTreeSet<_> =
            (0..8 * 1_024).map(|flow| flow_hash(flow / 8, flow % 8)).collect();
        assert_eq!(hashes.len(), 8 * 1_024);
    }
}
