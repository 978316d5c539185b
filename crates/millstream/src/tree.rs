//! A tree of classes: each class shares its service among its children by its own discipline.
//!
//! ```text
//! root (wf2q+)             decide: from the root down, each class picks a child;
//!  ├─ calls (dwcs)         the packet at the bottom is sent, and every class
//!  │   ├─ alice            on the path charges its child with it
//!  │   └─ bob
//!  └─ bulk (drr)           enqueue: from the leaf up to the root
//!      ├─ backup
//!      └─ sync
//! ```
//!
//! **A class's head.** A parent orders its children by their heads, but a class selects its packet
//! only when it is served. So the length of a class's head is an estimate: that of its last sent
//! packet. The parent gets the actual length before it charges the service. Packets are not
//! committed early: an urgent arrival can be sent next, however deep its stream is.
//!
//! **A class's clock** stops while the link serves other classes: it shows the time for which the
//! link was idle or the class was served. So a class shares its part of the link as if it were a
//! dedicated link, and a high-priority sibling does not affect its virtual time. In the MinBW paper
//! these are the gaps that the management class causes in WFQ's clock (its Figure 1). The clock
//! ends a busy period when it runs while the class is empty.
//!
//! **Deadlines** are charged in every class at every decision. Classes may have deadlines in their
//! parent; the misses of a class are not reported.

mod class_backlog;
mod gates;
mod node;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::catalogue::{DisciplineRow, DynScheduler, Options, StructureName};
use crate::contract::{Contract, ContractError, Late};
use crate::discipline::{Head, Waiting};
use crate::flow_queue::{Flow, FlowPacket};
use crate::gate::EligibilityGates;
use crate::link_clock::{ClassClock, LinkClock};
use crate::packet::{Departure, Event, Packet, StreamId};
use crate::queue::Queues;
use crate::selector::{NewHead, Observer};
use crate::stream_flows::StreamFlows;

use self::class_backlog::{Child, ChildObserver, ClassBacklog, LateDrops};
pub(crate) use self::node::Node;

/// The number of a class: its position in the order of [`Tree::add_class`], the root being 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The root.
    pub const ROOT: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of the class's gate.
    fn gate(self) -> StreamId {
        StreamId(self.0)
    }
}

/// A position among a class's children.
#[derive(Clone, Copy, Debug)]
struct ChildIndex {
    class: ClassId,
    child: StreamId,
}

/// A class.
struct Class {
    node: Box<dyn Node>,
    /// `None` for the root.
    parent: Option<ChildIndex>,
    children: Vec<Child>,
    /// The backlog of its subtree, without the packets in flows.
    waiting: Waiting,
    /// The packets in the flows of its subtree.
    in_flows: Waiting,
    clock: ClassClock,
    /// `true` if its discipline ranks by backlogs.
    tracks_backlog: bool,
}

impl Class {
    /// Returns the backlog of the subtree, with the packets in flows.
    fn backlog(&self) -> Waiting {
        Waiting {
            packets: self.waiting.packets + self.in_flows.packets,
            bytes: self.waiting.bytes + self.in_flows.bytes,
            ..self.waiting
        }
    }
}

/// Schedules the packets of many streams in a tree of classes.
///
/// ```
/// use millstream::catalogue::{DisciplineRow, Options, StructureName};
/// use millstream::{ClassId, Contract, Packet, Tree};
///
/// let row = |name| DisciplineRow::parse(name).expect("in the catalogue");
/// let options = Options::default();
/// let mut tree = Tree::new(row("wf2q+"), StructureName::Heap, &options);
/// let (weight, priority) = (Contract::new().weight(3)?, row("static-priority"));
/// let calls = tree.add_class(ClassId::ROOT, weight, priority, StructureName::Scan, &options)?;
/// let urgent = tree.add_stream(calls, Contract::new().priority(0))?;
/// let call = tree.add_stream(calls, Contract::new().priority(1))?;
/// let bulk = tree.add_stream(ClassId::ROOT, Contract::new())?;
/// for stream in [call, call, call, call, bulk, bulk, urgent] {
///     tree.enqueue(0, stream, Packet::new(1500)).expect("queues are unbounded here");
/// }
/// let mut served = [0; 3];
/// for now in 0..4 {
///     served[tree.decide(now * 12_000, &mut ()).expect("backlogged").stream.index()] += 1;
/// }
/// assert_eq!(served, [1, 2, 1]);
/// # Ok::<(), millstream::ContractError>(())
/// ```
pub struct Tree {
    classes: Vec<Class>,
    /// Each stream's position in its class.
    leaves: Vec<ChildIndex>,
    backlog: ClassBacklog,
    clock: LinkClock,
    /// The classes whose children have deadlines.
    with_deadlines: Vec<ClassId>,
}

