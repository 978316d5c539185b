//! The classical proxy: a connection with the client, one with a server, and a process between them that is the path's.
//!
//! The server is asked only when the client has shaken hands and, if that counts, has said what it wants; so a flood of
//! connections that are only begun ends here. Source: the Router paper, Table 1; RFC 9293, RFC 6056 (port numbers).

use millstream::IndexedHeap;
use millstream_scenario::PathProxy;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use super::device::TxDevice;
use super::rules::{self, Decision};
use super::segment::{Segment, Tuple};
use super::table::Table;
use super::tcp_pair::{Stage, TcpPair};
use super::{ProxyCounters, SourceAddresses};

/// A pair that has something to say and no room to say it is asked again after so long, ns.
const RETRY_NS: u64 = 1_000_000;
/// Pairs looked at for each connection that finds no room, whether they are only kept for stragglers.
const SCAN_PER_OPEN: usize = 8;
/// Port numbers that are tried for a connection to a server,
const MAX_PORT_PROBES: u64 = 64;
/// the first of them, and how many there are (RFC 6335: those for such use).
const FIRST_PORT: u16 = 49_152;
const PORTS: u64 = 16_384;
/// Answers at once (resets) that wait until there is room for them.
const ANSWERS: usize = 64;

/// A classical proxy.
pub(super) struct Classical {
    settings: PathProxy,
    pairs: Vec<TcpPair>,
    table: Table,
    /// When each pair wants to run, ns.
    due: IndexedHeap<u64>,
    /// IP packets that were answered at once, and empty ones for more.
    answers: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Where pairs that are kept for stragglers are looked for next.
    cursor: usize,
    numbers: RandomState,
    begun: u64,
    counters: ProxyCounters,
}

impl Classical {
    /// One that does as `settings` say.
    pub(super) fn new(settings: &PathProxy) -> Self {
        let count = settings.connections;
        Self {
            settings: settings.clone(),
            pairs: (0..count).map(|_| TcpPair::new(settings.buffer_bytes)).collect(),
            table: Table::new(count, settings.host_connections),
            due: IndexedHeap::default(),
            answers: VecDeque::with_capacity(ANSWERS),
            spare: vec![Vec::new(); ANSWERS],
            cursor: 0,
            numbers: RandomState::new(),
            begun: 0,
            counters: ProxyCounters::default(),
        }
    }

    /// Goes on by other settings; `false` if it is of another size, and cannot.
    pub(super) fn change(&mut self, settings: &PathProxy) -> bool {
        let size = |of: &PathProxy| (of.kind, of.connections, of.buffer_bytes);
        let same = size(settings) == size(&self.settings);
        if same {
            self.settings = settings.clone();
            self.table.set_max_per_client(settings.host_connections);
        }
        same
    }

    pub(super) fn counters(&self) -> ProxyCounters {
        self.counters
    }

    pub(super) fn carry_counters(&mut self, old: ProxyCounters) {
        self.counters = ProxyCounters { connections: self.counters.connections, ..old };
    }

    /// Whether packets of `tuple` belong to a connection.
    #[inline]
    pub(super) fn knows(&self, tuple: &Tuple) -> bool {
        self.table.find(tuple).is_some()
    }

