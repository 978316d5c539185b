//! How a scenario's streams are served to players: its media section, checked, defaults filled in.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where scheduler and dispatch run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// In a thread of the server's process.
    #[default]
    Host,
    /// In a process of their own, the network interface processor.
    Ni {
        /// The core that it is pinned to; `None`: the last, where there are two or more.
        core: Option<u16>,
    },
}

/// The media section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Where RTSP is spoken.
    pub listen: SocketAddr,
    /// Where `/admission` and `/metrics` are, if anywhere.
    pub http: Option<SocketAddr>,
    /// Where scheduler and dispatch run.
    pub placement: Placement,
    /// Where a server that is started again finds its processor, if anywhere.
    pub socket: Option<PathBuf>,
    /// Clients at once.
    pub sessions: u32,
    /// Connections at once.
    pub connections: u32,
    /// The longest request, bytes.
    pub request_bytes: usize,
    /// A client that says nothing for so long is gone, ns.
    pub idle_timeout_ns: u64,
    /// How long clips that run when the server is asked to terminate may go on, ns.
    pub drain_timeout_ns: u64,
    /// The longest RTP packet, its header included, bytes.
    pub packet_bytes: usize,
    /// Memory for the files of all streams together, bytes.
    pub store_bytes: usize,
}

impl Default for Media {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8554)),
            http: None,
            placement: Placement::Host,
            socket: None,
            sessions: 256,
            connections: 512,
            request_bytes: 8 << 10,
            idle_timeout_ns: 60_000_000_000,
            drain_timeout_ns: 30_000_000_000,
            packet_bytes: 1_400,
            store_bytes: 512_000_000,
        }
    }
}
