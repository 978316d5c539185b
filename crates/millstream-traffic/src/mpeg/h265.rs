//! Headers of H.265 (ITU-T H.265): parameter sets, the type of a picture, and the display order.
//!
//! ```text
//! | F 1 | type 6 | layer 6 | TemporalId + 1, 3 |   the header of a NAL unit, 7.3.1.2
//! ```
//! A picture that no other picture refers to has a type of the even numbers below 16 ("sub-layer
//! non-reference") and the highest `TemporalId` of its sequence. With a lower `TemporalId`, the
//! pictures of higher layers may refer to it (7.4.2.2).
//!
//! `cros-codecs` parses sequence parameter sets: their frame rate is behind long conditional lists.
//! The syntax bounds the memory that this takes. The first fields of picture parameter sets and of
//! slices are read here, since the library's parser of slices needs sets that may have been lost.

use cros_codecs::codec::h265::parser::{Nalu, Parser};
use h264_reader::rbsp::{BitRead, BitReader, decode_nal};
use std::io::Cursor;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::codec::MAX_KEPT_BYTES;
use super::payload::units;
use super::{FrameKind, FrameRate};

/// NAL unit types (table 7-1).
const BLA_W_LP: u8 = 16;
const IDR_W_RADL: u8 = 19;
const IDR_N_LP: u8 = 20;
const CRA: u8 = 21;
const VPS: u8 = 32;
const SPS: u8 = 33;
const PPS: u8 = 34;
const PREFIX_SEI: u8 = 39;

/// The number of bytes parsed of a slice: more than the first fields of its header need.
const SLICE_START: usize = 32;

/// The numbers of sequence and of picture parameter sets that a stream may have.
const SEQUENCES: usize = 16;
const PICTURES: usize = 64;

/// The highest `TemporalId`.
const HIGHEST_LAYER: u8 = 6;

/// Returns the type of a NAL unit.
pub(super) fn unit_type(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |byte| byte >> 1 & 63)
}

/// The fields of a sequence parameter set that are used.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    highest_layer: u8,
    order_count_bits: u32,
    separate_planes: bool,
}

/// The fields of a picture parameter set that are used.
#[derive(Clone, Copy, Debug)]
struct PictureSet {
    sequence: usize,
    has_output_flag: bool,
    extra_bits: u32,
}

/// The latest parameter sets of a stream.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    sequences: [Option<Sequence>; SEQUENCES],
    pictures: [Option<PictureSet>; PICTURES],
    /// The frame rate of the first sequence parameter set that has one.
    pub(super) rate: Option<FrameRate>,
}

impl Default for Sets {
    fn default() -> Self {
        Self { sequences: [None; SEQUENCES], pictures: [None; PICTURES], rate: None }
    }
}

/// The role of a NAL unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// May precede a picture; starts a new frame if a picture is open.
    Header,
    /// The first slice of a picture.
    First(Slice),
    /// Another slice, or a unit that follows slices.
    Continuation,
}

/// The first slice of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    unit_type: u8,
    layer: u8,
    highest_layer: u8,
    /// The slice type, if the parameter sets are known.
    kind: Option<FrameKind>,
    /// The low bits of the picture order count, and their number, if these are known.
    order_count: Option<(u32, u32)>,
}

impl Slice {
    /// Returns whether other pictures may be predicted from this one.
    pub(super) fn is_reference(self) -> bool {
        let is_sublayer_reference = self.unit_type >= BLA_W_LP || self.unit_type % 2 == 1;
        is_sublayer_reference || self.layer < self.highest_layer
    }

    /// Returns whether a decoder can start with this picture (intra random access point).
    pub(super) fn is_entry(self) -> bool {
        (BLA_W_LP..=CRA).contains(&self.unit_type)
    }

    /// Returns the coding type. Pictures above the lowest temporal layer count as B: those below
    /// can be decoded without them.
    pub(super) fn kind(self) -> FrameKind {
        match self.kind {
            _ if self.is_entry() => FrameKind::I,
            _ if !self.is_reference() || self.layer > 0 => FrameKind::B,
            Some(kind) => kind,
            None => FrameKind::P,
        }
    }
}

