//! Publishers that send an MPEG transport stream (ISO 13818-1) to an address of a live stream.
//!
//! ```text
//! datagrams ── packets ──> TransportDemultiplexer ── units ──> Publication ── frames ──> ingest
//! ```
//! Datagrams show no user: the first sender of a packet is the publisher until it sends no picture
//! for [`SILENCE_NS`]. It publishes from its first picture on, but waits up to [`MAX_WAIT_NS`] for
//! audio that its program map announces: players learn of the tracks at the start.

use millstream_traffic::mpeg::{
    AudioCodec, AudioFormat, AudioFrame, AudioHeader, AudioSplitter, TransportDemultiplexer,
    TransportEvent, TransportTrack,
};
use rtp_types::RtpPacket;
use std::net::{IpAddr, SocketAddr};

use super::publishing::{AudioDescription, Publishing, Track, described};
use crate::payload::Format;
use crate::rtp::{CLOCK_RATE, low_u32};

/// How long a sender may complete no picture until another may publish, ns.
pub(crate) const SILENCE_NS: u64 = 3_000_000_000;

/// How long pictures wait for the first frame of audio, ns. They reach the policer at once: it
/// drops the frames that are more than a second before their slots.
const MAX_WAIT_NS: u64 = 500_000_000;

/// The least time from the start of a sender's publication to that of the next, ns.
const BEGIN_INTERVAL_NS: u64 = 1_000_000_000;

/// The least time between two messages about a stream in the log, ns.
const LOG_INTERVAL_NS: u64 = 60_000_000_000;

/// The largest unit of audio, bytes.
const MAX_AUDIO_UNIT: usize = 64 << 10;

/// The payload type of transport streams over RTP (RFC 3551, table 5).
const RTP_TRANSPORT_STREAM: u8 = 33;

/// The number of values of a time stamp.
const STAMPS: u64 = 1 << 33;

/// The decoding times after the last one that continue a publication, 1/90,000 s. Others are those
/// of an encoder that has restarted.
const CONTINUES: std::ops::Range<i64> = -90_000..900_000;

/// The most by which the time of audio differs from the end of the frame before, ms.
const ROUNDING_MS: u32 = 1;

/// The receiver of the transport stream of a live stream.
#[derive(Debug)]
pub(crate) struct TransportReceiver {
    /// The index of the live stream.
    stream: usize,
    /// The only address from which it receives, if the file names one.
    from: Option<IpAddr>,
    sender: Option<Sender>,
    /// When it last wrote to the log, ns.
    logged_ns: Option<u64>,
}

/// The sender that holds the stream. Packets from other addresses are ignored.
#[derive(Debug)]
struct Sender {
    address: SocketAddr,
    /// When it last completed a picture with a time; before the first one, when it began. In ns.
    /// Audio alone does not hold a stream: it is not published without pictures.
    heard_ns: u64,
    demultiplexer: TransportDemultiplexer,
    publication: Publication,
}

/// What a sender publishes.
#[derive(Debug)]
struct Publication {
    peer: IpAddr,
    /// The index of the live stream, and that of its audio.
    stream: usize,
    audio: Option<usize>,
    /// Whether the program has video and audio of the stream's codecs; `None` before its map.
    map: Option<[bool; 2]>,
    splitter: Option<AudioSplitter>,
    sound: Option<Sound>,
    times: Times,
    /// The decoding time of the last picture, modulo [`STAMPS`].
    decoded: Option<u64>,
    early: EarlyFrames,
    has_begun: bool,
    /// When the last publication began, ns.
    begun_ns: Option<u64>,
    /// What the log has not been told.
    notice: Option<Notice>,
}

/// Why a publication, or its audio, is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    NoVideo,
    UnreadableTable { is_map: bool },
    AudioChanged(AudioHeader),
}

/// The audio of a publication.
#[derive(Debug)]
struct Sound {
    header: AudioHeader,
    track: Track,
    /// The timestamp after the last frame.
    next: Option<u32>,
}

