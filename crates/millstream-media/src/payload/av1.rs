//! AV1 over RTP, the RTP payload format of the Alliance for Open Media.
//!
//! ```text
//! | Z | Y | W 2 | N | 0 |   the aggregation header: continues, is continued, elements, begins
//! ```
//! An element is an OBU without its size. Temporal delimiters are not sent. Only the last packet of
//! a frame ends with the end of an OBU, if possible: without a dependency descriptor, Chromium
//! takes such a packet for the last one.
//!
//! The OBUs of a packet lie apart in a frame, but packets have contiguous contents. So frames are
//! kept as their payloads, each after its length in two bytes ([`packetize`]).

use millstream_traffic::mpeg::{Obu, append_obu, leb128, obus};

use crate::rtp::Piece;

/// The element continues one of the previous packet.
const CONTINUES: u8 = 0x80;
/// The element is continued in the next packet.
const IS_CONTINUED: u8 = 0x40;
/// The packet has one element, which has no length. Otherwise each element has one.
const ONE: u8 = 0x10;
/// The packet begins a coded video sequence.
const BEGINS: u8 = 0x08;

/// The largest size of an element's length, bytes: packets are shorter than 16 KiB.
const LENGTH: usize = 2;

/// Returns the payloads of a frame, a temporal unit. Each has at most `room` bytes.
pub(crate) fn packetize(frame: &[u8], room: usize) -> Vec<u8> {
    let begins = obus(frame).any(|obu| obu.is_sequence_header());
    let mut packets = Packets { room, begins, ..Packets::default() };
    let mut needed = obus(frame).filter(Obu::is_needed).peekable();
    while let Some(obu) = needed.next() {
        let header = std::iter::once(obu.header).chain(obu.extension);
        let element: Vec<u8> = header.chain(frame[obu.payload].iter().copied()).collect();
        packets.add(&element, needed.peek().is_none());
    }
    packets.end(false);
    packets.payloads
}

/// Returns the pieces of a frame's payloads.
pub(crate) fn cut(payloads: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(length) = payloads.get(at..).and_then(<[u8]>::first_chunk) {
        let start = at + LENGTH;
        at = (start + usize::from(u16::from_be_bytes(*length))).min(payloads.len());
        pieces.push(Piece { header: [0; 4], header_bytes: 0, range: start..at });
    }
    pieces
}

/// The packets of a frame, and the one that is being filled.
#[derive(Default)]
struct Packets {
    room: usize,
    begins: bool,
    payloads: Vec<u8>,
    /// The elements of the open packet, each after its length.
    open: Vec<u8>,
    elements: usize,
    /// The size of the first length, bytes.
    first_length: usize,
    continues: bool,
}

impl Packets {
    /// Adds an element; `is_last`: no other follows.
    fn add(&mut self, element: &[u8], is_last: bool) {
        let mut rest = element;
        loop {
            let free = self.room.saturating_sub(1 + self.open.len() + LENGTH);
            // What follows needs a length and a byte in the same packet.
            let needed = rest.len() + if is_last { 0 } else { LENGTH + 1 };
            if needed <= free || rest.len() == 1 && rest.len() <= free {
                return self.push(rest);
            }
            let part = free.min(rest.len() - 1);
            let is_split = part > 0;
            if is_split {
                self.push(&rest[..part]);
                rest = &rest[part..];
            }
            self.end(is_split || rest.len() < element.len());
        }
    }

    fn push(&mut self, part: &[u8]) {
        let bits = |shift: usize| u8::try_from(part.len() >> shift & 0x7f).unwrap_or(0);
        if part.len() < 0x80 {
            self.open.push(bits(0));
        } else {
            self.open.extend([0x80 | bits(0), bits(7)]);
        }
        if self.elements == 0 {
            self.first_length = self.open.len();
        }
        self.open.extend_from_slice(part);
        self.elements += 1;
    }

    /// Ends the open packet, if it has elements; `is_continued`: its last element goes on.
    fn end(&mut self, is_continued: bool) {
        if self.elements == 0 {
            return;
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let is_one = self.elements == 1;
        let contents = if is_one { &self.open[self.first_length..] } else { &self.open[..] };
        let header = flag(self.continues, CONTINUES)
            | flag(is_continued, IS_CONTINUED)
            | flag(is_one, ONE)
            | flag(self.begins && self.payloads.is_empty(), BEGINS);
        let length = u16::try_from(1 + contents.len()).unwrap_or(u16::MAX);
        self.payloads.extend(length.to_be_bytes());
        self.payloads.push(header);
        self.payloads.extend_from_slice(contents);
        self.open.clear();
        self.elements = 0;
        self.continues = is_continued;
    }
}

/// Assembles the OBUs of a frame from payloads in order.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The element that the next packet continues.
    open: Vec<u8>,
    is_open: bool,
}

impl Assembly {
    /// Returns whether the next packet must continue an element.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the bytes that wait for more.
    pub(crate) fn waiting(&self) -> usize {
        self.open.len()
    }

