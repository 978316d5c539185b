//! How a scenario's streams are served to players: its media section, checked, defaults filled in.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
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

/// The way of a film's frames from its file to the processor that sends them: the paths of the
/// Co-processor paper's Figure 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FramePath {
    /// A: the server reads whole films into memory that it shares with the processor.
    #[default]
    Host,
    /// B: a process of its own reads frames ahead of need and hands them to the processor.
    Producer,
    /// C: the network interface processor reads frames ahead of need itself.
    Ni,
}

impl FramePath {
    /// What it is called in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Producer => "producer",
            Self::Ni => "ni",
        }
    }
}

/// RTSP over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Where it is spoken.
    pub listen: SocketAddr,
    /// The server's certificate and those that lead to it, a PEM file, relative to the scenario's
    /// folder.
    pub certificate: PathBuf,
    /// Its private key, a PEM file, relative to the scenario's folder.
    pub key: PathBuf,
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
    /// The way of films' frames to the processor.
    pub frame_path: FramePath,
    /// By the producer or the NI: frames are read so long before they are due, ns.
    pub read_ahead_ns: u64,
    /// By the producer or the NI: where films are unpacked that cannot be read from as they are,
    /// relative to the scenario's folder; `None`: where the system keeps temporary files.
    pub frame_folder: Option<PathBuf>,
    /// Where a server that is started again finds its processor, if anywhere.
    pub socket: Option<PathBuf>,
    /// Clients at once.
    pub sessions: u32,
    /// Connections at once.
    pub connections: u32,
    /// Connections at once from one address, if given; see [`Media::most_connections_per_address`].
    pub connections_per_address: Option<u32>,
    /// Clients at once at one address, if given; see [`Media::most_sessions_per_address`].
    pub sessions_per_address: Option<u32>,
    /// The longest request, bytes.
    pub request_bytes: usize,
    /// A client that says nothing for so long is gone, ns.
    pub idle_timeout_ns: u64,
    /// A connection whose client takes nothing of what waits for it for so long is closed, ns.
    pub stall_timeout_ns: u64,
    /// How long clips that run when the server is asked to terminate may go on, ns.
    pub drain_timeout_ns: u64,
    /// The longest RTP packet, its header included, bytes.
    pub packet_bytes: usize,
    /// Memory for the files of all streams together, bytes.
    pub store_bytes: usize,
    /// Who may ask by Digest, in a file as `htdigest` writes it, relative to the scenario's folder.
    pub users: Option<PathBuf>,
    /// Who may ask by a token in the URL: a file of names and the tokens' SHA-256, relative to the
    /// scenario's folder.
    pub tokens: Option<PathBuf>,
    /// What users are asked their passwords for.
    pub realm: String,
    /// RTSP over TLS, if it is spoken.
    pub tls: Option<Tls>,
    /// The servers that it shares its clients with, if any.
    pub cluster: Option<Cluster>,
    /// Whether programs of this machine may load, replace, remove and call instructions by `http`.
    pub instructions: bool,
    /// Those that are there from the start; at most [`Instruction::MOST`].
    pub instruction: Vec<Instruction>,
}

/// A WebAssembly module that sees streams' frames before they are scheduled, and that programs may
/// call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it is called.
    pub name: String,
    /// The module's file, relative to the scenario's folder.
    pub module: PathBuf,
    /// What it may use.
    pub allowance: Allowance,
    /// The places in the file of the streams whose frames it sees; `None`: of all.
    pub streams: Option<Vec<usize>>,
}

impl Instruction {
    /// How many there may be.
    pub const MOST: usize = 16;

    /// Whether one may be called so: up to 64 letters, digits, - _ and .
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let fit = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        (1..=64).contains(&name.len()) && name.chars().all(fit)
    }
}

/// What an instruction may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// What its memory may grow to, bytes.
    pub memory_bytes: u64,
    /// What it may compute for a frame or a call, in units of fuel: about one a WebAssembly
    /// instruction.
    pub fuel: u32,
    /// It is stopped after so many failures in a row.
    pub faults: u32,
}

impl Allowance {
    /// The least and the most memory, bytes.
    pub const MEMORY_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 20;
    /// The least and the most fuel: ten million take about a tenth of a second, in which no frame
    /// goes.
    pub const FUEL: RangeInclusive<u32> = 1..=10_000_000;
    /// The fewest and the most failures in a row.
    pub const FAULTS: RangeInclusive<u32> = 1..=1_000_000;
}

impl Default for Allowance {
    fn default() -> Self {
        Self { memory_bytes: 1 << 20, fuel: 20_000, faults: 8 }
    }
}

/// Servers that share their clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Where this server hears the others, and what they know it by (UDP).
    pub listen: SocketAddr,
    /// The others; none twice, not this one.
    pub others: Vec<SocketAddr>,
    /// The file of the secret that all share, relative to the scenario's folder.
    pub secret: PathBuf,
    /// Where clients of others are sent to; `None`: where RTSP is spoken.
    pub address: Option<SocketAddr>,
    /// About how long a server may be silent until it is taken for dead, ns.
    pub dead_after_ns: u64,
}

/// Of all places, one in so many is one address's where the file does not say.
const PLACES_TO_ONE_ADDRESS: u32 = 16;

/// An address may have so many places in any case: a household with several players must work on a
/// small server.
const FEWEST_TO_ONE_ADDRESS: u32 = 4;

impl Media {
    /// Connections that one address may have at once: as the file says, or a 16th of all, but not
    /// fewer than 4.
    #[must_use]
    pub fn most_connections_per_address(&self) -> u32 {
        let share = (self.connections / PLACES_TO_ONE_ADDRESS).max(FEWEST_TO_ONE_ADDRESS);
        self.connections_per_address.unwrap_or(share)
    }

    /// Clients that one address may be at once: as the file says, or a 16th of all, but not fewer
    /// than 4.
    #[must_use]
    pub fn most_sessions_per_address(&self) -> u32 {
        let share = (self.sessions / PLACES_TO_ONE_ADDRESS).max(FEWEST_TO_ONE_ADDRESS);
        self.sessions_per_address.unwrap_or(share)
    }
}

impl Default for Media {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8554)),
            http: None,
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
            instructions: false,
            instruction: Vec::new(),
        }
    }
}
