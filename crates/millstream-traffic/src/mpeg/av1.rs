//! Headers of AV1 (the AV1 bitstream and decoding process specification): the units of a frame, and
//! its type.
//!
//! A *frame* here is a temporal unit: one picture that is shown, with the hidden pictures before
//! it, and without temporal delimiter. It is a sequence of open bitstream units (OBU, 5.3):
//!
//! ```text
//! | 0 | type 4 | extension | has size | 0 |   | temporal 3 | spatial 2 | 0 |   | size |   payload
//! ```
//! A picture is referenced only through the slots that it refreshes, with all its state. So a frame
//! of pictures without `refresh_frame_flags` can be left out.
//!
//! `scuffle-av1` parses sequence headers. The first fields of frame headers are read here: the rest
//! depends on the pictures in the slots, which a loss may have changed.

use h264_reader::rbsp::{BitRead, BitReader};
use scuffle_av1::seq::SequenceHeaderObu;
use scuffle_av1::{ObuHeader, ObuType};
use std::ops::Range;
use std::panic::catch_unwind;

use super::{FrameKind, FrameRate, Picture};

/// Types of OBUs (6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;

/// Frame types (6.8.2).
const KEY_FRAME: u8 = 0;
const INTRA_ONLY_FRAME: u8 = 2;
const SWITCH_FRAME: u8 = 3;

/// The value of a flag in a sequence header that each frame header sets (6.5.5, 6.5.6).
const SELECT: u8 = 2;

/// The longest size field, bytes (4.10.5).
const MAX_SIZE_BYTES: usize = 8;

/// An open bitstream unit of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obu {
    /// The first byte of its header, without the flag of a size.
    pub header: u8,
    /// The extension of its header, with its layers.
    pub extension: Option<u8>,
    /// The range of the whole unit in the frame.
    pub range: Range<usize>,
    /// The range of its payload.
    pub payload: Range<usize>,
}

impl Obu {
    /// Returns its type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header >> 3 & 15
    }

    /// Returns whether it is a sequence header.
    #[must_use]
    pub fn is_sequence_header(&self) -> bool {
        self.kind() == SEQUENCE_HEADER
    }

    /// Returns whether it is needed to decode the frame. Delimiters, padding and lists of tiles are
    /// not; RTP forbids the first and the last.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !matches!(self.kind(), TEMPORAL_DELIMITER | TILE_LIST | PADDING)
    }

    fn temporal_layer(&self) -> u8 {
        self.extension.map_or(0, |byte| byte >> 5)
    }

    fn spatial_layer(&self) -> u8 {
        self.extension.map_or(0, |byte| byte >> 3 & 3)
    }
}

/// Returns the OBUs of a frame, up to a damaged one. One without a size ends with the frame.
///
/// ```
/// use millstream_traffic::mpeg::obus;
/// // A temporal delimiter, and a frame in temporal layer 1 without a size.
/// let found: Vec<_> = obus(&[0x12, 0, 0x34, 0x20, 7, 7]).collect();
/// assert_eq!((found[0].kind(), found[1].kind()), (2, 6));
/// assert_eq!((&found[1].payload, found[1].extension), (&(4..6), Some(0x20)));
/// ```
pub fn obus(frame: &[u8]) -> impl Iterator<Item = Obu> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let obu = obu(frame, at)?;
        at = obu.range.end;
        Some(obu)
    })
}

fn obu(frame: &[u8], start: usize) -> Option<Obu> {
    let first = *frame.get(start)?;
    if first & 0x80 != 0 {
        return None;
    }
    let mut at = start + 1;
    let mut extension = None;
    if first & 4 != 0 {
        extension = Some(*frame.get(at)?);
        at += 1;
    }
    let mut end = frame.len();
    if first & 2 != 0 {
        let (size, bytes) = leb128(&frame[at..])?;
        at += bytes;
        end = at.checked_add(size).filter(|end| *end <= frame.len())?;
    }
    Some(Obu { header: first & !2, extension, range: start..end, payload: at..end })
}

/// Returns a size (4.10.5) and the number of its bytes.
#[must_use]
pub fn leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0u64;
    for (number, byte) in (0u32..).zip(bytes.iter().take(MAX_SIZE_BYTES)) {
        value |= u64::from(byte & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            let size = u32::try_from(value).ok()?;
            return Some((size as usize, number as usize + 1));
        }
    }
    None
}

/// The headers of a stream, in coding order.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    sequence: Option<Sequence>,
    /// The slots that hold key frames, as bits.
    key_slots: u8,
}

/// The fields of a sequence header that frame headers depend on.
#[derive(Clone, Debug)]
struct Sequence {
    is_still: bool,
    rate: Option<FrameRate>,
    /// The bits of a presentation time, if frames that are shown have one.
    presentation_bits: Option<u32>,
    /// The bits of a removal time, if frames may have them.
    removal_bits: Option<u32>,
    /// The layers (`operating_point_idc`) of each operating point with a decoder model.
    operating_points: Vec<u16>,
    id_bits: Option<u32>,
    screen_content_tools: u8,
    integer_mv: u8,
    order_hint_bits: u32,
}

