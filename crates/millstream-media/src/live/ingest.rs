//! Ingest of one live stream: from a publisher's RTP packets to the ring that serves the clients.

use millstream_scenario::Link;
use millstream_traffic::mpeg::{Classifier, Codec, FrameKind, Picture};
use rtp_types::RtpPacket;
use serde::{Deserialize, Serialize};

use super::assemble::{Assembled, Assembler};
use super::policer::{Allowance, Policer};
use super::reorder::{Packet, Reorder};
use crate::payload::Format;
use crate::payload::audio::{joined, whole};
use crate::payload::parameter_sets::{ParameterSets, VideoParameters};
use crate::recording::playback::DueTimes;
use crate::recording::segment::AudioConfig;
use crate::recording::tap::Tap;
use crate::rtp::{CLOCK_RATE, Piece, RTP_HEADER, low_u32};
use crate::shared_memory::importance::Importance;
use crate::shared_memory::live_frames::{FrameRing, LiveFrame, record};

/// Ingest counters of a live stream, over all its publishers since the server started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Ingested {
    /// Publications that began.
    pub publications: u64,
    /// RTP packets received.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets that never arrived or arrived too late.
    pub lost_packets: u64,
    /// Packets that arrived out of order and were reordered.
    pub reordered_packets: u64,
    /// Packets that arrived twice or too late.
    pub late_packets: u64,
    /// Packets that are no RTP of the stream: malformed, or of another payload type or source.
    pub strange_packets: u64,
    /// Frames received, complete or not: the sum of the following counters.
    pub frames: u64,
    /// Frames released to clients: I, P, B.
    pub released: [u64; 3],
    /// Frames with missing packets.
    pub incomplete: u64,
    /// Frames before the first one at which a decoder can start.
    pub before_entry: u64,
    /// Frames that exceed the stream's allowance.
    pub beyond: u64,
}

impl Ingested {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let mut released = self.released;
        for (sum, more) in released.iter_mut().zip(other.released) {
            *sum += more;
        }
        Self {
            publications: self.publications + other.publications,
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            lost_packets: self.lost_packets + other.lost_packets,
            reordered_packets: self.reordered_packets + other.reordered_packets,
            late_packets: self.late_packets + other.late_packets,
            strange_packets: self.strange_packets + other.strange_packets,
            frames: self.frames + other.frames,
            released,
            incomplete: self.incomplete + other.incomplete,
            before_entry: self.before_entry + other.before_entry,
            beyond: self.beyond + other.beyond,
        }
    }
}

/// Maps the timestamps of successive publishers to one continuous RTP clock.
#[derive(Clone, Copy, Debug, Default)]
struct Timeline {
    /// The publisher's first timestamp and the stream's timestamp for it.
    base: Option<(u32, u32)>,
    /// The latest timestamp of the stream.
    latest: u32,
    released_ns: u64,
}

impl Timeline {
    /// Returns the stream's timestamp of a frame that is released at `release_ns`. Timestamps have
    /// a rate of `clock_rate` Hz.
    fn map(&mut self, timestamp: u32, release_ns: u64, clock_rate: u32) -> u32 {
        let ticks = |ns: u64| {
            let ticks = u128::from(ns) * u128::from(clock_rate) / 1_000_000_000;
            u32::try_from(ticks & u128::from(u32::MAX)).unwrap_or(0)
        };
        let first = self.released_ns == 0;
        let (theirs, ours) = *self.base.get_or_insert_with(|| {
            let since = release_ns.saturating_sub(self.released_ns);
            (timestamp, if first { 0 } else { self.latest.wrapping_add(ticks(since).max(1)) })
        });
        let time = ours.wrapping_add(timestamp.wrapping_sub(theirs));
        if first || time.wrapping_sub(self.latest).cast_signed() > 0 {
            self.latest = time;
        }
        self.released_ns = release_ns;
        time
    }
}

/// The most that the instant of a frame may differ from its arrival, ns. Beyond it the publisher's
/// timestamps or its clock were set.
pub(super) const MAX_CLOCK_ERROR_NS: u64 = 10_000_000_000;