impl Tree {
    /// Returns a tree whose root has this discipline, for the link of `options`.
    ///
    /// # Panics
    /// Panics if `structure` does not support the discipline.
    #[must_use]
    pub fn new(root: &DisciplineRow, structure: StructureName, options: &Options) -> Self {
        let link = options.link;
        let mut tree = Self {
            classes: Vec::new(),
            leaves: Vec::new(),
            backlog: ClassBacklog {
                queues: Queues::new(u32::MAX - 1, link),
                flows: StreamFlows::default(),
                stream_gates: EligibilityGates::new(link),
                class_gates: EligibilityGates::new(link),
            },
            clock: LinkClock::new(link),
            with_deadlines: Vec::new(),
        };
        tree.push_class(None, root, structure, options);
        tree
    }

    /// Adds a class with `contract` to `parent`; `discipline` schedules the class's children.
    ///
    /// # Errors
    /// Fails if the contract lacks an attribute that the parent's discipline needs.
    ///
    /// # Panics
    /// Panics if `parent` is not of this tree, or `structure` does not support the discipline.
    #[allow(clippy::needless_pass_by_value)]
    pub fn add_class(
        &mut self,
        parent: ClassId,
        contract: Contract,
        discipline: &DisciplineRow,
        structure: StructureName,
        options: &Options,
    ) -> Result<ClassId, ContractError> {
        // A class has no packets that could be dropped.
        let contract = contract.late(Late::Send);
        let child = self.classes[parent.index()].node.add_child(&contract)?;
        let class = self.push_class(
            Some(ChildIndex { class: parent, child }),
            discipline,
            structure,
            options,
        );
        self.classes[parent.index()].children.push(Child::Class(class));
        self.backlog.class_gates.add_stream(class.gate(), &contract);
        Ok(class)
    }

    fn push_class(
        &mut self,
        parent: Option<ChildIndex>,
        discipline: &DisciplineRow,
        structure: StructureName,
        options: &Options,
    ) -> ClassId {
        let class = ClassId(u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
        let node = discipline.node(options, structure);
        if node.has_deadlines() {
            self.with_deadlines.push(class);
        }
        self.classes.push(Class {
            tracks_backlog: node.tracks_backlog(),
            node,
            parent,
            children: Vec::new(),
            waiting: Waiting::default(),
            in_flows: Waiting::default(),
            clock: ClassClock::default(),
        });
        class
    }

    /// Adds a stream to `class`; its number is the count of streams before it in the whole tree.
    ///
    /// # Errors
    /// Fails if the contract lacks an attribute that the class's discipline needs.
    ///
    /// # Panics
    /// Panics if `class` is not of this tree.
    #[allow(clippy::needless_pass_by_value)]
    pub fn add_stream(
        &mut self,
        class: ClassId,
        contract: Contract,
    ) -> Result<StreamId, ContractError> {
        ContractError::check_flows(&contract)?;
        let number = u32::try_from(self.leaves.len()).ok().filter(|number| *number < u32::MAX);
        let stream = StreamId(number.ok_or(ContractError::TooManyStreams)?);
        let child = self.classes[class.index()].node.add_child(&contract)?;
        self.classes[class.index()].children.push(Child::Stream(stream));
        self.leaves.push(ChildIndex { class, child });
        self.backlog.add_stream(stream, &contract);
        Ok(stream)
    }

    /// See [`Scheduler::enqueue`](crate::Scheduler::enqueue).
    ///
    /// # Errors
    /// Returns the packet's departure, if it was dropped at a full queue.
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<u64, Departure> {
        self.backlog.queues.admit(stream, packet, now_ns)?;
        let at_ns = self.advance(now_ns);
        let number = self.backlog.queues.arrivals(stream);
        let was_empty = self.backlog.queues.push(stream, packet, now_ns);
        let head = Head { arrival_ns: now_ns, bytes: packet.bytes };
        self.joined(at_ns, now_ns, stream, head, was_empty);
        Ok(number)
    }

    /// See [`Scheduler::enqueue_flow`](crate::Scheduler::enqueue_flow).
    ///
    /// # Errors
    /// Returns the packet's departure, if the stream has no flows and its queue is full.
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    pub fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut (impl Observer + ?Sized),
    ) -> Result<u64, Departure> {
        if !self.backlog.flows.has(stream) {
            return self.enqueue(now_ns, stream, packet);
        }
        let number = self.backlog.queues.count_arrival(stream);
        let before = self.backlog.flows.waiting(stream);
        self.backlog.flows.push(now_ns, stream, flow, packet, number, observer);
        self.flows_changed(stream, before);
        if self.backlog.queues.waiting(stream).packets == 0 {
            let at_ns = self.advance(now_ns);
            self.commit(at_ns, now_ns, stream, observer);
        }
        Ok(number)
    }

