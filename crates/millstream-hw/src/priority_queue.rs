//! Hardware priority queues, cycle by cycle: the structures with which ShareStreams compares its
//! recirculating network.
//!
//! Source: ShareStreams, section 6; Moon, Rexford and Shin 2000 for the shift register and the
//! systolic array. Each keeps the backlogged streams sorted, with one decision block per element.
//! A stream whose attributes change is removed and inserted again:
//!
//! | structure | decision blocks | a removal or an insertion | a decision |
//! |---|---|---|---|
//! | shuffle | N / 2 | – | log2 N passes, PRIORITY_UPDATE |
//! | shift register | N | 1 cycle: all elements at once | the update, the changes |
//! | systolic | N | 2 cycles: one element a cycle, pipelined | the update, the changes |
//!
//! The first element is the winner, without passes. All three make the engine's decisions.
//!
//! **Relaxed updates.** The misses of the streams that lost are charged only in each r-th decision
//! ([`Relaxed`]). The winner's attributes change in every decision. With r = 1 the order is exact.

use std::collections::VecDeque;

use millstream::{Contract, ContractError, Discipline, StreamId};

use crate::SortingNetwork;
use crate::model::{Attributes, Model};
use crate::streams::Streams;

/// The structure that finds the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The recirculating shuffle-exchange network.
    Shuffle,
    /// A shift register: a new entry is compared with all elements at once.
    ShiftRegister,
    /// A systolic array: a new entry is compared with one element a cycle.
    Systolic,
}

impl Structure {
    /// All structures.
    pub const ALL: [Self; 3] = [Self::Shuffle, Self::ShiftRegister, Self::Systolic];

    /// Returns the number of decision blocks for `streams` streams.
    #[must_use]
    pub fn decision_blocks(self, streams: u32) -> u32 {
        match self {
            Self::Shuffle => streams / 2,
            Self::ShiftRegister | Self::Systolic => streams,
        }
    }
}

/// The interval of the losers' updates: every `0`-th decision, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relaxed(pub u64);

impl Relaxed {
    /// An update in every decision: the exact order.
    pub const NEVER: Self = Self(1);
}

/// The cost of a structure's decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Decisions, those without a winner included.
    pub decisions: u64,
    /// Cycles: passes, updates, removals and insertions.
    pub cycles: u64,
    /// Removals and insertions.
    pub changes: u64,
    /// Comparisons of two streams by decision blocks.
    pub comparisons: u64,
}

/// A stream and its key; the least is first, equal keys by stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry<K> {
    key: K,
    stream: StreamId,
}

/// A shift register with a comparator in each element.
struct ShiftRegister<K>(Vec<Option<Entry<K>>>);

impl<K: Ord + Copy> ShiftRegister<K> {
    /// Inserts `new` in one cycle; returns the comparisons.
    fn insert(&mut self, new: Entry<K>) -> u64 {
        let comparisons = self.0.iter().flatten().count() as u64;
        // Each element's comparator: whether the new entry goes before its own.
        let after: Vec<bool> = self.0.iter().map(|old| old.is_none_or(|old| new < old)).collect();
        for at in (0..self.0.len()).filter(|at| after[*at]).rev() {
            let from_left = at > 0 && after[at - 1];
            self.0[at] = if from_left { self.0[at - 1] } else { Some(new) };
        }
        comparisons
    }

    /// Removes `stream` in one cycle: the elements behind it shift left.
    fn remove(&mut self, stream: StreamId) {
        let of = |entry: &Option<Entry<K>>| entry.is_some_and(|entry| entry.stream == stream);
        if let Some(at) = self.0.iter().position(of) {
            self.0[at..].rotate_left(1);
            *self.0.last_mut().expect("it has an element") = None;
        }
    }
}

/// An operation that moves through a systolic array, one element a cycle.
#[derive(Clone, Copy)]
enum Operation<K> {
    /// An entry, or the one that it displaced.
    Insert(Entry<K>),
    /// The removal of a stream that is not found yet.
    Remove(StreamId),
    /// The closing of the gap behind a removed stream.
    Close,
}

/// A systolic array: each element has an entry, and works on at most one operation.
struct Systolic<K> {
    elements: Vec<Option<Entry<K>>>,
    /// The operations in the array with their elements, the first element last.
    moving: VecDeque<(usize, Operation<K>)>,
    comparisons: u64,
}

