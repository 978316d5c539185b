//! The transparent proxy: completes the handshake in the server's name, reads the client's first
//! bytes and decides. It then opens the connection to the server in the client's name, forwards
//! those bytes and splices the two.
//!
//! ```text
//! client                    router                     server
//!   │ ── SYN ─────────────────>│                          │   no state: see cookie.rs
//!   │ <───────────── SYN ACK ──│                          │
//!   │ ── first bytes ─────────>│ kept, not acknowledged   │
//!   │                          │ ── SYN ─────────────────>│
//!   │                          │ <───────────── SYN ACK ──│
//!   │                          │ ── first bytes ─────────>│
//!   │ <───────────────── spliced in both directions ─────>│
//! ```
//!
//! The router acknowledges none of the client's bytes, so the client retransmits what is lost.
//! Source: the Router paper, Table 1; RFC 9293.

use millstream::IndexedHeap;
use millstream_scenario::PathProxy;
use std::collections::VecDeque;

use super::ProxyCounters;
use super::cookie::Cookies;
use super::device::TxDevice;
use super::outgoing_segment::{OutgoingSegment, SynOptions, mss};
use super::rules::{self, Decision};
use super::segment::{ACK, FIN, RST, SYN, Segment, Tuple};
use super::spliced_flow::{ROUTER_SHIFT, SplicedFlow};
use super::table::Table;

/// First bytes kept per connection: the window that the client gets until it is spliced.
const MAX_HEAD_BYTES: usize = 4_096;
/// Timeout of a client to send the host name, ns.
const HOST_TIMEOUT_NS: u64 = 10_000_000_000;
/// Delay before the second SYN to a server, ns; it doubles each time.
const SYN_RETRY_NS: u64 = 1_000_000_000;
/// SYNs to a server, at most.
const SYN_TRIES: u32 = 4;
/// Idle timeout, ns; RFC 5382's for translators.
const IDLE_TIMEOUT_NS: u64 = 7_440_000_000_000;
/// Idle timeout after both ends have sent FIN, ns.
const LINGER_NS: u64 = 10_000_000_000;
/// Idle timeout after both FINs while the table is full, ns.
const EVICT_NS: u64 = 1_000_000_000;
/// Connections checked for expiry per new one.
const SCAN_PER_OPEN: usize = 8;
/// Queued segments, at most.
const MAX_QUEUED: usize = 256;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The host name is not known yet.
    ReadingHost,
    /// The router connects to the server: the number of SYNs sent.
    Connecting(u32),
    /// The connections are spliced: the number of first bytes forwarded.
    Spliced(usize),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Tuple of the client's packets; the server's have the reverse.
    client_tuple: Tuple,
    stage: Stage,
    /// Initial sequence numbers: the client's, and the one the router sent in the server's name.
    client_isn: u32,
    proxy_isn: u32,
    options: SynOptions,
    /// The client's last advertised window, unscaled.
    window: u16,
    /// Number of first bytes kept.
    head: usize,
    spliced: SplicedFlow,
    /// Which ends have sent FIN: client, server.
    ended: [bool; 2],
    broken: bool,
    /// Whether the connection counts towards its client's limit; not after both FINs.
    counted: bool,
    last_ns: u64,
}

impl Flow {
    fn is_expired(&self, now_ns: u64, table_full: bool) -> bool {
        let over = self.broken || self.ended == [true; 2];
        let timeout_ns = match (over, table_full) {
            (true, true) => EVICT_NS,
            (true, false) => LINGER_NS,
            (false, _) => IDLE_TIMEOUT_NS,
        };
        now_ns.saturating_sub(self.last_ns) > timeout_ns
    }

    /// Returns a segment in the client's name that follows `after` of its first bytes.
    fn segment_to_server(&self, flags: u8, after: usize) -> OutgoingSegment {
        let after = u32::try_from(after).unwrap_or(0);
        OutgoingSegment {
            tuple: self.client_tuple,
            sequence: self.client_isn.wrapping_add(1).wrapping_add(after),
            acknowledgement: self.proxy_isn.wrapping_sub(self.spliced.seq_offset).wrapping_add(1),
            flags,
            window: self.window,
            options: None,
        }
    }

