//! First in, first out over all streams: the earlier arrival, then the lower stream number.
//!
//! The baseline that every other discipline is compared with: it protects nobody.

use super::{Discipline, Head, Rank};
use crate::contract::{Contract, ContractError};

/// First in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

/// The arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FifoRank {
    arrival_ns: u64,
}

impl Rank for FifoRank {}

impl Discipline for Fifo {
    type State = ();
    type Rank = FifoRank;
    type Stamp = ();

    fn admit(&mut self, _: &Contract) -> Result<(), ContractError> {
        Ok(())
    }

    #[inline]
    fn rank(&self, (): &(), head: Head) -> FifoRank {
        FifoRank { arrival_ns: head.arrival_ns }
    }
}
