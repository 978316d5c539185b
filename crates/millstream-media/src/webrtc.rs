//! WebRTC: browsers play streams by WHEP (draft-ietf-wish-whep-03) and publish them by WHIP
//! (RFC 9725).
//!
//! ```text
//! browser ── HTTP: offer ──> handler: limits, admission ──> peers: identities, signals
//!         <── answer ───────────┘                             │ an `Rtc` of str0m
//! browser <── SRTP, RTCP ── UDP ── media thread: ICE, DTLS, SRTP, NACK, TWCC
//! data plane ── orders ─────────────┘
//! ```
//! A viewer is a client like those over RTSP: it has rows, reservations and a window. The media
//! thread sends its frames, in the class of the data plane. The keys are the server's, so a peer
//! ends with its server. A publisher's packets enter the ingest of live streams.
//!
//! Library: str0m, which has no socket, clock or thread. Without the cargo feature `webrtc`, a
//! stand-in rejects the key `webrtc`.

mod alternates;
pub(crate) mod handler;
mod offer;
#[cfg_attr(not(feature = "webrtc"), path = "webrtc/absent.rs")]
pub(crate) mod peers;

use std::net::IpAddr;

use crate::payload::Format;

/// The payload types of published packets in the ingest: a browser may use several for one track.
const VIDEO: u8 = 96;
const AUDIO: u8 = 98;

/// What a client may play or publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Media {
    pub(crate) role: Role,
    /// The format of the video.
    pub(crate) video: Format,
    /// The profile of the H.264 video, if it is known: `profile_idc` of its parameter sets.
    pub(crate) profile: Option<u8>,
    /// The format of audio that the client may get or send.
    pub(crate) audio: Option<Format>,
    /// The mean rate of video and audio, bits/s.
    pub(crate) rate_bps: u64,
}

/// The direction of a client's media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// WHEP: it plays.
    Viewer,
    /// WHIP: it publishes.
    Publisher,
}

/// The client of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// The rows of video and audio.
    Viewer(usize, Option<usize>),
    /// The index of the live stream with the video.
    Publisher(usize),
}

/// The identity of a new peer.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) client: Client,
    /// The session's id.
    pub(crate) id: String,
    pub(crate) address: IpAddr,
}

/// Why an offer is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfferError {
    /// It is not a valid offer.
    Malformed(String),
    /// It has no format that the stream has.
    Unacceptable(String),
}
