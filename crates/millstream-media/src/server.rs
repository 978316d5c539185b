//! Session control: one thread that accepts connections, answers requests and supervises the data
//! plane.
//!
//! [`MediaServer`] composes the parts and runs their event loop. Each part owns its state. The
//! parts are the table of [`connections`] with the [`handover`] of frames to interleaved clients,
//! the [`supervisor`] of the data plane, [`live`] publishing, [`read_ahead`] with its producer,
//! [`cluster_tasks`] and the [`drain`].

mod cluster_tasks;
mod connections;
mod drain;
mod handover;
mod listeners;
mod live;
mod read_ahead;
mod reception;
mod restart;
mod supervisor;

use millstream_scenario::{HookEvent, Media, Scenario, SrtInput};
use millstream_sync::clock::system::now_ns;
use mio::{Events, Poll, Token, Waker};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::MediaError;
use crate::cluster::{ClusterContext, ClusterMoves};
use crate::files::library::{Library, stream_names};
use crate::hls::{self, Hls};
use crate::hooks::observer::Observer;
use crate::hooks::{Hooks, variable};
use crate::live::ingest::Ingested;
use crate::pages::rejects::Reason;
use crate::pages::status::StatusSource;
use crate::pages::{self, PageRequests};
use crate::recording::Recorder;
use crate::recording::directory::rfc3339;
use crate::rtsp::RtspHandler;
use crate::rtsp::access::Access;
use crate::rtsp::authentication::Authenticator;
use crate::rtsp::session::{FrameCounts, Sessions};
use crate::shared_memory::region::GlobalField;
use crate::webrtc::peers::Peers;
use cluster_tasks::ClusterTasks;
use connections::{ConnectionTable, Dependents, Limits};
use drain::{Drain, running_clients};
use handover::FrameSources;
use listeners::{Listener, ListenerSet};
use live::{LiveStreams, TransportSockets};
use read_ahead::ReadAhead;
use reception::ReceptionClass;
use supervisor::{Prepared, Supervisor};

const RTSP: Token = Token(0);
/// Other threads: they request pages, or have parts of HLS or signals of WebRTC clients.
const THREADS: Token = Token(1);
const DATA_PLANE: Token = Token(2);
const RTSPS: Token = Token(3);
const CLUSTER: Token = Token(4);
const PRODUCER: Token = Token(5);
const WEBRTC_HTTP: Token = Token(6);
const RTMP: Token = Token(7);
const HLS: Token = Token(8);
const FIRST_CONNECTION: usize = 9;

/// The interval between checks for timeouts.
const TICK: Duration = Duration::from_millis(100);

/// The number of polls for the last sessions to end, one per 5 ms.
const END_POLLS: u32 = 100;

/// A media server with open ports and loaded files.
#[derive(Debug)]
pub struct MediaServer {
    media: Media,
    poll: Poll,
    listeners: ListenerSet,
    name: String,
    started_ns: u64,
    page_requests: Option<PageRequests>,
    http_address: Option<SocketAddr>,
    server_ports: (u16, u16),
    library: Library,
    authenticator: Authenticator,
    sessions: Sessions,
    adopted: Option<usize>,
    connections: ConnectionTable,
    data_plane: Supervisor,
    cluster: ClusterTasks,
    live: LiveStreams,
    reception: ReceptionClass,
    read_ahead: ReadAhead,
    /// The WebRTC clients, if configured.
    peers: Option<Peers>,
    /// The recordings, if configured.
    recorder: Option<Recorder>,
    /// The hooks, if there are any.
    hooks: Option<(Hooks, Observer)>,
}

/// Whether a server continues, drains or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Keep serving.
    Serve,
    /// Accept no new clients; end after the last clip or after `drain-timeout`.
    Drain,
    /// End immediately.
    End,
}

