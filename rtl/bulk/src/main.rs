//! Holds every configuration of the hardware against the engine, decision for decision.
//!
//! After each decision the winner is compared, and before the next one every stream's head, x',
//! y', deadline and counters, and that a decision took exactly the cycles it should. An epoch (one
//! set of contracts) ends when a value leaves the hardware's widths or its wrap-around window.
//!
//! Usage: millstream-rtl-bulk DECISIONS [SEED [PAGE]]: so many decisions in all, in equal parts for each
//! configuration and mode. A difference ends the run with the seed and what differs. Before, a
//! canary: hardware set to another zero-window order than the engine must be found out. What was
//! covered is written to PAGE, or printed; from a million decisions on an empty bin is a failure.

#[cfg(test)]
mod claims;
mod coverage;
mod model;
mod traffic;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;

use millstream::StreamId;
use millstream_hw::{Attributes, Mode, Reference};

use coverage::{Before, Coverage};
use model::{CONFIGURATIONS, Configuration, Core, Outputs, config_bits, load_bits};
use traffic::{Arrivals, Dice, Epoch};

/// From here on a deadline's distance to now counts as out of the window.
const WINDOW: u64 = 1 << 14;

/// Service tags are in units of 1/TAG_UNIT byte, which all weights divide.
const TAG_UNIT: u64 = 8;

/// From so many decisions on everything that can happen must have.
const COVERED: u64 = 1_000_000;

/// Most epochs end soon, so that many contracts are seen ...
const EPOCH_DECISIONS: u32 = 600;

/// ... one in twenty so late that deadlines drift and times wrap.
const LONG_EPOCH_DECISIONS: u64 = 30_000;

/// A stream's packets as the program outside the hardware knows them.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Stamps of packets not taken yet.
    outside: VecDeque<u16>,
    /// Tags and stamps of all that wait, the head included.
    waiting: VecDeque<(u64, u16)>,
    /// The tag of the last packet.
    tag: u64,
    /// A packet has come since the stream was loaded.
    seen: bool,
}

/// What happened in decisions that were equal, to show that the traffic was worth it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    decisions: u64,
    epochs: u64,
    missed: u64,
    violations: u64,
    dropped: u64,
    serviced: u64,
}

struct Run<'a> {
    core: &'a mut Core,
    dice: &'a mut Dice,
    epoch: Epoch,
    reference: Reference,
    queues: Vec<Queue>,
    now: u64,
    /// Virtual time of self-clocked fair queueing: the tag of the packet in service.
    virtual_time: u64,
    coverage: Coverage,
    /// The streams at the decision before.
    before: Vec<Before>,
}

