//! Frames of an elementary stream: MPEG-1/2 video (ISO 11172-2, 13818-2), H.264 (14496-10) and
//! H.265 (23008-2).
//!
//! These codecs are sequences of units that start with 00 00 01. [`Units`] splits them and keeps
//! only the first bytes of each. An [`Assembler`] combines units to frames. A frame's bytes count
//! from its first header to the first header of the next frame. The two fields of an MPEG-2 frame
//! form one frame, with the type of the first field; H.264 fields count as frames.

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::rbsp::{BitRead, BitReader, decode_nal};

use super::{Frame, FrameKind, FrameRate, h265};

/// The number of bytes kept of a unit: enough for every parsed header.
///
/// The longest is a sequence parameter set with all its scaling lists.
pub(super) const MAX_KEPT_BYTES: usize = 1024;

/// The maximum size of a frame, bytes: larger ones come from damaged or hostile files.
pub(super) const MAX_FRAME_BYTES: u64 = 16 << 20;

/// A splitter of a byte stream at its start codes.
#[derive(Debug)]
pub(super) struct Units {
    codec: Codec,
    /// The last four bytes, the newest in the low bits.
    recent: u32,
    kept: Vec<u8>,
    length: u64,
    inside: bool,
}

impl Units {
    pub(super) fn new(codec: Codec) -> Self {
        // The initial bytes are not zeros: with a first byte of 1 they would look like a start
        // code.
        let recent = u32::MAX;
        Self { codec, recent, kept: Vec::with_capacity(MAX_KEPT_BYTES), length: 0, inside: false }
    }

    /// Parses `bytes`; calls `unit` for every unit that ends in them.
    ///
    /// The arguments are the unit's first bytes without the start code, and its length with it.
    pub(super) fn push(&mut self, bytes: &[u8], unit: &mut impl FnMut(&[u8], u64)) {
        for &byte in bytes {
            self.recent = self.recent << 8 | u32::from(byte);
            self.length += 1;
            if self.recent & 0x00ff_ffff == 1 {
                // In H.264 and H.265 a zero before a start code belongs to the start code
                // (14496-10, B.1.1). In MPEG it is stuffing of the previous unit.
                let code = if self.codec != Codec::Mpeg && self.recent == 1 { 4 } else { 3 };
                self.end(code, unit);
                self.length = code;
                self.inside = true;
            } else if self.inside && self.kept.len() < MAX_KEPT_BYTES {
                self.kept.push(byte);
            }
        }
    }

    /// Ends the stream and its last unit.
    pub(super) fn finish(&mut self, unit: &mut impl FnMut(&[u8], u64)) {
        self.end(0, unit);
        self.inside = false;
    }

    /// Ends a unit; its last `over` bytes belong to the next unit.
    fn end(&mut self, over: u64, unit: &mut impl FnMut(&[u8], u64)) {
        if self.inside && !self.kept.is_empty() {
            unit(&self.kept, self.length - over);
        }
        self.kept.clear();
    }
}

/// The supported codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// MPEG-1 or MPEG-2 video.
    Mpeg,
    /// H.264.
    H264,
    /// H.265.
    H265,
    /// AV1.
    Av1,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
}

impl Codec {
    /// Returns whether its streams are sequences of units that begin with start codes. In other
    /// streams only the container says where a frame ends.
    pub(super) fn has_start_codes(self) -> bool {
        matches!(self, Self::Mpeg | Self::H264 | Self::H265)
    }
}

/// An assembler of units into frames.
#[derive(Debug)]
pub(super) struct Assembler {
    codec: Codec,
    pub(super) frames: Vec<Frame>,
    pub(super) rate: Option<FrameRate>,
    /// The parameter sets of H.265.
    sets: Box<h265::Sets>,
    /// The first frame above [`MAX_FRAME_BYTES`]: its number and size in bytes.
    pub(super) oversized: Option<(usize, u64)>,
    bytes: u64,
    kind: Option<FrameKind>,
    /// Whether the open picture is a field of a frame.
    field: bool,
    /// Whether the last frame is a first field that lacks its second one.
    unpaired: bool,
}

