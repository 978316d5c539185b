//! Live streams in session control: their publishers' UDP ports, and the addresses that receive
//! transport streams.

use millstream_scenario::Media;
use millstream_sync::clock::system::now_ns;
use mio::net::{UdpSocket, UnixStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{FIRST_CONNECTION, failed, listeners};
use crate::MediaError;
use crate::data_plane::placement::SharedResources;
use crate::files::library::Library;
use crate::live::publishing::{LiveSpec, Publishing};
use crate::live::transport_stream::TransportReceiver;
use crate::rtsp::access::Access;
use crate::srt::{self, SrtCommand};
use crate::wake_socket::wake;

/// The longest datagram, bytes.
const MAX_DATAGRAM_BYTES: usize = 65_536;

/// The receive buffer of a socket: the packets of a frame arrive in one burst. In bytes.
const RECEIVE_BUFFER: usize = 1 << 20;

/// The most bytes that are read from a socket in a turn: a flood must not keep clients waiting.
const TURN_BYTES: usize = 256 << 10;

/// What a datagram costs of `TURN_BYTES` besides its bytes.
const DATAGRAM_COST: usize = 256;

/// The UDP sockets for publishers: an RTP and an RTCP port per live stream.
#[derive(Debug)]
pub(super) struct PublisherSockets {
    sockets: Vec<Option<[UdpSocket; 2]>>,
    /// The first token of these sockets.
    first: usize,
    buffer: Vec<u8>,
    /// The sockets, counted from `first`, that used up their turn: they are edge-triggered.
    unfinished: Vec<usize>,
}

impl PublisherSockets {
    /// Opens a pair of ports per stream. Their tokens follow those of the `connections`
    /// connections.
    pub(super) fn open(
        live: &mut Publishing,
        address: IpAddr,
        connections: usize,
        registry: &Registry,
    ) -> io::Result<Self> {
        let first = FIRST_CONNECTION + connections;
        let mut sockets = Vec::with_capacity(live.streams.len());
        for (number, stream) in live.streams.iter_mut().enumerate() {
            if stream.spec.plays_recordings {
                sockets.push(None);
                continue;
            }
            let pair = listeners::port_pair(address)?;
            let [rtp, rtcp] = [&pair[0], &pair[1]].map(std::net::UdpSocket::local_addr);
            stream.ports = (rtp?.port(), rtcp?.port());
            let _ = socket2::SockRef::from(&pair[0]).set_recv_buffer_size(RECEIVE_BUFFER);
            for socket in &pair {
                socket.set_nonblocking(true)?;
            }
            let mut pair = pair.map(UdpSocket::from_std);
            for (at, socket) in pair.iter_mut().enumerate() {
                let token = Token(first + 2 * number + at);
                registry.register(socket, token, Interest::READABLE)?;
            }
            sockets.push(Some(pair));
        }
        let buffer = vec![0; MAX_DATAGRAM_BYTES];
        Ok(Self { sockets, first, buffer, unfinished: Vec::new() })
    }

    /// Reads the datagrams of socket `at` for a turn. Returns whether there is such a socket.
    fn receive(&mut self, live: &mut Publishing, at: usize) -> bool {
        let (stream, is_rtcp) = (at / 2, at % 2 == 1);
        let Some(Some(pair)) = self.sockets.get(stream) else { return false };
        let mut turn_bytes = TURN_BYTES;
        while turn_bytes > 0 {
            let received = pair[usize::from(is_rtcp)].recv_from(&mut self.buffer);
            let Ok((length, from)) = received else { return true };
            turn_bytes = turn_bytes.saturating_sub(length + DATAGRAM_COST);
            live.datagram(stream, is_rtcp, from, &self.buffer[..length], now_ns());
        }
        if !self.unfinished.contains(&at) {
            self.unfinished.push(at);
        }
        true
    }
}

/// The sockets that receive transport streams, and the index of the live stream of each.
#[derive(Debug)]
pub(super) struct TransportSockets(Vec<(usize, std::net::UdpSocket)>);

impl TransportSockets {
    /// Opens the addresses of the live streams.
    pub(super) fn open(live: &[LiveSpec]) -> Result<Self, MediaError> {
        let mut sockets = Vec::new();
        for (number, spec) in live.iter().enumerate() {
            let udp = spec.udp.as_ref().map(|udp| (udp.address, udp.interface));
            // The program that receives SRT sends to a port of its own.
            let local = spec.srt.as_ref().map(|_| ((Ipv4Addr::LOCALHOST, 0).into(), None));
            let Some((address, interface)) = udp.or(local) else { continue };
            let socket = transport_socket(address, interface).map_err(|error| {
                let key = if spec.udp.is_some() { "`udp`" } else { "the receiver behind `srt`," };
                failed(&format!("stream `{}`: {key} {address}", spec.name), &error)
                    .help("an address of this machine or a group, and a port that is free")
            })?;
            sockets.push((number, socket));
        }
        Ok(Self(sockets))
    }

    /// Returns the commands that receive transport streams by SRT and send them to these sockets.
    /// `folder` is the base of relative paths.
    pub(super) fn srt_commands(
        &self,
        live: &[LiveSpec],
        folder: &Path,
    ) -> Result<Vec<SrtCommand>, MediaError> {
        let mut commands = Vec::new();
        for (number, socket) in &self.0 {
            let spec = &live[*number];
            let Some(from) = &spec.srt else { continue };
            let to = socket.local_addr().map_err(|error| failed("a port for SRT", &error))?;
            commands.push(srt::command(spec, from, to, folder)?);
        }
        Ok(commands)
    }

    /// Returns the number of sockets.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Opens a socket at an address; joins it if it is a group.
fn transport_socket(
    address: SocketAddr,
    interface: Option<Ipv4Addr>,
) -> io::Result<std::net::UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    let is_group = address.ip().is_multicast();
    // Other programs of this machine may receive the same group.
    socket.set_reuse_address(is_group)?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    match address {
        SocketAddr::V4(to) if is_group => {
            // Else it receives the group also from interfaces that other programs joined.
            socket.set_multicast_all_v4(false)?;
            socket.join_multicast_v4(to.ip(), &interface.unwrap_or(Ipv4Addr::UNSPECIFIED))?;
        }
        SocketAddr::V6(to) if is_group => socket.join_multicast_v6(to.ip(), to.scope_id())?,
        _ => {}
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The receiver of a transport stream.
#[derive(Debug)]
struct TransportInput {
    socket: UdpSocket,
    receiver: TransportReceiver,
    /// The index of the live stream.
    stream: usize,
    /// Whether it used up its turn: the socket, which is edge-triggered, may hold more datagrams.
    unfinished: bool,
}

impl TransportInput {
    /// Reads datagrams for a turn. `may_begin`: whether a new sender may publish.
    fn receive(&mut self, live: &mut Publishing, buffer: &mut [u8], may_begin: bool) {
        let mut turn_bytes = TURN_BYTES;
        while turn_bytes > 0 {
            let Ok((length, from)) = self.socket.recv_from(buffer) else { break };
            turn_bytes = turn_bytes.saturating_sub(length + DATAGRAM_COST);
            self.receiver.datagram(live, from, &buffer[..length], may_begin, now_ns());
        }
        self.unfinished = turn_bytes == 0;
    }
}

/// The live streams of a server and the ports of their publishers.
#[derive(Debug)]
pub(super) struct LiveStreams {
    pub(super) publishing: Publishing,
    sockets: PublisherSockets,
    transport: Vec<TransportInput>,
    /// The first token of the receivers of transport streams.
    first_transport: usize,
    /// Whether new publishers are refused.
    pub(super) draining: bool,
}

impl LiveStreams {
    /// Opens the scenario's live streams and their publisher ports. `found`: the server adopts a
    /// running data plane.
    pub(super) fn open(
        library: &Library,
        access: &Access,
        media: &Media,
        resources: &SharedResources,
        found: bool,
        transport: TransportSockets,
        registry: &Registry,
    ) -> Result<Self, MediaError> {
        for spec in &library.live {
            let mut named = spec.publishers.iter().flatten();
            if let Some(name) = named.find(|name| !access.has_name(name)) {
                let message =
                    format!("stream `{}`: `publish` has the unknown name `{name}`", spec.name);
                let help = "use names from the `users` and `tokens` files of [media]";
                return Err(MediaError::new(message).help(help));
            }
        }
        let adopted = found.then(now_ns);
        let idle_timeout_ns = media.idle_timeout_ns;
        let mut publishing =
            Publishing::open(&library.live, &resources.live, idle_timeout_ns, adopted).map_err(
                |error| {
                    failed("the live streams", &error)
                        .help("start the server with the scenario of the running data plane")
                },
            )?;
        let connections = media.connections as usize;
        let sockets =
            PublisherSockets::open(&mut publishing, media.listen.ip(), connections, registry)
                .map_err(|error| failed("ports for publishers", &error))?;
        let first_transport = sockets.first + 2 * publishing.streams.len();
        let receive = |(number, (stream, socket)): (usize, (usize, std::net::UdpSocket))| {
            let spec = &library.live[stream];
            let local = spec.srt.as_ref().map(|_| Ipv4Addr::LOCALHOST.into());
            let from = spec.udp.as_ref().and_then(|udp| udp.from).or(local);
            let receiver = TransportReceiver::new(stream, from);
            let mut socket = UdpSocket::from_std(socket);
            let token = Token(first_transport + number);
            registry.register(&mut socket, token, Interest::READABLE)?;
            Ok(TransportInput { socket, receiver, stream, unfinished: false })
        };
        let transport = transport.0.into_iter().enumerate().map(receive);
        let transport: io::Result<_> = transport.collect();
        let transport = transport.map_err(|error| failed("ports for publishers", &error))?;
        Ok(Self { publishing, sockets, transport, first_transport, draining: false })
    }

    /// Returns the names of streams that receive transport streams, and their addresses.
    pub(super) fn transport_addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.transport.iter().filter_map(|input| {
            let spec = &self.publishing.streams[input.stream].spec;
            let address = input.socket.local_addr().ok().filter(|_| spec.udp.is_some())?;
            Some((spec.name.as_str(), address))
        })
    }

    /// Reads the datagrams of a transport stream for a turn.
    fn receive_transport(&mut self, number: usize) {
        let buffer = &mut self.sockets.buffer;
        if let Some(input) = self.transport.get_mut(number) {
            input.receive(&mut self.publishing, buffer, !self.draining);
        }
    }

    /// Returns whether sockets must be read again without an event.
    pub(super) fn has_unfinished(&self) -> bool {
        !self.sockets.unfinished.is_empty() || self.transport.iter().any(|input| input.unfinished)
    }

    /// Reads the sockets that used up their turn for another one.
    pub(super) fn receive_unfinished(&mut self) {
        for at in std::mem::take(&mut self.sockets.unfinished) {
            self.sockets.receive(&mut self.publishing, at);
        }
        for number in 0..self.transport.len() {
            if self.transport[number].unfinished {
                self.receive_transport(number);
            }
        }
    }

    /// Ends each publication by transport stream if its sender is silent.
    pub(super) fn tick_transport(&mut self, now_ns: u64) {
        for input in &mut self.transport {
            input.receiver.tick(&mut self.publishing, now_ns);
        }
    }

    /// Ends the publications by transport streams.
    pub(super) fn end_transport(&mut self, now_ns: u64) {
        for input in &mut self.transport {
            input.receiver.end(&mut self.publishing, now_ns);
        }
    }

    /// Reads the datagrams of a socket for a turn. Returns whether the token belongs to one.
    pub(super) fn receive_datagrams(&mut self, token: Token) -> bool {
        let transport = token.0.checked_sub(self.first_transport);
        if let Some(number) = transport.filter(|number| *number < self.transport.len()) {
            self.receive_transport(number);
            return true;
        }
        let Some(at) = token.0.checked_sub(self.sockets.first) else { return false };
        self.sockets.receive(&mut self.publishing, at)
    }

    /// Wakes the data plane if frames were released.
    pub(super) fn wake_if_released(&mut self, waker: &UnixStream) {
        if self.publishing.take_frames_released() {
            wake(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_of_datagrams_ends_a_turn_and_is_read_in_the_next() {
        let mut live = crate::fuzzing::live();
        let socket = transport_socket((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap();
        let to = socket.local_addr().unwrap();
        let (socket, receiver) = (UdpSocket::from_std(socket), TransportReceiver::new(0, None));
        let mut input = TransportInput { socket, receiver, stream: 0, unfinished: false };
        let sender = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Five are more than a turn.
        for _ in 0..6 {
            sender.send_to(&[0; 60_000], to).unwrap();
        }
        let mut turn = |unfinished, strange_packets| {
            input.receive(&mut live, &mut vec![0; MAX_DATAGRAM_BYTES], true);
            assert_eq!(input.unfinished, unfinished);
            assert_eq!(live.streams[0].ingest.counts().strange_packets, strange_packets);
        };
        turn(true, 5);
        turn(false, 6);
    }

    #[test]
    fn a_flood_at_a_publisher_port_ends_a_turn() {
        let (mut live, poll) = (crate::fuzzing::live(), mio::Poll::new().unwrap());
        let local = Ipv4Addr::LOCALHOST;
        let mut sockets =
            PublisherSockets::open(&mut live, local.into(), 4, poll.registry()).unwrap();
        let sender = std::net::UdpSocket::bind((local, 0)).unwrap();
        // Five are more than a turn.
        for _ in 0..6 {
            sender.send_to(&[0; 60_000], (local, live.streams[0].ports.0)).unwrap();
        }
        assert!(sockets.receive(&mut live, 0));
        assert_eq!(std::mem::take(&mut sockets.unfinished), [0]);
        assert!(sockets.receive(&mut live, 0) && sockets.unfinished.is_empty());
        let beyond = 2 * live.streams.len();
        assert!(!sockets.receive(&mut live, beyond));
    }

    #[test]
    fn a_group_is_joined_at_its_interface() {
        let local = Ipv4Addr::LOCALHOST;
        let group = Ipv4Addr::new(239, 255, 77, 7);
        let first = transport_socket(SocketAddr::from((group, 0)), Some(local)).unwrap();
        let address = first.local_addr().unwrap();
        // Another program may receive the same.
        let second = transport_socket(address, Some(local)).unwrap();
        let sender = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None);
        let sender = sender.unwrap();
        sender.set_multicast_if_v4(&local).unwrap();
        sender.send_to(b"packet", &address.into()).unwrap();
        for receiver in [first, second] {
            receiver.set_nonblocking(false).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut buffer = [0; 16];
            assert_eq!(receiver.recv(&mut buffer).unwrap(), 6);
        }
        let taken = transport_socket(SocketAddr::from((local, 0)), None).unwrap();
        let again = transport_socket(taken.local_addr().unwrap(), None).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
    }
}
