//! DWCS without an order among window-constraints of 0: the exact order that HILQ's slots can
//! represent.
//!
//! HILQ puts every packet with x' = 0 into one FIFO slot, while Table 1 orders them by y'. This
//! discipline does the same without a calendar, which isolates the other roundings of HILQ. Rules A
//! and B are implemented again, so that the reference shares no code with the tested scheduler.

use millstream::{
    ByRank, Contract, ContractError, Discipline, Expiry, Head, Missed, Rank as EngineRank, StreamId,
};
use std::cmp::Ordering;

/// The contract of a stream; late packets are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContractTerms {
    pub(crate) lost: u32,
    pub(crate) of: u32,
    pub(crate) period_ns: u64,
    pub(crate) first_deadline_ns: u64,
}

/// The discipline, with the contracts in the order of the streams.
#[derive(Debug)]
pub(crate) struct SlotOrder(std::vec::IntoIter<ContractTerms>);

impl SlotOrder {
    pub(crate) fn new(terms: Vec<ContractTerms>) -> Self {
        Self(terms.into_iter())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    terms: ContractTerms,
    lost: u32,
    of: u32,
    tag: bool,
    /// The head's deadline or, between two packets, the previous one; `None` before the first.
    deadline_ns: Option<u64>,
}

impl State {
    fn restore(&mut self) {
        (self.lost, self.of) = (self.terms.lost, self.terms.of);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    deadline_ns: u64,
    lost: u32,
    /// 1 where x' = 0, so that all fractions of 0 are equal.
    of: u32,
    arrival_ns: u64,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |a: &Self, b: &Self| u64::from(a.lost) * u64::from(b.of);
        self.deadline_ns
            .cmp(&other.deadline_ns)
            .then_with(|| cross(self, other).cmp(&cross(other, self)))
            .then(self.lost.cmp(&other.lost))
            .then(self.arrival_ns.cmp(&other.arrival_ns))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl EngineRank for Rank {
    const EXPIRY: Expiry = Expiry::Leads;

    fn expiry_ns(&self) -> u64 {
        self.deadline_ns
    }
}

impl Discipline for SlotOrder {
    type State = State;
    type Rank = Rank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, _: &Contract) -> Result<State, ContractError> {
        let terms = self.0.next().ok_or(ContractError::Missing { attribute: "window" })?;
        let ContractTerms { lost, of, .. } = terms;
        Ok(State { terms, lost, of, tag: false, deadline_ns: None })
    }

    fn became_head(&mut self, state: &mut State, head: Head) {
        let ContractTerms { period_ns, first_deadline_ns, .. } = state.terms;
        let after = |deadline_ns: u64| deadline_ns.max(head.arrival_ns) + period_ns;
        state.deadline_ns = Some(state.deadline_ns.map_or(first_deadline_ns, after));
    }

    fn rank(&self, state: &State, head: Head) -> Rank {
        let State { lost, of, .. } = *state;
        let deadline_ns = state.deadline_ns.unwrap_or(u64::MAX);
        let of = if lost == 0 { 1 } else { of };
        Rank { deadline_ns, lost, of, arrival_ns: head.arrival_ns }
    }

    fn deadline_ns(&self, state: &State) -> Option<u64> {
        state.deadline_ns
    }

    fn expired(&mut self, state: &mut State, _: u64) -> Missed {
        let violation = state.lost == 0;
        if violation {
            state.of += 1;
            state.tag = true;
        } else {
            state.lost -= 1;
            state.of -= 1;
            if state.of == 0 {
                state.restore();
            }
        }
        Missed { missed: 1, violations: u64::from(violation), drop_head: true }
    }

    fn served(&mut self, state: &mut State, _: StreamId, _: Head, _: u64) -> bool {
        if state.of > state.lost {
            state.of -= 1;
        } else if state.lost > 0 {
            state.lost -= 1;
            state.of -= 1;
        }
        if state.of == 0 || state.tag {
            state.restore();
            state.tag = false;
        }
        false
    }
}
