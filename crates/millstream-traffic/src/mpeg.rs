//! Video frames: from a real file or from a model, paced at their frame rate.
//!
//! ```text
//! file ── container (PS, TS, MP4 or none) ── codec (MPEG-1/2, H.264) ──> frames: type, bytes
//! model ───────────────────────────────────────────────────────────────>    │
//!                                       arrivals <── MpegFeed (frame rate, packets)
//! ```
//!
//! Frames come in coding order, one each frame time, as a server would send them. Only headers are
//! read; nothing is decoded.

mod codec;
mod container;
mod display;
mod feed;
mod file;
mod model;
mod mp4;
mod payload;
mod picture;

pub use codec::Codec;
pub use feed::{FrameKinds, MpegFeed, Packets};
pub use file::VideoFile;
pub use model::Mpeg4Model;
pub use payload::{CodedFrame, VideoBytes, VideoPayload, units};
pub use picture::{Picture, picture};

/// How a frame is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// By itself.
    I,
    /// Predicted from an earlier frame.
    P,
    /// Predicted from both sides; nothing depends on it.
    B,
}

impl FrameKind {
    /// Its letter.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::I => 'I',
            Self::P => 'P',
            Self::B => 'B',
        }
    }
}

/// One coded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How it is coded.
    pub kind: FrameKind,
    /// Its bytes in the elementary stream, headers included.
    pub bytes: u32,
}

/// Frames a second as a fraction, neither part 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Frames …
    pub frames: u32,
    /// … in so many seconds.
    pub seconds: u32,
}

impl FrameRate {
    /// When frame `index` comes, ns after frame 0.
    #[must_use]
    pub fn time_ns(self, index: u64) -> u128 {
        u128::from(index) * 1_000_000_000 * u128::from(self.seconds)
            / u128::from(self.frames.max(1))
    }
}
