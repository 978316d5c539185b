//! Compares the pair core with the engine: decisions overlap, one starts in every cycle.
//!
//! A decision's winner and state are compared when it ends, with the engine's at its start: by then
//! further decisions are on their way. When the core had to wait for the state, and after idle
//! cycles, the state is compared before the next decision. Between decisions the last stream is
//! loaded again, while packets are offered and decisions are on their way. `main.rs` describes the
//! comparison.

use std::collections::VecDeque;

use millstream_hw::Mode;

use crate::coverage::{Before, Coverage};
use crate::length;
use crate::model::{Configuration, Core, Outputs, Stream, config_bits, load_bits};
use crate::source::{Counters, Expected, Source};
use crate::traffic::{Dice, Epoch};

/// Cycles from a decision's start to its end.
const LATENCY: u64 = 3;

/// Cycles until the core has seen that a stream is idle and has a packet, and waits for its effect.
const NOTICED: u32 = 5;

/// A LOAD follows one of this many decisions.
const RELOAD_EVERY: u32 = 100;

/// A decision on its way.
#[derive(Debug)]
struct Decision {
    /// The cycle in which it ends.
    end: u64,
    /// Its time, and that of the next decision.
    now: u16,
    next: u16,
    winner: Option<usize>,
    /// The streams after it; none if a value leaves the hardware's widths or window, or if the core
    /// waits for further charges.
    streams: Option<Vec<Expected>>,
}

struct Run<'a> {
    core: &'a mut Core,
    source: Source<'a>,
    /// Stamps of packets not yet taken, by stream.
    outside: Vec<VecDeque<u16>>,
    cycle: u64,
    /// Decisions on their way, the earliest first.
    pending: VecDeque<Decision>,
    coverage: Coverage,
    /// The streams at the previous decision.
    before: Vec<Before>,
    /// Reported drops by stream.
    dropped: Vec<u64>,
    /// Decisions that started in the cycle after another's start.
    back_to_back: u64,
    /// LOADs between decisions.
    reloads: u64,
}

