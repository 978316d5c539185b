//! Live streams in session control: the publishers' UDP ports, silent publishers, and clients that
//! wait for a publisher.

use millstream_scenario::Media;
use mio::net::UdpSocket;
use mio::{Interest, Poll, Registry, Token};
use std::io;
use std::net::IpAddr;

use super::{FIRST_CONNECTION, MediaServer, failed, listeners};
use crate::MediaError;
use crate::clock::now_ns;
use crate::data_plane::placement::SharedResources;
use crate::data_plane::ring;
use crate::files::library::Library;
use crate::live::publishing::Publishing;
use crate::rtsp::access::Access;
use crate::shared_memory::region::Want;

/// The longest datagram, bytes.
const LONGEST: usize = 65_536;

/// The UDP sockets for publishers: an RTP and an RTCP port per live stream.
#[derive(Debug)]
pub(super) struct PublisherSockets {
    sockets: Vec<[UdpSocket; 2]>,
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
            sockets.push(pair);
        }
        Ok(Self { sockets, first, buffer: vec![0; LONGEST] })
    }
}

/// Opens the scenario's live streams and their publisher ports. `found`: the server adopts a
/// running data plane.
pub(super) fn open(
    library: &Library,
    access: &Access,
    media: &Media,
    resources: &SharedResources,
    found: bool,
    poll: &Poll,
) -> Result<(Publishing, PublisherSockets), MediaError> {
    for spec in &library.live {
        let mut named = spec.publishers.iter().flatten();
        if let Some(name) = named.find(|name| !access.knows(name)) {
            let message = format!("stream `{}`: `publish` names `{name}`", spec.name);
            let help = "name those whom `users` and `tokens` of [media] name";
            return Err(MediaError::new(message).help(help));
        }
    }
    let adopted = found.then(now_ns);
    let mut live = Publishing::open(&library.live, &resources.live, media.idle_timeout_ns, adopted)
        .map_err(|error| {
            failed("the live streams", &error)
                .help("start the server with the file it was started with")
        })?;
    let connections = media.connections as usize;
    let publisher_sockets =
        PublisherSockets::open(&mut live, media.listen.ip(), connections, poll.registry());
    Ok((live, publisher_sockets.map_err(|error| failed("ports for publishers", &error))?))
}

impl MediaServer {
    /// Reads the datagrams of a publisher port. Returns whether the token belongs to one.
    pub(super) fn take_in(&mut self, token: Token) -> bool {
        let Some(at) = token.0.checked_sub(self.publisher_sockets.first) else { return false };
        let (stream, rtcp) = (at / 2, at % 2 == 1);
        let PublisherSockets { sockets, buffer, .. } = &mut self.publisher_sockets;
        let Some(pair) = sockets.get(stream) else { return false };
        // Edge-triggered: read until the socket is empty.
        while let Ok((length, from)) = pair[usize::from(rtcp)].recv_from(buffer) {
            if !rtcp {
                self.live.datagram(stream, from, &buffer[..length], now_ns());
            }
        }
        self.tell();
        true
    }

    /// Wakes the data plane if frames were released.
    pub(super) fn tell(&mut self) {
        if self.live.take_news() {
            ring(&self.waker);
        }
    }

    /// Ends silent publishers, and sessions that have waited too long for a publisher.
    pub(super) fn tick_live(&mut self, now_ns: u64) {
        for place in self.live.tick(now_ns) {
            if let Some(connection) = self.connections.get_mut(place).and_then(Option::take) {
                self.close(connection, place);
            }
        }
        self.tell();
        for title in self.live.given_up(now_ns) {
            let of_title = self.sessions.iter().filter(|(_, session)| session.title == title);
            let numbers: Vec<usize> = of_title.map(|(number, _)| number).collect();
            for number in numbers {
                self.sessions.want(number, Want::Stop, &self.waker);
            }
        }
    }
}
