//! The environment of the hardware: offered packets, the reference engine, and their comparison.

use std::collections::VecDeque;

use millstream::StreamId;
use millstream_hw::{Attributes, Mode, Reference};

use crate::model::Stream;
use crate::traffic::{Arrivals, Dice, Epoch, load as random_load};

/// Deadlines at least this far from now count as outside the window.
const WINDOW: u64 = 1 << 14;

/// Service tags are in units of 1/TAG_UNIT byte, a common multiple of all weights.
const TAG_UNIT: u64 = 8;

/// The packets of a stream.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Tags and stamps of all waiting packets, the head included.
    waiting: VecDeque<(u64, u16)>,
    /// The tag of the last packet.
    tag: u64,
    /// Whether a packet has arrived since the load.
    seen: bool,
}

/// What the hardware shows of a stream at one time, by the engine.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The engine's attributes.
    pub attributes: Attributes,
    /// The stamp of the head.
    stamp: Option<u16>,
    /// Whether a packet has arrived since the load.
    seen: bool,
}

/// The traffic of an epoch, and the engine that schedules it.
pub struct Source<'a> {
    pub dice: &'a mut Dice,
    pub epoch: Epoch,
    pub reference: Reference,
    queues: Vec<Queue>,
    /// The engine's stream of each of the hardware's.
    ids: Vec<StreamId>,
    /// The time of the next decision.
    pub now: u64,
    /// Packets that a decision serves, and so the usual step.
    block: u16,
    /// Packets of a step of at most 1 are stamped with the time of the next decision.
    pub punctual: bool,
    /// Virtual time of self-clocked fair queueing: the tag of the packet in service.
    virtual_time: u64,
}

impl<'a> Source<'a> {
    /// Creates streams to be loaded, for blocks of `block` packets.
    pub fn new(dice: &'a mut Dice, epoch: Epoch, reference: Reference, block: u16) -> Self {
        let queues = vec![Queue::default(); epoch.loads.len()];
        Self {
            dice,
            epoch,
            reference,
            queues,
            ids: Vec::new(),
            now: 0,
            block,
            punctual: false,
            virtual_time: 0,
        }
    }