/// The fields of a frame header that are used.
struct FrameHeader {
    kind: u8,
    shown: bool,
    refreshed: u8,
}

impl Headers {
    /// Returns the frame rate that the sequence header states.
    pub(super) fn rate(&self) -> Option<FrameRate> {
        self.sequence.as_ref()?.rate
    }

    /// Learns a sequence header: its payload.
    pub(super) fn store_sequence(&mut self, payload: &[u8]) {
        if let Some(sequence) = sequence(payload) {
            self.sequence = Some(sequence);
        }
    }

    /// Classifies the next frame; `None` if it has no picture.
    pub(super) fn classify(&mut self, frame: &[u8]) -> Option<Picture> {
        let mut found: Option<Picture> = None;
        let (mut is_key, mut is_intra, mut layer) = (false, true, 0);
        for obu in obus(frame) {
            let payload = &frame[obu.payload.clone()];
            match obu.kind() {
                SEQUENCE_HEADER => self.store_sequence(payload),
                FRAME_HEADER | FRAME => {
                    let header = self.frame_header(payload, &obu);
                    let picture = found.get_or_insert(Picture {
                        kind: FrameKind::P,
                        reference: false,
                        entry: false,
                    });
                    layer = layer.max(obu.temporal_layer());
                    let Some(FrameHeader { kind, shown, refreshed }) = header else {
                        // What cannot be read may be a reference.
                        (picture.reference, is_intra) = (true, false);
                        continue;
                    };
                    picture.reference |= refreshed != 0;
                    is_key |= kind == KEY_FRAME && shown;
                    is_intra &= matches!(kind, KEY_FRAME | INTRA_ONLY_FRAME);
                    self.key_slots &= !refreshed;
                    if kind == KEY_FRAME {
                        self.key_slots |= refreshed;
                    }
                }
                _ => {}
            }
        }
        let mut picture = found?;
        picture.entry = is_key && self.sequence.is_some();
        picture.kind = match picture.reference {
            _ if is_key => FrameKind::I,
            false => FrameKind::B,
            true if layer > 0 => FrameKind::B,
            true if is_intra => FrameKind::I,
            true => FrameKind::P,
        };
        Some(picture)
    }

    /// Parses the first fields of a frame header (5.9.2); `None` if they cannot be read.
    fn frame_header(&self, payload: &[u8], obu: &Obu) -> Option<FrameHeader> {
        let sequence = self.sequence.as_ref()?;
        let all = FrameHeader { kind: KEY_FRAME, shown: true, refreshed: 0xff };
        if sequence.is_still {
            return Some(all);
        }
        let mut bits = Bits(BitReader::new(payload));
        if bits.flag()? {
            // A picture from a slot is shown. A key frame there refreshes all slots.
            let slot = bits.number(3)?;
            let is_key = self.key_slots >> slot & 1 != 0;
            let (kind, refreshed) = if is_key { (KEY_FRAME, 0xff) } else { (1, 0) };
            return Some(FrameHeader { kind, shown: true, refreshed });
        }
        let kind = u8::try_from(bits.number(2)?).ok()?;
        let shown = bits.flag()?;
        match sequence.presentation_bits {
            Some(width) if shown => bits.skip(width)?,
            _ => {}
        }
        if !shown {
            let _showable = bits.flag()?;
        }
        let begins = kind == KEY_FRAME && shown;
        let resilient = kind == SWITCH_FRAME || begins || bits.flag()?;
        let _disable_cdf_update = bits.flag()?;
        let tools = match sequence.screen_content_tools {
            SELECT => bits.flag()?,
            tools => tools != 0,
        };
        if tools && sequence.integer_mv == SELECT {
            let _force_integer_mv = bits.flag()?;
        }
        bits.skip(sequence.id_bits.unwrap_or(0))?;
        if kind != SWITCH_FRAME {
            let _frame_size_override = bits.flag()?;
        }
        bits.skip(sequence.order_hint_bits)?;
        if !matches!(kind, KEY_FRAME | INTRA_ONLY_FRAME) && !resilient {
            let _primary_ref_frame = bits.number(3)?;
        }
        if let Some(width) = sequence.removal_bits
            && bits.flag()?
        {
            let (temporal, spatial) = (obu.temporal_layer(), obu.spatial_layer());
            for layers in &sequence.operating_points {
                let is_in = layers >> temporal & 1 != 0 && layers >> (spatial + 8) & 1 != 0;
                if *layers == 0 || is_in {
                    bits.skip(width)?;
                }
            }
        }
        if kind == SWITCH_FRAME || begins {
            return Some(FrameHeader { kind, shown, refreshed: 0xff });
        }
        let refreshed = u8::try_from(bits.number(8)?).ok()?;
        Some(FrameHeader { kind, shown, refreshed })
    }
}

