//! The media thread: one `Rtc` of str0m for each WebRTC client, and the UDP socket that they share.
//!
//! ```text
//! data plane ── orders ──> media thread ── SRTP ──> viewers
//!            <─ outcomes ──   │    ^
//!               signals ──────┘    └────── commands
//!                     session control (`Peers`)
//! ```
//! With `placement = "ni"` the thread has the class of the data plane, so that neither other
//! programs nor the requests of session control delay frames. Frames of the data plane are sent
//! before datagrams are read.
//!
//! str0m does ICE (lite), DTLS, SRTP, retransmissions and feedback. Streams are unpaced: the data
//! plane has paced a frame before it arrives. An `Rtc` may change only once between drains of its
//! output, so every change ends in [`MediaThread::drive`]. A panic of the library ends one peer
//! only.
//!
//! The thread precedes those that it communicates with, so it never waits for them: rings carry
//! commands and signals. A flood of datagrams takes at most about half of its time.

use millstream_scenario::Placement;
use millstream_sync::clock::system::now_ns;
use millstream_sync::ring::{Consumer, Producer};
use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::SockRef;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use str0m::media::KeyframeRequestKind;
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpWrite;
use str0m::{Input, Output, Rtc, RtcError};

use super::datagram_batch::DatagramBatch;
use super::events::{Signal, signal};
use super::{Command, Counters, MAX_SIGNALS, PeerSignal, Track};
use crate::data_plane::packet_sender::REPORT;
use crate::data_plane::placement::{SharedResources, enter_real_time_class};
use crate::payload::marks_frames;
use crate::rtp::low_u32;
use crate::scheduler::client::{Client, Descriptor, ReportTime};
use crate::scheduler::dispatch::Sending;
use crate::shared_memory::frame_cache::FrameCache;
use crate::shared_memory::live_frames::{self, FrameBuffer};
use crate::shared_memory::region::{Region, SessionField};
use crate::shared_memory::store::{FrameRecord, Packets, Store};
use crate::wake_socket::reset;

/// The most datagrams read before the orders of the data plane are executed.
const BATCH: usize = 32;

/// Of each interval, at most this time is for reading datagrams.
const READING_TIME: Duration = Duration::from_micros(500);
const READING_INTERVAL: Duration = Duration::from_millis(1);

/// The longest datagram of a peer, bytes.
const MAX_DATAGRAM_BYTES: usize = 2_000;

/// The shortest sleep.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The longest sleep.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The time after which signals that found the channel full are sent again.
const RETRY: Duration = Duration::from_millis(5);

const DATAGRAMS: Token = Token(0);
const ORDERS: Token = Token(1);
/// The commands of session control.
pub(super) const COMMANDS: Token = Token(2);

/// A WebRTC client in the media thread.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) rtc: Rtc,
    /// The number that no other peer has.
    pub(super) number: u64,
    /// The rows of a viewer: video and audio.
    pub(super) rows: [Option<usize>; 2],
    /// Video and audio.
    pub(super) tracks: [Option<Track>; 2],
    pub(super) local: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    pub(super) last_received_ns: Arc<AtomicU64>,
    pub(super) connected: bool,
    /// Whether the peer has ended or the library has failed: then the library is not called again.
    pub(super) ended: bool,
    /// When the `Rtc` must be polled.
    pub(super) due: Instant,
}

/// The frames that the data plane orders to be sent.
struct FrameSources {
    region: Region,
    store: Store,
    frame_cache: Option<FrameCache>,
    copied: FrameBuffer,
}

impl FrameSources {
    fn open(resources: &SharedResources) -> io::Result<Self> {
        let mut store = Store::open(&resources.store)?;
        store.rings = live_frames::read(&resources.live)?;
        let has_files = !resources.media_files.is_empty();
        let frame_cache =
            has_files.then(|| FrameCache::open(&resources.frame_cache)).transpose()?;
        let (region, copied) = (resources.region, FrameBuffer::default());
        Ok(Self { region, store, frame_cache, copied })
    }

