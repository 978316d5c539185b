//! Earliest deadline first: the earliest deadline, then the earlier arrival, then the lower stream.
//!
//! A head's deadline is max(predecessor's deadline, own arrival) + T. A passed deadline does not
//! change: the late packet is sent before all packets with later deadlines, unless its stream drops
//! late packets. Source: Liu and Layland 1973; `late` as in DWCS.

use core::cmp::Ordering;

use super::{ByRank, Discipline, Expiry, Head, Missed, Rank};
use crate::bounds::{DeadlineGuarantee, Guarantee, Theorem};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError, Late};
use crate::packet::StreamId;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "edf",
    summary: "earliest deadline first",
    needs: &["period"],
    uses: &["first-deadline", "late"],
    guarantee: Guarantee::Deadlines(DeadlineGuarantee {
        theorems: &[Theorem::EdfDemand],
        every_request: true,
        settings: None,
    }),
    build: |options, structure, form| structure.join_expiring(form, options, Edf),
    ..DisciplineRow::DEFAULT
};

/// Earliest deadline first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edf;

/// A stream's deadlines under EDF and DWCS.
///
/// `deadline_ns` is the head's deadline. While the queue is empty it is the deadline of the last
/// packet, from which the next deadline is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    pub(super) deadline_ns: u64,
    pub(super) period_ns: u64,
    pub(super) late: Late,
    /// `true` if `deadline_ns` is the contract's first deadline and the first packet has not
    /// arrived yet.
    pub(super) first_given: bool,
}

impl Deadlines {
    pub(super) fn admit(contract: &Contract) -> Result<Self, ContractError> {
        Ok(Self {
            deadline_ns: contract.first_deadline_ns.unwrap_or(0),
            period_ns: contract.require_period()?,
            late: contract.late,
            first_given: contract.first_deadline_ns.is_some(),
        })
    }

    #[inline]
    pub(super) fn became_head(&mut self, head: Head) {
        if self.first_given {
            self.first_given = false;
        } else {
            let from = self.deadline_ns.max(head.arrival_ns);
            self.deadline_ns = from.saturating_add(self.period_ns);
        }
    }
}

/// A stream's state under EDF.
#[derive(Clone, Copy, Debug)]
pub struct EdfState(Deadlines);

/// Deadline, arrival.
#[derive(Clone, Copy, Debug)]
pub struct EdfRank {
    deadline_ns: u64,
    arrival_ns: u64,
    /// `true` if its stream drops late packets; not part of the order.
    drops: bool,
}

impl EdfRank {
    #[inline]
    fn order(&self) -> (u64, u64) {
        (self.deadline_ns, self.arrival_ns)
    }
}

impl Ord for EdfRank {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for EdfRank {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EdfRank {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for EdfRank {}

impl Rank for EdfRank {
    // A stream that sends late packets keeps a passed deadline, so order and expiry differ.
    const EXPIRY: Expiry = Expiry::Apart;

    #[inline]
    fn expiry_ns(&self) -> u64 {
        if self.drops { self.deadline_ns } else { u64::MAX }
    }
}

impl Discipline for Edf {
    type State = EdfState;
    type Rank = EdfRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<EdfState, ContractError> {
        Deadlines::admit(contract).map(EdfState)
    }

    #[inline]
    fn became_head(&mut self, state: &mut EdfState, head: Head) {
        state.0.became_head(head);
    }

    #[inline]
    fn rank(&self, state: &EdfState, head: Head) -> EdfRank {
        EdfRank {
            deadline_ns: state.0.deadline_ns,
            arrival_ns: head.arrival_ns,
            drops: state.0.late == Late::Drop,
        }
    }

    #[inline]
    fn deadline_ns(&self, state: &EdfState) -> Option<u64> {
        Some(state.0.deadline_ns)
    }

    fn expired(&mut self, _: &mut EdfState, _: u64) -> Missed {
        Missed { missed: 1, violations: 0, drop_head: true }
    }

    #[inline]
    fn served(&mut self, state: &mut EdfState, _: StreamId, _: Head, now_ns: u64) -> bool {
        now_ns >= state.0.deadline_ns
    }
}
