//! For any sequence of events, `hilq-exact` decides as `scan` does.

#[path = "../../../millstream/tests/engine/support/duel.rs"]
mod duel;

use duel::{Choose, duel};

use crate::{Mutation, Target};

pub(crate) const TARGET: Target = Target {
    name: "hilq_exact",
    first_parser: "none: every two bytes are an event",
    seeds,
    words: &[],
    mutate: Mutation::bytes,
    admits: None,
    run,
};

/// Draws choices from bytes; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Choose for Bytes<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        // Consumes only the bytes that the bound needs, so that each byte steers one choice.
        let needed = (8 - bound.saturating_sub(1).leading_zeros() as usize / 8).min(self.0.len());
        let (taken, rest) = self.0.split_at(needed);
        self.0 = rest;
        taken.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) % bound
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let lengths = [40, 200, 600];
    lengths.map(|length| (0..length).map(|_| random.u8(..)).collect()).to_vec()
}

fn run(input: &[u8]) -> bool {
    duel(&mut Bytes(input), input.len() as u64 / 2);
    input.len() >= 2
}
