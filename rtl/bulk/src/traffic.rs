//! Random contracts and arrivals with many ties: few different contracts, small periods, and
//! overload in most epochs.

use millstream_hw::{Load, Mode, Settings};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A seeded random number generator.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates a generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns a random number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// Returns true with probability 1/`times`.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    fn byte(&mut self, below: u32) -> u8 {
        self.below(below) as u8
    }
}

/// Arrivals of an epoch.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// Every queue is refilled before it is empty.
    Backlogged,
    /// At every decision each stream gets a packet with this probability of 256.
    Chance(u32),
}

/// The parameters of an epoch.
#[derive(Debug)]
pub struct Epoch {
    /// The discipline.
    pub settings: Settings,
    /// The contracts, with deadlines relative to the epoch's start.
    pub loads: Vec<Load>,
    /// The arrivals.
    pub arrivals: Arrivals,
    /// Whether steps other than 1 occur.
    pub uneven_steps: bool,
}

impl Epoch {
    /// Returns a random epoch for `streams` streams.
    pub fn random(dice: &mut Dice, streams: usize, mode: Mode) -> Self {
        let settings = Settings {
            mode,
            lowest_denominator: mode == Mode::Dwcs && dice.one_in(3),
            rtas99: mode == Mode::Dwcs && dice.one_in(3),
        };
        let kinds = 1 + dice.below(4);
        let palette: Vec<Load> = (0..kinds).map(|_| load(dice, mode)).collect();
        let loads = (0..streams).map(|_| palette[dice.below(kinds) as usize]).collect();
        let arrivals = if dice.one_in(2) {
            Arrivals::Backlogged
        } else {
            Arrivals::Chance(1 + dice.below(256) * 4 / streams as u32)
        };
        Self { settings, loads, arrivals, uneven_steps: dice.one_in(3) }
    }
}

/// Returns a random contract.
pub fn load(dice: &mut Dice, mode: Mode) -> Load {
    let y = match dice.below(8) {
        0 => 0,
        1 => dice.byte(256),
        2 => 1,
        _ => dice.byte(12),
    };
    let x = if dice.one_in(4) { 0 } else { dice.byte(u32::from(y) + 1) };
    let period = match dice.below(8) {
        0 => 1 + dice.below(1000),
        1 | 2 => 1,
        _ => 1 + dice.below(20),
    };
    let first = dice.one_in(2);
    Load {
        deadline: u64::from(dice.below(2 * period + 4)),
        period: if mode == Mode::Tag { 1 } else { period as u16 },
        priority: dice.below(6) as u16,
        weight: 1 << dice.below(4),
        x,
        y,
        drop: u8::from(mode != Mode::Tag && dice.one_in(3)),
        first: u8::from(first),
    }
}
