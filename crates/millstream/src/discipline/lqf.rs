//! Longest queue first: the stream with the most bytes waiting.
//!
//! It equalises the queues, which saves buffer space if each stream has its own buffer. It protects
//! no stream: a flood makes its queue the longest. The rank changes with every arrival, so a
//! backlogged stream is reinserted when its queue grows. Source: Gail, Grover, Guérin, Hantler,
//! Rosberg and Sidi, *Buffer size requirements under longest queue first*, Performance Evaluation
//! 18(2), 1993.
//!
//! Packets count with their lengths, without the link's overhead. Ties go to the earlier arrival of
//! the head, then to the lower stream.

use core::cmp::Reverse;

use super::{ByBacklog, Discipline, Head, Rank, RanksByBacklog, Waiting};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "lqf",
    summary: "longest queue first: the most bytes waiting",
    build: |options, structure, form| structure.join(form, options, Lqf),
    ..DisciplineRow::DEFAULT
};

/// Longest queue first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lqf;

/// Bytes waiting, arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LqfRank {
    bytes: Reverse<u64>,
    arrival_ns: u64,
}

impl Rank for LqfRank {}

impl Discipline for Lqf {
    /// The bytes waiting.
    type State = u64;
    type Rank = LqfRank;
    type Stamp = ();
    type Selection = ByBacklog;

    fn admit(&mut self, _: &Contract) -> Result<u64, ContractError> {
        Ok(0)
    }

    #[inline]
    fn rank(&self, bytes: &u64, head: Head) -> LqfRank {
        LqfRank { bytes: Reverse(*bytes), arrival_ns: head.arrival_ns }
    }
}

impl RanksByBacklog for Lqf {
    #[inline]
    fn backlog_changed(&mut self, bytes: &mut u64, waiting: Waiting) {
        *bytes = waiting.bytes;
    }
}
