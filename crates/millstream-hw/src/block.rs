//! Block scheduling: a decision serves the first k streams of the sorted list.
//!
//! Source: ShareStreams, section 7: one sorted list serves several packet-times. The decision at
//! `now` covers the packet-times `now` to `now + k − 1`:
//!
//! 1. Misses are charged up to `now`, and the network sorts the streams.
//! 2. The first k streams of the list that have a packet are served in that order. Attributes
//!    change once per block: rule A applies to each stream as of `now`, then its next packet
//!    becomes the head.
//! 3. Time advances by k (`step_i`). Every request period that ended is charged to its stream by
//!    rule B, including the served streams.
//!
//! With fewer than k packets, the block's remaining packet-times stay empty. With k = 1 this is the
//! engine's decision.

use std::cmp::Ordering;

use millstream::{Contract, ContractError, Discipline, StreamId};

use crate::model::{Attributes, Model};
use crate::streams::Streams;

/// How completely the network sorts a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortingNetwork {
    /// log2 N passes, as published: the first and the last are exact, the others approximate.
    Published,
    /// All passes of a bitonic sort.
    Bitonic,
}

impl SortingNetwork {
    /// Deprecated alias of [`Bitonic`](Self::Bitonic).
    #[deprecated(note = "renamed to `Bitonic`")]
    #[allow(non_upper_case_globals)]
    pub const Sorting: Self = Self::Bitonic;

    /// Returns the number of passes for `streams` streams, a power of two.
    #[must_use]
    pub fn passes(self, streams: u32) -> u32 {
        let log = streams.ilog2();
        match self {
            Self::Published => log,
            Self::Bitonic => log * log - log + 1,
        }
    }

    /// Returns the list into which the network sorts streams 0, 1, ….
    ///
    /// Their number is a power of two for [`Published`](Self::Published).
    fn list(self, streams: usize, order: impl Fn(usize, usize) -> Ordering) -> Vec<usize> {
        let mut lanes: Vec<usize> = (0..streams).collect();
        if self == Self::Bitonic {
            lanes.sort_by(|a, b| order(*a, *b));
            return lanes;
        }
        let passes = streams.ilog2();
        for _ in 0..passes {
            let (mut winners, mut losers) = (Vec::new(), Vec::new());
            for pair in lanes.chunks_exact(2) {
                let left = order(pair[0], pair[1]) == Ordering::Less;
                winners.push(pair[usize::from(!left)]);
                losers.push(pair[usize::from(left)]);
            }
            winners.append(&mut losers);
            lanes = winners;
        }
        // The first pass sets the most significant bit: a lane's bits are reversed.
        let shift = usize::BITS - passes;
        (0..streams).map(|i| lanes[i.reverse_bits() >> shift]).collect()
    }
}

/// The discipline `D` with block decisions.
pub(crate) struct BlockScheduler<D: Discipline> {
    streams: Streams<D>,
    network: SortingNetwork,
    block: usize,
    list: Vec<(bool, StreamId)>,
}

impl<D: Discipline<Stamp = ()>> BlockScheduler<D> {
    pub(crate) fn new(
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
        network: SortingNetwork,
        block: usize,
    ) -> Self {
        Self { streams: Streams::new(discipline, window), network, block, list: Vec::new() }
    }
}

impl<D: Discipline<Stamp = ()>> Model for BlockScheduler<D> {
    fn load(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        self.streams.load(contract)
    }

    fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32) {
        self.streams.enqueue(now, stream, bytes);
    }

    fn charge(&mut self, now: u64) {
        self.streams.charge(now);
    }

    fn decide(&mut self, now: u64, winners: &mut Vec<StreamId>) {
        self.charge(now);
        // Streams without a packet rank last; ties go to the lowest number, as in hardware.
        let rank = |stream| {
            let rank = self.streams.rank(stream);
            (rank.is_none(), rank, stream)
        };
        let ranks: Vec<_> = self.streams.numbers().map(rank).collect();
        let list = self.network.list(ranks.len(), |a, b| ranks[a].cmp(&ranks[b]));
        self.list = list.iter().map(|lane| (!ranks[*lane].0, ranks[*lane].2)).collect();
        if ranks.iter().all(|(is_empty, ..)| *is_empty) {
            self.streams.idle();
        }
        for at in 0..self.block.min(self.list.len()) {
            let (true, stream) = self.list[at] else { continue };
            self.streams.serve(now, stream);
            winners.push(stream);
        }
    }

    fn list(&self) -> &[(bool, StreamId)] {
        &self.list
    }

    fn attributes(&self, stream: StreamId) -> Attributes {
        self.streams.attributes(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Load, Mode, Reference, Settings};

    fn settings(mode: Mode) -> Settings {
        Settings { mode, lowest_denominator: false, rtas99: false }
    }

    /// Returns the list of eight streams with one packet each, as priorities.
    fn list(network: SortingNetwork, priorities: [u16; 8]) -> Vec<u32> {
        let mut reference = Reference::with_blocks(settings(Mode::Static), network, 1);
        for priority in priorities {
            let load =
                Load { deadline: 0, period: 1, priority, weight: 1, x: 0, y: 0, drop: 0, first: 0 };
            let stream = reference.load(&load).expect("a contract");
            reference.enqueue(0, stream, 1);
        }
        reference.decide(0);
        reference.list().iter().map(|(_, stream)| u32::from(priorities[stream.index()])).collect()
    }

    #[test]
    fn the_published_network_sorts_the_first_and_the_last() {
        let priorities = [5, 2, 7, 1, 4, 0, 6, 3];
        assert_eq!(list(SortingNetwork::Bitonic, priorities), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Pairs (5 2) (7 1) (4 0) (6 3); then winners 2 1 0 3, losers 5 7 4 6; and so forth.
        assert_eq!(list(SortingNetwork::Published, priorities), [0, 1, 2, 3, 4, 5, 6, 7]);
        let priorities = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(list(SortingNetwork::Published, priorities), [0, 4, 2, 6, 1, 5, 3, 7]);
    }

    #[test]
    fn blocks_of_one_equal_engine_decisions() {
        for mode in Mode::ALL {
            for network in [SortingNetwork::Published, SortingNetwork::Bitonic] {
                let mut engine = Reference::new(settings(mode));
                let mut blocks = Reference::with_blocks(settings(mode), network, 1);
                for i in 0..8_u16 {
                    let (x, y) = [(1, 3), (0, 2), (2, 5), (1, 1)][usize::from(i % 4)];
                    let load = Load {
                        deadline: 0,
                        period: 1 + i,
                        priority: i % 3,
                        weight: 1 + i % 2,
                        x,
                        y,
                        drop: u8::from(i % 3 == 0),
                        first: 0,
                    };
                    engine.load(&load).expect("a contract");
                    blocks.load(&load).expect("a contract");
                }
                for now in 0..2_000_u64 {
                    for reference in [&mut engine, &mut blocks] {
                        let stream = StreamId(u32::try_from(now * 5 % 8).expect("small"));
                        reference.enqueue(now, stream, 64);
                        if now % 3 > 0 {
                            reference.enqueue(now, StreamId(3), 1500);
                        }
                    }
                    assert_eq!(engine.decide(now), blocks.decide(now), "{mode:?} at {now}");
                    for stream in (0..8).map(StreamId) {
                        assert_eq!(engine.attributes(stream), blocks.attributes(stream));
                    }
                }
            }
        }
    }
}