/// Totals of a server's run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Admitted clients.
    pub admitted: u64,
    /// Clients refused for lack of bandwidth.
    pub refused: u64,
    /// Clients refused while the server drained.
    pub turned_away: u64,
    /// Requests with a wrong password or token.
    pub wrong_credentials: u64,
    /// Connections and sessions above the limit per address.
    pub too_many: [u64; 2],
    /// Requests rejected unread during the back-off after wrong credentials.
    pub backed_off: u64,
    /// Connections refused because the connection table was full.
    pub full: u64,
    /// Connections without a complete request that were closed in favour of another.
    pub evicted: u64,
    /// Connections closed because the client read nothing for `stall-timeout`.
    pub stalled: u64,
    /// Clients that still played at the end of `drain-timeout`.
    pub cut_off: u64,
    /// Frame counts of all clients.
    pub account: FrameCounts,
    /// Clients redirected, taken over or yielded by the cluster.
    pub moves: ClusterMoves,
    /// Ingest counts of all live streams.
    pub ingested: Ingested,
    /// Data planes started: 1 if none crashed.
    pub processors: u64,
    /// Scheduling decisions.
    pub decisions: u64,
    /// Time spent in scheduler and dispatch, ns, without the kernel's send time.
    pub scheduling_ns: u64,
    /// Time spent in the kernel's send calls, ns.
    pub sending_ns: u64,
}

impl MediaServer {
    /// Loads the scenario's files, opens the ports and starts the data plane.
    ///
    /// # Errors
    /// Fails if a file cannot be served or a port cannot be opened.
    pub fn open(scenario: &Scenario) -> Result<Self, MediaError> {
        Self::open_confined(scenario, &mut || ())
    }

