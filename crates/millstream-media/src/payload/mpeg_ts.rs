//! MPEG transport streams over RTP, RFC 2250, section 2: wraps a media file once, at loading.
//!
//! ```text
//! I: tables (PAT, PMT) | clock (PCR) | video … video      P, B: clock (PCR) | video … video
//! ```
//! A frame is one PES packet in its own transport packets, so that it can be left out whole. A
//! missing frame breaks the video's continuity counter; so each frame's first video packet sets the
//! discontinuity indicator. The clock has its own PID. Its packets have no payload, so they do not
//! advance a continuity counter. It signals a discontinuity only at the start of the media file.

use millstream_traffic::mpeg::{Codec, CodedFrame, FrameKind, VideoPayload, units};
use mpeg2ts::es::{StreamId, StreamType};
use mpeg2ts::pes::PesHeader;
use mpeg2ts::time::{ClockReference, Timestamp};
use mpeg2ts::ts::payload::{Bytes, Pat, Pes, Pmt};
use mpeg2ts::ts::{
    AdaptationField, ContinuityCounter, EsInfo, Pid, ProgramAssociation,
    TransportScramblingControl, TsHeader, TsPacket, TsPacketWriter, TsPayload, VersionNumber,
    WriteTsPacket,
};
use std::ops::Range;

use crate::rtp::{CLOCK_RATE, Piece};

const PROGRAM_MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;
const CLOCK: u16 = 0x101;
const PROGRAM: u16 = 1;

/// The largest number of transport packets in an RTP packet.
///
/// More do not fit an Ethernet frame, and television receivers expect no more.
const TOGETHER: usize = 7;

/// The size of a transport packet, bytes.
pub(crate) const PACKET: usize = TsPacket::SIZE;

/// The size of a PES header with both timestamps, bytes.
const PES_HEADER: usize = 19;

/// The size of the shortest adaptation field, bytes: its length and its flags.
const ADAPTATION: usize = 2;

/// Access unit delimiters of H.264 (7.3.2.4) and H.265 (7.3.2.5); transport streams need one before
/// each picture.
const H264_DELIMITER: &[u8] = &[0, 0, 0, 1, 9, 0xf0];
const H265_DELIMITER: &[u8] = &[0, 0, 0, 1, 0x46, 1, 0x50];

/// A media file in a transport stream.
#[derive(Debug)]
pub(crate) struct Wrapped {
    /// The transport packets.
    pub(crate) bytes: Vec<u8>,
    /// The range of each frame's transport packets, in coding order.
    pub(crate) frames: Vec<Range<usize>>,
}

/// Wraps `video` in a transport stream of at most `limit` bytes.
///
/// A decoder decodes each frame `buffer_ns` after its release.
///
/// # Errors
/// Returns a description of the reason, for example that `limit` is exceeded.
pub(crate) fn wrap(video: &VideoPayload, buffer_ns: u64, limit: usize) -> Result<Wrapped, String> {
    let stream_type = stream_type(video.codec).ok_or(
        "`payload = \"mpeg-ts\"` is for MPEG-1/2, H.264 and H.265 video; remove it for this file",
    )?;
    let refused = |error: mpeg2ts::Error| format!("wrapping in a transport stream: {error}");
    let reordering = (0..).zip(&video.frames).map(|(number, frame)| {
        let number: u32 = number;
        number.saturating_sub(frame.display)
    });
    let mut wrapper = Wrapper {
        writer: TsPacketWriter::new(Vec::new()),
        counters: [ContinuityCounter::new(); 3],
        tables: tables(stream_type).map_err(refused)?,
        buffer: u128::from(buffer_ns) * u128::from(CLOCK_RATE) / 1_000_000_000,
        reordering: reordering.max().unwrap_or(0),
    };
    let mut frames = Vec::with_capacity(video.frames.len());
    for (number, frame) in (0..).zip(&video.frames) {
        let start = wrapper.writer.stream().len();
        wrapper.frame(video, number, frame).map_err(refused)?;
        let end = wrapper.writer.stream().len();
        if end > limit {
            return Err(format!("the transport stream exceeds {limit} bytes"));
        }
        frames.push(start..end);
    }
    Ok(Wrapped { bytes: wrapper.writer.into_stream(), frames })
}

