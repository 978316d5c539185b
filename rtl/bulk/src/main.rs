//! Compares every configuration of the hardware with the engine, decision by decision.
//!
//! After each decision it compares the winner. Before the next one it compares every stream's head,
//! x', y', deadline and counters, and the exact number of cycles. For blocks it compares the whole
//! list with the model of `millstream_hw::block`. An epoch (one set of contracts) ends when a value
//! leaves the hardware's widths or its wrap-around window.
//!
//! Usage: millstream-rtl-bulk MODELS DECISIONS [SEED [PAGE]]. MODELS is the library that
//! `models.py` makes. DECISIONS are divided equally among the configurations and modes of
//! `msr_core`; each configuration of the pair core and of the tiled core gets the same work in
//! addition. A difference ends the run and prints the seed. Claims that are counted and canaries
//! come first: hardware with another zero-window order than the engine must be detected. The
//! coverage of configurations with one winner is written to PAGE or printed. From a million
//! decisions on an empty bin is a failure, and so is a library that lacks a core of the claims.

mod claims;
mod coverage;
mod model;
mod models;
mod pair;
mod source;
mod tiled;
mod traffic;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use millstream_hw::Mode;

use coverage::{Before, Coverage};
use model::{Configuration, Core, Outputs, config_bits, load_bits};
use models::Models;
use source::{Counters, Source};
use traffic::{Dice, Epoch};

/// Most epochs are short, to test many contracts ...
const EPOCH_DECISIONS: u32 = 600;

/// ... one in twenty is so long that deadlines drift and times wrap.
const LONG_EPOCH_DECISIONS: u64 = 30_000;

/// Minimum number of decisions for which an empty bin or an unchecked claim is a failure.
const COVERED: u64 = 1_000_000;

/// Length of an epoch in decisions, of at most `left` of `all`.
fn length(dice: &mut Dice, left: u64, all: u64) -> u64 {
    let long = dice.one_in(20);
    // Short enough that a short run tests many contracts.
    let longest = LONG_EPOCH_DECISIONS.min(all / 5);
    left.min(if long { longest } else { dice.below(EPOCH_DECISIONS).into() })
}

struct Run<'a> {
    core: &'a mut Core,
    source: Source<'a>,
    /// Stamps of packets not yet taken, by stream.
    outside: Vec<VecDeque<u16>>,
    coverage: Coverage,
    /// The streams at the previous decision.
    before: Vec<Before>,
}

