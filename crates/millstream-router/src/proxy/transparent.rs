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
use super::device::Outgoing;
use super::outgoing_segment::{Note, Terms, longest};
use super::rules::{self, Decision};
use super::segment::{ACK, FIN, RST, SYN, Segment, Tuple};
use super::spliced_flow::{SHIFT, Splice};
use super::table::Table;

/// What is kept of what a client says first, bytes: its window until it is spliced.
const HEAD_BYTES: usize = 4_096;
/// How long a client may take to say it, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// When a server that does not answer is asked again, ns; then after twice as long, and again.
const AGAIN_NS: u64 = 1_000_000_000;
/// So often it is asked in all.
const TRIES: u32 = 4;
/// How long a connection may be silent, ns: RFC 5382's for translation,
const SILENCE_NS: u64 = 7_440_000_000_000;
/// once both ends have ended it,
const ENDED_NS: u64 = 10_000_000_000;
/// and if its place is wanted.
const WANTED_NS: u64 = 1_000_000_000;
/// Connections looked at for each new one, whether they are over.
const LOOKED_AT: usize = 8;
/// Segments that wait until there is room for them.
const NOTES: usize = 256;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What the client wants is not known yet.
    Asking,
    /// The server has been asked so often.
    Calling(u32),
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
    terms: Terms,
    /// The client's window when it was last heard, as it stood there.
    window: u16,
    /// How many of its first bytes are kept.
    head: usize,
    splice: Splice,
    /// Which ends have said that they will say no more: client, server.
    ended: [bool; 2],
    broken: bool,
    /// It is one of its client's: not any more once both ends have ended it.
    counted: bool,
    last_ns: u64,
}

impl Flow {
    fn is_over(&self, now_ns: u64, wanted: bool) -> bool {
        let over = self.broken || self.ended == [true; 2];
        let patience_ns = match (over, wanted) {
            (true, true) => WANTED_NS,
            (true, false) => ENDED_NS,
            (false, _) => SILENCE_NS,
        };
        now_ns.saturating_sub(self.last_ns) > patience_ns
    }

    /// A segment in the client's name, after so many of its first bytes.
    fn in_its_name(&self, flags: u8, after: usize) -> Note {
        let after = u32::try_from(after).unwrap_or(0);
        Note {
            tuple: self.front,
            sequence: self.client.wrapping_add(1).wrapping_add(after),
            acknowledgement: self.ours.wrapping_sub(self.splice.difference).wrapping_add(1),
            flags,
            window: self.window,
            terms: None,
        }
    }

