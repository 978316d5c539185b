//! The display order of frames, which differs from their coding order.
//!
//! MPEG pictures carry their position in the group (ISO 13818-2, 6.3.9: `temporal_reference`).
//! H.264 and H.265 pictures carry an order count that restarts at each IDR picture (14496-10,
//! 8.2.1; [`h265`]). If these are damaged, unsupported or inconsistent, the conventional order
//! applies. An I or P frame is displayed after the B frames that follow it in coding order.

use h264_reader::Context;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::slice::{PicOrderCountLsb, SliceHeader};
use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal, UnitType};
use std::ops::Range;

use super::codec::Codec;
use super::payload::units;
use super::{Frame, FrameKind, h265};

/// The number of bytes parsed of a NAL unit: more than parameter sets and slice headers need.
const HEADER: usize = 1024;

/// Returns the position of each frame in display order, a permutation of the frame numbers.
pub(super) fn display_order(
    codec: Codec,
    frames: &[Frame],
    ranges: &[Range<usize>],
    stream: &[u8],
) -> Vec<u32> {
    let stated = match codec {
        Codec::Mpeg => by_temporal_reference(ranges, stream),
        Codec::H264 => by_order_count(ranges, stream),
        Codec::H265 => h265::display_order(ranges, stream),
        // Each frame shows one picture.
        Codec::Av1 | Codec::Vp8 | Codec::Vp9 => Some((0..ranges.len()).map(number).collect()),
    };
    match stated {
        Some(order) if is_permutation(&order) => order,
        _ => by_kind(frames),
    }
}

/// Returns whether another frame may be predicted from this one, of MPEG-1/2 or H.264.
pub(super) fn is_reference(codec: Codec, kind: FrameKind, frame: &[u8]) -> bool {
    match codec {
        // `nal_ref_idc` of any slice.
        Codec::H264 => units(frame)
            .any(|unit| matches!(frame[unit.start] & 31, 1..=5) && frame[unit.start] & 0x60 != 0),
        _ => kind != FrameKind::B,
    }
}