    /// Returns the client of an order; `None` if it has ended.
    fn client(&self, session_key: u64) -> Option<Client> {
        let number = low_u32(session_key) as usize;
        if number >= self.region.sessions() {
            return None;
        }
        let row = self.region.session(number);
        let is_current = || row.get(SessionField::Ssrc) == session_key >> 32;
        let title = usize::try_from(row.get(SessionField::Media)).ok()?;
        let media = *self.store.media().get(title)?;
        let client = is_current().then(|| Client::new(number, title, media, row));
        // Another client may have begun to take the row.
        client.filter(|_| is_current())
    }

    /// Returns a frame's record and packets; `None` if it was overwritten.
    fn frame(&mut self, client: &Client, frame: &Descriptor) -> Option<(FrameRecord, Packets<'_>)> {
        if let Some(ring) = client.ring() {
            let record = self.store.rings.get(ring)?.copy(frame.number, &mut self.copied)?.record;
            let FrameBuffer { packets, bytes, .. } = &self.copied;
            return Some((record, Packets { records: packets, bytes }));
        }
        let record = client.frame(frame, &self.store);
        let packets = self.store.packets(&record);
        if client.media.media_file == 0 {
            return Some((record, packets));
        }
        let to = self.copied.replace();
        let found = self.frame_cache?.copy(client.session, frame.number, record.length, to);
        found.then_some((record, Packets { bytes: &self.copied.bytes, ..packets }))
    }
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct MediaThread {
    poll: Poll,
    socket: UdpSocket,
    address: SocketAddr,
    commands: Consumer<Command>,
    signals: Producer<PeerSignal>,
    counters: Arc<Counters>,
    peers: Vec<Option<Box<Peer>>>,
    /// The place of the peer of a session's row.
    places: Vec<Option<usize>>,
    /// An instant in both clocks.
    epoch: (Instant, u64),
    /// Signals that have not been sent.
    unsent: VecDeque<PeerSignal>,
    /// Outcomes that found the ring full; the data plane bounds the number of frames without one.
    outcomes: VecDeque<[u64; 4]>,
    buffer: Vec<u8>,
    /// The datagrams to the peer that is driven.
    batch: DatagramBatch,
    /// Whether the socket may have more datagrams.
    more: bool,
    /// The end of the reading interval, and the time that is left for reading in it.
    reading: (Instant, Duration),
    /// Whether datagrams do not wake the thread, as no time is left to read them.
    is_deaf: bool,
}

impl MediaThread {
    /// Opens the socket at `address` for up to `places` peers.
    pub(super) fn open(
        address: SocketAddr,
        places: usize,
        (commands, signals): (Consumer<Command>, Producer<PeerSignal>),
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut socket = UdpSocket::bind(address)?;
        let _ = SockRef::from(&socket).set_send_buffer_size(4 << 20);
        let _ = SockRef::from(&socket).set_recv_buffer_size(1 << 20);
        poll.registry().register(&mut socket, DATAGRAMS, Interest::READABLE)?;
        Ok(Self {
            poll,
            address: socket.local_addr()?,
            socket,
            commands,
            signals,
            counters,
            peers: (0..places).map(|_| None).collect(),
            places: Vec::new(),
            epoch: (Instant::now(), now_ns()),
            unsent: VecDeque::new(),
            outcomes: VecDeque::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            batch: DatagramBatch::new(),
            more: false,
            reading: (Instant::now(), Duration::ZERO),
            is_deaf: false,
        })
    }