    /// Returns a reset for the client, in the server's name.
    fn reset_to_client(&self) -> OutgoingSegment {
        let head = u32::try_from(self.head).unwrap_or(0);
        OutgoingSegment {
            tuple: self.client_tuple.reversed(),
            sequence: self.proxy_isn.wrapping_add(1),
            acknowledgement: self.client_isn.wrapping_add(1).wrapping_add(head),
            flags: RST | ACK,
            window: 0,
            options: None,
        }
    }
}

/// A transparent proxy.
pub(super) struct Transparent {
    settings: PathProxy,
    flows: Vec<Option<Flow>>,
    /// The first bytes of each connection.
    heads: Vec<u8>,
    table: Table,
    /// Time at which connections that are not yet spliced must run, ns.
    due: IndexedHeap<u64>,
    queued: VecDeque<OutgoingSegment>,
    cookies: Cookies,
    /// Where the next search for expired connections begins.
    cursor: usize,
    counters: ProxyCounters,
}

impl Transparent {
    /// Creates a proxy with these settings.
    pub(super) fn new(settings: &PathProxy) -> Self {
        let count = settings.connections;
        Self {
            settings: settings.clone(),
            flows: vec![None; count as usize],
            heads: vec![0; count as usize * MAX_HEAD_BYTES],
            table: Table::new(count, settings.host_connections),
            due: IndexedHeap::default(),
            queued: VecDeque::with_capacity(MAX_QUEUED),
            cookies: Cookies::default(),
            cursor: 0,
            counters: ProxyCounters::default(),
        }
    }

    /// Applies changed settings; returns `false` if the table size differs.
    pub(super) fn change(&mut self, settings: &PathProxy) -> bool {
        let size = |of: &PathProxy| (of.kind, of.connections);
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
        if self.queued.is_empty() { self.due.first().map_or(u64::MAX, |of| of.0) } else { 0 }
    }

    /// Processes a received packet; returns whether to forward it, rewritten.
    pub(super) fn receive(&mut self, frame: &mut [u8], now_ns: u64) -> bool {
        let Some(segment) = Segment::parse(frame) else {
            self.counters.no_connection += 1;
            return false;
        };
        let refused = self.counters.refused_full;
        let known = self.table.find(&segment.tuple);
        let spliced = known.and_then(|number| self.flows.get(number as usize)?.as_ref());
        let spliced = spliced.is_some_and(|flow| matches!(flow.stage, Stage::Spliced(_)));
        // The receiver verifies the checksum of a packet that is only rewritten.
        if !spliced && !segment.has_valid_checksum(frame) {
            self.counters.no_connection += 1;
            return false;
        }
        let known =
            known.filter(|number| !self.close_if_expired(*number, now_ns, segment.is_syn()));
        let known = match known {
            None if segment.is_syn() => {
                self.reply_syn_ack(frame, &segment, now_ns);
                return false;
            }
            None => self.open(frame, &segment, now_ns),
            known => known,
        };
        let Some(flow) = known.and_then(|number| self.flows.get_mut(number as usize)?.as_mut())
        else {
            // Refused connections are already counted.
            self.counters.no_connection += u64::from(self.counters.refused_full == refused);
            self.enqueue(OutgoingSegment::reset(frame, &segment));
            return false;
        };
        let from_client = segment.tuple == flow.client_tuple;
        if let Stage::Spliced(_) = flow.stage {
            let again = !from_client && segment.flags & SYN != 0;
            flow.last_ns = now_ns;
            if again {
                // The server repeats its SYN: it has not received what followed.
                flow.stage = Stage::Spliced(0);
                self.due.insert(known.unwrap_or(0), now_ns);
                return false;
            }
            flow.ended[usize::from(!from_client)] |= segment.flags & FIN != 0;
            let breaks = segment.flags & RST != 0 && !flow.broken;
            flow.broken |= breaks;
            self.counters.broken += u64::from(breaks);
            if (flow.broken || flow.ended == [true; 2]) && std::mem::take(&mut flow.counted) {
                self.table.release_client(&flow.client_tuple);
            }
            let length = segment.length() as u64;
            if from_client {
                flow.spliced.rewrite_to_server(frame, &segment);
                self.counters.to_server_bytes += length;
            } else {
                flow.spliced.rewrite_to_client(frame, &segment);
                self.counters.to_client_bytes += length;
            }
            return true;
        }
        let Some(number) = known else { return false };
        if from_client {
            self.on_client_segment(number, frame, &segment, now_ns);
        } else {
            self.on_server_segment(number, frame, &segment, now_ns);
        }
        false
    }

