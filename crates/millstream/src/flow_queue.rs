//! The flows of one stream: queues by hash, scheduled by DRR++ with priority of sparse flows (RFC
//! 8290), each under queue management.
//!
//! ```text
//! hash ──> set of 8 flows ──> [packets of the flow]      new flows ──┐
//!                                                        old flows ──┴──> deficit ──> CoDel
//! ```
//!
//! The scheduler sees one packet of the stream at a time, the head. When it selects the stream, the
//! next head is [pulled](FlowQueues::pull) from the flows. So a packet of a sparse flow waits for
//! at most the head, the turns of other new flows, and the stream's own turn.
//!
//! Every operation is O(1) amortised: a pull visits a flow again only after another quantum. A drop
//! at the byte limit scans the flows once for each batch of dropped packets. Flows and packets use
//! two allocations, which grow to their limits and are reused.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::aqm::codel::{Action, Candidate, Codel};
use crate::aqm::{Aqm, Ecn};
use crate::packet::Packet;

/// End of a list.
const END: u32 = u32::MAX;
/// The flows of a set: a hash is looked up in one set only.
const WAYS: u32 = 8;
/// The most packets dropped from the longest flow at once (RFC 8290, section 4.1.1, note).
const DROP_BATCH: u32 = 64;

/// The flows of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// The number of flows that have their own queue; more flows share queues. At least 1.
    pub buckets: u32,
    /// Bytes that a flow may send in a turn; at least 1. At least the largest packet is best.
    pub quantum_bytes: u32,
    /// The most bytes that wait in all flows; at the limit, packets of the longest flow are
    /// dropped.
    pub limit_bytes: u64,
    /// The most packets that wait in all flows.
    pub limit_packets: u32,
    /// The queue management of each flow.
    pub aqm: Aqm,
}

impl Default for FlowOptions {
    /// 1,024 flows, 1,514 bytes a turn, 32 MiB, 10,240 packets (RFC 8290, section 5.2), CoDel.
    fn default() -> Self {
        Self {
            buckets: 1_024,
            quantum_bytes: 1_514,
            limit_bytes: 32 << 20,
            limit_packets: 10_240,
            aqm: Aqm::Codel(crate::aqm::codel::CodelOptions::default()),
        }
    }
}

/// A packet that waits in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPacket {
    /// The packet.
    pub packet: Packet,
    /// Its number among the stream's arrivals, from 0.
    pub number: u64,
    /// Its arrival, ns.
    pub arrival_ns: u64,
    /// Its ECN field.
    pub ecn: Ecn,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waiting: FlowPacket,
    next: u32,
}

/// The list that a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// None: the flow has no packets and no turn.
    Idle,
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    /// The hash of its packets, while it is in a list.
    hash: u32,
    list: List,
    packets: u32,
    bytes: u64,
    /// Bytes that the flow may still send in its turn.
    deficit: i64,
    codel: Codel,
}

/// The flows of one stream.
#[derive(Debug)]
pub struct FlowQueues {
    options: FlowOptions,
    flows: Vec<Flow>,
    slab: Vec<Entry>,
    free: u32,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: u32,
    bytes: u64,
    largest_bytes: u32,
}

impl FlowQueues {
    /// Returns empty flows. `buckets` is rounded up to a multiple of 8 above 8.
    #[must_use]
    pub fn new(options: FlowOptions) -> Self {
        let flow = Flow {
            head: END,
            tail: END,
            hash: 0,
            list: List::Idle,
            packets: 0,
            bytes: 0,
            deficit: 0,
            codel: Codel::default(),
        };
        let buckets = options.buckets.max(1);
        let buckets = if buckets <= WAYS { buckets } else { buckets.next_multiple_of(WAYS) };
        Self {
            options,
            flows: alloc::vec![flow; buckets as usize],
            slab: Vec::new(),
            free: END,
            new: VecDeque::with_capacity(buckets as usize),
            old: VecDeque::with_capacity(buckets as usize),
            packets: 0,
            bytes: 0,
            largest_bytes: 0,
        }
    }

    /// Returns the packets that wait, without the head that was pulled.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Returns the bytes that wait, without the head that was pulled.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a packet of the flow `hash`. At a limit, drops packets of the longest flow, which
    /// may include it; `dropped` takes them.
    #[inline]
    pub fn push(&mut self, hash: u32, packet: FlowPacket, dropped: &mut impl FnMut(FlowPacket)) {
        let at = self.find(hash);
        let entry = Entry { waiting: packet, next: END };
        let place = if self.free == END {
            // At most the limit of packets and one, which are below END.
            #[allow(clippy::cast_possible_truncation)]
            let place = self.slab.len() as u32;
            self.slab.push(entry);
            place
        } else {
            let place = self.free;
            self.free = self.slab[place as usize].next;
            self.slab[place as usize] = entry;
            place
        };
        let bytes = packet.packet.bytes;
        let flow = &mut self.flows[at as usize];
        if flow.head == END {
            flow.head = place;
        } else {
            self.slab[flow.tail as usize].next = place;
        }
        flow.tail = place;
        flow.packets += 1;
        flow.bytes += u64::from(bytes);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.largest_bytes = self.largest_bytes.max(bytes);
        if flow.list == List::Idle {
            flow.list = List::New;
            flow.hash = hash;
            flow.deficit = i64::from(self.options.quantum_bytes.max(1));
            self.new.push_back(at);
        }
        if self.packets > self.options.limit_packets || self.bytes > self.options.limit_bytes {
            self.drop_from_longest(dropped);
        }
    }

