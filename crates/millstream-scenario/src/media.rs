//! The validated `[media]` section, with defaults filled in: how players get the streams.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Where the data plane (scheduler and dispatch) runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// A thread of the server's process.
    #[default]
    Host,
    /// A separate data plane process: the network interface processor of the papers.
    Ni {
        /// The core that the process is pinned to; `None` selects the last core of a machine with
        /// two or more.
        core: Option<u16>,
    },
}

/// The path of frames from the media file to the data plane, named after Figure 3 of the
/// Co-processor paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FramePath {
    /// Path A: the server reads whole media files into memory that it shares with the data plane.
    #[default]
    Host,
    /// Path B: a producer process reads frames ahead and passes them to the data plane.
    Producer,
    /// Path C: the data plane process reads frames ahead itself.
    Ni,
}

impl FramePath {
    /// Returns its name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Producer => "producer",
            Self::Ni => "ni",
        }
    }
}

/// The settings of RTSP over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The address of the listener.
    pub listen: SocketAddr,
    /// The PEM file of the server's certificate chain, relative to the scenario's folder.
    pub certificate: PathBuf,
    /// The PEM file of the server's private key, relative to the scenario's folder.
    pub key: PathBuf,
}

/// The settings of the `[media]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// The address of the RTSP listener.
    pub listen: SocketAddr,
    /// The address of the HTTP pages such as `/admission` and `/metrics`; `None` disables them.
    pub http: Option<SocketAddr>,
    /// The address of the WebRTC listener, for requests by TCP and packets by UDP; `None` disables
    /// it.
    pub webrtc: Option<SocketAddr>,
    /// The address of the listener of HLS players; `None` disables it.
    pub hls: Option<SocketAddr>,
    /// The address of the listener of RTMP publishers; `None` disables it.
    pub rtmp: Option<SocketAddr>,
    /// Where the data plane (scheduler and dispatch) runs.
    pub placement: Placement,
    /// The path of frames to the data plane.
    pub frame_path: FramePath,
    /// The lead of a frame's read over its due time, ns (producer or NI frame path).
    pub read_ahead_ns: u64,
    /// With the producer or NI frame path, the folder for unpacked media files that are not
    /// elementary streams, relative to the scenario's folder; `None` is the system's folder for
    /// temporary files.
    pub frame_folder: Option<PathBuf>,
    /// The Unix socket where a restarted server finds the running data plane; `None` disables this.
    pub socket: Option<PathBuf>,
    /// The limit of concurrent clients.
    pub sessions: u32,
    /// The limit of concurrent connections.
    pub connections: u32,
    /// The limit of concurrent connections per address, if given; see
    /// [`Media::max_connections_per_address`].
    pub connections_per_address: Option<u32>,
    /// The limit of concurrent clients per address, if given; see
    /// [`Media::max_sessions_per_address`].
    pub sessions_per_address: Option<u32>,
    /// The length of the longest request, bytes.
    pub request_bytes: usize,
    /// The timeout after which a silent client is removed, ns.
    pub idle_timeout_ns: u64,
    /// The timeout after which a connection is closed if its client reads none of the queued data,
    /// ns.
    pub stall_timeout_ns: u64,
    /// How long running clips may continue after a request to terminate the server, ns.
    pub drain_timeout_ns: u64,
    /// The length of the longest RTP packet with its header, bytes.
    pub packet_bytes: usize,
    /// The memory for the files of all streams together, bytes.
    pub store_bytes: usize,
    /// The file of users for Digest authentication, in the format of `htdigest`, relative to the
    /// scenario's folder.
    pub users: Option<PathBuf>,
    /// The file of names and SHA-256 token digests for authentication by URL, relative to the
    /// scenario's folder.
    pub tokens: Option<PathBuf>,
    /// The realm of Digest authentication.
    pub realm: String,
    /// The settings of RTSP over TLS; `None` disables it.
    pub tls: Option<Tls>,
    /// The cluster of servers that share their clients; `None` for a single server.
    pub cluster: Option<Cluster>,
    /// The recording of live streams; `None` if no stream is recorded.
    pub recording: Option<Recording>,
    /// The commands that run when something happens to a stream; at most [`Hook::MAX_COUNT`].
    pub hooks: Vec<Hook>,
    /// Whether local programs may load, replace, remove and call instructions through `http`.
    pub instructions: bool,
    /// The instructions that the server loads when it starts; at most [`Instruction::MAX_COUNT`].
    pub instruction: Vec<Instruction>,
}

/// A WebAssembly module that processes frames before they are scheduled, and that programs may
/// call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The name of the instruction.
    pub name: String,
    /// The file of the module, relative to the scenario's folder.
    pub module: PathBuf,
    /// The resource limits.
    pub allowance: Allowance,
    /// The indices, in file order, of the streams whose frames it processes; `None` for all.
    pub streams: Option<Vec<usize>>,
}

impl Instruction {
    /// The largest number of instructions.
    pub const MAX_COUNT: usize = 16;
    /// Deprecated alias of [`Self::MAX_COUNT`].
    #[deprecated(note = "renamed to `MAX_COUNT`")]
    pub const MOST: usize = Self::MAX_COUNT;

    /// Returns whether `name` is valid: 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let fit = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        (1..=64).contains(&name.len()) && name.chars().all(fit)
    }
}

/// The resource limits of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The largest size of its memory, bytes.
    pub memory_bytes: u64,
    /// The fuel for one frame or call; a WebAssembly instruction uses about one unit.
    pub fuel: u32,
    /// The number of consecutive failures after which it is stopped.
    pub faults: u32,
}

