//! The flows of the streams of a scheduler.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::contract::Contract;
use crate::discipline::Waiting;
use crate::flow_queue::{Flow, FlowPacket, FlowQueues};
use crate::packet::{Departure, Event, Packet, StreamId};
use crate::selector::Observer;

/// The packets of all streams with flows, without those in the streams' queues: a stream's head and
/// its successor.
#[derive(Debug, Default)]
pub(crate) struct StreamFlows {
    /// The flows of each stream that has some; empty if none has.
    flows: Vec<Option<Box<FlowQueues>>>,
    /// The packets that wait in all flows.
    total: u64,
}

impl StreamFlows {
    /// Adds the flows of `stream`, if its contract has some.
    pub(crate) fn add_stream(&mut self, stream: StreamId, contract: &Contract) {
        if let Some(options) = contract.flow_options() {
            self.flows.resize_with(stream.index(), || None);
            self.flows.push(Some(Box::new(FlowQueues::new(options))));
        }
    }

    /// Returns the limit of the queue of a stream with this contract. Flows have limits of their
    /// own.
    pub(crate) fn queue_limit(contract: &Contract) -> Option<u32> {
        if contract.flows.is_some() { None } else { contract.queue }
    }

    /// Allocates memory for all packets.
    pub(crate) fn reserve(&mut self) {
        for flows in self.flows.iter_mut().flatten() {
            flows.reserve();
        }
    }

    /// Returns whether a stream has flows.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Returns the number of streams with flows.
    pub(crate) fn count(&self) -> usize {
        self.flows.iter().flatten().count()
    }

    /// Returns whether `stream` has flows.
    #[inline]
    pub(crate) fn has(&self, stream: StreamId) -> bool {
        matches!(self.flows.get(stream.index()), Some(Some(_)))
    }

    /// Returns the packets that wait in the flows of a stream.
    #[inline]
    pub(crate) fn waiting(&self, stream: StreamId) -> Waiting {
        match self.flows.get(stream.index()) {
            // Flows do not know the framing of their packets.
            Some(Some(flows)) => {
                Waiting { packets: flows.packets(), bytes: flows.bytes(), framing_bytes: 0 }
            }
            _ => Waiting::default(),
        }
    }

    /// Returns the packets that wait in the flows of all streams.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Appends the arrival of this number to its flow. `observer` gets the dropped packets.
    #[inline]
    pub(crate) fn push(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        flow: Flow,
        packet: Packet,
        number: u64,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(Some(flows)) = self.flows.get_mut(stream.index()) else { return };
        let before = flows.packets();
        flows.push(now_ns, flow, packet, number, &mut |dropped, event| {
            observer.dropped(&departure(stream, &dropped, now_ns, event));
        });
        self.total = self.total + u64::from(flows.packets()) - u64::from(before);
    }

    /// Removes the next packet of the stream's flows; `None` if no packet is left, or the stream
    /// has no flows. `observer` gets the packets that are dropped, and whether it is marked.
    #[inline]
    pub(crate) fn pull(
        &mut self,
        now_ns: u64,
        stream: StreamId,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<FlowPacket> {
        let Some(Some(flows)) = self.flows.get_mut(stream.index()) else { return None };
        let before = flows.packets();
        let next = flows.pull(now_ns, &mut |dropped, event| {
            observer.dropped(&departure(stream, &dropped, now_ns, event));
        });
        self.total -= u64::from(before - flows.packets());
        let (next, mark) = next?;
        if mark {
            observer.marked(stream, next.number, next.packet.tag);
        }
        Some(next)
    }
}

/// Returns the departure of a packet that was dropped from a flow.
fn departure(stream: StreamId, of: &FlowPacket, now_ns: u64, event: Event) -> Departure {
    let FlowPacket { packet, number, arrival_ns, .. } = *of;
    Departure {
        time_ns: now_ns,
        stream,
        packet: number,
        bytes: packet.bytes,
        arrival_ns,
        deadline_ns: None,
        event,
        tag: packet.tag,
    }
}
