//! Audio frames over RTP: AAC by RFC 3640, MPEG-1/2 audio by RFC 2250, section 3.5.
//!
//! A packet carries one frame, or a fragment of one that exceeds a packet.

use std::ops::Range;

use crate::rtp::Piece;

/// The size of both formats' headers, bytes.
const HEADER: u8 = 4;

/// The largest AAC frame, bytes: its length has 13 bits.
const MAX_AAC: usize = (1 << 13) - 1;

/// Cuts an AAC frame into payloads of at most `room` bytes; none if it is too long.
///
/// Each has one AU header of 16 bits: the length of the whole frame, and index 0 (mode AAC-hbr).
pub(crate) fn cut_aac(frame: &[u8], room: usize) -> Vec<Piece> {
    if frame.len() > MAX_AAC {
        return Vec::new();
    }
    let length = u16::try_from(frame.len() << 3).unwrap_or(0).to_be_bytes();
    let piece = |range| piece([0, 16, length[0], length[1]], range);
    fragments(frame, room).map(piece).collect()
}

/// Returns the payload of one packet that has the pieces of a frame.
pub(crate) fn joined(frame: &[u8], pieces: &[Piece]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|piece| piece.header.iter().chain(&frame[piece.range.clone()]))
        .copied()
        .collect()
}

/// Cuts an MPEG audio frame into payloads of at most `room` bytes.
///
/// Each begins with its offset in the frame.
pub(crate) fn cut_mpeg(frame: &[u8], room: usize) -> Vec<Piece> {
    let piece = |range: Range<usize>| {
        let offset = u16::try_from(range.start).unwrap_or(u16::MAX).to_be_bytes();
        piece([0, 0, offset[0], offset[1]], range)
    };
    fragments(frame, room).map(piece).collect()
}

/// Returns a payload as one piece; none if it is empty or exceeds `room` bytes.
pub(crate) fn whole(payload: &[u8], room: usize) -> Vec<Piece> {
    let fits = (1..=room).contains(&payload.len());
    let piece = Piece { header: [0; 4], header_bytes: 0, range: 0..payload.len() };
    if fits { vec![piece] } else { Vec::new() }
}

fn fragments(frame: &[u8], room: usize) -> impl Iterator<Item = Range<usize>> {
    let (length, most) = (frame.len(), room - usize::from(HEADER));
    (0..length).step_by(most).map(move |start| start..length.min(start + most))
}

fn piece(header: [u8; 4], range: Range<usize>) -> Piece {
    Piece { header, header_bytes: HEADER, range }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: Vec<Piece>) -> Vec<([u8; 4], Range<usize>)> {
        assert!(pieces.iter().all(|piece| piece.header_bytes == 4));
        pieces.into_iter().map(|piece| (piece.header, piece.range)).collect()
    }

    #[test]
    fn aac_frames_begin_with_their_whole_length() {
        // 300 is 0x12c; the low three bits are the index.
        assert_eq!(cut(cut_aac(&[7; 300], 1_388)), [([0, 16, 0x09, 0x60], 0..300)]);
        let header = [0, 16, 0x09, 0x60];
        assert_eq!(cut(cut_aac(&[7; 300], 204)), [(header, 0..200), (header, 200..300)]);
        assert_eq!(cut(cut_aac(&[7; 8_191], 9_000))[0].0, [0, 16, 0xff, 0xf8]);
        assert!(cut_aac(&[7; 8_192], 9_000).is_empty());
    }

    #[test]
    fn mpeg_audio_frames_begin_with_their_offset() {
        assert_eq!(cut(cut_mpeg(&[7; 300], 1_388)), [([0; 4], 0..300)]);
        let expected = [([0; 4], 0..260), ([0, 0, 1, 4], 260..300)];
        assert_eq!(cut(cut_mpeg(&[7; 300], 264)), expected);
        assert!(cut_mpeg(&[], 264).is_empty());
    }
}