/// The relation of a publisher's timestamps to the machine's clock.
#[derive(Clone, Copy, Debug, Default)]
struct CaptureClock {
    /// A timestamp of the publisher and its instant, ns. It follows the frames, since timestamps
    /// wrap.
    known: Option<(u32, u64)>,
}

impl CaptureClock {
    /// Returns the instant of `timestamp`, ns. It is `now_ns` for the first frame without a sender
    /// report, and for a frame that is more than [`MAX_CLOCK_ERROR_NS`] from it.
    fn instant_ns(&mut self, timestamp: u32, clock_rate: u32, now_ns: u64) -> u64 {
        let (known, at_ns) = *self.known.get_or_insert((timestamp, now_ns));
        let (seconds, since_ns) = elapsed(known, timestamp, clock_rate);
        let instant_ns = at_ns.checked_add_signed(since_ns);
        let instant_ns = instant_ns.filter(|at_ns| at_ns.abs_diff(now_ns) <= MAX_CLOCK_ERROR_NS);
        let Some(instant_ns) = instant_ns else {
            self.known = Some((timestamp, now_ns));
            return now_ns;
        };
        // Whole seconds have no rounding error that could add up.
        let ticks = seconds.wrapping_mul(clock_rate.cast_signed());
        let at_ns = at_ns.saturating_add_signed(i64::from(seconds) * 1_000_000_000);
        self.known = Some((known.wrapping_add_signed(ticks), at_ns));
        instant_ns
    }

    /// Sets the instant of a timestamp, unless that moves the last frames by more than
    /// [`MAX_CLOCK_ERROR_NS`].
    fn set(&mut self, timestamp: u32, clock_rate: u32, at_ns: u64) {
        let moved_ns = self.known.map_or(0, |(known, known_ns)| {
            let (_, since_ns) = elapsed(known, timestamp, clock_rate);
            known_ns.saturating_add_signed(since_ns).abs_diff(at_ns)
        });
        if moved_ns <= MAX_CLOCK_ERROR_NS {
            self.known = Some((timestamp, at_ns));
        }
    }
}

/// Returns the time from a timestamp to another: in whole seconds, and in ns.
fn elapsed(from: u32, to: u32, clock_rate: u32) -> (i32, i64) {
    let rate = i64::from(clock_rate.max(1));
    let ticks = i64::from(to.wrapping_sub(from).cast_signed());
    (i32::try_from(ticks / rate).unwrap_or(0), ticks * 1_000_000_000 / rate)
}

/// The stages after assembly: policing, timestamps and the ring.
#[derive(Debug)]
struct Sink {
    codec: Codec,
    /// Whether it is audio: then each packet is a frame, and `codec` has no meaning.
    is_audio: bool,
    format: Format,
    /// The rate of timestamps, Hz.
    clock_rate: u32,
    capture: CaptureClock,
    link: Link,
    packet_bytes: usize,
    ring: FrameRing,
    policer: Policer,
    sets: ParameterSets,
    classifier: Classifier,
    timeline: Timeline,
    /// Whether a frame was released since this publisher began.
    begun: bool,
    /// Copy released frames, if the stream is recorded or served by HLS.
    taps: Vec<Tap>,
    counts: Ingested,
    /// Buffer for a frame with its parameter sets prepended.
    whole: Vec<u8>,
}

/// The ingest pipeline of one live stream.
#[derive(Debug)]
pub(crate) struct Ingest {
    payload_type: u8,
    source: Option<u32>,
    most_bytes: usize,
    reorder: Reorder,
    assembler: Assembler,
    sink: Sink,
}

