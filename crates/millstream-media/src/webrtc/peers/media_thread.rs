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
//! str0m does ICE (lite), DTLS, SRTP, retransmissions and feedback. It has no pacer here: the data
//! plane has paced a frame before it arrives. An `Rtc` may change only once between drains of its
//! output, so every change ends in [`MediaThread::drive`].

use millstream_sync::clock::system::now_ns;
use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::{Duration, Instant};
use str0m::media::KeyframeRequestKind;
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpWrite;
use str0m::{Input, Output, Rtc, RtcError};

use super::events::{Signal, signal};
use super::{Command, Counters, MAX_SIGNALS, PeerSignal, Track};
use crate::data_plane::packet_sender::REPORT;
use crate::data_plane::placement::SharedResources;
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

/// The most batches read before a sleep: a flood must not take the processor from other threads,
/// which this one precedes.
const BATCHES: usize = 4;

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
        let title = usize::try_from(row.get(SessionField::Media)).ok()?;
        let media = *self.store.media().get(title)?;
        let is_current = row.get(SessionField::Ssrc) == session_key >> 32;
        is_current.then(|| Client::new(number, title, media, row))
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
    commands: Receiver<Command>,
    signals: SyncSender<PeerSignal>,
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
    /// Whether the socket may have more datagrams.
    more: bool,
}

impl MediaThread {
    /// Opens the socket at `address` for up to `places` peers.
    pub(super) fn open(
        address: SocketAddr,
        places: usize,
        (commands, signals): (Receiver<Command>, SyncSender<PeerSignal>),
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut socket = UdpSocket::bind(address)?;
        let _ = socket2::SockRef::from(&socket).set_send_buffer_size(4 << 20);
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 20);
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
            more: false,
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

    /// Starts the thread. It wakes session control by `to_session_control`.
    pub(super) fn start(
        mut self,
        resources: &SharedResources,
        to_session_control: Arc<Waker>,
    ) -> io::Result<std::thread::JoinHandle<io::Result<()>>> {
        let sources = FrameSources::open(resources)?;
        let ordered = resources.media_thread.try_clone()?;
        let mut source = SourceFd(&ordered.as_raw_fd());
        self.poll.registry().register(&mut source, ORDERS, Interest::READABLE)?;
        self.places = vec![None; sources.region.sessions()];
        let thread = std::thread::Builder::new().name("webrtc".to_owned());
        thread.spawn(move || self.run(sources, &ordered, &to_session_control))
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
            for _ in 0..BATCHES {
                if self.more {
                    self.receive();
                    self.forward_frames(&mut sources);
                }
            }
            let pause = self.poll_peers();
            if self.send_signals() {
                to_session_control.wake()?;
            }
            let pause = if self.more { SHORTEST_SLEEP } else { pause };
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
            match self.commands.try_recv() {
                Ok(Command::Add(place, peer)) => self.add(place, peer),
                Ok(Command::RequestKeyFrame(place)) => self.request_key_frame(place),
                Ok(Command::Close(place)) => self.close(place),
                Ok(Command::DiscardOutcomes) => self.outcomes.clear(),
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
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
        let Some(peer) = &mut self.peers[place] else { return };
        let Some(video) = peer.tracks[0].filter(|_| !peer.ended) else { return };
        if let Some(stream) = peer.rtc.direct_api().stream_rx_by_mid(video.mid, None) {
            stream.request_keyframe(KeyframeRequestKind::Pli);
        }
        self.drive(place, Input::Timeout(Instant::now()));
    }

    /// Tells a peer that its session ends, and removes it.
    fn close(&mut self, place: usize) {
        if let Some(peer) = &mut self.peers[place]
            && !peer.ended
            && peer.rtc.close().is_ok()
        {
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
        let Some(peer) = self.peers[place].as_mut().filter(|peer| !peer.ended) else {
            return false;
        };
        let Some(track) = peer.tracks[kind].filter(|_| peer.connected) else { return false };
        let row = of.client.row;
        let first = row.get(SessionField::SequenceBase).wrapping_add(of.sequence);
        let captured =
            epoch.0 + Duration::from_nanos(track.wall_ns(of.rtp_time).saturating_sub(epoch.1));
        let marks = marks_frames(u8::try_from(of.client.media.payload_type & 127).unwrap_or(0));
        let mut direct = peer.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(track.mid, None) else { return false };
        let records = of.packets.records;
        for ((at, record), number) in records.iter().enumerate().zip(first..) {
            let (header, part) = of.packets.payload(record);
            let payload = [header, part].concat();
            let last = at + 1 == records.len();
            let packet =
                RtpWrite::new(track.payload_type, number.into(), of.rtp_time, captured, payload);
            stream.write_rtp(packet.marker(last && marks).nackable(kind == 0));
        }
        self.drive(place, Input::Timeout(Instant::now()));
        true
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

    /// Reads datagrams of the socket, at most [`BATCH`].
    fn receive(&mut self) {
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
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let now = Instant::now();
        let receive = Receive::new(Protocol::Udp, from, self.address, bytes);
        let Ok(receive) = receive else {
            self.counters.stray_datagrams.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut input = Input::Receive(now, receive);
        let known =
            |peer: &Option<Box<Peer>>| peer.as_ref().is_some_and(|peer| peer.remote == Some(from));
        let accepts = |peer: &Option<Box<Peer>>| {
            peer.as_ref().is_some_and(|peer| !peer.ended && peer.rtc.accepts(&input))
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
        let (socket, signals, counters) = (&self.socket, &mut self.unsent, &self.counters);
        let own = self.address;
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
                        // A lost datagram is repeated when the peer reports it.
                        let to = of_family(packet.destination, own);
                        if socket.send_to(&packet.contents, to).is_err() {
                            counters.unsent_datagrams.fetch_add(1, Ordering::Relaxed);
                        }
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
        // A panic of the library must end one peer, not the server.
        let ran = catch_unwind(AssertUnwindSafe(run));
        if !matches!(ran, Ok(Ok(()))) || !rtc.is_alive() {
            *ended = true;
            signals.push_back((place, *number, Signal::Disconnected));
        }
    }

    /// Sends signals to session control. Returns whether it must be woken for them.
    fn send_signals(&mut self) -> bool {
        let mut wakes = false;
        while let Some(signal) = self.unsent.pop_front() {
            let urgent = !matches!(signal.2, Signal::Estimate(_));
            match self.signals.try_send(signal) {
                Ok(()) => wakes |= urgent,
                Err(TrySendError::Full(signal) | TrySendError::Disconnected(signal)) => {
                    self.unsent.push_front(signal);
                    break;
                }
            }
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