    /// Moves the next packet of the stream's flows, if any, to the end of its queue: behind the
    /// head that is about to leave, or to the head.
    fn commit(
        &mut self,
        at_ns: u64,
        now_ns: u64,
        stream: StreamId,
        observer: &mut (impl Observer + ?Sized),
    ) {
        if !self.backlog.flows.has(stream) {
            return;
        }
        let before = self.backlog.flows.waiting(stream);
        let next = self.backlog.flows.pull(now_ns, stream, observer);
        self.flows_changed(stream, before);
        let Some(FlowPacket { packet, number, arrival_ns, .. }) = next else { return };
        let head = Head { arrival_ns, bytes: packet.bytes };
        let was_empty = self.backlog.queues.push_numbered(stream, packet, arrival_ns, number);
        self.joined(at_ns, now_ns, stream, head, was_empty);
    }

    /// Counts a change of the stream's flows, which had `before`, in its class and those above, and
    /// reports it to those that rank by backlogs.
    fn flows_changed(&mut self, stream: StreamId, before: Waiting) {
        let after = self.backlog.flows.waiting(stream);
        let leaf = self.leaves[stream.index()];
        self.backlog_changed(leaf, self.backlog.waiting(stream));
        let mut class = leaf.class;
        loop {
            let of = &mut self.classes[class.index()];
            of.in_flows.packets = of.in_flows.packets + after.packets - before.packets;
            of.in_flows.bytes = of.in_flows.bytes + after.bytes - before.bytes;
            let (backlog, parent) = (of.backlog(), of.parent);
            let Some(place) = parent else { return };
            self.backlog_changed(place, backlog);
            class = place.class;
        }
    }

    /// Tells the stream's class and those above of a packet that joined the stream's queue: as its
    /// head if the queue was empty.
    fn joined(&mut self, at_ns: u64, now_ns: u64, stream: StreamId, head: Head, was_empty: bool) {
        let place = self.leaves[stream.index()];
        self.advance_class(place.class, at_ns);
        self.backlog_changed(place, self.backlog.waiting(stream));
        let node = &mut self.classes[place.class.index()].node;
        if was_empty {
            let open = self.backlog.stream_gates.admits(stream, head, now_ns);
            let stamp = node.arrived(place.child, head.bytes, open);
            node.became_backlogged(place.child, NewHead { head, stamp, open });
        } else {
            let active = node.active(place.child);
            let stamp = node.arrived(place.child, head.bytes, active);
            self.backlog.queues.stamp_last(stream, stamp);
        }
        self.propagate_arrival(place.class, at_ns, now_ns, head.bytes);
    }

    /// Propagates the arrival of a packet in `class` to the classes above.
    fn propagate_arrival(&mut self, mut class: ClassId, at_ns: u64, now_ns: u64, bytes: u32) {
        let framing_bytes = self.clock.link().framing_bytes(bytes);
        loop {
            let below = &mut self.classes[class.index()];
            let first = below.waiting.packets == 0;
            let head = Head { arrival_ns: now_ns, bytes };
            below.waiting.packets += 1;
            below.waiting.bytes += u64::from(bytes);
            below.waiting.framing_bytes += framing_bytes;
            let (active_below, waiting) = (below.node.any_active(), below.backlog());
            let Some(place) = below.parent else { return };
            self.advance_class(place.class, at_ns);
            self.backlog_changed(place, waiting);
            if first {
                let admitted = self.backlog.class_gates.admits(class.gate(), head, now_ns);
                let open = active_below && admitted;
                let node = &mut self.classes[place.class.index()].node;
                let stamp = node.arrived(place.child, bytes, open);
                node.became_backlogged(place.child, NewHead { head, stamp, open });
                self.set_held(class, at_ns, active_below && !admitted);
            } else {
                let node = &mut self.classes[place.class.index()].node;
                let active = node.active(place.child);
                node.arrived(place.child, bytes, active);
                self.update_gate(class, at_ns, now_ns);
            }
            class = place.class;
        }
    }

