//! The transparent proxy: it shakes hands with the client in the server's name, hears what it says first, and decides. Then
//! it shakes hands with the server in the client's name, hands those bytes on, and from then on only numbers change.
//!
//! ```text
//! client                    router                     server
//!   │ ── begins ──────────────>│                          │   nothing is remembered: see cookie.rs
//!   │ <───────── its number ── │                          │
//!   │ ── first bytes ─────────>│ kept, not acknowledged   │
//!   │                          │ ── begins ──────────────>│
//!   │                          │ <───────── its number ── │
//!   │                          │ ── first bytes ─────────>│
//!   │ <───────────────────── both, spliced ──────────────>│
//! ```
//!
//! The router acknowledges nothing that the client says, so what is lost on its way is sent again by the client. Source:
//! the Router paper, Table 1; RFC 9293.

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

/// What is kept of what a client says first, bytes: its window until it is spliced.
const MAX_HEAD_BYTES: usize = 4_096;
/// How long a client may take to say it, ns.
const HOST_TIMEOUT_NS: u64 = 10_000_000_000;
/// When a server that does not answer is asked again, ns; then after twice as long, and again.
const SYN_RETRY_NS: u64 = 1_000_000_000;
/// So often it is asked in all.
const SYN_TRIES: u32 = 4;
/// How long a connection may be silent, ns: RFC 5382's for translation,
const IDLE_TIMEOUT_NS: u64 = 7_440_000_000_000;
/// once both ends have ended it,
const LINGER_NS: u64 = 10_000_000_000;
/// and if its place is wanted.
const EVICT_NS: u64 = 1_000_000_000;
/// Connections looked at for each new one, whether they are over.
const SCAN_PER_OPEN: usize = 8;
/// Segments that wait until there is room for them.
const MAX_QUEUED: usize = 256;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What the client wants is not known yet.
    ReadingHost,
    /// The server has been asked so often.
    Connecting(u32),
    /// So many of the first bytes have been handed on.
    Spliced(usize),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// How the client's packets are known; the server's are known by it the other way round.
    front: Tuple,
    stage: Stage,
    /// The first number of the client, and that which it was told as the server's.
    client: u32,
    ours: u32,
    options: SynOptions,
    /// The client's window when it was last heard, as it stood there.
    window: u16,
    /// How many of its first bytes are kept.
    head: usize,
    spliced: SplicedFlow,
    /// Which ends have said that they will say no more: client, server.
    ended: [bool; 2],
    broken: bool,
    /// It is one of its client's: not any more once both ends have ended it.
    counted: bool,
    last_ns: u64,
}

impl Flow {
    fn is_expired(&self, now_ns: u64, wanted: bool) -> bool {
        let over = self.broken || self.ended == [true; 2];
        let patience_ns = match (over, wanted) {
            (true, true) => EVICT_NS,
            (true, false) => LINGER_NS,
            (false, _) => IDLE_TIMEOUT_NS,
        };
        now_ns.saturating_sub(self.last_ns) > patience_ns
    }

    /// A segment in the client's name, after so many of its first bytes.
    fn segment_to_server(&self, flags: u8, after: usize) -> OutgoingSegment {
        let after = u32::try_from(after).unwrap_or(0);
        OutgoingSegment {
            tuple: self.front,
            sequence: self.client.wrapping_add(1).wrapping_add(after),
            acknowledgement: self.ours.wrapping_sub(self.spliced.seq_offset).wrapping_add(1),
            flags,
            window: self.window,
            options: None,
        }
    }