/// Cuts a frame's transport packets into payloads of whole packets, at most `room` bytes each.
pub(crate) fn cut(frame: &[u8], room: usize) -> Vec<Piece> {
    let most = (room / TsPacket::SIZE).clamp(1, TOGETHER) * TsPacket::SIZE;
    let starts = (0..frame.len()).step_by(most);
    starts
        .map(|start| Piece {
            header: [0; 4],
            header_bytes: 0,
            range: start..frame.len().min(start + most),
        })
        .collect()
}

/// Returns the type of a codec's streams; `None` if there is none.
fn stream_type(codec: Codec) -> Option<StreamType> {
    match codec {
        Codec::Mpeg => Some(StreamType::Mpeg2Video),
        Codec::H264 => Some(StreamType::H264),
        Codec::H265 => Some(StreamType::H265),
        Codec::Av1 | Codec::Vp8 | Codec::Vp9 => None,
    }
}

/// Returns the two tables (PAT, PMT), which announce one program of one video.
fn tables(stream_type: StreamType) -> Result<[TsPayload; 2], mpeg2ts::Error> {
    let association =
        ProgramAssociation { program_num: PROGRAM, program_map_pid: Pid::new(PROGRAM_MAP)? };
    let video = EsInfo { stream_type, elementary_pid: Pid::new(VIDEO)?, descriptors: Vec::new() };
    Ok([
        TsPayload::Pat(Pat {
            transport_stream_id: 1,
            version_number: VersionNumber::new(),
            table: vec![association],
        }),
        TsPayload::Pmt(Pmt {
            program_num: PROGRAM,
            pcr_pid: Some(Pid::new(CLOCK)?),
            version_number: VersionNumber::new(),
            program_info: Vec::new(),
            es_info: vec![video],
        }),
    ])
}

fn adaptation(discontinuity: bool, random_access: bool) -> AdaptationField {
    AdaptationField {
        discontinuity_indicator: discontinuity,
        random_access_indicator: random_access,
        es_priority_indicator: false,
        pcr: None,
        opcr: None,
        splice_countdown: None,
        transport_private_data: Vec::new(),
        extension: None,
    }
}

struct Wrapper {
    writer: TsPacketWriter<Vec<u8>>,
    /// The continuity counters of the association table, the map table and the video.
    counters: [ContinuityCounter; 3],
    tables: [TsPayload; 2],
    /// The time from a frame's release to its decoding, 1/90,000 s.
    buffer: u128,
    /// The delay from decoding to display, frames, so that no frame is shown before it is decoded.
    reordering: u32,
}

