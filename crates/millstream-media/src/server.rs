//! Session control: one thread that accepts connections, answers requests and supervises the data
//! plane.

mod clustered;
mod drain;
mod handover;
mod listeners;
mod live;
mod read_ahead;
mod serving;

use millstream_scenario::{Media, Placement, Scenario};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::MediaError;
use crate::clock::now_ns;
use crate::cluster::{Cluster, ClusterMoves};
use crate::data_plane::placement::{self, Processor, SharedResources};
use crate::data_plane::{drain, ring};
use crate::files::library::Library;
use crate::files::read_ahead::frame_cache;
use crate::instruction::api;
use crate::live::frames;
use crate::live::ingest::Ingested;
use crate::live::publishing::Publishing;
use crate::pages::rejects::Reason;
use crate::pages::status::About;
use crate::pages::{self, Questions};
use crate::rtsp::access::Access;
use crate::rtsp::access::backoff::BackOff;
use crate::rtsp::connection::Connection;
use crate::rtsp::session::{Account, Sessions};
use crate::rtsp::tcp;
use crate::shared_memory::region::{GlobalField, Region, SessionField, Want};
use crate::shared_memory::store::Store;
use drain::Drain;
use listeners::{Listener, ListenerSet};
use live::PublisherSockets;
use read_ahead::ReadAhead;

const RTSP: Token = Token(0);
const PAGES: Token = Token(1);
const BELL: Token = Token(2);
const RTSPS: Token = Token(3);
const CLUSTER: Token = Token(4);
const PRODUCER: Token = Token(5);
const FIRST_CONNECTION: usize = 6;

/// The interval between checks for timeouts.
const TICK: Duration = Duration::from_millis(100);

/// The shortest time between two restarts of a data plane that crashes; bounds the restart rate.
const RESTART: Duration = Duration::from_millis(50);

/// A data plane that ends sooner counts as failed; `SHORT_LIVES` consecutive failures end the
/// server.
const SHORT_LIFE: Duration = Duration::from_secs(1);
const SHORT_LIVES: u32 = 10;

/// The number of polls, 5 ms apart, for the last sessions to end.
const LAST_RINGS: u32 = 100;

/// A media server with open ports and loaded files.
#[derive(Debug)]
pub struct MediaServer {
    media: Media,
    poll: Poll,
    listeners: ListenerSet,
    name: String,
    started_ns: u64,
    questions: Option<Questions>,
    http_address: Option<SocketAddr>,
    server_ports: (u16, u16),
    library: Library,
    access: Access,
    back_off: BackOff,
    sessions: Sessions,
    resources: SharedResources,
    processor: Processor,
    adopted: Option<usize>,
    started: Instant,
    short_lives: u32,
    waker: UnixStream,
    connections: Vec<Option<Connection>>,
    /// Indices of connections whose clients read too slowly.
    behind: Vec<usize>,
    cluster: Option<Cluster>,
    live: Publishing,
    publisher_sockets: PublisherSockets,
    media_files: ReadAhead,
}

