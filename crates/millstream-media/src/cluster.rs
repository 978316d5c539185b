//! A cluster of servers on several hosts that share their clients.
//!
//! ```text
//!  server ─┬─ membership: the servers that are alive (SWIM) ─┬─ server
//!          ├─ status: spare capacity, 10 per second ─────────┤
//!          └─ sessions: their rows, to every other server ───┘     all by UDP, encrypted
//! ```
//! A server redirects a new client once, to the server with the most spare capacity. When a server
//! dies, another server adopts each of its sessions. All servers rank the candidates alike; the
//! first one with spare capacity adopts the session. If two servers play one session after a
//! network partition has healed, the server that adopted it later yields. Each server decides on
//! its own which clients it admits.

pub(crate) mod browsers;
pub(crate) mod fuzzing;
mod membership;
mod seal;
mod shared;

use millstream_sync::clock::system::now_ns;
use mio::net::{UdpSocket, UnixStream};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::MediaError;
use crate::files::library::Library;
use crate::rtsp::session::{SessionKey, Sessions, random_word};
use crate::scheduler::admission::Admission;
use crate::shared_memory::region::RequestedState;
use membership::{Event, Membership};
use seal::{DATAGRAM, Kind, Opened, PAYLOAD, Run, SECRET, Seal};
pub(crate) use shared::TakeoverState;

/// The interval between status messages, ns.
const STATUS_NS: u64 = 100_000_000;

/// The interval between announcements to a server that is not alive, ns.
const ANNOUNCE_NS: u64 = 1_000_000_000;

/// The delay per rank before the next server in the order adopts a session, ns.
const RANK_DELAY_NS: u64 = 300_000_000;

/// How long an orphaned session waits for a server with spare capacity, ns.
const ORPHAN_TIMEOUT_NS: u64 = 5_000_000_000;

/// The most session datagrams sent per status interval.
const DATAGRAMS: usize = 16;

/// The most datagrams read per step.
const DATAGRAM_BATCH: usize = 256;

/// The most sessions remembered per server.
const MAX_SESSIONS: usize = 65_536;

/// How long a client's start is remembered, ns, and the most starts remembered.
const START_MEMORY_NS: u64 = 10_000_000_000;
const MAX_RECENT_STARTS: usize = 4_096;

/// The most streams in a status message.
const MAX_TITLES: usize = 512;

/// The status message of a server. Behind it follows the origin of its pages, if it has any: a
/// server of an earlier version does not read and does not send it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Status {
    /// The digest of what all servers must share: stream names, packetized files and contracts.
    catalogue: [u8; 32],
    /// The address of its RTSP listener.
    rtsp: SocketAddr,
    /// The number of complete rounds in which it reported its sessions.
    rounds: u64,
    /// The number of further clients that it would admit, by stream.
    free_sessions: Vec<u32>,
}

/// A session of another server, as last reported.
#[derive(Clone, Debug)]
struct ReportedSession {
    session: TakeoverState,
    round: u64,
    /// When the report arrived, ns.
    at_ns: u64,
}

/// Another server of the cluster.
#[derive(Debug)]
struct Member {
    address: SocketAddr,
    alive: bool,
    /// Whether the log already reports that its catalogue differs.
    differs: bool,
    /// The member's run and the number of its last datagram.
    last: (Run, u64),
    status: Option<Status>,
    /// The origin of its pages, also after its death.
    origin: Option<String>,
    /// The tracks of the member's sessions.
    sessions: BTreeMap<SessionKey, ReportedSession>,
}

/// A session whose server is dead.
#[derive(Debug)]
struct Orphan {
    reported: ReportedSession,
    /// The earliest time of a takeover, ns.
    from_ns: u64,
}

/// The start of a session on any server. After a server dies, it shows that a player reconnected.
#[derive(Clone, Copy, Debug)]
struct RecentStart {
    at_ns: u64,
    peer: IpAddr,
    title: usize,
}

