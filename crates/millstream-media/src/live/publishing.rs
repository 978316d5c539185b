//! Publishers of live streams: at most one per stream, from ANNOUNCE until it leaves or falls
//! silent.

use millstream_scenario::Link;
use millstream_traffic::mpeg::{AudioFormat, Codec};
use rtcp_types::{Compound, Packet};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::Unavailable;
use super::ingest::{Ingest, Ingested, MAX_CLOCK_ERROR_NS};
use super::on_demand::OnDemand;
use super::policer::Allowance;
use crate::files::library::is_name;
use crate::hls::Hls;
use crate::payload::Format;
use crate::recording::playback::{DueFrame, Playbacks, Reserved};
use crate::recording::segment::AudioConfig;
use crate::rtp::CLOCK_RATE;
use crate::rtsp::session::{Sessions, Transport};
use crate::rtsp::{RECORDINGS, Requester};
use crate::shared_memory::live_frames::{self, FrameBuffer, FrameRing, Shape};
use crate::shared_memory::region::{Row, SessionField, State};
use crate::shared_memory::store::{FrameRecord, Packets};

/// How long a publisher may be silent before RECORD, ns.
const SETUP_TIMEOUT_NS: u64 = 10_000_000_000;

/// A live stream as configured.
#[derive(Clone, Debug)]
pub(crate) struct LiveSpec {
    /// The name in its URL; `cam/*` for a path.
    pub(crate) name: String,
    /// The name of its stream in the file.
    pub(crate) stream: String,
    /// The number of its path, from 0, if its stream has several.
    pub(crate) path: Option<u32>,
    /// The index of its title.
    pub(crate) title: usize,
    pub(crate) codec: Codec,
    /// The format, and the index of the stream with the video, if it is audio.
    pub(crate) audio: Option<(Format, usize)>,
    pub(crate) allowance: Allowance,
    pub(crate) burst_bytes: u32,
    pub(crate) link: Link,
    pub(crate) packet_bytes: usize,
    /// The users and tokens that may publish. `None`: any client with a loopback address.
    pub(crate) publishers: Option<Vec<String>>,
    /// How long its clients wait for a new publisher, ns.
    pub(crate) wait_ns: u64,
    /// Where it receives a transport stream, if it does.
    pub(crate) udp: Option<millstream_scenario::UdpInput>,
    /// The SRT connection that brings a transport stream, if there is one.
    pub(crate) srt: Option<millstream_scenario::SrtInput>,
    /// The command that publishes it, if it is published on demand.
    pub(crate) on_demand: Option<millstream_scenario::OnDemand>,
    /// Whether it is recorded.
    pub(crate) record: bool,
    /// Whether it is a place for a player of recordings: it has no publisher.
    pub(crate) plays_recordings: bool,
    pub(crate) shape: Shape,
}

/// A publisher, from ANNOUNCE on.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    pub(crate) connection: usize,
    pub(crate) peer: IpAddr,
    /// The publisher's RTSP session id; empty before SETUP.
    pub(crate) id: String,
    pub(crate) transport: Option<Transport>,
    pub(crate) recording: bool,
    /// When it last sent a packet or a request, ns.
    pub(crate) last_received_ns: u64,
    pub(crate) track: Track,
    /// NTP time, 2^-32 s, and the machine's time, ns, of an instant; from the first sender report.
    ntp_at_ns: Option<(u64, u64)>,
}

impl Publisher {
    fn is_webrtc(&self) -> bool {
        matches!(self.transport, Some(Transport::WebRtc(_)))
    }

    /// Returns whether it sends a transport stream.
    pub(crate) fn sends_transport_stream(&self) -> bool {
        self.transport == Some(Transport::MpegTs)
    }

    /// Returns whether it has the connection `connection` of RTSP or RTMP.
    fn has_connection(&self, connection: usize) -> bool {
        let has_none = self.is_webrtc() || self.sends_transport_stream();
        self.connection == connection && !has_none
    }
}

/// A track as announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) payload_type: u8,
    /// The rate of timestamps, Hz.
    pub(crate) clock_rate: u32,
    /// The parameter sets of H.264 or H.265.
    pub(crate) sets: Vec<Vec<u8>>,
    /// The end of the URL of its SETUP.
    pub(crate) control: String,
    /// The description for players of audio.
    pub(crate) description: AudioDescription,
}

/// The description of published audio, as in SDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AudioDescription {
    /// The rate of timestamps, and the number of channels if it is not 1.
    pub(crate) clock: String,
    /// The parameters of the format.
    pub(crate) parameters: Option<String>,
}

