//! The table scheduler: a fixed list of turns, one packet each.
//!
//! A decision serves the next entry of the table whose stream has an active head. The table shares
//! packets, not bytes, which the MinBW paper criticises. Source: Advanced Switching core
//! specification, as the MinBW paper (section II) describes it.

use alloc::vec::Vec;

use super::round_robin::WRR_RATE;
use super::{Activation, ByRank, Discipline, Head, Rank};
use crate::bounds::{Fairness, Guarantee, Share};
use crate::catalogue::DisciplineRow;
use crate::contract::{Contract, ContractError};
use crate::packet::StreamId;

/// The catalogue row.
pub(crate) const ROW: DisciplineRow = DisciplineRow {
    name: "table",
    summary: "a table of turns, one packet each (Advanced Switching)",
    needs: &["table"],
    share: Share::Entries,
    // A table is weighted round robin; a stream's weight is its number of entries.
    guarantee: Guarantee::Rate(WRR_RATE),
    fairness: Some(Fairness::Unbounded("unbounded: shares packets, not bytes")),
    build: |options, structure, form| structure.join(form, options, Table::new(&options.table)),
    ..DisciplineRow::DEFAULT
};

/// The table scheduler.
#[derive(Clone, Debug)]
pub struct Table {
    entries: u64,
    /// The entries of each stream, ascending.
    places: Vec<Vec<u64>>,
    /// The entry after the one served last, counted through all rounds.
    next: u64,
    streams: usize,
}

/// The entry, counted through all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableRank(u64);

impl Rank for TableRank {}

impl Table {
    /// Returns a table of `entries`.
    #[must_use]
    pub fn new(entries: &[StreamId]) -> Self {
        let mut places = Vec::new();
        for (position, stream) in (0u64..).zip(entries) {
            if places.len() <= stream.index() {
                places.resize(stream.index() + 1, Vec::new());
            }
            places[stream.index()].push(position);
        }
        Self { entries: entries.len() as u64, places, next: 0, streams: 0 }
    }
}

impl Discipline for Table {
    /// The next entry of the stream, counted through all rounds.
    type State = u64;
    type Rank = TableRank;
    type Stamp = ();
    type Selection = ByRank;

    fn admit(&mut self, _: &Contract) -> Result<u64, ContractError> {
        let entries = self.places.get(self.streams).map_or(0, Vec::len);
        if entries == 0 {
            return Err(ContractError::Missing { attribute: "table" });
        }
        self.streams += 1;
        Ok(0)
    }

    #[inline]
    fn rank(&self, state: &u64, _: Head) -> TableRank {
        TableRank(*state)
    }

    #[inline]
    fn activated(&mut self, state: &mut u64, stream: StreamId, _: Head, (): (), _: Activation) {
        let positions = &self.places[stream.index()];
        let (round, next) = (self.next / self.entries, self.next % self.entries);
        *state = match positions.get(positions.partition_point(|&own| own < next)) {
            Some(own) => round * self.entries + own,
            None => (round + 1) * self.entries + positions[0],
        };
    }

    #[inline]
    fn served(&mut self, state: &mut u64, _: StreamId, _: Head, _: u64) -> bool {
        self.next = *state + 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_an_entry_is_refused() {
        let mut table = Table::new(&[StreamId(0), StreamId(2), StreamId(0)]);
        assert_eq!(table.admit(&Contract::new()), Ok(0));
        let missing = Err(ContractError::Missing { attribute: "table" });
        assert_eq!(table.admit(&Contract::new()), missing, "stream 1");
        let mut short = Table::new(&[StreamId(0)]);
        assert_eq!(short.admit(&Contract::new()), Ok(0));
        assert_eq!(short.admit(&Contract::new()), missing, "stream 1");
    }
}