impl Sets {
    /// Parses a NAL unit and stores its contents if it is a parameter set.
    pub(super) fn unit(&mut self, nal: &[u8]) -> Unit {
        // Other layers (of scalable or multiview video) belong to the picture of the base layer.
        let [first, second, ..] = *nal else { return Unit::Continuation };
        if first & 1 != 0 || second >> 3 != 0 {
            return Unit::Continuation;
        }
        match unit_type(nal) {
            kind @ (0..=9 | BLA_W_LP..=CRA) => match self.slice(nal, kind, second) {
                Some(slice) => Unit::First(slice),
                None => Unit::Continuation,
            },
            SPS => {
                self.store_sequence(nal);
                Unit::Header
            }
            PPS => {
                let _ = self.store_picture(nal);
                Unit::Header
            }
            VPS | 35 | PREFIX_SEI | 41..=44 | 48..=55 => Unit::Header,
            _ => Unit::Continuation,
        }
    }

    fn store_sequence(&mut self, nal: &[u8]) {
        let kept = &nal[..nal.len().min(MAX_KEPT_BYTES)];
        let unit = [&[0, 0, 1], kept].concat();
        // The library must not end a server if it panics.
        let parsed = catch_unwind(AssertUnwindSafe(|| {
            let unit = Nalu::next(&mut Cursor::new(&unit[..])).ok()?;
            let mut parser = Parser::default();
            let set = parser.parse_sps(&unit).ok()?;
            let timing = &set.vui_parameters;
            let timed = set.vui_parameters_present_flag && timing.timing_info_present_flag;
            let rate = FrameRate { frames: timing.time_scale, seconds: timing.num_units_in_tick };
            let rate = Some(rate).filter(|rate| timed && rate.frames > 0 && rate.seconds > 0);
            let sequence = Sequence {
                highest_layer: set.max_sub_layers_minus1.min(HIGHEST_LAYER),
                order_count_bits: u32::from(set.log2_max_pic_order_cnt_lsb_minus4) + 4,
                separate_planes: set.separate_colour_plane_flag,
            };
            Some((usize::from(set.seq_parameter_set_id), sequence, rate))
        }));
        if let Ok(Some((id, sequence, rate))) = parsed
            && let Some(stored) = self.sequences.get_mut(id)
        {
            *stored = Some(sequence);
            self.rate = self.rate.or(rate);
        }
    }

    /// Stores the first fields of a picture parameter set (7.3.2.3.1).
    fn store_picture(&mut self, nal: &[u8]) -> Option<()> {
        let payload = payload(nal)?;
        let mut bits = BitReader::new(&payload[..]);
        let id = bits.read_ue("pps_pic_parameter_set_id").ok()?;
        let sequence = bits.read_ue("pps_seq_parameter_set_id").ok()?;
        let _dependent_slices = bits.read_bit("dependent_slice_segments_enabled_flag").ok()?;
        let has_output_flag = bits.read_bit("output_flag_present_flag").ok()?;
        let extra_bits = bits.read_var(3, "num_extra_slice_header_bits").ok()?;
        let stored = self.pictures.get_mut(usize::try_from(id).ok()?)?;
        let sequence = usize::try_from(sequence).ok()?;
        *stored = Some(PictureSet { sequence, has_output_flag, extra_bits });
        Some(())
    }

    /// Parses the first slice of a picture (7.3.6.1); `None` for other slices.
    fn slice(&self, nal: &[u8], unit_type: u8, second: u8) -> Option<Slice> {
        if nal.get(2)? & 0x80 == 0 {
            return None;
        }
        let layer = (second & 7).checked_sub(1)?;
        let mut slice = Slice {
            unit_type,
            layer,
            // Without parameter sets, no picture is known to be unreferenced.
            highest_layer: HIGHEST_LAYER + 1,
            kind: None,
            order_count: None,
        };
        let _ = self.slice_fields(nal, &mut slice);
        Some(slice)
    }

