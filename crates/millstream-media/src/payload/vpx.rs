//! VP8 over RTP (RFC 7741) and VP9 over RTP (RFC 9628): a payload descriptor of one byte, and a
//! part of the frame.
//!
//! ```text
//! VP8: | X | 0 | N | S | 0 | partition 3 |   then, if X: | I | L | T | K | 0 |, and what they name
//! VP9: | I | P | L | F | B | E | V | Z |     then what I, L, F and V name
//! ```
//! Descriptors have no picture numbers: receivers order frames by packets, and dropped frames take
//! no sequence numbers.

use millstream_traffic::mpeg::is_vp9_key_frame;
use std::ops::Range;

use crate::rtp::Piece;

/// VP8: the packet begins a partition, here the first.
const VP8_START: u8 = 0x10;

/// VP9: the frame is predicted from others; the packet begins and ends a frame.
const VP9_PREDICTED: u8 = 0x40;
const VP9_BEGIN: u8 = 0x08;
const VP9_END: u8 = 0x04;

/// Cuts a VP8 frame into payloads of at most `room` bytes.
pub(crate) fn cut_vp8(frame: &[u8], room: usize) -> Vec<Piece> {
    let piece = |range: Range<usize>| piece(if range.start == 0 { VP8_START } else { 0 }, range);
    parts(frame, room).map(piece).collect()
}

/// Cuts a VP9 frame into payloads of at most `room` bytes.
pub(crate) fn cut_vp9(frame: &[u8], room: usize) -> Vec<Piece> {
    let predicted = if is_vp9_key_frame(frame) { 0 } else { VP9_PREDICTED };
    let piece = |range: Range<usize>| {
        let begin = if range.start == 0 { VP9_BEGIN } else { 0 };
        let end = if range.end == frame.len() { VP9_END } else { 0 };
        piece(predicted | begin | end, range)
    };
    parts(frame, room).map(piece).collect()
}

fn parts(frame: &[u8], room: usize) -> impl Iterator<Item = Range<usize>> {
    let (length, most) = (frame.len(), room - 1);
    (0..length).step_by(most).map(move |start| start..length.min(start + most))
}

fn piece(descriptor: u8, range: Range<usize>) -> Piece {
    Piece { header: [descriptor, 0, 0, 0], header_bytes: 1, range }
}

/// The part of a frame in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Whether the packet is the first of its frame.
    pub(crate) begins: bool,
    /// The temporal layer of the frame.
    pub(crate) layer: u8,
    pub(crate) bytes: &'a [u8],
}

/// Parses a VP8 payload (RFC 7741, section 4.2); `None` if it is malformed.
pub(crate) fn parse_vp8(payload: &[u8]) -> Option<Part<'_>> {
    let (first, mut rest) = payload.split_first()?;
    let mut layer = 0;
    if first & 0x80 != 0 {
        let flags = take(&mut rest)?;
        // The number of the picture: one or two bytes.
        if flags & 0x80 != 0 && take(&mut rest)? & 0x80 != 0 {
            take(&mut rest)?;
        }
        if flags & 0x40 != 0 {
            take(&mut rest)?;
        }
        if flags & 0x30 != 0 {
            let layers = take(&mut rest)?;
            layer = if flags & 0x20 != 0 { layers >> 6 } else { 0 };
        }
    }
    let begins = first & 0x17 == VP8_START;
    (!rest.is_empty()).then_some(Part { begins, layer, bytes: rest })
}

