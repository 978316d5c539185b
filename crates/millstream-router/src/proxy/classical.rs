//! The classical proxy: terminates the client's connection, opens one to a server and copies bytes
//! between them.
//!
//! It connects to the server only after the client's handshake and, if rules need it, the host
//! name. A SYN flood therefore ends at the proxy. Source: the Router paper, Table 1; RFC 9293, RFC
//! 6056 (port numbers).

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

/// Retry delay of a pair that found no free buffer, ns.
const RETRY_NS: u64 = 1_000_000;
/// Pairs checked for TIME-WAIT when the table is full.
const SCAN_PER_OPEN: usize = 8;
/// Port numbers tried per connection to a server.
const MAX_PORT_PROBES: u64 = 64;
/// First dynamic port and their number (RFC 6335).
const FIRST_PORT: u16 = 49_152;
const PORTS: u64 = 16_384;
/// Queued immediate replies (resets), at most.
const MAX_REPLIES: usize = 64;

/// A classical proxy.
pub(super) struct Classical {
    settings: PathProxy,
    pairs: Vec<TcpPair>,
    table: Table,
    /// Time at which each pair must run, ns.
    due: IndexedHeap<u64>,
    /// Immediate replies as IP packets; `spare` has empty buffers for more.
    replies: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Where the next search for pairs in TIME-WAIT begins.
    cursor: usize,
    hasher: RandomState,
    opened: u64,
    counters: ProxyCounters,
}

impl Classical {
    /// Creates a proxy with these settings.
    pub(super) fn new(settings: &PathProxy) -> Self {
        let count = settings.connections;
        Self {
            settings: settings.clone(),
            pairs: (0..count).map(|_| TcpPair::new(settings.buffer_bytes)).collect(),
            table: Table::new(count, settings.host_connections),
            due: IndexedHeap::default(),
            replies: VecDeque::with_capacity(MAX_REPLIES),
            spare: vec![Vec::new(); MAX_REPLIES],
            cursor: 0,
            hasher: RandomState::new(),
            opened: 0,
            counters: ProxyCounters::default(),
        }
    }

    /// Applies changed settings; returns `false` if the table or buffer sizes differ.
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

    /// Returns whether packets of `tuple` belong to a connection.
    #[inline]
    pub(super) fn has_connection(&self, tuple: &Tuple) -> bool {
        self.table.find(tuple).is_some()
    }

    /// Returns when the proxy must run, ns.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        if self.replies.is_empty() { self.due.first().map_or(u64::MAX, |of| of.0) } else { 0 }
    }

    /// Processes a received packet.
    pub(super) fn receive(&mut self, frame: &[u8], now_ns: u64) {
        let Some(segment) = Segment::parse(frame) else {
            self.counters.no_connection += 1;
            return;
        };
        let number = match self.table.find(&segment.tuple) {
            Some(number) => number,
            None if segment.is_syn() => match self.open(segment.tuple, now_ns) {
                Some(number) => number,
                None => return,
            },
            None => {
                self.counters.no_connection += 1;
                return;
            }
        };
        let Some(pair) = self.pairs.get_mut(number as usize) else { return };
        let mut reply = self.spare.pop().unwrap_or_default();
        reply.clear();
        pair.receive(&frame[segment.ip.header..segment.ip.end], now_ns, &mut reply);
        if reply.is_empty() || self.replies.len() == MAX_REPLIES {
            self.spare.push(reply);
        } else {
            self.replies.push_back(reply);
        }
        self.due.insert(number, now_ns);
    }

    /// Allocates a pair for the connection that `tuple` opens, and listens.
    fn open(&mut self, tuple: Tuple, now_ns: u64) -> Option<u32> {
        if self.table.is_full() {
            self.make_room();
        }
        let Some(number) = self.table.open(tuple) else {
            self.counters.refused_full += 1;
            return None;
        };
        self.opened += 1;
        let seed = self.hasher.hash_one((tuple, self.opened, "sequence"));
        self.pairs.get_mut(number as usize)?.listen(tuple, seed, now_ns);
        self.counters.opened += 1;
        self.counters.connections += 1;
        Some(number)
    }

    /// Closes a pair in TIME-WAIT, if a short search finds one.
    fn make_room(&mut self) {
        for _ in 0..SCAN_PER_OPEN.min(self.pairs.len()) {
            self.cursor = (self.cursor + 1) % self.pairs.len();
            let pair = &self.pairs[self.cursor];
            if pair.stage == Stage::Closed
                && self.table.find(&pair.client_tuple) == u32::try_from(self.cursor).ok()
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
            self.table.release_client(&pair.client_tuple);
        }
        self.table.close(number, &pair.client_tuple, pair.server_tuple.as_ref());
        pair.stage = Stage::Closed;
        self.due.remove(number);
        self.counters.connections -= 1;
    }

    /// Makes packets for clients and servers until none are due or the buffers are full.
    pub(super) fn make(
        &mut self,
        out: &mut TxDevice<'_>,
        sources: &mut dyn SourceAddresses,
        now_ns: u64,
    ) {
        while let Some(reply) = self.replies.front() {
            if out.put(reply.len(), |packet| packet.copy_from_slice(reply)).is_err() {
                return;
            }
            self.spare.extend(self.replies.pop_front());
        }
        // Each iteration makes a packet or postpones a pair.
        for _ in 0..out.most.max(1) {
            let Some((at_ns, number)) = self.due.first() else { return };
            if at_ns > now_ns || out.made.len() >= out.most {
                return;
            }
            let at = number as usize;
            let before = out.made.len();
            self.advance(at, sources, now_ns);
            self.pairs[at].send(out, now_ns);
            // Sending has freed buffer space: moves bytes again.
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
                _ => self.due.insert(number, due_ns),
            }
        }
    }

    /// Advances a pair as far as possible without a packet.
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
            let (bytes, last) = pair.first_bytes();
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
            self.table.release_client(&pair.client_tuple);
        }
        self.counters.to_server_bytes += transferred.to_server;
        self.counters.to_client_bytes += transferred.to_client;
        self.counters.broken += u64::from(transferred.broken);
    }

    /// Connects to `server` from an address of the router and an unpredictable port.
    fn connect(&mut self, at: usize, server: SocketAddr, sources: &mut dyn SourceAddresses) {
        let pair = &mut self.pairs[at];
        let first = self.hasher.hash_one((pair.client_tuple, self.opened, "port"));
        let server_tuple = sources.own_address(server.ip()).and_then(|own| {
            let number = u32::try_from(at).ok()?;
            (0..MAX_PORT_PROBES)
                .filter_map(|step| u16::try_from(first.wrapping_add(step) % PORTS).ok())
                .map(|port| SocketAddr::new(own, FIRST_PORT + port))
                .map(|own| Tuple { source: server, destination: own })
                .find(|server_tuple| self.table.join(*server_tuple, number))
        });
        if server_tuple.is_none_or(|server_tuple| !pair.connect(server_tuple)) {
            pair.abort();
            self.counters.unreachable += 1;
        }
    }
}
