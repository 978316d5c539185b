//! Entry points of fuzz targets: one cluster server that receives arbitrary datagrams from two
//! peers.
//!
//! An input is a list of parts; each is a datagram or a passage of time. Its first byte selects the
//! kind, see [`Part`]. The remaining bytes are the plaintext: the target encrypts them, so mutated
//! inputs pass authentication and reach the parsers.

use mio::net::{UdpSocket, UnixStream};
use std::cell::Cell;
use std::net::SocketAddr;

use super::membership::Membership;
use super::*;
use crate::fuzzing::{own_region, resources};
use crate::rtsp::session::Sessions;
use crate::shared_memory::region::SessionField;

const SECRET_TEXT: &[u8] = b"a secret of the fuzz targets' own";

/// The start time of the server, ns.
const BEGIN_NS: u64 = 1 << 50;

/// The most parts of one input that are used.
const MAX_PARTS: usize = 64;

/// The bits of a part's first byte.
#[derive(Clone, Copy)]
pub struct Part(pub u8);

impl Part {
    /// Time passes: 10 ms per unit of each of the next two bytes.
    pub const TIME: u8 = 3;
    /// A membership message. The lowest two bits select the kind.
    pub const MEMBERSHIP: u8 = 0;
    /// A status message, without the leading catalogue digest.
    pub const STATUS: u8 = 1;
    /// A sessions message.
    pub const SESSIONS: u8 = 2;
    /// The second peer sends the datagram.
    pub const SECOND: u8 = 4;
    /// The datagram is sent without encryption.
    pub const RAW: u8 = 8;
    /// The datagram names another run of the recipient.
    pub const STALE: u8 = 16;
    /// The sender restarts first.
    pub const AGAIN: u8 = 32;