impl<K: Ord + Copy> Systolic<K> {
    /// Advances by one cycle.
    fn cycle(&mut self) {
        let mut next = VecDeque::new();
        for (at, operation) in std::mem::take(&mut self.moving) {
            let moved = self.step(at, operation).filter(|_| at + 1 < self.elements.len());
            next.extend(moved.map(|operation| (at + 1, operation)));
        }
        self.moving = next;
    }

    /// Applies an operation at an element; returns what moves on. A removal also takes the entry
    /// of the next element, so operations are two elements apart.
    fn step(&mut self, at: usize, operation: Operation<K>) -> Option<Operation<K>> {
        match operation {
            Operation::Insert(new) => match self.elements[at].replace(new) {
                None => None,
                Some(old) => {
                    self.comparisons += 1;
                    let (first, second) = if new < old { (new, old) } else { (old, new) };
                    self.elements[at] = Some(first);
                    Some(Operation::Insert(second))
                }
            },
            Operation::Remove(stream) => match self.elements[at] {
                Some(entry) if entry.stream != stream => Some(operation),
                Some(_) => self.step(at, Operation::Close),
                None => None,
            },
            Operation::Close => {
                self.elements[at] = self.elements.get_mut(at + 1).and_then(Option::take);
                self.elements[at].map(|_| Operation::Close)
            }
        }
    }

    /// Starts an operation: two cycles later the next may start.
    fn start(&mut self, operation: Operation<K>) {
        self.moving.push_back((0, operation));
        self.cycle();
        self.cycle();
    }
}

/// The sorted streams of a structure.
enum Queue<K> {
    Shuffle,
    ShiftRegister(ShiftRegister<K>),
    Systolic(Systolic<K>),
}

impl<K: Ord + Copy> Queue<K> {
    fn new(structure: Structure) -> Self {
        match structure {
            Structure::Shuffle => Self::Shuffle,
            Structure::ShiftRegister => Self::ShiftRegister(ShiftRegister(Vec::new())),
            Structure::Systolic => Self::Systolic(Systolic {
                elements: Vec::new(),
                moving: VecDeque::new(),
                comparisons: 0,
            }),
        }
    }

    /// Adds an element.
    fn grow(&mut self) {
        match self {
            Self::Shuffle => {}
            Self::ShiftRegister(register) => register.0.push(None),
            Self::Systolic(array) => array.elements.push(None),
        }
    }

    /// Inserts an entry, and charges it.
    fn insert(&mut self, entry: Entry<K>, cost: &mut Cost) {
        match self {
            Self::Shuffle => return,
            Self::ShiftRegister(register) => {
                cost.comparisons += register.insert(entry);
                cost.cycles += 1;
            }
            Self::Systolic(array) => {
                array.start(Operation::Insert(entry));
                cost.comparisons += std::mem::take(&mut array.comparisons);
                cost.cycles += 2;
            }
        }
        cost.changes += 1;
    }

    /// Removes a stream, and charges it.
    fn remove(&mut self, stream: StreamId, cost: &mut Cost) {
        match self {
            Self::Shuffle => return,
            Self::ShiftRegister(register) => {
                register.remove(stream);
                cost.cycles += 1;
            }
            Self::Systolic(array) => {
                array.start(Operation::Remove(stream));
                cost.comparisons += std::mem::take(&mut array.comparisons);
                cost.cycles += 2;
            }
        }
        cost.changes += 1;
    }

    /// Returns the first stream of a chain.
    fn first(&self) -> Option<StreamId> {
        let first = match self {
            Self::Shuffle => return None,
            Self::ShiftRegister(register) => register.0.first(),
            Self::Systolic(array) => array.elements.first(),
        };
        first?.map(|entry| entry.stream)
    }
}

/// The discipline `D` on a structure.
pub(crate) struct StructureScheduler<D: Discipline> {
    streams: Streams<D>,
    structure: Structure,
    queue: Queue<D::Rank>,
    /// Whether the chain holds each stream.
    held: Vec<bool>,
    relaxed: Relaxed,
    cost: Cost,
}

impl<D: Discipline<Stamp = ()>> StructureScheduler<D> {
    pub(crate) fn new(
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
        structure: Structure,
        relaxed: Relaxed,
    ) -> Self {
        Self {
            streams: Streams::new(discipline, window),
            structure,
            queue: Queue::new(structure),
            held: Vec::new(),
            relaxed,
            cost: Cost::default(),
        }
    }

