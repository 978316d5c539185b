//! The receiver of a transport stream of a server without playback, and a sender.

use millstream_traffic::mpeg::{AudioCodec, Codec, TransportDemultiplexer, TransportEvent};
use mpeg2ts::es::{StreamId, StreamType};
use mpeg2ts::pes::PesHeader;
use mpeg2ts::time::Timestamp;
use mpeg2ts::ts::payload::{Bytes, Pat, Pes, Pmt};
use mpeg2ts::ts::{
    ContinuityCounter, EsInfo, Pid, ProgramAssociation, TransportScramblingControl, TsHeader,
    TsPacket, TsPacketWriter, TsPayload, VersionNumber, WriteTsPacket,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use super::live;
use crate::live::transport_stream::TransportReceiver;

const MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;
const AUDIO: u16 = 0x101;

/// Processes packets of a transport stream, one in each ms, and checks that every frame is
/// accounted for, and that only equal packets count as duplicates. Returns whether there were any
/// frames.
///
/// # Panics
/// Panics if a frame is not accounted for, or a packet that is no duplicate is left out.
#[must_use]
pub fn transport_receiver(bytes: &[u8]) -> bool {
    let mut live = live();
    let mut receiver = TransportReceiver::new(0, None);
    let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 5_004));
    let mut now_ns = 1;
    for packet in bytes.chunks(TsPacket::SIZE) {
        now_ns += 1_000_000;
        receiver.datagram(&mut live, from, packet, true, now_ns);
        receiver.tick(&mut live, now_ns);
    }
    receiver.end(&mut live, now_ns);
    let of = live.total();
    let released: u64 = of.released.iter().sum();
    assert_eq!(of.frames, released + of.incomplete + of.before_entry + of.beyond);
    assert!(live.streams.iter().all(|stream| stream.publisher.is_none()));
    check_duplicates(bytes);
    of.frames > 0
}

/// Checks that a packet of a track with the counter of the last one and other bytes is a loss.
fn check_duplicates(bytes: &[u8]) {
    let limits = [1 << 16; 2];
    let mut demultiplexer = TransportDemultiplexer::new(Codec::H264, Some(AudioCodec::Aac), limits);
    // The last packet of each track, by its PID. A packet that completes a unit is of a track.
    let mut tracks: BTreeMap<u16, [u8; TsPacket::SIZE]> = BTreeMap::new();
    for packet in bytes.chunks_exact(TsPacket::SIZE) {
        let Ok(packet) = <&[u8; TsPacket::SIZE]>::try_from(packet) else { return };
        let (mut is_map, mut is_unit, mut is_loss) = (false, false, false);
        let is_packet = demultiplexer.packet(packet, &mut |event| match event {
            TransportEvent::Map { .. } => is_map = true,
            TransportEvent::Unit { .. } => is_unit = true,
            TransportEvent::Lost { .. } => is_loss = true,
            _ => {}
        });
        if is_map {
            tracks.clear();
        }
        let has_field = packet[3] & 0x20 != 0;
        let has_payload = packet[3] & 0x10 != 0 && (!has_field || packet[4] <= 183);
        if !is_packet || is_map || !has_payload {
            continue;
        }
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        // Packets with a clock, or a counter that may jump, are not checked.
        let is_plain = !has_field || packet[4] == 0 || packet[5] & 0x90 == 0;
        if let Some(last) = tracks.get(&pid)
            && is_plain
            && last[3] & 15 == packet[3] & 15
        {
            assert!(is_loss || last == packet, "a packet is left out");
        }
        if is_unit || tracks.contains_key(&pid) {
            tracks.insert(pid, *packet);
        }
    }
}

/// Returns a transport stream of three pictures and two frames of AAC, one of them before the
/// first picture.
#[must_use]
pub fn transport_publication() -> Vec<u8> {
    let mut sender = TransportSender::new();
    sender.tables(true);
    sender.audio(90_000, 1);
    sender.video(90_000, PICTURES[0]);
    sender.video(93_600, PICTURES[1]);
    sender.audio(91_920, 1);
    sender.video(97_200, PICTURES[1]);
    sender.take()
}

