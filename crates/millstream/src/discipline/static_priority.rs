//! Static priority: the lowest priority number, then the earlier arrival, then the lower stream.
//!
//! A flooding stream of priority 0 starves all other streams, by design.

use super::{ByRank, Discipline, Head, Rank};
use crate::bounds::{DelayGuarantee, Guarantee};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "static-priority",
    summary: "lowest priority number first",
    uses: &["priority"],
    guarantee: Guarantee::Delay(DelayGuarantee {
        theorem: "static priority with token buckets (Cruz 1991)",
        delay_ns: |bounds, stream| bounds.static_priority_delay_ns(stream),
        may_precede: |own, other| other.priority <= own.priority,
    }),
    build: |options, structure, form| structure.join(form, options, StaticPriority),
    ..DisciplineRow::DEFAULT
};

/// Static priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticPriority;

/// Priority, arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticPriorityRank {
    priority: u32,
    arrival_ns: u64,
}

impl Rank for StaticPriorityRank {}

impl Discipline for StaticPriority {
    /// The priority.
    type State = u32;
    type Rank = StaticPriorityRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, contract: &Contract) -> Result<u32, ContractError> {
        Ok(contract.priority)
    }

    #[inline]
    fn rank(&self, priority: &u32, head: Head) -> StaticPriorityRank {
        StaticPriorityRank { priority: *priority, arrival_ns: head.arrival_ns }
    }
}