    /// Inserts the changed streams again.
    fn update_chain(&mut self) {
        for stream in self.streams.numbers() {
            if !self.streams.take_changed(stream) {
                continue;
            }
            let held = &mut self.held[stream.index()];
            if *held {
                self.queue.remove(stream, &mut self.cost);
            }
            let rank = self.streams.rank(stream);
            *held = rank.is_some();
            if let Some(key) = rank {
                self.queue.insert(Entry { key, stream }, &mut self.cost);
            }
        }
    }

    /// Returns the winner of the network, and charges its passes.
    fn shuffle(&mut self) -> Option<StreamId> {
        let streams = u32::try_from(self.streams.len()).expect("fewer than 2^32 streams");
        let passes = SortingNetwork::Published.passes(streams.next_power_of_two());
        self.cost.cycles += u64::from(passes);
        self.cost.comparisons += u64::from(passes * Structure::Shuffle.decision_blocks(streams));
        let entry = |stream| self.streams.rank(stream).map(|key| Entry { key, stream });
        self.streams.numbers().filter_map(entry).min().map(|entry| entry.stream)
    }
}

impl<D: Discipline<Stamp = ()>> Model for StructureScheduler<D> {
    fn load(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let stream = self.streams.load(contract)?;
        self.queue.grow();
        self.held.push(false);
        Ok(stream)
    }

    fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32) {
        self.streams.enqueue(now, stream, bytes);
    }

    fn charge(&mut self, now: u64) {
        self.streams.charge(now);
    }

    fn decide(&mut self, now: u64, winners: &mut Vec<StreamId>) {
        self.streams.advance(now);
        if self.cost.decisions.is_multiple_of(self.relaxed.0.max(1)) {
            self.streams.charge(now);
        }
        // The update of the register blocks, all at once.
        self.cost.decisions += 1;
        self.cost.cycles += 1;
        let winner = match self.structure {
            Structure::Shuffle => self.shuffle(),
            _ => {
                self.update_chain();
                self.queue.first()
            }
        };
        match winner {
            Some(stream) => {
                self.streams.serve(now, stream);
                winners.push(stream);
            }
            None => self.streams.idle(),
        }
    }

    fn attributes(&self, stream: StreamId) -> Attributes {
        self.streams.attributes(stream)
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Load, Mode, Reference, Settings};

    fn entry(key: u32, stream: u32) -> Entry<u32> {
        Entry { key, stream: StreamId(stream) }
    }

    /// Returns the streams of a chain in order.
    fn order(queue: &Queue<u32>) -> Vec<u32> {
        let elements = match queue {
            Queue::Shuffle => return Vec::new(),
            Queue::ShiftRegister(register) => &register.0,
            Queue::Systolic(array) => &array.elements,
        };
        elements.iter().flatten().map(|entry| entry.stream.0).collect()
    }

    fn chains(elements: usize) -> [Queue<u32>; 2] {
        [Structure::ShiftRegister, Structure::Systolic].map(|structure| {
            let mut queue = Queue::new(structure);
            (0..elements).for_each(|_| queue.grow());
            queue
        })
    }

    /// Lets the operations in a systolic array end.
    fn settle(queue: &mut Queue<u32>) {
        if let Queue::Systolic(array) = queue {
            while !array.moving.is_empty() {
                array.cycle();
            }
        }
    }

    #[test]
    fn a_chain_is_sorted_after_each_operation() {
        for mut queue in chains(4) {
            let mut cost = Cost::default();
            for (key, stream) in [(5, 0), (2, 1), (7, 2), (2, 3)] {
                queue.insert(entry(key, stream), &mut cost);
            }
            settle(&mut queue);
            assert_eq!(order(&queue), [1, 3, 0, 2]);
            queue.remove(StreamId(3), &mut cost);
            queue.insert(entry(6, 3), &mut cost);
            settle(&mut queue);
            assert_eq!(order(&queue), [1, 0, 3, 2]);
            queue.remove(StreamId(1), &mut cost);
            assert_eq!((cost.changes, queue.first()), (7, Some(StreamId(0))));
            let each = if matches!(queue, Queue::Systolic(_)) { 2 } else { 1 };
            assert_eq!(cost.cycles, each * 7);
        }
    }

    #[test]
    fn chains_equal_a_sorted_list_while_operations_overlap() {
        for mut queue in chains(16) {
            let (mut state, mut held) = (1_u64, std::collections::BTreeMap::new());
            let mut cost = Cost::default();
            for step in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let (stream, key) = ((state >> 33) as u32 % 16, (state >> 40) as u32 % 8);
                if held.remove(&stream).is_some() {
                    queue.remove(StreamId(stream), &mut cost);
                }
                if (state >> 50) % 4 > 0 {
                    held.insert(stream, key);
                    queue.insert(entry(key, stream), &mut cost);
                }
                let first = held.iter().map(|(stream, key)| (*key, *stream)).min();
                let first = first.map(|(_, stream)| StreamId(stream));
                assert_eq!(queue.first(), first, "step {step}");
            }
        }
    }

    fn load(i: u16, period: u16, (x, y): (u8, u8), drop: bool) -> Load {
        Load {
            deadline: 0,
            period,
            priority: i % 3,
            weight: 1 + i % 2,
            x,
            y,
            drop: drop.into(),
            first: 0,
        }
    }

    /// Every structure makes the engine's decisions, in all modes, with drops and idle times.
    #[test]
    fn structures_make_the_engines_decisions() {
        for mode in Mode::ALL {
            let settings = Settings { mode, lowest_denominator: false, rtas99: false };
            for structure in Structure::ALL {
                let mut engine = Reference::new(settings);
                let mut other = Reference::with_structure(settings, structure, Relaxed::NEVER);
                for i in 0..8_u16 {
                    let window = [(1, 3), (0, 2), (2, 5), (1, 1)][usize::from(i % 4)];
                    let load = load(i, 1 + i, window, i % 3 == 0);
                    engine.load(&load).expect("a contract");
                    other.load(&load).expect("a contract");
                }
                for now in 0..2_000_u64 {
                    for reference in [&mut engine, &mut other] {
                        if now % 7 < 4 {
                            let stream = StreamId(u32::try_from(now * 5 % 8).expect("small"));
                            reference.enqueue(now, stream, 64);
                            reference.enqueue(now, StreamId(3), 1500);
                        }
                    }
                    let decisions = (engine.decide(now), other.decide(now));
                    assert_eq!(decisions.0, decisions.1, "{mode:?} {structure:?} at {now}");
                    for stream in (0..8).map(StreamId) {
                        assert_eq!(engine.attributes(stream), other.attributes(stream));
                    }
                }
            }
        }
    }

    /// Four backlogged streams of period 1: in each decision all attributes change.
    #[test]
    fn costs_of_a_decision_follow_the_changes() {
        let settings = Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false };
        let cycles = |structure| {
            let mut reference = Reference::with_structure(settings, structure, Relaxed::NEVER);
            for i in 0..4 {
                let stream = reference.load(&load(i, 1, (3, 4), false)).expect("a contract");
                (0..64).for_each(|_| reference.enqueue(0, stream, 64));
            }
            for now in 0..10 {
                reference.decide(now);
            }
            let before = reference.structure_cost();
            reference.decide(10);
            let after = reference.structure_cost();
            (after.cycles - before.cycles, after.changes - before.changes)
        };
        assert_eq!(cycles(Structure::Shuffle), (2 + 1, 0));
        assert_eq!(cycles(Structure::ShiftRegister), (1 + 8, 8));
        assert_eq!(cycles(Structure::Systolic), (1 + 16, 8));
    }

    #[test]
    fn relaxed_updates_charge_misses_in_each_rth_decision() {
        let settings = Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false };
        let mut reference = Reference::with_structure(settings, Structure::Shuffle, Relaxed(4));
        for i in 0..2 {
            let stream = reference.load(&load(i, 1, (1, 2), false)).expect("a contract");
            (0..16).for_each(|_| reference.enqueue(0, stream, 64));
        }
        let missed = |reference: &Reference| {
            [0, 1].map(|stream| reference.attributes(StreamId(stream)).missed)
        };
        let mut history = Vec::new();
        for now in 0..9 {
            reference.decide(now);
            history.push(missed(&reference).iter().sum::<u64>());
        }
        // Decision 0 has nothing to charge; decisions 4 and 8 charge the periods since the last.
        assert_eq!(history, [0, 0, 0, 0, 4, 4, 4, 4, 8]);
    }
}