    /// Forgets an element that has not ended.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.is_open = false;
    }

    /// Appends the OBUs that end in a payload to `frame`, each with a size; delimiters are left
    /// out. `None`: it is malformed.
    pub(crate) fn append(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Option<()> {
        let (header, mut rest) = payload.split_first()?;
        let (continues, is_continued) = (header & CONTINUES != 0, header & IS_CONTINUED != 0);
        let elements = usize::from(header >> 4 & 3);
        if continues != self.is_open || rest.is_empty() {
            return None;
        }
        let mut count = 0;
        while !rest.is_empty() {
            count += 1;
            let (element, more) = if count == elements {
                (rest, &[][..])
            } else {
                let (length, bytes) = leb128(rest)?;
                rest[bytes..].split_at_checked(length)?
            };
            rest = more;
            self.open.extend_from_slice(element);
            self.is_open = rest.is_empty() && is_continued;
            if !self.is_open {
                append_element(&self.open, frame)?;
                self.open.clear();
            }
        }
        (elements == 0 || count == elements).then_some(())
    }
}

/// Appends an element, an OBU that may have a size.
fn append_element(element: &[u8], frame: &mut Vec<u8>) -> Option<()> {
    let obu = obus(element).next().filter(|obu| obu.range.end == element.len())?;
    if obu.is_needed() {
        append_obu(frame, obu.header, obu.extension, &element[obu.payload]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(frame: &[u8], room: usize) -> Vec<Vec<u8>> {
        let payloads = packetize(frame, room);
        cut(&payloads).into_iter().map(|piece| payloads[piece.range].to_vec()).collect()
    }

    #[test]
    fn obus_are_sent_without_their_sizes_and_packets_end_inside_them() {
        // A temporal delimiter, a sequence header, and a frame of 60 bytes in temporal layer 1.
        let frame = [&[0x12, 0, 0x0a, 2, 5, 6, 0x36, 0x20, 60][..], &[7; 60]].concat();
        let first = [&[0x48, 3, 8, 5, 6, 33, 0x34, 0x20][..], &[7; 31]].concat();
        let second = [&[0x90][..], &[7; 29]].concat();
        assert_eq!(payloads(&frame, 40), [first, second]);
        // An OBU that just fits leaves a byte for the next packet.
        let frame = [&[0x0a, 36][..], &[5; 36], &[0x32, 1, 9]].concat();
        let first = [&[0x58, 8][..], &[5; 35]].concat();
        assert_eq!(payloads(&frame, 40), [first, vec![0x80, 1, 5, 2, 0x30, 9]]);
        assert!(payloads(&[0x12, 0], 40).is_empty(), "nothing but a temporal delimiter");
        assert_eq!(payloads(&[0x32, 0], 40), [[0x10, 0x30]], "an OBU without payload");
        assert!(cut(&[0]).is_empty() && cut(&[0, 9, 1])[0].range == (2..3), "truncated");
    }

    fn assembled(payloads: &[&[u8]]) -> Option<Vec<u8>> {
        let (mut assembly, mut frame) = (Assembly::default(), Vec::new());
        for payload in payloads {
            assembly.append(payload, &mut frame)?;
        }
        (!assembly.is_open()).then_some(frame)
    }

    #[test]
    fn elements_become_obus_with_sizes() {
        // The first packet has two elements. The second one continues the last of them, and has a
        // temporal delimiter.
        let packets = [&[0x60, 2, 8, 5, 0x30, 1, 2][..], &[0x80, 1, 3, 1, 0x10]];
        let frame = [0x0a, 1, 5, 0x32, 3, 1, 2, 3];
        assert_eq!(assembled(&packets), Some(frame.to_vec()));
        assert_eq!(assembled(&[&[0x10, 0x32, 1, 9]]), Some(vec![0x32, 1, 9]), "with a size");
        let all: [&[&[u8]]; 9] = [
            &[],
            &[&[0x10]],
            &[&[0x90, 3]],
            &[&[0x20, 1, 8]],
            &[&[0x20, 9, 8]],
            &[&[0x10, 0x32, 2, 9]],
            &[&[0x10, 0x80]],
            &[&[0x50, 0x30]],
            &[&[0x50, 0x30], &[0x10, 0x30, 1]],
        ];
        for wrong in all {
            let found = assembled(wrong).filter(|frame| !frame.is_empty());
            assert_eq!(found, None, "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn frames_are_reassembled(
            sizes in proptest::collection::vec(0usize..200, 1..6), room in 16usize..64,
        ) {
            let mut frame = Vec::new();
            for (size, number) in sizes.into_iter().zip(0u8..) {
                let extension = (number > 2).then_some(number << 5);
                let header = if extension.is_some() { 0x34 } else { 0x30 };
                append_obu(&mut frame, header, extension, &vec![number; size]);
            }
            let (mut assembly, mut again) = (Assembly::default(), Vec::new());
            for payload in payloads(&frame, room) {
                proptest::prop_assert!(payload.len() <= room);
                proptest::prop_assert!(assembly.append(&payload, &mut again).is_some());
            }
            proptest::prop_assert_eq!(again, frame);
        }
    }
}