    /// Tells the client, in the server's name, that it is over.
    fn refusal(&self) -> Note {
        let head = u32::try_from(self.head).unwrap_or(0);
        Note {
            tuple: self.front.back(),
            sequence: self.ours.wrapping_add(1),
            acknowledgement: self.client.wrapping_add(1).wrapping_add(head),
            flags: RST | ACK,
            window: 0,
            terms: None,
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
    notes: VecDeque<Note>,
    cookies: Cookies,
    /// Where connections that are over are looked for next.
    hand: usize,
    counters: ProxyCounters,
}

impl Transparent {
    /// One that does as `settings` say.
    pub(super) fn new(settings: &PathProxy) -> Self {
        let count = settings.connections;
        Self {
            settings: settings.clone(),
            flows: vec![None; count as usize],
            heads: vec![0; count as usize * HEAD_BYTES],
            table: Table::new(count, settings.host_connections),
            due: IndexedHeap::default(),
            notes: VecDeque::with_capacity(NOTES),
            cookies: Cookies::default(),
            hand: 0,
            counters: ProxyCounters::default(),
        }
    }

    /// Goes on by other settings; `false` if it is of another size, and cannot.
    pub(super) fn change(&mut self, settings: &PathProxy) -> bool {
        let size = |of: &PathProxy| (of.kind, of.connections);
        let same = size(settings) == size(&self.settings);
        if same {
            self.settings = settings.clone();
            self.table.set_most_of_client(settings.host_connections);
        }
        same
    }

    pub(super) fn counters(&self) -> ProxyCounters {
        self.counters
    }

    pub(super) fn count_from(&mut self, old: ProxyCounters) {
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
        if self.notes.is_empty() { self.due.first().map_or(u64::MAX, |of| of.0) } else { 0 }
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
        if !spliced && !segment.is_right(frame) {
            self.counters.strays += 1;
            return false;
        }
        let known = known.filter(|number| !self.give_up_if_over(*number, now_ns, segment.begins()));
        let known = match known {
            None if segment.begins() => {
                self.shake_hands(frame, &segment, now_ns);
                return false;
            }
            None => self.open(frame, &segment, now_ns),
            known => known,
        };
        let Some(flow) = known.and_then(|number| self.flows.get_mut(number as usize)?.as_mut())
        else {
            // Those that were refused have been counted.
            self.counters.strays += u64::from(self.counters.refused_full == refused);
            self.say(Note::no(frame, &segment));
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
                flow.splice.for_server(frame, &segment);
                self.counters.to_server_bytes += length;
            } else {
                flow.splice.for_client(frame, &segment);
                self.counters.to_client_bytes += length;
            }
            return true;
        }
        let Some(number) = known else { return false };
        if from_client {
            self.hear_client(number, frame, &segment, now_ns);
        } else {
            self.hear_server(number, frame, &segment, now_ns);
        }
        false
    }

    /// A client begins: it is told a number, and nothing is remembered.
    fn shake_hands(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) {
        let sequence = segment.sequence(frame);
        let terms = Terms::of(frame, segment);
        let tuple = segment.tuple;
        let length = longest(tuple.source.ip());
        self.say(Some(Note {
            tuple: tuple.back(),
            sequence: self.cookies.number(tuple, sequence, terms, now_ns),
            acknowledgement: sequence.wrapping_add(1),
            flags: SYN | ACK,
            window: u16::try_from(HEAD_BYTES).unwrap_or(u16::MAX),
            terms: Some(Terms { length, scale: terms.scale.map(|_| SHIFT), ..terms }),
        }));
    }

    /// The connection of a client that says its number, which nobody else can.
    fn open(&mut self, frame: &[u8], segment: &Segment, now_ns: u64) -> Option<u32> {
        if segment.flags & (ACK | SYN | RST) != ACK {
            return None;
        }
        let client = segment.sequence(frame).wrapping_sub(1);
        let ours = segment.acknowledgement(frame).wrapping_sub(1);
        let terms = self.cookies.terms(segment.tuple, client, ours, now_ns)?;
        let wanted = self.table.is_full();
        for _ in 0..LOOKED_AT.min(self.flows.len()) {
            self.hand = (self.hand + 1) % self.flows.len();
            self.give_up_if_over(u32::try_from(self.hand).ok()?, now_ns, wanted);
        }
        let front = segment.tuple;
        let number = self.table.open(front);
        let number = number.filter(|number| {
            // The server's packets may be somebody else's already.
            let joined = self.table.join(front.back(), *number);
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
            stage: Stage::Asking,
            client,
            ours,
            terms,
            window: segment.window(frame),
            head: 0,
            splice: Splice::default(),
            ended: [false; 2],
            broken: false,
            counted: true,
            last_ns: now_ns,
        });
        self.due.place(number, now_ns.saturating_add(PATIENCE_NS));
        self.counters.opened += 1;
        self.counters.connections += 1;
        Some(number)
    }

    /// A client speaks whose server has not answered yet: what it says is kept, in order and as far as there is room.
    fn hear_client(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let head = u32::try_from(flow.head).unwrap_or(0);
        if segment.sequence(frame) != flow.client.wrapping_add(1).wrapping_add(head) {
            return;
        }
        if segment.flags & RST != 0 {
            let call =
                matches!(flow.stage, Stage::Calling(_)).then(|| flow.in_its_name(RST, flow.head));
            self.say(call);
            self.counters.broken += 1;
            self.close(number);
            return;
        }
        flow.window = segment.window(frame);
        flow.last_ns = now_ns;
        let data = &frame[segment.data..segment.ip.end];
        let place = &mut self.heads[at * HEAD_BYTES..(at + 1) * HEAD_BYTES][flow.head..];
        let fits = data.len().min(place.len());
        place[..fits].copy_from_slice(&data[..fits]);
        flow.head += fits;
        if flow.stage == Stage::Asking {
            let last = segment.flags & FIN != 0 || flow.head == HEAD_BYTES;
            self.judge(number, last, now_ns);
        }
    }

    /// Decides, if the client has said enough.
    fn judge(&mut self, number: u32, last: bool, now_ns: u64) {
        let at = number as usize;
        let Some(flow) = self.flows[at].as_mut() else { return };
        let said = &self.heads[at * HEAD_BYTES..][..flow.head];
        match rules::decide(&self.settings, said, last) {
            Decision::Wait => {}
            Decision::Pass(_) => {
                flow.stage = Stage::Calling(0);
                self.due.place(number, now_ns);
            }
            Decision::Refuse => {
                let refusal = flow.refusal();
                self.say(Some(refusal));
                self.counters.refused_host += 1;
                self.close(number);
            }
        }
    }

    /// The server answers.
    fn hear_server(&mut self, number: u32, frame: &[u8], segment: &Segment, now_ns: u64) {
        let Some(flow) = self.flows[number as usize].as_mut() else { return };
        let answers = segment.flags & ACK != 0
            && segment.acknowledgement(frame) == flow.client.wrapping_add(1)
            && matches!(flow.stage, Stage::Calling(tries) if tries > 0);
        if !answers {
            return;
        }
        if segment.flags & RST != 0 {
            let refusal = flow.refusal();
            self.say(Some(refusal));
            self.counters.broken += 1;
            self.close(number);
        } else if segment.flags & SYN != 0 {
            let terms = Terms::of(frame, segment);
            flow.splice = Splice {
                difference: flow.ours.wrapping_sub(segment.sequence(frame)),
                client_shift: flow.terms.scale,
                server_shift: flow.terms.scale.and(terms.scale),
            };
            flow.terms.length = terms.length.min(longest(flow.front.source.ip()));
            // Nobody has told the server in which units its client counts.
            if let (Some(shift), None) = (flow.splice.client_shift, flow.splice.server_shift) {
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
    fn give_up_if_over(&mut self, number: u32, now_ns: u64, wanted: bool) -> bool {
        let Some(Some(flow)) = self.flows.get(number as usize) else { return true };
        let over = flow.is_over(now_ns, wanted);
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
            self.table.close(number, &flow.front, Some(&flow.front.back()));
            self.due.remove(number);
            self.counters.connections -= 1;
        }
    }

    /// A segment is to be made; if too many are, the other end asks again.
    fn say(&mut self, note: Option<Note>) {
        if self.notes.len() < NOTES {
            self.notes.extend(note);
        }
    }

    /// Makes packets until there are none or no room.
    pub(super) fn make(&mut self, out: &mut Outgoing<'_>, now_ns: u64) {
        while let Some(note) = self.notes.front() {
            if !note.put(&[], out) {
                return;
            }
            self.notes.pop_front();
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
    fn advance(&mut self, number: u32, out: &mut Outgoing<'_>, now_ns: u64) -> bool {
        let at = number as usize;
        let Some(Some(flow)) = self.flows.get_mut(at) else {
            self.due.remove(number);
            return true;
        };
        match flow.stage {
            Stage::Asking => self.judge(number, true, now_ns),
            Stage::Calling(TRIES) => {
                let refusal = flow.refusal();
                self.say(Some(refusal));
                self.counters.unreachable += 1;
                self.close(number);
            }
            Stage::Calling(tries) => {
                let mut call = flow.in_its_name(SYN, 0);
                call.sequence = flow.client;
                call.terms = Some(flow.terms);
                if !call.put(&[], out) {
                    return false;
                }
                flow.stage = Stage::Calling(tries + 1);
                self.due.place(number, now_ns.saturating_add(AGAIN_NS << tries));
            }
            Stage::Spliced(sent) => {
                let head = &self.heads[at * HEAD_BYTES..][..flow.head];
                let next = head.len().min(sent + usize::from(flow.terms.length.max(1)));
                if !flow.in_its_name(ACK, sent).put(&head[sent..next], out) {
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
