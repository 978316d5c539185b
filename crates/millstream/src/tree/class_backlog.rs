//! The packets of a tree: queues, gates and late drops.

use alloc::vec::Vec;

use super::ClassId;
use super::node::{AnyBacklog, AnyStamp};
use crate::contract::Contract;
use crate::discipline::{Head, Waiting};
use crate::gate::EligibilityGates;
use crate::packet::{Departure, Event, StreamId};
use crate::queue::Queues;
use crate::selector::{NewHead, Observer};
use crate::stream_flows::StreamFlows;

/// A child of a class.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child {
    Class(ClassId),
    Stream(StreamId),
}

/// The queues of all streams and the gates of streams and classes.
pub(super) struct ClassBacklog {
    pub(super) queues: Queues<AnyStamp>,
    pub(super) flows: StreamFlows,
    pub(super) stream_gates: EligibilityGates,
    pub(super) class_gates: EligibilityGates,
}

impl ClassBacklog {
    pub(super) fn add_stream(&mut self, stream: StreamId, contract: &Contract) {
        self.flows.add_stream(stream, contract);
        self.queues.add_stream(StreamFlows::queue_limit(contract));
        self.stream_gates.add_stream(stream, contract);
    }

    /// Returns the backlog of a stream, its flows included.
    pub(super) fn waiting(&self, stream: StreamId) -> Waiting {
        let (queue, flows) = (self.queues.waiting(stream), self.flows.waiting(stream));
        Waiting {
            packets: queue.packets + flows.packets,
            bytes: queue.bytes + flows.bytes,
            ..queue
        }
    }

    /// Returns a packet that became head-of-line as a `NewHead` for its class.
    pub(super) fn new_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        next: (Head, AnyStamp),
    ) -> NewHead<AnyStamp> {
        let (head, stamp) = next;
        NewHead { head, stamp, open: self.stream_gates.admits(stream, head, now_ns) }
    }
}

/// Reports the misses of a class's streams.
pub(super) struct ChildObserver<'a, O: ?Sized> {
    pub(super) children: &'a [Child],
    pub(super) observer: &'a mut O,
}

impl<O: Observer + ?Sized> Observer for ChildObserver<'_, O> {
    fn missed(&mut self, child: StreamId, now_ns: u64, missed: u64, violations: u64) {
        if let Child::Stream(stream) = self.children[child.index()] {
            self.observer.missed(stream, now_ns, missed, violations);
        }
    }
}

/// Drops late packets of a class's streams and records them.
pub(super) struct LateDrops<'a> {
    pub(super) backlog: &'a mut ClassBacklog,
    pub(super) children: &'a [Child],
    pub(super) departures: Vec<Departure>,
}

impl AnyBacklog for LateDrops<'_> {
    fn drop_head(
        &mut self,
        child: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
    ) -> Option<NewHead<AnyStamp>> {
        // Classes are never dropped: their contracts send late packets.
        let Child::Stream(stream) = self.children[child.index()] else { return None };
        let queues = &mut self.backlog.queues;
        let (departure, next) = queues.pop(stream, now_ns, deadline_ns, Event::DroppedLate)?;
        self.departures.push(departure);
        if next.is_none() {
            self.backlog.stream_gates.cancel_opening(stream);
        }
        next.map(|next| self.backlog.new_head(stream, now_ns, next))
    }
}