/// Parses a VP9 payload (RFC 9628, section 4.2); `None` if it is malformed or of an upper spatial
/// layer.
pub(crate) fn parse_vp9(payload: &[u8]) -> Option<Part<'_>> {
    let (first, mut rest) = payload.split_first()?;
    let is = |flag: u8| first & flag != 0;
    let (is_numbered, is_flexible) = (is(0x80), is(0x10));
    if is_numbered && take(&mut rest)? & 0x80 != 0 {
        take(&mut rest)?;
    }
    let mut layer = 0;
    if is(0x20) {
        let layers = take(&mut rest)?;
        layer = layers >> 5;
        if layers >> 1 & 7 != 0 {
            return None;
        }
        if !is_flexible {
            take(&mut rest)?;
        }
    }
    if is_flexible && is(VP9_PREDICTED) {
        // Up to three reference indices; the last bit of each says whether another follows.
        for number in 0..3 {
            if take(&mut rest)? & 1 == 0 {
                break;
            } else if number == 2 {
                return None;
            }
        }
    }
    if is(0x02) {
        skip_structure(&mut rest)?;
    }
    (!rest.is_empty()).then_some(Part { begins: is(VP9_BEGIN), layer, bytes: rest })
}

/// Skips the scalability structure (RFC 9628, section 4.2.1).
fn skip_structure(rest: &mut &[u8]) -> Option<()> {
    let structure = take(rest)?;
    let layers = usize::from(structure >> 5) + 1;
    if structure & 0x10 != 0 {
        *rest = rest.get(4 * layers..)?;
    }
    if structure & 0x08 != 0 {
        for _ in 0..take(rest)? {
            let references = take(rest)? >> 2 & 3;
            *rest = rest.get(usize::from(references)..)?;
        }
    }
    Some(())
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (first, more) = rest.split_first()?;
    *rest = more;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors(pieces: &[Piece]) -> Vec<(u8, Range<usize>)> {
        assert!(pieces.iter().all(|piece| piece.header_bytes == 1));
        pieces.iter().map(|piece| (piece.header[0], piece.range.clone())).collect()
    }

    #[test]
    fn frames_are_cut_into_parts_with_descriptors() {
        assert_eq!(descriptors(&cut_vp8(&[7; 50], 40)), [(0x10, 0..39), (0, 39..50)]);
        let key = [&[0x83, 0x49, 0x83, 0x42][..], &[7; 46]].concat();
        assert_eq!(descriptors(&cut_vp9(&key, 40)), [(0x08, 0..39), (0x04, 39..50)]);
        assert_eq!(descriptors(&cut_vp9(&[0x87, 1, 7], 40)), [(0x4c, 0..3)]);
        assert!(cut_vp8(&[], 40).is_empty());
    }

    #[test]
    fn descriptors_of_browsers_are_parsed() {
        let part = |begins, layer| Some(Part { begins, layer, bytes: &[7] });
        for (payload, expected) in [
            (&[0x10, 7][..], part(true, 0)),
            (&[0x00, 7], part(false, 0)),
            // The second partition.
            (&[0x11, 7], part(false, 0)),
            // A long picture number, TL0PICIDX, and layer 2.
            (&[0x90, 0xe0, 0x81, 2, 9, 0x80, 7], part(true, 2)),
            // A short picture number and a key index.
            (&[0x80, 0x90, 1, 0xc0, 7], part(false, 0)),
            (&[0x10], None),
            (&[0x90, 0xe0, 0x81], None),
        ] {
            assert_eq!(parse_vp8(payload), expected, "{payload:?}");
        }
        for (payload, expected) in [
            (&[0x0c, 7][..], part(true, 0)),
            // A long picture number, and layer 1 with TL0PICIDX.
            (&[0xac, 0x81, 2, 0x20, 9, 7], part(true, 1)),
            // Flexible mode with two references.
            (&[0xf4, 1, 0x40, 3, 2, 7], part(false, 2)),
            // A structure with a size, and a group of two pictures.
            (&[0x0e, 0x18, 0, 9, 0, 9, 2, 0, 4, 1, 7], part(true, 0)),
            (&[0xf4, 1, 0x40, 3, 3, 3, 7], None),
            (&[0x2c, 2, 9, 7], None),
            (&[0x0e, 0x18, 0, 9], None),
            (&[], None),
        ] {
            assert_eq!(parse_vp9(payload), expected, "{payload:?}");
        }
    }
}
