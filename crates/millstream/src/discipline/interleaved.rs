//! Weighted interleaved round robin: one packet per turn, turns spread over the round.
//!
//! A round has as many cycles as the greatest weight. A stream of weight w takes part in the first
//! w of them, in stream order. Unlike under weighted round robin, a stream sends two packets in a
//! row only if no other stream has a turn in between. Source: Hahne 1986.
//!
//! ```text
//! weights 3 1 2:   a b c   a c   a    |   a b c …
//! ```

use super::{Activation, ByRank, Discipline, Head, Rank};
use crate::bounds::{Fairness, Guarantee, Lead, RateGuarantee, Share, round_robin};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "wirr",
    summary: "weighted interleaved round robin: one packet per turn, turns spread over the round",
    uses: &["weight"],
    share: Share::Packets,
    guarantee: Guarantee::Rate(RATE),
    fairness: Some(Fairness::Unbounded("unbounded: shares packets, not bytes")),
    build: |options, structure, form| structure.join(form, options, Interleaved::default()),
    ..DisciplineRow::DEFAULT
};

/// The guarantee of a rate.
pub(crate) const RATE: RateGuarantee = RateGuarantee {
    theorem: "interleaved WRR by rounds",
    others_ungated: false,
    clocked: false,
    latency_rate: |bounds, stream| round_robin::by_packets(bounds, stream, true),
    lead: Lead::None,
    strict: None,
};

/// Weighted interleaved round robin.
#[derive(Clone, Debug, Default)]
pub struct Interleaved {
    /// The turn that was served last.
    last: Option<(InterleavedRank, StreamId)>,
}

/// A stream's state under [`Interleaved`].
#[derive(Clone, Copy, Debug)]
pub struct InterleavedState {
    weight: u32,
    round: u64,
    cycle: u32,
}

/// Round, cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterleavedRank {
    round: u64,
    cycle: u32,
}

impl Rank for InterleavedRank {}

impl Discipline for Interleaved {
    type State = InterleavedState;
    type Rank = InterleavedRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<InterleavedState, ContractError> {
        Ok(InterleavedState { weight: contract.weight, round: 0, cycle: 1 })
    }

    #[inline]
    fn rank(&self, state: &InterleavedState, _: Head) -> InterleavedRank {
        InterleavedRank { round: state.round, cycle: state.cycle }
    }

    #[inline]
    fn activated(
        &mut self,
        state: &mut InterleavedState,
        stream: StreamId,
        _: Head,
        (): (),
        _: Activation,
    ) {
        let Some((last, last_stream)) = self.last else { return };
        // The stream's first turn after the one served last.
        (state.round, state.cycle) = (last.round, last.cycle);
        if stream <= last_stream {
            state.cycle += 1;
        }
        if state.cycle > state.weight {
            (state.round, state.cycle) = (last.round + 1, 1);
        }
    }

    #[inline]
    fn served(
        &mut self,
        state: &mut InterleavedState,
        stream: StreamId,
        head: Head,
        _: u64,
    ) -> bool {
        self.last = Some((self.rank(state, head), stream));
        false
    }
}