/// The frames before the first frame of audio.
#[derive(Debug, Default)]
struct EarlyFrames {
    /// The index of the track, the timestamp and the bytes of each.
    frames: Vec<(usize, u32, Vec<u8>)>,
    /// The memory that they take, bytes.
    bytes: usize,
    /// The time of the first picture, 1/90,000 s, and when it arrived, ns.
    first: Option<(u64, u64)>,
}

/// Continues time stamps beyond their range.
#[derive(Debug, Default)]
struct Times {
    last: Option<u64>,
}

impl Times {
    /// Returns a time stamp as a time that does not wrap, 1/90,000 s.
    fn unwrapped(&mut self, stamp: u64) -> u64 {
        // The first one leaves room for earlier ones.
        let last = self.last.unwrap_or(STAMPS + stamp);
        let time = last.saturating_add_signed(difference(last, stamp));
        self.last = Some(time);
        time
    }
}

/// Returns the difference of two time stamps, which may have wrapped, 1/90,000 s.
fn difference(from: u64, to: u64) -> i64 {
    let forward = to.wrapping_sub(from) % STAMPS;
    let back = STAMPS - forward;
    if forward <= back { forward.cast_signed() } else { -back.cast_signed() }
}

/// Returns a time as a timestamp of this rate, Hz.
fn ticks(time: u64, rate: u32) -> u32 {
    let ticks = u128::from(time) * u128::from(rate) / u128::from(CLOCK_RATE);
    low_u32(u64::try_from(ticks).unwrap_or(0))
}

impl TransportReceiver {
    /// Creates the receiver of the live stream at `stream`. `from` is the only address of a sender,
    /// if there is one.
    pub(crate) fn new(stream: usize, from: Option<IpAddr>) -> Self {
        Self { stream, from, sender: None, logged_ns: None }
    }

    /// Processes a datagram. `may_begin`: whether a new sender may publish.
    pub(crate) fn datagram(
        &mut self,
        live: &mut Publishing,
        from: SocketAddr,
        bytes: &[u8],
        may_begin: bool,
        now_ns: u64,
    ) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let is_allowed = self.from.is_none_or(|allowed| allowed.to_canonical() == from.ip());
        // RTP may carry it (RFC 2250, section 2).
        let rtp = RtpPacket::parse(bytes).ok();
        let rtp = rtp.filter(|packet| packet.payload_type() == RTP_TRANSPORT_STREAM);
        let bytes = rtp.as_ref().map_or(bytes, RtpPacket::payload);
        let packets = bytes.chunks_exact(TransportDemultiplexer::PACKET);
        let is_whole = !bytes.is_empty() && packets.remainder().is_empty();
        let is_packet =
            |packet: &[u8]| packet.try_into().is_ok_and(TransportDemultiplexer::is_packet);
        let may_begin = may_begin && packets.clone().any(is_packet);
        if !is_allowed || !is_whole || !self.accepts(live, from, may_begin, now_ns) {
            return live.strange_packet(self.stream);
        }
        for packet in packets {
            self.packet(live, packet, now_ns);
        }
    }

    /// Returns whether the packets of a sender count. The first one becomes the publisher.
    fn accepts(
        &mut self,
        live: &Publishing,
        from: SocketAddr,
        may_begin: bool,
        now_ns: u64,
    ) -> bool {
        if self.sender.as_ref().is_some_and(|sender| !sender.publication.is_valid(live)) {
            self.sender = None;
        }
        match &self.sender {
            Some(sender) => sender.address == from,
            None if !may_begin || live.streams[self.stream].publisher.is_some() => false,
            None => {
                self.sender = Some(Sender::new(live, self.stream, from, now_ns));
                true
            }
        }
    }

    fn packet(&mut self, live: &mut Publishing, packet: &[u8], now_ns: u64) {
        let (Some(sender), Ok(packet)) = (&mut self.sender, packet.try_into()) else { return };
        let Sender { heard_ns, demultiplexer, publication, address } = sender;
        let is_packet = demultiplexer.packet(packet, &mut |event| {
            if let TransportEvent::Unit { track: TransportTrack::Video, time: Some(_), .. } = event
            {
                *heard_ns = now_ns;
            }
            publication.handle(event, live, now_ns);
        });
        if !is_packet {
            live.strange_packet(self.stream);
        }
        let is_due = |at: u64| now_ns.saturating_sub(at) >= LOG_INTERVAL_NS;
        if let Some(notice) = publication.notice.take()
            && self.logged_ns.is_none_or(is_due)
        {
            self.logged_ns = Some(now_ns);
            let of = &live.streams[self.stream];
            let text = notice.text(Format::of(of.spec.codec).encoding());
            eprintln!("`{}`: the transport stream from {address} {text}", of.name);
        }
    }

    /// Ends the publication of a sender that has fallen silent.
    pub(crate) fn tick(&mut self, live: &mut Publishing, now_ns: u64) {
        let silent_ns = |sender: &Sender| now_ns.saturating_sub(sender.heard_ns);
        if self.sender.as_ref().is_some_and(|sender| silent_ns(sender) > SILENCE_NS) {
            self.end(live, now_ns);
        }
    }

    /// Ends the publication, if there is one.
    pub(crate) fn end(&mut self, live: &mut Publishing, now_ns: u64) {
        let Some(mut sender) = self.sender.take() else { return };
        let publication = &mut sender.publication;
        if publication.is_valid(live) {
            sender.demultiplexer.finish(&mut |event| publication.handle(event, live, now_ns));
            publication.leave(live, now_ns);
        }
    }
}