impl Run<'_> {
    /// Runs one epoch of at most `most` decisions; returns their number.
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
        let Self { core, source, .. } = self;
        let settings = source.epoch.settings;
        core.inputs.decide = 0;
        core.inputs.packet_valid = 0;
        core.inputs.config = config_bits(settings);
        // A cycle in which the control unit is ready, for any earlier state.
        let out = core.settle();
        core.clock();
        source.load(out.now, |i, load, deadline| {
            core.inputs.load = load_bits(load, settings.rtas99, deadline, load.first != 0);
            core.inputs.load_valid = 1;
            core.inputs.load_id = i as u8;
            core.settle();
            core.clock();
        })?;
        core.inputs.load_valid = 0;
        Ok(())
    }

    /// Offers the packets that arrive in the next `step` ticks.
    fn arrive(&mut self, step: u32) {
        self.source.arrive(step, |i, stamp| self.outside[i].push_back(stamp));
    }

    /// Sets the queues' fronts and evaluates the outputs.
    fn settle(&mut self) -> Outputs {
        let inputs = &mut self.core.inputs;
        inputs.packet_valid = 0;
        for (i, queue) in self.outside.iter().enumerate() {
            if let Some(&stamp) = queue.front() {
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
            self.outside[take.trailing_zeros() as usize].pop_front();
            take &= take - 1;
        }
        self.core.clock();
    }

    /// Ends the last decision, idles for a while, and waits until the next can start.
    fn until_ready(
        &mut self,
        expected: Option<Option<usize>>,
        after: bool,
    ) -> Result<Outputs, String> {
        let dice = &mut self.source.dice;
        let mut gap = if dice.one_in(4) || !after { 1 + dice.below(3) } else { 0 };
        if gap > 0 {
            self.arrive(0);
            self.source.reference.charge(self.source.now);
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

    /// Checks that the list is a permutation that begins with the winner, or equals the block
    /// model's.
    fn compare_list(&mut self, winner: Option<usize>) -> Result<(), String> {
        if self.core.configuration.winner_only {
            return Ok(());
        }
        let list: Vec<_> = (0..self.outside.len()).map(|i| self.core.list(i)).collect();
        let present = list.iter().fold(0_u64, |present, entry| present | 1 << entry.1);
        let first = list[0].0.then_some(list[0].1);
        if present.count_ones() as usize != list.len() || first != winner {
            return Err(format!("the list is {list:?}, the winner {winner:?}"));
        }
        let expected = self.source.reference.list();
        let expected = expected.iter().map(|(valid, stream)| (*valid, stream.index()));
        if self.core.configuration.block > 1 && !expected.clone().eq(list.iter().copied()) {
            let expected: Vec<_> = expected.collect();
            return Err(format!("the list is {list:?}, the model's {expected:?}"));
        }
        Ok(())
    }

    /// Makes the decision that is about to start; returns the engine's winner.
    fn decision(&mut self, now: u16) -> Result<Option<usize>, String> {
        let step = self.source.step();
        let expected = self.source.decide();
        self.coverage.decided(self.source.epoch.settings, now, &self.before, expected);
        self.coverage.moved(now, now.wrapping_add(step));
        self.core.inputs.step = step;
        self.arrive(u32::from(step));
        self.source.now += u64::from(step);
        self.source.reference.charge(self.source.now);
        for cycle in 0..self.core.configuration.cycles() {
            let out = self.settle();
            if cycle > 0 && out.decided == 1 {
                return Err(format!("decided in cycle {cycle}"));
            }
            self.clock(out);
        }
        Ok(expected)
    }

    /// Compares every stream; false if a value left the hardware's widths or window.
    fn compare(&mut self, out: Outputs) -> Result<bool, String> {
        let (core, source) = (&self.core, &mut self.source);
        let Some(all) = source.attributes() else { return Ok(false) };
        if out.now != source.now as u16 {
            return Err(format!("now {}, the engine's {}", out.now, source.now as u16));
        }
        if source.timed() && out.range != 0 {
            return Err(format!("out of range {:#x}, though nothing is", out.range));
        }
        let mut streams = Vec::with_capacity(all.len());
        for (i, expected) in all.iter().enumerate() {
            let stream = core.stream(i);
            source.compare(i, i, stream, expected)?;
            streams.push(Before { stream, dropped: expected.dropped });
        }
        let settings = source.epoch.settings;
        for ((load, from), to) in source.epoch.loads.iter().zip(&self.before).zip(&streams) {
            self.coverage.changed(settings, load, from, to);
        }
        self.before = streams;
        Ok(true)
    }
}

/// Runs a number of decisions of one configuration in one mode. `canary` gives the hardware another
/// zero-window order than the engine.
fn compare(
    configuration: Configuration,
    mode: Mode,
    decisions: u64,
    seed: u64,
    canary: bool,
) -> Result<(Counters, Coverage), String> {
    let mut dice = Dice::new(seed);
    let mut core = Core::new(configuration);
    let mut counters = Counters::default();
    let mut coverage = Coverage::new();
    while counters.decisions < decisions {
        let mut epoch = Epoch::random(&mut dice, configuration.streams, mode);
        let settings = epoch.settings;
        epoch.settings.lowest_denominator ^= canary;
        let most = length(&mut dice, decisions - counters.decisions, decisions);
        let reference = configuration.reference(settings);
        let block = configuration.block as u16;
        let source = Source::new(&mut dice, epoch, reference, block);
        let outside = vec![VecDeque::new(); configuration.streams];
        let (core, before) = (&mut core, Vec::new());
        let mut run = Run { core, source, outside, coverage: Coverage::new(), before };
        let outcome = run.epoch(most).map_err(|what| {
            let (epoch, now) = (counters.epochs, run.source.now);
            format!("seed {seed}, epoch {epoch}, {settings:?}, time {now}: {what}")
        });
        counters.add(outcome?, &run.source);
        coverage.add(&run.coverage);
    }
    Ok((counters, coverage))
}

/// Returns the modes in which a configuration is compared. The engine's tags follow a virtual time
/// that advances with each service, the hardware's with each block: in blocks they differ.
fn modes(configuration: &Configuration) -> impl Iterator<Item = Mode> {
    let blocks = configuration.block > 1;
    Mode::ALL.into_iter().filter(move |mode| *mode != Mode::Tag || !blocks)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let number = |argument: Option<String>| argument.map(|argument| argument.parse::<u64>());
    let (Some(library), Some(Ok(decisions)), Ok(seed)) =
        (arguments.next(), number(arguments.next()), number(arguments.next()).unwrap_or(Ok(1)))
    else {
        eprintln!("usage: millstream-rtl-bulk MODELS DECISIONS [SEED [PAGE]]");
        return ExitCode::from(2);
    };
    let page_file = arguments.next();
    let models = match Models::load(Path::new(&library)) {
        Ok(models) => models,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    let checked = claims::check(&models);
    if let Err(what) = &checked {
        println!("the counted claims are not checked: {what}");
    }
    let parts = models.cores.iter().map(|configuration| modes(configuration).count());
    let part = decisions.div_ceil(parts.sum::<usize>() as u64);
    let mut noticed = compare(models.cores[0], Mode::Dwcs, 100_000, seed, true).is_err();
    if let Some(tiled) = models.tiled.first() {
        noticed &= tiled::compare(*tiled, Mode::Dwcs, 100_000, seed, true).is_err();
    }
    if let Some(pair) = models.pairs.first() {
        noticed &= pair::compare(*pair, Mode::Dwcs, 100_000, seed, true).is_err();
    }
    if !noticed {
        println!("canary: a wrong zero-window order was not detected");
        return ExitCode::FAILURE;
    }
    let (mut total, mut failed) = (0, false);
    let mut report =
        |name: &str, mode: Mode, start: Instant, outcome: Result<Counters, String>| match outcome {
            Ok(counters) => {
                total += counters.decisions;
                let rate = counters.decisions as f64 / start.elapsed().as_secs_f64();
                println!("{name:12} {mode:?}, {rate:.0} decisions/s: {counters:?}");
            }
            Err(what) => {
                failed = true;
                println!("{name:12} {mode:?}: DIFFERS. {what}");
            }
        };
    let mut columns = Vec::new();
    for (configuration, seed) in models.cores.iter().zip(seed..) {
        let mut covered = Coverage::new();
        for mode in modes(configuration) {
            let start = Instant::now();
            let outcome = compare(*configuration, mode, part, seed, false);
            let outcome = outcome.map(|(counters, seen)| {
                covered.add(&seen);
                counters
            });
            report(configuration.name, mode, start, outcome);
        }
        if configuration.block == 1 {
            columns.push((configuration.name, covered));
        }
    }
    for (configuration, seed) in models.pairs.iter().zip(seed..) {
        let mut covered = Coverage::new();
        for mode in Mode::ALL {
            let start = Instant::now();
            let outcome = pair::compare(*configuration, mode, part, seed, false);
            let outcome = outcome.map(|(counters, seen)| {
                covered.add(&seen);
                counters
            });
            report(configuration.name, mode, start, outcome);
        }
        columns.push((configuration.name, covered));
    }
    for (configuration, seed) in models.tiled.iter().zip(seed..) {
        for mode in Mode::ALL {
            // A scan covers all streams: the work a stream is equal to the core's.
            let part = (part * 64 / configuration.streams.max(64) as u64).max(1_000);
            let start = Instant::now();
            report(
                configuration.name,
                mode,
                start,
                tiled::compare(*configuration, mode, part, seed, false),
            );
        }
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
    // A short run need not cover every event, nor have all cores.
    failed |= decisions >= COVERED && (!empty.is_empty() || checked.is_err());
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