impl Wrapper {
    fn frame(
        &mut self,
        video: &VideoPayload,
        number: u32,
        frame: &CodedFrame,
    ) -> Result<(), mpeg2ts::Error> {
        let intra = frame.kind == FrameKind::I;
        if intra || number == 0 {
            for (at, pid) in [Pid::PAT, PROGRAM_MAP].into_iter().enumerate() {
                let table = self.tables[at].clone();
                self.packet(pid, Some(at), None, Some(table))?;
            }
        }
        let (frames, seconds) = (video.rate.frames.max(1), video.rate.seconds);
        let time = |place: u32, rate: u64| {
            u128::from(place) * u128::from(rate) * u128::from(seconds) / u128::from(frames)
        };
        let whole = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let clock = time(number, ClockReference::RESOLUTION);
        let clock = whole(clock % (u128::from(Timestamp::MAX + 1) * 300));
        let pcr = Some(ClockReference::new(clock)?);
        self.packet(
            CLOCK,
            None,
            Some(AdaptationField { pcr, ..adaptation(number == 0, false) }),
            None,
        )?;

        let stamp = |place: u32| {
            let stamp = time(place, CLOCK_RATE) + self.buffer;
            Timestamp::new(whole(stamp % u128::from(Timestamp::MAX + 1)))
        };
        let header = PesHeader {
            stream_id: StreamId::new(StreamId::VIDEO_MIN),
            priority: false,
            data_alignment_indicator: true,
            copyright: false,
            original_or_copy: false,
            pts: Some(stamp(frame.display.saturating_add(self.reordering))?),
            dts: Some(stamp(number)?),
            escr: None,
        };
        let bytes = video.frame(frame);
        let first = units(bytes).next().map(|unit| bytes[unit.start]);
        let delimiter = match (video.codec, first) {
            (Codec::H264, Some(first)) if first & 31 != 9 => H264_DELIMITER,
            (Codec::H265, Some(first)) if first >> 1 & 63 != 35 => H265_DELIMITER,
            _ => &[],
        };
        let contents = delimiter.len() + bytes.len();
        // 0 means an unspecified length: the field has only 16 bits.
        let pes_packet_len = u16::try_from(contents + PES_HEADER - 6).unwrap_or(0);
        let first = contents.min(Bytes::MAX_SIZE - ADAPTATION - PES_HEADER) - delimiter.len();
        let data = Bytes::new(&[delimiter, &bytes[..first]].concat())?;
        let start = TsPayload::PesStart(Pes { header, pes_packet_len, data });
        self.packet(VIDEO, Some(2), Some(adaptation(true, intra)), Some(start))?;
        for part in bytes[first..].chunks(Bytes::MAX_SIZE) {
            let more = TsPayload::PesContinuation(Bytes::new(part)?);
            self.packet(VIDEO, Some(2), None, Some(more))?;
        }
        Ok(())
    }