/// The role of a unit in its frame.
enum Role {
    /// May precede a picture; starts a new frame if a picture is open.
    Header,
    /// Starts a picture of this type.
    Picture(FrameKind),
    /// Marks the open picture as a field; two fields form a frame.
    Field,
    /// Continues the open picture or headers.
    Continuation,
}

impl Assembler {
    pub(super) fn new(codec: Codec) -> Self {
        Self {
            codec,
            frames: Vec::new(),
            rate: None,
            sets: Box::default(),
            oversized: None,
            bytes: 0,
            kind: None,
            field: false,
            unpaired: false,
        }
    }

    /// Adds a unit of `length` bytes with the first bytes `kept`.
    pub(super) fn unit(&mut self, kept: &[u8], length: u64) {
        let role = match self.codec {
            Codec::Mpeg => mpeg_role(kept, &mut self.rate),
            Codec::H264 => h264_role(kept, &mut self.rate),
            Codec::Av1 | Codec::Vp8 | Codec::Vp9 => Role::Continuation,
            Codec::H265 => match self.sets.unit(kept) {
                h265::Unit::Header => {
                    self.rate = self.rate.or(self.sets.rate);
                    Role::Header
                }
                h265::Unit::First(slice) => Role::Picture(slice.kind()),
                h265::Unit::Continuation => Role::Continuation,
            },
        };
        match role {
            Role::Header if self.kind.is_some() => self.end_frame(),
            Role::Picture(kind) => {
                if self.kind.is_some() {
                    self.end_frame();
                }
                self.kind = Some(kind);
            }
            Role::Field => self.field = true,
            Role::Header | Role::Continuation => {}
        }
        self.bytes += length;
    }

    /// Returns whether no picture is open.
    pub(super) fn has_no_open_picture(&self) -> bool {
        self.kind.is_none()
    }

