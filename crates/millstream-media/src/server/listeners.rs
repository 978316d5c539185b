//! Listeners: accept connections, enforce the limit per address, evict when the connection table is
//! full. Also opens the UDP ports that send media.

use millstream_scenario::Media;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use super::{FIRST_CONNECTION, MediaServer, RTSP, RTSPS, failed};
use crate::MediaError;
use crate::clock::now_ns;
use crate::pages::rejects::{Reason, holder};
use crate::rtsp::connection::Connection;
use crate::rtsp::tcp;
use crate::rtsp::tls::{self, Secured};

/// The number of open files besides connections, with a margin.
const OTHER_FILES: u64 = 128;

/// A listening TCP port.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// The RTSP listeners, without and with TLS.
#[derive(Debug)]
pub(super) struct ListenerSet {
    pub(super) rtsp: Listener,
    pub(super) rtsps: Option<(Listener, tls::Configuration)>,
}

impl Listener {
    pub(super) fn open(address: SocketAddr) -> Result<Self, MediaError> {
        let open = || {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        open().map_err(|error| {
            failed(&format!("port {address}"), &error)
                .help("another server may have it; give another in [media], or port 0")
        })
    }

    /// Returns the listener for a thread that blocks in accept.
    pub(super) fn into_std(self) -> std::net::TcpListener {
        self.listener.into()
    }
}

impl ListenerSet {
    /// Opens the ports of `[media]`; `folder` is the base of relative paths.
    pub(super) fn open(media: &Media, folder: &Path) -> Result<Self, MediaError> {
        let secured = |given: &millstream_scenario::Tls| {
            let files = [&given.certificate, &given.key].map(|file| folder.join(file));
            let configuration = tls::configuration(&files[0], &files[1])?;
            Ok((Listener::open(given.listen)?, configuration))
        };
        Ok(Self {
            rtsp: Listener::open(media.listen)?,
            rtsps: media.tls.as_ref().map(secured).transpose()?,
        })
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let rtsps = self.rtsps.as_mut().map(|(listener, _)| listener);
        for (listener, token) in [(Some(&mut self.rtsp), RTSP), (rtsps, RTSPS)] {
            if let Some(listener) = listener {
                registry.register(&mut listener.listener, token, Interest::READABLE)?;
            }
        }
        Ok(())
    }
}

impl MediaServer {
    /// Accepts all pending connections of a listener; closes those beyond the limits at once.
    pub(super) fn accept(&mut self, token: Token) {
        loop {
            let (listener, tls) = match (token, &self.listeners) {
                (RTSPS, ListenerSet { rtsps: Some((rtsps, tls)), .. }) => (Some(rtsps), Some(tls)),
                (_, listeners) => (Some(&listeners.rtsp), None),
            };
            let tls = tls.cloned();
            let Some(Ok((mut stream, peer))) = listener.map(|from| from.listener.accept()) else {
                return;
            };
            let (peer, now_ns) = (peer.ip().to_canonical(), now_ns());
            let there = self.connections.iter().flatten();
            let same = there.filter(|other| holder(other.peer) == holder(peer)).count();
            if same >= self.media.most_connections_per_address() as usize {
                self.sessions.refusals.note(Reason::Connections, peer, now_ns);
                continue;
            }
            let free = self.connections.iter().position(Option::is_none);
            let Some(place) = free.or_else(|| self.evict(now_ns)) else {
                self.sessions.refusals.note(Reason::Full, peer, now_ns);
                continue;
            };
            let Ok(tls) = tls.as_ref().map(Secured::new).transpose() else { continue };
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            if registry.register(&mut stream, Token(place + FIRST_CONNECTION), interest).is_ok() {
                tcp::set_up(&stream, self.media.stall_timeout_ns);
                let connection = Connection::new(stream, peer, now_ns);
                self.connections[place] = Some(match tls {
                    Some(tls) => connection.secured(tls),
                    None => connection,
                });
            }
        }
    }

    /// Closes the oldest connection without an answered request. Returns its index.
    ///
    /// A client sends a request as soon as it is connected. So the connection that has been silent
    /// or slow for longest is the least likely to be a client. A flood of silent connections evicts
    /// those connections and not the clients.
    fn evict(&mut self, now_ns: u64) -> Option<usize> {
        let there = self.connections.iter().enumerate();
        let incomplete = there.filter_map(|(place, connection)| {
            Some((connection.as_ref()?.incomplete_since_ns()?, place))
        });
        let (_, place) = incomplete.min()?;
        let connection = self.connections[place].take()?;
        self.sessions.refusals.note(Reason::Evicted, connection.peer, now_ns);
        self.close(connection, place);
        Some(place)
    }
}

/// Raises the limit of open files to one per connection, as far as the system permits. Connections
/// beyond the limit wait to be accepted.
pub(super) fn allow_files(connections: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (connections + OTHER_FILES).min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Binds an even port and the next one (RFC 3550, section 11).
pub(super) fn port_pair(address: IpAddr) -> io::Result<[UdpSocket; 2]> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..100 {
        let first = UdpSocket::bind((address, 0))?;
        let port = first.local_addr()?.port();
        let (even, second) = if port.is_multiple_of(2) {
            (true, port.checked_add(1))
        } else {
            (false, Some(port - 1))
        };
        let Some(second) = second else { continue };
        match UdpSocket::bind((address, second)) {
            Ok(second) if even => return Ok([first, second]),
            Ok(second) => return Ok([second, first]),
            Err(error) => last = error,
        }
    }
    Err(last)
}