    /// Answers a SYN with a cookie and keeps no state.
    fn reply_syn_ack(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) {
        let sequence = segment.sequence(frame);
        let options = SynOptions::parse(frame, segment);
        let tuple = segment.tuple;
        let mss = mss(tuple.source.ip());
        self.enqueue(Some(OutgoingSegment {
            tuple: tuple.reversed(),
            sequence: self.cookies.number(tuple, sequence, options, now_ns),
            acknowledgement: sequence.wrapping_add(1),
            flags: SYN | ACK,
            window: u16::try_from(MAX_HEAD_BYTES).unwrap_or(u16::MAX),
            options: Some(SynOptions {
                mss,
                scale: options.scale.map(|_| ROUTER_SHIFT),
                ..options
            }),
        }));
    }

    /// Opens the connection of a client that returned a valid cookie.
    fn open(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) -> Option<u32> {
        if segment.flags & (ACK | SYN | RST) != ACK {
            return None;
        }
        let client_isn = segment.sequence(frame).wrapping_sub(1);
        let proxy_isn = segment.acknowledgement(frame).wrapping_sub(1);
        let options = self.cookies.options(segment.tuple, client_isn, proxy_isn, now_ns)?;
        let table_full = self.table.is_full();
        for _ in 0..SCAN_PER_OPEN.min(self.flows.len()) {
            self.cursor = (self.cursor + 1) % self.flows.len();
            self.close_if_expired(u32::try_from(self.cursor).ok()?, now_ns, table_full);
        }
        let client_tuple = segment.tuple;
        let number = self.table.open(client_tuple);
        let number = number.filter(|number| {
            // Another connection may already use the server's tuple.
            let joined = self.table.join(client_tuple.reversed(), *number);
            if !joined {
                self.table.release_client(&client_tuple);
                self.table.close(*number, &client_tuple, None);
            }
            joined
        });
        let Some(number) = number else {
            self.counters.refused_full += 1;
            return None;
        };
        *self.flows.get_mut(number as usize)? = Some(Flow {
            client_tuple,
            stage: Stage::ReadingHost,
            client_isn,
            proxy_isn,
            options,
            window: segment.window(frame),
            head: 0,
            spliced: SplicedFlow::default(),
            ended: [false; 2],
            broken: false,
            counted: true,
            last_ns: now_ns,
        });
        self.due.insert(number, now_ns.saturating_add(HOST_TIMEOUT_NS));
        self.counters.opened += 1;
        self.counters.connections += 1;
        Some(number)
    }

    /// Processes a client's segment before the flow is spliced: keeps its bytes in order, as space
    /// permits.
    fn on_client_segment(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let head = u32::try_from(flow.head).unwrap_or(0);
        if segment.sequence(frame) != flow.client_isn.wrapping_add(1).wrapping_add(head) {
            return;
        }
        if segment.flags & RST != 0 {
            let reset = matches!(flow.stage, Stage::Connecting(_))
                .then(|| flow.segment_to_server(RST, flow.head));
            self.enqueue(reset);
            self.counters.broken += 1;
            self.close(number);
            return;
        }
        flow.window = segment.window(frame);
        flow.last_ns = now_ns;
        let data = &frame[segment.data..segment.ip.end];
        let room = &mut self.heads[at * MAX_HEAD_BYTES..(at + 1) * MAX_HEAD_BYTES][flow.head..];
        let fits = data.len().min(room.len());
        room[..fits].copy_from_slice(&data[..fits]);
        flow.head += fits;
        if flow.stage == Stage::ReadingHost {
            let last = segment.flags & FIN != 0 || flow.head == MAX_HEAD_BYTES;
            self.decide(number, last, now_ns);
        }
    }

    /// Decides on the connection if the client has sent enough.
    fn decide(&mut self, number: u32, last: bool, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let head = &self.heads[at * MAX_HEAD_BYTES..][..flow.head];
        match rules::decide(&self.settings, head, last) {
            Decision::Wait => {}
            Decision::Pass(_) => {
                flow.stage = Stage::Connecting(0);
                self.due.insert(number, now_ns);
            }
            Decision::Refuse => {
                let reset_to_client = flow.reset_to_client();
                self.enqueue(Some(reset_to_client));
                self.counters.refused_host += 1;
                self.close(number);
            }
        }
    }