/// A live stream.
#[derive(Debug)]
pub(crate) struct LiveStream {
    pub(crate) spec: LiveSpec,
    /// Its name in URLs and pages now.
    pub(crate) name: String,
    /// The name of the stream that it publishes or plays, without its track.
    pub(crate) stream: String,
    /// NAME of `STREAM/NAME`, if its stream has paths and it has served one.
    pub(super) path: Option<String>,
    pub(crate) ingest: Ingest,
    pub(crate) publisher: Option<Publisher>,
    /// The number of its last publication, among those of the server; from 1.
    pub(crate) publication: u64,
    /// When its last publisher left, ns.
    pub(super) left_ns: u64,
    /// Since when its clients wait for a publisher, ns; 0: they do not wait.
    pub(super) waits_since_ns: u64,
    /// The description of the last published audio.
    pub(super) description: AudioDescription,
    /// The ports that receive the publisher's RTP and RTCP, once they are open.
    pub(crate) ports: (u16, u16),
}

impl LiveStream {
    /// Returns whether it has a name: the paths of a stream have none before their first publisher.
    pub(crate) fn is_named(&self) -> bool {
        self.spec.path.is_none() || self.path.is_some()
    }

    /// Returns whether it is being published.
    pub(crate) fn is_published(&self) -> bool {
        self.publisher.as_ref().is_some_and(|who| who.recording)
    }
}

/// All live streams of a server.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    pub(crate) streams: Vec<LiveStream>,
    idle_timeout_ns: u64,
    /// The number of publications so far.
    pub(super) publications: u64,
    /// The ingest counters of earlier paths: another path has their place now.
    pub(super) former: Ingested,
    /// Whether frames were released since the data plane was last woken.
    frames_released: bool,
    /// The players of recordings, which have live streams of their own.
    pub(crate) playbacks: Playbacks,
    /// The commands that publish streams while clients play.
    pub(crate) on_demand: OnDemand,
    /// The presentations by HLS.
    pub(crate) hls: Hls,
    /// The last frame copied for an interleaved client.
    copied: FrameBuffer,
}

