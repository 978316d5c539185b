//! Who publishes which live stream: one publisher a stream, from ANNOUNCE until it leaves or falls
//! silent.

use millstream_scenario::Link;
use millstream_traffic::mpeg::Codec;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::frames::{self, Copied, FrameRing, Shape};
use super::ingest::{Ingest, Ingested};
use super::police::Allowance;
use crate::rtsp::session::Transport;
use crate::shared_memory::region::{Row, SessionField, State};
use crate::shared_memory::store::{FrameRecord, Packets};

/// How long a publisher may say nothing before RECORD, ns.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A live stream as its file says it is.
#[derive(Clone, Debug)]
pub(crate) struct LiveSpec {
    /// What stands in its URL.
    pub(crate) name: String,
    /// Its title's number.
    pub(crate) title: usize,
    pub(crate) codec: Codec,
    pub(crate) allowance: Allowance,
    pub(crate) burst_bytes: u32,
    pub(crate) link: Link,
    pub(crate) packet_bytes: usize,
    /// Names of those who may publish; `None`: whoever asks from a loopback address.
    pub(crate) publishers: Option<Vec<String>>,
    /// How long its clients wait for a publisher that is gone, ns.
    pub(crate) wait_ns: u64,
    pub(crate) shape: Shape,
}

/// Somebody who publishes, or is about to.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    pub(crate) connection: usize,
    pub(crate) peer: IpAddr,
    /// What the session is called in RTSP, once it is set up.
    pub(crate) id: String,
    pub(crate) transport: Option<Transport>,
    pub(crate) recording: bool,
    /// When it last sent a packet or a request, ns.
    pub(crate) heard_ns: u64,
    payload_type: u8,
    sets: Vec<Vec<u8>>,
}

/// A live stream.
#[derive(Debug)]
pub(crate) struct LiveStream {
    pub(crate) spec: LiveSpec,
    pub(crate) ingest: Ingest,
    pub(crate) publisher: Option<Publisher>,
    /// Since when its clients wait for a publisher, ns; 0: nobody waits.
    waits_since_ns: u64,
    /// Where RTP and RTCP of publishers come to, once the ports are open.
    pub(crate) ports: (u16, u16),
}

/// All live streams of a server.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    pub(crate) streams: Vec<LiveStream>,
    idle_timeout_ns: u64,
    /// Frames were released that the processor does not know of.
    news: bool,
    /// The frame that went to an interleaved client last.
    copied: Copied,
}

