//! Reads frames of AV1, VP8 and VP9, which a container holds one by one.

use super::codec::{Codec, MAX_FRAME_BYTES};
use super::file::{DEFAULT_RATE, KeptStream, oversized};
use super::picture::Classifier;
use super::{Frame, FrameRate, VideoFile, av1};
use crate::arrival::TrafficError;

/// The frames that were read.
pub(super) struct WholeFrames<'a> {
    codec: Codec,
    classifier: Classifier,
    frames: Vec<Frame>,
    kept: &'a mut Option<KeptStream>,
    frame: Vec<u8>,
}

impl<'a> WholeFrames<'a> {
    pub(super) fn new(codec: Codec, kept: &'a mut Option<KeptStream>) -> Self {
        let classifier = Classifier::new(codec);
        Self { codec, classifier, frames: Vec::new(), kept, frame: Vec::new() }
    }

    /// Adds a frame. Returns whether more are wanted.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<bool, TrafficError> {
        let number = self.frames.len();
        self.frame.clear();
        match self.codec {
            Codec::Av1 => av1::append_needed(bytes, &mut self.frame),
            _ => self.frame.extend_from_slice(bytes),
        }
        if self.frame.len() as u64 > MAX_FRAME_BYTES {
            return Err(oversized(number, self.frame.len() as u64));
        }
        let wrong = |what: &str| TrafficError::new(what).place(format!("frame {number}"));
        // Bit 4 of the first byte of a VP8 frame: it is shown.
        if self.codec == Codec::Vp8 && self.frame.first().is_some_and(|byte| byte & 0x10 == 0) {
            return Err(wrong("a VP8 frame that is not shown")
                .help("encode without alternate reference frames: ffmpeg -auto-alt-ref 0"));
        }
        let picture = self.classifier.classify(&self.frame);
        let picture = picture
            .ok_or_else(|| wrong("the frame has no valid header").help("the file is damaged"))?;
        if self.kept.as_ref().is_some_and(KeptStream::is_full) {
            return Ok(false);
        }
        if let Some(kept) = self.kept {
            kept.push(&self.frame);
        }
        let bytes = u32::try_from(self.frame.len()).unwrap_or(u32::MAX);
        self.frames.push(Frame { kind: picture.kind, bytes });
        Ok(true)
    }

    /// Returns the frames; `rate` is that of the container.
    pub(super) fn finish(self, rate: Option<FrameRate>) -> VideoFile {
        let rate = rate.or(self.classifier.rate()).unwrap_or(DEFAULT_RATE);
        VideoFile { frames: self.frames, rate }
    }
}
