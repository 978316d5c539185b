//! Two TCP connections whose byte streams, and their ends, are copied to each other.
//!
//! ```text
//! client <── connection (smoltcp) ──> [ buffers ] <── connection (smoltcp) ──> server
//! ```
//!
//! A smoltcp interface scans all its sockets per packet, so each pair has its own interface.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint, IpListenEndpoint, IpVersion};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::device::{RxDevice, TxDevice, instant};
use super::segment::Tuple;

/// Timeout of a handshake, and of a client to send the host name.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of keep-alive probes.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// TTL or hop limit; forwarding decrements it once.
const HOPS: u8 = 65;

/// State of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client's handshake is in progress.
    Handshake,
    /// The client is connected; the server is not chosen yet.
    ReadingHost,
    /// The connection to the server is being opened, or is open.
    Connected,
    /// Both connections are closed or closing.
    Closed,
}

/// Result of moving bytes between the two connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transferred {
    /// Bytes moved to the server.
    pub(super) to_server: u64,
    /// Bytes moved to the client.
    pub(super) to_client: u64,
    /// Whether one end reset its connection, which resets the other.
    pub(super) broken: bool,
}

/// State of one of the two connections.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Whether the peer has sent FIN.
    ended: bool,
    /// Whether the proxy has sent FIN.
    closed: bool,
}

/// A pair of connections, or an unused slot.
pub(super) struct TcpPair {
    interface: Interface,
    sockets: SocketSet<'static>,
    client: SocketHandle,
    server: SocketHandle,
    ends: [End; 2],
    pub(super) stage: Stage,
    /// Tuple of the client's packets.
    pub(super) client_tuple: Tuple,
    /// Tuple of the server's packets.
    pub(super) server_tuple: Option<Tuple>,
    /// Whether the pair counts towards its client's limit; not in TIME-WAIT.
    pub(super) counted: bool,
    /// Deadline for the host name, ns.
    pub(super) host_deadline_ns: u64,
}

/// Converts to smoltcp's endpoint type.
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
    let mut reply = Vec::new();
    let mut wire = RxDevice { packet: None, reply: &mut reply };
    let mut interface = Interface::new(config, &mut wire, instant(0));
    // The router does the routing, so any gateway works. smoltcp has room for two routes.
    let routes = interface.routes_mut();
    let _ = routes.add_default_ipv4_route(Ipv4Addr::LOCALHOST);
    let _ = routes.add_default_ipv6_route(Ipv6Addr::LOCALHOST);
    interface
}

