//! Queues by flow, scheduled by DRR++ with priority of sparse flows (RFC 8290), each under queue
//! management.
//!
//! ```text
//! hash ──> set of 8 flows ──> [packets of the flow]
//!
//! new flows ──────────────────────────┐
//! hosts ──> old flows of the host ────┴──> deficit ──> queue management
//! ```
//!
//! New flows are served first, each for at most a quantum. Then hosts take turns of a quantum, and
//! the old flows of a host take turns within its turns: deficit round robin on two levels. Without
//! fairness of hosts, all flows are of one host, whose turns have no effect.
//!
//! Every operation is O(1) amortised: a pull visits a flow or a host again only after another
//! quantum. A drop at a limit scans the flows once for each batch of dropped packets. Packets use
//! one allocation, which grows to the limit and is reused; flows and hosts have a fixed number.

use alloc::vec::Vec;

use super::packets::{END, PacketList, Packets};
use super::table::HashTable;
use super::{Flow, FlowOptions, FlowPacket, HostFairness};
use crate::aqm::cobalt::{Cobalt, CobaltOptions};
use crate::aqm::codel::{Codel, CodelOptions};
use crate::aqm::pie::{Pie, PieOptions};
use crate::aqm::red::{Red, RedOptions};
use crate::aqm::{Action, Aqm, Manager, Random};
use crate::packet::Event;

/// The most packets dropped from the longest flow at once (RFC 8290, section 4.1).
const DROP_BATCH: u32 = 64;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
struct FlowState {
    packets: PacketList,
    /// Bytes that the flow may still send in its turn.
    deficit: i64,
    /// The next flow of its list.
    next: u32,
    /// Its host, while it is in a list.
    host: u32,
}

/// The state of a host.
#[derive(Clone, Copy, Debug)]
struct HostState {
    /// Its old flows.
    flows: List,
    /// Bytes that the host may still send in its turn.
    deficit: i64,
    /// The next host that has old flows.
    next: u32,
    /// Its flows in a list.
    active: u32,
}

/// A list of flows or hosts, linked by their `next`.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// A member of a list.
trait Linked {
    fn next(&mut self) -> &mut u32;
}