impl Allowance {
    /// The range of `memory_bytes`, bytes.
    pub const MEMORY_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 20;
    /// The range of `fuel`. Ten million units take about 0.1 s, and no frame is sent in that time.
    pub const FUEL: RangeInclusive<u32> = 1..=10_000_000;
    /// The range of `faults`.
    pub const FAULTS: RangeInclusive<u32> = 1..=1_000_000;
}

impl Default for Allowance {
    fn default() -> Self {
        Self { memory_bytes: 1 << 20, fuel: 20_000, faults: 8 }
    }
}

/// A cluster of servers that share their clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The UDP address where this server receives from the other members; it also identifies the
    /// server.
    pub listen: SocketAddr,
    /// The addresses of the other members, without duplicates.
    pub others: Vec<SocketAddr>,
    /// The file of the secret that all members share, relative to the scenario's folder.
    pub secret: PathBuf,
    /// The RTSP address to which other members redirect clients; `None` is [`Media::listen`].
    pub address: Option<SocketAddr>,
    /// The origin at which browsers reach [`Media::webrtc`], as
    /// [`is_origin`](crate::is_origin) accepts it; `None` is that of its address.
    pub origin: Option<String>,
    /// The approximate silence after which the members declare a server dead, ns.
    pub dead_after_ns: u64,
}

/// A command that runs when something happens to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The event.
    pub event: HookEvent,
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// The names of its streams; `None` for all.
    pub streams: Option<Vec<String>>,
    /// Whether it runs until the publisher or the player has left.
    pub is_while: bool,
}

impl Hook {
    /// The largest number of hooks.
    pub const MAX_COUNT: usize = 64;
    /// The largest number of arguments.
    pub const MAX_ARGUMENTS: usize = 256;
    /// The largest length of all arguments together, bytes.
    pub const MAX_BYTES: usize = 32 << 10;

    /// Returns whether it is for events of a stream, or of a path `STREAM/NAME` of a stream.
    #[must_use]
    pub fn is_for(&self, stream: &str) -> bool {
        let own = stream.split_once('/').map_or(stream, |(own, _)| own);
        self.streams.as_ref().is_none_or(|streams| streams.iter().any(|name| name == own))
    }
}

/// The event of a [`Hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A publisher begins to send.
    Publish,
    /// A publisher has left.
    Unpublish,
    /// A client begins to play.
    Read,
    /// A client has left.
    Unread,
    /// A file of a recording is complete.
    Segment,
    /// A client lost more frames than its contract allows.
    Violation,
}

impl HookEvent {
    /// Returns its name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Unpublish => "unpublish",
            Self::Read => "read",
            Self::Unread => "unread",
            Self::Segment => "segment",
            Self::Violation => "violation",
        }
    }
}

/// The recording of live streams to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The directory of the recordings, relative to the scenario's folder.
    pub folder: PathBuf,
    /// The limit of all recordings together, bytes.
    pub max_bytes: u64,
    /// The age after which a file is removed, ns; `None` keeps files of any age.
    pub max_age_ns: Option<u64>,
    /// The length of a file, ns.
    pub segment_ns: u64,
    /// The most clients that may play recordings of one stream at once.
    pub players: u32,
}

/// The divisor that gives the default limit per address from the limit of all addresses.
const PER_ADDRESS_DIVISOR: u32 = 16;

/// The smallest default limit per address: a household with several players must work on a small
/// server.
const MIN_PER_ADDRESS: u32 = 4;

impl Media {
    /// Deprecated alias of [`max_connections_per_address`](Self::max_connections_per_address).
    #[deprecated(note = "renamed to `max_connections_per_address`")]
    #[must_use]
    pub fn most_connections_per_address(&self) -> u32 {
        self.max_connections_per_address()
    }

    /// Returns the limit of concurrent connections per address: the file's, or by default a 16th of
    /// [`Media::connections`] and at least 4.
    #[must_use]
    pub fn max_connections_per_address(&self) -> u32 {
        let share = (self.connections / PER_ADDRESS_DIVISOR).max(MIN_PER_ADDRESS);
        self.connections_per_address.unwrap_or(share)
    }

    /// Deprecated alias of [`max_sessions_per_address`](Self::max_sessions_per_address).
    #[deprecated(note = "renamed to `max_sessions_per_address`")]
    #[must_use]
    pub fn most_sessions_per_address(&self) -> u32 {
        self.max_sessions_per_address()
    }

    /// Returns the limit of concurrent clients per address: the file's, or by default a 16th of
    /// [`Media::sessions`] and at least 4.
    #[must_use]
    pub fn max_sessions_per_address(&self) -> u32 {
        let share = (self.sessions / PER_ADDRESS_DIVISOR).max(MIN_PER_ADDRESS);
        self.sessions_per_address.unwrap_or(share)
    }
}

impl Default for Media {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8554)),
            http: None,
            webrtc: None,
            hls: None,
            rtmp: None,
            placement: Placement::Host,
            frame_path: FramePath::Host,
            read_ahead_ns: 1_000_000_000,
            frame_folder: None,
            socket: None,
            sessions: 256,
            connections: 512,
            connections_per_address: None,
            sessions_per_address: None,
            request_bytes: 8 << 10,
            idle_timeout_ns: 60_000_000_000,
            stall_timeout_ns: 10_000_000_000,
            drain_timeout_ns: 30_000_000_000,
            packet_bytes: 1_400,
            store_bytes: 512_000_000,
            users: None,
            tokens: None,
            realm: "millstream".to_owned(),
            tls: None,
            cluster: None,
            recording: None,
            hooks: Vec::new(),
            instructions: false,
            instruction: Vec::new(),
        }
    }
}
