//! A TCP connection: its sender, its receiver, and its transfers.

use millstream_scenario::Tcp;

use super::receiver::Receiver;
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
    /// The hash of its flow.
    pub(super) flow: u32,
    /// The number of the present transfer; packets of others are stale.
    pub(super) transfer: u32,
    pub(super) state: State,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// When the transfer began, ns.
    pub(super) began_ns: u64,
    /// When its sender stops, ns.
    pub(super) stop_ns: u64,
    /// The earliest events that are scheduled for its sender and its receiver, ns.
    pub(super) sender_event_ns: u64,
    /// See `sender_event_ns`.
    pub(super) receiver_event_ns: u64,
}

impl<'a> Connection<'a> {
    pub(super) fn new(tcp: &'a Tcp, stream: u32, flow: u32, stop_ns: u64) -> Self {
        Self {
            tcp,
            stream,
            flow,
            transfer: 0,
            state: State::Idle,
            sender: Sender::new(tcp),
            receiver: Receiver::new(tcp.ack_every),
            began_ns: 0,
            stop_ns,
            sender_event_ns: u64::MAX,
            receiver_event_ns: u64::MAX,
        }
    }

    /// Begins a transfer at `now_ns` with a handshake.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.transfer += 1;
        self.sender = Sender::new(self.tcp);
        self.receiver = Receiver::new(self.tcp.ack_every);
        self.began_ns = now_ns;
        let waited_ns = HANDSHAKE_TIMEOUT_NS;
        self.state = State::Opening { timeout_ns: now_ns + waited_ns, waited_ns };
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
            State::Open => self.sender.timer_ns(),
        }
    }
}