    /// Returns the address of the socket.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a waker of the thread, for commands. Call once.
    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), COMMANDS)
    }

    /// Starts the thread. It wakes session control by `to_session_control`, and has the data
    /// plane's class if the data plane has a process of its own and the system permits it.
    pub(super) fn start(
        mut self,
        resources: &SharedResources,
        to_session_control: Arc<Waker>,
        placement: Placement,
    ) -> io::Result<std::thread::JoinHandle<io::Result<()>>> {
        let sources = FrameSources::open(resources)?;
        let ordered = resources.media_thread.try_clone()?;
        let mut source = SourceFd(&ordered.as_raw_fd());
        self.poll.registry().register(&mut source, ORDERS, Interest::READABLE)?;
        self.places = vec![None; sources.region.sessions()];
        let thread = std::thread::Builder::new().name("webrtc".to_owned());
        thread.spawn(move || {
            if placement != Placement::Host
                && let Err(error) = enter_real_time_class()
            {
                eprintln!("media thread: no real-time priority: {error}");
            }
            self.run(sources, &ordered, &to_session_control)
        })
    }

    fn run(
        mut self,
        mut sources: FrameSources,
        ordered: &File,
        to_session_control: &Waker,
    ) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        while self.execute_commands() {
            self.forward_frames(&mut sources);
            while self.may_read()? {
                self.receive();
                self.forward_frames(&mut sources);
            }
            let pause = self.poll_peers();
            if self.send_signals() {
                to_session_control.wake()?;
            }
            let pause = match self.reading {
                (end, _) if self.more => end.saturating_duration_since(Instant::now()),
                _ => pause,
            };
            let pause = if self.unsent.is_empty() { pause } else { pause.min(RETRY) };
            match self.poll.poll(&mut events, Some(pause)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    DATAGRAMS => self.more = true,
                    ORDERS => reset(ordered),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Executes the commands of session control. Returns whether the thread continues.
    pub(super) fn execute_commands(&mut self) -> bool {
        loop {
            match self.commands.pop() {
                Ok(Command::Add(place, peer)) => self.add(place, peer),
                Ok(Command::RequestKeyFrame(place)) => self.request_key_frame(place),
                Ok(Command::Close(place)) => self.close(place),
                Ok(Command::DiscardOutcomes) => self.outcomes.clear(),
                Ok(Command::End) => return false,
                Err(_) => return !self.commands.is_abandoned(),
            }
        }
    }

    fn add(&mut self, place: usize, peer: Box<Peer>) {
        for row in peer.rows.into_iter().flatten() {
            if let Some(of) = self.places.get_mut(row) {
                *of = Some(place);
            }
        }
        self.peers[place] = Some(peer);
    }

    /// Requests a key frame from a publisher.
    fn request_key_frame(&mut self, place: usize) {
        let request = |peer: &mut Peer| {
            let mid = peer.tracks[0]?.mid;
            let mut direct = peer.rtc.direct_api();
            direct.stream_rx_by_mid(mid, None)?.request_keyframe(KeyframeRequestKind::Pli);
            Some(())
        };
        if self.call(place, request).flatten().is_some() {
            self.drive(place, Input::Timeout(Instant::now()));
        }
    }

    /// Calls the library for a peer that has not ended.
    fn call<T>(&mut self, place: usize, run: impl FnOnce(&mut Peer) -> T) -> Option<T> {
        let peer = self.peers.get_mut(place)?.as_deref_mut().filter(|peer| !peer.ended)?;
        let result = catch_unwind(AssertUnwindSafe(|| run(peer)));
        if result.is_err() {
            peer.ended = true;
            self.unsent.push_back((place, peer.number, Signal::Disconnected));
        }
        result.ok()
    }

    /// Tells a peer that its session ends, and removes it.
    fn close(&mut self, place: usize) {
        if self.call(place, |peer| peer.rtc.close().is_ok()) == Some(true) {
            self.drive(place, Input::Timeout(Instant::now()));
        }
        self.peers[place] = None;
    }

    /// Executes the orders of the data plane.
    fn forward_frames(&mut self, sources: &mut FrameSources) {
        let (orders, outcomes) = (sources.region.webrtc_orders(), sources.region.webrtc_outcomes());
        while let Some([session_key, frame, sequence, at_ns]) = orders.pop() {
            let Some(client) = sources.client(session_key) else { continue };
            if frame == REPORT {
                let at = ReportTime { rtp_time: low_u32(sequence), at_ns };
                self.report(client.session, at, sequence >> 32 != 0);
                continue;
            }
            let frame = Descriptor::numbered(frame);
            let number = frame.number;
            let sent = sources.frame(&client, &frame).is_some_and(|(record, packets)| {
                let rtp_time = client.rtp_time(&frame, &record);
                let client = &client;
                self.send(&Sending { client, frame, packets, rtp_time, sequence })
            });
            let sent_ns = if sent { now_ns().max(1) } else { 0 };
            self.outcomes.push_back([session_key, number, sent_ns, 0]);
        }
        while let Some(outcome) = self.outcomes.front()
            && outcomes.push(*outcome)
        {
            self.outcomes.pop_front();
        }
    }

    /// Returns the peer of a session's row: its place, and 0 for video or 1 for audio.
    fn peer_of(&self, session: usize) -> Option<(usize, usize)> {
        let place = (*self.places.get(session)?)?;
        let peer = self.peers[place].as_ref()?;
        Some((place, peer.rows.iter().position(|row| *row == Some(session))?))
    }

    /// Sends a frame that the data plane scheduled. Returns whether its peer is connected.
    ///
    /// A frame counts as sent once its packets are encrypted and given to the kernel.
    fn send(&mut self, of: &Sending<'_>) -> bool {
        let epoch = self.epoch;
        let Some((place, kind)) = self.peer_of(of.client.session) else { return false };
        let first = of.client.row.get(SessionField::SequenceBase).wrapping_add(of.sequence);
        let marks = marks_frames(u8::try_from(of.client.media.payload_type & 127).unwrap_or(0));
        let write = |peer: &mut Peer| {
            let track = peer.tracks[kind].filter(|_| peer.connected)?;
            let wall_ns = track.wall_ns(of.rtp_time);
            let captured = epoch.0 + Duration::from_nanos(wall_ns.saturating_sub(epoch.1));
            let mut direct = peer.rtc.direct_api();
            let stream = direct.stream_tx_by_mid(track.mid, None)?;
            let records = of.packets.records;
            for ((at, record), number) in records.iter().enumerate().zip(first..) {
                let (header, part) = of.packets.payload(record);
                let payload = [header, part].concat();
                let last = at + 1 == records.len();
                let (kind_of, number) = (track.payload_type, number.into());
                let packet = RtpWrite::new(kind_of, number, of.rtp_time, captured, payload);
                stream.write_rtp(packet.marker(last && marks).nackable(kind == 0));
            }
            Some(())
        };
        let written = self.call(place, write).flatten().is_some();
        if written {
            self.drive(place, Input::Timeout(Instant::now()));
        }
        written
    }

    /// Records the data plane's sender report of a row: str0m sends its own. A goodbye ends the
    /// peer.
    fn report(&mut self, session: usize, at: ReportTime, bye: bool) {
        let Some((place, kind)) = self.peer_of(session) else { return };
        let Some(peer) = &mut self.peers[place] else { return };
        if let Some(track) = &mut peer.tracks[kind] {
            track.instant = at;
        }
        if bye {
            self.unsent.push_back((place, peer.number, Signal::Disconnected));
        }
    }

    /// Returns whether there are datagrams to read, and time to do so. Without time, datagrams do
    /// not wake the thread until the interval ends.
    fn may_read(&mut self) -> io::Result<bool> {
        if !self.more {
            return Ok(false);
        }
        let now = Instant::now();
        let (end, left) = &mut self.reading;
        if now >= *end {
            (*end, *left) = (now + READING_INTERVAL, READING_TIME);
        }
        let is_deaf = left.is_zero();
        if is_deaf != std::mem::replace(&mut self.is_deaf, is_deaf) {
            let (registry, socket) = (self.poll.registry(), &mut self.socket);
            match is_deaf {
                true => registry.deregister(socket)?,
                false => registry.register(socket, DATAGRAMS, Interest::READABLE)?,
            }
        }
        Ok(!is_deaf)
    }

    /// Reads datagrams of the socket, at most [`BATCH`].
    fn receive(&mut self) {
        let began = Instant::now();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut read = 0;
        while read < BATCH
            && let Ok((length, from)) = self.socket.recv_from(&mut buffer)
        {
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            self.datagram(from, &buffer[..length]);
            read += 1;
        }
        // Events are edge-triggered: there is none for what is left.
        self.more = read == BATCH;
        self.buffer = buffer;
        self.reading.1 = self.reading.1.saturating_sub(began.elapsed());
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let now = Instant::now();
        let parse = || Receive::new(Protocol::Udp, from, self.address, bytes);
        let Ok(Ok(receive)) = catch_unwind(AssertUnwindSafe(parse)) else {
            self.counters.stray_datagrams.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut input = Input::Receive(now, receive);
        let known =
            |peer: &Option<Box<Peer>>| peer.as_ref().is_some_and(|peer| peer.remote == Some(from));
        let accepts = |peer: &Option<Box<Peer>>| {
            let accepts = |peer: &Peer| !peer.ended && peer.rtc.accepts(&input);
            let accepts = || peer.as_deref().is_some_and(accepts);
            catch_unwind(AssertUnwindSafe(accepts)).unwrap_or(false)
        };
        let place = self.peers.iter().position(known).filter(|place| accepts(&self.peers[*place]));
        let place = place.or_else(|| self.peers.iter().position(accepts));
        let Some((place, peer)) = place.and_then(|at| Some((at, self.peers[at].as_mut()?))) else {
            self.counters.stray_datagrams.fetch_add(1, Ordering::Relaxed);
            return;
        };
        peer.remote = Some(from);
        let at_ns = self.epoch.1 + since(self.epoch.0, now);
        peer.last_received_ns.store(at_ns, Ordering::Relaxed);
        if let Input::Receive(_, receive) = &mut input {
            receive.destination = peer.local;
        }
        self.drive(place, input);
    }

    /// Polls the peers that are due. Returns the time until the next one is, at most [`MAX_SLEEP`].
    fn poll_peers(&mut self) -> Duration {
        let now = Instant::now();
        let mut next = now + MAX_SLEEP;
        for place in 0..self.peers.len() {
            let is_due = |peer: &Peer| !peer.ended && peer.due <= now;
            if self.peers[place].as_deref().is_some_and(is_due) {
                self.drive(place, Input::Timeout(now));
            }
            if let Some(peer) = self.peers[place].as_deref().filter(|peer| !peer.ended) {
                next = next.min(peer.due);
            }
        }
        next.saturating_duration_since(now).max(SHORTEST_SLEEP)
    }

    /// Gives an `Rtc` one input and sends all its output.
    fn drive(&mut self, place: usize, input: Input<'_>) {
        let Some(peer) = self.peers.get_mut(place).and_then(Option::as_mut) else { return };
        let (signals, counters, batch) = (&mut self.unsent, &self.counters, &mut self.batch);
        let (socket, own) = (|| SockRef::from(&self.socket), self.address);
        // A lost datagram is repeated when the peer reports it.
        let count = |unsent: usize| {
            counters.unsent_datagrams.fetch_add(unsent as u64, Ordering::Relaxed);
        };
        let Peer { rtc, number, tracks, connected, ended, due, .. } = &mut **peer;
        let run = || -> Result<(), RtcError> {
            rtc.handle_input(input)?;
            let mut has_sent = false;
            loop {
                match rtc.poll_output()? {
                    // The pacer gives one packet for each timeout. The next packets of the frame
                    // must not wait for the shortest sleep.
                    Output::Timeout(at) if has_sent && at <= Instant::now() => {
                        has_sent = false;
                        rtc.handle_input(Input::Timeout(Instant::now()))?;
                    }
                    Output::Timeout(at) => {
                        *due = at;
                        return Ok(());
                    }
                    Output::Transmit(packet) => {
                        has_sent = true;
                        let to = of_family(packet.destination, own);
                        count(batch.push(socket(), to, &packet.contents));
                    }
                    Output::Event(event) => {
                        let signal = signal(&event, rtc, tracks);
                        *connected |= matches!(signal, Some(Signal::Connected));
                        // Session control may be slower than a publisher.
                        let has_room = signals.len() < MAX_SIGNALS;
                        let kept = signal.filter(|signal| has_room || !signal.may_be_lost());
                        signals.extend(kept.map(|signal| (place, *number, signal)));
                    }
                }
            }
        };
        let ran = catch_unwind(AssertUnwindSafe(run));
        count(batch.flush(socket()));
        if !matches!(ran, Ok(Ok(()))) || !rtc.is_alive() {
            *ended = true;
            signals.push_back((place, *number, Signal::Disconnected));
        }
    }

    /// Sends signals to session control. Returns whether it must be woken for them.
    fn send_signals(&mut self) -> bool {
        let mut wakes = false;
        while !self.signals.is_full()
            && let Some(signal) = self.unsent.pop_front()
        {
            wakes |= !matches!(signal.2, Signal::Estimate(_));
            let _ = self.signals.push(signal);
        }
        wakes
    }
}

/// Returns an address in the family of the socket `own`: one of IPv6 sends to IPv4, too.
fn of_family(to: SocketAddr, own: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(address) if own.is_ipv6() => {
            SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
        }
        _ => to,
    }
}

/// Returns the time from `earlier` to `later`, ns.
fn since(earlier: Instant, later: Instant) -> u64 {
    u64::try_from(later.saturating_duration_since(earlier).as_nanos()).unwrap_or(u64::MAX)
}
