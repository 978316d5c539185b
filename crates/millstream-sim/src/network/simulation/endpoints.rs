//! The senders and receivers at the ends of a network.

use millstream::StreamId;
use millstream::aqm::Ecn;
use millstream_scenario::{Adaptive, CongestionControl, Tcp};

use super::{Event, Simulation};
use crate::link::Listener;
use crate::network::adaptive::REPORT_NS;
use crate::network::connection::State;
use crate::network::packets::{Content, InFlight};
use crate::network::receiver::Ack;

/// The length of a packet that opens a connection, bytes: IPv4 and TCP with its options.
const HANDSHAKE_BYTES: u32 = 60;
impl<L: Listener> Simulation<'_, L> {
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
            flow,
            ecn,
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
        let connection = &mut self.connections[number as usize];
        if now_ns >= connection.stop_ns {
            return;
        }
        connection.begin(now_ns);
        self.send_of(number, Content::Syn { sent_ns: now_ns }, HANDSHAKE_BYTES);
        self.arm(number);
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
    pub(super) fn deliver(&mut self, at: usize) {
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
                counts.delivered_bytes +=
                    u64::from(new) * u64::from(packet.bytes - Tcp::HEADER_BYTES);
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
            stream.counts.add_transfer(&connection.sender);
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
    pub(super) fn collect_counts(&mut self) {
        for connection in self.connections.iter().filter(|of| of.state == State::Open) {
            let counts = &mut self.streams[connection.stream as usize].counts;
            counts.add_transfer(&connection.sender);
        }
    }
}
