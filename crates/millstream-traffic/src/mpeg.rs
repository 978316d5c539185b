//! Video frames, from a file or from a model, paced at their frame rate.
//!
//! ```text
//! file ── container (PS, TS, MP4, IVF or none) ── codec ──> frames: type, bytes
//! model ──────────────────────────────────────────────────>   │
//!                                       arrivals <── MpegFeed (frame rate, packets)
//! ```
//!
//! Frames arrive in coding order, one per frame time, as from a media server. Only headers are
//! parsed; no video is decoded. [`AudioTrack`] has the audio of a transport stream.

mod audio;
mod audio_splitter;
mod av1;
mod codec;
mod container;
mod demultiplexer;
mod display;
mod feed;
mod file;
mod fragmented;
mod h265;
mod ivf;
mod model;
mod mp4;
mod mp4_boxes;
mod payload;
mod picture;
mod ts_packets;
mod vp8;
mod vp9;
mod whole_frames;

pub use audio::{AudioCodec, AudioHeader, AudioTrack, audio_frames};
pub use audio_splitter::{AudioFrame, AudioSplitter};
pub use av1::{Obu, append_obu, leb128, obus};
pub use codec::Codec;
pub use demultiplexer::{TransportDemultiplexer, TransportEvent, TransportTrack};
pub use display::reorder_depth;
pub use feed::{FrameKinds, MpegFeed, Packets};
pub use file::VideoFile;
pub use fragmented::{
    AudioFormat, Fragment, FragmentFormats, FragmentSample, FragmentTrack, FragmentedMp4,
    H264Format,
};
pub use model::Mpeg4Model;
pub use mp4::append_byte_stream;
pub use payload::{CodedFrame, VideoBytes, VideoPayload, units};
pub use picture::{Classifier, Picture, classify_frame};
pub use vp9::is_vp9_key_frame;

/// The coding type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Intra-coded: does not depend on other frames.
    I,
    /// Predicted from an earlier frame.
    P,
    /// Predicted from an earlier and a later frame, or not a reference for other frames, or of a
    /// temporal layer above the lowest.
    B,
}

impl FrameKind {
    /// Returns the letter of the type.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::I => 'I',
            Self::P => 'P',
            Self::B => 'B',
        }
    }
}

/// A coded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Coding type.
    pub kind: FrameKind,
    /// Length in the elementary stream, bytes, headers included.
    pub bytes: u32,
}

/// A frame rate as a fraction, neither part 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Number of frames in `seconds` seconds.
    pub frames: u32,
    /// Number of seconds for `frames` frames.
    pub seconds: u32,
}

impl FrameRate {
    /// Returns the time of frame `index`, ns after frame 0.
    #[must_use]
    pub fn time_ns(self, index: u64) -> u128 {
        u128::from(index) * 1_000_000_000 * u128::from(self.seconds)
            / u128::from(self.frames.max(1))
    }
}

/// Deprecated alias of [`classify_frame`].
#[deprecated(note = "renamed to `classify_frame`")]
#[must_use]
pub fn picture(codec: Codec, frame: &[u8]) -> Option<Picture> {
    classify_frame(codec, frame)
}