impl Sender {
    fn new(live: &Publishing, stream: usize, address: SocketAddr, now_ns: u64) -> Self {
        let spec = &live.streams[stream].spec;
        let audio = live.audio_of(stream).and_then(|audio| {
            let codec = match live.streams[audio].spec.audio?.0 {
                Format::Aac => AudioCodec::Aac,
                Format::MpegAudio => AudioCodec::Mpeg,
                _ => return None,
            };
            Some((audio, codec))
        });
        let codec = audio.map(|(_, codec)| codec);
        let limits = [spec.burst_bytes as usize, MAX_AUDIO_UNIT];
        Self {
            address,
            heard_ns: now_ns,
            demultiplexer: TransportDemultiplexer::new(spec.codec, codec, limits),
            publication: Publication {
                peer: address.ip(),
                stream,
                audio: audio.map(|(audio, _)| audio),
                map: None,
                splitter: codec.map(AudioSplitter::new),
                sound: None,
                times: Times::default(),
                decoded: None,
                early: EarlyFrames::default(),
                has_begun: false,
                begun_ns: None,
                notice: None,
            },
        }
    }
}

impl Notice {
    /// Returns what the log says of a transport stream. `codec` is that of the live stream.
    fn text(self, codec: &str) -> String {
        match self {
            Self::NoVideo => format!("has no {codec} video"),
            Self::UnreadableTable { is_map } => {
                let table = if is_map { "map" } else { "association" };
                format!(
                    "has a program {table} that cannot be read: it is damaged or longer than a \
                     packet"
                )
            }
            Self::AudioChanged(AudioHeader { sample_rate, channels, .. }) => format!(
                "has other audio than at its start, {channels} channels of {sample_rate} Hz: it \
                 is left out until the sender restarts"
            ),
        }
    }
}

impl Publication {
    /// Returns whether the stream has no other publisher.
    fn is_valid(&self, live: &Publishing) -> bool {
        let publisher = live.streams[self.stream].publisher.as_ref();
        match publisher {
            Some(publisher) => self.has_begun && publisher.sends_transport_stream(),
            None => !self.has_begun,
        }
    }

    /// Returns the index of a track.
    fn index(&self, track: TransportTrack) -> usize {
        match track {
            TransportTrack::Video => self.stream,
            TransportTrack::Audio => self.audio.unwrap_or(self.stream),
        }
    }

