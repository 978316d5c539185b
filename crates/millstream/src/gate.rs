//! Gates: whether a stream's head may be chosen, whatever the discipline says.
//!
//! Three things can close a stream's gate: its caller, too few credits for the head, a head that
//! does not conform to the rate cap. The first two open by a call, the last by time. Disciplines
//! only hear that a head became active or is so no more, so every one of them is credit-aware.
//!
//! The rate cap is a token bucket kept as a theoretical arrival time, in ns × bits/s so that
//! nothing is rounded: a head of L bytes conforms from (TAT − b/ρ + L/ρ) on; when it is served,
//! TAT = max(now, TAT) + L/ρ. Source: ITU-T I.371 (GCRA); credits: MinBW paper, section II.

use alloc::vec::Vec;

use crate::contract::{Contract, MaxRate};
use crate::discipline::Head;
use crate::link::Link;
use crate::packet::StreamId;
use crate::structure::IndexedHeap;

/// The unit of flow control, bytes: a packet takes as many credits as it fills begun units.
pub const CREDIT_BYTES: u32 = 64;

/// ns in a second × bits in a byte.
const SCALE: u128 = 8_000_000_000;

/// A rate cap at work.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    max_rate: MaxRate,
    /// The theoretical arrival time, in ns × bits/s.
    arrival: u128,
}

impl Bucket {
    /// From when on a packet of `wire_bytes` conforms, ns.
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

/// What may close one stream's gate.
#[derive(Clone, Copy, Debug)]
struct Gate {
    opened_by_caller: bool,
    credits: Option<u64>,
    bucket: Option<Bucket>,
}

/// Whether a gate is open for a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateState {
    /// Now.
    Open,
    /// From this time on, ns.
    OpensAt(u64),
    /// Not without a call.
    Closed,
}

/// The gates of all streams; those without limits cost nothing.
#[derive(Clone, Debug)]
pub(crate) struct EligibilityGates {
    link: Link,
    /// By stream; shorter than their number if the last have no limits.
    gates: Vec<Gate>,
    /// Streams whose gate opens by time, by that time.
    opening: IndexedHeap<u64>,
}

impl EligibilityGates {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, gates: Vec::new(), opening: IndexedHeap::default() }
    }

    /// One more stream.
    pub(crate) fn add_stream(&mut self, stream: StreamId, contract: &Contract) {
        if contract.credits.is_some() || contract.max_rate.is_some() {
            let gate = self.limited(stream);
            gate.credits = contract.credits;
            gate.bucket = contract.max_rate.map(|max_rate| Bucket { max_rate, arrival: 0 });
        }
    }

    /// Whether any was ever limited.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.gates.is_empty()
    }

    /// Whether the gate of `stream` may close when its packets are served.
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

    /// Whether `head` may pass, which is remembered if it may by and by.
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

    /// `head` is served.
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

    /// The last packet of a stream was dropped: its gate opens for nobody.
    pub(crate) fn cancel_opening(&mut self, stream: StreamId) {
        self.opening.remove(stream.0);
    }

    pub(crate) fn set_by_caller(&mut self, stream: StreamId, open: bool) {
        self.limited(stream).opened_by_caller = open;
    }

    /// Gives credits to a stream that has flow control; others have no use for them.
    pub(crate) fn add_credits(&mut self, stream: StreamId, added: u64) {
        if let Some(Gate { credits: Some(credits), .. }) = self.gates.get_mut(stream.index()) {
            *credits = credits.saturating_add(added);
        }
    }

    /// When the next gate opens by time.
    #[inline]
    pub(crate) fn next_opening_ns(&self) -> Option<u64> {
        self.opening.first().map(|(from_ns, _)| from_ns)
    }

    /// The next gate that opens by time, by `now_ns`: when, and whose. It is told once.
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
    fn credits_are_spent_by_begun_units() {
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
    fn a_bucket_lets_its_burst_through_and_then_its_rate() {
        let rate_bps = NonZeroU64::new(8_000_000).unwrap();
        let mut gates = gates(&Contract::new().max_rate(MaxRate { rate_bps, burst_bytes: 1500 }));
        assert!(gates.admits(A, head(1500), 0));
        gates.spend(A, 1500, 0);
        // 1 byte a microsecond: 500 bytes fit again after 500 us.
        assert!(!gates.admits(A, head(500), 499_999));
        assert_eq!(gates.next_opening_ns(), Some(500_000));
        assert!(gates.admits(A, head(500), 500_000));
        assert_eq!(gates.next_opening_ns(), None);
        gates.spend(A, 500, 500_000);
        assert!(!gates.admits(A, head(1500), 1_999_999) && gates.admits(A, head(1500), 2_000_000));
    }
}
