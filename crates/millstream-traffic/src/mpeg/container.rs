//! Containers: program streams (ISO 13818-1 and 11172-1) and transport streams (13818-1).
//!
//! Each reader passes the bytes of the first video stream to a sink. The reader of transport
//! streams can pass those of the first audio stream, too. The program-stream reader is implemented
//! here: no maintained crate has one, and it only skips headers.

use mpeg2ts::es::StreamType;
use mpeg2ts::ts::{EsInfo, Pid, TsPayload};
use std::io::{BufRead, ErrorKind, Read};

use super::audio::AudioCodec;
use super::codec::Codec;
use super::ts_packets::{SYNC_BYTE, TS_PACKET, TsPackets, pid};
use crate::arrival::TrafficError;

/// Reads the bytes of a program stream's first video stream; a truncated last packet ends it.
pub(super) fn program_stream(
    mut input: impl BufRead,
    sink: &mut impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let mut recent = u32::MAX;
    let mut video = None;
    let mut packet = Vec::new();
    loop {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            return Ok(());
        }
        recent = recent << 8 | u32::from(byte[0]);
        let Ok(identifier) = u8::try_from(recent ^ 0x0000_0100) else { continue };
        // Pack headers and the end code have no length field; the scan finds the next start code.
        if identifier < 0xbb {
            continue;
        }
        let mut length = [0; 2];
        if input.read_exact(&mut length).is_err() {
            return Ok(());
        }
        packet.clear();
        (&mut input).take(u64::from(u16::from_be_bytes(length))).read_to_end(&mut packet)?;
        recent = u32::MAX;
        if matches!(identifier, 0xe0..=0xef) && *video.get_or_insert(identifier) == identifier {
            sink(&packet[pes_header_length(&packet).min(packet.len())..]);
        }
    }
}

/// Returns the length of a packet's header, bytes.
fn pes_header_length(packet: &[u8]) -> usize {
    // MPEG-2 packets start with the bits 10; their third byte is the length of the rest.
    if let [first, _, more, ..] = packet
        && first & 0xc0 == 0x80
    {
        return 3 + usize::from(*more);
    }
    let stuffing = packet.iter().take_while(|byte| **byte == 0xff).count();
    let rest = &packet[stuffing..];
    let buffer = if rest.first().is_some_and(|byte| byte & 0xc0 == 0x40) { 2 } else { 0 };
    let stamps = match rest.get(buffer).map(|byte| byte >> 4) {
        Some(2) => 5,
        Some(3) => 10,
        _ => 1,
    };
    stuffing + buffer + stamps
}

/// An elementary stream to read from a transport stream.
#[derive(Clone, Copy)]
struct Chosen<T> {
    pid: Pid,
    what: T,
    /// Whether an invalid packet is an error; otherwise it is skipped.
    strict: bool,
    started: bool,
}

/// Reads the bytes of a transport stream's first video stream, from its first PES packet on.
///
/// A recording may start anywhere. Invalid packets are skipped if they precede the tables that
/// describe them, or belong to other streams. An invalid packet of the video is an error.
pub(super) fn transport_stream(
    input: impl Read,
    sink: &mut impl FnMut(Codec, &[u8]),
) -> Result<(), TrafficError> {
    let choose = |map: &[EsInfo]| {
        let mut videos = map.iter().filter_map(|stream| {
            let what = video_codec(stream.stream_type)?;
            Some(Chosen { pid: stream.elementary_pid, what, strict: true, started: false })
        });
        videos.next().into_iter().collect()
    };
    demultiplex(input, choose, &mut |codec, _, bytes| sink(codec, bytes))
}

/// The contents of a transport stream that [`transport_audio`] reads.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// The time stamp of a video frame, 1/90,000 s.
    VideoTime(u64),
    /// Bytes of audio, with the time stamp of the first frame that begins in them, if known.
    Audio(AudioCodec, Option<u64>, &'a [u8]),
}

