//! The `[media]` table of a scenario: the settings of `millstream serve`.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::units::{Duration, Size};

/// The settings of `millstream serve`, which serves the streams to players. Simulations ignore
/// them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MediaTable {
    /// The address and port of the RTSP listener; default "127.0.0.1:8554".
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<Spanned<String>>,
    /// The loopback address and port of the HTTP pages: dashboard, /status, /admission,
    /// /instructions and /metrics; default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) http: Option<Spanned<String>>,
    /// The address and port of WebRTC for browsers: WHEP, WHIP and the pages /watch/NAME and
    /// /publish/NAME by TCP, packets by UDP. With `tls`, requests use its certificate (HTTPS).
    /// Default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) webrtc: Option<Spanned<String>>,
    /// The address and port of players by HLS: live streams of H.264 at /NAME/index.m3u8. With
    /// `tls`, requests use its certificate (HTTPS). Default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) hls: Option<Spanned<String>>,
    /// The address and port of publishers by RTMP, such as OBS; 1935 is RTMP's port. Default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) rtmp: Option<Spanned<String>>,
    /// Where the data plane (scheduler and dispatch) runs; default "host".
    pub(crate) placement: Option<PlacementName>,
    /// Placement "ni": the core that the data plane is pinned to; default: the last core of a
    /// machine with two or more.
    #[schemars(with = "Option<u16>")]
    pub(crate) core: Option<Spanned<u16>>,
    /// Placement "ni": the path of frames from media files to the data plane; default "host".
    #[schemars(with = "Option<FramePathName>")]
    pub(crate) frame_path: Option<Spanned<FramePathName>>,
    /// Frame path "producer" or "ni": how long before its due time a frame is read; default "1 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) read_ahead: Option<Spanned<Duration>>,
    /// Frame path "producer" or "ni": a directory on a disk, relative to this file. It holds the
    /// unpacked video of media files that are not elementary streams, in unnamed files. Default:
    /// the system's directory for temporary files.
    #[schemars(with = "Option<String>")]
    pub(crate) frame_folder: Option<Spanned<String>>,
    /// Placement "ni": the Unix socket where a restarted server finds the running data plane and
    /// adopts its clients. Relative to the working directory; default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) socket: Option<Spanned<String>>,
    /// The limit of concurrent clients (RTSP sessions); default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) sessions: Option<Spanned<u32>>,
    /// The limit of concurrent RTSP connections; default 512.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// The limit of concurrent connections per address, or per /64 of IPv6; default: a 16th of
    /// `connections`, at least 4.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections_per_address: Option<Spanned<u32>>,
    /// The limit of concurrent clients per address, or per /64 of IPv6; default: a 16th of
    /// `sessions`, at least 4.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) sessions_per_address: Option<Spanned<u32>>,
    /// The length of the longest request with its body; default "8 KiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) request_bytes: Option<Spanned<Size>>,
    /// The silence of a client after which it is removed; default "60 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) idle_timeout: Option<Spanned<Duration>>,
    /// The time after which a connection is closed if its client reads none of the queued data;
    /// default "10 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) stall_timeout: Option<Spanned<Duration>>,
    /// How long running clips may continue after a request to terminate the server (SIGTERM);
    /// default "30 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) drain_timeout: Option<Spanned<Duration>>,
    /// The length of the longest RTP packet with its header; default "1400 B".
    #[schemars(with = "Option<Size>")]
    pub(crate) packet_bytes: Option<Spanned<Size>>,
    /// The memory for the files of all streams together; default "512 MB".
    #[schemars(with = "Option<Size>")]
    pub(crate) store: Option<Spanned<Size>>,
    /// The file of users for Digest authentication, in the format of `htdigest`, relative to this
    /// file. Without `users` and `tokens`, every client is accepted.
    pub(crate) users: Option<String>,
    /// The file of tokens for authentication by ?token= in the URL or `Authorization: Bearer`,
    /// relative to this file: a NAME:DIGEST per line, the SHA-256 of the token. Without `users` and
    /// `tokens`, every client is accepted.
    pub(crate) tokens: Option<String>,
    /// The realm of Digest authentication; default "millstream".
    #[schemars(with = "Option<String>")]
    pub(crate) realm: Option<Spanned<String>>,
    /// The settings of RTSP over TLS, in addition to `listen`; default: none.
    pub(crate) tls: Option<TlsTable>,
    /// The cluster of servers that share their clients; default: none.
    pub(crate) cluster: Option<ClusterTable>,
    /// The recording of live streams with `record = true`; default: none.
    #[schemars(with = "Option<RecordingTable>")]
    pub(crate) recording: Option<Spanned<RecordingTable>>,
    /// The commands that run when something happens to a stream, at most 64; default: none.
    #[serde(default)]
    #[schemars(with = "Vec<HookTable>")]
    pub(crate) hook: Vec<Spanned<HookTable>>,
    /// Whether local programs may load, replace, remove and call instructions through `http`;
    /// default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) instructions: Option<Spanned<bool>>,
    /// The instructions that the server loads when it starts, at most 16; default: none.
    #[serde(default)]
    #[schemars(with = "Vec<InstructionTable>")]
    pub(crate) instruction: Vec<Spanned<InstructionTable>>,
}