impl Run<'_> {
    /// Runs one epoch of at most `most` decisions; returns their number.
    fn epoch(&mut self, most: u64) -> Result<u64, String> {
        self.load()?;
        let mut made = 0;
        while made < most {
            if made > 0 && self.source.dice.one_in(RELOAD_EVERY) {
                self.reload()?;
            }
            let (now, drained) = self.until_ready(made > 0)?;
            if drained && !self.compare()? {
                return Ok(made);
            }
            made += 1;
            if !self.decision(now)? {
                break;
            }
        }
        while !self.pending.is_empty() {
            self.core.inputs.decide = 0;
            let out = self.evaluate()?;
            self.clock(out);
        }
        Ok(made)
    }

    fn load(&mut self) -> Result<(), String> {
        let settings = self.source.epoch.settings;
        self.core.inputs.decide = 0;
        self.core.inputs.config = config_bits(settings);
        let now = self.evaluate()?.now;
        let Self { core, source, cycle, .. } = self;
        source.load(now, |i, load, deadline| {
            core.inputs.load = load_bits(load, settings.rtas99, deadline, load.first != 0);
            core.inputs.load_valid = 1;
            core.inputs.load_id = i as u8;
            let mut ready = 0;
            while ready == 0 {
                ready = core.settle().load_ready;
                core.clock();
                *cycle += 1;
            }
        })?;
        core.inputs.load_valid = 0;
        // The last epoch's streams may still have been charged.
        self.dropped.fill(0);
        Ok(())
    }

    /// Loads the last stream again as soon as the core accepts it, and offers it a packet in that
    /// cycle: the first of the new contract. The packets taken before are discarded; the host
    /// withdraws those that were not.
    fn reload(&mut self) -> Result<(), String> {
        let last = self.outside.len() - 1;
        self.core.inputs.decide = 0;
        self.core.inputs.load_valid = 1;
        self.core.inputs.load_id = last as u8;
        for _ in 0..=LATENCY {
            let out = self.evaluate()?;
            if out.load_ready == 0 {
                self.clock(out);
                continue;
            }
            let rtas99 = self.source.epoch.settings.rtas99;
            let (load, deadline) = self.source.replace_last()?;
            self.core.inputs.load = load_bits(&load, rtas99, deadline, load.first != 0);
            self.outside[last].clear();
            self.outside[last].push_back(self.source.arrive_last());
            self.source.reference.charge(self.source.now);
            let out = self.settle();
            self.clock(out);
            self.core.inputs.load_valid = 0;
            self.dropped[last] = 0;
            if let Some(before) = self.before.get_mut(last) {
                *before = Before { stream: Stream::default(), dropped: 0 };
            }
            self.reloads += 1;
            return Ok(());
        }
        Err("a LOAD is not accepted after all decisions".to_owned())
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
        for (i, queue) in self.outside.iter_mut().enumerate() {
            if out.take >> i & 1 == 1 {
                queue.pop_front();
            }
        }
        self.core.clock();
        self.cycle += 1;
    }

    /// Evaluates the outputs of a cycle, and compares the decision that ends in it.
    fn evaluate(&mut self) -> Result<Outputs, String> {
        let out = self.settle();
        for (i, dropped) in self.dropped.iter_mut().enumerate() {
            *dropped += out.dropped >> i & 1;
        }
        if let Some(last) = self.pending.back_mut() {
            // The core waits for the state, which is then not final when the decision ends.
            if last.end == self.cycle + LATENCY - 1 && out.ready == 0 {
                last.streams = None;
            }
        }
        let ends = self.pending.front().is_some_and(|decision| decision.end == self.cycle);
        if (out.decided == 1) != ends {
            return Err(format!("decided is {} in cycle {}", out.decided, self.cycle));
        }
        let Some(decision) = self.pending.pop_front_if(|decision| decision.end == self.cycle)
        else {
            return Ok(out);
        };
        let winner = (out.winner_valid == 1).then_some(usize::from(out.winner));
        if winner != decision.winner {
            return Err(format!("winner {winner:?}, the engine's {:?}", decision.winner));
        }
        let settings = self.source.epoch.settings;
        self.coverage.decided(settings, decision.now, &self.before, winner);
        self.coverage.moved(decision.now, decision.next);
        if let Some(streams) = decision.streams {
            self.compare_streams(out, decision.next, &streams, true)?;
        }
        Ok(out)
    }

    /// Idles for a while, and waits until a decision can start; returns its time, and whether no
    /// other is on its way.
    fn until_ready(&mut self, after: bool) -> Result<(u64, bool), String> {
        let dice = &mut self.source.dice;
        let mut gap = 0;
        if dice.one_in(16) || !after {
            gap = 1 + dice.below(6);
            self.arrive(0);
            self.source.reference.charge(self.source.now);
            gap += NOTICED;
        }
        self.core.inputs.decide = 0;
        for cycle in 0_u32.. {
            let out = self.evaluate()?;
            if out.ready == 1 && cycle >= gap {
                self.back_to_back += u64::from(after && cycle == 0);
                return Ok((self.source.now, self.pending.is_empty()));
            }
            if cycle > 1 << 17 {
                return Err("never ready again".to_owned());
            }
            self.clock(out);
        }
        unreachable!("the loop returns")
    }

    /// Starts a decision in this cycle, which was evaluated; false if a value leaves the hardware's
    /// widths or window.
    fn decision(&mut self, now: u64) -> Result<bool, String> {
        let step = self.source.step();
        let winner = self.source.decide();
        self.core.inputs.step = step;
        self.core.inputs.decide = 1;
        self.arrive(u32::from(step));
        let out = self.settle();
        if out.ready == 0 {
            return Err("ready depends on the offered packets".to_owned());
        }
        self.clock(out);
        self.source.now += u64::from(step);
        self.source.reference.charge(self.source.now);
        let streams = self.source.attributes().map(|all| {
            all.iter().enumerate().map(|(i, one)| self.source.expected(i, one)).collect()
        });
        let inside = streams.is_some();
        self.pending.push_back(Decision {
            end: self.cycle - 1 + LATENCY,
            now: now as u16,
            next: self.source.now as u16,
            winner,
            streams,
        });
        Ok(inside)
    }

    /// Compares the state with the engine's current one; false if a value left the hardware's
    /// widths or window.
    fn compare(&mut self) -> Result<bool, String> {
        let out = self.settle();
        let Some(all) = self.source.attributes() else { return Ok(false) };
        let streams: Vec<_> =
            all.iter().enumerate().map(|(i, one)| self.source.expected(i, one)).collect();
        self.compare_streams(out, self.source.now as u16, &streams, false)?;
        Ok(true)
    }

    /// Compares the streams, at the end of a decision (`ends`) or later.
    fn compare_streams(
        &mut self,
        out: Outputs,
        now: u16,
        expected: &[Expected],
        ends: bool,
    ) -> Result<(), String> {
        if out.now != now {
            return Err(format!("now {}, the engine's {now}", out.now));
        }
        if self.source.timed() && out.range != 0 {
            return Err(format!("out of range {:#x}, though nothing is", out.range));
        }
        let mut streams = Vec::with_capacity(expected.len());
        for (i, expected) in expected.iter().enumerate() {
            let stream = self.core.stream(i);
            self.source.compare_with(i, i, stream, expected)?;
            let dropped = expected.attributes.dropped;
            if self.dropped[i] != dropped {
                return Err(format!(
                    "stream {i}: {} drops reported, the engine's {dropped}",
                    self.dropped[i]
                ));
            }
            streams.push(Before { stream, dropped });
        }
        let settings = self.source.epoch.settings;
        let pairs = self.source.epoch.loads.iter().zip(&self.before).zip(&streams);
        for (i, ((load, from), to)) in pairs.enumerate() {
            self.coverage.changed(settings, load, from, to);
            let violated = from.stream.violations != to.stream.violations;
            let reported = out.violation >> i & 1 == 1;
            // Later the flags still show those of the decision.
            if violated && !reported || ends && reported && !violated {
                return Err(format!("stream {i}: violated {violated}, reported {reported}"));
            }
        }
        self.before = streams;
        Ok(())
    }
}

