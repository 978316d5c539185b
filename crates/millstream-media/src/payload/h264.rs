//! H.264 over RTP, RFC 6184, packetization mode 1: one NAL unit per packet, or fragments (FU-A).

use millstream_traffic::mpeg::units;
use std::ops::Range;

use crate::rtp::Piece;

/// The NAL unit type of a fragment, section 5.8.
const FU_A: u8 = 28;
/// The flag in the FU header of a NAL unit's first fragment.
const START: u8 = 0x80;
/// The flag in the FU header of a NAL unit's last fragment.
const END: u8 = 0x40;

/// Cuts a frame, a byte stream of annex B, into payloads of at most `room` bytes.
pub(crate) fn cut(frame: &[u8], room: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    // RTP needs no access unit delimiters (type 9): its marker bit has that function.
    for nal in units(frame).filter(|nal| frame[nal.start] & 31 != 9) {
        if nal.len() <= room {
            pieces.push(Piece { header: [0; 4], header_bytes: 0, range: nal });
        } else {
            fragments(frame[nal.start], nal, room, &mut pieces);
        }
    }
    pieces
}

fn fragments(nal_header: u8, nal: Range<usize>, room: usize, pieces: &mut Vec<Piece>) {
    // The FU indicator and the FU header carry the NAL header's bits.
    let mut from = nal.start + 1;
    let mut position = START;
    while from < nal.end {
        let to = nal.end.min(from + room - 2);
        if to == nal.end {
            position |= END;
        }
        let header = [nal_header & 0xe0 | FU_A, position | nal_header & 31, 0, 0];
        pieces.push(Piece { header, header_bytes: 2, range: from..to });
        position = 0;
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reassembles the NAL units as a receiver does (RFC 6184, sections 5.6 and 5.8).
    fn assembled(frame: &[u8], pieces: &[Piece]) -> Vec<Vec<u8>> {
        let mut nals: Vec<Vec<u8>> = Vec::new();
        for piece in pieces {
            let body = &frame[piece.range.clone()];
            match piece.header[..piece.header_bytes.into()] {
                [] => nals.push(body.to_vec()),
                [indicator, header] => {
                    assert_eq!(indicator & 31, FU_A);
                    if header & START != 0 {
                        nals.push(vec![indicator & 0xe0 | header & 31]);
                    }
                    nals.last_mut().unwrap().extend(body);
                }
                _ => panic!("a header of {} bytes", piece.header_bytes),
            }
        }
        nals
    }

    #[test]
    fn nal_units_are_sent_whole_or_in_fragments() {
        let slice: Vec<u8> = std::iter::once(0x65).chain(1..=100).collect();
        let frame = [&[0, 0, 0, 1, 9, 16, 0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1][..], &slice].concat();
        let pieces = cut(&frame, 40);
        assert_eq!(assembled(&frame, &pieces), [vec![0x67, 1, 2], slice]);
        assert_eq!(pieces.len(), 4, "one whole, three fragments of 38, 38 and 24 bytes");
        assert_eq!(pieces[1].header, [0x7c, 0x85, 0, 0]);
        assert_eq!(pieces[3].header, [0x7c, 0x45, 0, 0]);
        let longest = |piece: &Piece| usize::from(piece.header_bytes) + piece.range.len();
        assert!(pieces.iter().all(|piece| longest(piece) <= 40));
    }

    proptest::proptest! {
        #[test]
        fn every_nal_unit_of_a_frame_is_reassembled(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..2, 1u8..=255], 0..300),
            room in 16usize..64,
        ) {
            let frame = [&[0, 0, 1][..], &bytes].concat();
            let expected: Vec<Vec<u8>> = units(&frame)
                .map(|nal| frame[nal].to_vec())
                .filter(|nal| nal[0] & 31 != 9)
                .collect();
            proptest::prop_assert_eq!(assembled(&frame, &cut(&frame, room)), expected);
        }
    }
}