impl Publishing {
    /// Of streams whose rings are in `memory`; `adopted`: clients of a server before may wait for
    /// them.
    ///
    /// # Errors
    /// If other rings are in it.
    pub(crate) fn open(
        specs: &[LiveSpec],
        memory: &File,
        idle_timeout_ns: u64,
        adopted: Option<u64>,
    ) -> io::Result<Self> {
        let rings = frames::write(memory)?;
        let shapes = rings.iter().map(FrameRing::shape);
        if !shapes.eq(specs.iter().map(|spec| spec.shape)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "other live streams"));
        }
        Ok(Self::of(specs, rings, idle_timeout_ns, adopted))
    }

    /// The same of these rings, one a stream.
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
        Self { streams, idle_timeout_ns, news: false, copied: Copied::default() }
    }

    /// The live stream called so.
    pub(crate) fn called(&self, name: &str) -> Option<usize> {
        self.streams.iter().position(|stream| stream.spec.name == name)
    }

    /// The stream that a connection publishes or is about to.
    pub(crate) fn of_connection(&self, connection: usize) -> Option<usize> {
        let of = |stream: &LiveStream| {
            stream.publisher.as_ref().is_some_and(|who| who.connection == connection)
        };
        self.streams.iter().position(of)
    }

    /// Somebody announces a stream that nobody has: packets of this type, with these parameter
    /// sets.
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
            heard_ns: now_ns,
            payload_type,
            sets,
        });
    }

    /// Packets of the publisher are taken from now on.
    pub(crate) fn record(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| !who.recording) else { return };
        (publisher.recording, publisher.heard_ns) = (true, now_ns);
        *waits_since_ns = 0;
        ingest.begin(publisher.payload_type, &publisher.sets);
    }

    /// The publisher goes, or never began.
    pub(crate) fn leave(&mut self, stream: usize, now_ns: u64) {
        let LiveStream { publisher, ingest, waits_since_ns, .. } = &mut self.streams[stream];
        if publisher.take().is_some_and(|who| who.recording) {
            ingest.end(now_ns);
            *waits_since_ns = now_ns;
        }
    }

    /// A connection is closed, and whoever published by it gone.
    pub(crate) fn closed(&mut self, connection: usize, now_ns: u64) {
        if let Some(stream) = self.of_connection(connection) {
            self.leave(stream, now_ns);
        }
    }

    /// Takes in what came interleaved on a connection.
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
        publisher.heard_ns = now_ns;
        if let Some(Transport::Interleaved(rtp, _)) = publisher.transport
            && channel == rtp
        {
            self.news |= ingest.packet(packet, now_ns);
        }
    }

    /// Takes in a datagram that came for a stream; from anybody but its publisher it is nothing.
    pub(crate) fn datagram(&mut self, stream: usize, from: SocketAddr, packet: &[u8], now_ns: u64) {
        let LiveStream { publisher, ingest, .. } = &mut self.streams[stream];
        let Some(publisher) = publisher.as_mut().filter(|who| who.recording) else { return };
        let Some(Transport::Udp(rtp, _)) = publisher.transport else { return };
        if from.ip().to_canonical() == publisher.peer && from.port() == rtp {
            publisher.heard_ns = now_ns;
            self.news |= ingest.packet(packet, now_ns);
        }
    }

    /// Gives up packets that were waited for, and publishers that fell silent. Returns the
    /// connections of these.
    pub(crate) fn tick(&mut self, now_ns: u64) -> Vec<usize> {
        let mut silent = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let Some(publisher) = &stream.publisher else { continue };
            self.news |= stream.ingest.expire(now_ns);
            let most_ns = if publisher.recording { self.idle_timeout_ns } else { PATIENCE_NS };
            if now_ns.saturating_sub(publisher.heard_ns) > most_ns {
                silent.push((number, publisher.connection));
            }
        }
        for (stream, _) in &silent {
            self.leave(*stream, now_ns);
        }
        silent.into_iter().map(|(_, connection)| connection).collect()
    }

    /// The titles of streams whose clients have waited long enough for a publisher.
    pub(crate) fn given_up(&mut self, now_ns: u64) -> Vec<usize> {
        let over = |stream: &mut LiveStream| {
            let LiveStream { waits_since_ns, spec, publisher, .. } = stream;
            let recording = publisher.as_ref().is_some_and(|who| who.recording);
            let over = *waits_since_ns != 0
                && !recording
                && now_ns.saturating_sub(*waits_since_ns) > spec.wait_ns;
            if over {
                *waits_since_ns = 0;
            }
            over.then_some(spec.title)
        };
        self.streams.iter_mut().filter_map(over).collect()
    }

    /// Whether there are frames of a stream, or will be again soon.
    pub(crate) fn is_on(&self, stream: usize) -> bool {
        let stream = &self.streams[stream];
        stream.waits_since_ns != 0 || stream.publisher.as_ref().is_some_and(|who| who.recording)
    }

    /// What became of what came, of all streams together.
    pub(crate) fn total(&self) -> Ingested {
        self.standing().fold(Ingested::default(), |sum, (.., of)| sum.plus(of))
    }

    /// Frames of a live stream, by its number + 1 (0: a file), that a client has begun to play and
    /// that are not released to it yet.
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

    /// A frame of a stream that an interleaved client is to get; `None` if it is not there any
    /// more.
    pub(crate) fn copy(
        &mut self,
        stream: usize,
        number: u64,
    ) -> Option<(FrameRecord, Packets<'_>)> {
        let ring = self.streams.get(stream)?.ingest.ring();
        let record = ring.copy(number, &mut self.copied)?.record;
        let Copied { packets, bytes, .. } = &self.copied;
        Some((record, Packets { records: packets, bytes }))
    }

    /// Whether the processor is to be told of frames; once.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Each stream, its publisher, and what became of what came.
    pub(crate) fn standing(
        &self,
    ) -> impl Iterator<Item = (&LiveSpec, Option<&Publisher>, Ingested)> {
        self.streams.iter().map(|stream| {
            let publisher = stream.publisher.as_ref().filter(|who| who.recording);
            (&stream.spec, publisher, stream.ingest.counts())
        })
    }
}
