//! Classification of single coded frames by their headers, for frames that do not come from a file.

use super::codec::{Assembler, Codec, h264_slice};
use super::display::is_reference;
use super::payload::units;
use super::{FrameKind, FrameRate, av1, h265, vp8, vp9};

/// The properties of a coded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Coding type.
    pub kind: FrameKind,
    /// Whether another frame is predicted from it.
    pub reference: bool,
    /// Whether a decoder can start with it.
    ///
    /// For H.264 this is an IDR picture, or an I picture with its sequence parameters. For H.265 it
    /// is any random access point (IRAP), for MPEG-1/2 any I picture, and for other codecs a key
    /// frame.
    pub entry: bool,
}

/// Classifies the frame in `frame`, the bytes of an elementary stream with start codes.
///
/// Returns `None` if no whole frame starts in it. Frames of other codecs than MPEG-1/2 and H.264
/// need headers of earlier frames: use a [`Classifier`] for them.
///
/// ```
/// use millstream_traffic::mpeg::{Codec, FrameKind, classify_frame};
/// let idr = [0, 0, 0, 1, 0x65, 0b1000_1000, 0xff];
/// assert!(classify_frame(Codec::H264, &idr).is_some_and(|found| found.entry));
/// assert_eq!(classify_frame(Codec::H264, &idr[..4]), None);
/// ```
#[must_use]
pub fn classify_frame(codec: Codec, frame: &[u8]) -> Option<Picture> {
    Classifier::new(codec).classify(frame)
}

/// A classifier of the frames of one stream, in coding order. Frames may be missing.
#[derive(Clone, Debug)]
pub struct Classifier(Headers);

/// What a classifier knows of the stream.
#[derive(Clone, Debug)]
enum Headers {
    /// MPEG-1/2 and H.264: a frame needs no other.
    None(Codec),
    /// The latest parameter sets.
    H265(Box<h265::Sets>),
    Av1(Box<av1::Headers>),
    Vp8(Box<vp8::Headers>),
    Vp9(vp9::Headers),
}

impl Classifier {
    /// Creates a classifier of frames of this codec.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self(match codec {
            Codec::Mpeg | Codec::H264 => Headers::None(codec),
            Codec::H265 => Headers::H265(Box::default()),
            Codec::Av1 => Headers::Av1(Box::default()),
            Codec::Vp8 => Headers::Vp8(Box::default()),
            Codec::Vp9 => Headers::Vp9(vp9::Headers::default()),
        })
    }

    /// Learns a parameter set of H.265 that is not in a frame, a NAL unit without start code.
    pub fn store_parameter_set(&mut self, nal: &[u8]) {
        if let Headers::H265(sets) = &mut self.0 {
            sets.unit(nal);
        }
    }

    /// Classifies the next frame. Its bytes are those of an elementary stream with start codes, an
    /// AV1 temporal unit, or a VP8 or VP9 frame.
    ///
    /// Returns `None` if no whole frame starts in it.
    pub fn classify(&mut self, frame: &[u8]) -> Option<Picture> {
        match &mut self.0 {
            Headers::None(codec) => classify_by_units(*codec, frame),
            Headers::H265(sets) => classify_h265(sets, frame),
            Headers::Av1(headers) => headers.classify(frame),
            Headers::Vp8(headers) => headers.classify(frame),
            Headers::Vp9(headers) => headers.classify(frame),
        }
    }

    /// Returns whether other frames may be predicted from the next one. `kind` is its type.
    pub(super) fn is_reference(&mut self, kind: FrameKind, frame: &[u8]) -> bool {
        match &mut self.0 {
            Headers::None(codec) => is_reference(*codec, kind, frame),
            Headers::H265(sets) => {
                h265::first_slice(sets, frame).is_none_or(|slice| slice.is_reference())
            }
            _ => self.classify(frame).is_none_or(|picture| picture.reference),
        }
    }

    /// Returns the frame rate that the headers of AV1 state.
    pub(super) fn rate(&self) -> Option<FrameRate> {
        match &self.0 {
            Headers::Av1(headers) => headers.rate(),
            _ => None,
        }
    }
}