    /// See [`Scheduler::decide`](crate::Scheduler::decide).
    pub fn decide(
        &mut self,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<Departure> {
        let at_ns = self.advance(now_ns).max(self.clock.free_ns());
        self.clock.reach(at_ns);
        for at in 0..self.with_deadlines.len() {
            self.charge_misses(self.with_deadlines[at], at_ns, now_ns, observer);
        }
        let stream = self.choose(at_ns, now_ns)?;
        if self.backlog.flows.any() {
            // The successor follows the head before it leaves, as in a queue.
            self.commit(at_ns, now_ns, stream, observer);
        }
        let place = self.leaves[stream.index()];
        let deadline_ns = self.classes[place.class.index()].node.deadline_ns(place.child);
        let (departure, next) =
            self.backlog.queues.pop(stream, now_ns, deadline_ns, Event::Sent)?;
        self.clock.send(at_ns, departure.bytes);
        self.backlog_changed(place, self.backlog.waiting(stream));
        let node = &mut self.classes[place.class.index()].node;
        if node.served(place.child, now_ns) {
            observer.missed(stream, now_ns, 1, 0);
        }
        self.backlog.stream_gates.spend(stream, departure.bytes, now_ns);
        let next = next.map(|next| self.backlog.new_head(stream, now_ns, next));
        node.head_departed(place.child, next);
        self.propagate_departure(place.class, at_ns, now_ns, &departure);
        Some(departure)
    }

    /// Selects the stream to serve, from the root down.
    fn choose(&mut self, at_ns: u64, now_ns: u64) -> Option<StreamId> {
        let mut class = ClassId::ROOT;
        loop {
            self.advance_class(class, at_ns);
            let Class { node, children, .. } = &mut self.classes[class.index()];
            let mut dropped =
                LateDrops { backlog: &mut self.backlog, children, departures: Vec::new() };
            let child = node.select(now_ns, &mut dropped, &mut ());
            debug_assert!(dropped.departures.is_empty(), "a selection dropped packets");
            match children[child?.index()] {
                Child::Class(below) => class = below,
                Child::Stream(stream) => return Some(stream),
            }
        }
    }

    /// Propagates the departure of a packet of `class` to the classes above, which charge it.
    fn propagate_departure(
        &mut self,
        mut class: ClassId,
        at_ns: u64,
        now_ns: u64,
        sent: &Departure,
    ) {
        let framing_bytes = self.clock.link().framing_bytes(sent.bytes);
        loop {
            let idle_ns = self.idle_ns(class, at_ns);
            let below = &mut self.classes[class.index()];
            below.waiting.packets -= 1;
            below.waiting.bytes -= u64::from(sent.bytes);
            below.waiting.framing_bytes -= framing_bytes;
            below.clock.serve(&self.clock, idle_ns);
            let Some(place) = below.parent else { return };
            let estimate = Head { arrival_ns: now_ns, bytes: sent.bytes };
            let next = (below.waiting.packets > 0).then_some(estimate);
            let (active_below, waiting) = (below.node.any_active(), below.backlog());
            self.backlog.class_gates.spend(class.gate(), sent.bytes, now_ns);
            let mut held = false;
            let next = next.map(|head| {
                let admitted = self.backlog.class_gates.admits(class.gate(), head, now_ns);
                held = active_below && !admitted;
                NewHead { head, stamp: None, open: active_below && admitted }
            });
            self.backlog_changed(place, waiting);
            let node = &mut self.classes[place.class.index()].node;
            node.resize(place.child, sent.bytes);
            node.served(place.child, now_ns);
            node.head_departed(place.child, next);
            self.set_held(class, at_ns, held);
            class = place.class;
        }
    }

    /// Charges the deadlines that have passed in one class, and propagates its drops to the classes
    /// above.
    fn charge_misses(
        &mut self,
        class: ClassId,
        at_ns: u64,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.advance_class(class, at_ns);
        let Class { node, children, .. } = &mut self.classes[class.index()];
        let mut child_observer = ChildObserver { children, observer };
        let mut dropped =
            LateDrops { backlog: &mut self.backlog, children, departures: Vec::new() };
        node.charge_misses(now_ns, &mut dropped, &mut child_observer);
        let departures = dropped.departures;
        for departure in &departures {
            observer.dropped(departure);
        }
        if departures.is_empty() {
            return;
        }
        let bytes: u64 = departures.iter().map(|departure| u64::from(departure.bytes)).sum();
        let link = self.clock.link();
        let framing_bytes: u64 =
            departures.iter().map(|departure| link.framing_bytes(departure.bytes)).sum();
        let packets = u32::try_from(departures.len()).unwrap_or(u32::MAX);
        let mut class = class;
        loop {
            let below = &mut self.classes[class.index()];
            below.waiting.packets -= packets;
            below.waiting.bytes -= bytes;
            below.waiting.framing_bytes -= framing_bytes;
            let (waiting, backlog, parent) = (below.waiting, below.backlog(), below.parent);
            let Some(place) = parent else { return };
            self.advance_class(place.class, at_ns);
            self.backlog_changed(place, backlog);
            if waiting.packets == 0 {
                self.backlog.class_gates.cancel_opening(class.gate());
                self.classes[place.class.index()].node.head_departed(place.child, None);
                self.set_held(class, at_ns, false);
            } else {
                self.update_gate(class, at_ns, now_ns);
            }
            class = place.class;
        }
    }

    /// Reports the backlog of a child to its class, if the class's discipline ranks by backlogs.
    #[inline]
    fn backlog_changed(&mut self, place: ChildIndex, waiting: Waiting) {
        let Class { node, tracks_backlog, .. } = &mut self.classes[place.class.index()];
        if *tracks_backlog {
            node.backlog_changed(place.child, waiting);
        }
    }

    /// See [`Scheduler::set_eligible`](crate::Scheduler::set_eligible).
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    pub fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool) {
        let at_ns = self.advance_before_gates(now_ns);
        self.backlog.stream_gates.set_by_caller(stream, eligible);
        self.update_stream_gate(stream, at_ns, now_ns);
    }