impl Ingest {
    /// Creates the pipeline of a stream into `ring`, limited to `allowance` with bursts of
    /// `burst_bytes`. It packetizes frames into packets of at most `packet_bytes`. `audio` is the
    /// format of audio.
    pub(crate) fn new(
        codec: Codec,
        audio: Option<Format>,
        allowance: Allowance,
        burst_bytes: u32,
        link: Link,
        packet_bytes: usize,
        ring: FrameRing,
    ) -> Self {
        let sink = Sink {
            codec,
            is_audio: audio.is_some(),
            format: audio.unwrap_or(Format::of(codec)),
            clock_rate: u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX),
            capture: CaptureClock::default(),
            link,
            packet_bytes,
            ring,
            policer: Policer::new(allowance),
            sets: ParameterSets::new(codec),
            classifier: Classifier::new(codec),
            timeline: Timeline::default(),
            begun: false,
            taps: Vec::new(),
            counts: Ingested::default(),
            whole: Vec::new(),
        };
        let most_bytes = burst_bytes as usize;
        let (reorder, assembler) = (Reorder::default(), Assembler::new(codec, most_bytes));
        Self { payload_type: 0, source: None, most_bytes, reorder, assembler, sink }
    }

    /// Begins a publication with this payload type, rate of timestamps in Hz, and these parameter
    /// sets.
    pub(crate) fn begin(&mut self, payload_type: u8, clock_rate: u32, sets: &[Vec<u8>]) {
        (self.payload_type, self.source) = (payload_type, None);
        self.sink.clock_rate = clock_rate;
        self.sink.capture = CaptureClock::default();
        self.sink.begun = false;
        self.sink.timeline.base = None;
        self.sink.counts.publications += 1;
        let codec = self.sink.codec;
        self.sink.sets = ParameterSets::new(codec);
        self.sink.classifier = Classifier::new(codec);
        for set in sets {
            self.sink.sets.store(set);
            self.sink.classifier.store_parameter_set(set);
        }
    }

    /// Sets the counters to 0 for another path. Returns them as they were.
    pub(crate) fn begin_counts(&mut self) -> Ingested {
        self.sink.taps.iter().for_each(Tap::begin_counts);
        std::mem::take(&mut self.sink.counts)
    }

    /// Copies what is released from now on.
    pub(crate) fn tap(&mut self, tap: Tap) {
        self.sink.taps.push(tap);
    }

    /// Begins the copies of a publication of the stream called `stream`, if there are taps.
    /// `audio` is the format of its audio, if it has audio.
    pub(crate) fn begin_recording(
        &mut self,
        (stream, publication): (&str, u64),
        audio: Option<&AudioConfig>,
    ) {
        for tap in &mut self.sink.taps {
            tap.begin((stream, publication), audio.cloned());
        }
    }

    /// Ends the publication and delivers the packets that still wait.
    pub(crate) fn end(&mut self, now_ns: u64) {
        let Self { reorder, assembler, sink, .. } = self;
        let deliver = &mut |packet: Packet<'_>, gap| {
            sink.packet(assembler, packet, gap, now_ns);
        };
        reorder.expire(u64::MAX, deliver);
        assembler.finish(&mut |found| sink.take(found, now_ns));
        self.count_order();
        self.reorder = Reorder::default();
        self.assembler = Assembler::new(self.sink.codec, self.most_bytes);
        self.sink.taps.iter_mut().for_each(Tap::end);
    }

    /// Sets the instant of one of the publisher's timestamps, from a sender report.
    pub(crate) fn set_instant(&mut self, timestamp: u32, at_ns: u64) {
        let Sink { capture, clock_rate, .. } = &mut self.sink;
        capture.set(timestamp, *clock_rate, at_ns);
    }

    /// Releases a whole frame of a recording. Returns whether the ring may have changed.
    pub(crate) fn play(&mut self, frame: &[u8], times: DueTimes) -> bool {
        let DueTimes { release_ns, present_ns, captured_ns } = times;
        let sink = &mut self.sink;
        let ticks = u128::from(present_ns) * u128::from(sink.clock_rate) + 500_000_000;
        let timestamp = low_u32(u64::try_from(ticks / 1_000_000_000).unwrap_or(0));
        sink.capture.known = Some((timestamp, captured_ns));
        sink.counts.frames += 1;
        let what = if sink.is_audio {
            Some(Picture { kind: FrameKind::I, reference: true, entry: true })
        } else {
            sink.classifier.classify(frame)
        };
        let Some(what) = what else {
            sink.counts.incomplete += 1;
            return false;
        };
        let pieces = sink.format.cut(frame, sink.packet_bytes);
        match sink.release(frame, &pieces, what, timestamp, release_ns) {
            Some(kind) => sink.counts.released[kind] += 1,
            None => sink.counts.beyond += 1,
        }
        true
    }

    /// Processes a whole frame of the publisher: video with start codes, AAC or MPEG audio. Returns
    /// whether it released a frame.
    pub(crate) fn whole_frame(&mut self, frame: &[u8], timestamp: u32, now_ns: u64) -> bool {
        let before = self.sink.ring.head();
        let Self { assembler, sink, most_bytes, .. } = self;
        sink.counts.packets += 1;
        sink.counts.bytes += frame.len() as u64;
        if sink.is_audio {
            let payload = joined(frame, &sink.format.cut(frame, usize::MAX));
            let packet = Packet { timestamp, marker: true, payload: &payload };
            sink.packet(assembler, packet, false, now_ns);
        } else if frame.len() > *most_bytes {
            sink.take(Assembled::TooLarge, now_ns);
        } else {
            sink.take(Assembled::Frame { bytes: frame, timestamp, layer: 0 }, now_ns);
        }
        sink.ring.head() != before
    }

    /// Counts packets that never arrived.
    pub(crate) fn lost_packets(&mut self, packets: u64) {
        self.sink.counts.lost_packets += packets;
    }

    /// Counts a packet that is not the publisher's, or is malformed.
    pub(crate) fn strange_packet(&mut self) {
        self.sink.counts.strange_packets += 1;
    }

    /// Counts a frame that is not whole, or too long.
    pub(crate) fn dropped_frame(&mut self, too_long: bool, now_ns: u64) {
        let dropped = if too_long { Assembled::TooLarge } else { Assembled::Incomplete };
        self.sink.take(dropped, now_ns);
    }

    /// Processes a packet of the publisher. Returns whether it released a frame.
    pub(crate) fn packet(&mut self, bytes: &[u8], now_ns: u64) -> bool {
        let before = self.sink.ring.head();
        let packet = RtpPacket::parse(bytes).ok();
        let packet = packet.filter(|packet| packet.payload_type() == self.payload_type);
        let Some(packet) = packet else {
            self.sink.counts.strange_packets += 1;
            return false;
        };
        if *self.source.get_or_insert(packet.ssrc()) != packet.ssrc() {
            self.sink.counts.strange_packets += 1;
            return false;
        }
        self.sink.counts.packets += 1;
        self.sink.counts.bytes += bytes.len() as u64;
        let number = packet.sequence_number();
        let packet = Packet {
            timestamp: packet.timestamp(),
            marker: packet.marker_bit(),
            payload: packet.payload(),
        };
        let Self { reorder, assembler, sink, .. } = self;
        reorder.push(number, packet, now_ns, &mut |packet, gap| {
            sink.packet(assembler, packet, gap, now_ns);
        });
        self.count_order();
        self.sink.ring.head() != before
    }

    /// Skips missing packets after their timeout. Returns whether it released a frame.
    pub(crate) fn expire(&mut self, now_ns: u64) -> bool {
        let before = self.sink.ring.head();
        let Self { reorder, assembler, sink, .. } = self;
        reorder.expire(now_ns, &mut |packet, gap| {
            sink.packet(assembler, packet, gap, now_ns);
        });
        self.count_order();
        self.sink.ring.head() != before
    }

    fn count_order(&mut self) {
        let order = std::mem::take(&mut self.reorder.order);
        let counts = &mut self.sink.counts;
        counts.lost_packets += order.lost;
        counts.reordered_packets += order.reordered;
        counts.late_packets += order.late;
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Ingested {
        self.sink.counts
    }

    /// Returns the parameters for SDP, once the headers of the stream are known.
    pub(crate) fn parameters(&self) -> Option<VideoParameters> {
        self.sink.sets.parameters()
    }

    /// Returns the ring that receives the frames.
    pub(crate) fn ring(&self) -> FrameRing {
        self.sink.ring
    }
}

