//! Self-clocked fair queueing: virtual time is a tag of the packet in service.
//!
//! ```text
//! S = max(F of the predecessor, v)        F = S + L/φ
//! SCFQ: v = F of the packet in service, least F        SFQ: v = S in service, least S
//! ```
//!
//! v never passes a queued packet's tag, so a queued packet starts where its predecessor ends.
//! Tags are therefore computed at the head, and queues hold none. With closed gates this is SCFQ-CA
//! of the MinBW paper, section IV. Source: Golestani 1994; Goyal, Vin and Cheng 1996.

use core::marker::PhantomData;

use super::{Activation, ByRank, Discipline, Head, Rank};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, fair, strict};
use crate::catalogue::{DisciplineRow, NEAR};
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;
use crate::structure::Cyclic;
use crate::virtual_time::{Clock, Kept, NearTag, PerByte, Tag};

/// The catalogue row of scfq.
pub(crate) const SCFQ: DisciplineRow = DisciplineRow {
    name: "scfq",
    summary: "self-clocked fair queueing: by finish tag",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(SCFQ_RATE),
    fairness: Some(Fairness::SelfClocked),
    structures: NEAR,
    build: |options, structure, form| {
        structure.join_near(form, options, Scfq::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The catalogue row of sfq.
pub(crate) const SFQ: DisciplineRow = DisciplineRow {
    name: "sfq",
    summary: "start-time fair queueing: by start tag",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(SFQ_RATE),
    fairness: Some(Fairness::SelfClocked),
    structures: NEAR,
    build: |options, structure, form| {
        structure.join_near(form, options, Sfq::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The guarantee of SCFQ.
pub(crate) const SCFQ_RATE: RateGuarantee = RateGuarantee {
    theorem: "SCFQ (Golestani 1995)",
    others_ungated: false,
    clocked: false,
    latency_rate: |bounds, stream| fair::self_clocked(bounds, stream, false),
    lead: Lead::None,
    strict: None,
};

/// The guarantee of SFQ.
pub(crate) const SFQ_RATE: RateGuarantee = RateGuarantee {
    theorem: "SFQ (Goyal, Vin and Cheng 1996)",
    others_ungated: true,
    clocked: false,
    latency_rate: |bounds, stream| fair::self_clocked(bounds, stream, true),
    lead: Lead::Packet,
    strict: Some(strict::start_time),
};

/// The tag that is both the clock and the order.
pub trait Tagged: Copy {
    /// Returns the packet's start or finish tag.
    fn tag(start: Tag, finish: Tag) -> Tag;
}

/// Orders packets by finish tags: SCFQ.
#[derive(Clone, Copy, Debug)]
pub enum ByFinish {}

/// Orders packets by start tags: SFQ.
#[derive(Clone, Copy, Debug)]
pub enum ByStart {}

impl Tagged for ByFinish {
    #[inline]
    fn tag(_: Tag, finish: Tag) -> Tag {
        finish
    }
}

impl Tagged for ByStart {
    #[inline]
    fn tag(start: Tag, _: Tag) -> Tag {
        start
    }
}

/// Self-clocked fair queueing by the tags `T`.
#[derive(Clone, Debug)]
pub struct SelfClocked<T> {
    clock: Clock,
    link: Link,
    tags: PhantomData<T>,
}

/// Self-clocked fair queueing (Golestani).
pub type Scfq = SelfClocked<ByFinish>;

/// Start-time fair queueing.
pub type Sfq = SelfClocked<ByStart>;

/// A tag near the tags of all other heads: the distance is at most L/φ of the longest packet at the
/// least weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearRank(NearTag);

impl NearRank {
    #[inline]
    pub(super) fn new(tag: Tag) -> Self {
        Self(tag.near())
    }
}

impl Rank for NearRank {}

impl Cyclic for NearRank {
    #[inline]
    fn bits(self) -> u64 {
        self.0.bits()
    }
}

/// A stream's state under [`Scfq`] and [`Sfq`].
#[derive(Clone, Copy, Debug)]
pub struct SelfClockedState {
    per_byte: PerByte,
    /// S of the head.
    start: Tag,
    /// F of the head, or of its predecessor while the head is inactive.
    finish: Kept,
}

impl<T> SelfClocked<T> {
    /// Returns self-clocked fair queueing on `link`. Virtual time starts at `origin`, which does
    /// not affect the schedule.
    #[must_use]
    pub fn new(link: Link, origin: u128) -> Self {
        let clock = Clock::starting_at(Tag::from_bits(origin));
        Self { clock, link, tags: PhantomData }
    }
}

impl<T: Tagged> Discipline for SelfClocked<T> {
    type State = SelfClockedState;
    type Rank = NearRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<SelfClockedState, ContractError> {
        let past = self.clock.past();
        let per_byte = PerByte::of_weight(contract.weight);
        Ok(SelfClockedState { per_byte, start: past.tag(), finish: past })
    }

    #[inline]
    fn rank(&self, state: &SelfClockedState, _: Head) -> NearRank {
        NearRank::new(T::tag(state.start, state.finish.tag()))
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut SelfClockedState,
        _: StreamId,
        head: Head,
        (): (),
        _: Activation,
    ) {
        state.start = self.clock.later(state.finish, self.clock.now());
        let length = state.per_byte.times(self.link.wire_bytes(head.bytes));
        state.finish = self.clock.keep(state.start.plus(length));
    }

    #[inline]
    fn resized(&mut self, state: &mut SelfClockedState, estimate: u32, bytes: u32) {
        let extra_bytes = self.link.extra_wire_bytes(estimate, bytes);
        state.finish = state.finish.shifted(state.per_byte.times_signed(extra_bytes));
    }

    #[inline]
    fn served(&mut self, state: &mut SelfClockedState, _: StreamId, _: Head, _: u64) -> bool {
        self.clock.reach(T::tag(state.start, state.finish.tag()));
        false
    }

    #[inline]
    fn idle(&mut self) {
        self.clock.forget();
    }
}
