//! A demultiplexer of transport streams that arrive packet by packet, as from a network.
//!
//! ```text
//! packet ── PID ──> association, map ──> tracks: the first of the wanted codecs
//!             └───> PES packets ── counter without gap, within limits ──> units
//! ```
//! A unit is the content of a PES packet: of video a picture, of audio frames. It ends with the
//! length in its header, or with the next one of its track. A unit that misses a packet is dropped
//! whole. Memory is bounded by the limits of both tracks.

use mpeg2ts::pes::PesHeader;
use mpeg2ts::ts::{EsInfo, Pid, TsPacket, TsPayload};

use super::audio::AudioCodec;
use super::codec::Codec;
use super::container::{audio_codec, video_codec};
use super::ts_packets::{SYNC_BYTE, TS_PACKET, TsPackets, payload, pid};

/// The number of values of a continuity counter.
const COUNTERS: u8 = 16;

/// The bytes of a PES packet that its length does not count.
const PES_PREFIX: usize = 6;

/// A track of a transport stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportTrack {
    /// The first video of the wanted codec.
    Video,
    /// The first audio of the wanted codec.
    Audio,
}

/// What a packet completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportEvent<'a> {
    /// A program map that differs from the one before: whether it has the wanted video and audio.
    Map {
        /// Whether it has video of the wanted codec.
        video: bool,
        /// Whether it has audio of the wanted codec.
        audio: bool,
    },
    /// A packet of a program association, or of the map of the first program, that cannot be read:
    /// it is damaged, or the table is longer than a packet.
    UnreadableTable {
        /// Whether it is of the map.
        is_map: bool,
    },
    /// The content of a PES packet.
    Unit {
        /// Its track.
        track: TransportTrack,
        /// Its presentation time, 1/90,000 s modulo 2^33; `None` if it has none.
        time: Option<u64>,
        /// Its decoding time, which is that of its presentation unless the header has another.
        decode_time: Option<u64>,
        /// The elementary stream's bytes.
        bytes: &'a [u8],
    },
    /// A unit that misses packets, or is longer than the limit of its track.
    Dropped {
        /// Its track.
        track: TransportTrack,
        /// Whether it is too long.
        too_long: bool,
    },
    /// Missing packets of a track; a multiple of 16 cannot be seen.
    Lost {
        /// The track.
        track: TransportTrack,
        /// Their number modulo 16.
        packets: u8,
    },
}

/// A demultiplexer of a transport stream.
#[derive(Debug)]
pub struct TransportDemultiplexer {
    packets: TsPackets,
    video: Codec,
    audio: Option<AudioCodec>,
    /// The largest unit of video and of audio, bytes.
    limits: [usize; 2],
    /// The number of the first program, and the PID of its map.
    program: Option<(u16, u16)>,
    tracks: [Option<Track>; 2],
    /// Whether a map has been reported.
    has_map: bool,
}

/// A track and its unit so far.
#[derive(Debug)]
struct Track {
    pid: Pid,
    what: TransportTrack,
    limit: usize,
    /// The last packet with a payload, and whether it has been sent twice.
    last: Option<([u8; TS_PACKET], bool)>,
    unit: Option<Unit>,
    /// The memory of the unit, kept for the next.
    bytes: Vec<u8>,
}

/// The header of a unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    time: Option<u64>,
    decode_time: Option<u64>,
    /// The length, if the header has it, bytes.
    length: Option<usize>,
    too_long: bool,
}

impl TransportDemultiplexer {
    /// The size of a packet, bytes.
    pub const PACKET: usize = TS_PACKET;

    /// Creates a demultiplexer for video and audio of these codecs. `limits` are those of a unit of
    /// video and of audio, bytes.
    #[must_use]
    pub fn new(video: Codec, audio: Option<AudioCodec>, limits: [usize; 2]) -> Self {
        let (packets, tracks) = (TsPackets::new(), [None, None]);
        Self { packets, video, audio, limits, program: None, tracks, has_map: false }
    }

    /// Returns whether this is a packet: it has its first byte, and no error indicator.
    #[must_use]
    pub fn is_packet(bytes: &[u8; Self::PACKET]) -> bool {
        bytes[0] == SYNC_BYTE && bytes[1] & 0x80 == 0
    }