    /// Ends the open frame, if any; also called at the end of the stream.
    pub(super) fn end_frame(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let Some(kind) = self.kind.take() else { return };
        if bytes > MAX_FRAME_BYTES {
            self.oversized.get_or_insert((self.frames.len(), bytes));
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let field = std::mem::take(&mut self.field);
        match self.frames.last_mut() {
            Some(first) if field && self.unpaired => {
                first.bytes = first.bytes.saturating_add(bytes);
                self.unpaired = false;
            }
            _ => {
                self.frames.push(Frame { kind, bytes });
                self.unpaired = field;
            }
        }
    }
}

/// Frame rates by the code in a sequence header (ISO 13818-2, table 6-4).
const MPEG_RATES: [(u32, u32); 8] = [
    (24_000, 1_001),
    (24, 1),
    (25, 1),
    (30_000, 1_001),
    (30, 1),
    (50, 1),
    (60_000, 1_001),
    (60, 1),
];

fn mpeg_role(kept: &[u8], rate: &mut Option<FrameRate>) -> Role {
    match kept {
        // Sequence header: 12 + 12 bits of size, 4 of aspect ratio, 4 of frame rate.
        [0xb3, _, _, _, aspect_and_rate, ..] => {
            let code = usize::from(aspect_and_rate & 15);
            if let Some(&(frames, seconds)) = code.checked_sub(1).and_then(|c| MPEG_RATES.get(c)) {
                rate.get_or_insert(FrameRate { frames, seconds });
            }
            Role::Header
        }
        // Group of pictures.
        [0xb8, ..] => Role::Header,
        // Picture header: 10 bits of temporal reference, 3 of coding type.
        [0x00, _, reference_and_type, ..] => match reference_and_type >> 3 & 7 {
            1 | 4 => Role::Picture(FrameKind::I),
            2 => Role::Picture(FrameKind::P),
            3 => Role::Picture(FrameKind::B),
            _ => Role::Continuation,
        },
        // Picture coding extension: 4 bits of identifier, 16 of vector ranges, 2 of precision, then
        // the picture structure; 3 is a whole frame.
        [0xb5, name, _, structure, ..] if name >> 4 == 8 && structure & 3 != 3 => Role::Field,
        _ => Role::Continuation,
    }
}

fn h264_role(kept: &[u8], rate: &mut Option<FrameRate>) -> Role {
    match kept[0] & 31 {
        1 | 5 => match h264_slice(kept) {
            Some((0, kind)) => Role::Picture(kind),
            _ => Role::Continuation,
        },
        7 => {
            if let Some(found) = h264_rate(kept) {
                rate.get_or_insert(found);
            }
            Role::Header
        }
        6 | 8 | 9 => Role::Header,
        _ => Role::Continuation,
    }
}

/// The number of bytes parsed of a slice: more than the first two fields of its header need.
const SLICE_START: usize = 16;

/// Returns the first macroblock and the type of a slice NAL unit.
pub(super) fn h264_slice(nal: &[u8]) -> Option<(u32, FrameKind)> {
    let payload = decode_nal(without_zeros(&nal[..nal.len().min(SLICE_START)])).ok()?;
    let mut bits = BitReader::new(&payload[..]);
    let first_macroblock = bits.read_ue("first_mb_in_slice").ok()?;
    let kind = match bits.read_ue("slice_type").ok()? % 5 {
        2 | 4 => FrameKind::I,
        0 | 3 => FrameKind::P,
        _ => FrameKind::B,
    };
    Some((first_macroblock, kind))
}

/// Returns the frame rate in a sequence parameter set; a frame lasts two ticks.
fn h264_rate(nal: &[u8]) -> Option<FrameRate> {
    let payload = decode_nal(without_zeros(nal)).ok()?;
    let parameters = SeqParameterSet::from_bits(BitReader::new(&payload[..])).ok()?;
    let timing = parameters.vui_parameters?.timing_info?;
    let (scale, ticks) = (timing.time_scale, timing.num_units_in_tick);
    let (frames, seconds) =
        if scale % 2 == 0 { (scale / 2, ticks) } else { (scale, ticks.checked_mul(2)?) };
    (frames > 0 && seconds > 0).then_some(FrameRate { frames, seconds })
}

/// Returns a NAL unit without trailing zeros, which the parser rejects and which precede the next
/// start code.
fn without_zeros(nal: &[u8]) -> &[u8] {
    let end = nal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &nal[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn frames(codec: Codec, stream: &[u8], chunk: usize) -> Assembler {
        let (mut units, mut assembler) = (Units::new(codec), Assembler::new(codec));
        for piece in stream.chunks(chunk) {
            units.push(piece, &mut |kept, length| assembler.unit(kept, length));
        }
        units.finish(&mut |kept, length| assembler.unit(kept, length));
        assembler.end_frame();
        assembler
    }

    /// Sequence header (25 frames/s), group, I picture with a slice, then B and P pictures.
    pub(crate) const MPEG: &[u8] = &[
        0, 0, 1, 0xb3, 0x16, 0x01, 0x20, 0x13, 9, 9, 0, 0, 1, 0xb8, 1, 2, 3, 4, 0, 0, 1, 0, 0,
        0x08, 7, 0, 0, 1, 1, 5, 5, 5, 0, 0, 1, 0, 0, 0x18, 7, 0, 0, 1, 1, 6, 0, 0, 1, 0, 0, 0x10,
        7, 0, 0, 1, 1, 6, 6,
    ];

    #[test]
    fn mpeg_pictures_and_headers_form_frames_for_any_chunk_size() {
        for chunk in [1, 2, 3, 7, 1000] {
            let found = frames(Codec::Mpeg, MPEG, chunk);
            assert_eq!(found.rate, Some(FrameRate { frames: 25, seconds: 1 }));
            let expected = [(FrameKind::I, 32), (FrameKind::B, 12), (FrameKind::P, 13)];
            assert_eq!(found.frames, expected.map(|(kind, bytes)| Frame { kind, bytes }));
        }
    }

    #[test]
    fn h264_slices_of_one_picture_form_one_frame() {
        // First macroblock 0 is the bit 1; slice types 7, 5 and 6 are I, P and B.
        let stream = [
            0,
            0,
            1,
            9,
            0x10,
            0,
            0,
            1,
            0x65,
            0b1000_1000,
            0xff,
            0,
            0,
            1,
            0x65,
            0b0100_0010,
            0,
            0,
            1,
            0x41,
            0b1001_1000,
            1,
            0,
            0,
            1,
            0x01,
            0b1001_1100,
            1,
        ];
        let found = frames(Codec::H264, &stream, 4);
        let expected = [(FrameKind::I, 16), (FrameKind::P, 6), (FrameKind::B, 6)];
        assert_eq!(found.frames, expected.map(|(kind, bytes)| Frame { kind, bytes }));
    }

    #[test]
    fn h264_takes_the_frame_rate_from_its_parameters_for_any_start_code() {
        // x264's parameter set for 320 × 240 at 30000/1001 frames/s.
        let parameters = [
            0x67, 0x64, 0x00, 0x0d, 0xac, 0xd9, 0x41, 0x41, 0xfb, 0x01, 0x10, 0x00, 0x00, 0x3e,
            0x90, 0x00, 0x0e, 0xa6, 0x00, 0xf1, 0x42, 0x99, 0x60,
        ];
        for zeros in 0..3 {
            let code = [&vec![0; zeros][..], &[0, 0, 1]].concat();
            let stream = [&code, &parameters[..], &code, &[0x65, 0x88, 9], &code, &[0x41, 0x98]];
            let found = frames(Codec::H264, &stream.concat(), 3);
            let rate = FrameRate { frames: 30_000, seconds: 1_001 };
            assert_eq!(found.rate, Some(rate), "{zeros} zeros before start codes");
            assert_eq!(found.frames.len(), 2, "{:?}", found.frames);
        }
        let four = [0, 0, 0, 1, 0x65, 0x88, 9, 0, 0, 0, 1, 0x41, 0x98];
        let sizes: Vec<_> =
            frames(Codec::H264, &four, 2).frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(sizes, [7, 6], "the zero of a long start code belongs to the next unit");
    }

    #[test]
    fn two_mpeg_2_fields_form_one_frame_with_the_type_of_the_first() {
        let picture = |kind: u8, structure: u8| {
            let header = [0, 0, 1, 0, 0, kind << 3, 7, 0, 0, 1, 0xb5, 0x8f, 0xff, structure, 0x80];
            [&header[..], &[0, 0, 1, 1, 9]].concat()
        };
        let pictures = [picture(1, 1), picture(2, 2), picture(3, 3), picture(3, 1), picture(3, 2)];
        let found = frames(Codec::Mpeg, &pictures.concat(), 5);
        let expected = [(FrameKind::I, 40), (FrameKind::B, 20), (FrameKind::B, 40)];
        assert_eq!(found.frames, expected.map(|(kind, bytes)| Frame { kind, bytes }));
    }

    #[test]
    fn an_oversized_frame_is_reported() {
        let (mut units, mut assembler) = (Units::new(Codec::Mpeg), Assembler::new(Codec::Mpeg));
        let mut unit = |kept: &[u8], length| assembler.unit(kept, length);
        units.push(MPEG, &mut unit);
        for _ in 0..17 {
            units.push(&vec![7; 1 << 20], &mut unit);
        }
        units.finish(&mut unit);
        assembler.end_frame();
        assert_eq!(assembler.oversized, Some((2, (17 << 20) + 13)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic_and_no_byte_counts_twice(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..2, 0u8..=255], 0..300),
            chunk in 1usize..40,
        ) {
            for codec in [Codec::Mpeg, Codec::H264, Codec::H265] {
                let total: u64 =
                    frames(codec, &bytes, chunk).frames.iter().map(|f| u64::from(f.bytes)).sum();
                proptest::prop_assert!(total <= bytes.len() as u64);
            }
        }
    }
}
