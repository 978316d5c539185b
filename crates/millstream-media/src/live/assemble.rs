//! Assembles RTP payloads into coded frames: H.264 (RFC 6184, packetization modes 0 and 1), H.265
//! (RFC 7798), AV1, VP8, VP9 ([`av1`](crate::payload::av1), [`vpx`]) and MPEG-1/2 video (RFC 2250,
//! section 3).
//!
//! A frame is the data of one timestamp, up to the marker. The output is an elementary stream with
//! start codes, as in a file. A frame with a missing or malformed packet is reported and dropped as
//! a whole.

use millstream_traffic::mpeg::Codec;

use super::reorder::Packet;
use crate::payload::{av1, vpx};

/// NAL unit types that mark an aggregate or a fragment (RFC 6184, section 5.2).
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
/// The same of H.265 (RFC 7798, section 4.4).
const AP: u8 = 48;
const FU: u8 = 49;

const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// The outcome of the packets of one timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assembled<'a> {
    /// A frame without a detected missing or malformed packet.
    Frame {
        /// The frame's bytes.
        bytes: &'a [u8],
        /// The frame's RTP timestamp.
        timestamp: u32,
        /// The temporal layer that its packets state, or 0.
        layer: u8,
    },
    /// A packet of the frame is missing or malformed.
    Incomplete,
    /// The frame exceeds the size limit.
    TooLarge,
}

/// Assembles the packets of one source, which must be pushed in order.
#[derive(Debug)]
pub(crate) struct Assembler {
    codec: Codec,
    /// The most bytes of a frame.
    most: usize,
    bytes: Vec<u8>,
    /// The timestamp of the open frame.
    timestamp: Option<u32>,
    incomplete: bool,
    too_large: bool,
    /// A fragmented NAL unit has started and not ended.
    fragment: bool,
    /// The OBUs of AV1 that have not ended.
    obus: av1::Assembly,
    /// The temporal layer of the open frame, if packets state it.
    layer: u8,
}

impl Assembler {
    pub(crate) fn new(codec: Codec, most: usize) -> Self {
        Self {
            codec,
            most,
            bytes: Vec::new(),
            timestamp: None,
            incomplete: false,
            too_large: false,
            fragment: false,
            obus: av1::Assembly::default(),
            layer: 0,
        }
    }

