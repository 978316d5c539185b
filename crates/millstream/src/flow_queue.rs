//! The packets of one stream in several queues: by flow (RFC 8290), or two by the ECN field (RFC
//! 9332); each under queue management.
//!
//! ```text
//!               ┌── hash ──> [packets of the flow] ── DRR++ ──> CoDel, PIE, … ──┐
//! packet, Flow ─┤                                                               ├──> head
//!               └── ECN ──> [L], [C] ── weights or time shift ──> DualPI2 ──────┘
//! ```
//!
//! The scheduler sees one packet of the stream at a time, the head. When it selects the stream, the
//! next head is [pulled](FlowQueues::pull). So a packet of a sparse flow waits for at most the
//! head, the turns of other new flows, and the stream's own turn. The time that a packet is the
//! head is not part of the sojourn time that queue management sees.

mod dual;
mod flows;
mod packets;
mod table;

use crate::aqm::codel::CodelOptions;
use crate::aqm::{Aqm, Ecn};
use crate::packet::{Event, Packet};
use dual::DualQueue;
use flows::Flows;

/// The flow of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The hash of its flow.
    pub hash: u32,
    /// The hash of its host, for [`HostFairness::ByHost`].
    pub host: u32,
    /// The packet's ECN field.
    pub ecn: Ecn,
}

/// Whether hosts share a stream equally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostFairness {
    /// Flows share the stream equally; a host with more flows gets more.
    #[default]
    None,
    /// Hosts share the stream equally, and the flows of a host share its part: the shares of
    /// `dual-srchost` and `dual-dsthost` in CAKE (Høiland-Jørgensen, Täht and Morton, LANMAN 2018,
    /// section III), which divides the quantum by the host's flows.
    ByHost,
}

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
    /// Whether hosts share the stream equally.
    pub hosts: HostFairness,
    /// The queue management of each flow.
    pub aqm: Aqm,
    /// The seed of random drops.
    pub seed: u64,
}

impl Default for FlowOptions {
    /// 1,024 flows, 1,514 bytes a turn, 32 MiB, 10,240 packets (RFC 8290, section 5.2), CoDel.
    fn default() -> Self {
        Self {
            buckets: 1_024,
            quantum_bytes: 1_514,
            limit_bytes: 32 << 20,
            limit_packets: 10_240,
            hosts: HostFairness::None,
            aqm: Aqm::Codel(CodelOptions::default()),
            seed: 0,
        }
    }
}

/// A packet that waits in a queue of a stream.
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

/// The queues of one stream.
#[derive(Debug)]
pub struct FlowQueues {
    queues: StreamQueues,
}

#[derive(Debug)]
enum StreamQueues {
    Flows(Flows),
    Dual(DualQueue),
}

impl FlowQueues {
    /// Returns empty queues. `buckets` is rounded up to a multiple of 8 above 8.
    #[must_use]
    pub fn new(options: FlowOptions) -> Self {
        let queues = match options.aqm {
            Aqm::DualPi2(dual) => StreamQueues::Dual(DualQueue::new(&options, dual)),
            _ => StreamQueues::Flows(Flows::new(options)),
        };
        Self { queues }
    }

    /// Allocates memory for the limit of packets, so that no later call allocates.
    pub fn reserve(&mut self) {
        match &mut self.queues {
            StreamQueues::Flows(flows) => flows.reserve(),
            StreamQueues::Dual(dual) => dual.reserve(),
        }
    }

    /// Returns the packets that wait, without the head that was pulled.
    #[must_use]
    #[inline]
    pub fn packets(&self) -> u32 {
        match &self.queues {
            StreamQueues::Flows(flows) => flows.packets(),
            StreamQueues::Dual(dual) => dual.packets(),
        }
    }

    /// Returns the bytes that wait, without the head that was pulled.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        match &self.queues {
            StreamQueues::Flows(flows) => flows.bytes(),
            StreamQueues::Dual(dual) => dual.bytes(),
        }
    }

    /// Appends the packet that arrives at `now_ns` with this number among the stream's arrivals.
    /// Queue management may drop it. At a limit, drops packets of the longest flow, which may
    /// include it. `dropped` takes the packets and the reason.
    #[inline]
    pub fn push(
        &mut self,
        now_ns: u64,
        flow: Flow,
        packet: Packet,
        number: u64,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) {
        let arrival = FlowPacket { packet, number, arrival_ns: now_ns, ecn: flow.ecn };
        match &mut self.queues {
            StreamQueues::Flows(flows) => flows.push(flow, arrival, dropped),
            StreamQueues::Dual(dual) => dual.push(arrival, dropped),
        }
    }

    /// Removes the next packet and returns it, with whether it must be marked. `dropped` takes the
    /// packets that queue management drops, and the reason. `None` if no packet is left.
    #[inline]
    pub fn pull(
        &mut self,
        now_ns: u64,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) -> Option<(FlowPacket, bool)> {
        match &mut self.queues {
            StreamQueues::Flows(flows) => flows.pull(now_ns, dropped),
            StreamQueues::Dual(dual) => dual.pull(now_ns, dropped),
        }
    }
}
