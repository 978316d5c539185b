//! The host's side of sessions: who has which row, and what is reserved for them.

use std::net::IpAddr;

use crate::clock::now_ns;
use crate::cluster::{ClusterMoves, Shared};
use crate::data_plane::ring;
use crate::files::library::Library;
use crate::pages::rejects::{Reason, RejectCounters, holder};
use crate::scheduler::admission::Admission;
use crate::shared_memory::region::{GlobalField, Region, Row, SessionField, State, Want};

/// No connection: that of a session's host that is no more.
const NO_CONNECTION: usize = usize::MAX;

/// How a client gets its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Datagrams to these ports of it: RTP, RTCP.
    Udp(u16, u16),
    /// On its RTSP connection, on these channels: RTP, RTCP (RFC 2326, section 10.12).
    Interleaved(u8, u8),
}

impl Transport {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp(..) => "udp",
            Self::Interleaved(..) => "interleaved",
        }
    }
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    /// What it is called in RTSP: hard to guess.
    pub(crate) id: String,
    pub(crate) title: usize,
    pub(crate) transport: Transport,
    pub(crate) peer: IpAddr,
    /// The connection that it came by; it ends with it.
    pub(crate) connection: usize,
    /// When it was admitted or taken over, ns.
    pub(crate) since_ns: u64,
    reserved_bps: u64,
    /// Of a live stream.
    live: bool,
    stopping: bool,
}

/// All sessions; a session's number is its row's.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) region: Region,
    all: Vec<Option<Session>>,
    pub(crate) admission: Admission,
    /// Clients that were refused for lack of bandwidth.
    pub(crate) refused: u64,
    /// Clients that were admitted.
    pub(crate) admitted: u64,
    /// No client is admitted any more: the server drains.
    pub(crate) draining: bool,
    /// Clients that came while it drained.
    pub(crate) turned_away: u64,
    /// Connections whose clients took nothing for too long.
    pub(crate) stalled: u64,
    /// What sessions that have ended counted.
    pub(crate) past: Account,
    /// How many clients one address may be.
    pub(crate) per_address: usize,
    /// Who was refused for what they are.
    pub(crate) refusals: RejectCounters,
    /// What became of clients by the cluster.
    pub(crate) moves: ClusterMoves,
}

/// The account of some sessions' frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Account {
    /// Frames that became due.
    pub released: u64,
    /// Frames sent: I, P, B.
    pub sent: [u64; 3],
    /// Frames dropped because their deadline passed: I, P, B.
    pub late: [u64; 3],
    /// Frames dropped at a full queue: I, P, B.
    pub full: [u64; 3],
    /// Frames taken out by an instruction: I, P, B.
    pub filtered: [u64; 3],
    /// Frames dropped because their bytes were not read in time from the film's file, or could not
    /// be: I, P, B.
    #[serde(default)]
    pub unread: [u64; 3],
    /// Frames that waited for a client that went away.
    pub discarded: u64,
    /// Frames lost with a processor that crashed, or due before the next one ran.
    pub lost: u64,
    /// Frames lost beyond what the contract allows.
    pub violations: u64,
    /// Frames among the late and dropped ones that an interleaved client read too slowly for.
    pub slow: u64,
    /// RTP packets sent.
    pub packets: u64,
}

impl Account {
    fn of(row: Row) -> Self {
        let kinds = |word| [0, 1, 2].map(|kind| row.get_at(word, kind));
        Self {
            released: row.get(SessionField::Next),
            sent: kinds(SessionField::Sent),
            late: kinds(SessionField::Late),
            full: kinds(SessionField::Full),
            filtered: kinds(SessionField::Filtered),
            unread: kinds(SessionField::Unread),
            discarded: row.get(SessionField::Discarded),
            lost: row.get(SessionField::Lost),
            violations: row.get(SessionField::Violations),
            slow: row.get(SessionField::Slow),
            packets: row.get(SessionField::Packets),
        }
    }

