//! MPEG-1 and MPEG-2 video over RTP, RFC 2250, section 3: whole slices where they fit.
//!
//! ```text
//! | MBZ 5 | T | TR 10 | AN | N | S | B | E | P 3 | FBV | BFC 3 | FFV | FFC 3 |
//! ```
//! Headers are at the start of a packet. A slice starts a packet, or follows headers or whole
//! slices. A slice that is larger than a packet continues in the next packets. T is 0: the MPEG-2
//! extension is optional.

use std::ops::Range;

use crate::rtp::Piece;

/// The size of the payload format's header, bytes.
const HEADER: usize = 4;

/// The kind of a part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Headers { sequence: bool },
    Slice,
}

/// Cuts a frame into payloads of at most `room` bytes.
pub(crate) fn cut(frame: &[u8], room: usize) -> Vec<Piece> {
    let room = room - HEADER;
    let mut packetizer = Packetizer { picture: 0, room, open: None, pieces: Vec::new() };
    let mut parts: Vec<(Part, Range<usize>)> = Vec::new();
    let codes = frame.windows(4).enumerate().filter(|(_, window)| window[..3] == [0, 0, 1]);
    for (at, window) in codes {
        if let Some((_, last)) = parts.last_mut() {
            last.end = at;
        }
        let part = match window[3] {
            0x01..=0xaf => Part::Slice,
            code => Part::Headers { sequence: code == 0xb3 },
        };
        if window[3] == 0 {
            packetizer.picture = picture(&frame[at + 4..]);
        }
        match (parts.last_mut(), part) {
            // Merges consecutive headers into one part.
            (Some((Part::Headers { sequence }, last)), Part::Headers { sequence: more }) => {
                *sequence |= more;
                last.end = frame.len();
            }
            _ => parts.push((part, at..frame.len())),
        }
    }
    if let Some((_, first)) = parts.first_mut() {
        first.start = 0;
    }
    for (part, range) in parts {
        packetizer.add(part, range);
    }
    packetizer.close();
    packetizer.pieces
}

/// Returns the header fields that all packets of a picture share.
fn picture(header: &[u8]) -> u32 {
    // The picture header: temporal reference 10, type 3, delay 16 bits; then, depending on the
    // type, full_pel 1 and f_code 3 bits for each direction.
    let mut bits = [0; 8];
    let known = header.len().min(bits.len());
    bits[..known].copy_from_slice(&header[..known]);
    let bits = u64::from_be_bytes(bits);
    let field = |at: u32, width: u32| {
        u32::try_from(bits >> (64 - at - width) & ((1 << width) - 1)).unwrap_or(0)
    };
    let (reference, kind) = (field(0, 10), field(10, 3));
    let forward = if matches!(kind, 2 | 3) { field(29, 4) } else { 0 };
    let backward = if kind == 3 { field(33, 4) } else { 0 };
    reference << 16 | kind << 8 | backward << 4 | forward
}

/// The packet that is being filled.
struct Open {
    range: Range<usize>,
    sequence: bool,
    begins_slice: bool,
    ends_slice: bool,
}

struct Packetizer {
    picture: u32,
    room: usize,
    open: Option<Open>,
    pieces: Vec<Piece>,
}

impl Packetizer {
    fn add(&mut self, part: Part, range: Range<usize>) {
        let slice = part == Part::Slice;
        if let Some(open) = &mut self.open
            && slice
            && open.range.len() + range.len() <= self.room
        {
            open.range.end = range.end;
            open.begins_slice = true;
            open.ends_slice = true;
            return;
        }
        self.close();
        let mut from = range.start;
        while from < range.end {
            let to = range.end.min(from + self.room);
            self.open = Some(Open {
                range: from..to,
                sequence: from == range.start && part == Part::Headers { sequence: true },
                begins_slice: slice && from == range.start,
                ends_slice: slice && to == range.end,
            });
            if to < range.end {
                self.close();
            }
            from = to;
        }
        // No slice follows the end of a continued slice in one packet: a lost packet then costs no
        // second slice.
        if slice && range.len() > self.room {
            self.close();
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let flag = |set: bool, bit: u32| u32::from(set) << bit;
        let flags =
            flag(open.sequence, 13) | flag(open.begins_slice, 12) | flag(open.ends_slice, 11);
        self.pieces.push(Piece {
            header: (self.picture | flags).to_be_bytes(),
            header_bytes: 4,
            range: open.range,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame: sequence header, picture header and three slices.
    ///
    /// The picture is P, with temporal reference 5 and forward f_code 3.
    fn frame(slices: [usize; 3]) -> Vec<u8> {
        let mut frame = vec![0, 0, 1, 0xb3, 1, 2, 3, 0x13, 0, 0, 1, 0];
        // 0000000101 010 1111111111111111 0 011 ....
        frame.extend([0x01, 0x57, 0xff, 0xf9, 0x80]);
        for (number, bytes) in (1..).zip(slices) {
            frame.extend([0, 0, 1, number]);
            frame.extend(vec![7; bytes]);
        }
        frame
    }

    fn flags(piece: &Piece) -> (u32, u32, u32) {
        let header = u32::from_be_bytes(piece.header);
        (header >> 13 & 1, header >> 12 & 1, header >> 11 & 1)
    }

    #[test]
    fn headers_come_first_and_fitting_slices_are_sent_whole() {
        let frame = frame([20, 20, 20]);
        let pieces = cut(&frame, 74);
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.range.clone()).collect();
        assert_eq!(ranges, [0..65, 65..89]);
        assert_eq!(flags(&pieces[0]), (1, 1, 1));
        assert_eq!(flags(&pieces[1]), (0, 1, 1));
        let header = u32::from_be_bytes(pieces[1].header);
        assert_eq!((header >> 16, header >> 8 & 7, header & 0xff), (5, 2, 0x03));
    }

    #[test]
    fn a_slice_larger_than_a_packet_is_continued() {
        let frame = frame([100, 20, 20]);
        let pieces = cut(&frame, 54);
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.range.clone()).collect();
        assert_eq!(ranges, [0..17, 17..67, 67..117, 117..121, 121..169]);
        let all: Vec<_> = pieces.iter().map(flags).collect();
        assert_eq!(all, [(1, 0, 0), (0, 1, 0), (0, 0, 0), (0, 0, 1), (0, 1, 1)]);
    }

    proptest::proptest! {
        #[test]
        fn every_byte_of_a_frame_is_sent_once_and_in_order(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..3, 0xafu8..0xb9], 0..300),
            room in 16usize..64,
        ) {
            let frame = [&[0, 0, 1, 0][..], &bytes].concat();
            let mut at = 0;
            for piece in cut(&frame, room) {
                proptest::prop_assert_eq!(piece.range.start, at);
                proptest::prop_assert!(piece.range.len() + HEADER <= room);
                at = piece.range.end;
            }
            proptest::prop_assert_eq!(at, frame.len());
        }
    }
}