impl Publishing {
    /// Opens the streams with the rings in `memory`. `adopted`: when this server adopted a running
    /// data plane. Its clients may wait for publishers.
    ///
    /// # Errors
    /// Fails if the rings do not match `specs`.
    pub(crate) fn open(
        specs: &[LiveSpec],
        memory: &File,
        idle_timeout_ns: u64,
        adopted: Option<u64>,
    ) -> io::Result<Self> {
        let rings = live_frames::write(memory)?;
        let shapes = rings.iter().map(FrameRing::shape);
        if !shapes.eq(specs.iter().map(|spec| spec.shape)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the rings are those of other live streams",
            ));
        }
        Ok(Self::of(specs, rings, idle_timeout_ns, adopted))
    }

    /// Creates the streams with these rings, one per stream.
    pub(crate) fn of(
        specs: &[LiveSpec],
        rings: Vec<FrameRing>,
        idle_timeout_ns: u64,
        adopted: Option<u64>,
    ) -> Self {
        let stream = |(spec, ring): (&LiveSpec, FrameRing)| {
            let LiveSpec { codec, allowance, burst_bytes, link, packet_bytes, .. } = *spec;
            let audio = spec.audio.map(|(format, _)| format);
            let ingest =
                Ingest::new(codec, audio, allowance, burst_bytes, link, packet_bytes, ring);
            LiveStream {
                spec: spec.clone(),
                name: spec.name.clone(),
                stream: spec.stream.clone(),
                path: None,
                ingest,
                publisher: None,
                publication: 0,
                left_ns: 0,
                waits_since_ns: adopted.unwrap_or(0),
                description: AudioDescription::default(),
                ports: (0, 0),
            }
        };
        let streams = specs.iter().zip(rings).map(stream).collect();
        let commands = specs.iter().enumerate().filter_map(|(number, spec)| {
            spec.on_demand.as_ref().map(|of| (number, of.start_ns, of.close_ns))
        });
        let mut all = Self {
            streams,
            idle_timeout_ns,
            publications: 0,
            former: Ingested::default(),
            frames_released: false,
            playbacks: Playbacks::default(),
            on_demand: OnDemand::new(commands),
            hls: Hls::default(),
            copied: FrameBuffer::default(),
        };
        // The clients of an adopted data plane play paths that an earlier server named.
        for place in 0..all.streams.len() {
            let stream = &all.streams[place];
            let of_path = stream.spec.path.is_some() && stream.spec.audio.is_none();
            let ring = of_path.then(|| stream.ingest.ring());
            if let Some(path) = ring.and_then(|ring| ring.name()).filter(|path| is_name(path)) {
                all.name_path(place, &path);
            }
        }
        all
    }

    /// Returns the index of the live stream with this title.
    #[cfg(feature = "webrtc")]
    pub(crate) fn of_title(&self, title: usize) -> Option<usize> {
        self.streams.iter().position(|stream| stream.spec.title == title)
    }

    /// Returns the index of the audio of a live stream.
    pub(crate) fn audio_of(&self, stream: usize) -> Option<usize> {
        let of = |live: &LiveStream| live.spec.audio.is_some_and(|(_, video)| video == stream);
        self.streams.iter().position(of)
    }

    /// Returns the indices of a live stream and of its audio.
    pub(crate) fn tracks_of(&self, stream: usize) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(stream).chain(self.audio_of(stream))
    }

    /// Returns the stream that a connection publishes or has announced; its video if it has both.
    pub(crate) fn of_connection(&self, connection: usize) -> Option<usize> {
        let of = |stream: &LiveStream| {
            stream.publisher.as_ref().is_some_and(|who| who.has_connection(connection))
        };
        self.streams.iter().position(of)
    }

    /// Returns the stream, its video if it has both, that a WebRTC client at `peer` publishes in
    /// the session `id`.
    pub(crate) fn webrtc_publication(&self, id: &str, peer: IpAddr) -> Option<usize> {
        let of = |stream: &LiveStream| {
            let is = |who: &Publisher| who.is_webrtc() && who.id == id && who.peer == peer;
            stream.publisher.as_ref().is_some_and(is)
        };
        self.streams.iter().position(of)
    }

    /// Registers the publisher of a track in the WebRTC session `id`, by the peer at `place`.
    pub(crate) fn announce_webrtc(
        &mut self,
        stream: usize,
        (place, peer): (usize, IpAddr),
        (id, track): (&str, Track),
        now_ns: u64,
    ) {
        self.announce(stream, (place, peer), track, now_ns);
        if let Some(publisher) = &mut self.streams[stream].publisher {
            id.clone_into(&mut publisher.id);
            publisher.transport = Some(Transport::WebRtc(place));
        }
    }

    /// Registers the publisher of a track by RTMP.
    pub(crate) fn announce_rtmp(
        &mut self,
        stream: usize,
        requester: Requester,
        track: Track,
        now_ns: u64,
    ) {
        self.announce(stream, (requester.connection, requester.peer), track, now_ns);
        if let Some(publisher) = &mut self.streams[stream].publisher {
            publisher.transport = Some(Transport::Rtmp);
        }
    }

    /// Registers the publisher of a track by a transport stream from `peer`.
    pub(crate) fn announce_transport_stream(
        &mut self,
        stream: usize,
        peer: IpAddr,
        track: Track,
        now_ns: u64,
    ) {
        self.announce(stream, (0, peer), track, now_ns);
        if let Some(publisher) = &mut self.streams[stream].publisher {
            publisher.transport = Some(Transport::MpegTs);
        }
    }

    /// Counts packets of a track that never arrived.
    pub(crate) fn lost_packets(&mut self, track: usize, packets: u64) {
        self.streams[track].ingest.lost_packets(packets);
    }

    /// Counts a packet at the address of a stream that is not its publisher's, or is malformed.
    pub(crate) fn strange_packet(&mut self, stream: usize) {
        self.streams[stream].ingest.strange_packet();
    }

    /// Counts a frame of a track that is not whole, or too long.
    pub(crate) fn dropped_frame(&mut self, track: usize, too_long: bool, now_ns: u64) {
        self.streams[track].ingest.dropped_frame(too_long, now_ns);
    }

    /// Processes a whole frame of a track's publisher, which needs no assembly.
    ///
    /// Audio over RTMP also holds the video: its publisher is one connection. Audio of a transport
    /// stream does not.
    pub(crate) fn whole_frame(&mut self, track: usize, frame: &[u8], timestamp: u32, now_ns: u64) {
        let video = self.streams[track].spec.audio.map_or(track, |(_, video)| video);
        for stream in [track, video] {
            if let Some(publisher) = &mut self.streams[stream].publisher
                && (stream == track || !publisher.sends_transport_stream())
            {
                publisher.last_received_ns = now_ns;
            }
        }
        if self.streams[track].is_published() {
            let ingest = &mut self.streams[track].ingest;
            self.frames_released |= ingest.whole_frame(frame, timestamp, now_ns);
        }
    }

    /// Sets the instant of one of the timestamps of a track's publisher.
    pub(crate) fn set_instant(&mut self, track: usize, timestamp: u32, at_ns: u64) {
        self.streams[track].ingest.set_instant(timestamp, at_ns);
    }

    /// Processes a packet of a WebRTC publisher of `stream`, or of its audio.
    #[cfg(feature = "webrtc")]
    pub(crate) fn webrtc_packet(
        &mut self,
        stream: usize,
        is_audio: bool,
        packet: &[u8],
        now_ns: u64,
    ) {
        let track = if is_audio { self.audio_of(stream) } else { Some(stream) };
        if let Some(track) = track {
            self.packet(track, packet, now_ns);
        }
    }

    /// Processes a sender report of a WebRTC publisher: NTP time, 2^-32 s, and RTP time.
    #[cfg(feature = "webrtc")]
    pub(crate) fn webrtc_report(
        &mut self,
        stream: usize,
        is_audio: bool,
        report: (u64, u32),
        now_ns: u64,
    ) {
        let track = if is_audio { self.audio_of(stream) } else { Some(stream) };
        if let Some(track) = track {
            self.report(track, report, now_ns);
        }
    }

    /// Registers a publisher for a track of a stream that has none.
    pub(crate) fn announce(
        &mut self,
        stream: usize,
        (connection, peer): (usize, IpAddr),
        track: Track,
        now_ns: u64,
    ) {
        self.streams[stream].publisher = Some(Publisher {
            connection,
            peer,
            id: String::new(),
            transport: None,
            recording: false,
            last_received_ns: now_ns,
            track,
            ntp_at_ns: None,
        });
    }

    /// Begins to accept the publisher's packets, of all tracks that are set up.
    pub(crate) fn record(&mut self, stream: usize, now_ns: u64) {
        let config = self.audio_of(stream).and_then(|audio| self.audio_config(audio));
        self.publications += 1;
        let publication = self.publications;
        let name = self.streams[stream].stream.clone();
        self.hls.begin(stream, (&name, publication));
        for track in self.tracks_of(stream) {
            self.streams[track].publication = publication;
            let recorded = (name.as_str(), publication);
            self.streams[track].ingest.begin_recording(recorded, config.as_ref());
            self.record_track(track, now_ns);
        }
    }

    /// Returns the format of a publisher's audio, as a recording needs it; `None` if it does not
    /// publish audio, or audio that recordings cannot hold.
    fn audio_config(&self, audio: usize) -> Option<AudioConfig> {
        let LiveStream { publisher, spec, .. } = &self.streams[audio];
        let publisher = publisher.as_ref().filter(|who| who.transport.is_some())?;
        let Track { clock_rate, description, .. } = &publisher.track;
        let parameters = description.parameters.as_deref().unwrap_or_default();
        let mut values = parameters.split(';').filter_map(|one| one.split_once('='));
        match spec.audio?.0 {
            Format::Aac => {
                let config = values.find(|(name, _)| *name == "config")?.1;
                let channels = description.clock.split_once('/');
                Some(AudioConfig::Aac {
                    config: hex(config)?,
                    sample_rate: (*clock_rate).try_into().ok()?,
                    channels: channels.map_or(Some(1), |(_, channels)| channels.parse().ok())?,
                })
            }
            Format::Opus => Some(AudioConfig::Opus {
                stereo: values.any(|(name, value)| (name, value) == ("sprop-stereo", "1")),
            }),
            _ => None,
        }
    }

    fn record_track(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, description, .. } =
            &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| !who.recording) else { return };
        if publisher.transport.is_none() {
            return;
        }
        (publisher.recording, publisher.last_received_ns) = (true, now_ns);
        *waits_since_ns = 0;
        description.clone_from(&publisher.track.description);
        let Track { payload_type, clock_rate, sets, .. } = &publisher.track;
        ingest.begin(*payload_type, *clock_rate, sets);
    }

    /// Removes the publisher of a stream and of its audio, whether or not it records.
    pub(crate) fn leave(&mut self, stream: usize, now_ns: u64) {
        // The end of the video ends the recording of both.
        if let Some(audio) = self.audio_of(stream) {
            self.leave_track(audio, now_ns);
        }
        self.leave_track(stream, now_ns);
    }

    fn leave_track(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, left_ns, .. } =
            &mut self.streams[stream];
        *left_ns = now_ns;
        if publisher.take().is_some_and(|who| who.recording) {
            ingest.end(now_ns);
            *waits_since_ns = now_ns;
        }
    }

    /// Removes the publisher of a closed connection, if it has one.
    pub(crate) fn closed(&mut self, connection: usize, now_ns: u64) {
        self.on_demand.held.closed(connection);
        self.hls.held.closed(connection);
        if let Some(stream) = self.of_connection(connection) {
            self.leave(stream, now_ns);
        }
    }

    /// Processes an interleaved packet of a connection.
    pub(crate) fn interleaved(
        &mut self,
        connection: usize,
        channel: u8,
        packet: &[u8],
        now_ns: u64,
    ) {
        for stream in 0..self.streams.len() {
            let publisher = self.streams[stream].publisher.as_ref();
            let Some(Transport::Interleaved(rtp, rtcp)) = publisher
                .filter(|who| who.connection == connection)
                .and_then(|publisher| publisher.transport)
            else {
                continue;
            };
            if channel == rtp {
                return self.packet(stream, packet, now_ns);
            } else if channel == rtcp {
                return self.control_packet(stream, packet, now_ns);
            }
        }
    }

    /// Processes a datagram at the RTP port of a stream, or at its RTCP port if `is_rtcp`; ignores
    /// it unless it comes from the publisher.
    pub(crate) fn datagram(
        &mut self,
        stream: usize,
        is_rtcp: bool,
        from: SocketAddr,
        packet: &[u8],
        now_ns: u64,
    ) {
        let Some(publisher) = &self.streams[stream].publisher else { return };
        let Some(Transport::Udp(rtp, rtcp)) = publisher.transport else { return };
        if from.ip().to_canonical() != publisher.peer {
            return;
        }
        if is_rtcp && from.port() == rtcp {
            self.control_packet(stream, packet, now_ns);
        } else if !is_rtcp && from.port() == rtp {
            self.packet(stream, packet, now_ns);
        }
    }

    /// Processes an RTP packet of a stream's publisher.
    fn packet(&mut self, stream: usize, packet: &[u8], now_ns: u64) {
        let LiveStream { publisher, ingest, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| who.recording) else { return };
        publisher.last_received_ns = now_ns;
        self.frames_released |= ingest.packet(packet, now_ns);
    }

    /// Processes an RTCP packet of a stream's publisher.
    fn control_packet(&mut self, stream: usize, packet: &[u8], now_ns: u64) {
        let Ok(compound) = Compound::parse(packet) else { return };
        let reports = compound.filter_map(|packet| match packet {
            Ok(Packet::Sr(report)) => Some((report.ntp_timestamp(), report.rtp_timestamp())),
            _ => None,
        });
        if let Some(report) = reports.last() {
            self.report(stream, report, now_ns);
        }
    }

    /// Processes a sender report. It relates the timestamps of a track to the clock of the
    /// publisher, which both tracks have.
    fn report(&mut self, stream: usize, (ntp, timestamp): (u64, u32), now_ns: u64) {
        if !self.streams[stream].is_published() {
            return;
        }
        let video = self.streams[stream].spec.audio.map_or(stream, |(_, video)| video);
        let Some(publisher) = &mut self.streams[video].publisher else { return };
        publisher.last_received_ns = now_ns;
        let (known, known_ns) = *publisher.ntp_at_ns.get_or_insert((ntp, now_ns));
        let since = i128::from(ntp.wrapping_sub(known).cast_signed());
        let since = (since * 1_000_000_000) >> 32;
        let at_ns = known_ns.wrapping_add_signed(i64::try_from(since).unwrap_or(0));
        if at_ns.abs_diff(now_ns) > MAX_CLOCK_ERROR_NS {
            // The publisher's clock was set: the next reports of both tracks follow the new time.
            publisher.ntp_at_ns = Some((ntp, now_ns));
            return;
        }
        self.streams[stream].ingest.set_instant(timestamp, at_ns);
    }

    /// Reserves a live stream for a player of the recordings that `request` names. Returns the
    /// title of its video. The caller releases it by [`Playbacks::release_unused`] at the end of
    /// its request.
    ///
    /// # Errors
    /// Fails if there is no such recording or no free place.
    pub(crate) fn reserve_recording(
        &mut self,
        request: &str,
        sessions: &Sessions,
    ) -> Result<usize, Unavailable> {
        let reserved = self.playbacks.reserve(request, sessions)?;
        let Reserved { video, audio, formats, stream } = reserved;
        for track in std::iter::once(video).chain(audio) {
            let live = &mut self.streams[track.live];
            // A player of `cam/front` at place 2 of `cam` is at `recordings/cam/front/2`.
            let place = live.spec.name.strip_prefix(RECORDINGS).unwrap_or(&live.spec.name);
            let place = place.strip_prefix(live.spec.stream.as_str()).unwrap_or(place);
            live.name = format!("{RECORDINGS}{stream}{place}");
            live.stream.clone_from(&stream);
        }
        let sets = formats.h264.map(|h264| h264.sets).unwrap_or_default();
        let clock_rate = u32::try_from(CLOCK_RATE).unwrap_or(u32::MAX);
        self.streams[video.live].ingest.begin(0, clock_rate, &sets);
        if let Some(audio) = audio {
            let LiveStream { spec, ingest, description, .. } = &mut self.streams[audio.live];
            let format = spec.audio.map(|(format, _)| format);
            let described = formats.audio.and_then(|found| described(&found, format));
            let (rate, text) = described.unwrap_or_default();
            ingest.begin(0, rate, &[]);
            *description = text;
        }
        Ok(video.title)
    }

    /// Releases those frames of recordings that are due soon. Returns the titles of players that
    /// have reached the end.
    pub(crate) fn play_recordings(&mut self, sessions: &Sessions, now_ns: u64) -> Vec<usize> {
        let (due, ended) = self.playbacks.play(sessions, now_ns);
        for frame in due {
            let DueFrame { live, bytes, times } = frame;
            self.frames_released |= self.streams[live].ingest.play(&bytes, times);
        }
        ended
    }

    /// Gives up overdue packets and removes silent publishers. Returns the connections of these
    /// publishers.
    pub(crate) fn tick(&mut self, now_ns: u64) -> Vec<usize> {
        let mut silent = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let Some(publisher) = &stream.publisher else { continue };
            self.frames_released |= stream.ingest.expire(now_ns);
            // Audio may pause; it leaves with its video.
            if stream.spec.audio.is_some() {
                continue;
            }
            let most_ns = if publisher.recording { self.idle_timeout_ns } else { SETUP_TIMEOUT_NS };
            if now_ns.saturating_sub(publisher.last_received_ns) > most_ns {
                let connection = publisher.connection;
                silent.push((number, Some(connection).filter(|of| publisher.has_connection(*of))));
            }
        }
        for (stream, ..) in &silent {
            self.leave(*stream, now_ns);
        }
        silent.into_iter().filter_map(|(_, connection)| connection).collect()
    }

    /// Returns the titles of streams on which clients waited too long for a publisher.
    pub(crate) fn timed_out_titles(&mut self, now_ns: u64) -> Vec<usize> {
        let expired = |stream: &mut LiveStream| {
            let LiveStream { waits_since_ns, spec, publisher, .. } = stream;
            let recording = publisher.as_ref().is_some_and(|who| who.recording);
            let expired = *waits_since_ns != 0
                && !recording
                && now_ns.saturating_sub(*waits_since_ns) > spec.wait_ns;
            if expired {
                *waits_since_ns = 0;
            }
            expired.then_some(spec.title)
        };
        self.streams.iter_mut().filter_map(expired).collect()
    }

    /// Returns whether a stream is being published, or its clients wait for a publisher. Audio must
    /// also be described: a server that adopts a data plane does not know it.
    pub(crate) fn is_available(&self, stream: usize) -> bool {
        let reserved = self.playbacks.is_reserved(stream);
        let stream = &self.streams[stream];
        if stream.spec.audio.is_some() && stream.description.clock.is_empty() {
            return false;
        }
        if stream.spec.plays_recordings {
            return reserved;
        }
        stream.waits_since_ns != 0 || stream.is_published()
    }

    /// Returns whether a request of a connection is held: its input must not be processed.
    pub(crate) fn is_held(&self, connection: usize) -> bool {
        self.on_demand.held.is_waiting(connection) || self.hls.held.is_waiting(connection)
    }

    /// Returns whether the next request of a connection was held. It was authenticated then.
    pub(crate) fn is_resumed(&self, connection: usize) -> bool {
        self.on_demand.held.is_resumed(connection) || self.hls.held.is_resumed(connection)
    }

    /// Records that a request of a connection has been answered.
    pub(crate) fn answered(&mut self, connection: usize) {
        self.on_demand.held.answered(connection);
        self.hls.held.answered(connection);
    }

    /// See [`OnDemand::tick`].
    pub(crate) fn tick_on_demand(
        &mut self,
        played: impl Fn(usize) -> bool,
        draining: bool,
        now_ns: u64,
    ) -> Vec<usize> {
        let Self { streams, on_demand, hls, .. } = self;
        let played = |stream| played(stream) || hls.is_watched(stream, now_ns);
        on_demand.tick(|stream| streams[stream].is_published(), played, draining, now_ns)
    }

    /// Returns the description of the audio of a stream that is or was published.
    pub(crate) fn description(&self, stream: usize) -> &AudioDescription {
        &self.streams[stream].description
    }

    /// Returns the ingest counters of all streams together.
    pub(crate) fn total(&self) -> Ingested {
        let streams = self.streams.iter().filter(|stream| !stream.spec.plays_recordings);
        streams.fold(self.former, |sum, stream| sum.plus(stream.ingest.counts()))
    }

    /// Returns whether a publisher sends a stream.
    pub(crate) fn is_receiving(&self) -> bool {
        self.streams.iter().any(LiveStream::is_published)
    }

    /// Returns the number of frames in the ring that are not released to a playing client yet.
    /// `live` is the stream's number + 1 (0: a file).
    pub(crate) fn unreleased(&self, live: u32, row: Row) -> u64 {
        let stream = (live as usize).checked_sub(1).and_then(|stream| self.streams.get(stream));
        let Some(stream) = stream.filter(|_| row.state() == State::Playing) else { return 0 };
        let next = row.get(SessionField::Next);
        let begun = row.get(SessionField::From) == 0;
        let head = stream.ingest.ring().head();
        if begun {
            head.saturating_sub(next.wrapping_add(row.get(SessionField::Offset)))
        } else {
            0
        }
    }

    /// Copies a frame for an interleaved client; `None` if it is not in the ring any more.
    pub(crate) fn copy(
        &mut self,
        stream: usize,
        number: u64,
    ) -> Option<(FrameRecord, Packets<'_>)> {
        let ring = self.streams.get(stream)?.ingest.ring();
        let record = ring.copy(number, &mut self.copied)?.record;
        let FrameBuffer { packets, bytes, .. } = &self.copied;
        Some((record, Packets { records: packets, bytes }))
    }

    /// Returns whether to wake the data plane for new frames, and resets it.
    pub(crate) fn take_frames_released(&mut self) -> bool {
        std::mem::take(&mut self.frames_released)
    }

    /// Returns each stream that has publishers, with the current one and its ingest counters; of
    /// the paths of a stream those that have a name.
    pub(crate) fn statuses(
        &self,
    ) -> impl Iterator<Item = (&LiveStream, Option<&Publisher>, Ingested)> {
        let published = self.streams.iter();
        let published =
            published.filter(|stream| !stream.spec.plays_recordings && stream.is_named());
        published.map(|stream| {
            let publisher = stream.publisher.as_ref().filter(|who| who.recording);
            (stream, publisher, stream.ingest.counts())
        })
    }
}