    /// Tells the client, in the server's name, that it is over.
    fn reset_to_client(&self) -> OutgoingSegment {
        let head = u32::try_from(self.head).unwrap_or(0);
        OutgoingSegment {
            tuple: self.front.reversed(),
            sequence: self.ours.wrapping_add(1),
            acknowledgement: self.client.wrapping_add(1).wrapping_add(head),
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
    /// The first bytes of each.
    heads: Vec<u8>,
    table: Table,
    /// When connections that are not spliced yet want to do something, ns.
    due: IndexedHeap<u64>,
    queued: VecDeque<OutgoingSegment>,
    cookies: Cookies,
    /// Where connections that are over are looked for next.
    cursor: usize,
    counters: ProxyCounters,
}

impl Transparent {
    /// One that does as `settings` say.
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

    /// Goes on by other settings; `false` if it is of another size, and cannot.
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

    /// Whether packets of `tuple` belong to a connection.
    #[inline]
    pub(super) fn knows(&self, tuple: &Tuple) -> bool {
        self.table.find(tuple).is_some()
    }

    /// When it wants to run, ns.
    #[inline]
    pub(super) fn due_ns(&self) -> u64 {
        if self.queued.is_empty() { self.due.first().map_or(u64::MAX, |of| of.0) } else { 0 }
    }

    /// A packet has come; whether it goes on, changed.
    pub(super) fn receive(&mut self, frame: &mut [u8], now_ns: u64) -> bool {
        let Some(segment) = Segment::parse(frame) else {
            self.counters.strays += 1;
            return false;
        };
        let refused = self.counters.refused_full;
        let known = self.table.find(&segment.tuple);
        let spliced = known.and_then(|number| self.flows.get(number as usize)?.as_ref());
        let spliced = spliced.is_some_and(|flow| matches!(flow.stage, Stage::Spliced(_)));
        // Whoever gets a packet that only passes looks himself.
        if !spliced && !segment.has_valid_checksum(frame) {
            self.counters.strays += 1;
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
            // Those that were refused have been counted.
            self.counters.strays += u64::from(self.counters.refused_full == refused);
            self.enqueue(OutgoingSegment::reset(frame, &segment));
            return false;
        };
        let from_client = segment.tuple == flow.front;
        if let Stage::Spliced(_) = flow.stage {
            let again = !from_client && segment.flags & SYN != 0;
            flow.last_ns = now_ns;
            if again {
                // The server has not heard what came after its number.
                flow.stage = Stage::Spliced(0);
                self.due.place(known.unwrap_or(0), now_ns);
                return false;
            }
            flow.ended[usize::from(!from_client)] |= segment.flags & FIN != 0;
            let breaks = segment.flags & RST != 0 && !flow.broken;
            flow.broken |= breaks;
            self.counters.broken += u64::from(breaks);
            if (flow.broken || flow.ended == [true; 2]) && std::mem::take(&mut flow.counted) {
                self.table.release_client(&flow.front);
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

    /// A client begins: it is told a number, and nothing is remembered.
    fn reply_syn_ack(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) {
        let sequence = segment.sequence(frame);
        let options = SynOptions::parse(frame, segment);
        let tuple = segment.tuple;
        let length = mss(tuple.source.ip());
        self.enqueue(Some(OutgoingSegment {
            tuple: tuple.reversed(),
            sequence: self.cookies.number(tuple, sequence, options, now_ns),
            acknowledgement: sequence.wrapping_add(1),
            flags: SYN | ACK,
            window: u16::try_from(MAX_HEAD_BYTES).unwrap_or(u16::MAX),
            options: Some(SynOptions {
                length,
                scale: options.scale.map(|_| ROUTER_SHIFT),
                ..options
            }),
        }));
    }

    /// The connection of a client that says its number, which nobody else can.
    fn open(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) -> Option<u32> {
        if segment.flags & (ACK | SYN | RST) != ACK {
            return None;
        }
        let client = segment.sequence(frame).wrapping_sub(1);
        let ours = segment.acknowledgement(frame).wrapping_sub(1);
        let options = self.cookies.options(segment.tuple, client, ours, now_ns)?;
        let wanted = self.table.is_full();
        for _ in 0..SCAN_PER_OPEN.min(self.flows.len()) {
            self.cursor = (self.cursor + 1) % self.flows.len();
            self.close_if_expired(u32::try_from(self.cursor).ok()?, now_ns, wanted);
        }
        let front = segment.tuple;
        let number = self.table.open(front);
        let number = number.filter(|number| {
            // The server's packets may be somebody else's already.
            let joined = self.table.join(front.reversed(), *number);
            if !joined {
                self.table.release_client(&front);
                self.table.close(*number, &front, None);
            }
            joined
        });
        let Some(number) = number else {
            self.counters.refused_full += 1;
            return None;
        };
        *self.flows.get_mut(number as usize)? = Some(Flow {
            front,
            stage: Stage::ReadingHost,
            client,
            ours,
            options,
            window: segment.window(frame),
            head: 0,
            spliced: SplicedFlow::default(),
            ended: [false; 2],
            broken: false,
            counted: true,
            last_ns: now_ns,
        });
        self.due.place(number, now_ns.saturating_add(HOST_TIMEOUT_NS));
        self.counters.opened += 1;
        self.counters.connections += 1;
        Some(number)
    }

    /// A client speaks whose server has not answered yet: what it says is kept, in order and as far as there is room.
    fn on_client_segment(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let head = u32::try_from(flow.head).unwrap_or(0);
        if segment.sequence(frame) != flow.client.wrapping_add(1).wrapping_add(head) {
            return;
        }
        if segment.flags & RST != 0 {
            let call = matches!(flow.stage, Stage::Connecting(_))
                .then(|| flow.segment_to_server(RST, flow.head));
            self.enqueue(call);
            self.counters.broken += 1;
            self.close(number);
            return;
        }
        flow.window = segment.window(frame);
        flow.last_ns = now_ns;
        let data = &frame[segment.data..segment.ip.end];
        let place = &mut self.heads[at * MAX_HEAD_BYTES..(at + 1) * MAX_HEAD_BYTES][flow.head..];
        let fits = data.len().min(place.len());
        place[..fits].copy_from_slice(&data[..fits]);
        flow.head += fits;
        if flow.stage == Stage::ReadingHost {
            let last = segment.flags & FIN != 0 || flow.head == MAX_HEAD_BYTES;
            self.decide(number, last, now_ns);
        }
    }

    /// Decides, if the client has said enough.
    fn decide(&mut self, number: u32, last: bool, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let said = &self.heads[at * MAX_HEAD_BYTES..][..flow.head];
        match rules::decide(&self.settings, said, last) {
            Decision::Wait => {}
            Decision::Pass(_) => {
                flow.stage = Stage::Connecting(0);
                self.due.place(number, now_ns);
            }
            Decision::Refuse => {
                let reset_to_client = flow.reset_to_client();
                self.enqueue(Some(reset_to_client));
                self.counters.refused_host += 1;
                self.close(number);
            }
        }
    }

    /// The server answers.
    fn on_server_segment(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let Some(flow) = self.flows[number as usize].as_mut() else { return };
        let answers = segment.flags & ACK != 0
            && segment.acknowledgement(frame) == flow.client.wrapping_add(1)
            && matches!(flow.stage, Stage::Connecting(tries) if tries > 0);
        if !answers {
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
                seq_offset: flow.ours.wrapping_sub(segment.sequence(frame)),
                client_shift: flow.options.scale,
                server_shift: flow.options.scale.and(options.scale),
            };
            flow.options.length = options.length.min(mss(flow.front.source.ip()));
            // Nobody has told the server in which units its client counts.
            if let (Some(shift), None) = (flow.spliced.client_shift, flow.spliced.server_shift) {
                let window = u32::from(flow.window) << shift;
                flow.window = u16::try_from(window).unwrap_or(u16::MAX);
            }
            flow.stage = Stage::Spliced(0);
            flow.last_ns = now_ns;
            self.due.place(number, now_ns);
        }
    }

    /// Gives up a connection that was silent for too long, sooner if its place is wanted; returns whether there is none
    /// now.
    fn close_if_expired(&mut self, number: u32, now_ns: u64, wanted: bool) -> bool {
        let Some(Some(flow)) = self.flows.get(number as usize) else { return true };
        let over = flow.is_expired(now_ns, wanted);
        if over {
            self.close(number);
        }
        over
    }

    fn close(&mut self, number: u32) {
        if let Some(flow) = self.flows.get_mut(number as usize).and_then(Option::take) {
            if flow.counted {
                self.table.release_client(&flow.front);
            }
            self.table.close(number, &flow.front, Some(&flow.front.reversed()));
            self.due.remove(number);
            self.counters.connections -= 1;
        }
    }

    /// A segment is to be made; if too many are, the other end asks again.
    fn enqueue(&mut self, segment: Option<OutgoingSegment>) {
        if self.queued.len() < MAX_QUEUED {
            self.queued.extend(segment);
        }
    }

    /// Makes packets until there are none or no room.
    pub(super) fn make(&mut self, out: &mut TxDevice<'_>, now_ns: u64) {
        while let Some(segment) = self.queued.front() {
            if !segment.put(&[], out) {
                return;
            }
            self.queued.pop_front();
        }
        // Each turn makes a packet, or is some connection's last for now.
        for _ in 0..out.most.max(1) {
            let Some((at_ns, number)) = self.due.first() else { return };
            if at_ns > now_ns || out.made.len() >= out.most || !self.advance(number, out, now_ns) {
                return;
            }
        }
    }

    /// What a connection does without a packet; `false` if there is no room for it.
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
                let mut call = flow.segment_to_server(SYN, 0);
                call.sequence = flow.client;
                call.options = Some(flow.options);
                if !call.put(&[], out) {
                    return false;
                }
                flow.stage = Stage::Connecting(tries + 1);
                self.due.place(number, now_ns.saturating_add(SYN_RETRY_NS << tries));
            }
            Stage::Spliced(sent) => {
                let head = &self.heads[at * MAX_HEAD_BYTES..][..flow.head];
                let next = head.len().min(sent + usize::from(flow.options.length.max(1)));
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