    /// The two together. Sums end at the largest number: a damaged row may say anything.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = u64::saturating_add;
        let each = |a: [u64; 3], b: [u64; 3]| [add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])];
        Self {
            released: add(self.released, other.released),
            sent: each(self.sent, other.sent),
            late: each(self.late, other.late),
            full: each(self.full, other.full),
            filtered: each(self.filtered, other.filtered),
            unread: each(self.unread, other.unread),
            discarded: add(self.discarded, other.discarded),
            lost: add(self.lost, other.lost),
            violations: add(self.violations, other.violations),
            slow: add(self.slow, other.slow),
            packets: add(self.packets, other.packets),
        }
    }

    /// Frames sent, of all types.
    #[must_use]
    pub fn sent_frames(&self) -> u64 {
        sum(&self.sent)
    }

    /// Frames that did not go in time: dropped late, at a full queue or unread, or lost with a
    /// processor.
    #[must_use]
    pub fn missed(&self) -> u64 {
        sum(&[sum(&self.late), sum(&self.full), sum(&self.unread), self.lost])
    }

    /// Frames that an instruction took out, of all types.
    #[must_use]
    pub fn filtered_frames(&self) -> u64 {
        sum(&self.filtered)
    }

    /// Frames that were released and are neither sent nor counted as anything else: those that
    /// wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let resolved = [self.sent_frames(), self.missed(), self.filtered_frames(), self.discarded];
        self.released.saturating_sub(sum(&resolved))
    }
}

/// The sum, or the largest number if that is less.
fn sum(counters: &[u64]) -> u64 {
    counters.iter().fold(0, |sum, counter| sum.saturating_add(*counter))
}

/// Why a session cannot be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The link has no room: why, in words, and under which looser window it would have.
    Bandwidth(String, Option<usize>),
    /// The server drains.
    Draining,
    /// There are as many sessions as there may be.
    Full,
    /// There are as many of the client's address as there may be: so many.
    Address(usize),
    /// The system has no random numbers.
    NoRandom,
}

impl Sessions {
    pub(crate) fn new(region: Region, link_bps: u64) -> Self {
        Self {
            region,
            all: (0..region.sessions()).map(|_| None).collect(),
            admission: Admission::new(link_bps),
            refused: 0,
            admitted: 0,
            draining: false,
            turned_away: 0,
            stalled: 0,
            past: Account::default(),
            per_address: usize::MAX,
            refusals: RejectCounters::default(),
            moves: ClusterMoves::default(),
        }
    }

    /// A session for a client, or why it cannot be.
    pub(crate) fn admit(
        &mut self,
        library: &Library,
        title: usize,
        transport: Transport,
        peer: IpAddr,
        connection: usize,
        now_ns: u64,
    ) -> Result<usize, Refused> {
        if self.draining {
            self.turned_away += 1;
            return Err(Refused::Draining);
        }
        let here = self.iter().filter(|(_, s)| !s.stopping && holder(s.peer) == holder(peer));
        if here.count() >= self.per_address {
            self.refusals.note(Reason::Sessions, peer, now_ns);
            return Err(Refused::Address(self.per_address));
        }
        let bps = library.titles[title].reserved_bps;
        if let Err(reason) = self.admission.admits(&library.demands(), title, 1) {
            self.refused += 1;
            return Err(Refused::Bandwidth(reason, self.looser(library, title)));
        }
        let number = self.all.iter().position(Option::is_none).ok_or(Refused::Full)?;
        let mut random = [0u64; 4];
        for word in &mut random {
            *word = random_word().ok_or(Refused::NoRandom)?;
        }
        let id = random[3].max(1);
        let row = self.region.session(number);
        row.clear();
        row.set(SessionField::Media, title as u64);
        row.set(SessionField::Ssrc, random[0] & 0xffff_ffff);
        row.set(SessionField::TimestampBase, random[1] & 0xffff_ffff);
        row.set(SessionField::SequenceBase, random[2] & 0x7fff);
        row.set(SessionField::HostHeardNs, now_ns);
        if let Transport::Udp(rtp, rtcp) = transport {
            row.set_address(peer, rtp, rtcp);
        }
        row.set(SessionField::Id, id);
        self.admission.add(title, bps);
        self.admitted += 1;
        self.all[number] = Some(Session {
            id: format!("{id:016x}"),
            title,
            transport,
            peer,
            connection,
            since_ns: now_ns,
            reserved_bps: bps,
            live: library.titles[title].live.is_some(),
            stopping: false,
        });
        Ok(number)
    }

    /// The strictest of the looser windows of `title` under which a client would be admitted now.
    pub(crate) fn looser(&self, library: &Library, title: usize) -> Option<usize> {
        let demands = library.demands();
        let own = &library.titles[title];
        let stream = own.looser_than.unwrap_or(title);
        (0..library.titles.len()).find(|other| {
            let offer = &library.titles[*other];
            offer.looser_than == Some(stream)
                && offer.window.0 > own.window.0
                && self.admission.admits(&demands, *other, 1).is_ok()
        })
    }

