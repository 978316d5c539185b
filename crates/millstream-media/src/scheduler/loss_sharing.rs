//! The order of the optional frames: the client with the largest recent share of losses goes first.
//!
//! Deadlines alone do not share losses. Clients with equal contracts release their frames at fixed
//! phases of a common period. So one client is the last in every round and bears every loss. This
//! order remembers losses instead: the share of each client's recent optional frames that it lost.
//!
//! ```text
//! rank:   highest share, then earliest deadline, then arrival, then slot
//! sent:                                                            share -= share / 64
//! deadline passed, or a later frame of the client was chosen:      share -= share / 64, += 1/64
//! ```
//! The share decays, so a loss under an earlier load fades, and the next client in a slot soon has
//! a share of its own. Shares are integers in units of 2⁻³²; the rounding error is far below the
//! 1/64 of a frame.
//!
//! The cost is one word per client and one comparison more than earliest deadline first.

use millstream::{
    ByRank, Contract, ContractError, Discipline, Expiry, Head, Missed, Rank, StreamId,
};

/// A share of 1.
const ALL: u64 = 1 << 32;

/// The number of optional frames after which a loss has decayed to 1/e.
const MEMORY: u64 = 64;

/// The discipline of the optional lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EqualLoss;

/// A client's state: its losses and the deadline of its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossState {
    period_ns: u64,
    deadline_ns: u64,
    /// The share of recent optional frames that were lost, at most [`ALL`].
    lost: u64,
}

impl LossState {
    fn count(&mut self, lost: bool) {
        self.lost -= self.lost / MEMORY;
        self.lost += u64::from(lost) * (ALL / MEMORY);
    }
}

/// A head's rank. The derived comparison takes the fields in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LossRank {
    /// The share that was not lost; the smallest goes first.
    kept: u64,
    deadline_ns: u64,
    arrival_ns: u64,
}

impl Rank for LossRank {
    const EXPIRY: Expiry = Expiry::Apart;

    fn expiry_ns(&self) -> u64 {
        self.deadline_ns
    }
}

impl Discipline for EqualLoss {
    type State = LossState;
    type Rank = LossRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<LossState, ContractError> {
        let missing = ContractError::Missing { attribute: "period" };
        let period_ns = contract.terms().period_ns.ok_or(missing)?;
        Ok(LossState { period_ns, deadline_ns: 0, lost: 0 })
    }

    fn became_head(&mut self, state: &mut LossState, head: Head) {
        // Follows EDF and DWCS, so that a frame has one deadline in both lanes.
        let from_ns = state.deadline_ns.max(head.arrival_ns);
        state.deadline_ns = from_ns.saturating_add(state.period_ns);
    }

    fn rank(&self, state: &LossState, head: Head) -> LossRank {
        let kept = ALL.saturating_sub(state.lost);
        LossRank { kept, deadline_ns: state.deadline_ns, arrival_ns: head.arrival_ns }
    }

    fn deadline_ns(&self, state: &LossState) -> Option<u64> {
        Some(state.deadline_ns)
    }

    fn expired(&mut self, state: &mut LossState, _: u64) -> Missed {
        state.count(true);
        Missed { missed: 1, violations: 0, drop_head: true }
    }

    /// Counts a sent frame; a head of 0 bytes marks a dropped frame.
    fn served(&mut self, state: &mut LossState, _: StreamId, head: Head, _: u64) -> bool {
        state.count(head.bytes == 0);
        false
    }
}