impl Run<'_> {
    /// One epoch of at most `most` decisions; returns how many were made.
    fn epoch(&mut self, most: u64) -> Result<u64, String> {
        self.load()?;
        let mut expected = None;
        for made in 0..=most {
            let last = made == most;
            let start = self.until_ready(expected, made > 0)?;
            if !self.compare(start)? || last {
                return Ok(made);
            }
            expected = Some(self.decision(start.now)?);
        }
        Ok(most)
    }

    fn load(&mut self) -> Result<(), String> {
        let rtas99 = self.epoch.settings.rtas99;
        let core = &mut self.core;
        core.inputs.decide = 0;
        core.inputs.packet_valid = 0;
        core.inputs.config = config_bits(self.epoch.settings);
        // A cycle in which the control unit is ready, whatever the epoch before left behind.
        let out = core.settle();
        core.clock();
        self.now = 65_536 * (1 + u64::from(self.dice.below(3))) + u64::from(out.now);
        for (i, load) in self.epoch.loads.iter_mut().enumerate() {
            load.deadline += self.now;
            let deadline = match (self.epoch.settings.mode, load.first) {
                (Mode::Static, _) => load.priority,
                (_, 0) => out.now,
                _ => load.deadline as u16,
            };
            core.inputs.load = load_bits(load, rtas99, deadline, load.first != 0);
            core.inputs.load_valid = 1;
            core.inputs.load_id = i as u8;
            core.settle();
            core.clock();
            self.reference.load(load).map_err(|error| error.to_string())?;
        }
        core.inputs.load_valid = 0;
        Ok(())
    }

    /// Sets the queues' fronts and lets the outputs follow.
    fn settle(&mut self) -> Outputs {
        let inputs = &mut self.core.inputs;
        inputs.packet_valid = 0;
        for (i, queue) in self.queues.iter().enumerate() {
            if let Some(&stamp) = queue.outside.front() {
                inputs.packet_valid |= 1 << i;
                inputs.stamp[i] = stamp;
            }
        }
        self.core.settle()
    }

    /// The rising edge, at which packets are taken.
    fn clock(&mut self, out: Outputs) {
        let mut take = out.take;
        while take != 0 {
            self.queues[take.trailing_zeros() as usize].outside.pop_front();
            take &= take - 1;
        }
        self.core.clock();
    }

    /// Ends the last decision, lets some time pass without one, and waits until the next can start.
    fn until_ready(
        &mut self,
        expected: Option<Option<usize>>,
        after: bool,
    ) -> Result<Outputs, String> {
        let mut gap = if self.dice.one_in(4) || !after { 1 + self.dice.below(3) } else { 0 };
        if gap > 0 {
            self.arrive(0);
            self.reference.charge(self.now);
            gap += self.core.configuration.settling(!after);
        }
        for cycle in 0_u32.. {
            self.core.inputs.decide = u8::from(cycle >= gap);
            let out = self.settle();
            let ended = after && cycle == 0;
            if (out.decided == 1) != ended {
                return Err(format!(
                    "decided is {} in cycle {cycle} after a decision",
                    out.decided
                ));
            }
            if let (true, Some(expected)) = (ended, expected) {
                let winner = (out.winner_valid == 1).then_some(usize::from(out.winner));
                if winner != expected {
                    return Err(format!("winner {winner:?}, the engine's {expected:?}"));
                }
                self.compare_list(winner)?;
            }
            if out.ready == 1 && cycle >= gap {
                return Ok(out);
            }
            if cycle > 1 << 17 {
                return Err("never ready again".to_owned());
            }
            self.clock(out);
        }
        unreachable!("the loop returns")
    }

    /// The list is a permutation that begins with the winner.
    fn compare_list(&mut self, winner: Option<usize>) -> Result<(), String> {
        if self.core.configuration.winner_only {
            return Ok(());
        }
        let list: Vec<_> = (0..self.queues.len()).map(|i| self.core.list(i)).collect();
        let present = list.iter().fold(0_u64, |present, entry| present | 1 << entry.1);
        let first = list[0].0.then_some(list[0].1);
        if present.count_ones() as usize == list.len() && first == winner {
            Ok(())
        } else {
            Err(format!("the list is {list:?}, the winner {winner:?}"))
        }
    }

    /// Makes the decision that is about to start; returns the engine's winner.
    fn decision(&mut self, now: u16) -> Result<Option<usize>, String> {
        let step = self.step();
        let expected = self.reference.decide(self.now).map(StreamId::index);
        self.coverage.decided(self.epoch.settings, now, &self.before, expected);
        self.coverage.moved(now, now.wrapping_add(step));
        self.virtual_time = match expected {
            Some(winner) => self.queues[winner].waiting.pop_front().map_or(0, |(tag, _)| tag),
            None => 0,
        };
        if expected.is_none() {
            self.queues.iter_mut().for_each(|queue| queue.tag = 0);
        }
        self.core.inputs.step = step;
        self.arrive(u32::from(step));
        self.now += u64::from(step);
        self.reference.charge(self.now);
        for cycle in 0..self.core.configuration.cycles() {
            let out = self.settle();
            if cycle > 0 && out.decided == 1 {
                return Err(format!("decided in cycle {cycle}"));
            }
            self.clock(out);
        }
        Ok(expected)
    }

    fn step(&mut self) -> u16 {
        if !self.epoch.uneven_steps || !self.dice.one_in(3) {
            return 1;
        }
        match self.dice.below(400) {
            0 => self.dice.below(10_000) as u16,
            1..20 => self.dice.below(300) as u16,
            _ => self.dice.below(4) as u16,
        }
    }

    /// Packets that arrive in the next `step` ticks.
    fn arrive(&mut self, step: u32) {
        let mut time = self.now;
        for i in 0..self.queues.len() {
            let count = match self.epoch.arrivals {
                Arrivals::Backlogged => u32::from(self.queues[i].waiting.len() < 3),
                Arrivals::Chance(chance) => u32::from(self.dice.below(256) < chance),
            };
            // Time does not go back from stream to stream.
            let late = u64::from(step) - (time - self.now);
            if late > 0 && self.dice.one_in(2) {
                time += u64::from(self.dice.below(late as u32 + 1));
            }
            for _ in 0..count {
                self.enqueue(i, time);
            }
        }
    }

    fn enqueue(&mut self, i: usize, time: u64) {
        let bytes = 1 + self.dice.below(16);
        self.reference.enqueue(time, StreamId(i as u32), bytes);
        let queue = &mut self.queues[i];
        let length = u64::from(bytes) * TAG_UNIT / u64::from(self.epoch.loads[i].weight);
        queue.tag = queue.tag.max(self.virtual_time) + length;
        let tagged = self.epoch.settings.mode == Mode::Tag;
        let stamp = if tagged { queue.tag as u16 } else { time as u16 };
        queue.outside.push_back(stamp);
        queue.waiting.push_back((queue.tag, stamp));
        queue.seen = true;
    }

    /// Compares every stream; false if a value left the hardware's widths or window.
    fn compare(&mut self, out: Outputs) -> Result<bool, String> {
        let settings = self.epoch.settings;
        let timed = matches!(settings.mode, Mode::Dwcs | Mode::Edf);
        let all: Vec<Attributes> =
            (0..self.queues.len()).map(|i| self.reference.attributes(StreamId(i as u32))).collect();
        let far = |attributes: &Attributes| {
            let ahead = attributes.deadline.saturating_sub(self.now);
            let behind = self.now.saturating_sub(attributes.deadline);
            ahead >= WINDOW || (attributes.waiting > 0 && behind >= WINDOW)
        };
        let aged = |attributes: &Attributes| {
            attributes.waiting > 0 && self.now - attributes.arrival >= 1 << 15
        };
        if all.iter().any(|a| a.y > 255 || aged(a) || (timed && far(a))) {
            return Ok(false);
        }
        if out.now != self.now as u16 {
            return Err(format!("now {}, the engine's {}", out.now, self.now as u16));
        }
        if timed && out.range != 0 {
            return Err(format!("out of range {:#x}, though nothing is", out.range));
        }
        let mut streams = Vec::with_capacity(all.len());
        for (i, expected) in all.iter().enumerate() {
            let queue = &mut self.queues[i];
            while queue.waiting.len() > expected.waiting as usize {
                queue.waiting.pop_front();
            }
            let got = self.core.stream(i);
            let dwcs = settings.mode == Mode::Dwcs;
            let same = (got.valid == 1) == (expected.waiting > 0)
                && usize::from(got.id) == i
                && (!timed || !queue.seen || got.deadline == expected.deadline as u16)
                && (!dwcs || (u32::from(got.x), u64::from(got.y)) == (expected.x, expected.y))
                && queue.waiting.front().is_none_or(|(_, stamp)| got.arrival == *stamp)
                && got.missed == expected.missed as u16
                && got.violations == expected.violations as u16
                && got.serviced == expected.serviced as u16;
            if !same {
                let load = self.epoch.loads[i];
                return Err(format!("stream {i} {load:?}: {got:?}, the engine's {expected:?}"));
            }
            streams.push(Before { stream: got, dropped: expected.dropped });
        }
        for ((load, from), to) in self.epoch.loads.iter().zip(&self.before).zip(&streams) {
            self.coverage.changed(settings, load, from, to);
        }
        self.before = streams;
        Ok(true)
    }
}