/// Runs a number of decisions of one configuration in one mode. `canary` gives the hardware another
/// zero-window order than the engine.
pub fn compare(
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
    let (mut back_to_back, mut reloads) = (0, 0);
    while counters.decisions < decisions {
        let mut epoch = Epoch::random(&mut dice, configuration.streams, mode);
        let settings = epoch.settings;
        epoch.settings.lowest_denominator ^= canary;
        let most = length(&mut dice, decisions - counters.decisions, decisions);
        let mut source = Source::new(&mut dice, epoch, configuration.reference(settings), 1);
        source.punctual = true;
        let streams = configuration.streams;
        let mut run = Run {
            core: &mut core,
            source,
            outside: vec![VecDeque::new(); streams],
            cycle: 0,
            pending: VecDeque::new(),
            coverage: Coverage::new(),
            before: Vec::new(),
            dropped: vec![0; streams],
            back_to_back: 0,
            reloads: 0,
        };
        let outcome = run.epoch(most).map_err(|what| {
            let (epoch, now) = (counters.epochs, run.source.now);
            format!("seed {seed}, epoch {epoch}, {settings:?}, time {now}: {what}")
        });
        counters.add(outcome?, &run.source);
        coverage.add(&run.coverage);
        back_to_back += run.back_to_back;
        reloads += run.reloads;
    }
    // The point of the core: an error if the comparison hardly ever tried it.
    if back_to_back < counters.decisions / 4 {
        return Err(format!("only {back_to_back} decisions started back to back"));
    }
    if reloads < counters.decisions / u64::from(2 * RELOAD_EVERY) {
        return Err(format!("only {reloads} streams were loaded again"));
    }
    Ok((counters, coverage))
}