    fn handle(&mut self, event: TransportEvent<'_>, live: &mut Publishing, now_ns: u64) {
        match event {
            TransportEvent::Map { video, audio } => {
                self.map = Some([video, audio]);
                if !video {
                    self.notice = Some(Notice::NoVideo);
                }
            }
            TransportEvent::UnreadableTable { is_map } => {
                self.notice = Some(Notice::UnreadableTable { is_map });
                live.strange_packet(self.stream);
            }
            TransportEvent::Lost { track, packets } => {
                if track == TransportTrack::Audio
                    && let Some(splitter) = &mut self.splitter
                {
                    splitter.skip();
                }
                live.lost_packets(self.index(track), packets.into());
            }
            TransportEvent::Dropped { track, too_long } => {
                live.dropped_frame(self.index(track), too_long, now_ns);
            }
            TransportEvent::Unit { track: TransportTrack::Audio, time, bytes, .. } => {
                let Some(mut splitter) = self.splitter.take() else { return };
                splitter.push(time, bytes, &mut |frame| self.audio_frame(frame, live, now_ns));
                self.splitter = Some(splitter);
            }
            TransportEvent::Unit { time: Some(time), decode_time, bytes, .. } => {
                self.picture(time, decode_time.unwrap_or(time), bytes, live, now_ns);
            }
            TransportEvent::Unit { track, time: None, .. } => {
                live.dropped_frame(self.index(track), false, now_ns);
            }
        }
    }

    fn picture(
        &mut self,
        time: u64,
        decode_time: u64,
        bytes: &[u8],
        live: &mut Publishing,
        now_ns: u64,
    ) {
        let continues = |last: u64| CONTINUES.contains(&difference(last, decode_time));
        if !self.decoded.is_none_or(continues) {
            // Each publication costs players their connection.
            let is_early = |begun_ns| now_ns.saturating_sub(begun_ns) < BEGIN_INTERVAL_NS;
            if self.begun_ns.is_some_and(is_early) {
                return live.dropped_frame(self.stream, false, now_ns);
            }
            self.leave(live, now_ns);
        }
        self.decoded = Some(decode_time);
        let time = self.times.unwrapped(time);
        self.early.first.get_or_insert((time, now_ns));
        let rate = low_u32(CLOCK_RATE);
        self.frame(self.stream, ticks(time, rate), bytes, live, now_ns);
    }

    fn audio_frame(&mut self, frame: AudioFrame<'_>, live: &mut Publishing, now_ns: u64) {
        let Some(audio) = self.audio else { return };
        if self.sound.is_none() {
            let format = live.streams[audio].spec.audio.map(|(format, _)| format);
            let track = audio_track(&frame.header, format);
            self.sound = track.map(|track| Sound { header: frame.header, track, next: None });
        }
        let stamp = frame.time.map(|time| self.times.unwrapped(time));
        let Some(sound) = &mut self.sound else {
            return live.dropped_frame(audio, false, now_ns);
        };
        if sound.header != frame.header {
            self.notice = Some(Notice::AudioChanged(frame.header));
            return live.dropped_frame(audio, false, now_ns);
        }
        let rate = sound.track.clock_rate;
        let stamp = stamp.map(|time| ticks(time, rate));
        // Times are rounded; frames follow each other without gaps.
        let most = ROUNDING_MS * rate / 1_000;
        let is_near = |next: &u32| {
            let late = stamp.map_or(0, |stamp| stamp.wrapping_sub(*next).cast_signed());
            late.unsigned_abs() <= most
        };
        let Some(timestamp) = sound.next.filter(is_near).or(stamp) else {
            return live.dropped_frame(audio, false, now_ns);
        };
        let AudioHeader { samples, sample_rate, .. } = sound.header;
        let length = u64::from(samples) * u64::from(rate) / u64::from(sample_rate.max(1));
        sound.next = Some(timestamp.wrapping_add(low_u32(length)));
        // Audio before the first picture is left out.
        if self.early.first.is_some() {
            self.frame(audio, timestamp, frame.bytes, live, now_ns);
        }
    }

