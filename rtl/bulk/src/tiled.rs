//! Compares the tiled core with the engine: many streams, one scan a decision.
//!
//! A scan applies the previous decision and finds the next, so its winner is known after the next
//! may have started. `main.rs` describes the comparison. Cycles must be Streams / Width + log2
//! Width + 2 for each required scan.

use std::ffi::{c_int, c_void};

use millstream_hw::{Attributes, Mode, Reference};

use crate::length;
use crate::model::{Stream, config_bits, load_bits};
use crate::source::{Counters, Source};
use crate::traffic::{Dice, Epoch};

/// The observed results of a decision.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Decided {
    /// Cycles until the next may start.
    cycles: u64,
    /// The cycle in which a decision ended, and the number of ended decisions.
    decided_after: u64,
    decisions: u64,
    /// The time of the decision.
    now: u16,
    /// The winner of the ended decision.
    winner: u16,
    winner_valid: u8,
}

/// The configuration of a core, with its functions.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// The name.
    pub name: &'static str,
    /// Number of streams.
    pub streams: usize,
    /// Lanes of the network.
    pub width: usize,
    /// The functions of the library.
    pub functions: TiledFunctions,
}

/// The functions of a verilated core; a model is passed as a pointer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TiledFunctions {
    create: unsafe extern "C" fn() -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    load: unsafe extern "C" fn(*mut c_void, u8, c_int, u64),
    offer: unsafe extern "C" fn(*mut c_void, c_int, u16),
    decide: unsafe extern "C" fn(*mut c_void, u16, *mut Decided),
    finish: unsafe extern "C" fn(*mut c_void, *mut Decided),
    inspect: unsafe extern "C" fn(*mut c_void, c_int, *mut Stream) -> u64,
}

impl Configuration {
    fn tiles(&self) -> usize {
        self.streams / self.width
    }

    /// Cycles of a scan.
    fn cycles(&self) -> u64 {
        (self.tiles() + 2) as u64 + u64::from(self.width.ilog2())
    }
}

/// Cycles from when the next decision may start until the winner is valid.
const WINNER_AFTER: u64 = 1;

/// One instance.
struct Core {
    configuration: Configuration,
    handle: *mut c_void,
}

// SAFETY of all calls: the handle is live until dropped and exclusive, numbers are within the
// configuration's streams and tiles, structs match rows.h.
impl Core {
    fn new(configuration: Configuration) -> Self {
        // SAFETY: creates a model without arguments.
        Self { configuration, handle: unsafe { (configuration.functions.create)() } }
    }

    fn load(&mut self, config: u8, stream: usize, load: u64) {
        // SAFETY: see above.
        unsafe { (self.configuration.functions.load)(self.handle, config, stream as c_int, load) }
    }

    fn offer(&mut self, stream: usize, stamp: u16) {
        // SAFETY: see above.
        unsafe { (self.configuration.functions.offer)(self.handle, stream as c_int, stamp) }
    }

    fn decide(&mut self, step: u16) -> Decided {
        let mut decided = Decided::default();
        // SAFETY: see above.
        unsafe { (self.configuration.functions.decide)(self.handle, step, &raw mut decided) };
        decided
    }

    fn finish(&mut self) -> Decided {
        let mut decided = Decided::default();
        // SAFETY: see above.
        unsafe { (self.configuration.functions.finish)(self.handle, &raw mut decided) };
        decided
    }

    /// Returns the streams of a tile, and those outside the window.
    fn inspect(&mut self, tile: usize) -> (Vec<Stream>, u64) {
        let mut streams = vec![Stream::default(); self.configuration.width];
        // SAFETY: see above; a tile has as many streams as lanes.
        let range = unsafe {
            (self.configuration.functions.inspect)(self.handle, tile as c_int, streams.as_mut_ptr())
        };
        (streams, range)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { (self.configuration.functions.destroy)(self.handle) };
    }
}

struct Run<'a> {
    core: &'a mut Core,
    source: Source<'a>,
    /// The engine's winner of the last decision, until the hardware reports its winner.
    owed: Option<Option<usize>>,
}

