//! Two queues of a stream, coupled by DualPI2 (RFC 9332).
//!
//! ECT(1) and CE packets wait in the L queue, others in the C queue. At a limit, the arriving
//! packet is dropped. Every operation is O(1).

use super::packets::{PacketList, Packets};
use super::{FlowOptions, FlowPacket};
use crate::aqm::Action;
use crate::aqm::dual_pi2::{DualPi2, DualPi2Options, DualSchedule, LowLatencyHead};
use crate::packet::Event;

/// The two queues.
#[derive(Debug)]
pub(super) struct DualQueue {
    options: DualPi2Options,
    limit_bytes: u64,
    limit_packets: u32,
    low_latency: PacketList,
    classic: PacketList,
    packets: Packets,
    control: DualPi2,
    /// With weights: the lead of the L queue over its part, in bytes times percent; the C queue is
    /// served while it is positive.
    lead: i64,
}

impl DualQueue {
    pub(super) fn new(of: &FlowOptions, options: DualPi2Options) -> Self {
        Self {
            options,
            limit_bytes: of.limit_bytes,
            limit_packets: of.limit_packets,
            low_latency: PacketList::EMPTY,
            classic: PacketList::EMPTY,
            packets: Packets::new(),
            control: DualPi2::default(),
            lead: 0,
        }
    }

    /// Allocates memory for the limit of packets.
    pub(super) fn reserve(&mut self) {
        self.packets.reserve(self.limit_packets as usize);
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets.backlog().packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.packets.backlog().bytes
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        arrival: FlowPacket,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) {
        self.advance(arrival.arrival_ns);
        let waiting = self.packets.backlog();
        let bytes = waiting.bytes.saturating_add(u64::from(arrival.packet.bytes));
        if waiting.packets >= self.limit_packets || bytes > self.limit_bytes {
            return dropped(arrival, Event::DroppedFull);
        }
        let is_low_latency = arrival.ecn.is_low_latency();
        let list = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        self.packets.push(list, arrival, false);
    }

    #[inline]
    pub(super) fn pull(
        &mut self,
        now_ns: u64,
        dropped: &mut impl FnMut(FlowPacket, Event),
    ) -> Option<(FlowPacket, bool)> {
        self.advance(now_ns);
        loop {
            // The largest packet stands for the MTU.
            let is_short =
                self.packets.backlog().bytes < 2 * u64::from(self.packets.largest_bytes());
            let (action, packet) = if self.serves_low_latency() {
                let packets = self.low_latency.backlog().packets;
                let (packet, _) = self.packets.pop(&mut self.low_latency)?;
                let sojourn_ns = now_ns.saturating_sub(packet.arrival_ns);
                let head = LowLatencyHead { sojourn_ns, packets, is_short };
                (self.control.decide_low_latency(&self.options, head), packet)
            } else {
                let (packet, _) = self.packets.pop(&mut self.classic)?;
                if is_short {
                    (Action::Deliver, packet)
                } else {
                    (self.control.decide_classic(&self.options, packet.ecn.is_capable()), packet)
                }
            };
            match action {
                Action::Drop => dropped(packet, Event::DroppedByAqm),
                Action::Deliver | Action::Mark => {
                    self.charge(&packet);
                    return Some((packet, action == Action::Mark));
                }
            }
        }
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        // Most calls need not read the first packets.
        if !self.control.is_due(now_ns) {
            return;
        }
        let first = |list| self.packets.first(list).map(|packet| packet.arrival_ns);
        let oldest_ns = [first(&self.low_latency), first(&self.classic)].into_iter().flatten();
        self.control.advance(&self.options, now_ns, oldest_ns.min());
    }

    /// Returns whether the next packet is of the L queue (`scheduler` in the RFC).
    #[inline]
    fn serves_low_latency(&self) -> bool {
        if self.low_latency.is_empty() || self.classic.is_empty() {
            return self.classic.is_empty();
        }
        let DualSchedule::TimeShift { shift_ns } = self.options.schedule else {
            return self.lead <= 0;
        };
        let first = |list| self.packets.first(list).map_or(0, |packet| packet.arrival_ns);
        first(&self.low_latency) <= first(&self.classic).saturating_add(shift_ns)
    }

    /// Charges the queue of a packet that was delivered for its bytes.
    #[inline]
    fn charge(&mut self, packet: &FlowPacket) {
        let DualSchedule::Weighted { classic_percent } = self.options.schedule else { return };
        let classic = i64::from(classic_percent.clamp(1, 99));
        let bytes = i64::from(packet.packet.bytes);
        // An empty queue has no claim on the bytes of the other.
        if packet.ecn.is_low_latency() {
            self.lead += bytes * classic;
            if self.classic.is_empty() {
                self.lead = self.lead.min(0);
            }
        } else {
            self.lead -= bytes * (100 - classic);
            if self.low_latency.is_empty() {
                self.lead = self.lead.max(0);
            }
        }
    }
}