    /// Removes the next packet and returns it, with whether it must be marked. `dropped` takes the
    /// packets that the queue management drops. `None` if no packet is left.
    #[inline]
    pub fn pull(
        &mut self,
        now_ns: u64,
        dropped: &mut impl FnMut(FlowPacket),
    ) -> Option<(FlowPacket, bool)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.options.quantum_bytes.max(1));
                flow.list = List::Old;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            if let Some((packet, mark)) = self.dequeue(at, now_ns, dropped) {
                self.flows[at as usize].deficit -= i64::from(packet.packet.bytes);
                return Some((packet, mark));
            }
            // A new flow without packets passes the old ones once, so that it cannot get its
            // priority back at once (RFC 8290, section 4.2).
            let flow = &mut self.flows[at as usize];
            if is_new {
                self.new.pop_front();
            } else {
                self.old.pop_front();
            }
            if is_new && !self.old.is_empty() {
                flow.list = List::Old;
                self.old.push_back(at);
            } else {
                flow.list = List::Idle;
            }
        }
    }

    /// Returns the flow of a hash: its own, an idle one of its set, or one that it shares.
    #[inline]
    fn find(&self, hash: u32) -> u32 {
        // Below the number of flows.
        #[allow(clippy::cast_possible_truncation)]
        let first = hash % self.flows.len() as u32;
        let set = first - first % WAYS;
        let ways = self.flows.iter().enumerate().skip(set as usize).take(WAYS as usize);
        let mut idle = None;
        for (at, flow) in ways {
            #[allow(clippy::cast_possible_truncation)]
            let at = at as u32;
            if flow.list == List::Idle {
                if at == first || idle.is_none() {
                    idle = Some(at);
                }
            } else if flow.hash == hash {
                return at;
            }
        }
        idle.unwrap_or(first)
    }

    /// Removes the first packet of a flow that the queue management delivers.
    #[inline]
    fn dequeue(
        &mut self,
        at: u32,
        now_ns: u64,
        dropped: &mut impl FnMut(FlowPacket),
    ) -> Option<(FlowPacket, bool)> {
        let Aqm::Codel(options) = self.options.aqm else {
            return self.pop(at).map(|packet| (packet, false));
        };
        let mut round = self.flows[at as usize].codel.begin();
        loop {
            let largest_bytes = self.largest_bytes;
            let flow = &mut self.flows[at as usize];
            let head = (flow.head != END).then(|| {
                let FlowPacket { packet, arrival_ns, ecn, .. } =
                    self.slab[flow.head as usize].waiting;
                Candidate {
                    sojourn_ns: now_ns.saturating_sub(arrival_ns),
                    backlog_bytes: flow.bytes - u64::from(packet.bytes),
                    can_mark: ecn.is_capable(),
                }
            });
            let action = flow.codel.next(&mut round, &options, now_ns, largest_bytes, head);
            let packet = self.pop(at)?;
            match action {
                Action::Deliver => return Some((packet, false)),
                Action::Mark => return Some((packet, true)),
                Action::Drop => dropped(packet),
            }
        }
    }

    /// Removes the first packet of a flow.
    #[inline]
    fn pop(&mut self, at: u32) -> Option<FlowPacket> {
        let flow = &mut self.flows[at as usize];
        let place = flow.head;
        if place == END {
            return None;
        }
        let entry = &mut self.slab[place as usize];
        let packet = entry.waiting;
        flow.head = entry.next;
        entry.next = self.free;
        self.free = place;
        flow.packets -= 1;
        flow.bytes -= u64::from(packet.packet.bytes);
        self.packets -= 1;
        self.bytes -= u64::from(packet.packet.bytes);
        Some(packet)
    }

    /// Drops packets of the flow with the most bytes: half of its packets, at most a batch, and on
    /// until the limits hold.
    #[cold]
    fn drop_from_longest(&mut self, dropped: &mut impl FnMut(FlowPacket)) {
        while self.packets > self.options.limit_packets || self.bytes > self.options.limit_bytes {
            let longest = (0..self.flows.len()).max_by_key(|at| {
                // The first of equal flows.
                (self.flows[*at].bytes, core::cmp::Reverse(*at))
            });
            let Some(longest) = longest else { return };
            #[allow(clippy::cast_possible_truncation)]
            let at = longest as u32;
            let many = self.flows[longest].packets.div_ceil(2).min(DROP_BATCH);
            for _ in 0..many {
                if let Some(packet) = self.pop(at) {
                    dropped(packet);
                }
            }
        }
    }
}
