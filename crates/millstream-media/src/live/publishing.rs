//! Publishers of live streams: at most one per stream, from ANNOUNCE until it leaves or falls
//! silent.

use millstream_scenario::Link;
use millstream_traffic::mpeg::Codec;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::ingest::{Ingest, Ingested};
use super::policer::Allowance;
use crate::rtsp::session::Transport;
use crate::shared_memory::live_frames::{self, FrameBuffer, FrameRing, Shape};
use crate::shared_memory::region::{Row, SessionField, State};
use crate::shared_memory::store::{FrameRecord, Packets};

/// How long a publisher may be silent before RECORD, ns.
const SETUP_TIMEOUT_NS: u64 = 10_000_000_000;

/// A live stream as configured.
#[derive(Clone, Debug)]
pub(crate) struct LiveSpec {
    /// The name in its URL.
    pub(crate) name: String,
    /// The index of its title.
    pub(crate) title: usize,
    pub(crate) codec: Codec,
    pub(crate) allowance: Allowance,
    pub(crate) burst_bytes: u32,
    pub(crate) link: Link,
    pub(crate) packet_bytes: usize,
    /// The users and tokens that may publish. `None`: any client with a loopback address.
    pub(crate) publishers: Option<Vec<String>>,
    /// How long its clients wait for a new publisher, ns.
    pub(crate) wait_ns: u64,
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
    payload_type: u8,
    sets: Vec<Vec<u8>>,
}

/// A live stream.
#[derive(Debug)]
pub(crate) struct LiveStream {
    pub(crate) spec: LiveSpec,
    pub(crate) ingest: Ingest,
    pub(crate) publisher: Option<Publisher>,
    /// Since when its clients wait for a publisher, ns; 0: they do not wait.
    waits_since_ns: u64,
    /// The ports that receive the publisher's RTP and RTCP, once they are open.
    pub(crate) ports: (u16, u16),
}

/// All live streams of a server.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    pub(crate) streams: Vec<LiveStream>,
    idle_timeout_ns: u64,
    /// Whether frames were released since the data plane was last woken.
    frames_released: bool,
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
            let ingest = Ingest::new(codec, allowance, burst_bytes, link, packet_bytes, ring);
            LiveStream {
                spec: spec.clone(),
                ingest,
                publisher: None,
                waits_since_ns: adopted.unwrap_or(0),
                ports: (0, 0),
            }
        };
        let streams = specs.iter().zip(rings).map(stream).collect();
        Self { streams, idle_timeout_ns, frames_released: false, copied: FrameBuffer::default() }
    }

    /// Returns the index of the live stream named `name`.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.streams.iter().position(|stream| stream.spec.name == name)
    }

    /// Returns the stream that a connection publishes or has announced.
    pub(crate) fn of_connection(&self, connection: usize) -> Option<usize> {
        let of = |stream: &LiveStream| {
            stream.publisher.as_ref().is_some_and(|who| who.connection == connection)
        };
        self.streams.iter().position(of)
    }

    /// Registers a publisher for a stream that has none, with its payload type and parameter sets.
    pub(crate) fn announce(
        &mut self,
        stream: usize,
        (connection, peer): (usize, IpAddr),
        payload_type: u8,
        sets: Vec<Vec<u8>>,
        now_ns: u64,
    ) {
        self.streams[stream].publisher = Some(Publisher {
            connection,
            peer,
            id: String::new(),
            transport: None,
            recording: false,
            last_received_ns: now_ns,
            payload_type,
            sets,
        });
    }

    /// Begins to accept the publisher's packets.
    pub(crate) fn record(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| !who.recording) else { return };
        (publisher.recording, publisher.last_received_ns) = (true, now_ns);
        *waits_since_ns = 0;
        ingest.begin(publisher.payload_type, &publisher.sets);
    }

    /// Removes the publisher, whether or not it records.
    pub(crate) fn leave(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, .. } = &mut self.streams[stream];
        if publisher.take().is_some_and(|who| who.recording) {
            ingest.end(now_ns);
            *waits_since_ns = now_ns;
        }
    }

    /// Removes the publisher of a closed connection, if it has one.
    pub(crate) fn closed(&mut self, connection: usize, now_ns: u64) {
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
        let Some(stream) = self.of_connection(connection) else { return };
        let LiveStream { publisher, ingest, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| who.recording) else { return };
        publisher.last_received_ns = now_ns;
        if let Some(Transport::Interleaved(rtp, _)) = publisher.transport
            && channel == rtp
        {
            self.frames_released |= ingest.packet(packet, now_ns);
        }
    }

    /// Processes a datagram for a stream; ignores it unless it comes from the publisher.
    pub(crate) fn datagram(&mut self, stream: usize, from: SocketAddr, packet: &[u8], now_ns: u64) {
        let LiveStream { publisher, ingest, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| who.recording) else { return };
        let Some(Transport::Udp(rtp, _)) = publisher.transport else { return };
        if from.ip().to_canonical() == publisher.peer && from.port() == rtp {
            publisher.last_received_ns = now_ns;
            self.frames_released |= ingest.packet(packet, now_ns);
        }
    }

    /// Gives up overdue packets and removes silent publishers. Returns the connections of these
    /// publishers.
    pub(crate) fn tick(&mut self, now_ns: u64) -> Vec<usize> {
        let mut silent = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let Some(publisher) = &stream.publisher else { continue };
            self.frames_released |= stream.ingest.expire(now_ns);
            let most_ns = if publisher.recording { self.idle_timeout_ns } else { SETUP_TIMEOUT_NS };
            if now_ns.saturating_sub(publisher.last_received_ns) > most_ns {
                silent.push((number, publisher.connection));
            }
        }
        for (stream, _) in &silent {
            self.leave(*stream, now_ns);
        }
        silent.into_iter().map(|(_, connection)| connection).collect()
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

    /// Returns whether a stream is being published, or its clients wait for a publisher.
    pub(crate) fn is_available(&self, stream: usize) -> bool {
        let stream = &self.streams[stream];
        stream.waits_since_ns != 0 || stream.publisher.as_ref().is_some_and(|who| who.recording)
    }

    /// Returns the ingest counters of all streams together.
    pub(crate) fn total(&self) -> Ingested {
        self.statuses().fold(Ingested::default(), |sum, (.., of)| sum.plus(of))
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

    /// Returns each stream with its recording publisher and ingest counters.
    pub(crate) fn statuses(
        &self,
    ) -> impl Iterator<Item = (&LiveSpec, Option<&Publisher>, Ingested)> {
        self.streams.iter().map(|stream| {
            let publisher = stream.publisher.as_ref().filter(|who| who.recording);
            (&stream.spec, publisher, stream.ingest.counts())
        })
    }
}
