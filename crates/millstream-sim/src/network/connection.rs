//! A TCP connection: its sender, its receiver, and its transfers.
//!
//! The data of a transfer is one object, or, for a client that loads pages, several objects one
//! after another. The last packet of an object has its rest; all others are full.

use millstream_scenario::Tcp;

use super::receiver::Receiver;
use super::round_trip::RoundTrip;
use super::sender::Sender;

/// The first timeout of a handshake, ns (RFC 6298, section 2).
const HANDSHAKE_TIMEOUT_NS: u64 = 1_000_000_000;

/// Whether data can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No transfer is under way.
    Idle,
    /// The handshake is repeated at `timeout_ns`, after `waited_ns` more each time.
    Opening { timeout_ns: u64, waited_ns: u64 },
    /// Data flows.
    Open,
}

/// One connection of a `tcp` source.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    pub(super) tcp: &'a Tcp,
    pub(super) stream: u32,
    /// Its number in the stream; 0 for connections that are used in turn.
    pub(super) member: u32,
    /// The hash of its flow.
    pub(super) flow: u32,
    /// The seed of the random times of its transfers.
    seed: u64,
    /// The number of the present transfer; packets of others are stale.
    pub(super) transfer: u32,
    pub(super) state: State,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// The packet after the last of each object, and the data of that last packet, bytes. Empty:
    /// data without end.
    objects: Vec<(u32, u32)>,
    /// The size of the transfer, bytes.
    pub(super) size_bytes: u64,
    /// When the transfer began, ns; with a wait for a connection, before its handshake.
    pub(super) began_ns: u64,
    /// The client that requests the objects; `None`: the sender opens the connection.
    pub(super) client: Option<u32>,
    pub(super) request: Request,
    /// When its sender stops, ns.
    pub(super) stop_ns: u64,
    /// The earliest events that are scheduled for its sender and its receiver, ns.
    pub(super) sender_event_ns: u64,
    /// See `sender_event_ns`.
    pub(super) receiver_event_ns: u64,
}

/// The present request of a client.
#[derive(Debug)]
pub(super) struct Request {
    /// Whether the object has not arrived completely.
    pub(super) is_open: bool,
    /// When the request is repeated, ns; `u64::MAX`: data has arrived.
    pub(super) due_ns: u64,
    /// The round-trip time that the client has measured.
    pub(super) times: RoundTrip,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        tcp: &'a Tcp,
        stream: u32,
        (flow, seed): (u32, u64),
        stop_ns: u64,
        client: Option<u32>,
    ) -> Self {
        Self {
            tcp,
            stream,
            member: 0,
            flow,
            seed,
            transfer: 0,
            state: State::Idle,
            sender: Sender::new(tcp, 0, seed),
            receiver: Receiver::new(tcp.ack_every),
            objects: Vec::new(),
            size_bytes: 0,
            began_ns: 0,
            client,
            request: Request {
                is_open: false,
                due_ns: u64::MAX,
                times: RoundTrip::new(tcp.min_rto_ns),
            },
            stop_ns,
            sender_event_ns: u64::MAX,
            receiver_event_ns: u64::MAX,
        }
    }

    /// Begins a transfer of `bytes` at `now_ns` with a handshake; `None`: without end.
    pub(super) fn begin(&mut self, now_ns: u64, bytes: Option<u64>) {
        self.transfer += 1;
        self.objects.clear();
        self.size_bytes = bytes.unwrap_or(0);
        let end = bytes.map_or(u32::MAX, |bytes| self.add_object(bytes));
        // A client requests each object, and the server sends no packet before.
        let end = if self.client.is_some() { 0 } else { end };
        self.sender = Sender::new(self.tcp, end, self.seed.wrapping_add(self.transfer.into()));
        self.receiver = Receiver::new(self.tcp.ack_every);
        self.request.times = RoundTrip::new(self.tcp.min_rto_ns);
        self.began_ns = now_ns;
        let waited_ns = HANDSHAKE_TIMEOUT_NS;
        self.state = State::Opening { timeout_ns: now_ns + waited_ns, waited_ns };
    }

    /// Adds an object of `bytes`; returns the number of the packet after its last.
    pub(super) fn add_object(&mut self, bytes: u64) -> u32 {
        let segment_bytes = self.tcp.segment_bytes();
        let packets = bytes.div_ceil(segment_bytes.into()).max(1);
        let rest = bytes.saturating_sub((packets - 1) * u64::from(segment_bytes));
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let end = self.end().saturating_add(packets);
        self.objects.push((end, u32::try_from(rest).unwrap_or(segment_bytes)));
        end
    }

    /// Returns the number of the packet after the last object; 0 without one.
    pub(super) fn end(&self) -> u32 {
        self.objects.last().map_or(0, |object| object.0)
    }

    /// Returns the number of the first packet of the last object.
    pub(super) fn start(&self) -> u32 {
        self.objects.iter().nth_back(1).map_or(0, |object| object.0)
    }

    /// Returns the length of a data packet with its headers, bytes.
    pub(super) fn packet_bytes(&self, number: u32) -> u32 {
        let at = self.objects.partition_point(|object| object.0 <= number);
        match self.objects.get(at) {
            Some((end, rest)) if number + 1 == *end => rest + Tcp::HEADER_BYTES,
            _ => self.tcp.bytes,
        }
    }

    /// Returns whether the receiver has an object completely, and nothing after it.
    pub(super) fn is_at_end(&self) -> bool {
        let expected = self.receiver.expected();
        self.objects.binary_search_by_key(&expected, |object| object.0).is_ok()
    }

    /// Repeats the handshake at `now_ns`.
    pub(super) fn repeat_handshake(&mut self, now_ns: u64) {
        if let State::Opening { timeout_ns, waited_ns } = &mut self.state {
            *waited_ns = waited_ns.saturating_mul(2);
            *timeout_ns = now_ns.saturating_add(*waited_ns);
        }
    }

    /// Returns when its sender must act if nothing arrives, ns; `u64::MAX`: never.
    pub(super) fn sender_timer_ns(&self) -> u64 {
        match self.state {
            State::Idle => u64::MAX,
            State::Opening { timeout_ns, .. } => timeout_ns,
            State::Open => self.sender.timer_ns().min(self.request.due_ns),
        }
    }
}
