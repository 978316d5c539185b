//! Round robin with deficits: DRR and WRR.
//!
//! ```text
//! on a turn:  D += Q;  send while head ≤ D, each D −= L;  then to the tail of the ring, keeping D
//! queue empty, or gate closed: out of the ring;   active again: tail of the ring, D = 0
//! ```
//!
//! DRR counts bytes, WRR packets (every L = 1, Q = weight). A stream's rank is the number of its
//! turn, which is greater than all earlier ones. So any structure can implement the ring, and
//! [`Ring`](crate::Ring) is fastest. A stream whose turn is over moves to the tail at the next
//! decision, behind the streams that became active during its transmission.
//! Source: Shreedhar and Varghese 1995; DRR-CA of the MinBW paper, section IV.

use super::{Activation, ByTurn, Discipline, Head, Rank, TakesTurns, Turn};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, round_robin, strict};
use crate::catalogue::{DisciplineRow, TURNS};
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;

/// The catalogue row of drr.
pub(crate) const DRR: DisciplineRow = DisciplineRow {
    name: "drr",
    summary: "deficit round robin: turns of a quantum of bytes",
    needs: &["quantum"],
    uses: &["weight"],
    share: Share::Quantum,
    guarantee: Guarantee::Rate(DRR_RATE),
    fairness: Some(Fairness::Deficit),
    structures: TURNS,
    build: |options, structure, form| {
        structure.join_turns(form, options, RoundRobin::new(Measure::Bytes(options.link)))
    },
    ..DisciplineRow::DEFAULT
};

/// The catalogue row of wrr.
pub(crate) const WRR: DisciplineRow = DisciplineRow {
    name: "wrr",
    summary: "weighted round robin: turns of a number of packets",
    uses: &["weight"],
    share: Share::Packets,
    guarantee: Guarantee::Rate(WRR_RATE),
    fairness: Some(Fairness::Unbounded("unbounded: shares packets, not bytes")),
    structures: TURNS,
    build: |options, structure, form| {
        structure.join_turns(form, options, RoundRobin::new(Measure::Packets))
    },
    ..DisciplineRow::DEFAULT
};

/// The guarantee of DRR.
pub(crate) const DRR_RATE: RateGuarantee = RateGuarantee {
    theorem: "DRR (Boyer, Stea and Sofack 2012)",
    others_ungated: false,
    clocked: false,
    latency_rate: round_robin::deficit,
    lead: Lead::None,
    strict: Some(strict::deficit),
};

/// The guarantee of WRR.
pub(crate) const WRR_RATE: RateGuarantee = RateGuarantee {
    theorem: "WRR by rounds",
    others_ungated: false,
    clocked: false,
    latency_rate: |bounds, stream| round_robin::by_packets(bounds, stream, false),
    lead: Lead::None,
    strict: None,
};

/// The unit of a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes on the wire: deficit round robin.
    Bytes(Link),
    /// Packets: weighted round robin.
    Packets,
}

/// Round robin with deficits.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    measure: Measure,
    next_turn: u64,
}

/// A stream's state under [`RoundRobin`].
#[derive(Clone, Copy, Debug)]
pub struct RoundRobinState {
    quantum: i64,
    deficit: i64,
    turn: u64,
    /// `true` if the quantum of this turn was added.
    has_quantum: bool,
}

/// The number of the turn, which is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnRank(u64);

impl Rank for TurnRank {}

impl RoundRobin {
    /// Returns round robin by `measure`.
    #[must_use]
    pub fn new(measure: Measure) -> Self {
        Self { measure, next_turn: 0 }
    }

    #[inline]
    fn cost(&self, head: Head) -> i64 {
        match self.measure {
            Measure::Bytes(link) => link.wire_bytes(head.bytes).cast_signed(),
            Measure::Packets => 1,
        }
    }

    #[inline]
    fn join_tail(&mut self, state: &mut RoundRobinState) {
        state.turn = self.next_turn;
        state.has_quantum = false;
        self.next_turn += 1;
    }
}

impl Discipline for RoundRobin {
    type State = RoundRobinState;
    type Rank = TurnRank;
    type Stamp = ();
    type Selection = ByTurn;

    fn admit(&mut self, contract: &Contract) -> Result<RoundRobinState, ContractError> {
        let quantum = match self.measure {
            Measure::Bytes(_) => {
                contract.quantum_bytes.ok_or(ContractError::Missing { attribute: "quantum" })?.get()
            }
            Measure::Packets => contract.weight,
        };
        Ok(RoundRobinState { quantum: i64::from(quantum), deficit: 0, turn: 0, has_quantum: false })
    }

    #[inline]
    fn rank(&self, state: &RoundRobinState, _: Head) -> TurnRank {
        TurnRank(state.turn)
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut RoundRobinState,
        _: StreamId,
        _: Head,
        (): (),
        how: Activation,
    ) {
        if how != Activation::Next {
            state.deficit = 0;
            self.join_tail(state);
        }
    }

    #[inline]
    fn served(&mut self, state: &mut RoundRobinState, _: StreamId, head: Head, _: u64) -> bool {
        state.deficit -= self.cost(head);
        false
    }

    fn charge(&mut self, state: &mut RoundRobinState, _: Option<Head>, extra_bytes: i64) -> bool {
        state.deficit = state.deficit.saturating_sub(extra_bytes);
        matches!(self.measure, Measure::Bytes(_))
    }
}

impl TakesTurns for RoundRobin {
    #[inline]
    fn turn(&mut self, state: &mut RoundRobinState, head: Head) -> Turn {
        if !state.has_quantum {
            state.has_quantum = true;
            state.deficit += state.quantum;
        }
        if self.cost(head) <= state.deficit {
            return Turn::Serve;
        }
        self.join_tail(state);
        Turn::Pass
    }

    fn turns_needed(&self, state: &RoundRobinState, head: Head) -> u64 {
        let lacking = u64::try_from(self.cost(head) - state.deficit).unwrap_or(0);
        lacking.div_ceil(state.quantum.unsigned_abs()).max(1)
    }

    fn skip_turns(&mut self, state: &mut RoundRobinState, turns: u64) {
        // At most the head's deficit, which is below 2³³.
        let skipped = state.quantum.unsigned_abs().saturating_mul(turns);
        state.deficit = state.deficit.saturating_add_unsigned(skipped);
    }
}
