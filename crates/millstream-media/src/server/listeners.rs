//! The RTSP listeners, with and without TLS, and the UDP ports that send media.

use millstream_scenario::Media;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use super::{HLS, RTMP, RTSP, RTSPS, WEBRTC_HTTP, failed};
use crate::MediaError;
use crate::rtsp::tls;

/// The number of open files besides connections and ports, with a margin.
const OTHER_FILES: u64 = 128;

/// A listening TCP port.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// The RTSP listeners, without and with TLS, those of WebRTC requests and of HLS players, with TLS
/// if RTSP has it, and that of RTMP publishers.
#[derive(Debug)]
pub(super) struct ListenerSet {
    pub(super) rtsp: Listener,
    pub(super) rtsps: Option<(Listener, tls::Configuration)>,
    pub(super) webrtc: Option<Listener>,
    pub(super) hls: Option<Listener>,
    pub(super) rtmp: Option<Listener>,
}

/// A new connection.
pub(super) struct Accepted<'a> {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) tls: Option<&'a tls::Configuration>,
    /// The server's address of the connection, if requests are HTTP.
    pub(super) http: Option<IpAddr>,
    /// Whether these requests are those of an HLS player.
    pub(super) hls: bool,
    /// Whether it is a publisher's by RTMP.
    pub(super) rtmp: bool,
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
                .help("another process may use it; set another port in [media], or port 0")
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
            webrtc: media.webrtc.map(Listener::open).transpose()?,
            hls: media.hls.map(Listener::open).transpose()?,
            rtmp: media.rtmp.map(Listener::open).transpose()?,
        })
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let rtsps = self.rtsps.as_mut().map(|(listener, _)| listener);
        for (listener, token) in [
            (Some(&mut self.rtsp), RTSP),
            (rtsps, RTSPS),
            (self.webrtc.as_mut(), WEBRTC_HTTP),
            (self.hls.as_mut(), HLS),
            (self.rtmp.as_mut(), RTMP),
        ] {
            if let Some(listener) = listener {
                registry.register(&mut listener.listener, token, Interest::READABLE)?;
            }
        }
        Ok(())
    }

    /// Accepts a pending connection of the listener with this token; `None` if there is none.
    pub(super) fn accept(&self, token: Token) -> Option<Accepted<'_>> {
        let tls = self.rtsps.as_ref().map(|(_, tls)| tls);
        let (listener, tls) = match token {
            RTSPS => (&self.rtsps.as_ref()?.0, tls),
            WEBRTC_HTTP => (self.webrtc.as_ref()?, tls),
            HLS => (self.hls.as_ref()?, tls),
            RTMP => (self.rtmp.as_ref()?, None),
            _ => (&self.rtsp, None),
        };
        let (stream, peer) = listener.listener.accept().ok()?;
        // The address decides which candidate a browser gets. The listener's is the next best.
        let local = || stream.local_addr().map_or(listener.address.ip(), |address| address.ip());
        let http = matches!(token, WEBRTC_HTTP | HLS).then(|| local().to_canonical());
        let (peer, hls, rtmp) = (peer.ip().to_canonical(), token == HLS, token == RTMP);
        Some(Accepted { stream, peer, tls, http, hls, rtmp })
    }
}

/// Raises the limit of open files for these connections and ports, as far as the system permits.
/// Connections beyond the limit wait to be accepted.
pub(super) fn allow_files(sockets: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (sockets + OTHER_FILES).min(maximum.unwrap_or(u64::MAX));
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