impl Sink {
    /// Assembles a packet with its predecessors, or takes it as a frame of audio.
    fn packet(&mut self, assembler: &mut Assembler, packet: Packet<'_>, gap: bool, now_ns: u64) {
        if !self.is_audio {
            return assembler.packet(packet, gap, &mut |found| self.take(found, now_ns));
        }
        self.counts.frames += 1;
        let room = self.packet_bytes.saturating_sub(RTP_HEADER);
        let pieces = whole(packet.payload, room);
        // A fragment cannot be told from a frame by other means.
        let is_fragment = self.format == Format::Aac && !packet.marker;
        if pieces.is_empty() || is_fragment {
            self.counts.incomplete += 1;
            return;
        }
        let what = Picture { kind: FrameKind::I, reference: true, entry: true };
        match self.release(packet.payload, &pieces, what, packet.timestamp, now_ns) {
            Some(kind) => self.counts.released[kind] += 1,
            None => self.counts.beyond += 1,
        }
    }

    fn take(&mut self, found: Assembled<'_>, now_ns: u64) {
        self.counts.frames += 1;
        match found {
            Assembled::Frame { bytes, timestamp, layer } => {
                self.frame(bytes, (timestamp, layer), now_ns);
            }
            Assembled::Incomplete => self.counts.incomplete += 1,
            Assembled::TooLarge => self.counts.beyond += 1,
        }
    }

