//! Eligibility gates: whether a stream's head may be served, independent of the discipline.
//!
//! Three conditions close a stream's gate: the caller closed it, the head needs more credits than
//! the stream has, or the head does not conform to the rate cap. A call ends the first two, and
//! time ends the last. Disciplines see only whether a head is active, so all of them are
//! credit-aware.
//!
//! The rate cap is a token bucket kept as a theoretical arrival time (TAT), in ns × bits/s to avoid
//! rounding. A head of L bytes conforms from TAT − b/ρ + L/ρ on. Its service sets TAT = max(now,
//! TAT) + L/ρ. Source: ITU-T I.371 (GCRA); credits: MinBW paper, section II.

use alloc::vec::Vec;

use crate::contract::{Contract, MaxRate};
use crate::discipline::Head;
use crate::link::Link;
use crate::packet::StreamId;
use crate::structure::IndexedHeap;

/// The unit of flow control, bytes: a packet takes one credit for every begun unit.
pub const CREDIT_BYTES: u32 = 64;

/// ns in a second × bits in a byte.
const SCALE: u128 = 8_000_000_000;

/// The state of a rate cap.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    max_rate: MaxRate,
    /// The theoretical arrival time, in ns × bits/s.
    arrival: u128,
}

impl Bucket {
    /// Returns the time, ns, from which a packet of `wire_bytes` conforms.
    fn conforms_ns(&self, wire_bytes: u64) -> u64 {
        let length = u128::from(wire_bytes) * SCALE;
        let burst = u128::from(self.max_rate.burst_bytes) * SCALE;
        let from = self.arrival.saturating_add(length).saturating_sub(burst);
        u64::try_from(from.div_ceil(u128::from(self.max_rate.rate_bps.get()))).unwrap_or(u64::MAX)
    }

    fn spend(&mut self, now_ns: u64, wire_bytes: u64) {
        let now = u128::from(now_ns) * u128::from(self.max_rate.rate_bps.get());
        self.arrival = self.arrival.max(now).saturating_add(u128::from(wire_bytes) * SCALE);
    }
}

/// The conditions that can close one stream's gate.
#[derive(Clone, Copy, Debug)]
struct Gate {
    opened_by_caller: bool,
    credits: Option<u64>,
    bucket: Option<Bucket>,
}

/// The state of a gate for a given head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateState {
    /// The head may be served.
    Open,
    /// The head may be served from this time, ns.
    OpensAt(u64),
    /// The head may be served only after a call.
    Closed,
}

/// The gates of all streams. A stream without limits has none.
#[derive(Clone, Debug)]
pub(crate) struct EligibilityGates {
    link: Link,
    /// Each stream's gate, up to the last stream with limits.
    gates: Vec<Gate>,
    /// Backlogged streams whose gate opens by time, by that time.
    opening: IndexedHeap<u64>,
}

impl EligibilityGates {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, gates: Vec::new(), opening: IndexedHeap::default() }
    }

    /// Allocates memory for `streams` streams.
    pub(crate) fn reserve(&mut self, streams: usize) {
        self.gates.reserve(streams.saturating_sub(self.gates.len()));
        self.opening.reserve(streams);
    }

    /// Adds a stream.
    pub(crate) fn add_stream(&mut self, stream: StreamId, contract: &Contract) {
        if contract.credits.is_some() || contract.max_rate.is_some() {
            let gate = self.limited(stream);
            gate.credits = contract.credits;
            gate.bucket = contract.max_rate.map(|max_rate| Bucket { max_rate, arrival: 0 });
        }
    }

    /// Returns whether any stream has or had limits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.gates.is_empty()
    }

    /// Returns whether the gate of `stream` may close when its packets are served.
    #[inline]
    pub(crate) fn may_close(&self, stream: StreamId) -> bool {
        stream.index() < self.gates.len()
    }

    fn limited(&mut self, stream: StreamId) -> &mut Gate {
        if self.gates.len() <= stream.index() {
            let open = Gate { opened_by_caller: true, credits: None, bucket: None };
            self.gates.resize(stream.index() + 1, open);
        }
        &mut self.gates[stream.index()]
    }

    /// Returns whether `head` may be served; schedules the opening of the gate if time will open
    /// it.
    #[inline(always)]
    pub(crate) fn admits(&mut self, stream: StreamId, head: Head, now_ns: u64) -> bool {
        stream.index() >= self.gates.len() || self.admits_limited(stream, head, now_ns)
    }

    fn admits_limited(&mut self, stream: StreamId, head: Head, now_ns: u64) -> bool {
        let gate = &self.gates[stream.index()];
        match gate.state(head, now_ns, self.link) {
            GateState::Open => {
                self.opening.remove(stream.0);
                true
            }
            GateState::OpensAt(from_ns) => {
                self.opening.insert(stream.0, from_ns);
                false
            }
            GateState::Closed => {
                self.opening.remove(stream.0);
                false
            }
        }
    }

    /// Charges a served packet to the stream's credits and rate cap.
    #[inline(always)]
    pub(crate) fn spend(&mut self, stream: StreamId, bytes: u32, now_ns: u64) {
        if stream.index() < self.gates.len() {
            self.spend_limited(stream, bytes, now_ns);
        }
    }

    fn spend_limited(&mut self, stream: StreamId, bytes: u32, now_ns: u64) {
        let gate = &mut self.gates[stream.index()];
        if let Some(credits) = &mut gate.credits {
            *credits = credits.saturating_sub(u64::from(bytes.div_ceil(CREDIT_BYTES)));
        }
        if let Some(bucket) = &mut gate.bucket {
            bucket.spend(now_ns, self.link.wire_bytes(bytes));
        }
        self.opening.remove(stream.0);
    }

    /// Cancels the scheduled opening of a stream whose last packet was dropped.
    pub(crate) fn cancel_opening(&mut self, stream: StreamId) {
        self.opening.remove(stream.0);
    }

    /// Opens or closes the gate of `stream` on behalf of the caller.
    pub(crate) fn set_by_caller(&mut self, stream: StreamId, open: bool) {
        self.limited(stream).opened_by_caller = open;
    }

    /// Adds credits to a stream with flow control; no effect on other streams.
    pub(crate) fn add_credits(&mut self, stream: StreamId, added: u64) {
        if let Some(Gate { credits: Some(credits), .. }) = self.gates.get_mut(stream.index()) {
            *credits = credits.saturating_add(added);
        }
    }

    /// Returns the time at which the next gate opens, ns.
    #[inline]
    pub(crate) fn next_opening_ns(&self) -> Option<u64> {
        self.opening.first().map(|(from_ns, _)| from_ns)
    }

    /// Removes and returns the next scheduled opening at or before `now_ns`: its time and stream.
    #[inline]
    pub(crate) fn pop_opening(&mut self, now_ns: u64) -> Option<(u64, StreamId)> {
        let (from_ns, stream) = self.opening.first().filter(|(from_ns, _)| *from_ns <= now_ns)?;
        self.opening.remove(stream);
        Some((from_ns, StreamId(stream)))
    }
}