    fn slice_fields(&self, nal: &[u8], slice: &mut Slice) -> Option<()> {
        let payload = payload(&nal[..nal.len().min(SLICE_START)])?;
        let mut bits = BitReader::new(&payload[..]);
        bits.read_bit("first_slice_segment_in_pic_flag").ok()?;
        if slice.unit_type >= BLA_W_LP {
            bits.read_bit("no_output_of_prior_pics_flag").ok()?;
        }
        let id = bits.read_ue("slice_pic_parameter_set_id").ok()?;
        let picture = (*self.pictures.get(usize::try_from(id).ok()?)?)?;
        let sequence = (*self.sequences.get(picture.sequence)?)?;
        slice.highest_layer = sequence.highest_layer;
        bits.skip(picture.extra_bits, "slice_reserved_flag").ok()?;
        slice.kind = Some(match bits.read_ue("slice_type").ok()? {
            0 => FrameKind::B,
            1 => FrameKind::P,
            _ => FrameKind::I,
        });
        if picture.has_output_flag {
            bits.read_bit("pic_output_flag").ok()?;
        }
        if sequence.separate_planes {
            bits.skip(2, "colour_plane_id").ok()?;
        }
        let width = sequence.order_count_bits;
        let low = match slice.unit_type {
            IDR_W_RADL | IDR_N_LP => 0,
            _ => bits.read_var(width, "slice_pic_order_cnt_lsb").ok()?,
        };
        slice.order_count = Some((low, width));
        Some(())
    }
}

/// Returns a NAL unit without its header and its emulation prevention.
fn payload(nal: &[u8]) -> Option<Vec<u8>> {
    // The library removes a header of one byte, that of H.264, and rejects trailing zeros.
    let nal = nal.get(1..)?;
    let end = nal.iter().rposition(|byte| *byte != 0)?;
    decode_nal(&nal[..=end]).ok().map(std::borrow::Cow::into_owned)
}

/// Returns the first slice of a frame's picture; stores the frame's parameter sets.
pub(super) fn first_slice(sets: &mut Sets, frame: &[u8]) -> Option<Slice> {
    units(frame).fold(None, |found, unit| match sets.unit(&frame[unit]) {
        Unit::First(slice) => found.or(Some(slice)),
        _ => found,
    })
}