/// Reads the bytes and times of a transport stream's first audio stream of a supported codec, and
/// the times of its first video stream. Skips invalid packets.
pub(super) fn transport_audio(
    input: impl Read,
    sink: &mut impl FnMut(Part<'_>),
) -> Result<(), TrafficError> {
    let choose = |map: &[EsInfo]| {
        let chosen = |stream: &EsInfo, what| {
            let pid = stream.elementary_pid;
            Chosen { pid, what, strict: false, started: false }
        };
        let video = map.iter().find(|stream| video_codec(stream.stream_type).is_some());
        let audio = map
            .iter()
            .find_map(|stream| Some(chosen(stream, Some(audio_codec(stream.stream_type)?))));
        video.map(|stream| chosen(stream, None)).into_iter().chain(audio).collect()
    };
    demultiplex(input, choose, &mut |what, time, bytes| match (what, time) {
        (Some(codec), time) => sink(Part::Audio(codec, time, bytes)),
        (None, Some(time)) => sink(Part::VideoTime(time)),
        (None, None) => {}
    })
}

pub(super) fn video_codec(stream_type: StreamType) -> Option<Codec> {
    match stream_type {
        StreamType::Mpeg1Video | StreamType::Mpeg2Video => Some(Codec::Mpeg),
        StreamType::H264 => Some(Codec::H264),
        StreamType::H265 => Some(Codec::H265),
        _ => None,
    }
}

pub(super) fn audio_codec(stream_type: StreamType) -> Option<AudioCodec> {
    match stream_type {
        StreamType::AdtsAac => Some(AudioCodec::Aac),
        StreamType::Mpeg1Audio | StreamType::Mpeg2HalvedSampleRateAudio => Some(AudioCodec::Mpeg),
        _ => None,
    }
}

/// Reads the elementary streams that `choose` selects from the first program map.
///
/// `sink` gets the bytes of each packet, and the presentation time of a PES packet at its start.
fn demultiplex<T: Copy>(
    mut input: impl Read,
    choose: impl Fn(&[EsInfo]) -> Vec<Chosen<T>>,
    sink: &mut impl FnMut(T, Option<u64>, &[u8]),
) -> Result<(), TrafficError> {
    let mut packets = TsPackets::new();
    let (mut bytes, mut count) = ([0; TS_PACKET], 0u64);
    let mut chosen = Vec::new();
    loop {
        let place = |count: u64| format!("packet {count}");
        match input.read_exact(&mut bytes) {
            // A recording may be truncated inside its last packet.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(TrafficError::new(error.to_string()).place(place(count))),
            Ok(()) => count += 1,
        }
        if bytes[0] != SYNC_BYTE {
            return Err(TrafficError::new("not a transport stream packet").place(place(count)));
        }
        let Some(packet) = packets.parse(&bytes) else {
            let is = |one: &Chosen<T>| one.strict && one.pid.as_u16() == pid(&bytes);
            if chosen.iter().any(is) {
                return Err(TrafficError::new("damaged video packet").place(place(count)));
            }
            continue;
        };
        if let Some(TsPayload::Pmt(map)) = &packet.payload
            && chosen.is_empty()
        {
            chosen = choose(&map.es_info);
        }
        let of = chosen.iter_mut().find(|one| one.pid == packet.header.pid);
        match (packet.payload, of) {
            (Some(TsPayload::PesStart(start)), Some(of)) => {
                of.started = true;
                sink(of.what, start.header.pts.map(|pts| pts.as_u64()), &start.data);
            }
            (Some(TsPayload::PesContinuation(data)), Some(of)) if of.started => {
                sink(of.what, None, &data);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn program_stream_headers_are_removed() {
        let mpeg1 = [0, 0, 1, 0xe0, 0, 9, 0xff, 0x60, 0, 0x21, 0, 0, 0, 0, b'a'];
        let mpeg2 = [0, 0, 1, 0xe0, 0, 5, 0x80, 0, 1, 0, b'b'];
        let other = [0, 0, 1, 0xe1, 0, 2, 0x0f, b'x'];
        let audio = [0, 0, 1, 0xc0, 0, 3, 0, 0, 1];
        let pack = [0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 1, 1, 1, 0xf8];
        let stream = [&pack[..], &mpeg1, &audio, &other, &mpeg2, &[0, 0, 1, 0xb9]].concat();
        let mut video = Vec::new();
        program_stream(&stream[..], &mut |bytes| video.extend_from_slice(bytes)).unwrap();
        assert_eq!(video, b"ab");
    }

    /// Returns the CRC of a section (ISO 13818-1, annex A).
    fn crc(section: &[u8]) -> u32 {
        section.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
                crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        })
    }

    /// Returns a transport packet for `pid` that ends with `contents`, padded by an adaptation
    /// field.
    pub(in crate::mpeg) fn packet(pid: u8, start: bool, contents: &[u8]) -> Vec<u8> {
        let stuffing = 183 - contents.len();
        let adaptation = [u8::try_from(stuffing).unwrap(), 0];
        let header = [0x47, u8::from(start) << 6 | 1, pid, 0x30];
        let mut packet = [&header[..], &adaptation[..2.min(stuffing + 1)]].concat();
        packet.resize(188 - contents.len(), 0xff);
        packet.extend(contents);
        packet
    }

    pub(in crate::mpeg) fn section(contents: &[u8]) -> Vec<u8> {
        let length = u8::try_from(contents.len() + 3).unwrap();
        let section = [&[contents[0], 0xb0, length], &contents[1..]].concat();
        let check = crc(&section);
        [&[0], &section[..], &check.to_be_bytes()].concat()
    }

    /// Returns tables with PID 0x101 for the program map and 0x102 for MPEG-1 video.
    fn tables() -> Vec<u8> {
        let mut association = packet(0, true, &section(&[0, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 1]));
        association[1] = 0x40;
        let map = [2, 0, 1, 0xc1, 0, 0, 0xe1, 2, 0xf0, 0, 1, 0xe1, 2, 0xf0, 0];
        [association, packet(1, true, &section(&map))].concat()
    }

    #[test]
    fn program_maps_with_too_long_descriptors_are_skipped() {
        let associated = &tables()[..188];
        for (length, expected) in [(0, b"a".to_vec()), (9, Vec::new()), (1_023, Vec::new())] {
            let [high, low] = u16::to_be_bytes(0xf000 | length);
            let map = [2, 0, 1, 0xc1, 0, 0, 0xe1, 2, high, low, 1, 0xe1, 2, 0xf0, 0];
            let start = packet(2, true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, b'a']);
            let stream = [associated, &packet(1, true, &section(&map)), &start].concat();
            assert_eq!(transport(&stream).unwrap(), expected, "{length}");
        }
    }

    fn transport(stream: &[u8]) -> Result<Vec<u8>, TrafficError> {
        let mut video = Vec::new();
        transport_stream(stream, &mut |codec, bytes| {
            assert_eq!(codec, Codec::Mpeg);
            video.extend_from_slice(bytes);
        })?;
        Ok(video)
    }

    #[test]
    fn a_transport_stream_may_start_anywhere_and_be_truncated() {
        let start = packet(2, true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, b'a']);
        let more = |byte| packet(2, false, &[byte]);
        let stream =
            [more(b'x'), packet(9, true, b"?"), tables(), more(b'y'), start, more(b'b')].concat();
        assert_eq!(transport(&stream).unwrap(), b"ab");
        let cut = [&stream[..], &more(b'c')[..100]].concat();
        assert_eq!(transport(&cut).unwrap(), b"ab");
        // Other streams may contain anything.
        let other = [&stream[..], &packet(9, true, &[7; 150])].concat();
        assert_eq!(transport(&other).unwrap(), b"ab");
    }

    #[test]
    fn damaged_video_packets_are_errors_with_their_place() {
        let damaged = [tables(), packet(2, true, b"no PES header")].concat();
        let error = transport(&damaged).unwrap_err().to_string();
        assert_eq!(error, "packet 3: damaged video packet");
        let unaligned = [&tables()[..], &[0; 188]].concat();
        let error = transport(&unaligned).unwrap_err().to_string();
        assert_eq!(error, "packet 3: not a transport stream packet");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            bytes in proptest::collection::vec(proptest::prop_oneof![0u8..2, 0xb9u8..=255], 0..200),
        ) {
            let _ = program_stream(&bytes[..], &mut |_| ());
            let stream: Vec<u8> = [&[0x47], &bytes[..]].concat();
            let _ = transport_stream(&stream[..], &mut |_, _| ());
        }
    }
}
