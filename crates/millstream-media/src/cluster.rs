//! Servers on several hosts that share their clients.
//!
//! ```text
//!  server ─┬─ membership: who is alive (SWIM) ─────────────┬─ server
//!          ├─ status: what each has room for, ten a second ─┤
//!          └─ sessions: their rows, told to every other ────┘     all by UDP, sealed
//! ```
//! A new client is sent to the server that has most room, once. When a server dies, each of its
//! sessions is gone on with by one of the others: the first, in an order that all reckon alike,
//! that has room. If two play one session, because a cut between them has healed, the one that was
//! not first to have it yields. Every server decides by itself what it admits.

pub(crate) mod fuzzing;
mod membership;
mod seal;
mod shared;

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
use crate::clock::now_ns;
use crate::files::library::Library;
use crate::rtsp::session::{Sessions, random_word};
use crate::scheduler::admission::Admission;
use crate::shared_memory::region::Want;
use membership::{Event, Membership};
use seal::{DATAGRAM, Kind, Opened, PAYLOAD, Run, SECRET, Seal};
pub(crate) use shared::Shared;

/// How often servers tell what they have room for, ns.
const STATUS_NS: u64 = 100_000_000;

/// How often a server that is not there is looked for, ns.
const LOOK_NS: u64 = 1_000_000_000;

/// How long the next in order waits for the one before it to go on with a session, ns.
const TURN_NS: u64 = 300_000_000;

/// How long a session that nobody has room for waits for some, ns.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Datagrams of sessions that are told each time.
const DATAGRAMS: usize = 16;

/// Datagrams that are read in a row.
const READ_AT_ONCE: usize = 256;

/// Sessions of one server that are remembered.
const MOST_SESSIONS: usize = 65_536;

/// How long it is remembered that a client began, ns, and how many are.
const BEGUN_NS: u64 = 10_000_000_000;
const MOST_BEGUN: usize = 4_096;

/// Streams whose room is told.
const MOST_TITLES: usize = 512;

/// What a server says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Status {
    /// Of all that must be the same: the files as they are cut, contracts and names.
    catalogue: [u8; 32],
    /// Where it speaks RTSP.
    rtsp: SocketAddr,
    /// Rounds of telling its sessions that are complete.
    rounds: u64,
    /// How many more clients it would admit, by stream.
    rooms: Vec<u32>,
}

/// A session of another server.
#[derive(Clone, Debug)]
struct ReportedSession {
    session: Shared,
    round: u64,
    /// When, ns.
    at_ns: u64,
}

/// Another server.
#[derive(Debug)]
struct Member {
    address: SocketAddr,
    alive: bool,
    /// It was told of that it does not serve the same.
    differs: bool,
    /// Its run and its last datagram's number.
    last: (Run, u64),
    status: Option<Status>,
    /// By what sessions are called.
    sessions: BTreeMap<u64, ReportedSession>,
}

/// A session whose server is dead.
#[derive(Debug)]
struct Orphan {
    told: ReportedSession,
    /// From when on it may be gone on with, ns.
    from_ns: u64,
}

/// A session that has begun, here or elsewhere: a player whose server died may have come again by
/// it.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at_ns: u64,
    peer: IpAddr,
    title: usize,
}

/// What became of clients by the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterMoves {
    /// Requests that were answered with another server's address.
    pub redirected: u64,
    /// Sessions of dead servers that went on here.
    pub taken_in: u64,
    /// Sessions that were left to the server that had them first.
    pub yielded: u64,
    /// Sessions of dead servers that no server went on with in time, as far as is known here.
    pub unplaced: u64,
    /// Other servers that are alive.
    pub members: u64,
}

/// What the cluster changes at its server.
pub(crate) struct ClusterContext<'a> {
    pub(crate) library: &'a Library,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) bell: &'a UnixStream,
    pub(crate) idle_timeout_ns: u64,
}

