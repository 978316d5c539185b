//! The scheduler: packet queues, and a discipline on a structure that selects among them.
//!
//! It has no clock: the caller passes the time, which must not go backwards. At one instant
//! arrivals come before the decision. A backend is a loop of [`enqueue`](Scheduler::enqueue) and
//! [`decide`](Scheduler::decide).

use crate::contract::{Contract, ContractError};
use crate::discipline::{Activation, Discipline, DwcsOptions, Head, Waiting};
use crate::flow_queue::{Flow, FlowPacket};
use crate::gate::EligibilityGates;
use crate::link::Link;
use crate::packet::{Departure, Event, Packet, StreamCounters, StreamId};
use crate::queue::Queues;
use crate::selector::{Backlog, HilqExact, NewHead, Observer, Select, Selector};
use crate::stream_flows::StreamFlows;
use crate::structure::Structure;

/// The distance, in arrivals of a batch, at which a queue is prefetched.
const FETCHED_AHEAD: usize = 6;

/// The packet queues and their eligibility gates.
#[derive(Debug)]
struct PacketStore<P> {
    queues: Queues<P>,
    gates: EligibilityGates,
}

impl<P: Copy + Default> PacketStore<P> {
    /// Returns a packet that became head-of-line as the selector's `NewHead`.
    #[inline]
    fn new_head(&mut self, stream: StreamId, now_ns: u64, next: (Head, P)) -> NewHead<P> {
        let (head, stamp) = next;
        NewHead { head, stamp, open: self.gates.admits(stream, head, now_ns) }
    }
}

impl<P: Copy + Default> Backlog<P> for PacketStore<P> {
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<P>> {
        let (departure, next) = self.queues.pop(stream, now_ns, deadline_ns, Event::DroppedLate)?;
        observer.dropped(&departure);
        if next.is_none() {
            self.gates.cancel_opening(stream);
        }
        next.map(|next| self.new_head(stream, now_ns, next))
    }

    #[inline]
    fn soon(&self, stream: StreamId) {
        self.queues.prefetch(stream);
    }

    #[inline]
    fn next(&self, stream: StreamId) {
        self.queues.prefetch_head(stream);
    }
}

/// Schedules the packets of many streams. `S` selects the stream: a discipline on a structure.
///
/// ```
/// use millstream::{Contract, Dwcs, EdfFirst, Heap, Packet, Scheduler, Window};
///
/// let mut scheduler = Scheduler::new(Dwcs::<EdfFirst>::default(), Heap::default());
/// let half = scheduler.add_stream(Contract::new().period_ns(1)?.window(Window::new(1, 2)?))?;
/// let quarter = scheduler.add_stream(Contract::new().period_ns(1)?.window(Window::new(3, 4)?))?;
/// let rest = scheduler.add_stream(Contract::new().period_ns(1)?.window(Window::new(6, 8)?))?;
/// for stream in [half, half, quarter, rest] {
///     scheduler.enqueue(0, stream, Packet::new(1500)).expect("queues are unbounded here");
/// }
/// let served = (0..4).map(|now| scheduler.decide(now, &mut ()).expect("backlogged").stream);
/// assert!(served.eq([half, quarter, half, rest]));
/// # Ok::<(), millstream::ContractError>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<S: Select> {
    selector: S,
    store: PacketStore<S::Stamp>,
    flows: StreamFlows,
}

impl<D: Discipline, S: Structure<D::Rank>> Scheduler<Selector<D, S>> {
    /// Returns a scheduler of `discipline` on `structure` for a link without overhead. It has no
    /// streams and no common limit on waiting packets.
    #[must_use]
    pub fn new(discipline: D, structure: S) -> Self {
        Self::over(Selector::new(discipline, structure))
    }
}

impl Scheduler<HilqExact> {
    /// Returns a scheduler of DWCS, earliest deadline first, on `hilq-exact`.
    #[must_use]
    pub fn hilq_exact(options: DwcsOptions) -> Self {
        Self::over(HilqExact::new(options))
    }
}

impl<S: Select> Scheduler<S> {
    /// Returns a scheduler with `selector`, which has no streams yet.
    #[must_use]
    pub fn over(selector: S) -> Self {
        let gates = EligibilityGates::new(Link::default());
        let store = PacketStore { queues: Queues::new(u32::MAX - 1, Link::default()), gates };
        Self { selector, store, flows: StreamFlows::default() }
    }