struct Bits<'a>(BitReader<&'a [u8]>);

impl Bits<'_> {
    fn flag(&mut self) -> Option<bool> {
        self.0.read_bit("flag").ok()
    }

    fn number(&mut self, width: u32) -> Option<u32> {
        self.0.read_var(width, "number").ok()
    }

    fn skip(&mut self, width: u32) -> Option<()> {
        self.0.skip(width, "skipped").ok()
    }
}

/// Parses the payload of a sequence header.
fn sequence(payload: &[u8]) -> Option<Sequence> {
    let header =
        ObuHeader { obu_type: ObuType::SequenceHeader, size: None, extension_header: None };
    // The library must not end a server if it panics.
    let parsed = catch_unwind(|| SequenceHeaderObu::parse(header, &mut &*payload).ok());
    let parsed = parsed.ok().flatten()?;
    let timing = parsed.timing_info.as_ref();
    let rate = timing.and_then(|timing| {
        let ticks = u32::try_from(timing.num_ticks_per_picture?).ok()?;
        let seconds = timing.num_units_in_display_tick.checked_mul(ticks)?;
        let rate = FrameRate { frames: timing.time_scale, seconds };
        Some(rate).filter(|rate| rate.frames > 0 && rate.seconds > 0)
    });
    let model = parsed.decoder_model_info.as_ref();
    let is_even = timing.is_some_and(|timing| timing.num_ticks_per_picture.is_some());
    let presentation =
        model.filter(|_| !is_even).map(|model| model.frame_presentation_time_length.into());
    let points = parsed.operating_points.iter();
    let modelled = points.filter(|point| point.operating_parameters_info.is_some());
    Some(Sequence {
        is_still: parsed.reduced_still_picture_header,
        rate,
        presentation_bits: presentation,
        removal_bits: model.map(|model| model.buffer_removal_time_length.into()),
        operating_points: modelled.map(|point| point.idc).collect(),
        id_bits: parsed.frame_ids.map(|ids| {
            u32::from(ids.delta_frame_id_length) + u32::from(ids.additional_frame_id_length)
        }),
        screen_content_tools: parsed.seq_force_screen_content_tools,
        integer_mv: parsed.seq_force_integer_mv,
        order_hint_bits: parsed.order_hint_bits.into(),
    })
}

/// Appends the needed OBUs of a temporal unit to `to`, each with a size.
pub(super) fn append_needed(unit: &[u8], to: &mut Vec<u8>) {
    for obu in obus(unit).filter(Obu::is_needed) {
        append_obu(to, obu.header, obu.extension, &unit[obu.payload]);
    }
}

/// Appends an OBU with a size; `header` is its first byte.
pub fn append_obu(to: &mut Vec<u8>, header: u8, extension: Option<u8>, payload: &[u8]) {
    to.push(header | 2);
    to.extend(extension);
    let mut size = payload.len();
    while size > 0x7f {
        to.push(0x80 | (size & 0x7f).to_le_bytes()[0]);
        size >>= 7;
    }
    to.push(size.to_le_bytes()[0]);
    to.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_up_to_eight_bytes() {
        assert_eq!(leb128(&[0xe5, 0x8e, 0x26, 9]), Some((624_485, 3)));
        assert_eq!(leb128(&[0x80, 0x80]), None);
        assert_eq!(leb128(&[0xff; 9]), None);
        for size in [0, 127, 128, 300, 16_384] {
            let mut unit = Vec::new();
            append_obu(&mut unit, 0x34, Some(0x20), &vec![7; size]);
            let found: Vec<_> = obus(&unit).collect();
            assert_eq!((found[0].header, found[0].extension), (0x34, Some(0x20)));
            assert_eq!((found[0].payload.len(), found[0].range.clone()), (size, 0..unit.len()));
        }
    }

    #[test]
    fn what_decoding_does_not_need_is_removed() {
        // Temporal delimiter, sequence header, padding, frame without a size.
        let unit = [0x12, 0, 0x0a, 2, 5, 6, 0x7a, 1, 9, 0x30, 7, 8];
        let mut kept = Vec::new();
        append_needed(&unit, &mut kept);
        assert_eq!(kept, [0x0a, 2, 5, 6, 0x32, 2, 7, 8]);
        assert_eq!(obus(&[0x0a, 3, 5]).count(), 0, "truncated");
        assert_eq!(obus(&[0x80]).count(), 0, "not an OBU");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            frames in proptest::collection::vec(
                proptest::collection::vec(proptest::prop_oneof![
                    proptest::sample::select(vec![0x0au8, 0x12, 0x32, 0x36, 0x1a, 1, 2, 9]),
                    0u8..=255,
                ], 0..40), 0..6),
        ) {
            let mut headers = Headers::default();
            for frame in frames {
                let _ = headers.classify(&frame);
                let mut kept = Vec::new();
                append_needed(&frame, &mut kept);
            }
        }
    }
}
