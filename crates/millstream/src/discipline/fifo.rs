//! First in, first out over all streams: the earlier arrival, then the lower stream number.
//!
//! The baseline that every other discipline is compared with: it protects nobody.

use super::{Discipline, Expiry, Head, Missed, Rank};
use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;

/// First in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

/// Arrival, then stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FifoRank {
    arrival_ns: u64,
    stream: StreamId,
}

impl Rank for FifoRank {
    const EXPIRY: Expiry = Expiry::Never;

    fn expiry_ns(&self) -> u64 {
        u64::MAX
    }
}

impl Discipline for Fifo {
    type State = ();
    type Rank = FifoRank;

    fn admit(&mut self, _: &Contract) -> Result<(), ContractError> {
        Ok(())
    }

    fn became_head(&mut self, (): &mut (), _: Head) {}

    #[inline]
    fn rank(&self, (): &(), head: Head, stream: StreamId) -> FifoRank {
        FifoRank { arrival_ns: head.arrival_ns, stream }
    }

    fn deadline_ns(&self, (): &()) -> Option<u64> {
        None
    }

    fn expired(&mut self, (): &mut (), _: u64) -> Missed {
        unreachable!("FIFO ranks never expire")
    }

    fn served(&mut self, (): &mut (), _: Head, _: u64) -> bool {
        false
    }
}
