//! The peers: one `Rtc` of str0m for each WebRTC client, and the UDP socket that they share.
//!
//! str0m does ICE (lite), DTLS, SRTP, retransmissions and feedback. It has no pacer here: the data
//! plane has paced a frame before it arrives. Its estimate of the path and requests for key frames
//! go to the client's rows, where the data plane reads them.
//!
//! An `Rtc` may change only once between drains of its output, so every change ends in
//! [`Peers::drive`].

mod events;
mod negotiation;

use millstream_sync::clock::system::now_ns;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::media::{KeyframeRequestKind, Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpWrite;
use str0m::{Input, Output, Rtc, RtcConfig, RtcError};

use self::events::{Signal, signal};
pub(crate) use self::negotiation::Negotiated;
use self::negotiation::candidate_address;
use super::offer::Names;
use super::{Client, Identity, Media, OfferError};
use crate::MediaError;
use crate::live::publishing::Publishing;
use crate::pages::rejects::limited_address;
use crate::pages::status::WebRtcStatus;
use crate::payload::marks_frames;
use crate::rtsp::session::{Session, Sessions, random_word};
use crate::scheduler::client::ReportTime;
use crate::scheduler::dispatch::Sending;
use crate::server::WEBRTC;
use crate::shared_memory::region::{GlobalField, RequestedState, SessionField, State};
use crate::wake_socket::AsWakeSocket;

/// How long a peer may take to complete ICE and DTLS, ns.
const SETUP_TIMEOUT_NS: u64 = 10_000_000_000;

/// The least time between two requests for a key frame to a publisher, ns: many viewers may ask.
const KEY_FRAME_INTERVAL_NS: u64 = 500_000_000;

/// The most half-open peers in total and per address.
const MAX_HALF_OPEN: [usize; 2] = [64, 16];

/// The most datagrams read at once: a flood must not stop session control.
const BATCH: usize = 256;

/// The longest datagram of a peer, bytes.
const MAX_DATAGRAM_BYTES: usize = 2_000;

/// The WebRTC clients.
#[derive(Debug)]
pub(crate) struct Peers {
    socket: UdpSocket,
    address: SocketAddr,
    /// A word that another run of the server does not have.
    instance: String,
    provider: std::sync::Arc<CryptoProvider>,
    certificate: DtlsCert,
    places: Vec<Option<Box<Peer>>>,
    /// An instant in both clocks.
    epoch: (Instant, u64),
    signals: Vec<(usize, Signal)>,
    counts: WebRtcStatus,
    /// Datagrams that the kernel refused since the last [`apply`](Self::apply).
    unsent: u64,
    buffer: Vec<u8>,
    /// Whether the socket may have more datagrams.
    more: bool,
}

#[derive(Debug)]
struct Peer {
    rtc: Rtc,
    identity: Identity,
    /// Video and audio.
    tracks: [Option<Track>; 2],
    local: SocketAddr,
    remote: Option<SocketAddr>,
    since_ns: u64,
    last_received_ns: u64,
    connected: bool,
    /// Whether the library has failed: then it is not called again.
    failed: bool,
    /// When a key frame was last requested from it, ns.
    requested_ns: u64,
    /// When the `Rtc` must be polled.
    due: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    mid: Mid,
    payload_type: Pt,
    clock_rate: u32,
    /// The last sender report of the data plane.
    instant: ReportTime,
}

impl Track {
    /// Returns the time of the machine's clock that belongs to an RTP timestamp, ns.
    fn wall_ns(&self, rtp_time: u32) -> u64 {
        let ticks = i64::from(rtp_time.wrapping_sub(self.instant.rtp_time).cast_signed());
        let since_ns = ticks * 1_000_000_000 / i64::from(self.clock_rate.max(1));
        self.instant.at_ns.wrapping_add_signed(since_ns)
    }
}

impl Peers {
    /// Opens the socket at `address` for up to `places` peers.
    pub(crate) fn open(
        address: SocketAddr,
        places: usize,
        registry: &Registry,
    ) -> Result<Self, MediaError> {
        let open = || -> io::Result<_> {
            let mut socket = UdpSocket::bind(address)?;
            let _ = socket2::SockRef::from(&socket).set_send_buffer_size(4 << 20);
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(1 << 20);
            registry.register(&mut socket, WEBRTC, Interest::READABLE)?;
            Ok((socket.local_addr()?, socket))
        };
        let (address, socket) = open().map_err(|error| {
            MediaError::new(format!("UDP port {address}: {error}"))
                .help("another process may use it; set another `webrtc` in [media]")
        })?;
        let provider = str0m::crypto::from_feature_flags();
        let certificate = provider.dtls_provider.generate_certificate();
        let certificate =
            certificate.ok_or_else(|| MediaError::new("no certificate for DTLS".to_owned()))?;
        let instance = random_word().map_or_else(String::new, |word| format!("{word:016x}"));
        Ok(Self {
            socket,
            address,
            instance,
            provider: provider.into(),
            certificate,
            places: (0..places).map(|_| None).collect(),
            epoch: (Instant::now(), now_ns()),
            signals: Vec::new(),
            counts: WebRtcStatus::default(),
            unsent: 0,
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            more: false,
        })
    }

    /// Returns a word that another run of the server does not have.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the number of peers and events.
    pub(crate) fn counts(&self) -> WebRtcStatus {
        let mut counts = self.counts;
        for peer in self.places.iter().flatten() {
            match &peer.identity.client {
                _ if !peer.connected => counts.half_open += 1,
                Client::Viewer(..) => counts.viewers += 1,
                Client::Publisher(_) => counts.publishers += 1,
            }
        }
        counts
    }

    pub(crate) fn count_refused_offer(&mut self) {
        self.counts.refused_offers += 1;
    }

    /// Returns why no further peer of this address is accepted, if a limit is reached.
    pub(crate) fn reject(&self, address: IpAddr) -> Option<&'static str> {
        let half_open = || self.places.iter().flatten().filter(|peer| !peer.connected);
        if half_open().count() >= MAX_HALF_OPEN[0] {
            return Some("too many clients are connecting");
        }
        let own = half_open()
            .filter(|peer| limited_address(peer.identity.address) == limited_address(address))
            .count();
        (own >= MAX_HALF_OPEN[1]).then_some("too many clients of your address are connecting")
    }

    /// Answers an offer of a client that is connected to the address `connected`. `names` are those
    /// of its tracks.
    pub(crate) fn negotiate(
        &self,
        offer: &str,
        names: &Names,
        connected: IpAddr,
        media: &Media,
    ) -> Result<Negotiated, OfferError> {
        let configuration = RtcConfig::new()
            .set_crypto_provider(self.provider.clone())
            .set_dtls_cert(self.certificate.clone());
        let local = candidate_address(self.address, connected);
        let answer = || negotiation::negotiate(configuration, local, (offer, names), media);
        let failed = |_| Err(OfferError::Malformed("the offer cannot be processed".to_owned()));
        catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(failed)
    }

    /// Returns a free place; `None` if there is none.
    pub(crate) fn next_place(&self) -> Option<usize> {
        self.places.iter().position(Option::is_none)
    }

    /// Adds a peer at [`next_place`](Self::next_place).
    pub(crate) fn add(&mut self, negotiated: Negotiated, identity: Identity, now_ns: u64) {
        let Some(place) = self.next_place() else { return };
        let Negotiated { rtc, local, tracks, .. } = negotiated;
        self.places[place] = Some(Box::new(Peer {
            rtc,
            identity,
            tracks,
            local,
            remote: None,
            since_ns: now_ns,
            last_received_ns: now_ns,
            connected: false,
            failed: false,
            requested_ns: 0,
            due: Instant::now(),
        }));
    }

    /// Reads datagrams of the socket, at most [`BATCH`]. Call [`apply`](Self::apply) afterwards.
    pub(crate) fn receive(&mut self) {
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
            self.counts.stray_datagrams += 1;
            return;
        };
        let mut input = Input::Receive(now, receive);
        let known =
            |peer: &Option<Box<Peer>>| peer.as_ref().is_some_and(|peer| peer.remote == Some(from));
        let accepts =
            |peer: &Option<Box<Peer>>| peer.as_ref().is_some_and(|peer| peer.rtc.accepts(&input));
        let place =
            self.places.iter().position(known).filter(|place| accepts(&self.places[*place]));
        let place = place.or_else(|| self.places.iter().position(accepts));
        let Some((place, peer)) = place.and_then(|at| Some((at, self.places[at].as_mut()?))) else {
            self.counts.stray_datagrams += 1;
            return;
        };
        peer.remote = Some(from);
        peer.last_received_ns = self.epoch.1 + since(self.epoch.0, now);
        if let Input::Receive(_, receive) = &mut input {
            receive.destination = peer.local;
        }
        self.drive(place, input);
    }

    /// Polls the peers that are due. Returns the time until the next one is, at most `pause`. Call
    /// [`apply`](Self::apply) afterwards.
    pub(crate) fn poll(&mut self, pause: Duration) -> Duration {
        if self.more {
            self.receive();
        }
        let now = Instant::now();
        let mut next = now + pause;
        for place in 0..self.places.len() {
            if self.places[place].as_ref().is_some_and(|peer| peer.due <= now) {
                self.drive(place, Input::Timeout(now));
            }
            if let Some(peer) = &self.places[place] {
                next = next.min(peer.due);
            }
        }
        if self.more {
            return Duration::ZERO;
        }
        next.saturating_duration_since(now).max(Duration::from_millis(1)).min(pause)
    }

    /// Sends a frame that the data plane scheduled for the peer at `place`. Returns whether the
    /// peer is connected. Call [`apply`](Self::apply) afterwards.
    pub(crate) fn send(&mut self, place: usize, of: &Sending<'_>) -> bool {
        let epoch = self.epoch;
        let Some(peer) = self.places.get_mut(place).and_then(Option::as_mut) else { return false };
        let Client::Viewer(video, _) = peer.identity.client else { return false };
        let is_audio = of.client.session != video;
        let Some(track) = peer.tracks[usize::from(is_audio)].filter(|_| peer.connected) else {
            return false;
        };
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
            stream.write_rtp(packet.marker(last && marks).nackable(!is_audio));
        }
        self.drive(place, Input::Timeout(Instant::now()));
        true
    }

    /// Records the data plane's sender report of a row: str0m sends its own. A goodbye ends the
    /// peer.
    pub(crate) fn report(&mut self, place: usize, row: usize, at: ReportTime, bye: bool) {
        let Some(peer) = self.places.get_mut(place).and_then(Option::as_mut) else { return };
        let Client::Viewer(video, _) = peer.identity.client else { return };
        if let Some(track) = &mut peer.tracks[usize::from(row != video)] {
            track.instant = at;
        }
        if bye {
            self.signals.push((place, Signal::Disconnected));
        }
    }

    /// Gives an `Rtc` one input and sends all its output. A peer that fails is gone.
    fn drive(&mut self, place: usize, input: Input<'_>) {
        let Some(peer) = self.places.get_mut(place).and_then(Option::as_mut) else { return };
        let (socket, signals, unsent) = (&self.socket, &mut self.signals, &mut self.unsent);
        let own = self.address;
        let run = || -> Result<(), RtcError> {
            peer.rtc.handle_input(input)?;
            loop {
                match peer.rtc.poll_output()? {
                    Output::Timeout(due) => {
                        peer.due = due;
                        return Ok(());
                    }
                    Output::Transmit(packet) => {
                        // A lost datagram is repeated when the peer reports it.
                        let to = of_family(packet.destination, own);
                        let sent = socket.send_to(&packet.contents, to);
                        *unsent += u64::from(sent.is_err());
                    }
                    Output::Event(event) => {
                        let signal = signal(&event, &peer.rtc, &peer.tracks);
                        signals.extend(signal.map(|signal| (place, signal)));
                    }
                }
            }
        };
        // A panic of the library must end one peer, not the server.
        let ran = catch_unwind(AssertUnwindSafe(run));
        peer.failed |= !matches!(ran, Ok(Ok(())));
        if peer.failed || !peer.rtc.is_alive() {
            self.signals.push((place, Signal::Disconnected));
        }
    }

    /// Applies the peers' events to sessions and publications.
    pub(crate) fn apply(
        &mut self,
        sessions: &mut Sessions,
        live: &mut Publishing,
        waker: &impl AsWakeSocket,
        now_ns: u64,
    ) {
        sessions.region.add(GlobalField::SendErrors, std::mem::take(&mut self.unsent));
        let mut wanted = Vec::new();
        for (place, signal) in std::mem::take(&mut self.signals) {
            let Some(peer) = &mut self.places[place] else { continue };
            // Another client may have the place of one that has ended.
            if !matches!(signal, Signal::Disconnected) && !peer.identity.is_current(sessions, live)
            {
                continue;
            }
            match (signal, &peer.identity.client) {
                (Signal::Connected, client) => {
                    peer.connected = true;
                    match client {
                        Client::Viewer(video, _) => {
                            for track in sessions.tracks(*video) {
                                sessions.request_state(track, RequestedState::Play, waker);
                            }
                        }
                        Client::Publisher(stream) => live.record(*stream, now_ns),
                    }
                }
                (Signal::KeyFrame, Client::Viewer(video, _)) => {
                    self.counts.key_frame_requests += 1;
                    sessions.region.session(*video).add(SessionField::KeyFramesWanted, 1);
                    let title = sessions.get(*video).map(|session| session.title);
                    wanted.extend(title.and_then(|title| live.of_title(title)));
                }
                (Signal::Estimate(bps), Client::Viewer(video, _)) => {
                    sessions.region.session(*video).set(SessionField::PathBps, bps);
                }
                (Signal::Packet(track, packet), Client::Publisher(stream)) => {
                    live.webrtc_packet(*stream, track == 1, &packet, now_ns);
                }
                (Signal::Report(track, ntp, rtp_time), Client::Publisher(stream)) => {
                    live.webrtc_report(*stream, track == 1, (ntp, rtp_time), now_ns);
                }
                (Signal::Disconnected, _) => self.remove(place, sessions, live, waker, now_ns),
                _ => {}
            }
        }
        for stream in wanted {
            self.request_key_frame(stream, sessions, live, now_ns);
        }
        if live.take_frames_released() {
            waker.wake();
        }
    }

    /// Requests a key frame from the publisher of a stream, if it is a peer.
    fn request_key_frame(
        &mut self,
        stream: usize,
        sessions: &Sessions,
        live: &Publishing,
        now_ns: u64,
    ) {
        let publishes = |peer: &Peer| {
            let Identity { client, .. } = &peer.identity;
            *client == Client::Publisher(stream) && peer.identity.is_current(sessions, live)
        };
        let place = self.places.iter().position(|peer| peer.as_deref().is_some_and(publishes));
        let Some((place, peer)) = place.and_then(|at| Some((at, self.places[at].as_mut()?))) else {
            return;
        };
        if now_ns.saturating_sub(peer.requested_ns) < KEY_FRAME_INTERVAL_NS {
            return;
        }
        peer.requested_ns = now_ns;
        let Some(video) = peer.tracks[0] else { return };
        if let Some(stream) = peer.rtc.direct_api().stream_rx_by_mid(video.mid, None) {
            stream.request_keyframe(KeyframeRequestKind::Pli);
        }
        self.drive(place, Input::Timeout(Instant::now()));
    }

    /// Removes peers without a session or publication, and those that take too long to connect.
    /// Records when the others last sent something.
    pub(crate) fn tick(
        &mut self,
        sessions: &mut Sessions,
        live: &mut Publishing,
        waker: &impl AsWakeSocket,
        now_ns: u64,
    ) {
        for place in 0..self.places.len() {
            let Some(peer) = &self.places[place] else { continue };
            let slow = !peer.connected && now_ns.saturating_sub(peer.since_ns) > SETUP_TIMEOUT_NS;
            let is_current = peer.identity.is_current(sessions, live);
            let serves = match peer.identity.client {
                Client::Viewer(video, _) if is_current => {
                    let row = sessions.region.session(video);
                    row.set(SessionField::RtspReceivedNs, peer.last_received_ns);
                    !sessions.tracks(video).is_empty()
                }
                _ => is_current,
            };
            if slow || !serves {
                self.remove(place, sessions, live, waker, now_ns);
            }
        }
        // Browsers send a key frame only on request; clients of any transport begin at one.
        let waits = |(number, session): (usize, &Session)| {
            let row = sessions.region.session(number);
            let waits = row.state() == State::Playing && row.get(SessionField::From) != 0;
            live.of_title(session.title).filter(|_| waits)
        };
        let waiting: Vec<usize> = sessions.iter().filter_map(waits).collect();
        for stream in waiting {
            self.request_key_frame(stream, sessions, live, now_ns);
        }
    }

    /// Closes a peer and ends its session or publication.
    fn remove(
        &mut self,
        place: usize,
        sessions: &mut Sessions,
        live: &mut Publishing,
        waker: &impl AsWakeSocket,
        now_ns: u64,
    ) {
        self.close(place);
        let Some(peer) = self.places[place].take() else { return };
        if !peer.identity.is_current(sessions, live) {
            return;
        }
        match peer.identity.client {
            Client::Viewer(video, _) => {
                for track in sessions.tracks(video) {
                    sessions.request_state(track, RequestedState::Stop, waker);
                }
            }
            Client::Publisher(stream) => live.leave(stream, now_ns),
        }
    }

    /// Tells a peer that its session ends.
    fn close(&mut self, place: usize) {
        let Some(peer) = &mut self.places[place] else { return };
        if !peer.failed && peer.rtc.close().is_ok() {
            let signals = self.signals.len();
            self.drive(place, Input::Timeout(Instant::now()));
            self.signals.truncate(signals);
        }
    }

    /// Removes all peers and tells them that their sessions end.
    pub(crate) fn end(&mut self) {
        for place in 0..self.places.len() {
            self.close(place);
            self.places[place] = None;
        }
    }
}

impl Identity {
    /// Returns whether the client's session or publication still exists.
    fn is_current(&self, sessions: &Sessions, live: &Publishing) -> bool {
        match self.client {
            Client::Viewer(video, _) => sessions.get(video).is_some_and(|of| of.id == self.id),
            Client::Publisher(stream) => {
                live.streams[stream].publisher.as_ref().is_some_and(|of| of.id == self.id)
            }
        }
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