    /// Takes over the clients of a host that is no more, which play on in the processor. Those who
    /// had their packets by its connections are stopped. Returns how many there are.
    pub(crate) fn adopt(&mut self, library: &Library, bell: &impl AsWakeSocket) -> usize {
        let mut adopted = 0;
        for number in 0..self.all.len() {
            let row = self.region.session(number);
            let id = row.get(SessionField::Id);
            if id == 0 {
                continue;
            }
            let title = usize::try_from(row.get(SessionField::Media)).unwrap_or(usize::MAX);
            let to = row.destinations();
            let Some((bps, (rtp, rtcp))) =
                library.titles.get(title).map(|t| t.reserved_bps).zip(to)
            else {
                self.put(
                    number,
                    id,
                    0,
                    Transport::Interleaved(0, 1),
                    IpAddr::from([0; 4]),
                    (0, false),
                );
                self.want(number, Want::Stop, bell);
                continue;
            };
            let transport = Transport::Udp(rtp.port(), rtcp.port());
            let live = library.titles[title].live.is_some();
            self.put(number, id, title, transport, rtp.ip(), (bps, live));
            if matches!(row.want(), Want::Stop | Want::Yield) {
                self.want(number, row.want(), bell);
                continue;
            }
            // Whoever says nothing has as long as any client to say something.
            row.set(SessionField::HostHeardNs, now_ns());
            self.admitted += 1;
            adopted += 1;
        }
        adopted
    }

    /// What another server must know of a session to go on with it.
    pub(crate) fn shared(&self, number: usize, now_ns: u64) -> Option<Shared> {
        self.all.get(number)?.as_ref().filter(|session| !session.stopping)?;
        let row = self.region.session(number);
        // The frames of a live stream come through this host alone.
        let live = self.all.get(number)?.as_ref().is_some_and(|session| session.live);
        if row.want() == Want::Play && !live { Shared::of(row, now_ns) } else { None }
    }

    /// Sessions that are wanted: number, name and how many servers have gone on with it.
    pub(crate) fn playing(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        self.iter().filter(|(_, session)| !session.stopping).map(|(number, _)| {
            let row = self.region.session(number);
            (number, row.get(SessionField::Id), row.get(SessionField::Epoch))
        })
    }

    /// Whether there is a session called so, or was a moment ago.
    pub(crate) fn is_called(&self, id: u64) -> bool {
        self.iter().any(|(number, _)| self.region.session(number).get(SessionField::Id) == id)
    }

    /// A session of a dead server that went on here before `by_ns`, of a client at `peer` who has
    /// said nothing since.
    pub(crate) fn unheard(&self, peer: IpAddr, title: usize, by_ns: u64) -> Option<usize> {
        let of = |session: &Session| {
            let nobodys = session.connection == NO_CONNECTION && !session.stopping;
            nobodys && session.peer == peer && session.title == title
        };
        let mut found = self.iter().filter(|(number, session)| {
            let row = self.region.session(*number);
            // Both are when it began to go on, until somebody is heard.
            let since_ns = row.get(SessionField::HostHeardNs);
            let heard = row.get(SessionField::HeardNs) != since_ns;
            of(session) && row.get(SessionField::Epoch) > 0 && !heard && since_ns < by_ns
        });
        found.next().map(|(number, _)| number)
    }

    /// Goes on with a session of a dead server, told at `told_ns`, if there is room. Returns
    /// whether it does.
    pub(crate) fn take_in(
        &mut self,
        library: &Library,
        shared: &Shared,
        told_ns: u64,
        now_ns: u64,
        bell: &impl AsWakeSocket,
    ) -> bool {
        let title = usize::try_from(shared.title).unwrap_or(usize::MAX);
        let Some(bps) = library.titles.get(title).map(|title| title.reserved_bps) else {
            return false;
        };
        let free = self.all.iter().position(Option::is_none);
        let Some(number) = free.filter(|_| !self.draining) else { return false };
        if self.admission.admits(&library.demands(), title, 1).is_err() {
            return false;
        }
        shared.go_on(self.region.session(number), number, library, told_ns, now_ns);
        let transport = Transport::Udp(shared.ports.0, shared.ports.1);
        self.put(number, shared.id, title, transport, shared.address, (bps, false));
        self.want(number, Want::Play, bell);
        true
    }