/// Returns how many frames may precede a frame in coding order and follow it in display order, by
/// the sequence parameter set (14496-10, E.2.1: `max_num_reorder_frames`) in `set`, a NAL unit.
///
/// A set without this number has at most its number of reference frames. Returns `None` if it is
/// damaged or unsupported.
#[must_use]
pub fn reorder_depth(set: &[u8]) -> Option<u32> {
    let nal = RefNal::new(set, &[], true);
    let set = SeqParameterSet::from_bits(nal.rbsp_bits()).ok()?;
    // In display order by definition.
    if matches!(set.pic_order_cnt, PicOrderCntType::TypeTwo) {
        return Some(0);
    }
    let restrictions =
        set.vui_parameters.as_ref().and_then(|vui| vui.bitstream_restrictions.as_ref());
    let depth = restrictions.map(|of| of.max_num_reorder_frames);
    Some(depth.unwrap_or(set.max_num_ref_frames).min(16))
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn is_permutation(order: &[u32]) -> bool {
    let mut seen = vec![false; order.len()];
    order.iter().all(|place| {
        seen.get_mut(*place as usize).is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

fn by_kind(frames: &[Frame]) -> Vec<u32> {
    let mut order = vec![0; frames.len()];
    let mut next = 0;
    let mut held = None;
    for (index, frame) in frames.iter().enumerate() {
        let shown = if frame.kind == FrameKind::B { Some(index) } else { held.replace(index) };
        if let Some(shown) = shown {
            order[shown] = next;
            next += 1;
        }
    }
    if let Some(last) = held {
        order[last] = next;
    }
    order
}

fn by_temporal_reference(ranges: &[Range<usize>], stream: &[u8]) -> Option<Vec<u32>> {
    let mut group = 0;
    let mut order = Vec::with_capacity(ranges.len());
    for (index, range) in ranges.iter().enumerate() {
        let frame = &stream[range.clone()];
        let mut place = None;
        for unit in units(frame) {
            match frame[unit] {
                [0xb8, ..] => group = number(index),
                [0, high, low, ..] if place.is_none() => {
                    place = Some(u32::from(high) << 2 | u32::from(low) >> 6);
                }
                _ => {}
            }
        }
        order.push(group + place?);
    }
    Some(order)
}

/// Returns a frame's order count and whether it starts a coded video sequence.
fn order_count(context: &mut Context, frame: &[u8], state: &mut (i64, i64)) -> Option<(i64, bool)> {
    let mut found = None;
    for unit in units(frame) {
        let end = unit.end.min(unit.start + HEADER);
        let nal = RefNal::new(&frame[unit.start..end], &[], true);
        let header = nal.header().ok()?;
        match header.nal_unit_type() {
            UnitType::SeqParameterSet => {
                if let Ok(set) = SeqParameterSet::from_bits(nal.rbsp_bits()) {
                    context.put_seq_param_set(set);
                }
            }
            UnitType::PicParameterSet => {
                if let Ok(set) = PicParameterSet::from_bits(context, nal.rbsp_bits()) {
                    context.put_pic_param_set(set);
                }
            }
            kind @ (UnitType::SliceLayerWithoutPartitioningIdr
            | UnitType::SliceLayerWithoutPartitioningNonIdr)
                if found.is_none() =>
            {
                let is_idr = kind == UnitType::SliceLayerWithoutPartitioningIdr;
                let mut bits = nal.rbsp_bits();
                let (slice, set, _) =
                    SliceHeader::from_bits(context, &mut bits, header, None).ok()?;
                let PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4: log2 } =
                    set.pic_order_cnt
                else {
                    return None;
                };
                let low = match slice.pic_order_cnt_lsb? {
                    PicOrderCountLsb::Frame(low) => low,
                    PicOrderCountLsb::FieldsAbsolute { pic_order_cnt_lsb, .. } => pic_order_cnt_lsb,
                    PicOrderCountLsb::FieldsDelta(_) => return None,
                };
                // Clause 8.2.1.1: the high part follows the low part of the last reference.
                let (low, modulus) = (i64::from(low), 1i64 << (u32::from(log2) + 4));
                let (high_before, low_before) = if is_idr { (0, 0) } else { *state };
                let high = if low < low_before && low_before - low >= modulus / 2 {
                    high_before + modulus
                } else if low > low_before && low - low_before > modulus / 2 {
                    high_before - modulus
                } else {
                    high_before
                };
                if header.nal_ref_idc() != 0 {
                    *state = (high, low);
                }
                found = Some((high + low, is_idr));
            }
            _ => {}
        }
    }
    found
}

fn by_order_count(ranges: &[Range<usize>], stream: &[u8]) -> Option<Vec<u32>> {
    let mut context = Context::new();
    let mut state = (0, 0);
    let mut sequence = 0u64;
    let mut keys = Vec::with_capacity(ranges.len());
    for (index, range) in ranges.iter().enumerate() {
        let (count, is_idr) = order_count(&mut context, &stream[range.clone()], &mut state)?;
        sequence += u64::from(is_idr);
        keys.push((sequence, count, index));
    }
    keys.sort_unstable();
    let mut order = vec![0; keys.len()];
    for (place, (_, _, index)) in keys.into_iter().enumerate() {
        order[index] = number(place);
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_a_stated_order_use_the_conventional_order() {
        use FrameKind::{B, I, P};
        let frames = [I, P, B, B, I, P].map(|kind| Frame { kind, bytes: 1 });
        assert_eq!(by_kind(&frames), [0, 3, 1, 2, 4, 5]);
        assert_eq!(by_kind(&[]), [0; 0]);
        assert!(is_permutation(&[2, 0, 1]) && !is_permutation(&[0, 0]) && !is_permutation(&[1]));
    }
}
