//! Weighted fair queueing and its worst-case fair form: packets in the order of their finish times
//! in the fluid.
//!
//! ```text
//! S = max(F of the predecessor, V at arrival)        F = S + L/φ      V: the fluid's clock
//! WFQ:   least F                  WF²Q:  least F among heads with S ≤ V
//! ```
//!
//! Source: Demers, Keshav and Shenker 1989; Bennett and Zhang 1996. With closed gates this is
//! WFQ-CA of the MinBW paper, section IV: packets behind a closed gate have no stamps and no work
//! in the fluid. When the gate opens, the whole queue is restamped, from the head.
//!
//! A packet's stamp is V at its arrival. The stamps of a restamped queue are not after its head's
//! start, so its packets follow their head without gaps.

use super::gps::Gps;
use super::{Activation, ByVirtualStart, Discipline, Head, Rank, Stamp, VirtualStart};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, fair};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;
use crate::virtual_time::{Kept, PerByte, Tag};

/// The catalogue row of wfq.
pub(crate) const WFQ: DisciplineRow = DisciplineRow {
    name: "wfq",
    summary: "weighted fair queueing: by finish time in the fluid model",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(WFQ_RATE),
    fairness: Some(Fairness::Fluid),
    build: |options, structure, form| {
        structure.join(form, options, Wfq::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The catalogue row of wf2q.
pub(crate) const WF2Q: DisciplineRow = DisciplineRow {
    name: "wf2q",
    summary: "worst-case fair WFQ: only packets that have started in the fluid model",
    uses: &["weight"],
    share: Share::Weight,
    guarantee: Guarantee::Rate(WF2Q_RATE),
    fairness: Some(Fairness::WorstCaseFair),
    build: |options, structure, form| {
        structure.join(form, options, Wf2q::new(options.link, options.virtual_origin))
    },
    ..DisciplineRow::DEFAULT
};

/// The guarantee of WFQ.
pub(crate) const WFQ_RATE: RateGuarantee = RateGuarantee {
    theorem: "WFQ (Parekh and Gallager 1993)",
    others_ungated: true,
    clocked: true,
    latency_rate: |bounds, stream| fair::clocked(bounds, stream, false),
    lead: Lead::Unbounded,
    strict: None,
};

/// The guarantee of WF²Q.
pub(crate) const WF2Q_RATE: RateGuarantee = RateGuarantee {
    theorem: "WF²Q (Bennett and Zhang 1996)",
    others_ungated: true,
    clocked: true,
    latency_rate: |bounds, stream| fair::clocked(bounds, stream, false),
    lead: Lead::Packet,
    strict: None,
};

/// Fair queueing by the fluid's clock. If `REGULATED`, heads wait for their start in the fluid.
#[derive(Clone, Debug)]
pub struct FluidFair<const REGULATED: bool> {
    gps: Gps,
    link: Link,
}

/// Weighted fair queueing.
pub type Wfq = FluidFair<false>;

/// Worst-case fair weighted fair queueing.
pub type Wf2q = FluidFair<true>;

/// A stream's state under [`Wfq`] and [`Wf2q`].
#[derive(Clone, Copy, Debug)]
pub struct FluidFairState {
    per_byte: PerByte,
    /// S of the head.
    start: Tag,
    /// F of the head, or of its predecessor while the head is inactive.
    finish: Kept,
    /// F of the last packet in the queue.
    last: Kept,
}

/// The finish tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FinishRank(Tag);

impl FinishRank {
    #[inline]
    pub(super) fn new(finish: Tag) -> Self {
        Self(finish.rounded())
    }
}

impl Rank for FinishRank {}

/// V at a packet's arrival; `None` if its gate was closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalStamp(Option<Tag>);

impl Stamp for ArrivalStamp {
    #[inline]
    fn pack(self) -> Option<Tag> {
        self.0
    }

    #[inline]
    fn unpack(packed: Option<Tag>) -> Self {
        Self(packed)
    }
}

impl<const REGULATED: bool> FluidFair<REGULATED> {
    /// Returns fair queueing on `link`. Virtual time starts at `origin`, which does not affect the
    /// schedule.
    #[must_use]
    pub fn new(link: Link, origin: u128) -> Self {
        Self { gps: Gps::new(link.rate_bps, Tag::from_bits(origin)), link }
    }
}

impl<const REGULATED: bool> Discipline for FluidFair<REGULATED> {
    type State = FluidFairState;
    type Rank = FinishRank;
    type Stamp = ArrivalStamp;
    type Selection = ByVirtualStart;

    fn reserve(&mut self) {
        self.gps.reserve();
    }

    fn admit(&mut self, contract: &Contract) -> Result<FluidFairState, ContractError> {
        self.gps.add_stream(contract.weight);
        let past = self.gps.clock().past();
        Ok(FluidFairState {
            per_byte: PerByte::of_weight(contract.weight),
            start: past.tag(),
            finish: past,
            last: past,
        })
    }

    #[inline]
    fn rank(&self, state: &FluidFairState, _: Head) -> FinishRank {
        FinishRank::new(state.finish.tag())
    }

    #[inline]
    fn advance(&mut self, clock_ns: u64) {
        self.gps.advance(clock_ns);
    }

    #[inline]
    fn arrived(
        &mut self,
        state: &mut FluidFairState,
        stream: StreamId,
        bytes: u32,
        active: bool,
    ) -> ArrivalStamp {
        if !active {
            return ArrivalStamp(None);
        }
        let clock = self.gps.clock();
        let start = clock.later(state.last, clock.now());
        let length = state.per_byte.times(self.link.wire_bytes(bytes));
        state.last = clock.keep(start.plus(length));
        let now = clock.now();
        self.gps.join(stream, state.last);
        ArrivalStamp(Some(now))
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut FluidFairState,
        stream: StreamId,
        head: Head,
        stamp: ArrivalStamp,
        how: Activation,
    ) {
        let clock = self.gps.clock();
        state.start = match (how, stamp.0) {
            (Activation::Opened { .. }, _) => clock.later(state.finish, clock.now()),
            (_, Some(arrival)) => clock.later(state.finish, arrival),
            _ => state.finish.tag(),
        };
        let length = state.per_byte.times(self.link.wire_bytes(head.bytes));
        state.finish = clock.keep(state.start.plus(length));
        if let Activation::Opened { waiting } = how {
            let all = state.per_byte.times(self.link.backlog_bytes(waiting));
            state.last = clock.keep(state.start.plus(all));
            self.gps.join(stream, state.last);
        }
    }

    #[inline]
    fn resized(&mut self, state: &mut FluidFairState, estimate: u32, bytes: u32) {
        let extra_bytes = self.link.extra_wire_bytes(estimate, bytes);
        state.finish = state.finish.shifted(state.per_byte.times_signed(extra_bytes));
    }

    #[inline]
    fn deactivated(&mut self, state: &mut FluidFairState, stream: StreamId, backlogged: bool) {
        if backlogged {
            state.last = state.finish;
            self.gps.leave(stream);
        }
    }
}

impl<const REGULATED: bool> VirtualStart for FluidFair<REGULATED> {
    const REGULATED: bool = REGULATED;

    #[inline]
    fn virtual_start(&self, state: &FluidFairState) -> Tag {
        state.start
    }

    #[inline]
    fn virtual_time(&self) -> Tag {
        self.gps.clock().now()
    }
}
