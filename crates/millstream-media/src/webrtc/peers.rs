//! The WebRTC clients in session control: identities, limits, and what their peers signal.
//!
//! The media thread ([`media_thread`]) has the socket and the `Rtc` of each peer. Session control
//! gives it peers with commands and learns of them by signals. The estimate of a path and requests
//! for key frames go to the client's rows, where the data plane reads them.

mod datagram_batch;
mod events;
mod media_thread;
mod negotiation;

use millstream_scenario::Placement;
use millstream_sync::ring::{Consumer, Producer, ring};
use mio::Waker;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use str0m::RtcConfig;
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::media::{Mid, Pt};

use self::events::Signal;
use self::media_thread::{MediaThread, Peer};
pub(crate) use self::negotiation::Negotiated;
use self::negotiation::candidate_address;
use super::offer::Names;
use super::{Client, Identity, Media, OfferError};
use crate::MediaError;
use crate::data_plane::placement::SharedResources;
use crate::live::publishing::Publishing;
use crate::pages::rejects::limited_address;
use crate::pages::status::WebRtcStatus;
use crate::rtsp::session::{Session, Sessions, random_word};
use crate::scheduler::client::ReportTime;
use crate::shared_memory::region::{GlobalField, RequestedState, SessionField, State};
use crate::wake_socket::AsWakeSocket;

/// How long a peer may take to complete ICE and DTLS, ns.
const SETUP_TIMEOUT_NS: u64 = 10_000_000_000;

/// The least time between two requests for a key frame to a publisher, ns: many viewers may ask.
const KEY_FRAME_INTERVAL_NS: u64 = 500_000_000;

/// The most half-open peers in total and per address.
const MAX_HALF_OPEN: [usize; 2] = [64, 16];

/// The most signals that wait for session control, and that wait in the media thread besides.
const MAX_SIGNALS: usize = 4_096;

/// The most signals that are applied at once: requests of other clients wait meanwhile.
const APPLIED: usize = 256;

/// The most commands that wait for the media thread, before they wait here.
const MAX_COMMANDS: usize = 1_024;

/// A signal with the place and the number of its peer.
type PeerSignal = (usize, u64, Signal);

/// A command of session control to the media thread. Numbers are places of peers.
#[derive(Debug)]
enum Command {
    Add(usize, Box<Peer>),
    RequestKeyFrame(usize),
    /// The peer's session has ended.
    Close(usize),
    /// The data plane has ended: the next one counts frames without an outcome as lost.
    DiscardOutcomes,
    End,
}

/// Counters of the media thread.
#[derive(Debug, Default)]
struct Counters {
    /// Datagrams that belong to no client or are malformed.
    stray_datagrams: AtomicU64,
    /// Datagrams that the kernel refused since session control took this number.
    unsent_datagrams: AtomicU64,
}

/// The WebRTC clients.
#[derive(Debug)]
pub(crate) struct Peers {
    address: SocketAddr,
    /// A word that another run of the server does not have.
    instance: String,
    provider: Arc<CryptoProvider>,
    certificate: DtlsCert,
    places: Vec<Option<Entry>>,
    /// The number of peers so far.
    numbered: u64,
    counts: WebRtcStatus,
    counters: Arc<Counters>,
    commands: Producer<Command>,
    /// Commands that found the ring full.
    waiting: VecDeque<Command>,
    /// Wakes the media thread.
    waker: Waker,
    signals: Consumer<PeerSignal>,
    thread: Thread,
}

/// The media thread.
#[derive(Debug)]
enum Thread {
    Opened(Box<MediaThread>),
    Started(JoinHandle<io::Result<()>>),
    Ended,
}

/// A WebRTC client in session control.
#[derive(Debug)]
struct Entry {
    identity: Identity,
    /// The peer's number, which no other peer has.
    number: u64,
    since_ns: u64,
    last_received_ns: Arc<AtomicU64>,
    connected: bool,
    /// When a key frame was last requested from it, ns.
    requested_ns: u64,
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
    pub(crate) fn open(address: SocketAddr, places: usize) -> Result<Self, MediaError> {
        let (commands, to_execute) = ring(MAX_COMMANDS);
        let (to_apply, signals) = ring(MAX_SIGNALS);
        let counters = Arc::new(Counters::default());
        let open = || -> io::Result<_> {
            let channels = (to_execute, to_apply);
            let thread = MediaThread::open(address, places, channels, Arc::clone(&counters))?;
            Ok((thread.waker()?, thread))
        };
        let (waker, thread) = open().map_err(|error| {
            MediaError::new(format!("UDP port {address}: {error}"))
                .help("another process may use it; set another `webrtc` in [media]")
        })?;
        let provider = str0m::crypto::from_feature_flags();
        let certificate = provider.dtls_provider.generate_certificate();
        let certificate =
            certificate.ok_or_else(|| MediaError::new("no certificate for DTLS".to_owned()))?;
        let instance = random_word().map_or_else(String::new, |word| format!("{word:016x}"));
        Ok(Self {
            address: thread.address(),
            instance,
            provider: provider.into(),
            certificate,
            places: (0..places).map(|_| None).collect(),
            numbered: 0,
            counts: WebRtcStatus::default(),
            counters,
            commands,
            waiting: VecDeque::new(),
            waker,
            signals,
            thread: Thread::Opened(Box::new(thread)),
        })
    }

