//! WF²Q+: worst-case fair queueing with a clock that takes one comparison.
//!
//! ```text
//! V(t + τ) = max(V(t) + τ·r/Σφ, least S of the heads)      Σφ: all streams, idle ones too
//! S = F of the predecessor, if the packet was queued behind it;  else max(that F, V)
//! F = S + L/φ        least F among heads with S ≤ V
//! ```
//!
//! If the cost of a service is known only afterwards, such as CPU cycles, a head's tags are
//! estimates. [`charge`](Discipline::charge) corrects the start of the next one. Source: Bennett
//! and Zhang 1997; Router paper, section 3.2.

use super::self_clocked::NearRank;
use super::{Activation, ByVirtualStart, Discipline, Head, VirtualStart};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, fair, strict};
use crate::catalogue::{DisciplineRow, NEAR};
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;
use crate::virtual_time::{Clock, Halves, Kept, PerByte, PerNanosecond, Tag};

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "wf2q+",
    summary: "worst-case fair queueing with a simple clock",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(RATE),
    fairness: Some(Fairness::WorstCaseFair),
    structures: NEAR,
    build: |options, structure, form| {
        structure.join_near(form, options, Wf2qPlus::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The guarantee of a rate.
pub(crate) const RATE: RateGuarantee = RateGuarantee {
    theorem: "WF²Q+ (Bennett and Zhang 1997)",
    others_ungated: false,
    clocked: true,
    latency_rate: |bounds, stream| fair::clocked(bounds, stream, true),
    lead: Lead::Packet,
    strict: Some(strict::wf2q_plus),
};

/// WF²Q+.
#[derive(Clone, Debug)]
pub struct Wf2qPlus {
    clock: Clock,
    clock_ns: u64,
    rate: PerNanosecond,
    weight: u64,
    link: Link,
}

/// A stream's state under [`Wf2qPlus`].
#[derive(Clone, Copy, Debug)]
pub struct Wf2qPlusState {
    per_byte: PerByte,
    /// F of the packet served last.
    before: Kept,
    /// V when the packet became head-of-line, unless it was queued behind another packet.
    floor: Option<Halves>,
    /// S of the head.
    start: Tag,
    /// F of the head.
    finish: Tag,
}

impl Wf2qPlus {
    /// Returns WF²Q+ on `link`. Virtual time starts at `origin`, which does not affect the
    /// schedule.
    #[must_use]
    pub fn new(link: Link, origin: u128) -> Self {
        Self {
            clock: Clock::starting_at(Tag::from_bits(origin)),
            clock_ns: 0,
            rate: PerNanosecond::of_link(link.rate_bps, 0),
            weight: 0,
            link,
        }
    }

    #[inline]
    fn stamp(&self, state: &mut Wf2qPlusState, head: Head) {
        state.start = match state.floor {
            Some(floor) => self.clock.later(state.before, floor.into()),
            None => state.before.tag(),
        };
        let length = state.per_byte.times(self.link.wire_bytes(head.bytes));
        state.finish = state.start.plus(length);
    }
}

impl Discipline for Wf2qPlus {
    type State = Wf2qPlusState;
    type Rank = NearRank;
    type Stamp = ();
    type Selection = ByVirtualStart;

    fn admit(&mut self, contract: &Contract) -> Result<Wf2qPlusState, ContractError> {
        self.weight += u64::from(contract.weight);
        self.rate = PerNanosecond::of_link(self.link.rate_bps, self.weight);
        let past = self.clock.past();
        Ok(Wf2qPlusState {
            per_byte: PerByte::of_weight(contract.weight),
            before: past,
            floor: None,
            start: past.tag(),
            finish: past.tag(),
        })
    }

    #[inline]
    fn rank(&self, state: &Wf2qPlusState, _: Head) -> NearRank {
        NearRank::new(state.finish)
    }

    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        if clock_ns > self.clock_ns {
            self.clock.advance(self.rate.times(clock_ns - self.clock_ns));
            self.clock_ns = clock_ns;
        }
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut Wf2qPlusState,
        _: StreamId,
        head: Head,
        (): (),
        how: Activation,
    ) {
        state.floor = (how != Activation::Next).then(|| self.clock.now().into());
        self.stamp(state, head);
    }

    #[inline]
    fn resized(&mut self, state: &mut Wf2qPlusState, estimate: u32, bytes: u32) {
        let extra_bytes = self.link.extra_wire_bytes(estimate, bytes);
        state.finish = state.finish.shifted(state.per_byte.times_signed(extra_bytes));
    }

    #[inline]
    fn served(&mut self, state: &mut Wf2qPlusState, _: StreamId, _: Head, _: u64) -> bool {
        state.before = self.clock.keep(state.finish);
        false
    }

    #[inline]
    fn idle(&mut self) {
        self.clock.forget();
    }

    fn charge(&mut self, state: &mut Wf2qPlusState, head: Option<Head>, extra_bytes: i64) -> bool {
        state.before = state.before.shifted(state.per_byte.times_signed(extra_bytes));
        if let Some(head) = head {
            self.stamp(state, head);
        }
        true
    }
}

impl VirtualStart for Wf2qPlus {
    #[inline]
    fn virtual_start(&self, state: &Wf2qPlusState) -> Tag {
        state.start
    }

    #[inline]
    fn virtual_time(&self) -> Tag {
        self.clock.now()
    }

    #[inline]
    fn leap(&mut self, start: Tag) {
        self.clock.reach(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use crate::scheduler::Scheduler;
    use crate::structure::Heap;
    use alloc::vec::Vec;

    /// Returns the streams that a link of `rate_bps` serves with one decision per millisecond.
    fn served_late(rate_bps: u64) -> Vec<u32> {
        let link = Link::new(rate_bps, 0);
        let mut scheduler = Scheduler::new(Wf2qPlus::new(link, 0), Heap::default());
        for weight in [1, 2, 5] {
            let contract = Contract::new().weight(weight).unwrap();
            let stream = scheduler.add_stream(contract).unwrap();
            for at in 0..5_000 {
                scheduler.enqueue(0, stream, Packet::new(100 + weight * at % 701)).unwrap();
            }
        }
        let decide = |at: u64| scheduler.decide(at * 1_000_000, &mut ()).unwrap().stream.0;
        (1..=5_000).map(decide).collect()
    }

    /// Virtual time is ahead of every start: by 10 MB per unit of weight, and by 11 TB.
    #[test]
    fn the_order_on_a_slower_link_does_not_depend_on_its_rate() {
        assert_eq!(served_late(128_000_000), served_late(1 << 47));
    }
}