/// The number of clients that the cluster redirected or moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterMoves {
    /// Requests answered with the address of another server.
    pub redirected: u64,
    /// Sessions of dead servers that this server took over.
    pub taken_in: u64,
    /// Sessions yielded to the server that had them first.
    pub yielded: u64,
    /// Sessions of dead servers that no server adopted in time, as far as this server knows.
    pub unplaced: u64,
    /// Other servers that are alive.
    pub members: u64,
}

/// The state of the server that the cluster reads and changes.
pub(crate) struct ClusterContext<'a> {
    pub(crate) library: &'a Library,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) waker: &'a UnixStream,
    pub(crate) idle_timeout_ns: u64,
}

/// This server's membership in the cluster.
pub(crate) struct Cluster {
    pub(crate) socket: UdpSocket,
    me: SocketAddr,
    rtsp: SocketAddr,
    /// The origin of this server's pages, if browsers reach them.
    origin: Option<String>,
    catalogue: [u8; 32],
    seal: Seal,
    membership: Membership,
    members: Vec<Member>,
    orphans: Vec<Orphan>,
    recent_starts: VecDeque<RecentStart>,
    /// The inputs from which `free_sessions` was computed.
    free_sessions_basis: Option<(Admission, [usize; 2], bool)>,
    free_sessions: Vec<u32>,
    rounds: u64,
    /// The next session to report.
    next_session: usize,
    reported_ns: u64,
    announced_ns: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Joins the cluster. The other servers need not run yet; all share the secret in
    /// `secret_file`. This server's RTSP listener is at `rtsp`, and browsers reach its pages at
    /// `origin`.
    ///
    /// # Errors
    /// Fails if the secret cannot be read or users other than its owner may read it, or the port is
    /// taken.
    pub(crate) fn open(
        cluster: &millstream_scenario::Cluster,
        secret_file: &Path,
        library: &Library,
        rtsp: SocketAddr,
        origin: Option<String>,
    ) -> Result<Self, MediaError> {
        let secret = secret(secret_file)?;
        let me = cluster.listen;
        let socket = UdpSocket::bind(me).map_err(|error| {
            MediaError::new(format!("[media.cluster], `listen` = \"{me}\": {error}"))
                .help("an address of this host and an unused UDP port")
        })?;
        let no_random = || MediaError::new("the system has no random numbers");
        let seal = Seal::new(&secret, me, random_word().ok_or_else(no_random)?);
        let seed = random_word().ok_or_else(no_random)?;
        let member = |address: &SocketAddr| Member {
            address: *address,
            alive: false,
            differs: false,
            last: (Run::default(), 0),
            status: None,
            origin: None,
            sessions: BTreeMap::new(),
        };
        Ok(Self {
            socket,
            me,
            rtsp: cluster.address.unwrap_or(rtsp),
            origin,
            catalogue: catalogue(library),
            membership: Membership::new(me, seal.run.began_ns, seed, cluster.dead_after_ns),
            seal,
            members: cluster.others.iter().map(member).collect(),
            orphans: Vec::new(),
            recent_starts: VecDeque::new(),
            free_sessions_basis: None,
            free_sessions: Vec::new(),
            rounds: 0,
            next_session: 0,
            reported_ns: 0,
            announced_ns: 0,
        })
    }

    /// Reads pending datagrams and runs due tasks. Returns the time of the next task, ns.
    pub(crate) fn step(&mut self, context: &mut ClusterContext<'_>) -> u64 {
        let now_ns = now_ns();
        self.read(now_ns, context.library);
        self.step_at(now_ns, context)
    }