    /// See [`Scheduler::add_credits`](crate::Scheduler::add_credits).
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    pub fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64) {
        let at_ns = self.advance_before_gates(now_ns);
        self.backlog.stream_gates.add_credits(stream, credits);
        self.update_stream_gate(stream, at_ns, now_ns);
    }

    /// See [`Scheduler::next_eligible_ns`](crate::Scheduler::next_eligible_ns).
    #[must_use]
    pub fn next_eligible_ns(&self) -> Option<u64> {
        let backlog = &self.backlog;
        let openings =
            [backlog.stream_gates.next_opening_ns(), backlog.class_gates.next_opening_ns()];
        openings.into_iter().flatten().min()
    }

    /// See [`Scheduler::charge`](crate::Scheduler::charge). Also charges every class above.
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    pub fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool {
        let at_ns = self.advance(now_ns);
        let mut place = Some(self.leaves[stream.index()]);
        let mut charged = true;
        while let Some(ChildIndex { class, child }) = place {
            self.advance_class(class, at_ns);
            charged &= self.classes[class.index()].node.charge_extra(child, extra_bytes);
            place = self.classes[class.index()].parent;
        }
        charged
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.leaves.len()
    }

    /// Returns the number of packets waiting in `stream`.
    ///
    /// # Panics
    /// Panics if `stream` is not of this tree.
    #[must_use]
    pub fn waiting(&self, stream: StreamId) -> u32 {
        self.backlog.waiting(stream).packets
    }

    /// Returns the number of packets waiting in all streams.
    #[must_use]
    pub fn total_waiting(&self) -> u64 {
        self.backlog.queues.total_waiting() + self.backlog.flows.total()
    }
}

impl DynScheduler for Tree {
    /// Adds a stream to the root.
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        Tree::add_stream(self, ClassId::ROOT, contract)
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        Tree::enqueue(self, now_ns, stream, packet)
    }

    fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut dyn Observer,
    ) -> Result<u64, Departure> {
        Tree::enqueue_flow(self, now_ns, stream, packet, flow, observer)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        Tree::decide(self, now_ns, observer)
    }

    fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool) {
        Tree::set_eligible(self, now_ns, stream, eligible);
    }

    fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64) {
        Tree::add_credits(self, now_ns, stream, credits);
    }

    fn next_eligible_ns(&self) -> Option<u64> {
        Tree::next_eligible_ns(self)
    }

    fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool {
        Tree::charge(self, now_ns, stream, extra_bytes)
    }

    fn streams(&self) -> usize {
        Tree::streams(self)
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        Tree::waiting(self, stream)
    }

    fn total_waiting(&self) -> u64 {
        Tree::total_waiting(self)
    }
}