    /// Writes one transport packet. `counter` selects its continuity counter, if it has a payload.
    fn packet(
        &mut self,
        pid: u16,
        counter: Option<usize>,
        adaptation_field: Option<AdaptationField>,
        payload: Option<TsPayload>,
    ) -> Result<(), mpeg2ts::Error> {
        let mut continuity_counter = ContinuityCounter::new();
        if let Some(counter) = counter {
            continuity_counter = self.counters[counter];
            self.counters[counter].increment();
        }
        let header = TsHeader {
            transport_error_indicator: false,
            transport_priority: false,
            pid: Pid::new(pid)?,
            transport_scrambling_control: TransportScramblingControl::NotScrambled,
            continuity_counter,
        };
        self.writer.write_ts_packet(&TsPacket { header, adaptation_field, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_traffic::mpeg::FrameRate;
    use mpeg2ts::ts::{ReadTsPacket, TsPacketReader};
    use std::io::Cursor;
    use std::path::Path;

    fn packets(bytes: &[u8]) -> Vec<TsPacket> {
        let mut reader = TsPacketReader::new(bytes);
        std::iter::from_fn(|| reader.read_ts_packet().unwrap()).collect()
    }

    fn clip() -> VideoPayload {
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/clip.mpg");
        VideoPayload::open(&clip, 1 << 24).unwrap()
    }

    #[test]
    fn a_wrapped_file_is_read_back_unchanged() {
        let video = clip();
        let wrapped = wrap(&video, 200_000_000, 1 << 24).unwrap();
        let again = VideoPayload::read(Cursor::new(&wrapped.bytes), 1 << 24).unwrap();
        let length = again.bytes.len();
        assert_eq!((again.frames, &again.bytes[..]), (video.frames, &video.bytes[..length]));
        assert_eq!(wrapped.frames.len(), 200);
    }

    #[test]
    fn frames_are_whole_transport_packets_and_can_be_left_out() {
        let video = clip();
        let wrapped = wrap(&video, 200_000_000, 1 << 24).unwrap();
        let mut last = None;
        for (number, (range, frame)) in wrapped.frames.iter().zip(&video.frames).enumerate() {
            let packets = packets(&wrapped.bytes[..wrapped.frames[0].end]).len();
            assert!(packets > 3);
            let bytes = &wrapped.bytes[range.clone()];
            let tables = wrapped.bytes[..2 * TsPacket::SIZE].to_vec();
            let mut all = self::packets(&[&tables[..], bytes].concat());
            all.drain(..if frame.kind == FrameKind::I { 4 } else { 2 });
            let clock = all[0].adaptation_field.as_ref().unwrap();
            assert_eq!(clock.discontinuity_indicator, number == 0);
            assert_eq!(clock.pcr.unwrap().as_u64(), number as u64 * 27_000_000 / 25);
            let first = all[1].adaptation_field.as_ref().unwrap();
            assert!(first.discontinuity_indicator);
            assert_eq!(first.random_access_indicator, frame.kind == FrameKind::I);
            let Some(TsPayload::PesStart(pes)) = &all[1].payload else { panic!("frame {number}") };
            let stamp = |place: usize| (place * 3_600 + 18_000) as u64;
            assert_eq!(pes.header.dts.unwrap().as_u64(), stamp(number));
            assert_eq!(pes.header.pts.unwrap().as_u64(), stamp(frame.display as usize + 1));
            for packet in &all[1..] {
                let counter = packet.header.continuity_counter.as_u8();
                assert!(last.is_none_or(|last: u8| (last + 1) & 15 == counter), "frame {number}");
                last = Some(counter);
            }
            let pieces = cut(bytes, 1_388);
            assert!(pieces.iter().all(|p| p.range.len() % 188 == 0 && p.range.len() <= 1_316));
            assert_eq!(pieces.iter().map(|p| p.range.len()).sum::<usize>(), bytes.len());
        }
    }

    #[test]
    fn h264_gets_delimiters_and_the_size_limit_is_checked() {
        let picture = [0, 0, 0, 1, 0x65, 0b1000_1000, 9];
        let frame =
            |start| CodedFrame { kind: FrameKind::I, start, bytes: 7, display: 0, reference: true };
        let mut video = VideoPayload {
            codec: Codec::H264,
            rate: FrameRate { frames: 25, seconds: 1 },
            frames: vec![frame(0)],
            bytes: picture.to_vec().into(),
        };
        let contents = |video: &VideoPayload| {
            let wrapped = wrap(video, 0, 1_000).unwrap();
            let last = packets(&wrapped.bytes).pop().unwrap();
            let Some(TsPayload::PesStart(pes)) = last.payload else { panic!() };
            (pes.pes_packet_len, pes.data.to_vec())
        };
        let delimited = [H264_DELIMITER, &picture].concat();
        assert_eq!(contents(&video), (26, delimited.clone()));
        video.bytes = delimited.clone().into();
        video.frames[0].bytes = 13;
        assert_eq!(contents(&video), (26, delimited));
        assert!(wrap(&video, 0, 500).unwrap_err().contains("exceeds 500 bytes"));
    }

    proptest::proptest! {
        #[test]
        fn no_frame_makes_the_wrapper_panic(
            sizes in proptest::collection::vec(1u32..600, 1..20),
            displays in proptest::collection::vec(0u32..=u32::MAX, 20),
            (frames, seconds) in (1u32.., 1u32..),
            h264 in proptest::bool::ANY,
        ) {
            let mut start = 0;
            let coded: Vec<CodedFrame> = sizes.iter().zip(displays).map(|(&bytes, display)| {
                start += bytes as usize;
                let start = start - bytes as usize;
                CodedFrame { kind: FrameKind::P, start, bytes, display, reference: true }
            }).collect();
            let codec = if h264 { Codec::H264 } else { Codec::Mpeg };
            let video = VideoPayload {
                codec,
                rate: FrameRate { frames, seconds },
                frames: coded,
                bytes: vec![3; start].into(),
            };
            let wrapped = wrap(&video, u64::MAX, 1 << 24).unwrap();
            proptest::prop_assert_eq!(wrapped.frames.len(), sizes.len());
            proptest::prop_assert_eq!(wrapped.bytes.len() % TsPacket::SIZE, 0);
        }
    }
}
