//! Two TCP connections, joined: what one end sends, the other gets, as do the ends of what they send.
//!
//! ```text
//! client <── connection by smoltcp ──> [ bytes that wait ] <── connection by smoltcp ──> server
//! ```
//!
//! smoltcp's interface looks at all of its sockets for each packet, so each pair has an interface of its own.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, IpListenEndpoint, IpVersion};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::device::{RxDevice, TxDevice, instant};
use super::segment::Tuple;

/// How long an end may take to shake hands, and a client to say what it wants.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an end of a connection may be silent,
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// and when it is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Hops of packets that are made here; forwarding takes one.
const HOPS: u8 = 65;

/// Where a pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client shakes hands.
    Handshake,
    /// The client is connected, and where to is not known yet.
    ReadingHost,
    /// The server is asked for a connection, or there is one.
    Connected,
    /// Both are over, or being told so.
    Closed,
}

/// What has happened to a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transferred {
    /// Bytes that went to the server,
    pub(super) to_server: u64,
    /// and to the client.
    pub(super) to_client: u64,
    /// One end broke off, and the other is told.
    pub(super) broken: bool,
}

/// What is known of one of the two.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Nothing more will come from there.
    ended: bool,
    /// Nothing more goes there.
    closed: bool,
}

/// A pair of connections, or room for one.
pub(super) struct TcpPair {
    interface: Interface,
    sockets: SocketSet<'static>,
    client: SocketHandle,
    server: SocketHandle,
    ends: [End; 2],
    pub(super) stage: Stage,
    /// How the client's packets are known,
    pub(super) front: Tuple,
    /// and the server's.
    pub(super) back: Option<Tuple>,
    /// It is one of its client's: not any more once it is over but for stragglers.
    pub(super) counted: bool,
    /// Until when the client is to have said what it wants, ns.
    pub(super) host_deadline_ns: u64,
}

/// An address by smoltcp's name.
fn endpoint(of: SocketAddr) -> IpEndpoint {
    IpEndpoint { addr: IpAddress::from(of.ip()), port: of.port() }
}

fn socket(bytes: usize) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; bytes]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_hop_limit(Some(HOPS));
    socket.set_nagle_enabled(false);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn interface(seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut answer = Vec::new();
    let mut wire = RxDevice { packet: None, answer: &mut answer };
    let mut interface = Interface::new(config, &mut wire, instant(0));
    // Where packets go is for the router to say. There is room for two routes.
    let routes = interface.routes_mut();
    let _ = routes.add_default_ipv4_route(Ipv4Addr::LOCALHOST);
    let _ = routes.add_default_ipv6_route(Ipv6Addr::LOCALHOST);
    interface
}

/// The interface has this address, too; there is room for two.
fn add_address(interface: &mut Interface, address: IpAddr) {
    let address = IpAddress::from(address);
    let bits = if address.version() == IpVersion::Ipv4 { 32 } else { 128 };
    interface.update_ip_addrs(|known| {
        if !known.iter().any(|of| of.address() == address) {
            let _ = known.push(IpCidr::new(address, bits));
        }
    });
}

impl TcpPair {
    /// TxSlot for a pair, with four buffers of so many bytes.
    pub(super) fn new(buffer_bytes: u32) -> Self {
        let bytes = buffer_bytes as usize;
        let mut sockets = SocketSet::new(Vec::with_capacity(2));
        let (client, server) = (sockets.add(socket(bytes)), sockets.add(socket(bytes)));
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self {
            interface: interface(0),
            sockets,
            client,
            server,
            ends: [End::default(); 2],
            stage: Stage::Closed,
            front: Tuple { source: nobody, destination: nobody },
            back: None,
            counted: false,
            host_deadline_ns: 0,
        }
    }

    /// Listens for the client whose packets are of `front`; `seed` is like no other, and nobody's guess.
    pub(super) fn listen(&mut self, front: Tuple, seed: u64, now_ns: u64) {
        self.interface = interface(seed);
        add_address(&mut self.interface, front.destination.ip());
        for handle in [self.client, self.server] {
            let socket = self.sockets.get_mut::<Socket>(handle);
            socket.abort();
            socket.set_timeout(Some(HANDSHAKE_TIMEOUT));
            socket.set_keep_alive(None);
        }
        // A socket that was broken off would tell whoever it was connected with; one that listened is nobody's.
        let server = self.sockets.get_mut::<Socket>(self.server);
        let _ = server.listen(1);
        server.close();
        let local = endpoint(front.destination);
        let client = self.sockets.get_mut::<Socket>(self.client);
        // It is closed, and the port is not 0.
        let _ = client.listen(IpListenEndpoint::from(local));
        self.ends = [End::default(); 2];
        self.stage = Stage::Handshake;
        (self.front, self.back, self.counted) = (front, None, true);
        self.host_deadline_ns = now_ns.saturating_add(HANDSHAKE_TIMEOUT.total_micros() * 1_000);
    }