/// The mode in which a server continues.
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
    pub account: Account,
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
    /// If a file cannot be served or a port cannot be opened.
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
        listeners::allow_files(u64::from(media.connections));
        let poll = Poll::new().map_err(|error| failed("waiting for clients", &error))?;
        let mut listeners = ListenerSet::open(&media, &scenario.folder)?;
        let http = media.http.map(Listener::open).transpose()?;
        let http_address = http.as_ref().map(|listener| listener.address);
        let (resources, running) = match find(&library, scenario)? {
            Some((processor, resources, waker)) => (resources, Some((processor, waker))),
            None => (new_resources(&library, scenario)?, None),
        };
        let found = running.is_some();
        let cluster =
            clustered::join(scenario, &library, listeners.rtsp.address, &poll, resources.region)?;
        confine();
        let (processor, waker) = match running {
            Some(running) => running,
            None => Processor::start(media.placement, &resources)
                .map_err(|error| failed("the data plane process", &error))?,
        };
        let media_files = ReadAhead::open(&resources, media.frame_path, &poll)?;
        let region = resources.region;
        region.set(GlobalField::IdleTimeoutNs, media.idle_timeout_ns);
        let port = |socket: &UdpSocket| socket.local_addr().map(|address| address.port());
        let ports = || -> io::Result<_> { Ok((port(&resources.rtp)?, port(&resources.rtcp)?)) };
        let server_ports = ports().map_err(|error| failed("a port", &error))?;
        let mut waker = UnixStream::from_std(waker);
        let mut register = |poll: &Poll| -> io::Result<()> {
            listeners.register(poll.registry())?;
            poll.registry().register(&mut waker, BELL, Interest::READABLE)
        };
        register(&poll).map_err(|error| failed("a port", &error))?;
        let streams = scenario.streams.iter().map(|stream| stream.name.clone()).collect();
        let pages = |listener: Listener| {
            let waker = Waker::new(poll.registry(), PAGES)?;
            pages::serve(listener.into_std(), waker, (region, media.instructions), streams)
        };
        let questions =
            http.map(pages).transpose().map_err(|error| failed("the HTTP pages", &error))?;
        let (live, publisher_sockets) =
            live::open(&library, &access, &media, &resources, found, &poll)?;
        let connections = (0..media.connections).map(|_| None).collect();
        let mut sessions = Sessions::new(region, scenario.link.rate_bps);
        sessions.per_address = media.most_sessions_per_address() as usize;
        let adopted = found.then(|| sessions.adopt(&library, &waker));
        Ok(Self {
            access,
            back_off: BackOff::default(),
            sessions,
            adopted,
            media,
            poll,
            listeners,
            name: scenario.name.clone(),
            started_ns: now_ns(),
            questions,
            http_address,
            server_ports,
            library,
            resources,
            processor,
            started: Instant::now(),
            short_lives: 0,
            waker,
            connections,
            behind: Vec::new(),
            cluster,
            live,
            publisher_sockets,
            media_files,
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

    /// Returns the address of the HTTP pages, if configured.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Returns the id of the data-plane process, if it is a separate process.
    #[must_use]
    pub fn processor_id(&self) -> Option<u32> {
        self.processor.id()
    }

    /// Returns the id of the producer process, if one runs.
    #[must_use]
    pub fn producer_id(&self) -> Option<u32> {
        self.media_files.producer_id()
    }

    /// Returns the number of clients adopted with a running data plane; `None` if none was found.
    #[must_use]
    pub fn adopted(&self) -> Option<usize> {
        self.adopted
    }

    /// Returns the names of the streams.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        let own = self.library.titles.iter().filter(|title| title.looser_than.is_none());
        own.map(|title| title.name.as_str())
    }

    /// Runs the server, polling `mode` at least every 100 ms. Ends every session when `mode`
    /// says so or when the server has drained.
    ///
    /// # Errors
    /// If waiting for events fails or the data plane cannot be restarted.
    pub fn run(mut self, mode: &mut dyn FnMut() -> ShutdownMode) -> Result<Report, MediaError> {
        let mut events = Events::with_capacity(256);
        let mut ticked = Instant::now();
        let mut drain = None;
        loop {
            match mode() {
                ShutdownMode::Serve => {}
                ShutdownMode::Drain => {
                    if drain.get_or_insert_with(|| Drain::begin(&mut self)).is_over(&self) {
                        break;
                    }
                }
                ShutdownMode::End => break,
            }
            let pause = self.attend_cluster();
            let pause = self.attend_behind(pause);
            match self.poll.poll(&mut events, Some(pause)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("waiting for clients", &error)),
            }
            for event in &events {
                match event.token() {
                    token @ (RTSP | RTSPS) => self.accept(token),
                    PAGES => self.answer_pages(),
                    BELL => self.rung()?,
                    PRODUCER => self.attend_producer()?,
                    // `attend_cluster` reads the socket in every iteration.
                    CLUSTER => {}
                    token if self.take_in(token) => {}
                    Token(token) => self.serve(token - FIRST_CONNECTION),
                }
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
            }
        }
        let cut_off = drain.map_or(0, |drain| drain.cut_off());
        Ok(Report { cut_off, ..self.end() })
    }

    fn answer_pages(&self) {
        if self.resources.region.get(GlobalField::LookAtBoard) != 0 {
            ring(&self.waker);
        }
        let Some(questions) = &self.questions else { return };
        let about = About {
            name: &self.name,
            started_ns: self.started_ns,
            apart: self.media.placement != Placement::Host,
            library: &self.library,
            sessions: &self.sessions,
            live: &self.live,
            reading: self.media_files.reading(),
        };
        pages::answer(questions, about);
    }

    /// Handles a wake-up from the data plane, or its end.
    fn rung(&mut self) -> Result<(), MediaError> {
        let there = drain(&mut self.waker);
        self.pass_on();
        if there {
            return Ok(());
        }
        self.forget_frames();
        let why = self.processor.wait().unwrap_or_else(|| "it ended by itself".to_owned());
        if self.media.placement == Placement::Host {
            return Err(MediaError::new(format!("scheduler and dispatch failed: {why}")));
        }
        self.short_lives =
            if self.started.elapsed() < SHORT_LIFE { self.short_lives + 1 } else { 0 };
        if self.short_lives == SHORT_LIVES {
            let message = format!("{SHORT_LIVES} data plane processes died at once: {why}");
            return Err(MediaError::new(message).help("placement = \"host\" does without one"));
        }
        eprintln!("the data plane process is gone ({why}); starting another");
        std::thread::sleep(RESTART.saturating_sub(self.started.elapsed()));
        let (processor, waker) = Processor::start(self.media.placement, &self.resources)
            .map_err(|error| failed("the data plane process", &error))?;
        let _ = self.poll.registry().deregister(&mut self.waker);
        self.waker = UnixStream::from_std(waker);
        self.processor = processor;
        self.started = Instant::now();
        let registry = self.poll.registry();
        registry
            .register(&mut self.waker, BELL, Interest::READABLE)
            .map_err(|error| failed("the data plane's waker", &error))
    }

    /// Closes connections and sessions that have timed out.
    fn tick(&mut self) {
        let now_ns = now_ns();
        self.pass_on();
        self.tick_live(now_ns);
        let timeout_ns = self.media.idle_timeout_ns;
        let mut stop = Vec::new();
        for (number, session) in self.sessions.iter() {
            let row = self.sessions.region.session(number);
            if let Some(Some(connection)) = self.connections.get(session.connection) {
                row.set(SessionField::HostHeardNs, connection.heard_ns);
            }
            let heard_ns = row.get(SessionField::HostHeardNs).max(row.get(SessionField::HeardNs));
            if now_ns.saturating_sub(heard_ns) > timeout_ns && row.want() != Want::Stop {
                stop.push(number);
            }
        }
        for number in stop {
            self.sessions.want(number, Want::Stop, &self.waker);
        }
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            let idle = now_ns.saturating_sub(connection.heard_ns) > timeout_ns
                && self.sessions.of_connection(place).is_empty()
                && self.live.of_connection(place).is_none();
            let stalled = connection.is_stalled(now_ns, self.media.stall_timeout_ns);
            if (idle || stalled || connection.is_stuck(now_ns))
                && let Some(connection) = self.connections[place].take()
            {
                if stalled {
                    // A connection that is closing is already counted.
                    self.sessions.stalled += u64::from(!connection.closing);
                    tcp::abandon(&connection.stream);
                }
                self.close(connection, place);
            }
        }
        // The data plane's last orders for stopped sessions are RTCP BYE packets.
        let stopped = self.sessions.stopped();
        self.pass_on();
        self.sessions.sweep(&stopped);
    }

    /// Ends every session, then the data plane.
    fn end(mut self) -> Report {
        let numbers: Vec<usize> = self.sessions.iter().map(|(number, _)| number).collect();
        for number in numbers {
            self.sessions.want(number, Want::Stop, &self.waker);
        }
        for _ in 0..LAST_RINGS {
            self.sessions.sweep(&self.sessions.stopped());
            if self.sessions.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let region = self.sessions.region;
        region.set(GlobalField::End, 1);
        ring(&self.waker);
        let _ = self.processor.wait();
        self.media_files.end();
        if let Some(path) = &self.media.socket {
            let _ = std::fs::remove_file(path);
        }
        Report {
            admitted: self.sessions.admitted,
            refused: self.sessions.refused,
            turned_away: self.sessions.turned_away,
            wrong_credentials: self.sessions.refusals.count(Reason::Credentials),
            too_many: [Reason::Connections, Reason::Sessions]
                .map(|reason| self.sessions.refusals.count(reason)),
            backed_off: self.sessions.refusals.count(Reason::BackOff),
            full: self.sessions.refusals.count(Reason::Full),
            evicted: self.sessions.refusals.count(Reason::Evicted),
            stalled: self.sessions.stalled,
            cut_off: 0,
            moves: self.sessions.moves,
            ingested: self.live.total(),
            account: self.sessions.total(),
            processors: region.get(GlobalField::Generation),
            decisions: region.get(GlobalField::Decisions),
            scheduling_ns: region.get(GlobalField::SchedulingNs),
            sending_ns: region.get(GlobalField::SendingNs),
        }
    }
}

