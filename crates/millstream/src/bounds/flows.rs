//! The service of one flow among others of a stream, under deficit round robin with priority of
//! sparse flows (RFC 8290).
//!
//! Let a flow have packets from s until its packet p is the stream's next, X bytes in all, p
//! included. Each visit that finds its deficit used up adds a quantum Q; the deficit was at least 1
//! − L. So p is pulled after m ≤ ⌊(X + L)/Q⌋ + 1 visits. Before the first visit, and from each to
//! the next, another flow gets at most two quanta: an old flow that has no packets left may become
//! a new one, with a quantum; when it has used that up, it is old behind this flow, with another.
//! It leaves the lists with a deficit above 0 only, so no debt is forgotten. In all it sends at
//! most 2·Q·(m + 1) and a packet L_j. With O, the quanta of all others on the wire, and S, the sum
//! of their L_j, the stream sends at most
//!
//! ```text
//! L_head + X + S + 2·O·(m + 1)  ≤  L_head + X + S + 2·O·((X + L)/Q + 2)
//! ```
//!
//! from s to the end of p: the head was pulled before s. So a stream with the strict service r, θ
//! gives the flow the rate r·Q/(Q + 2·O) and the latency θ + (L_head + S + 2·O·(L/Q + 2))/r.
//! Packets that queue management drops do not count: they shorten turns.
//!
//! **Sparse flows.** A packet of at most a quantum that arrives while its flow is in no list waits
//! for the head and for one turn of each flow that is new: it is sent θ + (L_head + O + S + L)/r
//! after its arrival. Its flow then is last of the old ones, before which the others get two quanta
//! each, and leaves the lists. So if packets are further apart than θ + (L_head + 3·O + 2·S + L)/r,
//! each of them arrives while its flow is in no list.

use super::ServiceCurve;
use super::exact::{BITS_NS, ceil_ns, narrow};

/// A flow, and the others that may have packets in the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTurns {
    /// Q, the bytes of a turn, without overhead; at least 1.
    pub quantum_bytes: u32,
    /// L, the largest packet of the flow, bytes.
    pub largest_bytes: u32,
    /// L_head, the largest packet of all flows, bytes on the wire.
    pub head_bytes: u64,
    /// O, a quantum of each other flow, bytes on the wire.
    pub others_bytes: u64,
    /// S, the largest packet of each other flow, bytes on the wire.
    pub last_bytes: u64,
}

/// The bounds of a flow with long pauses between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseFlow {
    /// The longest time from the arrival of a packet to the end of its transmission, ns.
    pub delay_ns: u64,
    /// The bound holds if each packet arrives later than this after the one before, ns.
    pub apart_ns: u64,
}

impl FlowTurns {
    /// Returns the service of the flow in a stream with the strict service `stream`, for any
    /// traffic of the other flows; each flow has its own queue. `None` if nothing remains.
    #[must_use]
    pub fn service(self, stream: ServiceCurve) -> Option<ServiceCurve> {
        let quantum = u128::from(self.quantum_bytes.max(1));
        let turns = 2 * u128::from(self.others_bytes);
        let rate_bps = narrow(u128::from(stream.rate_bps) * quantum / (quantum + turns));
        // L_head + S + 2·O·(L/Q + 2), rounded up.
        let visits = u128::from(self.largest_bytes) + 2 * quantum;
        let work = turns.saturating_mul(visits).div_ceil(quantum);
        let latency_ns = self.after_ns(stream, work.saturating_add(self.last_bytes.into()));
        (rate_bps > 0).then_some(ServiceCurve { rate_bps, latency_ns })
    }

    /// Returns the bounds of the flow in a stream with the strict service `stream` if its packets
    /// are far apart, at most `own_bytes` long on the wire, and at most a quantum.
    #[must_use]
    pub fn sparse(self, stream: ServiceCurve, own_bytes: u64) -> SparseFlow {
        let [own, quanta, last] = [own_bytes, self.others_bytes, self.last_bytes].map(u128::from);
        SparseFlow {
            delay_ns: self.after_ns(stream, own + quanta + last),
            apart_ns: self.after_ns(stream, own + 3 * quanta + 2 * last),
        }
    }

    /// Returns the longest time until the stream has sent its head and `bytes`, ns.
    fn after_ns(self, stream: ServiceCurve, bytes: u128) -> u64 {
        let bytes = bytes.saturating_add(self.head_bytes.into());
        let ns = ceil_ns(bytes.checked_mul(BITS_NS), u128::from(stream.rate_bps));
        stream.latency_ns.saturating_add(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_gets_a_quantum_between_two_turns_of_each_other() {
        // 1 MB/s after 1 ms; turns of 1,000 bytes, packets of 100 bytes, and two other flows with
        // packets of 500 bytes.
        let stream = ServiceCurve { rate_bps: 8_000_000, latency_ns: 1_000_000 };
        let flow = FlowTurns {
            quantum_bytes: 1_000,
            largest_bytes: 100,
            head_bytes: 500,
            others_bytes: 2_000,
            last_bytes: 1_000,
        };
        let service = flow.service(stream).unwrap();
        // A fifth, after 1,500 + 4,000 · 2.1 bytes.
        assert_eq!(service, ServiceCurve { rate_bps: 1_600_000, latency_ns: 10_900_000 });
        // Alone, it waits for the packet that was pulled.
        let alone = FlowTurns { others_bytes: 0, last_bytes: 0, ..flow };
        let alone = alone.service(stream).unwrap();
        assert_eq!(alone, ServiceCurve { rate_bps: 8_000_000, latency_ns: 1_500_000 });
        // 500 + 100 + 2,000 + 1,000 bytes, and 500 + 100 + 6,000 + 2,000.
        let sparse = flow.sparse(stream, 100);
        assert_eq!(sparse, SparseFlow { delay_ns: 4_600_000, apart_ns: 9_600_000 });
        let slow = ServiceCurve { rate_bps: 4, ..stream };
        assert_eq!(flow.service(slow), None);
    }
}