    fn frame(&mut self, bytes: &[u8], (timestamp, layer): (u32, u8), now_ns: u64) {
        let found = self.classifier.classify(bytes);
        let Some(what) = found.map(|what| what.in_layer(layer)) else {
            self.counts.incomplete += 1;
            return;
        };
        if !self.begun && !what.entry {
            self.counts.before_entry += 1;
            return;
        }
        let mut whole = std::mem::take(&mut self.whole);
        let bytes = self.with_parameters(bytes, what, &mut whole);
        let bytes = self.format.prepare(bytes, self.packet_bytes);
        let pieces = self.format.cut(&bytes, self.packet_bytes);
        let released = self.release(&bytes, &pieces, what, timestamp, now_ns);
        self.whole = whole;
        match released {
            Some(kind) => {
                self.begun = true;
                self.counts.released[kind] += 1;
            }
            None => self.counts.beyond += 1,
        }
    }

    /// Prepends the stored parameter sets to a frame at which a decoder can start and that lacks
    /// them.
    fn with_parameters<'a>(
        &mut self,
        frame: &'a [u8],
        what: Picture,
        whole: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let has = self.sets.store_from(frame);
        if has || !what.entry || !self.sets.write_before(frame, whole) {
            return frame;
        }
        whole
    }

    /// Puts a frame into the ring if policing permits it. Returns its type as an index.
    fn release(
        &mut self,
        frame: &[u8],
        pieces: &[Piece],
        what: Picture,
        timestamp: u32,
        now_ns: u64,
    ) -> Option<usize> {
        if pieces.is_empty() {
            return None;
        }
        let work = pieces.iter().map(|piece| {
            let bytes = RTP_HEADER + usize::from(piece.header_bytes) + piece.range.len();
            self.link.transmission_ns(u32::try_from(bytes).unwrap_or(u32::MAX))
        });
        let release_ns = self.policer.release_ns(work.sum(), now_ns)?;
        let importance = Importance::of(what.kind, what.reference);
        let captured_ns = self.capture.instant_ns(timestamp, self.clock_rate, now_ns);
        let time = self.timeline.map(timestamp, release_ns, self.clock_rate);
        let record = record(pieces, time, importance as u32);
        let about = LiveFrame { release_ns, captured_ns, entry: what.entry, record };
        if !self.ring.put(about, frame, pieces) {
            return None;
        }
        for tap in &mut self.taps {
            tap.frame(frame, captured_ns, what.entry);
        }
        Some(importance.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::live_frames::Shape;
    use crate::shared_memory::live_frames::tests::pair;
    use rtp_types::RtpPacketBuilder;

    const PERIOD_NS: u64 = 40_000_000;

    fn ingest() -> Ingest {
        ingest_of(Codec::H264)
    }

    fn ingest_of(codec: Codec) -> Ingest {
        let link = Link::of(millstream::Link::new(100_000_000, 28));
        let allowance = Allowance::new(PERIOD_NS, 1_000_000, 20_000, link);
        let (rings, _) = pair(&[Shape::new(PERIOD_NS, 1_000_000, 20_000, 3_000_000_000)]);
        let mut ingest = Ingest::new(codec, None, allowance, 20_000, link, 1_400, rings[0]);
        ingest.begin(96, 90_000, &[vec![0x67, 0x64, 0, 0x0d, 5], vec![0x68, 7]]);
        ingest
    }

    /// Frame `number` as one packet; every sixth frame is IDR.
    fn packet(number: u16, bytes: usize) -> Vec<u8> {
        let nal = if number.is_multiple_of(6) { [0x65, 0x88] } else { [0x41, 0x98] };
        let payload = [&nal[..], &vec![5; bytes]].concat();
        let packet = RtpPacketBuilder::new()
            .payload_type(96)
            .marker_bit(true)
            .sequence_number(number)
            .timestamp(u32::from(number) * 3_600)
            .ssrc(7)
            .payload(&payload[..]);
        packet.write_vec().unwrap()
    }

    fn check(ingest: &Ingest) {
        let counts = ingest.counts();
        let released: u64 = counts.released.iter().sum();
        assert_eq!(
            counts.frames,
            released + counts.incomplete + counts.before_entry + counts.beyond
        );
        assert_eq!(ingest.ring().head(), released);
    }

    #[test]
    fn release_begins_at_a_decodable_frame_with_its_parameter_sets() {
        let mut ingest = ingest();
        for number in 3..20 {
            let now_ns = u64::from(number) * PERIOD_NS;
            assert_eq!(ingest.packet(&packet(number, 500), now_ns), number >= 6, "{number}");
        }
        let counts = ingest.counts();
        assert_eq!((counts.before_entry, counts.released), (3, [3, 11, 0]));
        check(&ingest);
        let ring = ingest.ring();
        let frames: Vec<LiveFrame> = (0..14).map(|number| ring.frame(number).unwrap()).collect();
        assert_eq!(
            (frames[0].entry, frames[0].record.packets),
            (true, 3),
            "with its parameter sets"
        );
        assert_eq!((frames[1].entry, frames[1].record.packets), (false, 1));
        assert!(frames[6].entry);
        assert_eq!((frames[0].record.display, frames[2].record.display), (0, 7_200));
        let VideoParameters { text, h264_profile } = ingest.parameters().unwrap();
        assert_eq!(text, "profile-level-id=64000d;sprop-parameter-sets=Z2QADQU=,aAc=");
        assert_eq!(h264_profile, Some(0x64));
    }

    #[test]
    fn mpeg_sequence_headers_precede_every_i_frame() {
        let mut ingest = ingest_of(Codec::Mpeg);
        ingest.begin(32, 90_000, &[]);
        let sequence = [0, 0, 1, 0xb3, 0x16, 1, 0x20, 0x13, 9, 0, 0, 1, 0xb5, 0x14];
        let group = [0, 0, 1, 0xb8, 1, 2, 3, 4];
        for number in 0..3u16 {
            let picture = [0, 0, 1, 0, 0, 1 << 3, 7, 7, 0, 0, 1, 1, 9, 9];
            let head = if number == 0 { &sequence[..] } else { &[] };
            let payload = [&[0; 4][..], head, &group, &picture].concat();
            let packet = RtpPacketBuilder::new().payload_type(32).marker_bit(true).ssrc(7);
            let packet = packet.sequence_number(number).payload(&payload[..]);
            let packet = packet.timestamp(u32::from(number) * 3_600).write_vec().unwrap();
            assert!(ingest.packet(&packet, u64::from(number + 1) * PERIOD_NS));
        }
        let bytes = |number| ingest.ring().frame(number).unwrap().record.bytes;
        assert_eq!([bytes(1), bytes(2)], [bytes(0); 2]);
        check(&ingest);
    }

    #[test]
    fn a_second_publication_continues_the_clock_at_a_decodable_frame() {
        let mut ingest = ingest();
        ingest.packet(&packet(0, 500), PERIOD_NS);
        ingest.end(PERIOD_NS);
        ingest.begin(96, 90_000, &[]);
        assert_eq!(ingest.parameters(), None, "parameter sets of the earlier publisher");
        let second = 1_000_000_000;
        assert!(!ingest.packet(&packet(605, 500), PERIOD_NS + second));
        assert!(ingest.packet(&packet(606, 500), PERIOD_NS + second));
        assert!(ingest.packet(&packet(607, 500), 2 * PERIOD_NS + second));
        let time = |number| ingest.ring().frame(number).unwrap().record.display;
        assert_eq!((time(1), time(2)), (90_000, 93_600));
        check(&ingest);
    }

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn instants_of_frames_follow_timestamps_beyond_their_range() {
        let mut clock = CaptureClock::default();
        let start_ns = 5 * SECOND_NS;
        // A frame each 7.1 s for 14 hours, more than 2^32 ticks, always half a second late.
        for number in 0..7_200u64 {
            let timestamp = low_u32(4_294_000_000 + number * 639_000);
            let captured_ns = start_ns + number * 7_100_000_000;
            let late_ns = if number == 0 { 0 } else { SECOND_NS / 2 };
            let instant_ns = clock.instant_ns(timestamp, 90_000, captured_ns + late_ns);
            assert_eq!(instant_ns, captured_ns, "{number}");
        }
    }

    #[test]
    fn instants_of_frames_stay_near_their_arrival() {
        let mut clock = CaptureClock::default();
        let now_ns = 60 * SECOND_NS;
        assert_eq!(clock.instant_ns(7, 90_000, now_ns), now_ns);
        // An hour back and forth, half of the range, and before the start of the machine's clock.
        for timestamp in [7 + 324_000_000, 7, 7 + (1 << 31), 7, 7u32.wrapping_sub(9_000_000)] {
            assert_eq!(clock.instant_ns(timestamp, 90_000, now_ns), now_ns, "{timestamp}");
        }
        let mut early = CaptureClock::default();
        early.instant_ns(90_000, 90_000, 1);
        assert_eq!(early.instant_ns(0, 90_000, 2), 2, "an instant before 0");
    }

    #[test]
    fn reports_that_move_frames_far_are_ignored() {
        let mut clock = CaptureClock::default();
        let now_ns = 60 * SECOND_NS;
        clock.instant_ns(90_000, 90_000, now_ns);
        for timestamp in [90_000 + 990_000, 90_000 + (1 << 31), 90_000u32.wrapping_sub(990_000)] {
            clock.set(timestamp, 90_000, now_ns);
            assert_eq!(clock.instant_ns(93_600, 90_000, now_ns), now_ns + 40_000_000);
        }
        // The timestamp of two seconds later has the instant of one: frames are a second earlier.
        clock.set(270_000, 90_000, now_ns + SECOND_NS);
        assert_eq!(clock.instant_ns(97_200, 90_000, now_ns), now_ns + 80_000_000 - SECOND_NS);
    }

    #[test]
    fn excess_frames_and_strange_packets_are_only_counted() {
        let mut ingest = ingest();
        ingest.packet(&packet(0, 500), PERIOD_NS);
        assert!(!ingest.packet(&packet(1, 20_500), 2 * PERIOD_NS), "larger than the burst limit");
        for strange in [&b""[..], b"GET / HTTP/1.1", &[0x80; 12]] {
            assert!(!ingest.packet(strange, 3 * PERIOD_NS));
        }
        let mut other = packet(2, 500);
        other[11] = 9;
        assert!(!ingest.packet(&other, 3 * PERIOD_NS), "another source");
        assert_eq!((ingest.counts().beyond, ingest.counts().strange_packets), (1, 4));
        // Twice the rate: 10 kB each 40 ms are 2 Mbit/s.
        let released = (2..202).filter(|number| {
            ingest.packet(&packet(*number, 10_000), u64::from(*number) * PERIOD_NS)
        });
        let released = released.count();
        assert!((85..115).contains(&released), "{released}");
        check(&ingest);
    }

    proptest::proptest! {
        #[test]
        fn every_frame_is_accounted_for(
            packets in proptest::collection::vec(
                (0u16..40, 0u64..100, 0usize..9, proptest::num::u8::ANY, 0usize..40), 0..200),
        ) {
            let mut ingest = ingest();
            let mut now_ns = 1;
            for (number, later_ms, size, byte, at) in packets {
                now_ns += later_ms * 1_000_000;
                let mut packet = packet(number, size * size * 100);
                let at = at.min(packet.len() - 1);
                packet[at] ^= byte;
                ingest.packet(&packet, now_ns);
                ingest.expire(now_ns);
            }
            ingest.end(now_ns);
            check(&ingest);
        }
    }
}
