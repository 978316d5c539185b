//! Least attained service: the stream with the least service since it became backlogged.
//!
//! ```text
//! A = bytes served since the stream became backlogged; least A first
//! ```
//!
//! A stream's job is its busy period, so short bursts overtake long ones without a declared length.
//! This is the Foreground-Background policy, which minimises mean delay if the expected remaining
//! length of a burst grows with its age. Service is not preempted within a packet. Source: Nuyens
//! and Wierman 2008.
//!
//! Packets count with the link's overhead. A is reset to 0 when the queue empties; a closed gate
//! does not reset it. Ties go to the earlier arrival of the head, then to the lower stream.

use super::{ByRank, Discipline, Head, Rank};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::link::Link;
use crate::packet::StreamId;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "las",
    summary: "least attained service: the fewest bytes served since it became backlogged",
    build: |options, structure, form| structure.join(form, options, Las::new(options.link)),
    ..DisciplineRow::DEFAULT
};

/// Least attained service.
#[derive(Clone, Copy, Debug)]
pub struct Las {
    link: Link,
}

/// Attained service, arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LasRank {
    attained_bytes: u64,
    arrival_ns: u64,
}

impl Rank for LasRank {}

impl Las {
    /// Returns the discipline for `link`.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link }
    }
}

impl Discipline for Las {
    /// The attained service, bytes on the wire.
    type State = u64;
    type Rank = LasRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, _: &Contract) -> Result<u64, ContractError> {
        Ok(0)
    }

    #[inline]
    fn rank(&self, attained_bytes: &u64, head: Head) -> LasRank {
        LasRank { attained_bytes: *attained_bytes, arrival_ns: head.arrival_ns }
    }

    #[inline]
    fn served(&mut self, attained_bytes: &mut u64, _: StreamId, head: Head, _: u64) -> bool {
        *attained_bytes = attained_bytes.saturating_add(self.link.wire_bytes(head.bytes));
        false
    }

    #[inline]
    fn deactivated(&mut self, attained_bytes: &mut u64, _: StreamId, backlogged: bool) {
        if !backlogged {
            *attained_bytes = 0;
        }
    }
}