/// An instruction: a WebAssembly module that processes frames before they are scheduled, and that
/// local programs may call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct InstructionTable {
    /// The unique name of the instruction: up to 64 letters, digits, `-`, `_` and `.`.
    #[schemars(with = "String")]
    pub(crate) name: Spanned<String>,
    /// The file of the module (.wasm), relative to this file.
    #[schemars(with = "String")]
    pub(crate) module: Spanned<String>,
    /// The largest size of its memory, from "64 KiB" to "64 MiB"; default "1 MiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) memory: Option<Spanned<Size>>,
    /// The fuel for one frame or call; a WebAssembly instruction uses about one unit; default
    /// 20000.
    #[schemars(with = "Option<u32>", range(min = 1, max = 10_000_000))]
    pub(crate) fuel: Option<Spanned<u32>>,
    /// The number of consecutive failed frames and calls after which it is stopped; default 8.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1_000_000))]
    pub(crate) faults: Option<Spanned<u32>>,
    /// The streams whose frames it processes; default: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) streams: Option<Vec<Spanned<String>>>,
}

/// The settings of RTSP over TLS: the listener and the server's certificate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TlsTable {
    /// The address and port of the listener; default "127.0.0.1:8322".
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<Spanned<String>>,
    /// The PEM file of the server's certificate chain, relative to this file.
    pub(crate) certificate: String,
    /// The PEM file of the server's private key, relative to this file, without permissions for
    /// other users.
    pub(crate) key: String,
}

/// A cluster: servers of the same streams on several hosts, which share their clients.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClusterTable {
    /// The UDP address and port of this server, by which the other members identify it.
    #[schemars(with = "String")]
    pub(crate) listen: Spanned<String>,
    /// The `listen` addresses of all servers. This server may be among them, so that every file can
    /// have the same list.
    #[schemars(with = "Vec<String>")]
    pub(crate) members: Spanned<Vec<Spanned<String>>>,
    /// The file of the secret that all members share, relative to this file: at least 32 bytes,
    /// with permissions for its owner only.
    pub(crate) secret: String,
    /// The RTSP address and port to which other members redirect clients; default: `listen` of the
    /// server.
    #[schemars(with = "Option<String>")]
    pub(crate) address: Option<Spanned<String>>,
    /// The origin at which browsers reach `webrtc` of this server, for example
    /// "https://media1.example.org:8889"; default: that of its address. Pages of this origin may
    /// send requests to the other members.
    #[schemars(with = "Option<String>")]
    pub(crate) origin: Option<Spanned<String>>,
    /// The approximate silence after which the members declare a server dead; default "1 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) dead_after: Option<Spanned<Duration>>,
}

/// The recording of live streams to files of fragmented MP4, one after the other for each stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RecordingTable {
    /// The directory of the recordings, relative to this file. Each stream has a subdirectory; the
    /// server makes both if they are missing.
    #[schemars(with = "String")]
    pub(crate) folder: Spanned<String>,
    /// The limit of all recordings in `folder` together. The oldest files are removed to keep it.
    #[schemars(with = "Size")]
    pub(crate) size: Spanned<Size>,
    /// The age after which a file is removed; default: none is removed for its age.
    #[schemars(with = "Option<Duration>")]
    pub(crate) keep: Option<Spanned<Duration>>,
    /// The length of a file; the next one begins with the next key frame; default "60 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) segment: Option<Spanned<Duration>>,
    /// The limit of clients that play recordings of one stream at once; each takes part of `store`.
    /// Default 4.
    #[schemars(with = "Option<u32>", range(min = 0, max = 256))]
    pub(crate) players: Option<Spanned<u32>>,
}