/// An access unit at which decoders can start, and one at which they cannot.
pub(crate) const PICTURES: [&[u8]; 2] = [
    &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 66, 0, 30, 9, 0, 0, 1, 0x68, 7, 0, 0, 1, 0x65, 0x88, 5],
    &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41, 0x98, 6],
];

/// Returns an ADTS frame: AAC-LC, 48 kHz, stereo, one byte.
fn adts() -> Vec<u8> {
    vec![0xff, 0xf1, 0x4c, 0x80, 1, 0x1f, 0xfc, 5]
}

/// A sender of a transport stream.
pub(crate) struct TransportSender {
    writer: TsPacketWriter<Vec<u8>>,
    counters: [ContinuityCounter; 3],
}

impl TransportSender {
    pub(crate) fn new() -> Self {
        Self { writer: TsPacketWriter::new(Vec::new()), counters: [ContinuityCounter::new(); 3] }
    }

    /// Returns the packets since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let new = TsPacketWriter::new(Vec::new());
        std::mem::replace(&mut self.writer, new).into_stream()
    }

    /// Sends the tables of H.264, and of AAC if there is audio.
    pub(crate) fn tables(&mut self, audio: bool) {
        let pid = |number| Pid::new(number).expect("a PID");
        let es = |stream_type, number| EsInfo {
            stream_type,
            elementary_pid: pid(number),
            descriptors: Vec::new(),
        };
        let mut es_info = vec![es(StreamType::H264, VIDEO)];
        es_info.extend(audio.then(|| es(StreamType::AdtsAac, AUDIO)));
        let version_number = VersionNumber::new();
        let table = vec![ProgramAssociation { program_num: 1, program_map_pid: pid(MAP) }];
        let associations = Pat { transport_stream_id: 1, version_number, table };
        self.packet(Pid::PAT, 0, TsPayload::Pat(associations));
        let (pcr_pid, program_info) = (None, Vec::new());
        let map = Pmt { program_num: 1, pcr_pid, version_number, program_info, es_info };
        self.packet(MAP, 0, TsPayload::Pmt(map));
    }

    /// Sends a picture.
    pub(crate) fn video(&mut self, time: u64, unit: &[u8]) {
        self.pes(VIDEO, 1, time, unit);
    }

    /// Sends frames of AAC in one PES packet.
    pub(crate) fn audio(&mut self, time: u64, frames: usize) {
        self.pes(AUDIO, 2, time, &adts().repeat(frames));
    }

    fn pes(&mut self, pid: u16, counter: usize, time: u64, data: &[u8]) {
        let id = if pid == VIDEO { StreamId::VIDEO_MIN } else { StreamId::AUDIO_MIN };
        let header = PesHeader {
            stream_id: StreamId::new(id),
            priority: false,
            data_alignment_indicator: true,
            copyright: false,
            original_or_copy: false,
            pts: Some(Timestamp::new(time % (1 << 33)).expect("a time")),
            dts: None,
            escr: None,
        };
        let length = u16::try_from(data.len() + 8).expect("a short unit");
        // The length of video is not in its header, as most senders do it.
        let pes_packet_len = if pid == VIDEO { 0 } else { length };
        let data = Bytes::new(data).expect("a short unit");
        self.packet(pid, counter, TsPayload::PesStart(Pes { header, pes_packet_len, data }));
    }

    fn packet(&mut self, pid: u16, counter: usize, payload: TsPayload) {
        let header = TsHeader {
            transport_error_indicator: false,
            transport_priority: false,
            pid: Pid::new(pid).expect("a PID"),
            transport_scrambling_control: TransportScramblingControl::NotScrambled,
            continuity_counter: self.counters[counter],
        };
        self.counters[counter].increment();
        let packet = TsPacket { header, adaptation_field: None, payload: Some(payload) };
        self.writer.write_ts_packet(&packet).expect("memory");
    }
}