impl Picture {
    /// Returns the picture as one of temporal layer `layer`. Above the lowest layer, P-frames count
    /// as B: the frames below can be decoded without them.
    #[must_use]
    pub fn in_layer(self, layer: u8) -> Self {
        let is_above = layer > 0 && self.kind == FrameKind::P;
        Self { kind: if is_above { FrameKind::B } else { self.kind }, ..self }
    }
}

fn classify_h265(sets: &mut h265::Sets, frame: &[u8]) -> Option<Picture> {
    let mut found: Option<h265::Slice> = None;
    for unit in units(frame) {
        let nal = &frame[unit];
        match sets.unit(nal) {
            h265::Unit::First(slice) => found = found.or(Some(slice)),
            // A frame without its first slice does not count.
            h265::Unit::Continuation if found.is_none() && h265::unit_type(nal) < 32 => {
                return None;
            }
            _ => {}
        }
    }
    let slice = found?;
    let (kind, reference) = (slice.kind(), slice.is_reference());
    Some(Picture { kind, reference, entry: slice.is_entry() })
}

fn classify_by_units(codec: Codec, frame: &[u8]) -> Option<Picture> {
    let mut assembler = Assembler::new(codec);
    let (mut instant, mut parameters) = (false, false);
    for unit in units(frame) {
        let unit = &frame[unit];
        if codec == Codec::H264 {
            let kind = unit[0] & 31;
            // A frame without its first slice does not count.
            if matches!(kind, 1 | 5) && assembler.has_no_open_picture() && h264_slice(unit)?.0 != 0
            {
                return None;
            }
            instant |= kind == 5;
            parameters |= kind == 7;
        }
        assembler.unit(unit, unit.len() as u64);
    }
    assembler.end_frame();
    let kind = assembler.frames.first()?.kind;
    let begins = codec == Codec::Mpeg || instant || parameters;
    Some(Picture {
        kind,
        reference: is_reference(codec, kind, frame),
        entry: kind == FrameKind::I && begins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpeg::VideoPayload;
    use std::path::Path;

    #[test]
    fn a_single_frame_is_classified_as_in_its_file() {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        let video = VideoPayload::open(&clip, 1 << 24).unwrap();
        for frame in &video.frames {
            let found = classify_frame(video.codec, video.frame(frame)).unwrap();
            assert_eq!((found.kind, found.reference), (frame.kind, frame.reference));
            assert_eq!(found.entry, frame.kind == FrameKind::I);
        }
    }

    #[test]
    fn h264_frames_need_their_first_slice_and_entry_points_need_parameters() {
        let found = |frame: &[u8]| classify_frame(Codec::H264, frame);
        let [idr, p, b] =
            [[0x65, 0x88], [0x41, 0x98], [0x01, 0x9c]].map(|nal| [&[0, 0, 1][..], &nal].concat());
        let sps = [0, 0, 1, 0x67, 1, 2, 3];
        assert!(found(&idr).unwrap().entry);
        assert_eq!(
            found(&p).map(|p| (p.kind, p.reference, p.entry)),
            Some((FrameKind::P, true, false))
        );
        assert_eq!(found(&b).map(|b| (b.kind, b.reference)), Some((FrameKind::B, false)));
        let i = [0, 0, 1, 0x61, 0x88];
        assert!(!found(&i).unwrap().entry && found(&[&sps[..], &i].concat()).unwrap().entry);
        // The second slice alone: first macroblock 1.
        assert_eq!(found(&[0, 0, 1, 0x65, 0b0100_0010]), None);
        assert_eq!(found(&sps), None);
        assert_eq!(found(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..2, 0u8..=255], 0..200),
        ) {
            for codec in [Codec::Mpeg, Codec::H264, Codec::H265, Codec::Av1] {
                let _ = classify_frame(codec, &bytes);
            }
        }
    }
}
