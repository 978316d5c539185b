//! First in, first out over all streams: the earlier arrival, then the lower stream number.
//!
//! The baseline for comparisons. It protects no stream.

use super::{ByRank, Discipline, Head, Rank};
use crate::bounds::{DelayGuarantee, Fairness, Guarantee};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "fifo",
    summary: "first in, first out over all streams",
    guarantee: Guarantee::Delay(DelayGuarantee {
        theorem: "FIFO with token buckets (Cruz 1991)",
        delay_ns: |bounds, _| bounds.fifo_delay_ns(),
        may_precede: |_, _| true,
    }),
    fairness: Some(Fairness::Unbounded("unbounded: serves in arrival order")),
    build: |options, structure, form| structure.join(form, options, Fifo),
    ..DisciplineRow::DEFAULT
};

/// First in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

/// Arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FifoRank {
    arrival_ns: u64,
}

impl Rank for FifoRank {}

impl Discipline for Fifo {
    type State = ();
    type Rank = FifoRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, _: &Contract) -> Result<(), ContractError> {
        Ok(())
    }

    #[inline]
    fn rank(&self, (): &(), head: Head) -> FifoRank {
        FifoRank { arrival_ns: head.arrival_ns }
    }
}