/// Finds a data plane that an earlier server left running with the same scenario.
fn find(
    library: &Library,
    scenario: &Scenario,
) -> Result<Option<(Processor, SharedResources, std::os::unix::net::UnixStream)>, MediaError> {
    let Some(path) = &scenario.media.socket else { return Ok(None) };
    let found = Processor::find(path).map_err(|error| failed(&path.display().to_string(), &error));
    let Some((processor, resources, waker)) = found? else { return Ok(None) };
    let same = Store::open(&resources.store).is_ok_and(|store| store.is_same(&library.store))
        && settings(library, scenario)
            .iter()
            .all(|(at, value)| resources.region.get(*at) == *value);
    if !same {
        let message = format!("{}: the data plane there plays other streams", path.display());
        let help =
            "start the server with the file it was started with, or end the data plane first";
        return Err(MediaError::new(message).help(help));
    }
    Ok(Some((processor, resources, waker)))
}

/// Returns the global fields that identify a data plane of this scenario.
fn settings(library: &Library, scenario: &Scenario) -> [(GlobalField, u64); 6] {
    [
        (GlobalField::Sessions, scenario.media.sessions.into()),
        (GlobalField::LinkRate, scenario.link.rate_bps),
        (GlobalField::LinkOverhead, scenario.link.overhead.into()),
        (GlobalField::Schedule, library.schedule as u64),
        (GlobalField::InstructionTable, api::is_wanted(scenario).into()),
        (GlobalField::FramePath, scenario.media.frame_path as u64),
    ]
}

