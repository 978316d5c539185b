//! Headers of VP9 (the VP9 bitstream and decoding process specification): whether a frame is a key
//! frame, and whether other frames depend on it.
//!
//! A *frame* here is what one packet of a container holds: a picture, or a superframe (annex B) of
//! hidden pictures and one that is shown.
//!
//! A picture that refreshes no slot may still change what later pictures use: probabilities, and
//! the motion vectors of the previous picture. Only error-resilient pictures use neither. So a
//! frame can be left out if its pictures refresh nothing and every picture since the last key frame
//! is error-resilient, as encoders of temporal layers make them.
//!
//! Only the first fields are read. `cros-codecs` has a parser, but it expects whole headers: a
//! damaged index of a superframe makes it panic.

use h264_reader::rbsp::{BitRead, BitReader};
use std::ops::Range;

use super::{FrameKind, Picture};

/// The most pictures of a superframe.
const MAX_PICTURES: usize = 8;

/// The headers of a stream, in coding order.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    /// Whether a picture since the last key frame is not error-resilient.
    depends_on_previous: bool,
}

/// The fields of a header that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    is_key: bool,
    is_resilient: bool,
    refreshed: u8,
}

impl Headers {
    /// Classifies the next frame; `None` if its header is damaged.
    pub(super) fn classify(&mut self, frame: &[u8]) -> Option<Picture> {
        let (mut is_key, mut reference) = (false, false);
        let pictures = pictures(frame)?;
        for (number, range) in pictures.into_iter().enumerate() {
            let header = header(frame.get(range)?)?;
            if header.is_key {
                is_key |= number == 0;
                self.depends_on_previous = false;
            } else {
                self.depends_on_previous |= !header.is_resilient;
            }
            reference |= header.refreshed != 0;
        }
        reference |= self.depends_on_previous;
        let kind = match (is_key, reference) {
            (true, _) => FrameKind::I,
            (false, true) => FrameKind::P,
            (false, false) => FrameKind::B,
        };
        Some(Picture { kind, reference, entry: is_key })
    }
}

/// Returns whether a VP9 frame begins with a key frame.
#[must_use]
pub fn is_vp9_key_frame(frame: &[u8]) -> bool {
    header(frame).is_some_and(|header| header.is_key)
}

/// Returns the ranges of a frame's pictures; `None` if its index is damaged.
fn pictures(frame: &[u8]) -> Option<Vec<Range<usize>>> {
    let last = *frame.last()?;
    let (count, bytes) = (usize::from(last & 7) + 1, usize::from(last >> 3 & 3) + 1);
    let index = (2 + count * bytes).min(frame.len());
    let index = &frame[frame.len() - index..];
    if last & 0xe0 != 0xc0 || index[0] != last || index.len() < 2 + count * bytes {
        return Some(std::iter::once(0..frame.len()).collect());
    }
    let mut at = 0usize;
    let mut found = Vec::with_capacity(MAX_PICTURES);
    for size in index[1..=count * bytes].chunks(bytes) {
        let size = size.iter().rev().fold(0usize, |size, byte| size << 8 | usize::from(*byte));
        let end = at.checked_add(size).filter(|end| *end <= frame.len() - index.len())?;
        // An empty one marks the end of a layer's pictures.
        if size > 0 {
            found.push(at..end);
        }
        at = end;
    }
    (!found.is_empty()).then_some(found)
}

/// Parses the first fields of an uncompressed header (6.2).
fn header(picture: &[u8]) -> Option<Header> {
    let mut bits = BitReader::new(picture);
    let mut number = |width: u32| bits.read_var::<u32>(width, "field").ok();
    if number(2)? != 2 {
        return None;
    }
    let profile = number(1)? | number(1)? << 1;
    if profile == 3 && number(1)? != 0 {
        return None;
    }
    if number(1)? != 0 {
        // A picture of a slot is shown: the next one does not use its motion vectors then.
        return Some(Header { is_key: false, is_resilient: false, refreshed: 0 });
    }
    let is_key = number(1)? == 0;
    let shown = number(1)? != 0;
    let is_resilient = number(1)? != 0;
    if is_key {
        let is_synchronous = number(24)? == 0x0049_8342;
        return is_synchronous.then_some(Header { is_key, is_resilient, refreshed: 0xff });
    }
    let is_intra = !shown && number(1)? != 0;
    if !is_resilient {
        number(2)?;
    }
    if is_intra {
        // What an intra-only picture refreshes follows its colours.
        return Some(Header { is_key, is_resilient, refreshed: 0xff });
    }
    let refreshed = u8::try_from(number(8)?).ok()?;
    Some(Header { is_key, is_resilient, refreshed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profile 0: a key frame, and inter frames that refresh slot 0 and none, error-resilient.
    const KEY: [u8; 5] = [0b1000_0011, 0x49, 0x83, 0x42, 0];
    const REFERENCE: [u8; 2] = [0b1000_0111, 0x01];
    const NONE: [u8; 2] = [0b1000_0111, 0x00];

    #[test]
    fn resilient_frames_that_refresh_nothing_are_unreferenced() {
        let mut headers = Headers::default();
        let mut of = |frame: &[u8]| {
            headers.classify(frame).map(|found| (found.kind, found.reference, found.entry))
        };
        assert_eq!(of(&KEY), Some((FrameKind::I, true, true)));
        assert_eq!(of(&REFERENCE), Some((FrameKind::P, true, false)));
        assert_eq!(of(&NONE), Some((FrameKind::B, false, false)));
        // Two pictures: the hidden one refreshes a slot.
        let superframe = [&REFERENCE[..], &NONE, &[0xc1, 2, 2, 0xc1]].concat();
        assert_eq!(of(&superframe), Some((FrameKind::P, true, false)));
        // One that is not error-resilient: the next may use the vectors of the one before.
        assert_eq!(of(&[0b1000_0110, 0, 0]), Some((FrameKind::P, true, false)));
        assert_eq!(of(&NONE), Some((FrameKind::P, true, false)));
        assert_eq!(of(&KEY), Some((FrameKind::I, true, true)));
        assert_eq!(of(&NONE), Some((FrameKind::B, false, false)));
        for damaged in
            [&[][..], &[0xff], &[0x83, 1, 2, 3], &[0x86], &[0x82, 9, 9, 0xc9, 9, 9, 9, 9]]
        {
            assert_eq!(of(damaged), None, "{damaged:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            frames in proptest::collection::vec(
                proptest::collection::vec(proptest::prop_oneof![0xc0u8..0xe0, 0u8..=255], 0..30),
                0..4),
        ) {
            let mut headers = Headers::default();
            for frame in frames {
                let _ = headers.classify(&frame);
            }
        }
    }
}