/// This server's part of the cluster.
pub(crate) struct Cluster {
    pub(crate) socket: UdpSocket,
    me: SocketAddr,
    rtsp: SocketAddr,
    catalogue: [u8; 32],
    seal: Seal,
    membership: Membership,
    members: Vec<Member>,
    orphans: Vec<Orphan>,
    begun: VecDeque<Begun>,
    /// What `rooms` were reckoned from.
    reckoned: Option<(Admission, usize, bool)>,
    rooms: Vec<u32>,
    rounds: u64,
    /// The session that is told next.
    next_session: usize,
    told_ns: u64,
    looked_ns: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Joins the others, who may not be there yet and have the secret of that file; this one speaks
    /// RTSP at `rtsp`.
    ///
    /// # Errors
    /// If the secret cannot be read or everybody may read it, or the port is taken.
    pub(crate) fn open(
        cluster: &millstream_scenario::Cluster,
        secret_file: &Path,
        library: &Library,
        rtsp: SocketAddr,
    ) -> Result<Self, MediaError> {
        let secret = secret(secret_file)?;
        let me = cluster.listen;
        let socket = UdpSocket::bind(me).map_err(|error| {
            MediaError::new(format!("[media.cluster], `listen` = \"{me}\": {error}"))
                .help("an address of this host and a UDP port that nobody has")
        })?;
        let no_random = || MediaError::new("no random numbers");
        let seal = Seal::new(&secret, me, random_word().ok_or_else(no_random)?);
        let seed = random_word().ok_or_else(no_random)?;
        let member = |address: &SocketAddr| Member {
            address: *address,
            alive: false,
            differs: false,
            last: (Run::default(), 0),
            status: None,
            sessions: BTreeMap::new(),
        };
        Ok(Self {
            socket,
            me,
            rtsp: cluster.address.unwrap_or(rtsp),
            catalogue: catalogue(library),
            membership: Membership::new(me, seal.run.began_ns, seed, cluster.dead_after_ns),
            seal,
            members: cluster.others.iter().map(member).collect(),
            orphans: Vec::new(),
            begun: VecDeque::new(),
            reckoned: None,
            rooms: Vec::new(),
            rounds: 0,
            next_session: 0,
            told_ns: 0,
            looked_ns: 0,
        })
    }

    /// Reads what has come and does what is due. Returns when there is more to do, ns.
    pub(crate) fn step(&mut self, ground: &mut ClusterContext<'_>) -> u64 {
        let now_ns = now_ns();
        self.read(now_ns, ground.library);
        self.step_at(now_ns, ground)
    }