impl Gate {
    #[inline]
    fn state(&self, head: Head, now_ns: u64, link: Link) -> GateState {
        let needed = u64::from(head.bytes.div_ceil(CREDIT_BYTES));
        if !self.opened_by_caller || self.credits.is_some_and(|credits| credits < needed) {
            return GateState::Closed;
        }
        let conforms = |bucket: &Bucket| bucket.conforms_ns(link.wire_bytes(head.bytes));
        match self.bucket.as_ref().map_or(0, conforms) {
            from_ns if from_ns <= now_ns => GateState::Open,
            from_ns => GateState::OpensAt(from_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;

    const A: StreamId = StreamId(0);

    fn head(bytes: u32) -> Head {
        Head { arrival_ns: 0, bytes }
    }

    fn gates(contract: &Contract) -> EligibilityGates {
        let mut gates = EligibilityGates::new(Link::default());
        gates.add_stream(A, contract);
        gates
    }

    #[test]
    fn a_packet_takes_a_credit_for_every_begun_unit() {
        let mut gates = gates(&Contract::new().credits(3));
        assert!(gates.admits(A, head(192), 0) && !gates.admits(A, head(193), 0));
        gates.spend(A, 65, 0);
        assert!(gates.admits(A, head(64), 0) && !gates.admits(A, head(65), 0));
        assert!(gates.admits(A, head(0), 0), "an empty packet takes no buffer");
        gates.add_credits(A, 1);
        assert!(gates.admits(A, head(65), 0));
        gates.set_by_caller(A, false);
        assert!(!gates.admits(A, head(0), 0));
    }

    #[test]
    fn a_bucket_passes_its_burst_and_then_its_rate() {
        let rate_bps = NonZeroU64::new(8_000_000).unwrap();
        let mut gates = gates(&Contract::new().max_rate(MaxRate { rate_bps, burst_bytes: 1500 }));
        assert!(gates.admits(A, head(1500), 0));
        gates.spend(A, 1500, 0);
        // 1 byte per microsecond: 500 bytes conform again after 500 µs.
        assert!(!gates.admits(A, head(500), 499_999));
        assert_eq!(gates.next_opening_ns(), Some(500_000));
        assert!(gates.admits(A, head(500), 500_000));
        assert_eq!(gates.next_opening_ns(), None);
        gates.spend(A, 500, 500_000);
        assert!(!gates.admits(A, head(1500), 1_999_999) && gates.admits(A, head(1500), 2_000_000));
    }

    #[test]
    fn a_cancelled_opening_is_not_scheduled() {
        let rate_bps = NonZeroU64::new(8_000_000).unwrap();
        let mut gates = gates(&Contract::new().max_rate(MaxRate { rate_bps, burst_bytes: 0 }));
        assert!(!gates.admits(A, head(1), 0));
        assert_eq!(gates.next_opening_ns(), Some(1_000));
        gates.cancel_opening(A);
        assert_eq!((gates.next_opening_ns(), gates.pop_opening(1_000)), (None, None));
    }
}
