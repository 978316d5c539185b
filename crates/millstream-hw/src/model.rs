//! The reference: the engine's selector with queues and counters.

use std::collections::VecDeque;

use millstream::selector::{Backlog, NewHead, Select, Selector};
use millstream::{
    Contract, ContractError, Departure, Discipline, Dwcs, DwcsOptions, Edf, EdfFirst, Event, Head,
    Late, Link, Observer, Rules, Scan, Scfq, StaticPriority, StreamId, Window, ZeroWindow,
};

use crate::block::{BlockScheduler, SortingNetwork};
use crate::priority_queue::{Cost, Relaxed, Structure, StructureScheduler};

/// The discipline, numbered as in the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// DWCS, earliest deadline first.
    Dwcs = 0,
    /// EDF.
    Edf = 1,
    /// Static priority.
    Static = 2,
    /// Lowest service tag first. Tags are those of self-clocked fair queueing.
    Tag = 3,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Dwcs, Self::Edf, Self::Static, Self::Tag];
}

/// Settings of the discipline.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The discipline.
    pub mode: Mode,
    /// Ranks the lowest y' first among zero window-constraints.
    pub lowest_denominator: bool,
    /// Uses the update rules of 1999.
    pub rtas99: bool,
}

/// A stream's contract, in the hardware's widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Load {
    /// The first packet's deadline, if `first` is not 0.
    pub deadline: u64,
    /// The request period, ticks.
    pub period: u16,
    /// The static priority.
    pub priority: u16,
    /// The share under fair queueing.
    pub weight: u16,
    /// x.
    pub x: u8,
    /// y.
    pub y: u8,
    /// Nonzero: late heads are dropped.
    pub drop: u8,
    /// Nonzero: `deadline` is used.
    pub first: u8,
}

impl Load {
    /// Returns the increment of y' at a violation, as loaded into the hardware.
    #[must_use]
    pub fn growth(&self, rtas99: bool) -> u8 {
        match (rtas99, self.x) {
            (false, _) => 1,
            (true, 0) => self.y,
            (true, x) => (self.y - x).div_ceil(x),
        }
    }

    fn contract(&self) -> Result<Contract, ContractError> {
        let mut contract = Contract::new()
            .period_ns(u64::from(self.period))?
            .window(Window::new(u32::from(self.x), u32::from(self.y))?)
            .late(if self.drop == 0 { Late::Send } else { Late::Drop })
            .priority(u32::from(self.priority))
            .weight(u32::from(self.weight))?;
        if self.first != 0 {
            contract = contract.first_deadline_ns(self.deadline);
        }
        Ok(contract)
    }
}

/// The visible state of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Attributes {
    /// The head's deadline, or that of the last packet sent.
    pub deadline: u64,
    /// Arrival time of the head.
    pub arrival: u64,
    /// y'.
    pub y: u64,
    /// Deadlines missed.
    pub missed: u64,
    /// Misses beyond the window-constraint.
    pub violations: u64,
    /// Packets sent.
    pub serviced: u64,
    /// Packets dropped late.
    pub dropped: u64,
    /// x'.
    pub x: u32,
    /// Waiting packets, the head included.
    pub waiting: u32,
}

/// The queues of all streams.
#[derive(Debug, Default)]
struct PacketQueues(Vec<VecDeque<Head>>);

impl PacketQueues {
    fn head(&self, stream: StreamId) -> Option<NewHead<()>> {
        let head = *self.0[stream.index()].front()?;
        Some(NewHead { head, stamp: (), open: true })
    }
}

impl Backlog<()> for PacketQueues {
    fn drop_head(
        &mut self,
        stream: StreamId,
        now_ns: u64,
        deadline_ns: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<NewHead<()>> {
        let head = self.0[stream.index()].pop_front()?;
        observer.dropped(&Departure {
            time_ns: now_ns,
            stream,
            packet: 0,
            bytes: head.bytes,
            arrival_ns: head.arrival_ns,
            deadline_ns,
            event: Event::DroppedLate,
            tag: 0,
        });
        self.head(stream)
    }
}

/// Counters of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct StreamCounters {
    missed: u64,
    violations: u64,
    serviced: u64,
    dropped: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters(Vec<StreamCounters>);

impl Counters {
    /// Adds a stream.
    pub(crate) fn add(&mut self) {
        self.0.push(StreamCounters::default());
    }