/// Adds `address` to the interface, which has room for two.
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
    /// Creates an unused pair with four buffers of `buffer_bytes` bytes.
    pub(super) fn new(buffer_bytes: u32) -> Self {
        let bytes = buffer_bytes as usize;
        let mut sockets = SocketSet::new(Vec::with_capacity(2));
        let (client, server) = (sockets.add(socket(bytes)), sockets.add(socket(bytes)));
        let unset = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self {
            interface: interface(0),
            sockets,
            client,
            server,
            ends: [End::default(); 2],
            stage: Stage::Closed,
            client_tuple: Tuple { source: unset, destination: unset },
            server_tuple: None,
            counted: false,
            host_deadline_ns: 0,
        }
    }

    /// Listens for the client of `client_tuple`. `seed` must be unique and unpredictable.
    pub(super) fn listen(&mut self, client_tuple: Tuple, seed: u64, now_ns: u64) {
        self.interface = interface(seed);
        add_address(&mut self.interface, client_tuple.destination.ip());
        for handle in [self.client, self.server] {
            let socket = self.sockets.get_mut::<Socket>(handle);
            socket.abort();
            socket.set_timeout(Some(HANDSHAKE_TIMEOUT));
            socket.set_keep_alive(None);
        }
        // An aborted socket would send RST to its last peer; listening makes it forget the peer.
        let server = self.sockets.get_mut::<Socket>(self.server);
        let _ = server.listen(1);
        server.close();
        let local = endpoint(client_tuple.destination);
        let client = self.sockets.get_mut::<Socket>(self.client);
        // Listening succeeds on a closed socket and a non-zero port.
        let _ = client.listen(IpListenEndpoint::from(local));
        self.ends = [End::default(); 2];
        self.stage = Stage::Handshake;
        (self.client_tuple, self.server_tuple, self.counted) = (client_tuple, None, true);
        self.host_deadline_ns = now_ns.saturating_add(HANDSHAKE_TIMEOUT.total_micros() * 1_000);
    }

    /// Connects to the server; its packets have `server_tuple`. Returns `false` on failure.
    pub(super) fn connect(&mut self, server_tuple: Tuple) -> bool {
        add_address(&mut self.interface, server_tuple.destination.ip());
        let server = self.sockets.get_mut::<Socket>(self.server);
        // Drops the state of the previous connection.
        server.abort();
        let (remote, local) = (endpoint(server_tuple.source), endpoint(server_tuple.destination));
        let context = self.interface.context();
        let connects = server.connect(context, remote, IpListenEndpoint::from(local)).is_ok();
        self.server_tuple = Some(server_tuple);
        self.stage = Stage::Connected;
        let client = self.sockets.get_mut::<Socket>(self.client);
        client.set_timeout(Some(IDLE_TIMEOUT));
        client.set_keep_alive(Some(KEEP_ALIVE));
        connects
    }

    /// Processes an IP packet from either end.
    pub(super) fn receive(&mut self, packet: &[u8], now_ns: u64, reply: &mut Vec<u8>) {
        let mut wire = RxDevice { packet: Some(packet), reply };
        self.interface.poll_ingress_single(instant(now_ns), &mut wire, &mut self.sockets);
    }

    /// Sends at most one packet to each end.
    pub(super) fn send(&mut self, out: &mut TxDevice<'_>, now_ns: u64) {
        self.interface.poll_egress(instant(now_ns), out, &mut self.sockets);
    }

    /// Returns when the pair must send, ns; 0 means now.
    pub(super) fn due_ns(&mut self, now_ns: u64) -> u64 {
        let due = self.interface.poll_at(instant(now_ns), &self.sockets);
        due.map_or(u64::MAX, |at| u64::try_from(at.total_micros()).unwrap_or(0) * 1_000)
    }

    /// Returns whether the client's handshake is complete; `None` if the client has left.
    pub(super) fn handshake_done(&self) -> Option<bool> {
        match self.sockets.get::<Socket>(self.client).state() {
            State::SynReceived => Some(false),
            State::Closed | State::Listen | State::TimeWait => None,
            _ => Some(true),
        }
    }

    /// Returns the client's first bytes, and whether no more can follow.
    pub(super) fn first_bytes(&mut self) -> (&[u8], bool) {
        let client = self.sockets.get_mut::<Socket>(self.client);
        let last = !client.may_recv() || client.recv_queue() == client.recv_capacity();
        let last = last || !matches!(client.state(), State::Established);
        (client.peek(usize::MAX).unwrap_or_default(), last)
    }

    /// Resets both connections.
    pub(super) fn abort(&mut self) {
        for handle in [self.client, self.server] {
            self.sockets.get_mut::<Socket>(handle).abort();
        }
        self.stage = Stage::Closed;
    }

    /// Moves bytes and FINs between the two connections.
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

    /// Moves bytes from the client (0) or the server (1) to the other end; returns how many.
    fn pump_one(&mut self, at: usize) -> u64 {
        let (from, to) =
            if at == 0 { (self.client, self.server) } else { (self.server, self.client) };
        let mut count = 0;
        let mut bytes = [0; 4_096];
        // Data and free space may each wrap around in their ring buffer.
        for _ in 0..4 {
            // The set lends one socket at a time, so bytes pass through a small copy.
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
        // The peer has sent FIN.
        self.ends[at].ended |= matches!(
            of.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait
        );
        let all = self.ends[at].ended && of.recv_queue() == 0;
        let to_state = self.sockets.get::<Socket>(to).state();
        // A connection in SYN-SENT cannot be closed gracefully.
        if all && !self.ends[1 - at].closed && to_state != State::SynSent {
            self.sockets.get_mut::<Socket>(to).close();
            self.ends[1 - at].closed = true;
        }
        count
    }

    /// Returns whether both sockets are closed.
    pub(super) fn is_closed(&self) -> bool {
        let socket = |handle| self.sockets.get::<Socket>(handle);
        [self.client, self.server]
            .into_iter()
            .all(|handle| socket(handle).local_endpoint().is_none())
    }
}