    /// Runs the tasks due by `now_ns`. Returns the time of the next task, ns.
    fn step_at(&mut self, now_ns: u64, context: &mut ClusterContext<'_>) -> u64 {
        let next_ns = self.membership.step(now_ns);
        if now_ns.saturating_sub(self.announced_ns) >= ANNOUNCE_NS {
            self.announced_ns = now_ns;
            for member in self.members.iter().filter(|member| !member.alive) {
                self.membership.announce(member.address, now_ns);
            }
        }
        while let Some(event) = self.membership.event() {
            self.apply_event(event, now_ns);
        }
        while let Some((to, payload)) = self.membership.message() {
            self.send(to, Kind::Membership, &payload);
        }
        if now_ns.saturating_sub(self.reported_ns) >= STATUS_NS {
            self.reported_ns = now_ns;
            self.end_abandoned(now_ns, context);
            self.yield_to_others(context);
            self.take_over(now_ns, context);
            self.broadcast_status(now_ns, context);
            context.sessions.moves.members =
                self.members.iter().filter(|member| member.alive).count() as u64;
        }
        next_ns.min(self.reported_ns + STATUS_NS)
    }

    fn send(&mut self, to: SocketAddr, kind: Kind, payload: &[u8]) {
        let Some(member) = self.members.iter().find(|member| member.address == to) else { return };
        let datagram = self.seal.seal(to, kind, member.last.0, payload);
        // A lost datagram needs no retry: later ones repeat its content.
        let _ = self.socket.send_to(&datagram, to);
    }

    fn read(&mut self, now_ns: u64, library: &Library) {
        let mut datagram = [0; DATAGRAM];
        for _ in 0..DATAGRAM_BATCH {
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else { return };
            self.take(from, &datagram[..length], now_ns, library);
        }
    }

    /// Processes a datagram. Returns whether it is new and comes from a member; a membership
    /// message must also be well-formed.
    fn take(&mut self, from: SocketAddr, datagram: &[u8], now_ns: u64, library: &Library) -> bool {
        let Some(member) = self.members.iter_mut().find(|member| member.address == from) else {
            return false;
        };
        let Some(opened) = self.seal.open(from, datagram) else { return false };
        let Opened { run, counter, kind, of, payload } = opened;
        if (run, counter) <= member.last {
            return false;
        }
        if run != member.last.0 {
            // The member restarted: its sessions are orphans unless it reports them again.
            let from_ns = now_ns + RANK_DELAY_NS;
            self.orphans.extend(member.abandon().map(|reported| Orphan { reported, from_ns }));
            member.status = None;
            member.differs = false;
        }
        member.last = (run, counter);
        // A datagram recorded before this run must not change sessions.
        let mine = of == self.seal.run;
        match kind {
            Kind::Membership => return self.membership.take(&payload, now_ns),
            Kind::Status if mine => member.take_status(&payload, self.catalogue),
            Kind::Sessions if mine => {
                let reported = member.take_sessions(&payload, library, now_ns);
                for RecentStart { at_ns, peer, title } in reported {
                    self.record_start(peer, title, at_ns);
                }
            }
            _ => {}
        }
        true
    }

    fn apply_event(&mut self, event: Event, now_ns: u64) {
        let (address, alive) = match event {
            Event::Up(address) => (address, true),
            Event::Down(address) => (address, false),
        };
        let Some(member) = self.members.iter_mut().find(|m| m.address == address) else { return };
        member.alive = alive;
        if alive {
            eprintln!("cluster: {address} is alive");
            return;
        }
        let before = self.orphans.len();
        self.orphans.extend(member.abandon().map(|reported| Orphan { reported, from_ns: now_ns }));
        eprintln!(
            "cluster: {address} is dead; clients to take over: {}",
            self.orphans.len() - before
        );
        member.status = None;
    }