/// A hook: a command that runs when something happens to a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct HookTable {
    /// The event.
    #[schemars(with = "HookEventName")]
    pub(crate) on: Spanned<HookEventName>,
    /// The program and its arguments. No shell interprets them; environment variables
    /// MILLSTREAM_… describe the event.
    #[schemars(with = "Vec<String>")]
    pub(crate) command: Spanned<Vec<String>>,
    /// The streams; default: all.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) streams: Option<Vec<Spanned<String>>>,
    /// For `publish` and `read`: whether the command runs as long as the stream is published or
    /// played. The server then ends it (SIGTERM, SIGKILL after 5 s). Default false.
    #[schemars(with = "Option<bool>")]
    pub(crate) r#while: Option<Spanned<bool>>,
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HookEventName {
    /// A publisher begins to send.
    Publish,
    /// It has left.
    Unpublish,
    /// A client begins to play.
    Read,
    /// It has left.
    Unread,
    /// A file of the recording is complete.
    Segment,
    /// A client lost more frames than its contract allows; at most every 10 s for a stream.
    Violation,
}

/// The payload of the packets in which a video file is served.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PayloadName {
    /// The elementary stream, in the payload format of its codec.
    Elementary,
    /// An MPEG transport stream that contains the video; all television players support it.
    MpegTs,
}

/// The codec of published video.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CodecName {
    /// H.264, packetized by RFC 6184.
    H264,
    /// H.265, packetized by RFC 7798.
    H265,
    /// AV1, packetized by the RTP payload format of the Alliance for Open Media.
    Av1,
    /// VP8, packetized by RFC 7741.
    Vp8,
    /// VP9, packetized by RFC 9628; one spatial layer.
    Vp9,
    /// MPEG-1 or MPEG-2 video, packetized by RFC 2250.
    Mpeg,
}

/// The codec of published audio.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AudioCodecName {
    /// AAC, packetized by RFC 3640 (AAC-hbr).
    Aac,
    /// Opus, packetized by RFC 7587.
    Opus,
    /// MPEG-1 or MPEG-2 audio, packetized by RFC 2250.
    Mpeg,
    /// G.711 µ-law, 8 kHz, mono (RFC 3551).
    Pcmu,
    /// G.711 A-law, 8 kHz, mono (RFC 3551).
    Pcma,
}

/// The SRT connection of a live source: one sender at a time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SrtTable {
    /// The UDP address and port that waits for the sender, or that is called.
    #[schemars(with = "String")]
    pub(crate) address: Spanned<String>,
    /// Which side begins the connection; default "listener".
    pub(crate) mode: Option<SrtModeName>,
    /// The time in which lost packets are sent again, from "20 ms" to "10 s"; default "120 ms".
    #[schemars(with = "Option<Duration>")]
    pub(crate) latency: Option<Spanned<Duration>>,
    /// The file of the passphrase, relative to this file, without permissions for other users: 10
    /// to 79 letters, digits, `-`, `.`, `_` and `~`. The connection is then encrypted. Default:
    /// none.
    pub(crate) passphrase: Option<String>,
    /// The stream id that a caller sends: up to 512 letters, digits and `-._~:,/!`. Default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) streamid: Option<Spanned<String>>,
}

/// The side that begins an SRT connection.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SrtModeName {
    /// The sender calls `address` of this machine.
    #[default]
    Listener,
    /// This machine calls `address` of the sender.
    Caller,
}

/// Where the data plane (scheduler and dispatch) runs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlacementName {
    /// A thread of the server's process.
    Host,
    /// A separate process: the network interface processor of the papers.
    Ni,
}

/// The path of frames from media files to the data plane.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FramePathName {
    /// The server reads whole media files into shared memory.
    Host,
    /// A separate producer process reads frames ahead of need.
    Producer,
    /// The data plane process reads frames ahead of need.
    Ni,
}