    /// A session of the host before, or of another server.
    fn put(
        &mut self,
        number: usize,
        id: u64,
        title: usize,
        transport: Transport,
        peer: IpAddr,
        (reserved_bps, live): (u64, bool),
    ) {
        let (id, connection) = (format!("{id:016x}"), NO_CONNECTION);
        self.admission.add(title, reserved_bps);
        self.all[number] = Some(Session {
            id,
            title,
            transport,
            peer,
            connection,
            since_ns: now_ns(),
            reserved_bps,
            live,
            stopping: false,
        });
    }

    /// A session without a connection is that connection's by which it is asked for.
    pub(crate) fn attach(&mut self, number: usize, connection: usize) {
        if let Some(Some(session)) = self.all.get_mut(number)
            && session.connection == NO_CONNECTION
        {
            session.connection = connection;
        }
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Session> {
        self.all.get(number)?.as_ref()
    }

    /// The session called `id`, if the client at `peer` may use it.
    pub(crate) fn find(&self, id: &str, peer: IpAddr) -> Option<usize> {
        self.iter().find(|(_, s)| s.id == id && s.peer == peer && !s.stopping).map(|(n, _)| n)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Session)> {
        self.all.iter().enumerate().filter_map(|(n, session)| Some((n, session.as_ref()?)))
    }

    /// Sessions that came by a connection.
    pub(crate) fn of_connection(&self, connection: usize) -> Vec<usize> {
        let of = self.iter().filter(|(_, s)| s.connection == connection && !s.stopping);
        of.map(|(number, _)| number).collect()
    }

    /// The rates of the streams that are interleaved in a connection, together, bits/s.
    pub(crate) fn interleaved_bps(&self, library: &Library, connection: usize) -> u64 {
        let of_it = self.iter().filter(|(_, session)| {
            session.connection == connection
                && !session.stopping
                && matches!(session.transport, Transport::Interleaved(..))
        });
        of_it.map(|(_, session)| library.titles[session.title].mean_bps).sum()
    }

    /// Tells the processor what is wanted of a session.
    pub(crate) fn want(&mut self, number: usize, want: Want, bell: &impl AsWakeSocket) {
        self.region.session(number).set(SessionField::Want, want as u64);
        if matches!(want, Want::Stop | Want::Yield)
            && let Some(session) = &mut self.all[number]
            && !std::mem::replace(&mut session.stopping, true)
        {
            self.admission.remove(session.title, session.reserved_bps);
        }
        if !self.region.notices().push([number as u64, 0, 0, 0]) {
            self.region.set(GlobalField::LookAtAll, 1);
        }
        bell.ring();
    }

    /// Sessions that have stopped; orders that the processor gave for them are given by now.
    pub(crate) fn stopped(&self) -> Vec<usize> {
        let stopped = |number: usize| self.region.session(number).state() == State::Stopped;
        let sessions = self.iter().filter(|(number, s)| s.stopping && stopped(*number));
        sessions.map(|(number, _)| number).collect()
    }

    /// Takes back the rows of sessions that have stopped.
    pub(crate) fn sweep(&mut self, stopped: &[usize]) {
        for number in stopped {
            let row = self.region.session(*number);
            self.past = self.past.plus(Account::of(row));
            row.set(SessionField::Id, 0);
            self.all[*number] = None;
        }
    }

    /// The account of one session.
    pub(crate) fn account(&self, number: usize) -> Account {
        Account::of(self.region.session(number))
    }

    /// The account of all sessions there were.
    pub(crate) fn total(&self) -> Account {
        self.iter().fold(self.past, |sum, (number, _)| sum.plus(self.account(number)))
    }

    /// Whether every row is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }
}

/// What the processor's attention is drawn by.
pub(crate) trait AsWakeSocket {
    fn ring(&self);
}

impl AsWakeSocket for mio::net::UnixStream {
    fn ring(&self) {
        ring(self);
    }
}

/// A random number of the system, that nobody can guess; `None` if there is none.
pub(crate) fn random_word() -> Option<u64> {
    let mut bytes = [0u8; 8];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    (count == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_damaged_row_ends_at_the_largest_number() {
        let most = [u64::MAX; 3];
        let damaged = Account { sent: most, late: most, released: 9, ..Account::default() };
        let both = damaged.plus(damaged);
        assert_eq!((both.sent, both.released), (most, 18));
        assert_eq!((both.sent_frames(), both.missed(), both.waiting()), (u64::MAX, u64::MAX, 0));
    }
}