    /// Limits the packets that wait in all streams together; further arrivals are dropped as at a
    /// full queue. Call before the first stream is added.
    #[must_use]
    pub fn with_packet_limit(mut self, packets: u32) -> Self {
        self.store.queues.set_packet_limit(packets.min(u32::MAX - 1));
        self
    }

    /// Makes rate caps count packets with their length on `link`. Call before the first stream is
    /// added.
    #[must_use]
    pub fn on_link(mut self, link: Link) -> Self {
        self.store.gates = EligibilityGates::new(link);
        self.store.queues.set_link(link);
        self
    }

    /// Adds a stream; its number is the count of streams before it.
    ///
    /// # Errors
    /// Fails if the contract lacks an attribute that the discipline needs, or there are 2³² − 1
    /// streams. Also if a stream with flows drops late packets: its contract already limits their
    /// delay.
    #[allow(clippy::needless_pass_by_value)]
    pub fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        ContractError::check_flows(&contract)?;
        let stream = self.selector.add_stream(&contract)?;
        self.flows.add_stream(stream, &contract);
        self.store.queues.add_stream(StreamFlows::queue_limit(&contract));
        self.store.gates.add_stream(stream, &contract);
        Ok(stream)
    }

    /// Limits the packets that wait in all streams to `packets`, and allocates memory for them and
    /// for the streams. Afterwards no call except [`add_stream`](Self::add_stream) allocates.
    ///
    /// Streams with flows have their own limits; only their heads count here.
    pub fn preallocate(&mut self, packets: u32) {
        let streams = self.selector.streams();
        // A stream with flows has its head in the queue, and the successor before the head leaves.
        let heads = 2 * self.flows.count();
        self.store.queues.preallocate(packets, heads);
        self.store.gates.reserve(streams);
        self.selector.reserve();
        self.flows.reserve();
    }

    /// Enqueues an arriving packet. Returns its number among the stream's arrivals, from 0.
    ///
    /// # Errors
    /// Returns the packet's departure, if it was dropped at a full queue.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    // Inlined always: a batch then has no calls for a packet that joins a backlog.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<u64, Departure> {
        self.store.queues.admit(stream, packet, now_ns)?;
        self.advance(now_ns);
        let number = self.store.queues.arrivals(stream);
        let head = Head { arrival_ns: now_ns, bytes: packet.bytes };
        let was_empty = self.store.queues.push(stream, packet, now_ns);
        self.joined(now_ns, stream, head, was_empty);
        Ok(number)
    }

    /// Enqueues an arriving packet of a flow; without [flows](Contract::flows), the stream's
    /// packets are one queue. Returns its number among the stream's arrivals, from 0.
    ///
    /// Queue management may drop the packet. At a limit of the flows, packets of the longest flow
    /// are dropped, which may include this one. `observer` gets them.
    ///
    /// # Errors
    /// Returns the packet's departure, if the stream has no flows and its queue is full.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    #[inline]
    pub fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut (impl Observer + ?Sized),
    ) -> Result<u64, Departure> {
        if !self.flows.has(stream) {
            return self.enqueue(now_ns, stream, packet);
        }
        let number = self.store.queues.count_arrival(stream);
        self.flows.push(now_ns, stream, flow, packet, number, observer);
        if self.store.queues.waiting(stream).packets == 0 {
            self.advance(now_ns);
            self.commit(now_ns, stream, observer);
        } else if S::TRACKS_BACKLOG {
            self.selector.backlog_changed(stream, self.backlog(stream));
        }
        Ok(number)
    }

    /// Moves the next packet of the stream's flows, if any, to the end of its queue: behind the
    /// head that is about to leave, or to the head.
    fn commit(&mut self, now_ns: u64, stream: StreamId, observer: &mut (impl Observer + ?Sized)) {
        let next = self.flows.pull(now_ns, stream, observer);
        let Some(FlowPacket { packet, number, arrival_ns, .. }) = next else { return };
        let head = Head { arrival_ns, bytes: packet.bytes };
        let was_empty = self.store.queues.push_numbered(stream, packet, arrival_ns, number);
        self.joined(now_ns, stream, head, was_empty);
    }

    /// Tells the selector of a packet that joined its stream's queue: as its head if the queue was
    /// empty.
    #[inline(always)]
    fn joined(&mut self, now_ns: u64, stream: StreamId, head: Head, was_empty: bool) {
        if S::TRACKS_BACKLOG {
            self.selector.backlog_changed(stream, self.backlog(stream));
        }
        if was_empty {
            let open = self.store.gates.admits(stream, head, now_ns);
            let stamp = self.selector.arrived(stream, head.bytes, open);
            self.selector.became_backlogged(stream, NewHead { head, stamp, open });
        } else if size_of::<S::Stamp>() > 0 {
            let active = self.selector.active(stream);
            let stamp = self.selector.arrived(stream, head.bytes, active);
            self.store.queues.stamp_last(stream, stamp);
        }
    }

    /// Returns the backlog of a stream, its flows included.
    #[inline]
    fn backlog(&self, stream: StreamId) -> Waiting {
        let mut waiting = self.store.queues.waiting(stream);
        if self.flows.any() {
            let in_flows = self.flows.waiting(stream);
            waiting.packets += in_flows.packets;
            waiting.bytes += in_flows.bytes;
        }
        waiting
    }

    /// Enqueues packets that arrive at one instant; `full` takes the positions in `arrivals` and
    /// the departures of dropped ones.
    ///
    /// # Panics
    /// Panics if a stream was not added to this scheduler.
    #[inline]
    pub fn enqueue_batch(
        &mut self,
        now_ns: u64,
        arrivals: &[(StreamId, Packet)],
        mut full: impl FnMut(usize, Departure),
    ) {
        for (at, &(stream, packet)) in arrivals.iter().enumerate() {
            if let Some((later, _)) = arrivals.get(at + FETCHED_AHEAD) {
                self.store.queues.prefetch(*later);
            }
            if let Err(departure) = self.enqueue(now_ns, stream, packet) {
                full(at, departure);
            }
        }
    }

    /// Makes one decision: charges the deadlines that have passed, then removes the head of the
    /// first stream. `None` if no stream is eligible.
    ///
    /// Call on every link-idle event, even with an empty backlog: it ends the busy period, and fair
    /// queueing resets its tags.
    // Inlined always, like `Queues::pop`: a batch appends departures without a copy between.
    #[inline(always)]
    pub fn decide(
        &mut self,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<Departure> {
        self.open_due_gates(now_ns);
        self.selector.advance_to_select(now_ns);
        if self.store.queues.total_waiting() == 0 {
            self.selector.idle();
            return None;
        }
        let stream = self.selector.select(now_ns, &mut self.store, observer)?;
        if self.flows.any() {
            // The successor follows the head before it leaves, as in a queue.
            self.commit(now_ns, stream, observer);
        }
        let deadline_ns = self.selector.deadline_ns(stream);
        let (departure, next) = self.store.queues.pop(stream, now_ns, deadline_ns, Event::Sent)?;
        if S::TRACKS_BACKLOG {
            self.selector.backlog_changed(stream, self.backlog(stream));
        }
        if self.selector.served(stream, now_ns) {
            observer.missed(stream, now_ns, 1, 0);
        }
        self.store.gates.spend(stream, departure.bytes, now_ns);
        let next = next.map(|next| self.store.new_head(stream, now_ns, next));
        self.selector.head_departed(stream, next);
        Some(departure)
    }

    /// Advances time to `now_ns` and opens the gates that time opens, each at its time.
    #[inline(always)]
    fn advance(&mut self, now_ns: u64) {
        self.open_due_gates(now_ns);
        self.selector.advance(now_ns);
    }

    /// Advances time to `now_ns` for an event that precedes the gates which open at `now_ns`.
    fn advance_before_gates(&mut self, now_ns: u64) {
        if let Some(before_ns) = now_ns.checked_sub(1) {
            self.open_due_gates(before_ns);
        }
        self.selector.advance(now_ns);
    }

    #[inline(always)]
    fn open_due_gates(&mut self, until_ns: u64) {
        if self.store.gates.next_opening_ns().is_some() {
            self.open_gates(until_ns);
        }
    }

    #[cold]
    fn open_gates(&mut self, until_ns: u64) {
        while let Some((from_ns, stream)) = self.store.gates.pop_opening(until_ns) {
            self.selector.advance(from_ns);
            self.update_gate(from_ns, stream);
        }
    }

    /// Opens or closes the gate of `stream` according to its limits.
    fn update_gate(&mut self, now_ns: u64, stream: StreamId) {
        self.selector.limits_changed(stream);
        let Some(head) = self.selector.head(stream) else { return };
        if !self.store.gates.admits(stream, head, now_ns) {
            return self.selector.close(stream);
        }
        let waiting = self.store.queues.waiting(stream);
        self.selector.open(stream, Activation::Opened { waiting });
    }

    /// Makes up to `most` decisions at one instant, for drivers that fill a transmit ring. Returns
    /// the number of packets sent.
    #[inline]
    pub fn decide_batch(
        &mut self,
        now_ns: u64,
        most: usize,
        observer: &mut (impl Observer + ?Sized),
        mut sent: impl FnMut(Departure),
    ) -> usize {
        let mut count = 0;
        while count < most
            && let Some(departure) = self.decide(now_ns, observer)
        {
            let stream = departure.stream;
            sent(departure);
            count += 1;
            if self.selector.is_alone(stream) && !self.store.gates.may_close(stream) {
                // The last packet needs a decision: it has no successor.
                let behind = self.store.queues.waiting(stream).packets.saturating_sub(1) as usize;
                let again = behind.min(most - count);
                self.serve_alone(now_ns, stream, again, observer, &mut sent);
                count += again;
            }
        }
        count
    }

    /// Serves `count` packets of `stream`, which wins every decision and has more packets.
    #[inline]
    fn serve_alone(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        count: usize,
        observer: &mut (impl Observer + ?Sized),
        mut sent: impl FnMut(Departure),
    ) {
        for _ in 0..count {
            let deadline_ns = self.selector.deadline_ns(stream);
            let popped = self.store.queues.pop(stream, now_ns, deadline_ns, Event::Sent);
            let Some((departure, Some((head, stamp)))) = popped else {
                debug_assert!(false, "more than `count` packets wait");
                break;
            };
            let next = NewHead { head, stamp, open: true };
            if self.selector.serve_alone(stream, now_ns, next) {
                observer.missed(stream, now_ns, 1, 0);
            }
            sent(departure);
        }
        if count > 0 {
            self.selector.reinsert(stream);
        }
    }

    /// Opens or closes the gate of `stream`; gates are open initially. While its gate is closed, a
    /// stream is not served and its deadlines are charged.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    pub fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool) {
        self.advance_before_gates(now_ns);
        self.store.gates.set_by_caller(stream, eligible);
        self.update_gate(now_ns, stream);
    }

    /// Returns credits to `stream`; no effect on a stream without flow control. At one instant the
    /// order is: credits, gates that open by time, arrivals.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    pub fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64) {
        self.advance_before_gates(now_ns);
        self.store.gates.add_credits(stream, credits);
        // Credits never close a gate.
        if self.selector.active(stream) {
            self.selector.limits_changed(stream);
        } else {
            self.update_gate(now_ns, stream);
        }
    }

    /// Returns the time, ns, at which the next stream becomes eligible under its rate cap. After
    /// [`decide`](Self::decide) returned `None`, call it again at this time.
    #[must_use]
    pub fn next_eligible_ns(&self) -> Option<u64> {
        self.store.gates.next_opening_ns()
    }

    /// Charges the last service of `stream` with `extra_bytes` beyond the packet's length; a
    /// negative value is a refund. For work whose cost is known only afterwards, such as CPU
    /// cycles. Call before the stream is served again. Returns whether the discipline supports it
    /// (WF²Q+ and DRR do).
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    pub fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool {
        self.advance(now_ns);
        self.selector.charge_extra(stream, extra_bytes)
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.selector.streams()
    }

    /// Returns the number of packets waiting in `stream`.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    #[must_use]
    pub fn waiting(&self, stream: StreamId) -> u32 {
        self.backlog(stream).packets
    }

    /// Returns the packets of `stream` that arrived, and those that wait.
    ///
    /// # Panics
    /// Panics if `stream` was not added to this scheduler.
    #[must_use]
    pub fn counters(&self, stream: StreamId) -> StreamCounters {
        let Waiting { packets, bytes, .. } = self.backlog(stream);
        let arrived = self.store.queues.arrivals(stream);
        StreamCounters { arrived, waiting: packets, waiting_bytes: bytes }
    }

    /// Returns the number of packets waiting in all streams.
    #[must_use]
    pub fn total_waiting(&self) -> u64 {
        self.store.queues.total_waiting() + self.flows.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::MaxRate;
    use crate::discipline::{Measure, RoundRobin, Wf2qPlus};
    use crate::selector::ManagedFirst;
    use crate::structure::Scan;
    use core::num::NonZeroU64;

    /// One byte per nanosecond.
    const LINK: Link = Link::new(8_000_000_000, 0);

    #[test]
    fn at_one_instant_credits_and_calls_precede_gates_that_time_opens() {
        let rate_bps = NonZeroU64::new(8_000_000).unwrap();
        let capped = Contract::new().max_rate(MaxRate { rate_bps, burst_bytes: 0 });
        for by_credits in [true, false] {
            // Round robin serves in the order of activation.
            let mut scheduler = Scheduler::new(RoundRobin::new(Measure::Packets), Scan::default());
            let capped = scheduler.add_stream(capped.clone()).unwrap();
            let called = scheduler.add_stream(Contract::new().credits(0)).unwrap();
            if !by_credits {
                scheduler.add_credits(0, called, 1);
                scheduler.set_eligible(0, called, false);
            }
            for stream in [capped, called] {
                scheduler.enqueue(0, stream, Packet::new(1)).unwrap();
            }
            assert_eq!(scheduler.next_eligible_ns(), Some(1_000));
            if by_credits {
                scheduler.add_credits(1_000, called, 1);
            } else {
                scheduler.set_eligible(1_000, called, true);
            }
            assert_eq!(scheduler.decide(1_000, &mut ()).unwrap().stream, called);
            assert_eq!(scheduler.decide(1_000, &mut ()).unwrap().stream, capped);
        }
    }

    /// Every event advances a clock that leaps. At 100 ns it leaps to the start of the second
    /// packet of `a`, so it is past that start when the packet of `b` arrives.
    #[test]
    fn a_change_of_limits_advances_a_clock_that_leaps() {
        for idle in [false, true] {
            let below = Selector::new(Wf2qPlus::new(LINK, 0), Scan::default());
            let mut scheduler = Scheduler::over(ManagedFirst::new(below, LINK)).on_link(LINK);
            let a = scheduler.add_stream(Contract::new().credits(1_000)).unwrap();
            let b = scheduler.add_stream(Contract::new()).unwrap();
            for _ in 0..2 {
                scheduler.enqueue(0, a, Packet::new(1_000)).unwrap();
            }
            assert_eq!(scheduler.decide(0, &mut ()).unwrap().stream, a);
            if idle {
                scheduler.set_eligible(100, b, true);
            } else {
                scheduler.add_credits(100, a, 1);
            }
            scheduler.enqueue(600, b, Packet::new(800)).unwrap();
            assert_eq!(scheduler.decide(1_000, &mut ()).unwrap().stream, a);
            assert_eq!(scheduler.decide(2_000, &mut ()).unwrap().stream, b);
        }
    }

    #[test]
    fn the_opening_of_a_dropped_head_is_cancelled() {
        let rate_bps = NonZeroU64::new(8_000_000).unwrap();
        let contract = Contract::new().period_ns(100).unwrap().late(crate::contract::Late::Drop);
        let contract = contract.max_rate(MaxRate { rate_bps, burst_bytes: 0 });
        let mut scheduler = Scheduler::new(crate::discipline::Edf, Scan::default());
        let stream = scheduler.add_stream(contract).unwrap();
        scheduler.enqueue(0, stream, Packet::new(1)).unwrap();
        assert_eq!(scheduler.next_eligible_ns(), Some(1_000));
        assert_eq!(scheduler.decide(100, &mut ()), None);
        assert_eq!((scheduler.total_waiting(), scheduler.next_eligible_ns()), (0, None));
    }
}
