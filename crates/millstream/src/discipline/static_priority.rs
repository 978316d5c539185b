//! Static priority: the lowest priority number, then the earlier arrival, then the lower stream.
//!
//! A stream of priority 0 that floods starves all others; that is the discipline, not a fault.

use super::{Discipline, Expiry, Head, Missed, Rank};
use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;

/// Static priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticPriority;

/// Priority, arrival, stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticPriorityRank {
    priority: u32,
    arrival_ns: u64,
    stream: StreamId,
}

impl Rank for StaticPriorityRank {
    const EXPIRY: Expiry = Expiry::Never;

    fn expiry_ns(&self) -> u64 {
        u64::MAX
    }
}

impl Discipline for StaticPriority {
    /// The priority.
    type State = u32;
    type Rank = StaticPriorityRank;

    fn admit(&mut self, contract: &Contract) -> Result<u32, ContractError> {
        Ok(contract.priority)
    }

    fn became_head(&mut self, _: &mut u32, _: Head) {}

    #[inline]
    fn rank(&self, priority: &u32, head: Head, stream: StreamId) -> StaticPriorityRank {
        StaticPriorityRank { priority: *priority, arrival_ns: head.arrival_ns, stream }
    }

    fn deadline_ns(&self, _: &u32) -> Option<u64> {
        None
    }

    fn expired(&mut self, _: &mut u32, _: u64) -> Missed {
        unreachable!("static-priority ranks never expire")
    }

    fn served(&mut self, _: &mut u32, _: Head, _: u64) -> bool {
        false
    }
}