/// Returns the position of each frame in display order (8.3.1); `None` if a frame states none.
pub(super) fn display_order(ranges: &[Range<usize>], stream: &[u8]) -> Option<Vec<u32>> {
    let mut sets = Sets::default();
    let (mut high_before, mut low_before) = (0i64, 0i64);
    let mut sequence = 0u64;
    let mut keys = Vec::with_capacity(ranges.len());
    for (index, range) in ranges.iter().enumerate() {
        let slice = first_slice(&mut sets, &stream[range.clone()])?;
        let (low, width) = slice.order_count?;
        let (low, modulus) = (i64::from(low), 1i64 << width);
        // An IDR or BLA picture begins a sequence.
        let begins = slice.is_entry() && slice.unit_type != CRA;
        sequence += u64::from(begins);
        let high = if begins || index == 0 {
            0
        } else if low < low_before && low_before - low >= modulus / 2 {
            high_before + modulus
        } else if low > low_before && low - low_before > modulus / 2 {
            high_before - modulus
        } else {
            high_before
        };
        // Leading and sub-layer non-reference pictures are no anchors.
        let is_leading = (6..=9).contains(&slice.unit_type);
        let is_non_reference = slice.unit_type < BLA_W_LP && slice.unit_type % 2 == 0;
        if slice.layer == 0 && !is_leading && !is_non_reference {
            (high_before, low_before) = (high, low);
        }
        keys.push((sequence, high + low, index));
    }
    keys.sort_unstable();
    let mut order = vec![0; keys.len()];
    for (place, (.., index)) in keys.into_iter().enumerate() {
        order[index] = u32::try_from(place).unwrap_or(u32::MAX);
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter sets of x265 for 176 × 144 at 25 frames/s, with two temporal layers.
    const SPS: &[u8] = &[
        0x42, 0x01, 0x02, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00,
        0x03, 0x00, 0x3c, 0x00, 0x00, 0xa0, 0x16, 0x20, 0x24, 0x59, 0x65, 0x65, 0x2b, 0x2c, 0x92,
        0x65, 0x78, 0x0b, 0x4a, 0x41, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x19,
        0x08,
    ];
    const PPS: &[u8] = &[0x44, 0x01, 0xc1, 0x72, 0xb4, 0x22, 0x40];

    /// Returns the first slice of a picture: its type, layer, and the bits after the first slice
    /// flag (1) and the number of the parameter set (1).
    fn slice(sets: &mut Sets, unit_type: u8, layer: u8, bits: u8) -> Option<Slice> {
        match sets.unit(&[unit_type << 1, layer + 1, 0xc0 | bits, 0x80]) {
            Unit::First(slice) => Some(slice),
            _ => None,
        }
    }

    #[test]
    fn pictures_of_the_highest_layer_that_none_refers_to_are_unreferenced() {
        let mut sets = Sets::default();
        let mut of = |unit_type, layer, bits| {
            let slice = slice(&mut sets, unit_type, layer, bits)?;
            Some((slice.kind(), slice.is_reference(), slice.is_entry()))
        };
        // Without parameter sets: neither the slice type nor the highest layer is known.
        assert_eq!(of(0, 0, 0b10_0000), Some((FrameKind::P, true, false)));
        let mut sets = Sets::default();
        assert!(matches!(sets.unit(SPS), Unit::Header) && matches!(sets.unit(PPS), Unit::Header));
        assert_eq!(sets.rate, Some(FrameRate { frames: 25, seconds: 1 }));
        let mut of = |unit_type, layer, bits| {
            let slice = slice(&mut sets, unit_type, layer, bits)?;
            Some((slice.kind(), slice.is_reference(), slice.is_entry()))
        };
        // Slice types: 1 is B, 010 P, 011 I.
        assert_eq!(of(1, 0, 0b10_0000), Some((FrameKind::B, true, false)), "TRAIL_R");
        assert_eq!(of(1, 0, 0b01_0000), Some((FrameKind::P, true, false)), "TRAIL_R");
        assert_eq!(of(1, 0, 0b01_1000), Some((FrameKind::I, true, false)), "TRAIL_R");
        assert_eq!(of(0, 0, 0b01_0000), Some((FrameKind::P, true, false)), "TRAIL_N below");
        assert_eq!(of(3, 1, 0b01_0000), Some((FrameKind::B, true, false)), "TSA_R");
        assert_eq!(of(2, 1, 0b01_0000), Some((FrameKind::B, false, false)), "TSA_N");
        assert_eq!(of(CRA, 0, 0b10_0000), Some((FrameKind::I, true, true)), "CRA");
        // Not the first slice; a layer of a scalable stream; no valid layer.
        assert!(matches!(sets.unit(&[2, 1, 0x40, 0x80]), Unit::Continuation));
        assert!(matches!(sets.unit(&[2, 9, 0xd0, 0x80]), Unit::Continuation));
        assert!(matches!(sets.unit(&[2, 0, 0xd0, 0x80]), Unit::Continuation));
    }

    #[test]
    fn pictures_are_shown_by_their_order_count() {
        // The order counts, of eight bits, follow the slice type P.
        let picture = |unit_type: u8, count: u8| {
            vec![0, 0, 1, unit_type << 1, 1, 0b1101_0000 | count >> 5, count << 3 | 4]
        };
        let sets = [&[0, 0, 1], SPS, &[0, 0, 1], PPS].concat();
        let idr = [0, 0, 1, IDR_W_RADL << 1, 1, 0xec, 0x80];
        let frames = [
            [&sets[..], &idr].concat(),
            picture(1, 4),
            picture(0, 2),
            picture(0, 3),
            picture(1, 8),
            idr.to_vec(),
            picture(1, 250),
        ];
        let mut ranges = Vec::new();
        for frame in &frames {
            let start = ranges.last().map_or(0, |range: &Range<usize>| range.end);
            ranges.push(start..start + frame.len());
        }
        let order = display_order(&ranges, &frames.concat());
        // The last count is 6 below zero: it is shown before its IDR picture.
        assert_eq!(order, Some(vec![0, 3, 1, 2, 4, 6, 5]));
    }
}