    /// Publishes a frame of a track, or holds it until the publication begins.
    fn frame(
        &mut self,
        track: usize,
        timestamp: u32,
        bytes: &[u8],
        live: &mut Publishing,
        now_ns: u64,
    ) {
        if self.has_begun {
            return live.whole_frame(track, bytes, timestamp, now_ns);
        }
        let frame = (track, timestamp, bytes.to_vec());
        // Also short pictures take memory.
        self.early.bytes += bytes.len() + size_of_val(&frame);
        self.early.frames.push(frame);
        let since_ns = self.early.first.map_or(now_ns, |(_, since_ns)| since_ns);
        let awaits_audio = self.map == Some([true, true]) && self.sound.is_none();
        let most_bytes = live.streams[self.stream].spec.burst_bytes as usize;
        if !awaits_audio
            || self.early.bytes > most_bytes
            || now_ns.saturating_sub(since_ns) > MAX_WAIT_NS
        {
            self.begin(live, now_ns);
        }
    }

    fn begin(&mut self, live: &mut Publishing, now_ns: u64) {
        let EarlyFrames { frames, first, .. } = std::mem::take(&mut self.early);
        let Some((time, since_ns)) = first else { return };
        // The pictures that follow need no time of their own.
        self.early.first = first;
        // Another publisher may have begun meanwhile.
        if live.streams[self.stream].publisher.is_some() {
            return;
        }
        let clock_rate = low_u32(CLOCK_RATE);
        let payload_type = Format::of(live.streams[self.stream].spec.codec).payload_type();
        let video = Track { payload_type, clock_rate, ..Track::default() };
        live.announce_transport_stream(self.stream, self.peer, video, now_ns);
        let audio = self.audio.zip(self.sound.as_ref().map(|sound| sound.track.clone()));
        let audio_rate = audio.as_ref().map(|(audio, track)| (*audio, track.clock_rate));
        if let Some((audio, track)) = audio {
            live.announce_transport_stream(audio, self.peer, track, now_ns);
        }
        live.record(self.stream, now_ns);
        (self.has_begun, self.begun_ns) = (true, Some(now_ns));
        // Both tracks have one clock.
        for (track, rate) in std::iter::once((self.stream, clock_rate)).chain(audio_rate) {
            live.set_instant(track, ticks(time, rate), since_ns);
        }
        for (track, timestamp, bytes) in frames {
            live.whole_frame(track, &bytes, timestamp, now_ns);
        }
    }

    /// Ends the publication. What follows begins another.
    fn leave(&mut self, live: &mut Publishing, now_ns: u64) {
        if std::mem::take(&mut self.has_begun) {
            live.leave(self.stream, now_ns);
        }
        (self.early, self.sound, self.decoded) = (EarlyFrames::default(), None, None);
        self.times = Times::default();
        if let Some(splitter) = &mut self.splitter {
            splitter.skip();
        }
    }
}