    /// Sends this server's status and part of its sessions to every member that is alive.
    fn broadcast_status(&mut self, now_ns: u64, context: &mut ClusterContext<'_>) {
        self.update_free_sessions(context.library, context.sessions);
        let sessions = context.sessions.region.sessions();
        let mut datagrams = Vec::new();
        while datagrams.len() < DATAGRAMS && self.next_session < sessions {
            let mut buffer = [0; PAYLOAD];
            let mut used =
                postcard::to_slice(&self.rounds, &mut buffer).map_or(0, |round| round.len());
            let empty = used;
            while self.next_session < sessions {
                if let Some(session) = context.sessions.shared(self.next_session, now_ns) {
                    match postcard::to_slice(&session, &mut buffer[used..]) {
                        Ok(written) => used += written.len(),
                        Err(_) => break,
                    }
                }
                self.next_session += 1;
            }
            if used > empty {
                datagrams.push(buffer[..used].to_vec());
            }
        }
        if self.next_session == sessions {
            self.next_session = 0;
            self.rounds += 1;
        }
        let status = Status {
            catalogue: self.catalogue,
            rtsp: self.rtsp,
            rounds: self.rounds,
            free_sessions: self.free_sessions.iter().take(MAX_TITLES).copied().collect(),
        };
        let mut buffer = [0; 2 * PAYLOAD];
        let status = postcard::to_slice(&(&status, &self.origin), &mut buffer);
        let status = status.map(|status| status.to_vec()).unwrap_or_default();
        let alive: Vec<SocketAddr> =
            self.members.iter().filter(|m| m.alive).map(|m| m.address).collect();
        for to in alive {
            for datagram in &datagrams {
                self.send(to, Kind::Sessions, datagram);
            }
            self.send(to, Kind::Status, &status);
        }
    }

    /// Computes the number of further clients that this server would admit, by stream.
    fn update_free_sessions(&mut self, library: &Library, sessions: &Sessions) {
        let free = [false, true].map(|is_audio| sessions.free_rows(is_audio));
        let basis = (sessions.admission.clone(), free, sessions.draining);
        if self.free_sessions_basis.as_ref() == Some(&basis) {
            return;
        }
        let demands = library.demands();
        let room = |title: usize| {
            let free = free[usize::from(library.titles[title].is_audio)];
            let most = if sessions.draining { 0 } else { free as u64 };
            u32::try_from(sessions.admission.room(&demands, title, most)).unwrap_or(u32::MAX)
        };
        self.free_sessions = (0..library.titles.len()).map(room).collect();
        self.free_sessions_basis = Some(basis);
    }

    /// Returns the RTSP address to which a new client of `title` is redirected. That is the server
    /// with the most spare capacity, if it has more than this server. With `full`, redirects only
    /// if this server has none.
    pub(crate) fn redirect_target(
        &mut self,
        library: &Library,
        sessions: &mut Sessions,
        title: usize,
        full: bool,
    ) -> Option<SocketAddr> {
        let best = self.take_place(library, sessions, title, full, |_| true)?;
        best.status.as_ref().map(|status| status.rtsp)
    }

    /// Takes a place for a new client of `title` on the server with the most room among those for
    /// which `serves` holds. `full` is that of [`redirect_target`](Self::redirect_target).
    fn take_place(
        &mut self,
        library: &Library,
        sessions: &mut Sessions,
        title: usize,
        full: bool,
        serves: impl Fn(&Member) -> bool,
    ) -> Option<&Member> {
        self.update_free_sessions(library, sessions);
        let here = self.free_sessions.get(title).copied().unwrap_or(0);
        if full && here > 0 {
            return None;
        }
        let room = |member: &Member| {
            let free = &member.status.as_ref()?.free_sessions;
            Some(free.get(title).copied().unwrap_or(0))
        };
        let there = self.members.iter_mut().filter(|member| member.alive && serves(member));
        let best = there.max_by_key(|member| (room(member), Reverse(member.address)))?;
        if room(best)? <= here {
            return None;
        }
        // Holds until its next status: simultaneous clients must not all be redirected there.
        best.status.as_mut()?.free_sessions[title] -= 1;
        sessions.moves.redirected += 1;
        Some(best)
    }

