//! RTP payload formats: from a coded frame to the pieces that its packets carry.
//!
//! A frame is cut once, when its file is loaded; what is sent later is a fixed header, a few bytes
//! of the payload format's own, and a range of the file. H.264 is RFC 6184 ([`h264`]), MPEG-1/2
//! video RFC 2250 ([`mpeg_video`]); either in a transport stream is RFC 2250 too ([`mpeg_ts`]).

pub(crate) mod h264;
pub(crate) mod mpeg_ts;
pub(crate) mod mpeg_video;

use millstream_traffic::mpeg::Codec;
use std::ops::Range;

/// Bytes of an RTP header without lists or extensions (RFC 3550, 5.1).
pub(crate) const RTP_HEADER: usize = 12;

/// RTP time stamps of video count 90,000 a second.
pub(crate) const CLOCK_RATE: u64 = 90_000;

/// The payload type of transport streams. Their packets are stamped with when they are sent, and
/// the marker says that these stamps jump, not that a frame ends.
pub(crate) const TRANSPORT_STREAM: u8 = 33;

/// What one packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The payload format's own header: its first `header_bytes` bytes.
    pub(crate) header: [u8; 4],
    /// How many bytes of `header` there are.
    pub(crate) header_bytes: u8,
    /// The range of the frame's bytes that follows.
    pub(crate) range: Range<usize>,
}

/// A payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// RFC 6184.
    H264,
    /// RFC 2250, section 3.
    MpegVideo,
    /// RFC 2250, section 2.
    MpegTs,
}

impl Format {
    /// The one that is a codec's own.
    pub(crate) fn of(codec: Codec) -> Self {
        match codec {
            Codec::H264 => Self::H264,
            Codec::Mpeg => Self::MpegVideo,
        }
    }

    /// Cuts a frame into pieces whose packets, RTP header included, have at most `packet_bytes`.
    pub(crate) fn cut(self, frame: &[u8], packet_bytes: usize) -> Vec<Piece> {
        let room = packet_bytes.saturating_sub(RTP_HEADER).max(16);
        match self {
            Self::H264 => h264::cut(frame, room),
            Self::MpegVideo => mpeg_video::cut(frame, room),
            Self::MpegTs => mpeg_ts::cut(frame, room),
        }
    }

    /// The payload type: static for MPEG (RFC 3551, table 5), dynamic for H.264.
    pub(crate) fn payload_type(self) -> u8 {
        match self {
            Self::H264 => 96,
            Self::MpegVideo => 32,
            Self::MpegTs => TRANSPORT_STREAM,
        }
    }

    /// What it is called in SDP.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            Self::H264 => "H264",
            Self::MpegVideo => "MPV",
            Self::MpegTs => "MP2T",
        }
    }
}
