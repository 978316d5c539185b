//! The scheduler: queues behind, a discipline on a structure in front.
//!
//! It has no clock: the caller says what time it is, and time must not go backwards. At one
//! instant arrivals come before the decision. A realisation is a loop of
//! [`enqueue`](Scheduler::enqueue) and [`decide`](Scheduler::decide).

use crate::contract::{Contract, ContractError};
use crate::discipline::{Discipline, Head};
use crate::packet::{Departure, Event, Packet, StreamId};
use crate::queue::Queues;
use crate::selector::{Backlog, Observer, Selector};
use crate::structure::Structure;

impl Backlog for Queues {
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<Head> {
        let (departure, next) = self.pop(stream, now_ns, deadline_ns, Event::DroppedLate)?;
        observer.dropped(&departure);
        next
    }
}

/// Schedules the packets of many streams under discipline `D`, the winner found by structure `S`.
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
pub struct Scheduler<D: Discipline, S> {
    selector: Selector<D, S>,
    queues: Queues,
}

impl<D: Discipline, S: Structure<D::Rank>> Scheduler<D, S> {
    /// A scheduler without streams and without a common limit on waiting packets.
    #[must_use]
    pub fn new(discipline: D, structure: S) -> Self {
        Self::with_packet_limit(discipline, structure, u32::MAX - 1)
    }

    /// A scheduler in which at most `packets` wait in all streams together; arrivals beyond are
    /// dropped like arrivals at a full queue.
    #[must_use]
    pub fn with_packet_limit(discipline: D, structure: S, packets: u32) -> Self {
        let packets = packets.min(u32::MAX - 1);
        Self { selector: Selector::new(discipline, structure), queues: Queues::new(packets) }
    }

    /// Adds a stream; its number is the count of streams before it.
    ///
    /// # Errors
    /// If the contract lacks an attribute that the discipline needs, or there are 2³² − 1 streams.
    #[allow(clippy::needless_pass_by_value)]
    pub fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        let stream = self.selector.add_stream(&contract)?;
        self.queues.add_stream(contract.queue);
        Ok(stream)
    }

    /// A packet arrives. Returns its number among the stream's arrivals, from 0.
    ///
    /// # Errors
    /// The packet's departure, if the queue was full and it was dropped.
    ///
    /// # Panics
    /// If `stream` was not added to this scheduler.
    #[inline]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
    ) -> Result<u64, Departure> {
        let number = self.queues.arrivals(stream);
        if self.queues.push(stream, packet, now_ns)? {
            let head = Head { arrival_ns: now_ns, bytes: packet.bytes };
            self.selector.became_backlogged(stream, head);
        }
        Ok(number)
    }

    /// Packets that arrive at one instant; those dropped go to `full`.
    ///
    /// # Panics
    /// If a stream was not added to this scheduler.
    #[inline]
    pub fn enqueue_batch(
        &mut self,
        now_ns: u64,
        arrivals: &[(StreamId, Packet)],
        mut full: impl FnMut(Departure),
    ) {
        for &(stream, packet) in arrivals {
            if let Err(departure) = self.enqueue(now_ns, stream, packet) {
                full(departure);
            }
        }
    }

    /// One decision cycle: charges the deadlines that have passed, then takes the head of the
    /// stream that comes first. `None` if no stream is eligible.
    #[inline]
    pub fn decide(
        &mut self,
        now_ns: u64,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<Departure> {
        let stream = self.selector.select(now_ns, &mut self.queues, observer)?;
        let deadline_ns = self.selector.deadline_ns(stream);
        let (departure, next) = self.queues.pop(stream, now_ns, deadline_ns, Event::Sent)?;
        if self.selector.served(stream, now_ns, next) {
            observer.missed(stream, now_ns, 1, 0);
        }
        Some(departure)
    }

    /// Up to `most` decision cycles at one instant, as a driver filling a transmit ring makes
    /// them. Returns how many packets were sent.
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
            sent(departure);
            count += 1;
        }
        count
    }

    /// Opens (`true`, the start) or closes the gate of `stream`. A stream with a closed gate is
    /// not chosen; its packets wait, its deadlines pass and are charged.
    ///
    /// # Panics
    /// If `stream` was not added to this scheduler.
    pub fn set_eligible(&mut self, stream: StreamId, eligible: bool) {
        self.selector.set_eligible(stream, eligible);
    }

    /// How many streams there are.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.selector.streams()
    }

    /// Packets waiting in `stream`.
    ///
    /// # Panics
    /// If `stream` was not added to this scheduler.
    #[must_use]
    pub fn waiting(&self, stream: StreamId) -> u32 {
        self.queues.waiting(stream)
    }

    /// Packets waiting in all streams.
    #[must_use]
    pub fn total_waiting(&self) -> u64 {
        self.queues.total_waiting()
    }
}