    pub(crate) fn count_drop(&mut self, stream: StreamId) {
        self.0[stream.index()].dropped += 1;
    }

    pub(crate) fn count_service(&mut self, stream: StreamId) {
        self.0[stream.index()].serviced += 1;
    }

    /// Returns the visible state of a stream.
    pub(crate) fn attributes(
        &self,
        stream: StreamId,
        queue: &VecDeque<Head>,
        deadline: u64,
        (x, y): (u32, u64),
    ) -> Attributes {
        let count = self.0[stream.index()];
        Attributes {
            deadline,
            arrival: queue.front().map_or(0, |head| head.arrival_ns),
            y,
            missed: count.missed,
            violations: count.violations,
            serviced: count.serviced,
            dropped: count.dropped,
            x,
            waiting: u32::try_from(queue.len()).expect("fewer than 2^32 packets"),
        }
    }
}

impl Observer for Counters {
    fn missed(&mut self, stream: StreamId, _: u64, missed: u64, violations: u64) {
        let count = &mut self.0[stream.index()];
        count.missed += missed;
        count.violations += violations;
    }

    fn dropped(&mut self, departure: &Departure) {
        self.count_drop(departure.stream);
    }
}

/// The operations of a reference, independent of its discipline.
pub(crate) trait Model {
    fn load(&mut self, contract: &Contract) -> Result<StreamId, ContractError>;
    fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32);
    fn charge(&mut self, now: u64);
    fn decide(&mut self, now: u64, winners: &mut Vec<StreamId>);
    /// Returns the sorted list of the last decision, if the model has one.
    ///
    /// An entry holds whether the stream has a packet, and its number.
    fn list(&self) -> &[(bool, StreamId)] {
        &[]
    }
    fn attributes(&self, stream: StreamId) -> Attributes;
    /// Removes all packets of `stream`.
    fn discard(&mut self, _stream: StreamId) {
        unimplemented!("only the engine's selector replaces streams");
    }
    /// Returns the cost of the structure's decisions; zeros if the model has no structure.
    fn cost(&self) -> Cost {
        Cost::default()
    }
}

struct EngineModel<D: Discipline> {
    selector: Selector<D, Scan<D::Rank>>,
    queues: PacketQueues,
    counts: Counters,
    /// Returns x' and y' of a state; zeros if the discipline has none.
    window: fn(&D::State) -> (u32, u64),
}

impl<D: Discipline<Stamp = ()>> Model for EngineModel<D> {
    fn load(&mut self, contract: &Contract) -> Result<StreamId, ContractError> {
        let stream = self.selector.add_stream(contract)?;
        self.queues.0.push(VecDeque::new());
        self.counts.add();
        Ok(stream)
    }

    fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32) {
        self.selector.advance(now);
        let queue = &mut self.queues.0[stream.index()];
        let head = Head { arrival_ns: now, bytes };
        queue.push_back(head);
        let first = queue.len() == 1;
        self.selector.arrived(stream, bytes, true);
        if first {
            self.selector.became_backlogged(stream, NewHead { head, stamp: (), open: true });
        }
    }

    fn charge(&mut self, now: u64) {
        self.selector.advance(now);
        if self.selector.has_deadlines() {
            self.selector.charge_misses(now, &mut self.queues, &mut self.counts);
        }
    }

    fn decide(&mut self, now: u64, winners: &mut Vec<StreamId>) {
        self.selector.advance(now);
        if self.queues.0.iter().all(VecDeque::is_empty) {
            return self.selector.idle();
        }
        let selected = self.selector.select(now, &mut self.queues, &mut self.counts);
        let Some(stream) = selected else { return };
        self.queues.0[stream.index()].pop_front();
        if self.selector.served(stream, now) {
            self.counts.missed(stream, now, 1, 0);
        }
        self.selector.head_departed(stream, self.queues.head(stream));
        self.counts.count_service(stream);
        winners.push(stream);
    }

    fn attributes(&self, stream: StreamId) -> Attributes {
        let deadline = self.selector.deadline_ns(stream).unwrap_or(0);
        let window = (self.window)(self.selector.state(stream));
        self.counts.attributes(stream, &self.queues.0[stream.index()], deadline, window)
    }

    fn discard(&mut self, stream: StreamId) {
        let queue = &mut self.queues.0[stream.index()];
        if !queue.is_empty() {
            queue.clear();
            self.selector.head_departed(stream, None);
        }
    }
}

