//! The media section of a scenario: what `millstream serve` needs beyond streams, scheduler and link.

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
    /// Address and port for /admission and /metrics; default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) http: Option<Spanned<String>>,
    /// Where scheduler and dispatch run; default "host".
    pub(crate) placement: Option<PlacementName>,
    /// NI: the processor core that it is pinned to; default: the last, where there are two or more.
    #[schemars(with = "Option<u16>")]
    pub(crate) core: Option<Spanned<u16>>,
    /// NI: a Unix socket by which a server that is started again finds the processor that still plays, and
    /// takes its clients over; relative to the working directory; default: none.
    #[schemars(with = "Option<String>")]
    pub(crate) socket: Option<Spanned<String>>,
    /// Clients that play or may play at once; default 256.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) sessions: Option<Spanned<u32>>,
    /// RTSP and HTTP connections at once; default 512.
    #[schemars(with = "Option<u32>", range(min = 1, max = 65536))]
    pub(crate) connections: Option<Spanned<u32>>,
    /// The longest request, body included; default "8 KiB".
    #[schemars(with = "Option<Size>")]
    pub(crate) request_bytes: Option<Spanned<Size>>,
    /// A client that says nothing for so long is gone; default "60 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) idle_timeout: Option<Spanned<Duration>>,
    /// How long clips that run when the server is asked to terminate may go on; default "30 s".
    #[schemars(with = "Option<Duration>")]
    pub(crate) drain_timeout: Option<Spanned<Duration>>,
    /// The longest RTP packet, its header included; default "1400 B".
    #[schemars(with = "Option<Size>")]
    pub(crate) packet_bytes: Option<Spanned<Size>>,
    /// Memory for the files of all streams together; default "512 MB".
    #[schemars(with = "Option<Size>")]
    pub(crate) store: Option<Spanned<Size>>,
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

/// Where scheduler and dispatch run.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlacementName {
    /// In the server's process.
    Host,
    /// In a process of their own, the network interface processor.
    Ni,
}