    /// When it wants to run, ns.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        if self.answers.is_empty() { self.due.first().map_or(u64::MAX, |of| of.0) } else { 0 }
    }

    /// A packet has come.
    pub(super) fn receive(&mut self, frame: &[u8], now_ns: u64) {
        let Some(segment) = Segment::parse(frame) else {
            self.counters.strays += 1;
            return;
        };
        let number = match self.table.find(&segment.tuple) {
            Some(number) => number,
            None if segment.is_syn() => match self.open(segment.tuple, now_ns) {
                Some(number) => number,
                None => return,
            },
            None => {
                self.counters.strays += 1;
                return;
            }
        };
        let Some(pair) = self.pairs.get_mut(number as usize) else { return };
        let mut answer = self.spare.pop().unwrap_or_default();
        answer.clear();
        pair.receive(&frame[segment.ip.header..segment.ip.end], now_ns, &mut answer);
        if answer.is_empty() || self.answers.len() == ANSWERS {
            self.spare.push(answer);
        } else {
            self.answers.push_back(answer);
        }
        self.due.place(number, now_ns);
    }

    /// TxSlot for the connection that `tuple` begins, and listens for it.
    fn open(&mut self, tuple: Tuple, now_ns: u64) -> Option<u32> {
        if self.table.is_full() {
            self.make_room();
        }
        let Some(number) = self.table.open(tuple) else {
            self.counters.refused_full += 1;
            return None;
        };
        self.begun += 1;
        let seed = self.numbers.hash_one((tuple, self.begun, "sequence"));
        self.pairs.get_mut(number as usize)?.listen(tuple, seed, now_ns);
        self.counters.opened += 1;
        self.counters.connections += 1;
        Some(number)
    }

    /// Gives up a pair that is over but for packets that may straggle in (TIME-WAIT), if one is found soon.
    fn make_room(&mut self) {
        for _ in 0..SCAN_PER_OPEN.min(self.pairs.len()) {
            self.cursor = (self.cursor + 1) % self.pairs.len();
            let pair = &self.pairs[self.cursor];
            if pair.stage == Stage::Closed
                && self.table.find(&pair.front) == u32::try_from(self.cursor).ok()
            {
                self.close(self.cursor);
                return;
            }
        }
    }

    fn close(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        let Ok(number) = u32::try_from(at) else { return };
        if std::mem::take(&mut pair.counted) {
            self.table.release_client(&pair.front);
        }
        self.table.close(number, &pair.front, pair.back.as_ref());
        pair.stage = Stage::Closed;
        self.due.remove(number);
        self.counters.connections -= 1;
    }

    /// Makes packets, each for either end of a pair, until there are none or no room.
    pub(super) fn make(
        &mut self,
        out: &mut TxDevice<'_>,
        sources: &mut dyn SourceAddresses,
        now_ns: u64,
    ) {
        while let Some(answer) = self.answers.front() {
            if out.put(answer.len(), |packet| packet.copy_from_slice(answer)).is_err() {
                return;
            }
            self.spare.extend(self.answers.pop_front());
        }
        // Each turn makes a packet, or puts a pair off.
        for _ in 0..out.most.max(1) {
            let Some((at_ns, number)) = self.due.first() else { return };
            if at_ns > now_ns || out.made.len() >= out.most {
                return;
            }
            let at = number as usize;
            let before = out.made.len();
            self.advance(at, sources, now_ns);
            self.pairs[at].send(out, now_ns);
            // TxSlot that was made by sending is filled, and what came is transferred on.
            self.advance(at, sources, now_ns);
            let pair = &mut self.pairs[at];
            if pair.stage == Stage::Closed && pair.is_closed() {
                self.close(at);
                continue;
            }
            let soonest_ns = if out.made.len() > before { now_ns } else { now_ns + RETRY_NS };
            let mut due_ns = pair.due_ns(now_ns).max(soonest_ns);
            if pair.stage == Stage::ReadingHost {
                due_ns = due_ns.min(pair.host_deadline_ns.max(soonest_ns));
            }
            match due_ns {
                u64::MAX => self.due.remove(number),
                _ => self.due.place(number, due_ns),
            }
        }
    }

    /// What a pair can do without a packet.
    fn advance(&mut self, at: usize, sources: &mut dyn SourceAddresses, now_ns: u64) {
        let pair = &mut self.pairs[at];
        if pair.stage == Stage::Handshake {
            match pair.handshake_done() {
                Some(true) => pair.stage = Stage::ReadingHost,
                Some(false) => {}
                None => {
                    pair.abort();
                    self.counters.broken += 1;
                }
            }
        }
        if pair.stage == Stage::ReadingHost {
            let late = now_ns >= pair.host_deadline_ns;
            let (bytes, last) = pair.said();
            match rules::decide(&self.settings, bytes, last || late) {
                Decision::Wait => {}
                Decision::Pass(Some(server)) => self.connect(at, server, sources),
                Decision::Pass(None) | Decision::Refuse => {
                    pair.abort();
                    self.counters.refused_host += 1;
                }
            }
        }
        let pair = &mut self.pairs[at];
        let transferred = pair.pump();
        if pair.stage == Stage::Closed && std::mem::take(&mut pair.counted) {
            self.table.release_client(&pair.front);
        }
        self.counters.to_server_bytes += transferred.to_server;
        self.counters.to_client_bytes += transferred.to_client;
        self.counters.broken += u64::from(transferred.broken);
    }

    /// Asks `server` for a connection, from an address of the router and a port that nobody can guess.
    fn connect(&mut self, at: usize, server: SocketAddr, sources: &mut dyn SourceAddresses) {
        let pair = &mut self.pairs[at];
        let first = self.numbers.hash_one((pair.front, self.begun, "port"));
        let back = sources.own_address(server.ip()).and_then(|own| {
            let number = u32::try_from(at).ok()?;
            (0..MAX_PORT_PROBES)
                .filter_map(|step| u16::try_from(first.wrapping_add(step) % PORTS).ok())
                .map(|port| SocketAddr::new(own, FIRST_PORT + port))
                .map(|own| Tuple { source: server, destination: own })
                .find(|back| self.table.join(*back, number))
        });
        if back.is_none_or(|back| !pair.connect(back)) {
            pair.abort();
            self.counters.unreachable += 1;
        }
    }
}
