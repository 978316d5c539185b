//! RTP payload formats: cut a coded frame into the pieces that its packets carry.
//!
//! A frame is cut once, when its file is loaded. A packet consists of a fixed header, a few bytes
//! of the payload format's header, and a range of the file. The formats are H.264 (RFC 6184,
//! [`h264`]), H.265 (RFC 7798, [`h265`]), AV1 ([`av1`]), VP8 (RFC 7741) and VP9 (RFC 9628; both
//! [`vpx`]), MPEG-1/2 video (RFC 2250, [`mpeg_video`]), transport streams ([`mpeg_ts`], also RFC
//! 2250), AAC (RFC 3640) and MPEG-1/2 audio (RFC 2250; both [`audio`]). Packets of live audio keep
//! their payloads.

pub(crate) mod audio;
pub(crate) mod av1;
pub(crate) mod h264;
pub(crate) mod h265;
pub(crate) mod mpeg_ts;
pub(crate) mod mpeg_video;
pub(crate) mod parameter_sets;
pub(crate) mod vpx;

use millstream_scenario::LiveAudioCodec;
use millstream_traffic::mpeg::{AudioCodec, Codec};
use std::borrow::Cow;

use crate::rtp::{Piece, RTP_HEADER};

/// The payload type of transport streams.
///
/// Their packets carry the send time as timestamp. Their marker bit signals a timestamp
/// discontinuity, not the end of a frame.
const TRANSPORT_STREAM: u8 = 33;

/// The payload type of MPEG audio.
const MPEG_AUDIO: u8 = 14;

/// The payload types of Opus and of G.711, µ-law and A-law.
const OPUS: u8 = 98;
const PCMU: u8 = 0;
const PCMA: u8 = 8;

/// Returns whether the marker bit signals the last packet of a frame.
///
/// Otherwise it signals a discontinuity, or the first packet of audio after silence.
pub(crate) fn marks_frames(payload_type: u8) -> bool {
    !matches!(payload_type, TRANSPORT_STREAM | MPEG_AUDIO | OPUS | PCMU | PCMA)
}

/// Returns the size of a packet's payload, bytes.
fn room(packet_bytes: usize) -> usize {
    packet_bytes.saturating_sub(RTP_HEADER).max(16)
}

/// A payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// H.264, RFC 6184.
    H264,
    /// H.265, RFC 7798.
    H265,
    /// AV1, RTP payload format of the Alliance for Open Media.
    Av1,
    /// VP8, RFC 7741.
    Vp8,
    /// VP9, RFC 9628.
    Vp9,
    /// MPEG-1 and MPEG-2 video, RFC 2250, section 3.
    MpegVideo,
    /// MPEG transport stream, RFC 2250, section 2.
    MpegTs,
    /// AAC, RFC 3640, mode AAC-hbr.
    Aac,
    /// MPEG-1 and MPEG-2 audio, RFC 2250, section 3.
    MpegAudio,
    /// Opus, RFC 7587.
    Opus,
    /// G.711 µ-law, RFC 3551.
    Pcmu,
    /// G.711 A-law, RFC 3551.
    Pcma,
}

impl Format {
    /// Returns a codec's own payload format.
    pub(crate) fn of(codec: Codec) -> Self {
        match codec {
            Codec::H264 => Self::H264,
            Codec::H265 => Self::H265,
            Codec::Av1 => Self::Av1,
            Codec::Vp8 => Self::Vp8,
            Codec::Vp9 => Self::Vp9,
            Codec::Mpeg => Self::MpegVideo,
        }
    }

    /// Returns an audio codec's payload format.
    pub(crate) fn of_audio(codec: AudioCodec) -> Self {
        match codec {
            AudioCodec::Aac => Self::Aac,
            AudioCodec::Mpeg => Self::MpegAudio,
        }
    }

    /// Returns a published audio codec's payload format.
    pub(crate) fn of_live_audio(codec: LiveAudioCodec) -> Self {
        match codec {
            LiveAudioCodec::Aac => Self::Aac,
            LiveAudioCodec::Opus => Self::Opus,
            LiveAudioCodec::Mpeg => Self::MpegAudio,
            LiveAudioCodec::Pcmu => Self::Pcmu,
            LiveAudioCodec::Pcma => Self::Pcma,
        }
    }

    /// Returns a frame in the form that [`cut`](Self::cut) needs.
    pub(crate) fn prepare(self, frame: &[u8], packet_bytes: usize) -> Cow<'_, [u8]> {
        match self {
            Self::Av1 => Cow::Owned(av1::packetize(frame, room(packet_bytes))),
            _ => Cow::Borrowed(frame),
        }
    }

    /// Cuts a prepared frame into pieces. Each fits a packet of `packet_bytes`, RTP header
    /// included.
    pub(crate) fn cut(self, frame: &[u8], packet_bytes: usize) -> Vec<Piece> {
        let room = room(packet_bytes);
        match self {
            Self::H264 => h264::cut(frame, room),
            Self::H265 => h265::cut(frame, room),
            Self::Av1 => av1::cut(frame),
            Self::Vp8 => vpx::cut_vp8(frame, room),
            Self::Vp9 => vpx::cut_vp9(frame, room),
            Self::MpegVideo => mpeg_video::cut(frame, room),
            Self::MpegTs => mpeg_ts::cut(frame, room),
            Self::Aac => audio::cut_aac(frame, room),
            Self::MpegAudio => audio::cut_mpeg(frame, room),
            Self::Opus | Self::Pcmu | Self::Pcma => audio::whole(frame, room),
        }
    }

    /// Returns the payload type: static for MPEG (RFC 3551, tables 4 and 5), else dynamic.
    pub(crate) fn payload_type(self) -> u8 {
        match self {
            Self::H264 => 96,
            Self::H265 => 99,
            Self::Av1 => 100,
            Self::Vp8 => 101,
            Self::Vp9 => 102,
            Self::MpegVideo => 32,
            Self::MpegTs => TRANSPORT_STREAM,
            Self::Aac => 97,
            Self::MpegAudio => MPEG_AUDIO,
            Self::Opus => OPUS,
            Self::Pcmu => PCMU,
            Self::Pcma => PCMA,
        }
    }

    /// Returns the format's name in SDP.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            Self::H264 => "H264",
            Self::H265 => "H265",
            Self::Av1 => "AV1",
            Self::Vp8 => "VP8",
            Self::Vp9 => "VP9",
            Self::MpegVideo => "MPV",
            Self::MpegTs => "MP2T",
            Self::Aac => "MPEG4-GENERIC",
            Self::MpegAudio => "MPA",
            Self::Opus => "opus",
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }
}