    /// Opens the server like [`open`](Self::open), but calls `confine` once files are loaded and
    /// privileged ports are open. `confine` runs before the first thread or process starts, so that
    /// they inherit the dropped privileges.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_confined(
        scenario: &Scenario,
        confine: &mut dyn FnMut(),
    ) -> Result<Self, MediaError> {
        let library = Library::open(scenario)?;
        let media = scenario.media.clone();
        let file = |name: &Option<std::path::PathBuf>| {
            name.as_ref().map(|name| scenario.folder.join(name))
        };
        let (users, tokens) = (file(&media.users), file(&media.tokens));
        let access = Access::read(users.as_deref(), tokens.as_deref(), &media.realm)?;
        // Each track of a live stream has two ports.
        let ports = 2 * library.live.iter().filter(|live| !live.plays_recordings).count() as u64;
        let transport = TransportSockets::open(&library.live)?;
        let sockets = ports + transport.len() as u64;
        listeners::allow_files(u64::from(media.connections) + sockets);
        let poll = Poll::new().map_err(|error| failed("waiting for clients", &error))?;
        if media.hls.is_some() && !library.live.iter().any(hls::is_playable) {
            let help = "HLS plays live streams with `codec = \"h264\"`: add one, or remove the key";
            return Err(MediaError::new("`hls` in [media]: no live stream has H.264").help(help));
        }
        let registry = poll.registry();
        let mut listeners = ListenerSet::open(&media, &scenario.folder)?;
        let http = media.http.map(Listener::open).transpose()?;
        let http_address = http.as_ref().map(|listener| listener.address);
        let sessions = media.sessions as usize;
        let webrtc = listeners.webrtc.as_ref().map(|listener| listener.address);
        let mut peers = webrtc.map(|address| Peers::open(address, sessions)).transpose()?;
        let prepared = Prepared::open(&library, scenario)?;
        let (found, region) = (prepared.is_running(), prepared.resources.region);
        let rtsp = listeners.rtsp.address;
        let cluster = ClusterTasks::join(scenario, &library, rtsp, webrtc, registry, region)?;
        let mut recorder = Recorder::open(scenario, &library.live)?;
        let on_demand = library.live.iter().filter_map(|live| live.on_demand.as_ref());
        let on_demand: Vec<_> = on_demand.map(|on_demand| &on_demand.command[..]).collect();
        let srt = transport.srt_commands(&library.live, &scenario.folder)?;
        let hooks = Hooks::start(&media.hooks, &on_demand, &srt, rtsp.port())
            .map_err(|error| failed("the process that runs hooks", &error))?;
        let waker = Waker::new(registry, THREADS).map(Arc::new);
        let waker = waker.map_err(|error| failed("wake-ups by other threads", &error))?;
        confine();
        if let Some(peers) = &mut peers {
            let (resources, waker) = (&prepared.resources, Arc::clone(&waker));
            let started = peers.start(resources, waker, media.placement);
            started.map_err(|error| failed("the media thread of WebRTC", &error))?;
        }
        let data_plane = Supervisor::start(prepared, media.placement, registry)?;
        let resources = data_plane.resources();
        let read_ahead = ReadAhead::open(resources, media.frame_path, registry)?;
        region.set(GlobalField::IdleTimeoutNs, media.idle_timeout_ns);
        let port = |socket: &UdpSocket| socket.local_addr().map(|address| address.port());
        let ports = || -> io::Result<_> { Ok((port(&resources.rtp)?, port(&resources.rtcp)?)) };
        let server_ports = ports().map_err(|error| failed("a port", &error))?;
        listeners.register(registry).map_err(|error| failed("a port", &error))?;
        let streams = stream_names(scenario).into_iter().map(str::to_owned).collect();
        let pages = |listener: Listener| {
            let waker = Arc::clone(&waker);
            let recordings = recorder.as_ref().map(|recorder| recorder.directory().clone());
            let instructions = (region, media.instructions);
            pages::serve(listener.into_std(), waker, instructions, streams, recordings)
        };
        let page_requests =
            http.map(pages).transpose().map_err(|error| failed("the HTTP pages", &error))?;
        let mut live =
            LiveStreams::open(&library, &access, &media, resources, found, transport, registry)?;
        if let Some(recorder) = &mut recorder {
            recorder.tap(&library, &mut live.publishing);
            let sender = hooks.as_ref().map(|hooks| hooks.sender().clone());
            let started = recorder.start(Box::new(move |file, path| {
                let Some(sender) = &sender else { return };
                let path = variable("FILE", &path.to_string_lossy());
                let time = |name, time_ms| variable(name, &rfc3339(time_ms));
                let times = [time("START", file.start_ms), time("END", file.end_ms)];
                let variables = [&[path], &times[..]].concat();
                sender.event(HookEvent::Segment, &file.stream, file.start_ms, &variables);
            }));
            started.map_err(|error| failed("the thread of the recordings", &error))?;
        }
        if listeners.hls.is_some() {
            live.publishing.hls = Hls::start(&mut live.publishing.streams, waker)
                .map_err(|error| failed("the thread of HLS", &error))?;
        }
        let limits = Limits {
            per_address: media.max_connections_per_address() as usize,
            idle_timeout_ns: media.idle_timeout_ns,
            stall_timeout_ns: media.stall_timeout_ns,
            frame_bytes: library.live.iter().map(|live| live.burst_bytes).max().unwrap_or(0)
                as usize,
        };
        let registry =
            registry.try_clone().map_err(|error| failed("waiting for clients", &error))?;
        let connections = ConnectionTable::new(media.connections, limits, registry);
        let mut sessions = Sessions::new(region, scenario.link.rate_bps);
        sessions.video_rows = media.sessions as usize;
        sessions.per_address = media.max_sessions_per_address() as usize;
        let adopted = found.then(|| sessions.adopt(&library, data_plane.waker()));
        Ok(Self {
            authenticator: Authenticator::new(access),
            sessions,
            adopted,
            reception: ReceptionClass::new(media.placement, peers.is_some()),
            media,
            poll,
            listeners,
            name: scenario.name.clone(),
            started_ns: now_ns(),
            page_requests,
            http_address,
            server_ports,
            library,
            connections,
            data_plane,
            cluster,
            live,
            read_ahead,
            peers,
            recorder,
            hooks: hooks.map(|hooks| (hooks, Observer::default())),
        })
    }

    /// Returns the address of the RTSP listener.
    #[must_use]
    pub fn rtsp_address(&self) -> SocketAddr {
        self.listeners.rtsp.address
    }

    /// Returns the address of the RTSP listener over TLS, if configured.
    #[must_use]
    pub fn rtsps_address(&self) -> Option<SocketAddr> {
        self.listeners.rtsps.as_ref().map(|(listener, _)| listener.address)
    }

    /// Returns the address of WebRTC requests and packets, if configured.
    #[must_use]
    pub fn webrtc_address(&self) -> Option<SocketAddr> {
        self.listeners.webrtc.as_ref().map(|listener| listener.address)
    }

    /// Returns the address of HLS players, if configured.
    #[must_use]
    pub fn hls_address(&self) -> Option<SocketAddr> {
        self.listeners.hls.as_ref().map(|listener| listener.address)
    }

    /// Returns the names of the streams that HLS can play; `NAME/*` for the paths of a stream.
    pub fn hls_streams(&self) -> impl Iterator<Item = &str> {
        let of = self.live.publishing.streams.iter().map(|stream| &stream.spec);
        // All paths of a stream have one name here.
        let of = of.filter(|spec| hls::is_playable(spec) && spec.path.is_none_or(|path| path == 0));
        of.map(|spec| spec.name.as_str())
    }

    /// Returns the address of RTMP publishers, if configured.
    #[must_use]
    pub fn rtmp_address(&self) -> Option<SocketAddr> {
        self.listeners.rtmp.as_ref().map(|listener| listener.address)
    }

    /// Returns the names of the live streams that receive transport streams over UDP, and the
    /// address of each.
    pub fn transport_addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.live.transport_addresses()
    }

    /// Returns the names of the live streams that SRT brings, and the connection of each.
    pub fn srt_inputs(&self) -> impl Iterator<Item = (&str, &SrtInput)> {
        let of = self.live.publishing.streams.iter().map(|stream| &stream.spec);
        of.filter_map(|spec| Some((spec.name.as_str(), spec.srt.as_ref()?)))
    }

    /// Returns the address of the HTTP pages, if configured.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Returns the id of the data-plane process, if it is a separate process.
    #[must_use]
    pub fn data_plane_id(&self) -> Option<u32> {
        self.data_plane.id()
    }

    /// The former name of [`data_plane_id`](Self::data_plane_id).
    #[must_use]
    #[deprecated(note = "renamed to `data_plane_id`")]
    pub fn processor_id(&self) -> Option<u32> {
        self.data_plane_id()
    }

    /// Returns the id of the producer process, if one runs.
    #[must_use]
    pub fn producer_id(&self) -> Option<u32> {
        self.read_ahead.producer_id()
    }

    /// Returns the number of clients adopted with a running data plane; `None` if none was found.
    #[must_use]
    pub fn adopted(&self) -> Option<usize> {
        self.adopted
    }

    /// Returns the names of the streams.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        let own = self.library.titles.iter().filter(|title| title.is_stream());
        own.map(|title| title.name.as_str())
    }

    /// Runs the server, polling `mode` at least every 100 ms. Ends every session when `mode`
    /// returns [`ShutdownMode::End`] or the server has drained.
    ///
    /// # Errors
    /// Fails if waiting for events fails or the data plane cannot be restarted.
    pub fn run(mut self, mode: &mut dyn FnMut() -> ShutdownMode) -> Result<Report, MediaError> {
        let mut events = Events::with_capacity(256);
        let mut ticked = Instant::now();
        let mut drain = None;
        let mut turn_began_ns = now_ns();
        loop {
            match mode() {
                ShutdownMode::Serve => {}
                ShutdownMode::Drain => {
                    if self.is_drained(&mut drain) {
                        break;
                    }
                }
                ShutdownMode::End => break,
            }
            let pause = self.run_cluster_tasks();
            let pause = self.connections.poll_slow(self.sessions.region, pause);
            let unfinished = self.connections.has_unfinished()
                || self.live.has_unfinished()
                || self.peers.as_ref().is_some_and(Peers::has_signals);
            let pause = if unfinished { Duration::ZERO } else { pause };
            self.end_turn(turn_began_ns);
            match self.poll.poll(&mut events, Some(pause)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("waiting for clients", &error)),
            }
            turn_began_ns = now_ns();
            for event in &events {
                self.handle(event.token())?;
                turn_began_ns = self.end_turn(turn_began_ns);
            }
            self.apply_peer_signals()?;
            self.live.receive_unfinished();
            self.live.wake_if_released(self.data_plane.waker());
            for place in self.connections.take_unfinished() {
                self.serve(place);
                turn_began_ns = self.end_turn(turn_began_ns);
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
            }
        }
        let cut_off = drain.map_or(0, |drain| drain.cut_off());
        self.reception.leave();
        self.end();
        Ok(self.report(cut_off))
    }

    /// Accounts the time since `began_ns` to the class of session control. Returns the time now.
    fn end_turn(&mut self, began_ns: u64) -> u64 {
        let now_ns = now_ns();
        self.reception.end_turn(began_ns, now_ns);
        now_ns
    }

    /// Begins a drain unless one runs, and returns whether it is over.
    fn is_drained(&mut self, drain: &mut Option<Drain>) -> bool {
        let running = running_clients(&self.sessions, &self.connections);
        (self.sessions.draining, self.live.draining) = (true, true);
        let timeout_ns = self.media.drain_timeout_ns;
        drain.get_or_insert_with(|| Drain::begin(timeout_ns, running)).is_over(running)
    }

    fn run_cluster_tasks(&mut self) -> Duration {
        self.cluster.run(&mut ClusterContext {
            library: &self.library,
            sessions: &mut self.sessions,
            waker: self.data_plane.waker(),
            idle_timeout_ns: self.media.idle_timeout_ns,
        })
    }

    /// Handles an event of the socket with this token.
    fn handle(&mut self, token: Token) -> Result<(), MediaError> {
        match token {
            RTSP | RTSPS | WEBRTC_HTTP | HLS | RTMP => {
                let mut dependents = Dependents {
                    sessions: &mut self.sessions,
                    live: &mut self.live.publishing,
                    waker: self.data_plane.waker(),
                };
                self.connections.accept(&self.listeners, token, &mut dependents);
            }
            THREADS => {
                self.answer_pages();
                self.serve_hls();
            }
            DATA_PLANE => self.handle_data_plane_event()?,
            PRODUCER => {
                let resources = self.data_plane.resources();
                self.read_ahead.handle_producer_event(resources, self.poll.registry())?;
            }
            // `run_cluster_tasks` reads the socket in every iteration.
            CLUSTER => {}
            token if self.live.receive_datagrams(token) => {
                self.live.wake_if_released(self.data_plane.waker());
            }
            Token(token) => self.serve(token - FIRST_CONNECTION),
        }
        Ok(())
    }

    /// Receives parts of HLS, and answers the requests that waited for them.
    fn serve_hls(&mut self) {
        let (hls, now_ns) = (&mut self.live.publishing.hls, now_ns());
        hls.receive(now_ns);
        hls.tick(now_ns).into_iter().for_each(|place| self.serve(place));
    }

    /// Serves the connection at `place`.
    fn serve(&mut self, place: usize) {
        let mut handler = RtspHandler {
            library: &self.library,
            sessions: &mut self.sessions,
            authenticator: &mut self.authenticator,
            live: &mut self.live.publishing,
            cluster: self.cluster.cluster(),
            waker: self.data_plane.waker(),
            server_ports: self.server_ports,
            local: self.listeners.rtsp.address,
            idle_timeout_ns: self.media.idle_timeout_ns,
            request_bytes: self.media.request_bytes,
            now_ns: now_ns(),
        };
        self.connections.serve(place, &mut handler, &mut self.peers);
    }

    fn answer_pages(&self) {
        self.data_plane.announce_instructions();
        let Some(page_requests) = &self.page_requests else { return };
        let source = StatusSource {
            name: &self.name,
            started_ns: self.started_ns,
            separate_process: self.data_plane.is_separate_process(),
            library: &self.library,
            sessions: &self.sessions,
            live: &self.live.publishing,
            reading: self.read_ahead.reading(),
            webrtc: self.peers.as_ref().map(Peers::counts),
            recorder: self.recorder.as_ref(),
            hooks: self.hooks.as_ref().map(|(hooks, _)| hooks),
        };
        pages::answer(page_requests, source);
    }

    /// Handles a wake-up from the data plane, or its end.
    fn handle_data_plane_event(&mut self) -> Result<(), MediaError> {
        let connected = self.data_plane.drain();
        self.forward_frames();
        if connected {
            return Ok(());
        }
        self.connections.discard_pending_frames();
        if let Some(peers) = &mut self.peers {
            peers.discard_outcomes();
        }
        self.data_plane.restart(self.poll.registry())
    }

    fn forward_frames(&mut self) {
        let mut sources = FrameSources {
            library: &self.library,
            read_ahead: &mut self.read_ahead,
            live: &mut self.live.publishing,
        };
        self.connections.forward_frames(&mut self.sessions, &mut sources);
    }

    /// Applies what the media thread has signalled.
    fn apply_peer_signals(&mut self) -> Result<(), MediaError> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let (sessions, live) = (&mut self.sessions, &mut self.live.publishing);
        peers.apply(sessions, live, self.data_plane.waker(), now_ns())
    }

    /// Ends connections, sessions and publications that have timed out.
    fn tick(&mut self) {
        let now_ns = now_ns();
        self.forward_frames();
        let waker = self.data_plane.waker();
        for place in self.live.publishing.tick(now_ns) {
            let live = &mut self.live.publishing;
            let mut dependents = Dependents { sessions: &mut self.sessions, live, waker };
            self.connections.close(place, &mut dependents);
        }
        self.live.tick_transport(now_ns);
        let ended = self.live.publishing.play_recordings(&self.sessions, now_ns);
        self.live.wake_if_released(waker);
        self.live.publishing.release_paths(&self.sessions);
        self.reception.wanted = self.live.publishing.is_receiving();
        for title in self.live.publishing.timed_out_titles(now_ns).into_iter().chain(ended) {
            self.sessions.stop_title(title, waker);
        }
        if let Some(peers) = &mut self.peers {
            peers.tick(&mut self.sessions, &mut self.live.publishing, waker, now_ns);
        }
        if let Some((hooks, observer)) = &mut self.hooks {
            hooks.receive();
            let seen = (&self.library, &self.live.publishing, &self.sessions);
            observer.observe(hooks.sender(), seen, now_ns);
        }
        self.run_on_demand(now_ns);
        self.serve_hls();
        let waker = self.data_plane.waker();
        let last_received_ns = |place| self.connections.last_received_ns(place);
        let timeout_ns = self.media.idle_timeout_ns;
        self.sessions.stop_silent(now_ns, timeout_ns, waker, last_received_ns);
        let live = &mut self.live.publishing;
        let mut dependents = Dependents { sessions: &mut self.sessions, live, waker };
        self.connections.close_expired(now_ns, &mut dependents);
        // The data plane's last orders for stopped sessions are RTCP BYE packets.
        let stopped = self.sessions.stopped();
        self.forward_frames();
        self.sessions.sweep(&stopped);
    }

    /// Begins and ends the commands that publish streams on demand, and answers the requests that
    /// waited for them.
    fn run_on_demand(&mut self, now_ns: u64) {
        let Some((hooks, _)) = &self.hooks else { return };
        let (sessions, titles) = (&self.sessions, &self.library.titles);
        let played = |stream: usize| {
            sessions.iter().any(|(_, session)| titles[session.title].live == Some(stream))
        };
        let live = &mut self.live.publishing;
        let due = live.tick_on_demand(played, sessions.draining, now_ns);
        let streams = &live.streams;
        let name = |stream: usize| streams[stream].name.as_str();
        live.on_demand.send_changes(|change| hooks.sender().change(change, name));
        due.into_iter().for_each(|place| self.serve(place));
    }

    /// Ends every session, then the data plane.
    fn end(&mut self) {
        self.sessions.stop_all(self.data_plane.waker());
        if let Some(peers) = &mut self.peers {
            peers.end();
        }
        for _ in 0..END_POLLS {
            self.sessions.sweep(&self.sessions.stopped());
            if self.sessions.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.data_plane.end();
        self.read_ahead.end();
        self.live.end_transport(now_ns());
        let live = &mut self.live.publishing;
        (0..live.streams.len()).for_each(|stream| live.leave(stream, now_ns()));
        if let Some(recorder) = &mut self.recorder {
            recorder.end();
        }
        if let Some((hooks, observer)) = &mut self.hooks {
            observer.end(hooks.sender());
            hooks.end();
        }
        if let Some(path) = &self.media.socket {
            let _ = std::fs::remove_file(path);
        }
    }

    fn report(&self, cut_off: u64) -> Report {
        let (sessions, region) = (&self.sessions, self.data_plane.region());
        let rejected = |reason| sessions.rejects.count(reason);
        Report {
            admitted: sessions.admitted,
            refused: sessions.refused,
            turned_away: sessions.turned_away,
            wrong_credentials: rejected(Reason::Credentials),
            too_many: [Reason::Connections, Reason::Sessions].map(rejected),
            backed_off: rejected(Reason::BackOff),
            full: rejected(Reason::Full),
            evicted: rejected(Reason::Evicted),
            stalled: sessions.stalled,
            cut_off,
            moves: sessions.moves,
            ingested: self.live.publishing.total(),
            account: sessions.total(),
            processors: region.get(GlobalField::Generation),
            decisions: region.get(GlobalField::Decisions),
            scheduling_ns: region.get(GlobalField::SchedulingNs),
            sending_ns: region.get(GlobalField::SendingNs),
        }
    }
}

fn failed(what: &str, error: &io::Error) -> MediaError {
    MediaError::new(format!("{what}: {error}"))
}