    /// Does what is due by `now_ns`. Returns when there is more to do, ns.
    fn step_at(&mut self, now_ns: u64, ground: &mut ClusterContext<'_>) -> u64 {
        let next_ns = self.membership.step(now_ns);
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            for member in self.members.iter().filter(|member| !member.alive) {
                self.membership.announce(member.address, now_ns);
            }
        }
        while let Some(event) = self.membership.event() {
            self.happened(event, now_ns);
        }
        while let Some((to, payload)) = self.membership.message() {
            self.send(to, Kind::Membership, &payload);
        }
        if now_ns.saturating_sub(self.told_ns) >= STATUS_NS {
            self.told_ns = now_ns;
            self.end_left(now_ns, ground);
            self.yield_to_others(ground);
            self.take_in(now_ns, ground);
            self.tell(now_ns, ground);
            ground.sessions.moves.members =
                self.members.iter().filter(|member| member.alive).count() as u64;
        }
        next_ns.min(self.told_ns + STATUS_NS)
    }

    fn send(&mut self, to: SocketAddr, kind: Kind, payload: &[u8]) {
        let Some(member) = self.members.iter().find(|member| member.address == to) else { return };
        let datagram = self.seal.seal(to, kind, member.last.0, payload);
        // What is lost is told again.
        let _ = self.socket.send_to(&datagram, to);
    }

    fn read(&mut self, now_ns: u64, library: &Library) {
        let mut datagram = [0; DATAGRAM];
        for _ in 0..READ_AT_ONCE {
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else { return };
            self.take(from, &datagram[..length], now_ns, library);
        }
    }

    /// Takes in a datagram. Returns whether it is new and comes from a member; one about membership
    /// must also be readable.
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
            // Restarted: unless it claims its sessions again, they are unowned.
            let from_ns = now_ns + TURN_NS;
            self.orphans.extend(member.abandon().map(|told| Orphan { told, from_ns }));
            member.status = None;
            member.differs = false;
        }
        member.last = (run, counter);
        // What could have been recorded before this run changes no session.
        let mine = of == self.seal.run;
        match kind {
            Kind::Membership => return self.membership.take(&payload, now_ns),
            Kind::Status if mine => member.take_status(&payload, self.catalogue),
            Kind::Sessions if mine => {
                let told = member.take_sessions(&payload, library, now_ns);
                for Begun { at_ns, peer, title } in told {
                    self.begun(peer, title, at_ns);
                }
            }
            _ => {}
        }
        true
    }

    fn happened(&mut self, event: Event, now_ns: u64) {
        let (address, alive) = match event {
            Event::Up(address) => (address, true),
            Event::Down(address) => (address, false),
        };
        let Some(member) = self.members.iter_mut().find(|m| m.address == address) else { return };
        member.alive = alive;
        if alive {
            eprintln!("cluster: {address} is there");
            return;
        }
        let before = self.orphans.len();
        self.orphans.extend(member.abandon().map(|told| Orphan { told, from_ns: now_ns }));
        eprintln!("cluster: {address} is gone, with {} clients", self.orphans.len() - before);
        member.status = None;
    }

    /// Tells the others what there is room for, and the sessions, some at a time.
    fn tell(&mut self, now_ns: u64, ground: &mut ClusterContext<'_>) {
        self.reckon(ground.library, ground.sessions);
        let sessions = ground.sessions.region.sessions();
        let mut datagrams = Vec::new();
        while datagrams.len() < DATAGRAMS && self.next_session < sessions {
            let mut buffer = [0; PAYLOAD];
            let mut used =
                postcard::to_slice(&self.rounds, &mut buffer).map_or(0, |round| round.len());
            let empty = used;
            while self.next_session < sessions {
                if let Some(session) = ground.sessions.shared(self.next_session, now_ns) {
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
            rooms: self.rooms.iter().take(MOST_TITLES).copied().collect(),
        };
        let mut buffer = [0; 2 * PAYLOAD];
        let status =
            postcard::to_slice(&status, &mut buffer).map(|s| s.to_vec()).unwrap_or_default();
        let alive: Vec<SocketAddr> =
            self.members.iter().filter(|m| m.alive).map(|m| m.address).collect();
        for to in alive {
            for datagram in &datagrams {
                self.send(to, Kind::Sessions, datagram);
            }
            self.send(to, Kind::Status, &status);
        }
    }

    /// How many more clients of each stream would be admitted here.
    fn reckon(&mut self, library: &Library, sessions: &Sessions) {
        let free = sessions.region.sessions() - sessions.iter().count();
        let basis = (sessions.admission.clone(), free, sessions.draining);
        if self.reckoned.as_ref() == Some(&basis) {
            return;
        }
        let demands = library.demands();
        let room = |title: usize| {
            let most = if sessions.draining { 0 } else { free as u64 };
            u32::try_from(sessions.admission.room(&demands, title, most)).unwrap_or(u32::MAX)
        };
        self.rooms = (0..library.titles.len()).map(room).collect();
        self.reckoned = Some(basis);
    }

    /// Where a new client of `title` is to go instead: to the server that has most room, if that is
    /// more than here; if `full`, only if here is none.
    pub(crate) fn elsewhere(
        &mut self,
        library: &Library,
        sessions: &mut Sessions,
        title: usize,
        full: bool,
    ) -> Option<SocketAddr> {
        self.reckon(library, sessions);
        let here = self.rooms.get(title).copied().unwrap_or(0);
        if full && here > 0 {
            return None;
        }
        let there = self.members.iter_mut().filter(|member| member.alive);
        let there = there.filter_map(|member| Some((member.address, member.status.as_mut()?)));
        let room = |status: &Status| status.rooms.get(title).copied().unwrap_or(0);
        let (_, best) = there.max_by_key(|(address, status)| (room(status), Reverse(*address)))?;
        if room(best) <= here {
            return None;
        }
        // Until it says more: clients that come at once do not all go there.
        best.rooms[title] -= 1;
        sessions.moves.redirected += 1;
        Some(best.rtsp)
    }

    /// Which other server plays the session `id` to the client at `peer`.
    pub(crate) fn owner(&self, id: u64, peer: IpAddr) -> Option<SocketAddr> {
        let there = self.members.iter().filter(|member| member.alive);
        let mut owners = there.filter(|member| {
            member.sessions.get(&id).is_some_and(|told| told.session.address == peer)
        });
        Some(owners.next()?.status.as_ref()?.rtsp)
    }

    /// A client at `peer` has begun to play `title`, anywhere.
    pub(crate) fn begun(&mut self, peer: IpAddr, title: usize, at_ns: u64) {
        if self.begun.len() == MOST_BEGUN {
            self.begun.pop_front();
        }
        self.begun.push_back(Begun { at_ns, peer, title });
    }

    /// Ends sessions that go on here for players who have come again, and forgets who came long
    /// ago.
    fn end_left(&mut self, now_ns: u64, ground: &mut ClusterContext<'_>) {
        self.begun.retain(|begun| {
            let left = ground.sessions.unheard(begun.peer, begun.title, begun.at_ns);
            if let Some(number) = left {
                ground.sessions.want(number, Want::Yield, ground.bell);
            }
            left.is_none() && now_ns.saturating_sub(begun.at_ns) < BEGUN_NS
        });
    }

    /// Whether the player of a session has come again since it was told of; each time counts once.
    fn came_again(&mut self, told: &ReportedSession) -> bool {
        let came = self.begun.iter().position(|begun| {
            let title = u32::try_from(begun.title) == Ok(told.session.title);
            title && begun.peer == told.session.address && begun.at_ns > told.at_ns
        });
        came.is_some_and(|came| self.begun.remove(came).is_some())
    }

    /// Leaves sessions to servers that play them, too, and had them before.
    fn yield_to_others(&mut self, ground: &mut ClusterContext<'_>) {
        let mut left = Vec::new();
        for (number, id, epoch) in ground.sessions.playing() {
            let first = self.members.iter().filter(|member| member.alive).any(|member| {
                let told = member.sessions.get(&id);
                told.is_some_and(|told| (told.session.epoch, member.address) < (epoch, self.me))
            });
            if first {
                left.push(number);
            }
        }
        for number in left {
            ground.sessions.want(number, Want::Yield, ground.bell);
            ground.sessions.moves.yielded += 1;
        }
    }

    /// Goes on with sessions of dead servers, where it is this server's turn and it has room.
    fn take_in(&mut self, now_ns: u64, ground: &mut ClusterContext<'_>) {
        let mut taken = 0;
        let orphans = std::mem::take(&mut self.orphans);
        for orphan in orphans {
            let Orphan { told, from_ns } = &orphan;
            let id = told.session.id;
            let placed = ground.sessions.is_called(id)
                || self.members.iter().any(|member| member.sessions.contains_key(&id));
            let ago_ns = now_ns.saturating_sub(told.at_ns);
            let placed = placed || self.came_again(told);
            if placed || told.session.heard_ago_ns(ago_ns) > ground.idle_timeout_ns {
                continue;
            }
            let turn_ns = from_ns.saturating_add(self.turn(id).saturating_mul(TURN_NS));
            if now_ns >= turn_ns
                && ground.sessions.take_in(
                    ground.library,
                    &told.session,
                    told.at_ns,
                    now_ns,
                    ground.bell,
                )
            {
                taken += 1;
            } else if now_ns.saturating_sub(*from_ns) < PATIENCE_NS {
                self.orphans.push(orphan);
            } else {
                ground.sessions.moves.unplaced += 1;
            }
        }
        if taken > 0 {
            ground.sessions.moves.taken_in += taken;
            eprintln!("cluster: {taken} clients of dead servers go on here");
        }
    }

    /// The place of this server in the order of those that may go on with a session: by a hash of
    /// both, so that all reckon alike and sessions spread (rendezvous hashing; Thaler and
    /// Ravishankar, 1998).
    fn turn(&self, id: u64) -> u64 {
        let weight = |address: SocketAddr| {
            let text = format!("{id:016x} {address}");
            <[u8; 32]>::from(Sha256::digest(text.as_bytes()))
        };
        let mine = weight(self.me);
        let others = self.members.iter().filter(|m| m.alive && m.status.is_some());
        others.filter(|member| weight(member.address) < mine).count() as u64
    }
}

impl Member {
    /// Its sessions, which it has no more.
    fn abandon(&mut self) -> impl Iterator<Item = ReportedSession> + use<> {
        std::mem::take(&mut self.sessions).into_values()
    }

    fn take_status(&mut self, payload: &[u8], catalogue: [u8; 32]) {
        let Ok(status) = postcard::from_bytes::<Status>(payload) else { return };
        if status.catalogue != catalogue {
            if !std::mem::replace(&mut self.differs, true) {
                eprintln!("cluster: {} serves other streams, contracts or packets", self.address);
            }
            self.status = None;
            return;
        }
        // What was not told in the last round but one is over.
        self.sessions.retain(|_, told| told.round + 2 >= status.rounds);
        self.status = Some(status);
    }

    /// Takes what it tells of its sessions. Returns those that have begun a moment ago.
    fn take_sessions(&mut self, payload: &[u8], library: &Library, at_ns: u64) -> Vec<Begun> {
        let mut begun = Vec::new();
        // Of one that serves the same.
        if self.status.is_none() {
            return begun;
        }
        let Ok((round, mut rest)) = postcard::take_from_bytes::<u64>(payload) else { return begun };
        while let Ok((session, more)) = postcard::take_from_bytes::<Shared>(rest) {
            rest = more;
            let known = self.sessions.contains_key(&session.id);
            if session.is_sound(library) && (known || self.sessions.len() < MOST_SESSIONS) {
                if !known && session.epoch == 0 && session.since_ns() < BEGUN_NS {
                    let title = usize::try_from(session.title).unwrap_or(usize::MAX);
                    let at_ns = at_ns.saturating_sub(session.since_ns());
                    begun.push(Begun { at_ns, peer: session.address, title });
                }
                self.sessions.insert(session.id, ReportedSession { session, round, at_ns });
            }
        }
        begun
    }
}

/// What must be the same at all servers.
fn catalogue(library: &Library) -> [u8; 32] {
    let mut hash = Sha256::new();
    for title in &library.titles {
        hash.update(title.name.as_bytes());
        hash.update([0]);
    }
    hash.update(library.store.bytes());
    hash.finalize().into()
}

/// The secret that all servers share.
fn secret(path: &Path) -> Result<Vec<u8>, MediaError> {
    let place = format!("[media.cluster], `secret` = \"{}\"", path.display());
    let wrong = |why: String| {
        MediaError::new(format!("{place}: {why}")).help(format!(
            "a file of at least {SECRET} bytes, the same for all servers, that its owner alone \
             may read: head -c 32 /dev/urandom > FILE; chmod 600 FILE"
        ))
    };
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mode = file.metadata().map_err(|error| wrong(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(format!("others than its owner may use it (mode {:03o})", mode & 0o777)));
    }
    let mut secret = Vec::new();
    let read = Read::by_ref(&mut file).take(1 << 16).read_to_end(&mut secret);
    read.map_err(|error| wrong(error.to_string()))?;
    if secret.len() < SECRET {
        return Err(wrong(format!("{} bytes", secret.len())));
    }
    Ok(secret)
}