/// Builds a model of any discipline.
trait ModelBuilder {
    fn build<D: Discipline<Stamp = ()> + Send + 'static>(
        self,
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
    ) -> Box<dyn Model + Send>
    where
        D::State: Send,
        D::Rank: Send;
}

/// Builds models on the engine's selector, over structure `scan`.
struct ScanModel;

impl ModelBuilder for ScanModel {
    fn build<D: Discipline<Stamp = ()> + Send + 'static>(
        self,
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
    ) -> Box<dyn Model + Send>
    where
        D::State: Send,
        D::Rank: Send,
    {
        let selector = Selector::new(discipline, Scan::default());
        Box::new(EngineModel {
            selector,
            queues: PacketQueues::default(),
            counts: Counters::default(),
            window,
        })
    }
}

/// Builds models with block decisions.
struct BlockModel(SortingNetwork, usize);

impl ModelBuilder for BlockModel {
    fn build<D: Discipline<Stamp = ()> + Send + 'static>(
        self,
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
    ) -> Box<dyn Model + Send>
    where
        D::State: Send,
        D::Rank: Send,
    {
        Box::new(BlockScheduler::new(discipline, window, self.0, self.1))
    }
}

/// Builds models on a hardware priority queue.
struct StructureModel(Structure, Relaxed);

impl ModelBuilder for StructureModel {
    fn build<D: Discipline<Stamp = ()> + Send + 'static>(
        self,
        discipline: D,
        window: fn(&D::State) -> (u32, u64),
    ) -> Box<dyn Model + Send>
    where
        D::State: Send,
        D::Rank: Send,
    {
        Box::new(StructureScheduler::new(discipline, window, self.0, self.1))
    }
}

impl Settings {
    fn model(self, builder: impl ModelBuilder) -> Box<dyn Model + Send> {
        match self.mode {
            Mode::Dwcs => {
                let rules = if self.rtas99 { Rules::Rtas99 } else { Rules::Standard };
                let zero_window = if self.lowest_denominator {
                    ZeroWindow::LowestDenominator
                } else {
                    ZeroWindow::HighestDenominator
                };
                let dwcs = Dwcs::<EdfFirst>::new(DwcsOptions { rules, zero_window });
                builder.build(dwcs, |state| state.window())
            }
            Mode::Edf => builder.build(Edf, |_| (0, 0)),
            Mode::Static => builder.build(StaticPriority, |_| (0, 0)),
            Mode::Tag => builder.build(Scfq::new(Link::default(), 0), |_| (0, 0)),
        }
    }
}

/// The engine as the hardware's reference model.
pub struct Reference {
    model: Box<dyn Model + Send>,
    streams: usize,
    winners: Vec<StreamId>,
}

