//! Virtual clock: each stream's clock advances with its packets and is never behind real time.
//!
//! ```text
//! F = max(arrival, F of the predecessor) + L/ρ        ρ = r·φ/Σφ      least F
//! ```
//!
//! Tags are in virtual time that advances at r/Σφ, so that L/ρ becomes L/φ. A stream that used more
//! than its share is ahead of real time and waits when other streams return. So virtual clock
//! guarantees rates but is not fair. Source: Zhang 1990.

use super::wfq::FinishRank;
use super::{Activation, ByRank, Discipline, Head, Stamp};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, fair};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;
use crate::virtual_time::{Clock, Kept, PerByte, PerNanosecond, Tag};

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "virtual-clock",
    summary: "virtual clock: by reserved rate in real time",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(RATE),
    fairness: Some(Fairness::Unbounded(
        "unbounded: grows with a stream's service while others are idle",
    )),
    build: |options, structure, form| {
        structure.join(form, options, VirtualClock::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The guarantee of a rate.
pub(crate) const RATE: RateGuarantee = RateGuarantee {
    theorem: "virtual clock (Figueira and Pasquale 1995)",
    others_ungated: false,
    clocked: true,
    latency_rate: |bounds, stream| fair::clocked(bounds, stream, false),
    lead: Lead::Unbounded,
    strict: None,
};

/// Virtual clock.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    clock: Clock,
    clock_ns: u64,
    rate: PerNanosecond,
    weight: u64,
    link: Link,
}

/// A stream's state under [`VirtualClock`].
#[derive(Clone, Copy, Debug)]
pub struct VirtualClockState {
    per_byte: PerByte,
    /// F of the head, or of its predecessor while the head is inactive.
    finish: Kept,
}

/// A packet's arrival in virtual time; `None` for a class, which has no packets of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalTag(Option<Tag>);

impl Stamp for ArrivalTag {
    #[inline]
    fn pack(self) -> Option<Tag> {
        self.0
    }

    #[inline]
    fn unpack(packed: Option<Tag>) -> Self {
        Self(packed)
    }
}

impl VirtualClock {
    /// Returns virtual clock on `link`. Virtual time starts at `origin`, which does not affect the
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
}

impl Discipline for VirtualClock {
    type State = VirtualClockState;
    type Rank = FinishRank;
    type Stamp = ArrivalTag;
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<VirtualClockState, ContractError> {
        self.weight += u64::from(contract.weight);
        self.rate = PerNanosecond::of_link(self.link.rate_bps, self.weight);
        let per_byte = PerByte::of_weight(contract.weight);
        Ok(VirtualClockState { per_byte, finish: self.clock.past() })
    }

    #[inline]
    fn rank(&self, state: &VirtualClockState, _: Head) -> FinishRank {
        FinishRank::new(state.finish.tag())
    }

    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        let elapsed_ns = clock_ns.saturating_sub(self.clock_ns);
        self.clock.advance(self.rate.times(elapsed_ns));
        self.clock_ns += elapsed_ns;
    }

    #[inline]
    fn arrived(&mut self, _: &mut VirtualClockState, _: StreamId, _: u32, _: bool) -> ArrivalTag {
        ArrivalTag(Some(self.clock.now()))
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut VirtualClockState,
        _: StreamId,
        head: Head,
        stamp: ArrivalTag,
        how: Activation,
    ) {
        let start = match (how, stamp.0) {
            (Activation::Opened { .. }, _) => self.clock.later(state.finish, self.clock.now()),
            (_, Some(arrival)) => self.clock.later(state.finish, arrival),
            (_, None) => state.finish.tag(),
        };
        let length = state.per_byte.times(self.link.wire_bytes(head.bytes));
        state.finish = self.clock.keep(start.plus(length));
    }

    #[inline]
    fn resized(&mut self, state: &mut VirtualClockState, estimate: u32, bytes: u32) {
        let extra_bytes = self.link.extra_wire_bytes(estimate, bytes);
        state.finish = state.finish.shifted(state.per_byte.times_signed(extra_bytes));
    }
}