    fn is(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

fn others() -> [SocketAddr; 2] {
    // The discard port: replies go nowhere.
    [SocketAddr::from(([127, 0, 0, 2], 9)), SocketAddr::from(([127, 0, 0, 3], 9))]
}

thread_local! {
    /// The digest of the catalogue, computed once because it is expensive.
    static CATALOGUE: [u8; 32] = catalogue(&resources().0);
}

/// Creates a server in a cluster of dead members.
pub(super) fn server() -> Cluster {
    let me = SocketAddr::from(([127, 0, 0, 1], 0));
    let seal = Seal::new(SECRET_TEXT, me, 99);
    let member = |address: SocketAddr| Member {
        address,
        alive: false,
        differs: false,
        last: (Run::default(), 0),
        status: None,
        origin: None,
        sessions: BTreeMap::new(),
    };
    Cluster {
        socket: UdpSocket::bind(me).expect("a port"),
        me,
        rtsp: SocketAddr::from(([127, 0, 0, 1], 554)),
        origin: Some("http://127.0.0.1:8889".to_owned()),
        catalogue: CATALOGUE.with(|catalogue| *catalogue),
        membership: Membership::new(me, BEGIN_NS, 4, 1_000_000_000),
        seal,
        members: others().map(member).into(),
        orphans: Vec::new(),
        recent_starts: VecDeque::new(),
        free_sessions_basis: None,
        free_sessions: Vec::new(),
        rounds: 0,
        next_session: 0,
        reported_ns: 0,
        announced_ns: 0,
    }
}

/// Returns the plaintext of a value.
fn plain(value: &impl Serialize) -> Vec<u8> {
    let mut buffer = [0; PAYLOAD];
    postcard::to_slice(value, &mut buffer).expect("a value that fits the buffer").to_vec()
}

/// Feeds the parts of an input to a server. Returns whether it parsed any of them.
///
/// # Panics
/// Panics if two sessions have the same id, or a session has id 0.
#[must_use]
pub fn cluster(parts: &[&[u8]]) -> bool {
    let library = &resources().0;
    let region = own_region();
    for row in 0..region.sessions() {
        region.session(row).clear();
    }
    while region.notices().pop().is_some() {}
    let mut cluster = server();
    let (waker, _theirs) = UnixStream::pair().expect("a socket");
    let mut sessions = Sessions::new(region, 20_000_000);
    let (me, mine) = (cluster.me, cluster.seal.run);
    let random = Cell::new(1);
    let seal = |of: SocketAddr| {
        random.set(random.get() + 1);
        let mut seal = Seal::new(SECRET_TEXT, of, random.get());
        // Later than the previous run, whatever the clock reads.
        seal.run.began_ns = BEGIN_NS + random.get();
        seal
    };
    let mut seals = others().map(seal);
    let (mut now_ns, mut passed) = (BEGIN_NS, false);
    for part in parts.iter().take(MAX_PARTS) {
        let Some((first, payload)) = part.split_first() else { continue };
        let part = Part(*first);
        let which = usize::from(part.is(Part::SECOND));
        let from = others()[which];
        if part.is(Part::AGAIN) {
            seals[which] = seal(from);
        }
        let kind = match part.0 & 3 {
            Part::MEMBERSHIP => Kind::Membership,
            Part::STATUS => Kind::Status,
            Part::SESSIONS => Kind::Sessions,
            _ => {
                let steps = payload.iter().take(2).map(|steps| u64::from(*steps)).sum::<u64>();
                now_ns += 10_000_000 * steps;
                step(&mut cluster, &mut sessions, &waker, now_ns);
                continue;
            }
        };
        let mut plain = Vec::new();
        if matches!(kind, Kind::Status) {
            plain.extend(cluster.catalogue);
        }
        plain.extend(payload);
        let of = if part.is(Part::STALE) { Run::default() } else { mine };
        let datagram = if part.is(Part::RAW) {
            payload.to_vec()
        } else {
            seals[which].seal(me, kind, of, &plain)
        };
        let taken = cluster.take(from, &datagram, now_ns, library);
        passed |= taken
            && match kind {
                Kind::Membership => true,
                Kind::Status => postcard::from_bytes::<Status>(&plain).is_ok(),
                Kind::Sessions => postcard::take_from_bytes::<(u64, TakeoverState)>(&plain).is_ok(),
            };
    }
    // By the end every peer is dead; its sessions are adopted or have waited long enough.
    for _ in 0..24 {
        now_ns += 300_000_000;
        step(&mut cluster, &mut sessions, &waker, now_ns);
    }
    passed
}

fn step(cluster: &mut Cluster, sessions: &mut Sessions, waker: &UnixStream, now_ns: u64) {
    let library = &resources().0;
    let mut context = ClusterContext { library, sessions, waker, idle_timeout_ns: 60_000_000_000 };
    cluster.step_at(now_ns, &mut context);
    let keys: Vec<SessionKey> = context.sessions.playing().map(|(_, key, _)| key).collect();
    for (at, key) in keys.iter().enumerate() {
        assert!(key.id != 0 && !keys[..at].contains(key), "two sessions have the key {key:x?}");
    }
    for title in 0..library.titles.len() {
        let _ = cluster.redirect_target(library, context.sessions, title, false);
        let _ = cluster.redirect_origin(library, context.sessions, title);
        let _ = cluster.alternates(Some(title), IpAddr::from([127, 0, 0, 1]));
    }
    assert!(cluster.other_origins().all(millstream_scenario::is_origin));
    let _ = context.sessions.total();
}

/// Returns seed inputs: two peers announce themselves, report status and sessions, then die.
///
/// # Panics
/// Panics if the clock does not advance.
#[must_use]
pub fn cluster_parts() -> Vec<Vec<Vec<u8>>> {
    let me = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut membership = Vec::new();
    for (at, other) in others().into_iter().enumerate() {
        // Talks to a server configured like the fuzzed one and records the messages.
        let mut members = [
            Membership::new(other, 5, 3, 1_000_000_000),
            Membership::new(me, BEGIN_NS, 4, 1_000_000_000),
        ];
        members[0].announce(me, 0);
        for step in 0..60u64 {
            let now_ns = step * 50_000_000;
            for from in 0..2 {
                members[from].step(now_ns);
                while let Some((_, payload)) = members[from].message() {
                    members[1 - from].take(&payload, now_ns);
                    if from == 0 && membership.len() < 12 * (at + 1) {
                        let kind = Part::MEMBERSHIP | if at == 1 { Part::SECOND } else { 0 };
                        membership.push([&[kind][..], &payload].concat());
                    }
                }
            }
        }
    }
    let rtsp = SocketAddr::from(([127, 0, 0, 2], 554));
    let status = |rounds: u64| {
        let of = (rtsp, rounds, vec![3u32, 4], Some("http://127.0.0.2:8889"));
        [&[Part::STATUS][..], &plain(&of)].concat()
    };
    let region = own_region();
    let reported = |id: u64, next: u64| {
        let row = region.session(0);
        row.clear();
        row.set_address(IpAddr::from([127, 0, 0, 1]), 5_000, 5_001);
        for (word, value) in [
            (SessionField::Id, id),
            (SessionField::State, 1),
            (SessionField::Next, next),
            (SessionField::Sequence, 9),
            (SessionField::PhaseNs, BEGIN_NS - next * 40_000_000),
            (SessionField::RtcpReceivedNs, BEGIN_NS - 5),
        ] {
            row.set(word, value);
        }
        row.add_at(SessionField::Sent, 0, next / 2);
        TakeoverState::of(row, BEGIN_NS).expect("a playing session")
    };
    let sessions = |round: u64, reported: &[TakeoverState]| {
        let mut part = vec![Part::SESSIONS];
        part.extend(plain(&round));
        for session in reported {
            part.extend(plain(session));
        }
        part
    };
    let time = |steps: u8| vec![Part::TIME, steps];
    let again = |mut part: Vec<u8>| {
        part[0] |= Part::AGAIN;
        part
    };
    let two = [reported(7, 10), reported(8, 30)];
    let first = membership[0].clone();
    let talk = vec![
        first.clone(),
        status(1),
        sessions(1, &two),
        time(20),
        status(2),
        sessions(2, &two[..1]),
        time(200),
    ];
    let restarted = vec![
        first,
        status(1),
        sessions(1, &two),
        again(status(1)),
        time(40),
        sessions(1, &[reported(9, 0)]),
        time(40),
    ];
    vec![talk, restarted, membership, vec![status(1), sessions(0, &two)], vec![sessions(3, &two)]]
}
