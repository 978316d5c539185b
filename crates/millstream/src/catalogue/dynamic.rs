//! The dynamic dispatch boundary: a scheduler behind one virtual call per operation.

use alloc::vec::Vec;

use crate::contract::{Contract, ContractError};
use crate::flow_queue::Flow;
use crate::packet::{Departure, Packet, StreamCounters, StreamId};
use crate::scheduler::Scheduler;
use crate::selector::{Observer, Select};

/// A [`Scheduler`] whose discipline and structure are chosen at run time.
pub trait DynScheduler {
    /// See [`Scheduler::add_stream`].
    ///
    /// # Errors
    /// Fails if the contract lacks an attribute that the discipline needs, or there are too many
    /// streams.
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError>;

    /// See [`Scheduler::preallocate`]. Returns `false`, without effect, if the scheduler does not
    /// support it: `hilq`, and trees of classes.
    #[must_use]
    fn preallocate(&mut self, packets: u32) -> bool {
        let _ = packets;
        false
    }

    /// See [`Scheduler::enqueue`].
    ///
    /// # Errors
    /// Returns the packet's departure, if it was dropped at a full queue.
    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure>;

    /// See [`Scheduler::enqueue_batch`].
    fn enqueue_batch(
        &mut self,
        now_ns: u64,
        arrivals: &[(StreamId, Packet)],
        full: &mut dyn FnMut(usize, Departure),
    ) {
        for (at, &(stream, packet)) in arrivals.iter().enumerate() {
            if let Err(departure) = self.enqueue(now_ns, stream, packet) {
                full(at, departure);
            }
        }
    }

    /// See [`Scheduler::enqueue_flow`]. A scheduler that refuses flows ignores `flow`.
    ///
    /// # Errors
    /// Returns the packet's departure, if the stream has no flows and its queue is full.
    fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut dyn Observer,
    ) -> Result<u64, Departure> {
        let _ = (flow, observer);
        self.enqueue(now_ns, stream, packet)
    }

    /// See [`Scheduler::decide`].
    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure>;

    /// Makes up to `most` decisions at one instant and appends the packets sent to `sent`. See
    /// [`Scheduler::decide_batch`].
    fn decide_batch(
        &mut self,
        now_ns: u64,
        most: usize,
        observer: &mut dyn Observer,
        sent: &mut Vec<Departure>,
    ) {
        for _ in 0..most {
            let Some(departure) = self.decide(now_ns, observer) else { break };
            sent.push(departure);
        }
    }

    /// See [`Scheduler::set_eligible`].
    fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool);

    /// See [`Scheduler::add_credits`].
    fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64);

    /// See [`Scheduler::next_eligible_ns`].
    fn next_eligible_ns(&self) -> Option<u64>;

    /// See [`Scheduler::charge`].
    fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool;

    /// See [`Scheduler::streams`].
    fn streams(&self) -> usize;

    /// See [`Scheduler::waiting`].
    fn waiting(&self, stream: StreamId) -> u32;

    /// See [`Scheduler::total_waiting`].
    fn total_waiting(&self) -> u64;

    /// See [`Scheduler::counters`]. Returns `None` if the scheduler does not support it: `hilq`,
    /// and trees of classes.
    #[must_use]
    fn counters(&self, stream: StreamId) -> Option<StreamCounters> {
        let _ = stream;
        None
    }
}

impl<S: Select> DynScheduler for Scheduler<S> {
    fn add_stream(&mut self, contract: Contract) -> Result<StreamId, ContractError> {
        Scheduler::add_stream(self, contract)
    }

    fn preallocate(&mut self, packets: u32) -> bool {
        Scheduler::preallocate(self, packets);
        true
    }

    fn enqueue(&mut self, now_ns: u64, stream: StreamId, packet: Packet) -> Result<u64, Departure> {
        Scheduler::enqueue(self, now_ns, stream, packet)
    }

    fn enqueue_batch(
        &mut self,
        now_ns: u64,
        arrivals: &[(StreamId, Packet)],
        full: &mut dyn FnMut(usize, Departure),
    ) {
        Scheduler::enqueue_batch(self, now_ns, arrivals, full);
    }

    fn enqueue_flow(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        packet: Packet,
        flow: Flow,
        observer: &mut dyn Observer,
    ) -> Result<u64, Departure> {
        Scheduler::enqueue_flow(self, now_ns, stream, packet, flow, observer)
    }

    fn decide(&mut self, now_ns: u64, observer: &mut dyn Observer) -> Option<Departure> {
        Scheduler::decide(self, now_ns, observer)
    }

    fn decide_batch(
        &mut self,
        now_ns: u64,
        most: usize,
        observer: &mut dyn Observer,
        sent: &mut Vec<Departure>,
    ) {
        Scheduler::decide_batch(self, now_ns, most, observer, |departure| sent.push(departure));
    }

    fn set_eligible(&mut self, now_ns: u64, stream: StreamId, eligible: bool) {
        Scheduler::set_eligible(self, now_ns, stream, eligible);
    }

    fn add_credits(&mut self, now_ns: u64, stream: StreamId, credits: u64) {
        Scheduler::add_credits(self, now_ns, stream, credits);
    }

    fn next_eligible_ns(&self) -> Option<u64> {
        Scheduler::next_eligible_ns(self)
    }

    fn charge(&mut self, now_ns: u64, stream: StreamId, extra_bytes: i64) -> bool {
        Scheduler::charge(self, now_ns, stream, extra_bytes)
    }

    fn streams(&self) -> usize {
        Scheduler::streams(self)
    }

    fn waiting(&self, stream: StreamId) -> u32 {
        Scheduler::waiting(self, stream)
    }

    fn total_waiting(&self) -> u64 {
        Scheduler::total_waiting(self)
    }

    fn counters(&self, stream: StreamId) -> Option<StreamCounters> {
        Some(Scheduler::counters(self, stream))
    }
}