/// So many decisions of one configuration in one mode. With `canary` the hardware is told another
/// zero-window order than the engine.
fn compare(
    configuration: Configuration,
    mode: Mode,
    decisions: u64,
    seed: u64,
    canary: bool,
) -> Result<(Tally, Coverage), String> {
    let mut dice = Dice::new(seed);
    let mut core = Core::new(configuration);
    let mut tally = Tally::default();
    let mut coverage = Coverage::new();
    while tally.decisions < decisions {
        let mut epoch = Epoch::random(&mut dice, configuration.streams, mode);
        let settings = epoch.settings;
        epoch.settings.lowest_denominator ^= canary;
        let long = dice.one_in(20);
        // Few enough that a short run sees many contracts, too.
        let longest = LONG_EPOCH_DECISIONS.min(decisions / 5);
        let length = if long { longest } else { dice.below(EPOCH_DECISIONS).into() };
        let most = length.min(decisions - tally.decisions);
        let mut run = Run {
            core: &mut core,
            dice: &mut dice,
            epoch,
            reference: Reference::new(settings),
            queues: vec![Queue::default(); configuration.streams],
            now: 0,
            virtual_time: 0,
            coverage: Coverage::new(),
            before: Vec::new(),
        };
        let outcome = run.epoch(most).map_err(|what| {
            format!("seed {seed}, epoch {}, {settings:?}, time {}: {what}", tally.epochs, run.now)
        });
        tally.decisions += outcome?;
        tally.epochs += 1;
        coverage.add(&run.coverage);
        for stream in 0..configuration.streams {
            let attributes = run.reference.attributes(StreamId(stream as u32));
            tally.missed += attributes.missed;
            tally.violations += attributes.violations;
            tally.dropped += attributes.dropped;
            tally.serviced += attributes.serviced;
        }
    }
    Ok((tally, coverage))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let number = |argument: Option<String>| argument.map(|argument| argument.parse::<u64>());
    let (Some(Ok(decisions)), Ok(seed)) =
        (number(arguments.next()), number(arguments.next()).unwrap_or(Ok(1)))
    else {
        eprintln!("usage: millstream-rtl-bulk DECISIONS [SEED [PAGE]]");
        return ExitCode::from(2);
    };
    let page_file = arguments.next();
    let part = decisions.div_ceil((CONFIGURATIONS.len() * Mode::ALL.len()) as u64);
    if compare(CONFIGURATIONS[0], Mode::Dwcs, 100_000, seed, true).is_ok() {
        println!("the canary lives: a wrong zero-window order was not noticed");
        return ExitCode::FAILURE;
    }
    let (mut total, mut failed) = (0, false);
    let mut columns = Vec::new();
    for (configuration, seed) in CONFIGURATIONS.iter().zip(seed..) {
        let mut covered = Coverage::new();
        for mode in Mode::ALL {
            let start = Instant::now();
            let name = configuration.name;
            match compare(*configuration, mode, part, seed, false) {
                Ok((tally, seen)) => {
                    covered.add(&seen);
                    total += tally.decisions;
                    let rate = tally.decisions as f64 / start.elapsed().as_secs_f64();
                    println!("{name:8} {mode:?}, {rate:.0} decisions/s: {tally:?}");
                }
                Err(what) => {
                    failed = true;
                    println!("{name:8} {mode:?}: DIFFERS. {what}");
                }
            }
        }
        columns.push((configuration.name, covered));
    }
    println!("{total} decisions equal");
    let empty = coverage::empty(&columns);
    empty.iter().for_each(|what| println!("EMPTY {what}"));
    let page = coverage::page(&columns);
    match page_file {
        Some(path) => {
            if let Err(error) = std::fs::write(&path, page) {
                println!("{path}: {error}");
                failed = true;
            }
        }
        None => println!("{page}"),
    }
    // A short run need not meet everything.
    failed |= decisions >= COVERED && !empty.is_empty();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