impl Linked for FlowState {
    #[inline]
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Linked for HostState {
    #[inline]
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl List {
    const EMPTY: Self = Self { first: END, last: END };

    #[inline]
    fn is_empty(self) -> bool {
        self.first == END
    }

    #[inline]
    fn append(&mut self, members: &mut [impl Linked], at: u32) {
        *members[at as usize].next() = END;
        if self.first == END {
            self.first = at;
        } else {
            *members[self.last as usize].next() = at;
        }
        self.last = at;
    }

    #[inline]
    fn remove_first(&mut self, members: &mut [impl Linked]) {
        self.first = *members[self.first as usize].next();
    }
}

/// The queue management of every flow, by the number of the flow.
#[derive(Debug)]
enum Managers {
    None,
    Codel(CodelOptions, Vec<Codel>),
    Pie(PieOptions, Vec<Pie>),
    Red(RedOptions, Vec<Red>),
    Cobalt(CobaltOptions, Vec<Cobalt>),
}

/// Evaluates an expression with the options and states of the queue management, if there is any.
macro_rules! managed {
    ($managers:expr, ($options:ident, $states:ident) => $some:expr, $none:expr) => {
        match $managers {
            Managers::None => $none,
            Managers::Codel($options, $states) => $some,
            Managers::Pie($options, $states) => $some,
            Managers::Red($options, $states) => $some,
            Managers::Cobalt($options, $states) => $some,
        }
    };
}

/// The flows of one stream.
#[derive(Debug)]
pub(super) struct Flows {
    options: FlowOptions,
    quantum: i64,
    by_host: bool,
    flow_table: HashTable,
    flows: Vec<FlowState>,
    /// Without fairness of hosts, one host and an unused table.
    host_table: HashTable,
    hosts: Vec<HostState>,
    new: List,
    /// The hosts that have old flows.
    turns: List,
    packets: Packets,
    managers: Managers,
    random: Random,
}

impl Flows {
    pub(super) fn new(options: FlowOptions) -> Self {
        let flow_table = HashTable::new(options.buckets);
        let by_host = options.hosts == HostFairness::ByHost;
        let host_table = HashTable::new(if by_host { options.buckets } else { 1 });
        let count = flow_table.len();
        let managers = match options.aqm {
            Aqm::None | Aqm::DualPi2(_) => Managers::None,
            Aqm::Codel(of) => Managers::Codel(of, alloc::vec![Codel::default(); count]),
            Aqm::Pie(of) => Managers::Pie(of, alloc::vec![Pie::default(); count]),
            Aqm::Red(of) => Managers::Red(of, alloc::vec![Red::default(); count]),
            Aqm::Cobalt(of) => Managers::Cobalt(of, alloc::vec![Cobalt::default(); count]),
        };
        let flow = FlowState { packets: PacketList::EMPTY, deficit: 0, next: END, host: 0 };
        let host = HostState { flows: List::EMPTY, deficit: 0, next: END, active: 0 };
        Self {
            options,
            quantum: i64::from(options.quantum_bytes.max(1)),
            by_host,
            flows: alloc::vec![flow; count],
            hosts: alloc::vec![host; host_table.len()],
            flow_table,
            host_table,
            new: List::EMPTY,
            turns: List::EMPTY,
            packets: Packets::new(),
            managers,
            random: Random::new(options.seed),
        }
    }

    /// Allocates memory for the limit of packets and the arrival that exceeds it.
    pub(super) fn reserve(&mut self) {
        self.packets.reserve(self.options.limit_packets as usize + 1);
    }

    #[inline]
    pub(super) fn packets(&self) -> u32 {
        self.packets.backlog().packets
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.packets.backlog().bytes
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        of: Flow,
        arrival: FlowPacket,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) {
        let at = self.flow_table.find(of.hash);
        let (now_ns, can_mark) = (arrival.arrival_ns, arrival.ecn.is_capable());
        let backlog = self.flows[at as usize].packets.backlog();
        let random = &mut self.random;
        let action = managed!(&mut self.managers, (options, states) => {
            states[at as usize].arrive(options, now_ns, backlog, can_mark, random)
        }, Action::Deliver);
        if action == Action::Drop {
            return dropped(arrival, Event::DroppedByAqm);
        }
        let list = &mut self.flows[at as usize].packets;
        self.packets.push(list, arrival, action == Action::Mark);
        if !self.flow_table.is_in_use(at) {
            self.activate(at, of);
        }
        let waiting = self.packets.backlog();
        if waiting.packets > self.options.limit_packets || waiting.bytes > self.options.limit_bytes
        {
            self.drop_from_longest(now_ns, dropped);
        }
    }

    #[inline]
    pub(super) fn pull(
        &mut self,
        now_ns: u64,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) -> Option<(FlowPacket, bool)> {
        loop {
            let is_new = !self.new.is_empty();
            let at = if is_new { self.new.first } else { self.first_old()? };
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                if is_new {
                    self.new.remove_first(&mut self.flows);
                    self.append_old(at);
                } else {
                    let flows = &mut self.hosts[flow.host as usize].flows;
                    flows.remove_first(&mut self.flows);
                    flows.append(&mut self.flows, at);
                }
                continue;
            }
            let host = flow.host;
            let list = &mut flow.packets;
            let packets = &mut self.packets;
            let random = &mut self.random;
            let left = managed!(&mut self.managers, (options, states) => {
                remove(packets, list, &mut states[at as usize], options, now_ns, random, dropped)
            }, packets.pop(list));
            if let Some((packet, mark)) = left {
                let bytes = i64::from(packet.packet.bytes);
                self.flows[at as usize].deficit -= bytes;
                if self.by_host {
                    self.hosts[host as usize].deficit -= bytes;
                }
                return Some((packet, mark));
            }
            // A new flow without packets passes the old ones once, so that it cannot get its
            // priority back at once (RFC 8290, section 4.2).
            self.remove_first(is_new, at);
            if is_new && !self.turns.is_empty() {
                self.append_old(at);
            } else {
                self.deactivate(at);
            }
        }
    }

    /// Returns the old flow whose turn it is.
    #[inline]
    fn first_old(&mut self) -> Option<u32> {
        while !self.turns.is_empty() {
            let first = self.turns.first;
            let host = &mut self.hosts[first as usize];
            if !self.by_host || host.deficit > 0 {
                return Some(host.flows.first);
            }
            host.deficit += self.quantum;
            self.turns.remove_first(&mut self.hosts);
            self.turns.append(&mut self.hosts, first);
        }
        None
    }

    /// Puts an idle flow, which has its first packet, among the new ones.
    #[inline]
    fn activate(&mut self, at: u32, of: Flow) {
        self.flow_table.occupy(at, of.hash);
        let flow = &mut self.flows[at as usize];
        flow.deficit = self.quantum;
        self.new.append(&mut self.flows, at);
        if self.by_host {
            let host = self.host_table.find(of.host);
            self.host_table.occupy(host, of.host);
            self.hosts[host as usize].active += 1;
            self.flows[at as usize].host = host;
        }
    }

    /// Makes a flow idle, which is in no list.
    #[inline]
    fn deactivate(&mut self, at: u32) {
        self.flow_table.release(at);
        if self.by_host {
            let number = self.flows[at as usize].host;
            let host = &mut self.hosts[number as usize];
            host.active -= 1;
            if host.active == 0 {
                self.host_table.release(number);
            }
        }
    }

    /// Appends a flow to the old ones of its host.
    #[inline]
    fn append_old(&mut self, at: u32) {
        let number = self.flows[at as usize].host;
        let host = &mut self.hosts[number as usize];
        let has_turn = !host.flows.is_empty();
        host.flows.append(&mut self.flows, at);
        if !has_turn {
            host.deficit = self.quantum;
            self.turns.append(&mut self.hosts, number);
        }
    }

    /// Removes the flow whose turn it is from its list.
    #[inline]
    fn remove_first(&mut self, is_new: bool, at: u32) {
        if is_new {
            return self.new.remove_first(&mut self.flows);
        }
        let number = self.flows[at as usize].host;
        let host = &mut self.hosts[number as usize];
        host.flows.remove_first(&mut self.flows);
        if host.flows.is_empty() {
            self.turns.remove_first(&mut self.hosts);
        }
    }

    /// Drops packets of the flow with the most bytes: half of its packets, at most a batch, and on
    /// until the limits hold.
    #[cold]
    fn drop_from_longest(&mut self, now_ns: u64, dropped: &mut impl FnMut(FlowPacket, Event)) {
        loop {
            let waiting = self.packets.backlog();
            if waiting.packets <= self.options.limit_packets
                && waiting.bytes <= self.options.limit_bytes
            {
                return;
            }
            let backlogs = self.flows.iter().map(|flow| flow.packets.backlog());
            // A flow of empty packets has no bytes, like a flow without packets.
            let backlogs = backlogs.enumerate().filter(|(_, of)| of.packets > 0);
            // The first of equal flows.
            let longest = backlogs.max_by_key(|(at, of)| (of.bytes, core::cmp::Reverse(*at)));
            let Some((longest, backlog)) = longest else { return };
            let list = &mut self.flows[longest].packets;
            for _ in 0..backlog.packets.div_ceil(2).min(DROP_BATCH) {
                if let Some((packet, _)) = self.packets.pop(list) {
                    dropped(packet, Event::DroppedFull);
                }
            }
            let is_empty = list.is_empty();
            managed!(&mut self.managers, (options, states) => {
                states[longest].overflowed(options, now_ns, is_empty);
            }, ());
        }
    }
}

/// Removes the first packet of a flow that its queue management delivers; returns it and whether
/// it must be marked.
#[inline]
fn remove<M: Manager>(
    packets: &mut Packets,
    list: &mut PacketList,
    manager: &mut M,
    options: &M::Options,
    now_ns: u64,
    random: &mut Random,
    dropped: &mut impl FnMut(FlowPacket, Event),
) -> Option<(FlowPacket, bool)> {
    let mut round = manager.begin();
    loop {
        let head = packets.candidate(list, now_ns);
        let action = manager.next(&mut round, options, now_ns, head.as_ref(), random);
        let (packet, mark) = packets.pop(list)?;
        match action {
            Action::Deliver => return Some((packet, mark)),
            Action::Mark => return Some((packet, true)),
            Action::Drop => dropped(packet, Event::DroppedByAqm),
        }
    }
}