    /// Adds a packet. `gap`: packets before it are missing. Calls `each` for every frame that ends.
    pub(crate) fn packet(
        &mut self,
        packet: Packet<'_>,
        gap: bool,
        each: &mut impl FnMut(Assembled<'_>),
    ) {
        self.incomplete |= gap && self.timestamp.is_some();
        if self.timestamp.is_some_and(|time| time != packet.timestamp) {
            self.end(each);
        }
        self.timestamp = Some(packet.timestamp);
        let sound = match self.codec {
            Codec::H264 => self.h264(packet.payload),
            Codec::H265 => self.h265(packet.payload),
            Codec::Av1 => self.av1(packet.payload),
            Codec::Vp8 => self.part(vpx::parse_vp8(packet.payload)),
            Codec::Vp9 => self.part(vpx::parse_vp9(packet.payload)),
            Codec::Mpeg => self.mpeg_video(packet.payload),
        };
        self.incomplete |= sound.is_none();
        if packet.marker {
            self.end(each);
        }
    }

    /// Ends the stream: an open frame is incomplete.
    pub(crate) fn finish(&mut self, each: &mut impl FnMut(Assembled<'_>)) {
        if self.timestamp.is_some() {
            self.incomplete = true;
            self.end(each);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(Assembled<'_>)) {
        let Some(timestamp) = self.timestamp.take() else { return };
        each(if self.incomplete || self.fragment || self.obus.is_open() {
            Assembled::Incomplete
        } else if self.too_large {
            Assembled::TooLarge
        } else {
            Assembled::Frame { bytes: &self.bytes, timestamp, layer: self.layer }
        });
        self.bytes.clear();
        self.obus.clear();
        self.layer = 0;
        (self.incomplete, self.too_large, self.fragment) = (false, false, false);
    }

    fn append(&mut self, bytes: &[u8]) {
        self.too_large |= self.bytes.len() + bytes.len() > self.most;
        if !self.too_large {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends the NAL units of an aggregate, each after its length. `None`: one of them is
    /// truncated, empty or not valid.
    fn aggregate(&mut self, mut rest: &[u8], is_valid: impl Fn(&[u8]) -> bool) -> Option<()> {
        while let Some((length, more)) = rest.split_first_chunk() {
            let (nal, more) = more.split_at_checked(u16::from_be_bytes(*length).into())?;
            if nal.is_empty() || !is_valid(nal) {
                return None;
            }
            self.append(&START_CODE);
            self.append(nal);
            rest = more;
        }
        rest.is_empty().then_some(())
    }

    /// Appends a fragment of a NAL unit. The upper bits of `position` say whether it is the first
    /// and the last one; the first one follows the unit's `header`. `None`: its predecessor is
    /// missing.
    fn part_of_unit(&mut self, position: u8, header: &[u8], part: &[u8]) -> Option<()> {
        let (start, end) = (position & 0x80 != 0, position & 0x40 != 0);
        if start == self.fragment {
            return None;
        }
        if start {
            self.append(&START_CODE);
            self.append(header);
        }
        self.append(part);
        self.fragment = !end;
        Some(())
    }

    /// Appends an H.264 payload. `None`: it is malformed.
    fn h264(&mut self, payload: &[u8]) -> Option<()> {
        let (header, rest) = payload.split_first()?;
        let kind = header & 31;
        if self.fragment && kind != FU_A {
            return None;
        }
        match kind {
            1..STAP_A => {
                self.append(&START_CODE);
                self.append(payload);
            }
            STAP_A => self.aggregate(rest, |nal| matches!(nal[0] & 31, 1..STAP_A))?,
            FU_A => {
                let (position, part) = rest.split_first()?;
                if !matches!(position & 31, 1..STAP_A) {
                    return None;
                }
                self.part_of_unit(*position, &[header & 0xe0 | position & 31], part)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends an H.265 payload. `None`: it is malformed.
    fn h265(&mut self, payload: &[u8]) -> Option<()> {
        let ([first, second], rest) = payload.split_first_chunk()?;
        let kind = first >> 1 & 63;
        if self.fragment && kind != FU {
            return None;
        }
        match kind {
            0..AP => {
                self.append(&START_CODE);
                self.append(payload);
            }
            AP => self.aggregate(rest, |nal| nal.len() > 1 && nal[0] >> 1 & 63 < AP)?,
            FU => {
                let (position, part) = rest.split_first()?;
                if position & 63 >= AP {
                    return None;
                }
                let header = [first & 0x81 | (position & 63) << 1, *second];
                self.part_of_unit(*position, &header, part)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends an AV1 payload. `None`: it is malformed.
    fn av1(&mut self, payload: &[u8]) -> Option<()> {
        // Each OBU gets a size of at most as many bytes as its headers had.
        let bytes = self.bytes.len() + self.obus.waiting() + payload.len();
        self.too_large |= bytes > self.most;
        if self.too_large {
            self.obus.clear();
            return Some(());
        }
        self.obus.append(payload, &mut self.bytes)
    }

    /// Appends a part of a VP8 or VP9 frame. `None`: it is malformed.
    fn part(&mut self, part: Option<vpx::Part<'_>>) -> Option<()> {
        let vpx::Part { begins, layer, bytes } = part?;
        let is_first = self.bytes.is_empty() && !self.too_large;
        if begins != is_first {
            return None;
        }
        self.layer = layer;
        self.append(bytes);
        Some(())
    }

    /// Appends an MPEG video payload. `None`: it is malformed.
    fn mpeg_video(&mut self, payload: &[u8]) -> Option<()> {
        // The T bit: an MPEG-2 extension follows the header.
        let header = if payload.first()? & 4 == 0 { 4 } else { 8 };
        self.append(payload.get(header..).filter(|part| !part.is_empty())?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Format;
    use millstream_traffic::mpeg::units;

    /// Packetizes a frame as a server does.
    fn packets(format: Format, frame: &[u8], packet_bytes: usize) -> Vec<Vec<u8>> {
        let pieces = format.cut(frame, packet_bytes);
        let payload = |piece: crate::rtp::Piece| {
            [&piece.header[..piece.header_bytes.into()], &frame[piece.range]].concat()
        };
        pieces.into_iter().map(payload).collect()
    }

    /// Assembles `packets` of one timestamp, the last with the marker.
    fn assembled(
        codec: Codec,
        packets: &[Vec<u8>],
        lost: Option<usize>,
    ) -> Result<Vec<u8>, String> {
        let mut assembler = Assembler::new(codec, 10_000);
        let mut found = Vec::new();
        let mut gap = false;
        for (at, payload) in packets.iter().enumerate() {
            if lost == Some(at) {
                gap = true;
                continue;
            }
            let packet = Packet { timestamp: 7, marker: at + 1 == packets.len(), payload };
            let gap = std::mem::take(&mut gap);
            assembler.packet(packet, gap, &mut |found_now| {
                found.push(match found_now {
                    Assembled::Frame { bytes, timestamp: 7, .. } => Ok(bytes.to_vec()),
                    other => Err(format!("{other:?}")),
                });
            });
        }
        assembler.finish(&mut |_| found.push(Err("open".to_owned())));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn an_aggregate_yields_its_nal_units() {
        let aggregate = vec![24, 0, 2, 0x67, 5, 0, 1, 0x68];
        let frame = assembled(Codec::H264, &[aggregate], None).unwrap();
        assert_eq!(frame, [0, 0, 0, 1, 0x67, 5, 0, 0, 0, 1, 0x68]);
        for wrong in [
            &[24, 0, 3, 0x67, 5][..],
            &[24, 0, 0],
            &[24, 0, 1, 28],
            &[24, 0],
            &[],
            &[0],
            &[29, 1, 2],
        ] {
            assert_eq!(
                assembled(Codec::H264, &[wrong.to_vec()], None),
                Err("Incomplete".into()),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn h265_aggregates_and_fragments_yield_nal_units() {
        let aggregate = vec![0x60, 1, 0, 3, 0x42, 1, 5, 0, 2, 0x44, 1];
        let frame = assembled(Codec::H265, &[aggregate], None).unwrap();
        assert_eq!(frame, [0, 0, 0, 1, 0x42, 1, 5, 0, 0, 0, 1, 0x44, 1]);
        for wrong in [
            &[0x60, 1, 0, 3, 0x42, 1][..],
            &[0x60, 1, 0, 1, 0x42],
            &[0x60, 1, 0, 2, 0x60, 1],
            &[0x60, 1, 0],
            &[0x62, 1],
            &[0x62, 1, 0x13, 9],
            &[0x62, 1, 0xb0, 9],
            &[0x64, 1, 0, 0],
            &[0x26],
            &[],
        ] {
            let found = assembled(Codec::H265, &[wrong.to_vec()], None);
            assert_eq!(found, Err("Incomplete".into()), "{wrong:?}");
        }
    }

    #[test]
    fn a_fragment_without_start_or_end_drops_only_its_frame() {
        let frame = [&[0, 0, 1, 0x65][..], &[9; 200]].concat();
        let sent = packets(Format::H264, &frame, 90);
        for lost in 0..sent.len() {
            assert!(assembled(Codec::H264, &sent, Some(lost)).is_err(), "without {lost}");
        }
        let mut assembler = Assembler::new(Codec::H264, 1_000);
        let mut found = Vec::new();
        for (timestamp, payload, gap) in
            [(1, &sent[0][..], false), (2, &[0x41, 1][..], true), (3, &[0x41, 2][..], false)]
        {
            let packet = Packet { timestamp, marker: timestamp == 3, payload };
            assembler
                .packet(packet, gap, &mut |one| found.push(matches!(one, Assembled::Frame { .. })));
        }
        assert_eq!(found, [false, true, true]);
    }

    #[test]
    fn frames_of_browsers_are_assembled() {
        let vp8 =
            vec![vec![0x90, 0xe0, 0x81, 2, 9, 0x80, 1], vec![0x80, 0xe0, 0x81, 2, 9, 0x80, 2]];
        assert_eq!(assembled(Codec::Vp8, &vp8, None).unwrap(), [1, 2]);
        assert!(assembled(Codec::Vp8, &vp8[1..], None).is_err(), "without its start");
        assert!(assembled(Codec::Vp8, &[vp8[0].clone(), vp8[0].clone()], None).is_err());
        let vp9 = vec![vec![0x88, 1, 7], vec![0x84, 1, 8]];
        assert_eq!(assembled(Codec::Vp9, &vp9, None).unwrap(), [7, 8]);
        let av1 = vec![vec![0x58, 0x32, 3, 1], vec![0x90, 2, 3]];
        assert_eq!(assembled(Codec::Av1, &av1, None).unwrap(), [0x32, 3, 1, 2, 3]);
        assert!(assembled(Codec::Av1, &av1[..1], None).is_err(), "an OBU that has not ended");
        let mut assembler = Assembler::new(Codec::Vp8, 100);
        let packet = Packet { timestamp: 1, marker: true, payload: &vp8[0] };
        let mut layers = Vec::new();
        assembler.packet(packet, false, &mut |found| match found {
            Assembled::Frame { layer, .. } => layers.push(layer),
            other => panic!("{other:?}"),
        });
        assert_eq!(layers, [2]);
    }

    #[test]
    fn oversized_frames_are_dropped() {
        let sent = vec![vec![0x65; 6_000], vec![0x65; 6_000]];
        assert_eq!(assembled(Codec::H264, &sent, None), Err("TooLarge".to_owned()));
    }

    #[test]
    fn the_mpeg_2_extension_header_is_skipped() {
        let sent = vec![vec![4, 0, 0, 0, 9, 9, 9, 9, 0, 0, 1, 0], vec![0, 0, 0, 0, 7]];
        assert_eq!(assembled(Codec::Mpeg, &sent, None).unwrap(), [0, 0, 1, 0, 7]);
        assert!(assembled(Codec::Mpeg, &[vec![0, 0, 0, 0]], None).is_err());
    }

    proptest::proptest! {
        #[test]
        fn packetized_frames_are_reassembled(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..2, 1u8..=255], 1..300),
            packet_bytes in 30usize..90,
        ) {
            let frame = [&[0, 0, 1, 0][..], &bytes].concat();
            let sent = packets(Format::MpegVideo, &frame, packet_bytes);
            proptest::prop_assert_eq!(assembled(Codec::Mpeg, &sent, None).unwrap(), frame);
            let frame = [&[0, 0, 1, 0x65][..], &bytes].concat();
            let nals = |frame: &[u8]| -> Vec<Vec<u8>> {
                let nals = units(frame).map(|nal| frame[nal].to_vec());
                nals.filter(|nal| nal[0] & 31 != 9).collect()
            };
            let sent = packets(Format::H264, &frame, packet_bytes);
            if nals(&frame).iter().all(|nal| (1..24).contains(&(nal[0] & 31))) {
                let again = assembled(Codec::H264, &sent, None).unwrap();
                proptest::prop_assert_eq!(nals(&again), nals(&frame));
            }
            let frame = [&[0, 0, 1, 0x26, 1][..], &bytes].concat();
            let nals = |frame: &[u8]| -> Vec<Vec<u8>> {
                let nals = units(frame).map(|nal| frame[nal].to_vec());
                nals.filter(|nal| nal.len() > 1 && nal[0] >> 1 & 63 != 35).collect()
            };
            let sent = packets(Format::H265, &frame, packet_bytes);
            if nals(&frame).iter().all(|nal| nal[0] >> 1 & 63 < AP) {
                let again = assembled(Codec::H265, &sent, None).unwrap();
                proptest::prop_assert_eq!(nals(&again), nals(&frame));
            }
        }

        #[test]
        fn arbitrary_payloads_do_not_panic(
            payloads in proptest::collection::vec(
                proptest::collection::vec(proptest::num::u8::ANY, 0..20), 1..20),
        ) {
            use Codec::{Av1, H264, H265, Mpeg, Vp8, Vp9};
            for codec in [H264, H265, Av1, Vp8, Vp9, Mpeg] {
                let _ = assembled(codec, &payloads, None);
            }
        }
    }
}