impl Reference {
    /// Creates a reference without streams.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_model(settings.model(ScanModel))
    }

    /// Deprecated alias of [`with_blocks`](Self::with_blocks).
    #[deprecated(note = "renamed to `with_blocks`")]
    #[must_use]
    pub fn in_blocks(settings: Settings, network: SortingNetwork, block: usize) -> Self {
        Self::with_blocks(settings, network, block)
    }

    /// Creates a reference whose decisions serve the first `block` streams of the sorted list.
    #[must_use]
    pub fn with_blocks(settings: Settings, network: SortingNetwork, block: usize) -> Self {
        Self::with_model(settings.model(BlockModel(network, block)))
    }

    /// Creates a reference on a hardware priority queue. With relaxed updates its decisions differ
    /// from the engine's.
    #[must_use]
    pub fn with_structure(settings: Settings, structure: Structure, relaxed: Relaxed) -> Self {
        Self::with_model(settings.model(StructureModel(structure, relaxed)))
    }

    fn with_model(model: Box<dyn Model + Send>) -> Self {
        Self { model, streams: 0, winners: Vec::new() }
    }

    /// Returns the number of loaded streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Adds a stream; streams are numbered from 0.
    ///
    /// # Errors
    /// Returns the engine's error, if the contract cannot be scheduled.
    pub fn load(&mut self, load: &Load) -> Result<StreamId, ContractError> {
        let stream = self.model.load(&load.contract()?)?;
        self.streams += 1;
        Ok(stream)
    }

    /// Discards the packets of `stream` and adds its successor, which comes last among equals.
    ///
    /// # Errors
    /// Returns the engine's error, if the contract cannot be scheduled.
    ///
    /// # Panics
    /// Panics if `stream` was not loaded, and with blocks or a hardware priority queue.
    pub fn replace(&mut self, stream: StreamId, load: &Load) -> Result<StreamId, ContractError> {
        self.model.discard(stream);
        self.load(load)
    }

    /// Enqueues a packet.
    ///
    /// # Panics
    /// Panics if `stream` was not loaded.
    pub fn enqueue(&mut self, now: u64, stream: StreamId, bytes: u32) {
        self.model.enqueue(now, stream, bytes);
    }

    /// Charges the deadlines that have passed at `now`.
    pub fn charge(&mut self, now: u64) {
        self.model.charge(now);
    }

    /// Makes a decision at `now`; returns the (first) stream whose head is sent.
    pub fn decide(&mut self, now: u64) -> Option<StreamId> {
        self.winners.clear();
        self.model.decide(now, &mut self.winners);
        self.winners.first().copied()
    }

    /// Returns the streams served by the last decision, in order; at most one without blocks.
    #[must_use]
    pub fn winners(&self) -> &[StreamId] {
        &self.winners
    }

    /// Returns the sorted list of the last block decision.
    ///
    /// An entry holds whether the stream has a packet, and its number.
    #[must_use]
    pub fn list(&self) -> &[(bool, StreamId)] {
        self.model.list()
    }

    /// Returns the cost of all decisions on a hardware priority queue; zeros without one.
    #[must_use]
    pub fn structure_cost(&self) -> Cost {
        self.model.cost()
    }

    /// Returns the visible state of `stream`.
    ///
    /// # Panics
    /// Panics if `stream` was not loaded.
    #[must_use]
    pub fn attributes(&self, stream: StreamId) -> Attributes {
        self.model.attributes(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dwcs() -> Reference {
        Reference::new(Settings { mode: Mode::Dwcs, lowest_denominator: false, rtas99: false })
    }

    fn load(x: u8, y: u8) -> Load {
        Load { deadline: 0, period: 1, priority: 0, weight: 1, x, y, drop: 0, first: 0 }
    }

    #[test]
    fn the_published_example_is_served_in_its_order() {
        let mut reference = dwcs();
        let windows = [(1, 2), (3, 4), (6, 8)];
        let streams = windows.map(|(x, y)| reference.load(&load(x, y)).expect("a contract"));
        for stream in streams.iter().flat_map(|stream| [*stream; 8]) {
            reference.enqueue(0, stream, 1);
        }
        let order: Vec<_> = (0..8).map(|now| reference.decide(now).map_or(9, |s| s.0)).collect();
        assert_eq!(order, [0, 1, 0, 2, 0, 1, 0, 2]);
    }

    #[test]
    fn a_replaced_stream_leaves_its_packets_and_counters() {
        let mut reference = dwcs();
        let [first, second] = [(1, 3), (1, 2)].map(|(x, y)| reference.load(&load(x, y)).unwrap());
        for stream in [first, second, second] {
            reference.enqueue(0, stream, 1);
        }
        assert_eq!(reference.decide(0), Some(first));
        let third = reference.replace(second, &load(0, 4)).unwrap();
        assert_eq!((third.index(), reference.attributes(third).y), (2, 4));
        assert_eq!(reference.decide(1), None);
        reference.enqueue(2, third, 1);
        assert_eq!(reference.decide(2), Some(third));
        assert_eq!(reference.attributes(third).serviced, 1);
    }

    #[test]
    fn charging_before_a_decision_changes_nothing() {
        let (mut eager, mut lazy) = (dwcs(), dwcs());
        for reference in [&mut eager, &mut lazy] {
            for (x, y) in [(1, 3), (0, 2), (2, 5)] {
                let stream = reference.load(&load(x, y)).expect("a contract");
                (0..40).for_each(|_| reference.enqueue(0, stream, 1));
            }
        }
        for now in (0..90).step_by(3) {
            eager.charge(now);
            eager.charge(now);
            assert_eq!(eager.decide(now), lazy.decide(now));
            for stream in (0..3).map(StreamId) {
                assert_eq!(eager.attributes(stream), lazy.attributes(stream));
            }
        }
    }
}