/// Returns the rate of timestamps, Hz, and the description of audio, if it is of the stream's
/// format.
pub(crate) fn described(
    audio: &AudioFormat,
    format: Option<Format>,
) -> Option<(u32, AudioDescription)> {
    let clock = |rate: u32, channels: u16| match channels {
        1 => rate.to_string(),
        channels => format!("{rate}/{channels}"),
    };
    match (audio, format?) {
        (AudioFormat::Aac { config, sample_rate, channels }, Format::Aac) => {
            let config: String = config.iter().map(|byte| format!("{byte:02x}")).collect();
            let parameters = format!(
                "streamtype=5;profile-level-id=1;mode=AAC-hbr;config={config};sizelength=13;\
                 indexlength=3;indexdeltalength=3"
            );
            let clock = clock(*sample_rate, *channels);
            Some((*sample_rate, AudioDescription { clock, parameters: Some(parameters) }))
        }
        (AudioFormat::Opus { channels }, Format::Opus) => {
            let parameters = (*channels > 1).then(|| "sprop-stereo=1".to_owned());
            Some((48_000, AudioDescription { clock: clock(48_000, 2), parameters }))
        }
        _ => None,
    }
}

/// Returns the bytes of hexadecimal digits.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::live;
    use rtcp_types::{RtcpPacketWriterExt, SenderReport};
    use rtp_types::RtpPacketBuilder;

    const S: u64 = 1_000_000_000;

    /// Returns the stream `live` with both tracks on channels 0 to 3 of connection 7, recording.
    fn published() -> Publishing {
        let mut live = live();
        let from = (7, IpAddr::from([127, 0, 0, 1]));
        for (stream, payload_type, clock_rate) in [(0, 96, 90_000), (1, 97, 44_100)] {
            let track = Track { payload_type, clock_rate, ..Track::default() };
            live.announce(stream, from, track, S);
            let channel = 2 * u8::try_from(stream).unwrap();
            let publisher = live.streams[stream].publisher.as_mut().unwrap();
            publisher.transport = Some(Transport::Interleaved(channel, channel + 1));
        }
        live.record(0, S);
        live
    }

    fn send(live: &mut Publishing, stream: u8, timestamp: u32, number: u16, now_ns: u64) {
        let payload: &[u8] = if stream == 0 { &[0x65, 0x88, 5] } else { &[0, 16, 0, 8, 1] };
        let packet = RtpPacketBuilder::new()
            .payload_type(96 + stream)
            .marker_bit(true)
            .sequence_number(number)
            .timestamp(timestamp)
            .ssrc(9)
            .payload(payload);
        live.interleaved(7, 2 * stream, &packet.write_vec().unwrap(), now_ns);
    }

    fn report(live: &mut Publishing, stream: u8, ntp: u64, timestamp: u32, now_ns: u64) {
        let report = SenderReport::builder(9).ntp_timestamp(ntp).rtp_timestamp(timestamp);
        let mut packet = [0; 64];
        let length = report.write_into(&mut packet).unwrap();
        live.interleaved(7, 2 * stream + 1, &packet[..length], now_ns);
    }

    fn captured_ns(live: &Publishing, stream: usize) -> u64 {
        let ring = live.streams[stream].ingest.ring();
        ring.frame(ring.head() - 1).unwrap().captured_ns
    }

    #[test]
    fn sender_reports_relate_both_tracks_to_one_clock() {
        let mut live = published();
        let head = live.streams[1].ingest.ring().head();
        // Without reports, a track begins when its first packet arrives.
        send(&mut live, 0, 1_000, 0, 2 * S);
        send(&mut live, 1, 50, 0, 3 * S);
        assert_eq!([0, 1].map(|stream| captured_ns(&live, stream)), [2 * S, 3 * S]);
        // At NTP second 5 the video is at 91,000, the audio at 50. The reports arrive 40 ms apart.
        report(&mut live, 0, 5 << 32, 91_000, 4 * S);
        report(&mut live, 1, 5 << 32, 50, 4 * S + 40_000_000);
        send(&mut live, 0, 181_000, 1, 5 * S);
        send(&mut live, 1, 50 + 22_050, 1, 5 * S);
        let captured = [0, 1].map(|stream| captured_ns(&live, stream));
        assert_eq!(captured, [5 * S, 4 * S + S / 2]);
        // The publisher's clock is set forward: the relation begins again.
        report(&mut live, 1, 105 << 32, 50 + 44_100, 5 * S);
        report(&mut live, 1, 106 << 32, 50 + 2 * 44_100, 6 * S);
        send(&mut live, 1, 50 + 2 * 44_100, 2, 6 * S);
        assert_eq!(captured_ns(&live, 1), 6 * S);
        assert_eq!(live.streams[1].ingest.ring().head(), head + 3);
        live.leave(0, 7 * S);
        assert!(live.streams.iter().all(|stream| stream.publisher.is_none()));
    }

    #[test]
    fn packets_that_are_no_whole_frames_of_audio_are_counted() {
        let mut live = published();
        let before = live.streams[1].ingest.counts();
        let packet = RtpPacketBuilder::new().payload_type(97).ssrc(9);
        let fragment = packet.payload(&[0, 16, 0, 8, 1][..]).write_vec().unwrap();
        live.interleaved(7, 2, &fragment, 2 * S);
        let empty = RtpPacketBuilder::<&[u8], &[u8]>::new();
        let empty = empty.payload_type(97).ssrc(9).marker_bit(true).sequence_number(1);
        live.interleaved(7, 2, &empty.write_vec().unwrap(), 2 * S);
        let counts = live.streams[1].ingest.counts();
        assert_eq!((counts.frames, counts.incomplete), (before.frames + 2, before.incomplete + 2));
        // Audio may be silent; a publisher without any packet is not.
        live.idle_timeout_ns = 10 * S;
        send(&mut live, 0, 1_000, 0, 20 * S);
        assert_eq!(live.tick(25 * S), Vec::<usize>::new());
        assert_eq!(live.tick(31 * S), [7]);
    }
}
