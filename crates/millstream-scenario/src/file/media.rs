//! The `[media]` table of a scenario: the settings of `millstream serve`.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::units::{Duration, Size};

/// How `millstream serve` serves the scenario's streams to players; simulations leave it alone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MediaTable {
    /// Address and port for RTSP; default "127.0.0.1:8554".
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<Spanned<String>>,
    /// Loopback address and port of the dashboard, /status, /admission, /instructions and /metrics;
    /// default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) http: Option<Spanned<String>>,
    /// Where scheduler and dispatch run; default "host".
    pub(crate) placement: Option<PlacementName>,
    /// NI: the processor core that it is pinned to; default: the last, where there are two or more.
    #[schemars(with = "Option<u16>")]
    pub(crate) core: Option<Spanned<u16>>,
    /// NI: the way of films' frames to it; default "host".
    #[schemars(with = "Option<FramePathName>")]
    pub(crate) frame_path: Option<Spanned<FramePathName>>,
    /// Frame path "producer" or "ni": frames are read so long before they are due; default "1 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) read_ahead: Option<Spanned<Duration>>,
    /// Frame path "producer" or "ni": a folder on a disk, relative to this file, for the video of
    /// films that are no elementary streams, in files without names; default: where the system
    /// keeps temporary files.
    #[schemars(with = "Option<String>")]
    pub(crate) frame_folder: Option<Spanned<String>>,
    /// NI: a Unix socket by which a server that is started again finds the processor that still
    /// plays, and takes its clients over; relative to the working directory; default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) socket: Option<Spanned<String>>,
    /// Clients that play or may play at once; default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) sessions: Option<Spanned<u32>>,
    /// RTSP connections at once; default 512.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// Connections at once from one address, of IPv6 one /64; default: a 16th of `connections`, at
    /// least 4.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections_per_address: Option<Spanned<u32>>,
    /// Clients at once at one address, of IPv6 one /64; default: a 16th of `sessions`, at least 4.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) sessions_per_address: Option<Spanned<u32>>,
    /// The longest request, body included; default "8 KiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) request_bytes: Option<Spanned<Size>>,
    /// A client that says nothing for so long is gone; default "60 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) idle_timeout: Option<Spanned<Duration>>,
    /// A connection whose client takes nothing for so long of what waits for it is closed; default
    /// "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) stall_timeout: Option<Spanned<Duration>>,
    /// How long clips that run when the server is asked to terminate may go on; default "30 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) drain_timeout: Option<Spanned<Duration>>,
    /// The longest RTP packet, its header included; default "1400 B".
    #[schemars(with = "Option<Size>")]
    pub(crate) packet_bytes: Option<Spanned<Size>>,
    /// Memory for the files of all streams together; default "512 MB".
    #[schemars(with = "Option<Size>")]
    pub(crate) store: Option<Spanned<Size>>,
    /// A file of users as `htdigest` writes it, relative to this one: who may ask by Digest;
    /// default: anybody.
    pub(crate) users: Option<String>,
    /// A file of tokens, relative to this one, NAME:SHA-256 of the token a line: who may ask by
    /// ?token= in the URL; default: anybody, or `users`.
    pub(crate) tokens: Option<String>,
    /// What users are asked their passwords for; default "millstream".
    #[schemars(with = "Option<String>")]
    pub(crate) realm: Option<Spanned<String>>,
    /// RTSP over TLS, besides `listen`; default: none.
    pub(crate) tls: Option<TlsTable>,
    /// Servers that share their clients; default: none.
    pub(crate) cluster: Option<ClusterTable>,
    /// Whether programs of this machine may load, replace, remove and call instructions by `http`;
    /// default: no.
    #[schemars(with = "Option<bool>")]
    pub(crate) instructions: Option<Spanned<bool>>,
    /// Instructions that are there from the start, at most 16; default: none.
    #[serde(default)]
    #[schemars(with = "Vec<InstructionTable>")]
    pub(crate) instruction: Vec<Spanned<InstructionTable>>,
}

/// An instruction: a WebAssembly module that sees streams' frames before they are scheduled, and
/// that programs of this machine may call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct InstructionTable {
    /// What it is called: up to 64 letters, digits, - _ and .; no two alike.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The module's file, .wasm; relative to this file.
    #[schemars(with = "String")]
    pub(crate) module: Spanned<String>,
    /// What its memory may grow to; default "1 MiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) memory: Option<Spanned<Size>>,
    /// What it may compute for a frame or a call, about one a WebAssembly instruction; default
    /// 20000.
    #[schemars(with = "Option<u32>", range(min = 1, max = 10_000_000))]
    pub(crate) fuel: Option<Spanned<u32>>,
    /// It is stopped after so many frames and calls in a row at which it failed; default 8.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1_000_000))]
    pub(crate) faults: Option<Spanned<u32>>,
    /// The streams whose frames it sees; default: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) streams: Option<Vec<Spanned<String>>>,
}

/// Where RTSP is spoken over TLS, and what shows who the server is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TlsTable {
    /// Address and port; default "127.0.0.1:8322".
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<Spanned<String>>,
    /// The server's certificate and those that lead to it, a PEM file, relative to this one.
    pub(crate) certificate: String,
    /// Its private key, a PEM file that not everybody may read, relative to this one.
    pub(crate) key: String,
}

/// Servers of the same streams, on several hosts, that share their clients.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClusterTable {
    /// Address and port by which the others know this server (UDP).
    #[schemars(with = "String")]
    pub(crate) listen: Spanned<String>,
    /// All servers by that address; this one may be among them, so that the same list can stand in
    /// every file.
    #[schemars(with = "Vec<String>")]
    pub(crate) members: Spanned<Vec<Spanned<String>>>,
    /// A file of at least 32 bytes that all servers have and nobody else may read, relative to this
    /// one.
    pub(crate) secret: String,
    /// Address and port for RTSP that clients of other servers are sent to; default: where it
    /// speaks RTSP.
    #[schemars(with = "Option<String>")]
    pub(crate) address: Option<Spanned<String>>,
    /// About how long a server may be silent until the others take it for dead; default "1 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) dead_after: Option<Spanned<Duration>>,
}

/// What the packets of a served file carry.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PayloadName {
    /// Its video as it is.
    Elementary,
    /// Its video in an MPEG transport stream.
    MpegTs,
}

/// What the video of a publisher is coded by.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CodecName {
    /// H.264, by RFC 6184.
    H264,
    /// MPEG-1 or MPEG-2 video, by RFC 2250.
    Mpeg,
}

/// Where scheduler and dispatch run.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlacementName {
    /// In the server's process.
    Host,
    /// In a process of their own, the network interface processor.
    Ni,
}

/// The way of films' frames to the network interface processor.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FramePathName {
    /// The server reads whole films into shared memory.
    Host,
    /// A process of its own reads frames ahead of need.
    Producer,
    /// The network interface processor reads frames ahead of need.
    Ni,
}