/// Creates the shared resources of a new data plane.
fn new_resources(library: &Library, scenario: &Scenario) -> Result<SharedResources, MediaError> {
    let media = &scenario.media;
    let (region, region_file) = Region::create_with(media.sessions, api::is_wanted(scenario))
        .map_err(|error| failed("shared memory", &error))?;
    if let Some(instruction_table) = region.instruction_table() {
        api::load(instruction_table, scenario)?;
    }
    for (setting, value) in settings(library, scenario) {
        region.set(setting, value);
    }
    let [rtp, rtcp] =
        listeners::port_pair(media.listen.ip()).map_err(|error| failed("ports for RTP", &error))?;
    let listen = |path: &std::path::Path| {
        placement::listen(path).map_err(|error| {
            failed(&format!("the data plane's socket {}", path.display()), &error)
                .help("choose a place for `socket` where this user may make a file and none is")
        })
    };
    let shapes: Vec<_> = library.live.iter().map(|live| live.shape).collect();
    let places = if library.media_files.files.is_empty() { 0 } else { media.sessions };
    let media_files = library.media_files.files.iter().map(std::fs::File::try_clone);
    Ok(SharedResources {
        frame_cache: frame_cache::create(places, library.media_files.shape())
            .map_err(|error| failed("memory for frames that are read ahead", &error))?,
        media_files: media_files
            .collect::<io::Result<_>>()
            .map_err(|error| failed("films", &error))?,
        live: frames::create(&shapes).map_err(|error| failed("memory for live frames", &error))?,
        store: library.file.try_clone().map_err(|error| failed("the store", &error))?,
        region_file,
        region,
        rtp,
        rtcp,
        listener: media.socket.as_deref().map(listen).transpose()?,
    })
}

fn failed(what: &str, error: &io::Error) -> MediaError {
    MediaError::new(format!("{what}: {error}"))
}

/// Appends a packet in interleaved framing: `$`, channel, length, packet (RFC 2326, section 10.12).
/// Packets are shorter than 64 KiB.
fn interleave(output: &mut Vec<u8>, channel: u8, packet: &[u8]) {
    let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&[b'$', channel]);
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(packet);
}
