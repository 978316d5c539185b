//! The senders and receivers at the ends of a network.

use millstream::StreamId;
use millstream::aqm::Ecn;
use millstream::flow_queue::Flow;
use millstream_scenario::{Adaptive, CongestionControl, Tcp};

use super::transfers::Admission;
use super::{Event, Simulation};
use crate::network::adaptive::REPORT_NS;
use crate::network::connection::State;
use crate::network::packets::{Content, InFlight};
use crate::network::receiver::Ack;

/// The length of a packet that opens a connection, bytes: IPv4 and TCP with its options.
const HANDSHAKE_BYTES: u32 = 60;

impl Simulation<'_> {
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
        let is_back = content.is_back();
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
            // Each source is a host.
            flow: Flow { hash: flow, host: number, ecn },
            number: counted,
            entered_ns: self.now_ns,
            queued_ns: self.now_ns,
            content,
            frame: None,
        });
    }

    /// Begins a transfer of a connection.
    pub(super) fn begin(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let connection = &self.connections[number as usize];
        if now_ns >= connection.stop_ns {
            return;
        }
        let stream = &mut self.streams[connection.stream as usize];
        let bytes = connection.tcp.transfer.as_ref().map(|sizes| sizes.draw(&mut stream.random));
        stream.counts.offered += 1;
        self.connect(number, bytes);
    }

    /// Sends the first packet of a connection's handshake.
    fn handshake(&mut self, number: u32) {
        let sent_ns = self.now_ns;
        let is_client = self.connections[number as usize].client.is_some();
        let content = if is_client { Content::Open { sent_ns } } else { Content::Syn { sent_ns } };
        self.send_of(number, content, HANDSHAKE_BYTES);
    }

    /// Begins a transfer of a stream, or lets it wait for a connection.
    pub(super) fn offer(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let stream = &mut self.streams[number as usize];
        let Some(open) = &mut stream.open else { return };
        let Some(bytes) = open.size(now_ns, &mut stream.random) else { return };
        let next_ns = now_ns.saturating_add(open.gap_ns(&mut stream.random));
        let tcp = open.tcp();
        stream.counts.offered += 1;
        match open.admit(now_ns, bytes) {
            Admission::Idle(connection) => self.begin_offered(connection, (now_ns, bytes)),
            Admission::New(member) => {
                let connection = self.add_connection(number, tcp, member, None);
                self.begin_offered(connection, (now_ns, bytes));
            }
            Admission::Waits => stream.counts.waited += 1,
        }
        self.schedule(next_ns, Event::Offer(number));
    }

    /// Begins a transfer of this time and size on a connection that is free.
    fn begin_offered(&mut self, number: u32, (began_ns, bytes): (u64, u64)) {
        self.connect(number, Some(bytes));
        self.connections[number as usize].began_ns = began_ns;
    }

    /// Begins a page of a client.
    pub(super) fn page(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        if self.now_ns >= client.web().tcp.stop_ns.min(self.until_ns) {
            return;
        }
        let html = client.begin(self.now_ns);
        self.streams[client.stream() as usize].counts.offered += 1;
        let first = client.connections().start;
        self.connect(first, Some(html));
    }

    /// Opens a connection for `bytes`, or for data without end.
    fn connect(&mut self, number: u32, bytes: Option<u64>) {
        self.connections[number as usize].begin(self.now_ns, bytes);
        self.handshake(number);
        self.arm(number);
    }

    /// Ends the handshake of a client that began at `sent_ns`.
    fn opened(&mut self, number: u32, sent_ns: u64, answered_ns: u64) {
        let connection = &mut self.connections[number as usize];
        if matches!(connection.state, State::Opening { .. }) {
            connection.state = State::Open;
            connection.request.times.add(self.now_ns - sent_ns);
            self.get(number, Some(answered_ns));
            self.arm(number);
        }
    }

    /// Sends the request of a connection's last object.
    fn get(&mut self, number: u32, answered_ns: Option<u64>) {
        let connection = &mut self.connections[number as usize];
        let Some(client) = connection.client else { return };
        let request = &mut connection.request;
        if self.now_ns >= connection.stop_ns {
            request.due_ns = u64::MAX;
            return;
        }
        request.is_open = true;
        request.due_ns = self.now_ns.saturating_add(request.times.timeout_ns());
        let content = Content::Get { end: connection.end(), answered_ns };
        let bytes = self.clients[client as usize].web().request_bytes;
        self.send_of(number, content, bytes);
    }

    /// Serves the request of all packets below `end`.
    fn requested(&mut self, number: u32, end: u32, answered_ns: Option<u64>) {
        let sender = &mut self.connections[number as usize].sender;
        sender.extend(end);
        if let Some(answered_ns) = answered_ns {
            sender.connected(self.now_ns - answered_ns, self.now_ns);
        }
        self.send_data(number);
        self.arm(number);
    }

    /// Continues the page of a client that has got data packet `packet`.
    fn data_arrived(&mut self, number: u32, at: u32, packet: u32) {
        let connection = &mut self.connections[number as usize];
        if packet >= connection.start() {
            connection.request.due_ns = u64::MAX;
        }
        if !connection.request.is_open || connection.receiver.expected() < connection.end() {
            return;
        }
        connection.request.is_open = false;
        let client = &mut self.clients[at as usize];
        let was_first = client.arrived();
        if let Some(bytes) = client.next_object() {
            connection.add_object(bytes);
            self.get(number, None);
            self.arm(number);
        }
        let others = if was_first { self.clients[at as usize].connections() } else { 0..0 };
        for other in others.skip(1) {
            if let Some(bytes) = self.clients[at as usize].next_object() {
                self.connect(other, Some(bytes));
            }
        }
        self.end_page(at);
    }

    /// Ends the page of a client if it has arrived completely.
    fn end_page(&mut self, at: u32) {
        let client = &mut self.clients[at as usize];
        let Some(load_ns) = client.load_ns(self.now_ns) else { return };
        let counts = &mut self.streams[client.stream() as usize].counts;
        counts.pages.record(load_ns);
        for number in client.connections() {
            let connection = &mut self.connections[number as usize];
            if connection.state == State::Open {
                counts.add_transfer(&connection.sender);
            }
            connection.state = State::Idle;
        }
        let next_ns = self.now_ns.saturating_add(client.pause_ns());
        self.schedule(next_ns, Event::Page(at));
    }

    /// Sends a request of an echo source.
    pub(super) fn request(&mut self, number: u32) {
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
    pub(super) fn frame(&mut self, number: u32) {
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
    pub(super) fn report(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let flow = (0, 0, stream.flow);
        let Some((ladder, viewer)) = &mut stream.video else { return };
        if self.now_ns >= ladder.source().stop_ns.min(self.until_ns) {
            return;
        }
        let content = Content::Report(viewer.report());
        self.send_content(number, flow, content, Adaptive::REPORT_BYTES, Ecn::NotCapable);
        self.schedule(self.now_ns.saturating_add(REPORT_NS), Event::Report(number));
    }

    /// Acts on a timer of a connection's sender.
    pub(super) fn sender_timer(&mut self, number: u32) {
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
                    self.handshake(number);
                }
                State::Open => {
                    connection.sender.timer(now_ns);
                    if connection.request.due_ns <= now_ns {
                        connection.request.times.back_off();
                        self.get(number, None);
                    }
                    self.send_data(number);
                }
            }
        }
        self.arm(number);
    }

    /// Acts on a timer of a connection's receiver.
    pub(super) fn receiver_timer(&mut self, number: u32) {
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
            let bytes = connection.packet_bytes(packet);
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
    pub(super) fn deliver(&mut self, at: usize) {
        let packet = self.shared.packets.remove(at);
        let (now_ns, of) = (self.now_ns, packet.connection);
        let counts = &mut self.streams[packet.stream as usize].counts;
        match packet.content {
            Content::Unanswered => {}
            Content::Request { sent_ns } => {
                let content = Content::Answer { sent_ns };
                let flow = (0, 0, packet.flow.hash);
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
                    connection.sender.connected(now_ns - sent_ns, now_ns);
                    self.send_data(of);
                    self.arm(of);
                }
            }
            Content::Open { sent_ns } => {
                let content = Content::Opened { sent_ns, answered_ns: now_ns };
                self.send_of(of, content, HANDSHAKE_BYTES);
            }
            Content::Opened { sent_ns, answered_ns } => self.opened(of, sent_ns, answered_ns),
            Content::Get { end, answered_ns } => self.requested(of, end, answered_ns),
            Content::Data { number, sent_ns } => {
                let marked = packet.flow.ecn == Ecn::Congested;
                counts.marked += u64::from(marked);
                let connection = &mut self.connections[of as usize];
                let before = connection.receiver.received();
                let mut ack = connection.receiver.receive(number, sent_ns, marked, now_ns);
                let new = connection.receiver.received() - before;
                // No other packet follows for which the acknowledgement could wait.
                if connection.receiver.has_unacknowledged() && connection.is_at_end() {
                    ack = Some(connection.receiver.acknowledge());
                }
                let new_bytes = u64::from(new) * u64::from(packet.bytes - Tcp::HEADER_BYTES);
                counts.delivered_bytes += new_bytes;
                if new > 0 {
                    let (id, member) = (StreamId(connection.stream), connection.member);
                    self.shared.listener.delivered(id, member, now_ns, new_bytes);
                }
                if let Some(ack) = ack {
                    self.send_of(of, Content::Ack(ack), ack.bytes());
                }
                self.arm(of);
                if let Some(client) = self.connections[of as usize].client {
                    self.data_arrived(of, client, number);
                }
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
        let is_server = connection.client.is_some();
        if connection.state == State::Open && !is_server && connection.sender.is_complete() {
            stream.counts.completed(connection.size_bytes, now_ns - connection.began_ns);
            stream.counts.add_transfer(&connection.sender);
            connection.state = State::Idle;
            if let Some(open) = &mut stream.open {
                if let Some(next) = open.released(number, now_ns) {
                    self.begin_offered(number, next);
                }
            } else if let Some(pause_ns) = connection.tcp.pause_ns {
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
    pub(super) fn collect_counts(&mut self) {
        for connection in self.connections.iter().filter(|of| of.state == State::Open) {
            let counts = &mut self.streams[connection.stream as usize].counts;
            counts.add_transfer(&connection.sender);
        }
    }
}