/// Returns the track of audio with this header; `None` if players cannot have it.
fn audio_track(header: &AudioHeader, format: Option<Format>) -> Option<Track> {
    let payload_type = format?.payload_type();
    if format == Some(Format::MpegAudio) {
        let clock_rate = low_u32(CLOCK_RATE);
        let description =
            AudioDescription { clock: clock_rate.to_string(), ..AudioDescription::default() };
        return Some(Track { payload_type, clock_rate, description, ..Track::default() });
    }
    let found = AudioFormat::Aac {
        config: header.config.to_be_bytes().to_vec(),
        sample_rate: header.sample_rate,
        channels: u16::try_from(header.channels).ok()?,
    };
    let (clock_rate, description) = described(&found, format)?;
    Some(Track { payload_type, clock_rate, description, ..Track::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::transport::{PICTURES, TransportSender, transport_publication};
    use crate::fuzzing::{live, transport_receiver};
    use rtp_types::RtpPacketBuilder;

    const S: u64 = 1_000_000_000;

    /// A receiver of the stream `live`.
    struct Receiving {
        live: Publishing,
        receiver: TransportReceiver,
    }

    fn from(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    impl Receiving {
        fn new() -> Self {
            Self { live: live(), receiver: TransportReceiver::new(0, None) }
        }

        fn datagram(&mut self, from: SocketAddr, bytes: &[u8], now_ns: u64) {
            self.receiver.datagram(&mut self.live, from, bytes, true, now_ns);
        }

        fn tick(&mut self, now_ns: u64) {
            self.receiver.tick(&mut self.live, now_ns);
        }

        /// Returns the released frames of video and audio.
        fn released(&self) -> [u64; 2] {
            let of = |at: usize| self.live.streams[at].ingest.counts().released.iter().sum();
            [of(0), of(1)]
        }

        fn strange(&self) -> u64 {
            self.live.streams[0].ingest.counts().strange_packets
        }

        fn publisher(&self) -> Option<IpAddr> {
            self.live.streams[0].publisher.as_ref().map(|publisher| publisher.peer)
        }

        /// Returns the display time and the instant, ns, of the last frame of a track.
        fn last(&self, track: usize) -> (u32, u64) {
            let ring = self.live.streams[track].ingest.ring();
            let frame = ring.frame(ring.head() - 1).unwrap();
            (frame.record.display, frame.captured_ns)
        }
    }

    #[test]
    fn both_tracks_of_a_stream_are_published() {
        let mut of = Receiving::new();
        of.datagram(from(1, 5_000), &transport_publication(), S);
        // The last picture ends with the next one, or with the publication.
        assert_eq!((of.released(), of.publisher()), ([2, 1], Some(from(1, 0).ip())));
        assert_eq!(of.live.description(1).clock, "48000/2");
        let config = of.live.description(1).parameters.clone().unwrap_or_default();
        assert!(config.contains("config=1190;"), "{config}");
        of.receiver.end(&mut of.live, 2 * S);
        assert_eq!((of.released(), of.publisher(), of.strange()), ([3, 1], None, 0));
        assert!(transport_receiver(&transport_publication()));
        assert!(!transport_receiver(&transport_publication()[376..]), "without tables");
    }

    #[test]
    fn both_tracks_have_one_clock_beyond_the_range_of_time_stamps() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(true);
        let first = STAMPS - 1_800;
        sender.video(first, PICTURES[0]);
        sender.video(first + 3_600, PICTURES[1]);
        // The second frame is not in a packet of its own.
        sender.audio(first + 1_920, 2);
        of.datagram(from(1, 5_000), &sender.take(), S);
        sender.video(first + 45_000, PICTURES[1]);
        sender.video(first + 90_000, PICTURES[1]);
        of.datagram(from(1, 5_000), &sender.take(), 2 * S);
        assert_eq!(of.released(), [3, 2]);
        let [video, audio] = [of.last(0), of.last(1)];
        assert_eq!(video.1, S + S / 2);
        let audio_ns = (1_920 + 1_920) * S / 90_000;
        assert!(audio.1.abs_diff(S + audio_ns) < 100_000, "{audio:?}");
    }

    #[test]
    fn a_second_sender_has_the_stream_when_the_first_is_silent() {
        let mut of = Receiving::new();
        let (one, two) = (from(1, 5_000), from(1, 5_001));
        of.datagram(one, &transport_publication(), S);
        of.datagram(two, &transport_publication(), 2 * S);
        assert_eq!((of.released(), of.strange()), ([2, 1], 1));
        of.tick(S + SILENCE_NS);
        assert!(of.publisher().is_some());
        // Packets without frames do not keep the stream.
        of.datagram(one, &transport_publication()[..376], S + SILENCE_NS);
        // Nor does audio.
        let mut sender = TransportSender::new();
        sender.audio(93_840, 1);
        of.datagram(one, &sender.take(), S + SILENCE_NS);
        of.tick(S + SILENCE_NS + 1);
        assert_eq!((of.publisher(), of.released()), (None, [3, 2]));
        of.datagram(two, &transport_publication(), 9 * S);
        of.datagram(one, &transport_publication(), 9 * S);
        assert_eq!((of.released(), of.strange()), ([5, 3], 2));
        of.receiver.end(&mut of.live, 9 * S);
        assert_eq!(of.live.streams[0].publication, 2);
        // A drain lets no other in.
        of.receiver.datagram(&mut of.live, one, &transport_publication(), false, 10 * S);
        assert_eq!((of.publisher(), of.strange()), (None, 3));
    }

    #[test]
    fn only_the_named_sender_and_whole_packets_count() {
        let mut of = Receiving::new();
        of.receiver.from = Some(from(7, 0).ip());
        let stream = transport_publication();
        of.datagram(from(1, 5_000), &stream, S);
        for wrong in [&[][..], b"GET / HTTP/1.1", &stream[..187], &stream[1..189]] {
            of.datagram(from(7, 5_000), wrong, S);
        }
        assert_eq!((of.released(), of.strange()), ([0, 0], 5));
        // By RTP, from an address that IPv6 maps.
        let rtp = RtpPacketBuilder::new().payload_type(33).payload(&stream[..]);
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:5000".parse().unwrap();
        of.datagram(mapped, &rtp.write_vec().unwrap(), S);
        assert_eq!((of.released(), of.strange()), ([2, 1], 5));
    }

    #[test]
    fn a_stream_with_another_publisher_is_not_taken() {
        let mut of = Receiving::new();
        of.live.announce(0, (7, from(1, 0).ip()), Track::default(), S);
        of.datagram(from(2, 5_000), &transport_publication(), S);
        assert_eq!((of.publisher(), of.strange()), (Some(from(1, 0).ip()), 1));
        of.live.leave(0, S);
        of.datagram(from(2, 5_000), &transport_publication(), S);
        assert_eq!(of.publisher(), Some(from(2, 0).ip()));
        // The server ends a publication without pictures for `idle-timeout`; audio does not count.
        let mut sender = TransportSender::new();
        sender.audio(93_840, 1);
        of.datagram(from(2, 5_000), &sender.take(), 89 * S);
        assert_eq!(of.live.tick(90 * S), [0; 0]);
        assert_eq!(of.publisher(), None);
        of.datagram(from(3, 5_000), &transport_publication(), 90 * S);
        assert_eq!(of.publisher(), Some(from(3, 0).ip()));
    }

    #[test]
    fn an_encoder_that_restarts_begins_another_publication() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(false);
        let mut send = |of: &mut Receiving, time, unit, now_ns| {
            sender.video(time, unit);
            of.datagram(from(1, 5_000), &sender.take(), now_ns);
            of.live.streams[0].publication
        };
        send(&mut of, 900_000, PICTURES[0], S);
        assert_eq!(send(&mut of, 903_600, PICTURES[1], S), 1);
        // Reordered, then restarted.
        assert_eq!(send(&mut of, 850_000, PICTURES[1], S), 1);
        send(&mut of, 90_000, PICTURES[0], 2 * S);
        assert_eq!(send(&mut of, 93_600, PICTURES[1], 2 * S), 2);
        assert_eq!(of.released(), [4, 0]);
        // Publications do not follow each other faster than one per second.
        let last = 2 * S + BEGIN_INTERVAL_NS - 1;
        for number in 0..100 {
            assert_eq!(send(&mut of, 900_000 * (number % 2 + 2), PICTURES[0], last), 2);
        }
        send(&mut of, 1_800_000, PICTURES[0], last + 1);
        assert_eq!(send(&mut of, 1_803_600, PICTURES[1], last + 1), 3);
    }

    #[test]
    fn lost_packets_lose_frames_and_not_the_publication() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(false);
        for number in 0..6 {
            sender.video(90_000 + number * 3_600, PICTURES[usize::from(number > 0)]);
            let packets = sender.take();
            // The picture before may go on in the packet that is lost, so it is dropped too.
            if number != 3 {
                of.datagram(from(1, 5_000), &packets, S);
            }
        }
        of.receiver.end(&mut of.live, S);
        let counts = of.live.streams[0].ingest.counts();
        assert_eq!((counts.lost_packets, counts.incomplete, of.released()), (1, 1, [4, 0]));
        assert_eq!(of.live.streams[0].publication, 1);
        // A picture above `burst`.
        let long = [PICTURES[0], &[5; 130]].concat();
        let most = of.live.streams[0].spec.burst_bytes;
        sender.tables(false);
        sender.video(90_000, &long);
        of.datagram(from(1, 5_000), &sender.take(), S);
        let mut more = long.clone();
        more.resize(188, 5);
        for number in 0..most / 150 {
            let counter = u8::try_from((7 + number) % 16).unwrap();
            more[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | counter]);
            of.datagram(from(1, 5_000), &more, S);
        }
        of.receiver.end(&mut of.live, S);
        assert_eq!(of.live.streams[0].ingest.counts().beyond, 1);
    }

    #[test]
    fn pictures_wait_for_announced_audio_within_bounds() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(true);
        let mut send = |of: &mut Receiving, time, unit: &[u8], now_ns| {
            sender.video(time, unit);
            of.datagram(from(1, 5_000), &sender.take(), now_ns);
            of.released()
        };
        send(&mut of, 90_000, PICTURES[0], S);
        assert_eq!(send(&mut of, 93_600, PICTURES[1], S), [0, 0]);
        assert_eq!(send(&mut of, 97_200, PICTURES[1], S + MAX_WAIT_NS), [0, 0]);
        assert_eq!(send(&mut of, 100_800, PICTURES[1], S + MAX_WAIT_NS + 1), [3, 0]);
        // The ring has the instants in µs.
        assert!(of.last(0).1.abs_diff(S + S * 7_200 / 90_000) < 1_000);
        assert!(of.live.streams[1].publisher.is_none());
    }

    #[test]
    fn short_pictures_that_wait_take_bounded_memory() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(true);
        let most = of.live.streams[0].spec.burst_bytes as usize;
        let each = size_of::<(usize, u32, Vec<u8>)>() + 1;
        let mut pictures = 0;
        while of.publisher().is_none() {
            sender.video(90_000 + pictures, &[0]);
            of.datagram(from(1, 5_000), &sender.take(), S);
            pictures += 1;
        }
        // The last picture ends with the next one.
        assert_eq!(pictures - 1, (most / each + 1) as u64);
    }

    #[test]
    fn the_first_sender_of_a_packet_has_the_stream() {
        let mut of = Receiving::new();
        let mut damaged = transport_publication();
        // The error indicator.
        damaged.chunks_exact_mut(188).for_each(|packet| packet[1] |= 0x80);
        of.datagram(from(1, 5_000), &damaged, S);
        of.datagram(from(1, 5_000), &[0; 376], S);
        assert_eq!(of.strange(), 2);
        of.datagram(from(2, 5_000), &transport_publication(), S);
        assert_eq!((of.publisher(), of.strange()), (Some(from(2, 0).ip()), 2));
    }

    #[test]
    fn unreadable_tables_and_changed_audio_are_counted_and_logged() {
        let mut of = Receiving::new();
        let mut sender = TransportSender::new();
        sender.tables(true);
        let mut tables = sender.take();
        tables[375] ^= 1;
        of.datagram(from(1, 5_000), &tables, S);
        assert_eq!((of.strange(), of.receiver.logged_ns), (1, Some(S)));
        of.datagram(from(1, 5_000), &transport_publication(), 2 * S);
        assert_eq!(of.released(), [2, 1]);
        // Audio of one channel.
        let mut audio = TransportSender::new();
        audio.audio(93_840, 1);
        let mut changed = audio.take();
        let header = changed.len() - 8;
        assert_eq!(changed[header..header + 4], [0xff, 0xf1, 0x4c, 0x80]);
        changed[3] = changed[3] & 0xf0 | 2;
        changed[header + 3] = 0x40;
        for now_ns in [3 * S, 3 * S + LOG_INTERVAL_NS] {
            of.datagram(from(1, 5_000), &changed, now_ns);
            changed[3] += 1;
            let logged = if now_ns > LOG_INTERVAL_NS { now_ns } else { S };
            assert_eq!(of.receiver.logged_ns, Some(logged));
        }
        assert_eq!((of.released(), of.live.streams[1].ingest.counts().incomplete), ([2, 1], 2));
    }
}