    /// Starts at a random time, the hardware's `now`, and loads the engine. Calls `each` with each
    /// stream's contract and deadline.
    pub fn load(
        &mut self,
        now: u16,
        mut each: impl FnMut(usize, &millstream_hw::Load, u16),
    ) -> Result<(), String> {
        self.now = 65_536 * (1 + u64::from(self.dice.below(3))) + u64::from(now);
        for (i, load) in self.epoch.loads.iter_mut().enumerate() {
            load.deadline += self.now;
            each(i, load, deadline(self.epoch.settings.mode, load, now));
            self.ids.push(self.reference.load(load).map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Replaces the contract of the last stream by a random one, as a LOAD does; returns it with
    /// its deadline. The engine numbers new streams upwards, and numbers break ties, so the others
    /// cannot be replaced.
    pub fn replace_last(&mut self) -> Result<(millstream_hw::Load, u16), String> {
        let last = self.queues.len() - 1;
        let mut load = random_load(self.dice, self.epoch.settings.mode);
        load.deadline += self.now;
        let replaced = self.reference.replace(self.ids[last], &load);
        self.ids[last] = replaced.map_err(|error| error.to_string())?;
        self.epoch.loads[last] = load;
        self.queues[last] = Queue::default();
        Ok((load, deadline(self.epoch.settings.mode, &load, self.now as u16)))
    }

    /// Enqueues a packet of the last stream, stamped with the time of the next decision; returns
    /// its stamp.
    pub fn arrive_last(&mut self) -> u16 {
        self.enqueue(self.queues.len() - 1, self.now)
    }

    /// Returns the next increment of time.
    pub fn step(&mut self) -> u16 {
        if !self.epoch.uneven_steps || !self.dice.one_in(3) {
            return self.block;
        }
        match self.dice.below(400) {
            0 => self.dice.below(10_000) as u16,
            1..20 => self.dice.below(300) as u16,
            _ => self.dice.below(4) as u16,
        }
    }

    /// Returns the packets that arrive in the next `step` ticks: stream and stamp of each.
    pub fn arrive(&mut self, step: u32, mut offer: impl FnMut(usize, u16)) {
        let punctual = self.punctual && step <= 1;
        let mut time = self.now + if punctual { u64::from(step) } else { 0 };
        for i in 0..self.queues.len() {
            let count = match self.epoch.arrivals {
                Arrivals::Backlogged => u32::from(self.queues[i].waiting.len() < 3),
                Arrivals::Chance(chance) => u32::from(self.dice.below(256) < chance),
            };
            // Time is non-decreasing from stream to stream.
            let late = self.now + u64::from(step) - time;
            if late > 0 && self.dice.one_in(2) {
                time += u64::from(self.dice.below(late as u32 + 1));
            }
            for _ in 0..count {
                offer(i, self.enqueue(i, time));
            }
        }
    }

    fn enqueue(&mut self, i: usize, time: u64) -> u16 {
        let bytes = 1 + self.dice.below(16);
        self.reference.enqueue(time, self.ids[i], bytes);
        let queue = &mut self.queues[i];
        let length = u64::from(bytes) * TAG_UNIT / u64::from(self.epoch.loads[i].weight);
        queue.tag = queue.tag.max(self.virtual_time) + length;
        let tagged = self.epoch.settings.mode == Mode::Tag;
        let stamp = if tagged { queue.tag as u16 } else { time as u16 };
        queue.waiting.push_back((queue.tag, stamp));
        queue.seen = true;
        stamp
    }

    /// Makes the engine's decision, and advances the virtual time.
    pub fn decide(&mut self) -> Option<usize> {
        let last = self.queues.len() - 1;
        let number = |stream: StreamId| stream.index().min(last);
        let winner = self.reference.decide(self.now).map(number);
        self.virtual_time = 0;
        for stream in self.reference.winners() {
            let served = self.queues[number(*stream)].waiting.pop_front();
            self.virtual_time = served.map_or(0, |(tag, _)| tag);
        }
        if winner.is_none() {
            self.queues.iter_mut().for_each(|queue| queue.tag = 0);
        }
        winner
    }

    /// Returns the engine's attributes of each stream.
    pub fn all(&self) -> Vec<Attributes> {
        self.ids.iter().map(|id| self.reference.attributes(*id)).collect()
    }

    /// Returns the engine's attributes, unless a value left the hardware's widths or window.
    pub fn attributes(&self) -> Option<Vec<Attributes>> {
        let all = self.all();
        let far = |attributes: &Attributes| {
            let ahead = attributes.deadline.saturating_sub(self.now);
            let behind = self.now.saturating_sub(attributes.deadline);
            ahead >= WINDOW || (attributes.waiting > 0 && behind >= WINDOW)
        };
        let aged = |attributes: &Attributes| {
            attributes.waiting > 0 && self.now - attributes.arrival >= 1 << 15
        };
        let leaves = |a: &Attributes| a.y > 255 || aged(a) || (self.timed() && far(a));
        (!all.iter().any(leaves)).then_some(all)
    }

    /// Returns whether the mode has deadlines.
    pub fn timed(&self) -> bool {
        matches!(self.epoch.settings.mode, Mode::Dwcs | Mode::Edf)
    }

    /// Returns what the hardware shall show of stream `i`.
    pub fn expected(&mut self, i: usize, attributes: &Attributes) -> Expected {
        let queue = &mut self.queues[i];
        while queue.waiting.len() > attributes.waiting as usize {
            queue.waiting.pop_front();
        }
        let stamp = queue.waiting.front().map(|(_, stamp)| *stamp);
        Expected { attributes: *attributes, stamp, seen: queue.seen }
    }

    /// Compares stream `i` of the hardware, where it is number `id`, with the engine's.
    pub fn compare(
        &mut self,
        i: usize,
        id: usize,
        got: Stream,
        attributes: &Attributes,
    ) -> Result<(), String> {
        let expected = self.expected(i, attributes);
        self.compare_with(i, id, got, &expected)
    }

    /// Compares stream `i` as [`Self::compare`] does, with the engine's at another time.
    pub fn compare_with(
        &self,
        i: usize,
        id: usize,
        got: Stream,
        expected: &Expected,
    ) -> Result<(), String> {
        let Expected { attributes, stamp, seen } = expected;
        let dwcs = self.epoch.settings.mode == Mode::Dwcs;
        let same = (got.valid == 1) == (attributes.waiting > 0)
            && usize::from(got.id) == id
            && (!self.timed() || !seen || got.deadline == attributes.deadline as u16)
            && (!dwcs || (u32::from(got.x), u64::from(got.y)) == (attributes.x, attributes.y))
            && stamp.is_none_or(|stamp| got.arrival == stamp)
            && got.missed == attributes.missed as u16
            && got.violations == attributes.violations as u16
            && got.serviced == attributes.serviced as u16;
        if same {
            return Ok(());
        }
        let load = self.epoch.loads[i];
        Err(format!("stream {i} {load:?}: {got:?}, the engine's {expected:?}"))
    }
}

/// Returns the deadline field of a LOAD at time `now`.
fn deadline(mode: Mode, load: &millstream_hw::Load, now: u16) -> u16 {
    match (mode, load.first) {
        (Mode::Static, _) => load.priority,
        (_, 0) => now,
        _ => load.deadline as u16,
    }
}

/// Event counts in equal decisions, which show that the traffic was demanding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub decisions: u64,
    pub epochs: u64,
    pub missed: u64,
    pub violations: u64,
    pub dropped: u64,
    pub serviced: u64,
}

impl Counters {
    /// Records the end of an epoch of this many decisions.
    pub fn add(&mut self, decisions: u64, source: &Source<'_>) {
        self.decisions += decisions;
        self.epochs += 1;
        for attributes in source.all() {
            self.missed += attributes.missed;
            self.violations += attributes.violations;
            self.dropped += attributes.dropped;
            self.serviced += attributes.serviced;
        }
    }
}
