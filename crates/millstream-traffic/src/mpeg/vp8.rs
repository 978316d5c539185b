//! Headers of VP8 (RFC 6386): whether a frame is a key frame, and whether later frames depend on
//! it.
//!
//! A frame can be left out if it refreshes no reference frame and nothing else that later frames
//! use: no probabilities, no map of segments, and no new adjustments of the loop filter. Encoders
//! that expect losses repeat these adjustments in every frame, so their values are compared.
//!
//! These flags lie in the arithmetic-coded part of the header, which `cros-codecs` parses.

use cros_codecs::codec::vp8::parser::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{FrameKind, Picture};

/// The headers of a stream, in coding order.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers(Parser);

impl Headers {
    /// Classifies the next frame; `None` if its header is damaged.
    pub(super) fn classify(&mut self, frame: &[u8]) -> Option<Picture> {
        let before = self.0.mb_lf_adjust().clone();
        // The library must not end a server if it panics.
        let parsed = catch_unwind(AssertUnwindSafe(|| self.0.parse_frame(frame).ok()));
        let Some(Some(parsed)) = parsed.ok() else {
            self.0 = Parser::default();
            return None;
        };
        let header = &parsed.header;
        if header.key_frame {
            return Some(Picture { kind: FrameKind::I, reference: true, entry: true });
        }
        let (segments, after) = (self.0.segmentation(), self.0.mb_lf_adjust());
        let updates_segments = segments.segmentation_enabled
            && (segments.update_mb_segmentation_map || segments.update_segment_feature_data);
        let updates_filter = after.ref_frame_delta != before.ref_frame_delta
            || after.mb_mode_delta != before.mb_mode_delta;
        let reference = header.refresh_last
            || header.refresh_golden_frame
            || header.refresh_alternate_frame
            || header.copy_buffer_to_golden != 0
            || header.copy_buffer_to_alternate != 0
            || header.refresh_entropy_probs
            || updates_segments
            || updates_filter;
        let kind = if reference { FrameKind::P } else { FrameKind::B };
        Some(Picture { kind, reference, entry: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            frames in proptest::collection::vec(
                proptest::collection::vec(0u8..=255, 0..60), 0..4),
            size in 0u8..=255,
        ) {
            let mut headers = Headers::default();
            for frame in frames {
                // An inter frame, and a key frame of 16 × 16, with a first partition of this size.
                let _ = headers.classify(&frame);
                let _ = headers.classify(&[&[0x11, size >> 3, 0][..], &frame].concat());
                let key = [0x10, size >> 3, 0, 0x9d, 1, 0x2a, 16, 0, 16, 0];
                let _ = headers.classify(&[&key[..], &frame].concat());
            }
        }
    }
}