    /// Processes the server's answer to the SYN.
    fn on_server_segment(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let Some(flow) = self.flows[number as usize].as_mut() else { return };
        let is_reply = segment.flags & ACK != 0
            && segment.acknowledgement(frame) == flow.client_isn.wrapping_add(1)
            && matches!(flow.stage, Stage::Connecting(tries) if tries > 0);
        if !is_reply {
            return;
        }
        if segment.flags & RST != 0 {
            let reset_to_client = flow.reset_to_client();
            self.enqueue(Some(reset_to_client));
            self.counters.broken += 1;
            self.close(number);
        } else if segment.flags & SYN != 0 {
            let options = SynOptions::parse(frame, segment);
            flow.spliced = SplicedFlow {
                seq_offset: flow.proxy_isn.wrapping_sub(segment.sequence(frame)),
                client_shift: flow.options.scale,
                server_shift: flow.options.scale.and(options.scale),
            };
            flow.options.mss = options.mss.min(mss(flow.client_tuple.source.ip()));
            // The server does not know the client's window scale.
            if let (Some(shift), None) = (flow.spliced.client_shift, flow.spliced.server_shift) {
                let window = u32::from(flow.window) << shift;
                flow.window = u16::try_from(window).unwrap_or(u16::MAX);
            }
            flow.stage = Stage::Spliced(0);
            flow.last_ns = now_ns;
            self.due.insert(number, now_ns);
        }
    }

    /// Closes an expired connection, sooner if the table is full; returns whether the slot is
    /// free.
    fn close_if_expired(&mut self, number: u32, now_ns: u64, table_full: bool) -> bool {
        let Some(Some(flow)) = self.flows.get(number as usize) else { return true };
        let over = flow.is_expired(now_ns, table_full);
        if over {
            self.close(number);
        }
        over
    }

    fn close(&mut self, number: u32) {
        if let Some(flow) = self.flows.get_mut(number as usize).and_then(Option::take) {
            if flow.counted {
                self.table.release_client(&flow.client_tuple);
            }
            self.table.close(number, &flow.client_tuple, Some(&flow.client_tuple.reversed()));
            self.due.remove(number);
            self.counters.connections -= 1;
        }
    }

    /// Queues a segment; drops it if the queue is full, because the peer retransmits.
    fn enqueue(&mut self, segment: Option<OutgoingSegment>) {
        if self.queued.len() < MAX_QUEUED {
            self.queued.extend(segment);
        }
    }

    /// Makes packets until none are due or the buffers are full.
    pub(super) fn make(&mut self, out: &mut TxDevice<'_>, now_ns: u64) {
        while let Some(segment) = self.queued.front() {
            if !segment.put(&[], out) {
                return;
            }
            self.queued.pop_front();
        }
        // Each iteration makes a packet or finishes a connection for now.
        for _ in 0..out.most.max(1) {
            let Some((at_ns, number)) = self.due.first() else { return };
            if at_ns > now_ns || out.made.len() >= out.most || !self.advance(number, out, now_ns) {
                return;
            }
        }
    }

    /// Advances a connection without a packet; returns `false` if no buffer is free.
    fn advance(&mut self, number: u32, out: &mut TxDevice<'_>, now_ns: u64) -> bool {
        let at = number as usize;
        let Some(Some(flow)) = self.flows.get_mut(at) else {
            self.due.remove(number);
            return true;
        };
        match flow.stage {
            Stage::ReadingHost => self.decide(number, true, now_ns),
            Stage::Connecting(SYN_TRIES) => {
                let reset_to_client = flow.reset_to_client();
                self.enqueue(Some(reset_to_client));
                self.counters.unreachable += 1;
                self.close(number);
            }
            Stage::Connecting(tries) => {
                let mut syn = flow.segment_to_server(SYN, 0);
                syn.sequence = flow.client_isn;
                syn.options = Some(flow.options);
                if !syn.put(&[], out) {
                    return false;
                }
                flow.stage = Stage::Connecting(tries + 1);
                self.due.insert(number, now_ns.saturating_add(SYN_RETRY_NS << tries));
            }
            Stage::Spliced(sent) => {
                let head = &self.heads[at * MAX_HEAD_BYTES..][..flow.head];
                let next = head.len().min(sent + usize::from(flow.options.mss.max(1)));
                if !flow.segment_to_server(ACK, sent).put(&head[sent..next], out) {
                    return false;
                }
                self.counters.to_server_bytes += (next - sent) as u64;
                flow.stage = Stage::Spliced(next);
                if next == head.len() {
                    self.due.remove(number);
                }
            }
        }
        true
    }
}
