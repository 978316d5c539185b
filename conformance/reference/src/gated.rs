//! Credits, token buckets and a management channel around disciplines without them.
//!
//! A stream with a closed gate is not eligible; its deadlines pass and are charged while a packet
//! waits. The FMC stream has priority while it is eligible, and is not part of the discipline. At
//! one instant the order is: end of transmission, credit returns, arrivals, decision. A decision is
//! made at every instant with an event at which the link is free.

use crate::fair::gate::Gate;
use crate::fair::rule::Packet;
use crate::fair::{CreditReturn, StreamSpec};
use crate::overhead::Overhead;
use crate::{Arrival, Outcome};

/// The limits of streams (credits, shaper and `fmc` of [`StreamSpec`]) and the returns of credits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gating {
    /// The streams in file order; empty if none has limits.
    pub streams: Vec<StreamSpec>,
    /// The returns of credits, in time order.
    pub returns: Vec<CreditReturn>,
}

/// The state of all gates.
pub(crate) struct Gates {
    gates: Vec<(Gate, bool)>,
    overhead: Overhead,
}

impl Gates {
    pub(crate) fn new(gating: &Gating, overhead: Overhead) -> Self {
        let gates = gating.streams.iter().map(|stream| (Gate::new(stream), stream.fmc)).collect();
        Self { gates, overhead }
    }

    fn packet(&self, bytes: u32) -> Packet {
        let length = self.overhead.length(bytes);
        Packet { number: 0, bytes, length, arrival_ns: 0, arrival_clock_ns: 0 }
    }

    /// Returns whether a head of `bytes` bytes is eligible.
    pub(crate) fn open(&self, stream: usize, bytes: u32, now_ns: u64) -> bool {
        self.gates.get(stream).is_none_or(|(gate, _)| gate.open(&self.packet(bytes), now_ns))
    }

    /// Returns the time at which a head that has its credits conforms to the bucket.
    fn release_ns(&self, stream: usize, bytes: u32) -> Option<u64> {
        let head = self.packet(bytes);
        let (gate, _) = self.gates.get(stream)?;
        gate.release_ns(&head).filter(|_| gate.has_credits(&head))
    }

    pub(crate) fn is_fmc(&self, stream: usize) -> bool {
        self.gates.get(stream).is_some_and(|(_, fmc)| *fmc)
    }

    /// Charges a packet that is put in service.
    pub(crate) fn charge(&mut self, stream: usize, bytes: u32, now_ns: u64) {
        let packet = self.packet(bytes);
        if let Some((gate, _)) = self.gates.get_mut(stream) {
            gate.charge(&packet, now_ns);
        }
    }
}

/// A link that a gated run drives.
pub(crate) trait GatedLink {
    fn gates(&mut self) -> &mut Gates;

    /// Returns the heads' lengths, bytes, by stream.
    fn heads(&self) -> Vec<Option<u32>>;

    fn arrive(&mut self, arrival: Arrival);

    /// Charges misses, then serves the first head; returns the end of its transmission.
    fn decide(&mut self, now_ns: u64) -> Option<u64>;

    fn outcome(self) -> Outcome;
}

/// Runs `arrivals` (in time order), until no event is left.
pub(crate) fn run_gated_link(
    mut link: impl GatedLink,
    returns: &[CreditReturn],
    arrivals: &[Arrival],
) -> Outcome {
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.time_ns), "arrivals in time order");
    assert!(returns.is_sorted_by_key(|back| back.time_ns), "returns in time order");
    let mut arrivals = arrivals.iter().copied().peekable();
    let mut returns = returns.iter().copied().peekable();
    let (mut end_ns, mut now_ns) = (None, 0);
    loop {
        let heads = link.heads();
        let releases = (0..heads.len())
            .filter_map(|stream| link.gates().release_ns(stream, heads[stream]?))
            .filter(|release_ns| *release_ns > now_ns)
            .min();
        let events = [
            end_ns,
            returns.peek().map(|back| back.time_ns),
            releases,
            arrivals.peek().map(|arrival| arrival.time_ns),
        ];
        let Some(event_ns) = events.into_iter().flatten().min() else { return link.outcome() };
        now_ns = event_ns;
        end_ns = end_ns.filter(|end_ns| *end_ns > now_ns);
        while let Some(back) = returns.next_if(|back| back.time_ns == now_ns) {
            if let Some((gate, _)) = link.gates().gates.get_mut(back.stream as usize) {
                gate.add_credits(back.credits);
            }
        }
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.time_ns == now_ns) {
            link.arrive(arrival);
        }
        if end_ns.is_none() {
            end_ns = link.decide(now_ns);
        }
        // If a packet takes no time, the next decision is made at this instant.
        while end_ns == Some(now_ns) {
            end_ns = link.decide(now_ns);
        }
    }
}
