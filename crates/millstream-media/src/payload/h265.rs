//! H.265 over RTP, RFC 7798: one NAL unit per packet, or fragments. No aggregation packets: the
//! pieces of a frame are contiguous, and only parameter sets are small.

use millstream_traffic::mpeg::units;
use std::ops::Range;

use crate::rtp::Piece;

/// The NAL unit type of a fragment, section 4.4.3.
const FU: u8 = 49;
/// The NAL unit type of an access unit delimiter.
const DELIMITER: u8 = 35;
/// The flag in the FU header of a NAL unit's first fragment.
const START: u8 = 0x80;
/// The flag in the FU header of a NAL unit's last fragment.
const END: u8 = 0x40;

/// The sizes of a NAL unit's header, and of the headers of a fragment, bytes.
const NAL_HEADER: usize = 2;
const FU_HEADERS: usize = 3;

fn unit_type(first: u8) -> u8 {
    first >> 1 & 63
}

/// Cuts a frame, a byte stream of annex B, into payloads of at most `room` bytes.
pub(crate) fn cut(frame: &[u8], room: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    // RTP needs no access unit delimiters: its marker bit has that function.
    let wanted =
        |nal: &Range<usize>| nal.len() >= NAL_HEADER && unit_type(frame[nal.start]) != DELIMITER;
    for nal in units(frame).filter(wanted) {
        if nal.len() <= room {
            pieces.push(Piece { header: [0; 4], header_bytes: 0, range: nal });
        } else {
            fragments([frame[nal.start], frame[nal.start + 1]], nal, room, &mut pieces);
        }
    }
    pieces
}

fn fragments([first, second]: [u8; 2], nal: Range<usize>, room: usize, pieces: &mut Vec<Piece>) {
    // The payload header is the NAL header with another type; the FU header has its type.
    let mut from = nal.start + NAL_HEADER;
    let mut position = START;
    while from < nal.end {
        let to = nal.end.min(from + room - FU_HEADERS);
        if to == nal.end {
            position |= END;
        }
        let header = [first & 0x81 | FU << 1, second, position | unit_type(first), 0];
        pieces.push(Piece { header, header_bytes: 3, range: from..to });
        position = 0;
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nal_units_are_sent_whole_or_in_fragments() {
        // A delimiter, a parameter set, and an IDR slice of 102 bytes with TemporalId 0.
        let slice: Vec<u8> = [0x26, 1].into_iter().chain(1..=100).collect();
        let frame = [&[0, 0, 0, 1, 0x46, 1, 16, 0, 0, 0, 1, 0x42, 1, 2, 0, 0, 1][..], &slice];
        let frame = frame.concat();
        let pieces = cut(&frame, 40);
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.range.len()).collect();
        assert_eq!(ranges, [3, 37, 37, 26], "one whole, three fragments");
        let headers: Vec<_> = pieces[1..].iter().map(|piece| piece.header).collect();
        assert_eq!(headers, [[0x62, 1, 0x93, 0], [0x62, 1, 0x13, 0], [0x62, 1, 0x53, 0]]);
        assert_eq!(cut(&[0, 0, 1, 0x26], 40), [], "a header without its second byte");
    }
}