    /// Returns the RTSP address of the other server that plays session `id` to the client at
    /// `peer`.
    pub(crate) fn owner(&self, id: u64, peer: IpAddr) -> Option<SocketAddr> {
        let there = self.members.iter().filter(|member| member.alive);
        let mut owners = there.filter(|member| {
            let mut tracks = member.sessions.range(SessionKey { id, title: 0 }..);
            tracks
                .next()
                .is_some_and(|(key, reported)| key.id == id && reported.session.address == peer)
        });
        Some(owners.next()?.status.as_ref()?.rtsp)
    }

    /// Records that a client at `peer` began to play `title`, on any server.
    pub(crate) fn record_start(&mut self, peer: IpAddr, title: usize, at_ns: u64) {
        if self.recent_starts.len() == MAX_RECENT_STARTS {
            self.recent_starts.pop_front();
        }
        self.recent_starts.push_back(RecentStart { at_ns, peer, title });
    }

    /// Ends taken-over sessions after their players reconnect, and forgets old starts.
    fn end_abandoned(&mut self, now_ns: u64, context: &mut ClusterContext<'_>) {
        self.recent_starts.retain(|start| {
            let left = context.sessions.silent_since_takeover(start.peer, start.title, start.at_ns);
            if let Some(number) = left {
                context.sessions.request_state(number, RequestedState::Yield, context.waker);
            }
            left.is_none() && now_ns.saturating_sub(start.at_ns) < START_MEMORY_NS
        });
    }

    /// Returns whether the session's player began another session after the report. Consumes the
    /// start.
    fn has_reconnected(&mut self, reported: &ReportedSession) -> bool {
        let index = self.recent_starts.iter().position(|start| {
            let title = u32::try_from(start.title) == Ok(reported.session.title);
            title && start.peer == reported.session.address && start.at_ns > reported.at_ns
        });
        index.is_some_and(|index| self.recent_starts.remove(index).is_some())
    }

    /// Yields sessions that a member that is alive also plays and had first.
    fn yield_to_others(&mut self, context: &mut ClusterContext<'_>) {
        let mut left = Vec::new();
        for (number, key, epoch) in context.sessions.playing() {
            let first = self.members.iter().filter(|member| member.alive).any(|member| {
                let reported = member.sessions.get(&key);
                reported.is_some_and(|reported| {
                    (reported.session.epoch, member.address) < (epoch, self.me)
                })
            });
            if first {
                left.push(number);
            }
        }
        for number in left {
            context.sessions.request_state(number, RequestedState::Yield, context.waker);
            context.sessions.moves.yielded += 1;
        }
    }

    /// Takes over sessions of dead servers, in the order of ranks and if this server has capacity.
    fn take_over(&mut self, now_ns: u64, context: &mut ClusterContext<'_>) {
        let mut taken = 0;
        let orphans = std::mem::take(&mut self.orphans);
        for orphan in orphans {
            let Orphan { reported, from_ns } = &orphan;
            let key = reported.session.key();
            let placed = context.sessions.has_key(key)
                || self.members.iter().any(|member| member.sessions.contains_key(&key));
            let ago_ns = now_ns.saturating_sub(reported.at_ns);
            let placed = placed || self.has_reconnected(reported);
            if placed || reported.session.silent_ns(ago_ns) > context.idle_timeout_ns {
                continue;
            }
            let turn_ns =
                from_ns.saturating_add(self.takeover_rank(key.id).saturating_mul(RANK_DELAY_NS));
            if now_ns >= turn_ns
                && context.sessions.take_over(
                    context.library,
                    &reported.session,
                    reported.at_ns,
                    now_ns,
                    context.waker,
                )
            {
                taken += 1;
            } else if now_ns.saturating_sub(*from_ns) < ORPHAN_TIMEOUT_NS {
                self.orphans.push(orphan);
            } else {
                context.sessions.moves.unplaced += 1;
            }
        }
        if taken > 0 {
            context.sessions.moves.taken_in += taken;
            eprintln!("cluster: took over {taken} clients of dead servers");
        }
    }