    /// Starts the media thread; its scheduling class depends on `placement`. It wakes session
    /// control by `to_session_control`. Call [`apply`](Self::apply) then.
    pub(crate) fn start(
        &mut self,
        resources: &SharedResources,
        to_session_control: Arc<Waker>,
        placement: Placement,
    ) -> io::Result<()> {
        match std::mem::replace(&mut self.thread, Thread::Ended) {
            Thread::Opened(thread) => {
                self.thread =
                    Thread::Started(thread.start(resources, to_session_control, placement)?);
            }
            other => self.thread = other,
        }
        Ok(())
    }

    /// Gives the media thread a command.
    fn command(&mut self, command: Command) {
        self.waiting.push_back(command);
        self.give_commands();
    }

    /// Gives the media thread the commands that wait, as far as it has room.
    fn give_commands(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        while !self.commands.is_full()
            && let Some(command) = self.waiting.pop_front()
        {
            let _ = self.commands.push(command);
        }
        let _ = self.waker.wake();
    }

    /// Returns whether there are signals to [apply](Self::apply).
    pub(crate) fn has_signals(&self) -> bool {
        !self.signals.is_empty()
    }

    /// Discards the outcomes of frames after the data plane's end.
    pub(crate) fn discard_outcomes(&mut self) {
        self.command(Command::DiscardOutcomes);
    }

    /// Returns a word that another run of the server does not have.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the number of peers and events.
    pub(crate) fn counts(&self) -> WebRtcStatus {
        let stray_datagrams = self.counters.stray_datagrams.load(Ordering::Relaxed);
        let mut counts = WebRtcStatus { stray_datagrams, ..self.counts };
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
        let rows = match identity.client {
            Client::Viewer(video, audio) => [Some(video), audio],
            Client::Publisher(_) => [None; 2],
        };
        self.numbered += 1;
        let (number, last_received_ns) = (self.numbered, Arc::new(AtomicU64::new(now_ns)));
        self.places[place] = Some(Entry {
            identity,
            number,
            since_ns: now_ns,
            last_received_ns: Arc::clone(&last_received_ns),
            connected: false,
            requested_ns: 0,
        });
        let peer = Peer {
            rtc,
            number,
            rows,
            tracks,
            local,
            remote: None,
            last_received_ns,
            connected: false,
            ended: false,
            due: Instant::now(),
        };
        self.command(Command::Add(place, Box::new(peer)));
    }

    /// Applies the peers' signals to sessions and publications, at most [`APPLIED`].
    ///
    /// # Errors
    /// Fails if the media thread has ended.
    pub(crate) fn apply(
        &mut self,
        sessions: &mut Sessions,
        live: &mut Publishing,
        waker: &impl AsWakeSocket,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let unsent = self.counters.unsent_datagrams.swap(0, Ordering::Relaxed);
        sessions.region.add(GlobalField::SendErrors, unsent);
        let mut wanted = Vec::new();
        self.give_commands();
        for _ in 0..APPLIED {
            let (place, number, signal) = match self.signals.pop() {
                Ok(signal) => signal,
                Err(_) if self.signals.is_abandoned() => return Err(self.failure()),
                Err(_) => break,
            };
            // Another client may have the place of one that has ended.
            let Some(peer) = self.places[place].as_mut().filter(|peer| peer.number == number)
            else {
                continue;
            };
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
                    let stream = title.and_then(|title| live.of_title(title));
                    wanted.extend(stream.filter(|stream| !wanted.contains(stream)));
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
        Ok(())
    }

    /// Returns why the media thread has ended.
    fn failure(&mut self) -> MediaError {
        let why = match std::mem::replace(&mut self.thread, Thread::Ended) {
            Thread::Started(thread) => match thread.join() {
                Ok(Err(error)) => error.to_string(),
                _ => "it ended unexpectedly".to_owned(),
            },
            _ => "it does not run".to_owned(),
        };
        MediaError::new(format!("the media thread of WebRTC: {why}"))
    }

    /// Requests a key frame from the publisher of a stream, if it is a peer.
    fn request_key_frame(
        &mut self,
        stream: usize,
        sessions: &Sessions,
        live: &Publishing,
        now_ns: u64,
    ) {
        let publishes = |peer: &Entry| {
            let Identity { client, .. } = &peer.identity;
            *client == Client::Publisher(stream) && peer.identity.is_current(sessions, live)
        };
        let place = self.places.iter().position(|peer| peer.as_ref().is_some_and(publishes));
        let Some((place, peer)) = place.and_then(|at| Some((at, self.places[at].as_mut()?))) else {
            return;
        };
        if now_ns.saturating_sub(peer.requested_ns) < KEY_FRAME_INTERVAL_NS {
            return;
        }
        peer.requested_ns = now_ns;
        self.command(Command::RequestKeyFrame(place));
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
                    let at_ns = peer.last_received_ns.load(Ordering::Relaxed);
                    row.set(SessionField::RtspReceivedNs, at_ns);
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
        let Some(peer) = self.places[place].take() else { return };
        self.command(Command::Close(place));
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

    /// Removes all peers, tells them that their sessions end, and ends the media thread.
    pub(crate) fn end(&mut self) {
        for place in 0..self.places.len() {
            if self.places[place].take().is_some() {
                self.command(Command::Close(place));
            }
        }
        match std::mem::replace(&mut self.thread, Thread::Ended) {
            Thread::Opened(mut thread) => {
                thread.execute_commands();
                self.thread = Thread::Opened(thread);
            }
            Thread::Started(thread) => {
                self.command(Command::End);
                while !self.waiting.is_empty() && !thread.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                    self.give_commands();
                }
                let _ = thread.join();
            }
            Thread::Ended => {}
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
