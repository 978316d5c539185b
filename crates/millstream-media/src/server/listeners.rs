//! Listeners: where connections come from, the limit per address, the connection evicted when all
//! places are taken, and the UDP ports that media leave by.

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

/// Files that are open besides connections, with room to spare.
const OTHER_FILES: u64 = 128;

/// A port that is listened at.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// Those of RTSP.
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

    /// For those who wait by themselves.
    pub(super) fn into_std(self) -> std::net::TcpListener {
        self.listener.into()
    }
}

impl ListenerSet {
    /// Opens the section's ports; `folder` is what its files are relative to.
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
        let rtsps = self.rtsps.as_mut().map(|(door, _)| door);
        for (door, token) in [(Some(&mut self.rtsp), RTSP), (rtsps, RTSPS)] {
            if let Some(door) = door {
                registry.register(&mut door.listener, token, Interest::READABLE)?;
            }
        }
        Ok(())
    }
}

impl MediaServer {
    /// Takes everybody who waits at a door; those beyond what may be are closed at once.
    pub(super) fn accept(&mut self, token: Token) {
        loop {
            let (door, tls) = match (token, &self.doors) {
                (RTSPS, ListenerSet { rtsps: Some((door, tls)), .. }) => (Some(door), Some(tls)),
                (_, doors) => (Some(&doors.rtsp), None),
            };
            let tls = tls.cloned();
            let Some(Ok((mut stream, peer))) = door.map(|door| door.listener.accept()) else {
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

    /// Closes the oldest of the connections that have not had a request answered yet. Returns its
    /// place.
    ///
    /// Clients ask as soon as they are connected, so what has been silent or slow for longest is
    /// the least likely to be one. A flood of connections that say nothing then costs those
    /// connections and not the clients.
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

/// Lets this process have a file each connection, as far as the system permits; without, those
/// beyond wait to be accepted.
pub(super) fn allow_files(connections: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (connections + OTHER_FILES).min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// An even port and the next one (RFC 3550, section 11).
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