    /// Returns this server's rank among the servers that may adopt a session. The order is by a
    /// hash of session and address: all servers compute the same ranks, and sessions spread
    /// (rendezvous hashing; Thaler and Ravishankar, 1998).
    fn takeover_rank(&self, id: u64) -> u64 {
        let id = format!("{id:016x}");
        let mine = weight(&id, self.me);
        let others = self.members.iter().filter(|m| m.alive && m.status.is_some());
        others.filter(|member| weight(&id, member.address) < mine).count() as u64
    }
}

impl Member {
    /// Removes and returns its sessions.
    fn abandon(&mut self) -> impl Iterator<Item = ReportedSession> + use<> {
        std::mem::take(&mut self.sessions).into_values()
    }

    fn take_status(&mut self, payload: &[u8], catalogue: [u8; 32]) {
        let Ok((status, rest)) = postcard::take_from_bytes::<Status>(payload) else { return };
        if status.catalogue != catalogue {
            if !std::mem::replace(&mut self.differs, true) {
                eprintln!("cluster: {} has different streams, contracts or packets", self.address);
            }
            self.status = None;
            self.origin = None;
            return;
        }
        self.origin = browsers::parse_origin(rest);
        // A session absent from the last two complete rounds is over.
        self.sessions.retain(|_, reported| reported.round + 2 >= status.rounds);
        self.status = Some(status);
    }

    /// Stores the sessions that it reports. Returns those that began within [`START_MEMORY_NS`].
    fn take_sessions(&mut self, payload: &[u8], library: &Library, at_ns: u64) -> Vec<RecentStart> {
        let mut starts = Vec::new();
        // Sessions count only from a member with a matching catalogue.
        if self.status.is_none() {
            return starts;
        }
        let Ok((round, mut rest)) = postcard::take_from_bytes::<u64>(payload) else {
            return starts;
        };
        while let Ok((session, more)) = postcard::take_from_bytes::<TakeoverState>(rest) {
            rest = more;
            let known = self.sessions.contains_key(&session.key());
            if session.is_valid(library) && (known || self.sessions.len() < MAX_SESSIONS) {
                if !known && session.epoch == 0 && session.since_ns() < START_MEMORY_NS {
                    let title = usize::try_from(session.title).unwrap_or(usize::MAX);
                    let at_ns = at_ns.saturating_sub(session.since_ns());
                    starts.push(RecentStart { at_ns, peer: session.address, title });
                }
                self.sessions.insert(session.key(), ReportedSession { session, round, at_ns });
            }
        }
        starts
    }
}

/// Returns the weight of a server for a client: servers in the order of their weights are the
/// client's order of servers.
fn weight(client: &str, address: SocketAddr) -> [u8; 32] {
    Sha256::digest(format!("{client} {address}").as_bytes()).into()
}

/// Returns the digest of what all servers must share.
fn catalogue(library: &Library) -> [u8; 32] {
    let mut hash = Sha256::new();
    for title in &library.titles {
        hash.update(title.name.as_bytes());
        hash.update([0]);
    }
    hash.update(library.store.bytes());
    hash.finalize().into()
}

/// Reads the shared secret of the cluster.
fn secret(path: &Path) -> Result<Vec<u8>, MediaError> {
    let place = format!("[media.cluster], `secret` = \"{}\"", path.display());
    let wrong = |why: String| {
        MediaError::new(format!("{place}: {why}")).help(format!(
            "a file of at least {SECRET} bytes, identical on all servers and accessible only to \
             its owner: head -c 32 /dev/urandom > FILE; chmod 600 FILE"
        ))
    };
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mode = file.metadata().map_err(|error| wrong(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(format!("other users have access (mode {:03o})", mode & 0o777)));
    }
    let mut secret = Vec::new();
    let read = Read::by_ref(&mut file).take(1 << 16).read_to_end(&mut secret);
    read.map_err(|error| wrong(error.to_string()))?;
    if secret.len() < SECRET {
        return Err(wrong(format!("the file has {} bytes", secret.len())));
    }
    Ok(secret)
}