    /// Processes a packet. Returns whether it is one: others are ignored.
    pub fn packet(
        &mut self,
        bytes: &[u8; Self::PACKET],
        sink: &mut impl FnMut(TransportEvent<'_>),
    ) -> bool {
        if !Self::is_packet(bytes) {
            return false;
        }
        let pid = pid(bytes);
        let is_track = |track: &&mut Track| track.pid.as_u16() == pid;
        if let Some(track) = self.tracks.iter_mut().flatten().find(is_track) {
            if payload(bytes).is_some() {
                track.packet(bytes, &mut self.packets, sink);
            }
            return true;
        }
        // Packets of other tracks are not parsed.
        let is_map = self.program.is_some_and(|(_, map)| map == pid);
        if pid != Pid::PAT && !is_map || payload(bytes).is_none() {
            return true;
        }
        let Some(TsPacket { payload: Some(payload), .. }) = self.packets.parse(bytes) else {
            sink(TransportEvent::UnreadableTable { is_map });
            return true;
        };
        match payload {
            TsPayload::Pat(associations) => {
                let mut programs = associations.table.iter();
                let program = programs.find(|program| program.program_num != 0);
                self.program = program.map(|of| (of.program_num, of.program_map_pid.as_u16()));
            }
            // The maps of several programs may have one PID.
            TsPayload::Pmt(map)
                if self.program.is_some_and(|(number, _)| number == map.program_num) =>
            {
                self.choose(&map.es_info, sink);
            }
            _ => {}
        }
        true
    }

    /// Passes the last units on: no packets follow.
    pub fn finish(&mut self, sink: &mut impl FnMut(TransportEvent<'_>)) {
        self.tracks.iter_mut().flatten().for_each(|track| track.end(true, sink));
    }

    /// Chooses the tracks of a map.
    fn choose(&mut self, map: &[EsInfo], sink: &mut impl FnMut(TransportEvent<'_>)) {
        let is_video = |stream: &&EsInfo| video_codec(stream.stream_type) == Some(self.video);
        let wanted = self.audio;
        let is_audio =
            |stream: &&EsInfo| wanted.is_some() && audio_codec(stream.stream_type) == wanted;
        let chosen = [map.iter().find(is_video), map.iter().find(is_audio)];
        let pids = chosen.map(|stream| stream.map(|stream| stream.elementary_pid));
        let now = self.tracks.each_ref().map(|track| track.as_ref().map(|track| track.pid));
        if self.has_map && now == pids {
            return;
        }
        self.has_map = true;
        let whats = [TransportTrack::Video, TransportTrack::Audio];
        for (number, (pid, what)) in pids.into_iter().zip(whats).enumerate() {
            if now[number] == pid {
                continue;
            }
            if let Some(track) = &mut self.tracks[number] {
                track.end(false, sink);
            }
            let limit = self.limits[number];
            let (last, unit, bytes) = (None, None, Vec::new());
            self.tracks[number] = pid.map(|pid| Track { pid, what, limit, last, unit, bytes });
        }
        sink(TransportEvent::Map { video: pids[0].is_some(), audio: pids[1].is_some() });
    }
}

/// Returns whether a packet says that its continuity counter does not continue.
fn is_discontinuous(packet: &[u8; TS_PACKET]) -> bool {
    packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x80 != 0
}

/// Returns whether a packet is the last one sent again: only a clock (PCR) may differ (ISO 13818-1,
/// 2.4.3.3).
fn is_duplicate(last: &[u8; TS_PACKET], packet: &[u8; TS_PACKET]) -> bool {
    let has_clock = packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0;
    let clock = if has_clock { 6..12 } else { 6..6 };
    last[..clock.start] == packet[..clock.start] && last[clock.end..] == packet[clock.end..]
}

impl Track {
    /// Processes a packet with a payload.
    fn packet(
        &mut self,
        bytes: &[u8; TS_PACKET],
        packets: &mut TsPackets,
        sink: &mut impl FnMut(TransportEvent<'_>),
    ) {
        if let Some((last, sent_twice)) = &mut self.last
            && !*sent_twice
            && is_duplicate(last, bytes)
        {
            *sent_twice = true;
            return;
        }
        let counter = bytes[3] % COUNTERS;
        let last = self.last.filter(|_| !is_discontinuous(bytes));
        self.last = Some((*bytes, false));
        let next = last.map(|(last, _)| (last[3] % COUNTERS + 1) % COUNTERS);
        if let Some(next) = next.filter(|next| *next != counter) {
            let packets = (counter + COUNTERS - next) % COUNTERS;
            sink(TransportEvent::Lost { track: self.what, packets });
            self.end(false, sink);
        }
        let payload_bytes = payload(bytes).map_or(0, <[u8]>::len);
        match packets.parse(bytes).and_then(|packet| packet.payload) {
            Some(TsPayload::PesStart(start)) => {
                self.end(true, sink);
                let header_bytes = payload_bytes - start.data.len();
                let length = usize::from(start.pes_packet_len);
                let length =
                    (length > 0).then(|| (length + PES_PREFIX).saturating_sub(header_bytes));
                self.begin(&start.header, length);
                self.add(&start.data, sink);
            }
            Some(TsPayload::PesContinuation(data)) => self.add(&data, sink),
            _ => self.end(false, sink),
        }
    }

    fn begin(&mut self, header: &PesHeader, length: Option<usize>) {
        let time = header.pts.map(|time| time.as_u64());
        let decode_time = header.dts.map(|time| time.as_u64()).or(time);
        self.unit = Some(Unit { time, decode_time, length, too_long: false });
        self.bytes.clear();
    }

    fn add(&mut self, data: &[u8], sink: &mut impl FnMut(TransportEvent<'_>)) {
        let Some(unit) = &mut self.unit else { return };
        let rest = unit.length.map_or(usize::MAX, |length| length - self.bytes.len());
        let data = &data[..data.len().min(rest)];
        unit.too_long |= self.bytes.len() + data.len() > self.limit;
        if unit.too_long {
            self.bytes.clear();
            unit.length = None;
            return;
        }
        self.bytes.extend_from_slice(data);
        if unit.length == Some(self.bytes.len()) {
            self.end(true, sink);
        }
    }

    /// Ends the unit. `is_whole`: no packet is missing.
    fn end(&mut self, is_whole: bool, sink: &mut impl FnMut(TransportEvent<'_>)) {
        let Some(unit) = self.unit.take() else { return };
        let Unit { time, decode_time, length, too_long } = unit;
        let (track, bytes) = (self.what, &self.bytes[..]);
        let is_whole = is_whole && length.is_none_or(|length| length == bytes.len());
        sink(if is_whole && !too_long {
            TransportEvent::Unit { track, time, decode_time, bytes }
        } else {
            TransportEvent::Dropped { track, too_long }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::container::tests::{packet, section};
    use super::*;

    const LIMITS: [usize; 2] = [400, 100];

    /// Returns a packet of a track's PID with a continuity counter.
    fn counted(pid: u8, start: bool, counter: u8, contents: &[u8]) -> Vec<u8> {
        let mut packet = packet(pid, start, contents);
        packet[3] |= counter;
        packet
    }

    /// Returns the start of a PES packet with this length and the time 90,000.
    fn pes(length: u8, data: &[u8]) -> Vec<u8> {
        let time = [0x21, 0, 5, 0xbf, 0x21];
        [&[0, 0, 1, 0xe0, 0, length, 0x80, 0x80, 5][..], &time, data].concat()
    }

    /// Returns tables with PID 0x101 for the map, 0x102 for H.264, 0x103 for AAC.
    fn tables() -> Vec<u8> {
        let mut association = packet(0, true, &section(&[0, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 1]));
        association[1] = 0x40;
        let tracks = [0x1b, 0xe1, 2, 0xf0, 0, 0x0f, 0xe1, 3, 0xf0, 0];
        let map = [&[2, 0, 1, 0xc1, 0, 0, 0xe1, 2, 0xf0, 0][..], &tracks].concat();
        [association, packet(1, true, &section(&map))].concat()
    }

    /// Returns a text of the events of packets and of their end.
    fn events(audio: Option<AudioCodec>, packets: &[Vec<u8>]) -> Vec<String> {
        let mut demultiplexer = TransportDemultiplexer::new(Codec::H264, audio, LIMITS);
        let mut found = Vec::new();
        let mut sink = |event: TransportEvent<'_>| {
            found.push(match event {
                TransportEvent::Map { video, audio } => format!("map {video} {audio}"),
                TransportEvent::UnreadableTable { is_map } => format!("unreadable {is_map}"),
                TransportEvent::Unit { track, time, decode_time, bytes } => {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    let time = time.filter(|_| time == decode_time);
                    format!("{track:?} {} {text}", time.unwrap_or(0))
                }
                TransportEvent::Dropped { track, too_long } => format!("{track:?} {too_long}"),
                TransportEvent::Lost { track, packets } => format!("{track:?} lacks {packets}"),
            });
        };
        for packet in packets.concat().chunks_exact(188) {
            let packet = packet.try_into().unwrap();
            assert!(demultiplexer.packet(packet, &mut sink));
        }
        demultiplexer.finish(&mut sink);
        found
    }

    #[test]
    fn a_unit_ends_with_its_length_or_with_the_next_one() {
        let packets = [
            counted(2, true, 0, &pes(0, b"before the tables")),
            tables(),
            counted(2, false, 1, b"without a start"),
            counted(2, true, 2, &pes(0, b"a")),
            counted(2, false, 3, b"b"),
            // Sent twice.
            counted(2, false, 3, b"b"),
            counted(3, true, 9, &pes(12, b"so")),
            counted(3, false, 10, b"und and bytes behind it"),
            tables(),
            counted(2, true, 4, &pes(0, b"c")),
        ];
        let expected = ["map true true", "Audio 90000 soun", "Video 90000 ab", "Video 90000 c"];
        assert_eq!(events(Some(AudioCodec::Aac), &packets), expected);
        let expected = ["map true false", "Video 90000 ab", "Video 90000 c"];
        assert_eq!(events(Some(AudioCodec::Mpeg), &packets), expected);
        assert_eq!(events(None, &packets), expected);
    }

    #[test]
    fn a_unit_that_misses_a_packet_is_dropped() {
        let packets = [
            tables(),
            counted(2, true, 14, &pes(0, b"a")),
            counted(2, false, 2, b"b"),
            counted(2, false, 3, b"c"),
            counted(2, true, 4, &pes(0, b"d")),
            // Damaged: a start without a start code.
            counted(2, true, 5, b"e"),
            counted(2, true, 6, &pes(200, b"f")),
        ];
        let expected =
            ["map true true", "Video lacks 3", "Video false", "Video 90000 d", "Video false"];
        let found = events(Some(AudioCodec::Aac), &packets);
        // The damaged packet ends the unit before it, and so does the missing rest at the end.
        assert_eq!(found[..3], expected[..3]);
        assert_eq!(found[3..], ["Video false", "Video false"]);
    }

    #[test]
    fn a_counter_may_say_that_it_does_not_continue() {
        let mut start = counted(2, true, 9, &pes(0, b"b"));
        start[5] |= 0x80;
        let packets = [tables(), counted(2, true, 0, &pes(0, b"a")), start];
        let expected = ["map true false", "Video 90000 a", "Video 90000 b"];
        assert_eq!(events(None, &packets), expected);
    }

    #[test]
    fn only_a_copy_of_the_last_packet_is_a_duplicate_and_only_once() {
        let middle = || counted(2, false, 1, b"b");
        let unit = |more: &[Vec<u8>]| {
            let start = [tables(), counted(2, true, 0, &pes(0, b"a"))];
            let end = [counted(2, true, 2, &pes(0, b"c"))];
            events(None, &[&start, more, &end].concat())
        };
        let whole = ["map true false", "Video 90000 ab", "Video 90000 c"];
        let lost = ["map true false", "Video lacks 15", "Video false", "Video 90000 c"];
        assert_eq!(unit(&[middle()]), whole);
        assert_eq!(unit(&[middle(), middle()]), whole);
        assert_eq!(unit(&[middle(), middle(), middle()]), lost);
        // 15 packets are missing between them.
        assert_eq!(unit(&[middle(), counted(2, false, 1, b"x")]), lost);
        let with_clock = |clock: u8| {
            let mut packet = middle();
            (packet[5], packet[9]) = (0x10, clock);
            packet
        };
        assert_eq!(unit(&[with_clock(1), with_clock(2)]), whole);
        let mut without = with_clock(1);
        without[5] = 0;
        assert_eq!(unit(&[with_clock(1), without]), lost);
        let mut start = counted(2, true, 9, &pes(0, b"b"));
        start[5] |= 0x80;
        let more = [start.clone(), start, counted(2, false, 10, b"c")];
        let packets = [tables(), more.concat()];
        assert_eq!(events(None, &packets), ["map true false", "Video 90000 bc"]);
    }

    #[test]
    fn only_the_counter_of_the_last_packet_is_counted_on() {
        // Its other bits: scrambled.
        let scrambled = counted(2, true, 0xcf, &pes(0, b"a"));
        let packets = [tables(), scrambled, counted(2, true, 0, &pes(0, b"b"))];
        assert_eq!(events(None, &packets)[1..], ["Video 90000 a", "Video 90000 b"]);
    }

    #[test]
    fn units_and_their_tracks_are_bounded() {
        let more = |counter| counted(2, false, counter, &[b'x'; 150]);
        let packets = [
            tables(),
            counted(2, true, 0, &pes(0, &[b'x'; 100])),
            more(1),
            more(2),
            more(3),
            counted(2, true, 4, &pes(0, b"next")),
        ];
        let expected = ["map true true", "Video true", "Video 90000 next"];
        assert_eq!(events(Some(AudioCodec::Aac), &packets), expected);
        let mut demultiplexer = TransportDemultiplexer::new(Codec::H264, None, LIMITS);
        for packet in packets.concat().chunks_exact(188) {
            demultiplexer.packet(packet.try_into().unwrap(), &mut |_| {});
            let tracks = demultiplexer.tracks.iter().flatten();
            let capacity: usize = tracks.map(|track| track.bytes.capacity()).sum();
            // Vectors double.
            assert!(capacity <= 2 * LIMITS[0], "{capacity}");
        }
    }

    #[test]
    fn only_the_map_of_the_first_program_counts() {
        let mut association =
            packet(0, true, &section(&[0, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 1, 0, 2, 0xe1, 1]));
        association[1] = 0x40;
        let other = [2, 0, 2, 0xc1, 0, 0, 0xe1, 5, 0xf0, 0, 0x1b, 0xe1, 5, 0xf0, 0];
        let packets = [
            association,
            packet(1, true, &section(&other)),
            tables()[188..].to_vec(),
            packet(1, true, &section(&other)),
            counted(5, true, 0, &pes(0, b"other")),
            counted(2, true, 0, &pes(0, b"first")),
        ];
        assert_eq!(events(None, &packets), ["map true false", "Video 90000 first"]);
    }

    #[test]
    fn tables_that_cannot_be_read_are_reported() {
        let (mut association, mut map) = (tables()[..188].to_vec(), tables()[188..].to_vec());
        let good = association.clone();
        association[187] ^= 1;
        map[187] ^= 1;
        let mut without_payload = good.clone();
        (without_payload[3], without_payload[4]) = (0x20, 183);
        // The damaged map is of no program so far.
        let packets = [map.clone(), association, good, without_payload, map];
        assert_eq!(events(None, &packets), ["unreadable false", "unreadable true"]);
    }

    #[test]
    fn a_pid_of_a_former_map_may_have_a_track() {
        let mut former = packet(0, true, &section(&[0, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 2]));
        former[1] = 0x40;
        let packets = [
            former,
            tables(),
            counted(2, true, 0, &pes(0, b"a")),
            // As a map its descriptors are too long.
            counted(2, false, 1, &[0; 20]),
        ];
        let unit = format!("Video 90000 a{}", "\0".repeat(20));
        assert_eq!(events(None, &packets), ["map true false", &unit]);
    }

    #[test]
    fn another_map_replaces_the_tracks() {
        let map = [2, 0, 1, 0xc1, 0, 0, 0xe1, 2, 0xf0, 0, 0x1b, 0xe1, 9, 0xf0, 0];
        let packets = [
            tables(),
            counted(2, true, 0, &pes(0, b"old")),
            packet(1, true, &section(&map)),
            counted(2, true, 1, &pes(0, b"not described")),
            counted(9, true, 7, &pes(0, b"new")),
        ];
        let expected = ["map true true", "Video false", "map true false", "Video 90000 new"];
        assert_eq!(events(Some(AudioCodec::Aac), &packets), expected);
    }
}