    /// Asks the server for a connection, whose packets are of `back`; `false` if that cannot be.
    pub(super) fn connect(&mut self, back: Tuple) -> bool {
        add_address(&mut self.interface, back.destination.ip());
        let server = self.sockets.get_mut::<Socket>(self.server);
        // What is left of the last connection is nobody's any more.
        server.abort();
        let (remote, local) = (endpoint(back.source), endpoint(back.destination));
        let context = self.interface.context();
        let connects = server.connect(context, remote, IpListenEndpoint::from(local)).is_ok();
        self.back = Some(back);
        self.stage = Stage::Connected;
        let client = self.sockets.get_mut::<Socket>(self.client);
        client.set_timeout(Some(IDLE_TIMEOUT));
        client.set_keep_alive(Some(KEEP_ALIVE));
        connects
    }

    /// An IP packet has come from either end.
    pub(super) fn receive(&mut self, packet: &[u8], now_ns: u64, answer: &mut Vec<u8>) {
        let mut wire = RxDevice { packet: Some(packet), answer };
        self.interface.poll_ingress_single(instant(now_ns), &mut wire, &mut self.sockets);
    }

    /// Sends a packet to each end at most.
    pub(super) fn send(&mut self, out: &mut TxDevice<'_>, now_ns: u64) {
        self.interface.poll_egress(instant(now_ns), out, &mut self.sockets);
    }

    /// When it wants to send, ns; 0 is now.
    pub(super) fn due_ns(&mut self, now_ns: u64) -> u64 {
        let due = self.interface.poll_at(instant(now_ns), &self.sockets);
        due.map_or(u64::MAX, |at| u64::try_from(at.total_micros()).unwrap_or(0) * 1_000)
    }

    /// Whether the client has shaken hands; `None` if it has gone.
    pub(super) fn handshake_done(&self) -> Option<bool> {
        match self.sockets.get::<Socket>(self.client).state() {
            State::SynReceived => Some(false),
            State::Closed | State::Listen | State::TimeWait => None,
            _ => Some(true),
        }
    }

    /// What the client has said, and whether it can say no more.
    pub(super) fn said(&mut self) -> (&[u8], bool) {
        let client = self.sockets.get_mut::<Socket>(self.client);
        let last = !client.may_recv() || client.recv_queue() == client.recv_capacity();
        let last = last || !matches!(client.state(), State::Established);
        (client.peek(usize::MAX).unwrap_or_default(), last)
    }

    /// Breaks off whatever there is.
    pub(super) fn abort(&mut self) {
        for handle in [self.client, self.server] {
            self.sockets.get_mut::<Socket>(handle).abort();
        }
        self.stage = Stage::Closed;
    }

    /// Moves bytes, and their ends, from each to the other.
    pub(super) fn pump(&mut self) -> Transferred {
        let mut transferred = Transferred::default();
        if self.stage != Stage::Connected {
            return transferred;
        }
        transferred.to_server = self.pump_one(0);
        transferred.to_client = self.pump_one(1);
        if self.sockets.get::<Socket>(self.server).state() == State::Established {
            let server = self.sockets.get_mut::<Socket>(self.server);
            server.set_timeout(Some(IDLE_TIMEOUT));
            server.set_keep_alive(Some(KEEP_ALIVE));
        }
        let closed = [self.client, self.server].map(|handle| {
            let state = self.sockets.get::<Socket>(handle).state();
            (state == State::Closed, state == State::TimeWait)
        });
        let is_done = |at: usize| self.ends[at].ended && self.ends[at].closed;
        if (0..2).any(|at| closed[at].0 && !is_done(at)) {
            self.abort();
            transferred.broken = true;
        } else if (0..2).all(|at| closed[at].0 || closed[at].1) {
            self.stage = Stage::Closed;
        }
        transferred
    }

    /// From the client (0) to the server, or from the server (1) to the client; returns how many bytes.
    fn pump_one(&mut self, at: usize) -> u64 {
        let (from, to) =
            if at == 0 { (self.client, self.server) } else { (self.server, self.client) };
        let mut count = 0;
        let mut bytes = [0; 4_096];
        // What waits may lie in two parts, as may the room for it.
        for _ in 0..4 {
            // Both are borrowed from one set, so bytes go by way of a small copy.
            let room = {
                let to = self.sockets.get::<Socket>(to);
                if to.can_send() { to.send_capacity() - to.send_queue() } else { 0 }
            };
            let limit = bytes.len().min(room);
            let from = self.sockets.get_mut::<Socket>(from);
            let length = from.recv_slice(&mut bytes[..limit]).unwrap_or(0);
            if length == 0 {
                break;
            }
            let to = self.sockets.get_mut::<Socket>(to);
            count += to.send_slice(&bytes[..length]).unwrap_or(0) as u64;
        }
        let of = self.sockets.get::<Socket>(from);
        // It has sent its last byte, and that was taken.
        self.ends[at].ended |= matches!(
            of.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait
        );
        let all = self.ends[at].ended && of.recv_queue() == 0;
        let to_state = self.sockets.get::<Socket>(to).state();
        // A connection that is being asked for cannot end yet.
        if all && !self.ends[1 - at].closed && to_state != State::SynSent {
            self.sockets.get_mut::<Socket>(to).close();
            self.ends[1 - at].closed = true;
        }
        count
    }

    /// Whether nothing is left to be said to either end.
    pub(super) fn is_closed(&self) -> bool {
        let socket = |handle| self.sockets.get::<Socket>(handle);
        [self.client, self.server]
            .into_iter()
            .all(|handle| socket(handle).local_endpoint().is_none())
    }
}
