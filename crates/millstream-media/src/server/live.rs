//! Live streams in session control: their publishers' UDP ports.

use millstream_scenario::Media;
use millstream_sync::clock::system::now_ns;
use mio::net::{UdpSocket, UnixStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::IpAddr;

use super::{FIRST_CONNECTION, failed, listeners};
use crate::MediaError;
use crate::data_plane::placement::SharedResources;
use crate::files::library::Library;
use crate::live::publishing::Publishing;
use crate::rtsp::access::Access;
use crate::wake_socket::wake;

/// The longest datagram, bytes.
const MAX_DATAGRAM_BYTES: usize = 65_536;

/// The UDP sockets for publishers: an RTP and an RTCP port per live stream.
#[derive(Debug)]
pub(super) struct PublisherSockets {
    sockets: Vec<Option<[UdpSocket; 2]>>,
    /// The first token of these sockets.
    first: usize,
    buffer: Vec<u8>,
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
            // The packets of a frame arrive in one burst.
            let _ = socket2::SockRef::from(&pair[0]).set_recv_buffer_size(1 << 20);
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
        Ok(Self { sockets, first, buffer: vec![0; MAX_DATAGRAM_BYTES] })
    }
}

/// The live streams of a server and the ports of their publishers.
#[derive(Debug)]
pub(super) struct LiveStreams {
    pub(super) publishing: Publishing,
    sockets: PublisherSockets,
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
        Ok(Self { publishing, sockets })
    }

    /// Reads the datagrams of a publisher port. Returns whether the token belongs to one.
    pub(super) fn receive_datagrams(&mut self, token: Token) -> bool {
        let Some(at) = token.0.checked_sub(self.sockets.first) else { return false };
        let (stream, rtcp) = (at / 2, at % 2 == 1);
        let PublisherSockets { sockets, buffer, .. } = &mut self.sockets;
        let Some(Some(pair)) = sockets.get(stream) else { return false };
        // Edge-triggered: read until the socket is empty.
        while let Ok((length, from)) = pair[usize::from(rtcp)].recv_from(buffer) {
            self.publishing.datagram(stream, rtcp, from, &buffer[..length], now_ns());
        }
        true
    }

    /// Wakes the data plane if frames were released.
    pub(super) fn wake_if_released(&mut self, waker: &UnixStream) {
        if self.publishing.take_frames_released() {
            wake(waker);
        }
    }
}