impl Run<'_> {
    /// Runs one epoch of at most `most` decisions; returns their number.
    fn epoch(&mut self, most: u64) -> Result<u64, String> {
        let settings = self.source.epoch.settings;
        let (config, rtas99) = (config_bits(settings), settings.rtas99);
        let core = &mut *self.core;
        let now = core.finish().now;
        self.source.load(now, |i, load, deadline| {
            core.load(config, i, load_bits(load, rtas99, deadline, load.first != 0));
        })?;
        let mut made = 0;
        while made < most && self.decision()? {
            made += 1;
        }
        let ended = self.core.finish();
        self.ended(ended)?;
        Ok(made)
    }

    /// Checks the end of the pending decision.
    fn ended(&mut self, ended: Decided) -> Result<(), String> {
        let Some(expected) = self.owed.take() else {
            return if ended.decisions == 0 {
                Ok(())
            } else {
                Err(format!("unexpected decision: {ended:?}"))
            };
        };
        if (ended.decisions, ended.decided_after) != (1, WINNER_AFTER) {
            return Err(format!("no decision after {WINNER_AFTER} cycles: {ended:?}"));
        }
        let winner = (ended.winner_valid == 1).then_some(usize::from(ended.winner));
        if winner == expected {
            Ok(())
        } else {
            Err(format!("winner {winner:?}, the engine's {expected:?}"))
        }
    }

    /// Makes one decision; false, without one, if a value left the hardware's widths or window.
    fn decision(&mut self) -> Result<bool, String> {
        if self.source.dice.one_in(8) {
            let ended = self.core.finish();
            self.ended(ended)?;
        }
        let Self { core, source, .. } = self;
        let step = source.step();
        let before = source.all();
        let served: Vec<_> = source.reference.winners().iter().map(|s| s.index()).collect();
        source.arrive(u32::from(step), |i, stamp| core.offer(i, stamp));
        source.now += u64::from(step);
        source.reference.charge(source.now);
        let Some(all) = source.attributes() else { return Ok(false) };
        // A scan charges each stream once; streams without a head are charged from the second scan.
        let scans = (0..all.len()).map(|i| {
            let misses = all[i].missed - before[i].missed;
            misses + u64::from(misses > 0 && (served.contains(&i) || before[i].waiting == 0))
        });
        let cycles = scans.max().unwrap_or(0).max(1) * core.configuration.cycles();

        let decided = core.decide(step);
        self.ended(decided)?;
        if decided.cycles != cycles {
            return Err(format!("{} cycles rather than {cycles}", decided.cycles));
        }
        if decided.now != self.source.now as u16 {
            return Err(format!("now {}, the engine's {}", decided.now, self.source.now as u16));
        }
        let few = self.core.configuration.tiles() <= 4;
        let inspects = self.source.dice.one_in(if few { 2 } else { 16 });
        // Contexts are readable once the winner is known, in the state before its service.
        let ended = inspects.then(|| self.core.finish());
        if inspects {
            self.compare(&all)?;
        }
        self.owed = Some(self.source.decide());
        ended.map_or(Ok(()), |ended| self.ended(ended))?;
        Ok(true)
    }

    fn compare(&mut self, all: &[Attributes]) -> Result<(), String> {
        let Self { core, source, .. } = self;
        let width = core.configuration.width;
        for tile in 0..core.configuration.tiles() {
            let (streams, range) = core.inspect(tile);
            if source.timed() && range != 0 {
                return Err(format!("out of range {range:#x} in tile {tile}, though nothing is"));
            }
            for (lane, got) in streams.into_iter().enumerate() {
                let i = tile * width + lane;
                source.compare(i, lane, got, &all[i])?;
            }
        }
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
) -> Result<Counters, String> {
    let mut dice = Dice::new(seed);
    let mut core = Core::new(configuration);
    let mut tally = Counters::default();
    while tally.decisions < decisions {
        let mut epoch = Epoch::random(&mut dice, configuration.streams, mode);
        let settings = epoch.settings;
        epoch.settings.lowest_denominator ^= canary;
        let most = length(&mut dice, decisions - tally.decisions, decisions);
        let source = Source::new(&mut dice, epoch, Reference::new(settings), 1);
        let mut run = Run { core: &mut core, source, owed: None };
        let outcome = run.epoch(most).map_err(|what| {
            let (epoch, now) = (tally.epochs, run.source.now);
            format!("seed {seed}, epoch {epoch}, {settings:?}, time {now}: {what}")
        });
        tally.add(outcome?, &run.source);
    }
    Ok(tally)
}
